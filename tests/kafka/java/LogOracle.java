import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.LogOffsetSnapshot;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Drives Kafka's own UnifiedLog: one log at a time, one step per line on stdin, one JSON object per line on stdout. The
 * clock stands still until setClock, and what Kafka would do in the background waits for runTasks.
 *
 * <pre>
 * open {"dir":"", "config":{}, "clean":true, "logStart":0, "recoveryPoint":0}      dir is named topic-partition
 * appendLeader {"hex":"", "leaderEpoch":0, "origin":"CLIENT", "transactionVersion":-1}
 * appendFollower {"hex":"", "leaderEpoch":0}
 * roll  flush  close                          close is preceded by a flush, as in a clean shutdown
 * truncateTo {"offset":3}                     truncateFully {"offset":3, "logStart":null}
 * deleteRecords {"offset":3}                  updateHighWatermark {"offset":3}     incrementHighWatermark {"offset":3}
 * assignEpoch {"epoch":1, "offset":3}         expireProducers
 * setClock {"ms":5}                           runTasks
 * read {"offset":3, "max":100, "isolation":"LOG_END", "minOne":true}     the records as their SHA-256
 * offsetByTimestamp {"timestamp":-1}
 * describe                                    marks, segments, leader epochs, producers; changes nothing
 * snapshot                                    marks with their places, for which Kafka looks them up
 * recoverIndexes {"dir":"", "config":{}}      LogSegment.recover over all .log files of a directory
 * </pre>
 *
 * The answer is {"value": …}; an exception of Kafka's is an answer too: {"error": class, "message": text}.
 */
public final class LogOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final int MAX_TRANSACTION_TIMEOUT_MS = 900_000;
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final SetClock CLOCK = new SetClock();
    private static final BrokerTopicStats STATS = new BrokerTopicStats();
    private static WhenTold scheduler = new WhenTold();
    private static UnifiedLog log;

    public static void main(String[] arguments) throws Exception {
        BufferedReader steps = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = steps.readLine(); line != null; line = steps.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("value", JSON.valueToTree(step(line.split(" ", 2))));
            } catch (RecordValidationException problem) {
                failed(answer, problem.invalidException());
                ArrayNode errors = answer.putArray("records");
                problem.recordErrors().forEach(error -> errors.add(error.batchIndex));
            } catch (Exception problem) {
                failed(answer, problem);
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static Object step(String[] words) throws Exception {
        JsonNode given = words.length > 1 ? JSON.readTree(words[1]) : JSON.createObjectNode();
        return switch (words[0]) {
            case "open" -> open(given);
            case "appendLeader" -> appended(log.appendAsLeader(
                records(given), given.get("leaderEpoch").asInt(), AppendOrigin.valueOf(given.get("origin").asText()),
                RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) given.get("transactionVersion").asInt()));
            case "appendFollower" -> appended(log.appendAsFollower(records(given), given.get("leaderEpoch").asInt()));
            case "roll" -> log.roll().baseOffset();
            case "flush" -> done(() -> log.flush(false));
            case "close" -> done(LogOracle::close);
            case "truncateTo" -> log.truncateTo(given.get("offset").asLong());
            case "truncateFully" -> done(() -> log.truncateFullyAndStartAt(
                given.get("offset").asLong(),
                given.hasNonNull("logStart") ? Optional.of(given.get("logStart").asLong()) : Optional.empty()));
            case "deleteRecords" -> log.maybeIncrementLogStartOffset(
                given.get("offset").asLong(), LogStartOffsetIncrementReason.ClientRecordDeletion);
            case "updateHighWatermark" -> log.updateHighWatermark(given.get("offset").asLong());
            case "incrementHighWatermark" -> log.maybeIncrementHighWatermark(end(given.get("offset").asLong())).isPresent();
            case "assignEpoch" -> done(
                () -> log.assignEpochStartOffset(given.get("epoch").asInt(), given.get("offset").asLong()));
            case "expireProducers" -> done(() -> log.removeExpiredProducers(CLOCK.milliseconds()));
            case "setClock" -> done(() -> CLOCK.now = given.get("ms").asLong());
            case "runTasks" -> done(scheduler::runDue);
            case "read" -> read(given);
            case "offsetByTimestamp" -> offsetByTimestamp(given.get("timestamp").asLong());
            case "describe" -> describe();
            case "snapshot" -> snapshot();
            case "recoverIndexes" -> done(() -> recoverIndexes(given));
            default -> throw new IllegalArgumentException("no such step: " + words[0]);
        };
    }

    private static Object open(JsonNode given) throws IOException {
        scheduler = new WhenTold();
        log = UnifiedLog.create(
            new File(given.get("dir").asText()), config(given), given.get("logStart").asLong(),
            given.get("recoveryPoint").asLong(), scheduler, STATS, CLOCK, MAX_TRANSACTION_TIMEOUT_MS,
            new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false), 600_000, new LogDirFailureChannel(1),
            given.get("clean").asBoolean(), Optional.empty());
        return null;
    }

    private static void close() {
        scheduler.runDue();
        log.flush(true);
        log.close();
    }

    private static LogConfig config(JsonNode given) {
        Map<String, String> settings = new HashMap<>();
        given.get("config").properties().forEach(field -> settings.put(field.getKey(), field.getValue().asText()));
        return new LogConfig(settings);
    }

    private static MemoryRecords records(JsonNode given) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(given.get("hex").asText())));
    }

    private static ObjectNode appended(LogAppendInfo info) {
        return JSON.createObjectNode()
            .put("firstOffset", info.firstOffset())
            .put("lastOffset", info.lastOffset())
            .put("maxTimestamp", info.maxTimestamp());
    }

    /** A mark at the log's end has a place, as a leader knows it; others have not. */
    private static LogOffsetMetadata end(long offset) {
        return offset == log.logEndOffset() ? log.logEndOffsetMetadata() : new LogOffsetMetadata(offset);
    }

    private static ObjectNode read(JsonNode given) throws Exception {
        FetchDataInfo found = log.read(
            given.get("offset").asLong(), given.get("max").asInt(), FetchIsolation.valueOf(given.get("isolation").asText()),
            given.get("minOne").asBoolean());
        ByteBuffer bytes = ByteBuffer.allocate(found.records.sizeInBytes());
        if (found.records instanceof FileRecords file) {
            file.readInto(bytes, 0);
        }
        ObjectNode answer = JSON.createObjectNode().put("size", bytes.capacity());
        answer.set("offset", place(found.fetchOffsetMetadata));
        answer.put("sha256", HEX.formatHex(MessageDigest.getInstance("SHA-256").digest(bytes.array())));
        answer.put("firstEntryIncomplete", found.firstEntryIncomplete);
        if (found.abortedTransactions.isPresent()) {
            ArrayNode aborted = answer.putArray("aborted");
            found.abortedTransactions.get().forEach(txn -> aborted.addArray().add(txn.producerId()).add(txn.firstOffset()));
        }
        return answer;
    }

    private static Object offsetByTimestamp(long timestamp) {
        var found = log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt();
        return found.map(at -> new Object[] {at.timestamp, at.offset, at.leaderEpoch.orElse(null)}).orElse(null);
    }

    private static ObjectNode describe() {
        ObjectNode answer = JSON.createObjectNode()
            .put("logStart", log.logStartOffset())
            .put("lastStable", log.lastStableOffset())
            .put("highWatermark", log.highWatermark())
            .put("logEnd", log.logEndOffset())
            .put("recoveryPoint", log.recoveryPoint());
        ArrayNode segments = answer.putArray("segments");
        log.logSegments().forEach(segment -> segments.addArray().add(segment.baseOffset()).add(segment.size()));
        ArrayNode epochs = answer.putArray("epochs");
        for (EpochEntry entry : log.leaderEpochCache().epochEntries()) {
            epochs.addArray().add(entry.epoch()).add(entry.startOffset());
        }
        ObjectNode producers = answer.putObject("producers");
        log.producerStateManager().activeProducers().forEach((id, entry) -> producers.set(id.toString(), producer(entry)));
        return answer;
    }

    private static ObjectNode producer(ProducerStateEntry entry) {
        ObjectNode answer = JSON.createObjectNode()
            .put("epoch", entry.producerEpoch())
            .put("coordinatorEpoch", entry.coordinatorEpoch())
            .put("timestamp", entry.lastTimestamp())
            .put("txn", entry.currentTxnFirstOffset().orElse(-1));
        ArrayNode batches = answer.putArray("batches");
        for (BatchMetadata batch : entry.batchMetadata()) {
            batches.addArray().add(batch.lastSeq()).add(batch.lastOffset()).add(batch.offsetDelta()).add(batch.timestamp());
        }
        return answer;
    }

    private static ObjectNode snapshot() throws IOException {
        LogOffsetSnapshot marks = log.fetchOffsetSnapshot();
        ObjectNode answer = JSON.createObjectNode().put("logStart", marks.logStartOffset());
        answer.set("lastStable", place(marks.lastStableOffset()));
        answer.set("highWatermark", place(marks.highWatermark()));
        answer.set("logEnd", place(marks.logEndOffset()));
        return answer;
    }

    private static ArrayNode place(LogOffsetMetadata mark) {
        return JSON.createArrayNode()
            .add(mark.messageOffset).add(mark.segmentBaseOffset).add(mark.relativePositionInSegment);
    }

    /** Transactions go on from one segment to the next, and so does the producer state. */
    private static void recoverIndexes(JsonNode given) {
        File directory = new File(given.get("dir").asText());
        TopicPartition partition = new TopicPartition("recovered", 0);
        File[] logs = directory.listFiles((folder, name) -> name.endsWith(".log"));
        Arrays.sort(logs);
        try {
            ProducerStateManager producers = new ProducerStateManager(
                partition, directory, MAX_TRANSACTION_TIMEOUT_MS,
                new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false), CLOCK);
            File file = LeaderEpochCheckpointFile.newFile(directory);
            LeaderEpochFileCache epochs = new LeaderEpochFileCache(
                partition, new LeaderEpochCheckpointFile(file, new LogDirFailureChannel(1)), scheduler);
            for (File each : logs) {
                long base = UnifiedLog.offsetFromFile(each);
                LogSegment segment = LogSegment.open(directory, base, config(given), CLOCK, 0, false);
                segment.recover(producers, epochs);
                segment.close();
            }
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static Object done(Runnable step) {
        step.run();
        return null;
    }

    private static void failed(ObjectNode answer, Throwable problem) {
        answer.put("error", problem.getClass().getSimpleName()).put("message", String.valueOf(problem.getMessage()));
    }

    /** A clock that stands where it is put. */
    private static final class SetClock implements Time {
        private long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException("nothing here waits");
        }
    }

    /** A scheduler that runs what is due when it is told to; what repeats itself (expiry) is a step of its own here. */
    private static final class WhenTold implements Scheduler {
        private record Task(long at, long number, Runnable work) {}

        private final PriorityQueue<Task> tasks =
            new PriorityQueue<>(Comparator.comparingLong(Task::at).thenComparingLong(Task::number));
        private long count;

        void runDue() {
            while (!tasks.isEmpty() && tasks.peek().at() <= CLOCK.now) {
                tasks.poll().work().run();
            }
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable work, long delayMs, long periodMs) {
            if (periodMs < 0) {
                tasks.add(new Task(CLOCK.now + Math.max(delayMs, 0), count++, work));
            }
            return new NeverAsked();
        }

        @Override
        public void startup() {}

        @Override
        public void shutdown() {}

        @Override
        public void resizeThreadPool(int size) {}
    }

    /** What schedule has to return; Kafka only ever cancels it. */
    private static final class NeverAsked extends CompletableFuture<Object> implements ScheduledFuture<Object> {
        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }
}
