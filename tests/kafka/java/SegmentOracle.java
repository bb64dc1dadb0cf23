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
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.TimestampOffset;

/**
 * Drives Kafka's own LogSegment: one segment at a time, one step per line on stdin, one JSON object per line on stdout.
 *
 * <pre>
 * open {"dir":"", "base":0, "interval":4096, "indexBytes":1024}   also to open it again after close
 * append {"hex":"", "largest":5}        read {"offset":3, "max":100, "maxPosition":50, "minOne":true}
 * translate {"offset":3}                time {"timestamp":7, "start":0}      upper {"position":0, "size":9}
 * next  max  inactive  flush  close     truncate {"offset":3}   resize {"indexBytes":1024}
 * waited {"now":5, "timestamp":7}       rename {"old":"", "new":".deleted"}
 * abort {"producerId":1, "first":0, "last":29, "stable":8}      aborted {"from":0, "upper":10}
 * recover                               with the producers and leader epochs that it finds
 * </pre>
 *
 * The answer is {"value": …}; an exception of Kafka's is an answer too: {"error": class, "message": text}.
 */
public final class SegmentOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final TopicPartition PARTITION = new TopicPartition("segment", 0);
    private static final KafkaScheduler SCHEDULER = new KafkaScheduler(1, true, "oracle");
    private static LogSegment segment;
    private static File directory;

    public static void main(String[] arguments) throws Exception {
        SCHEDULER.startup();
        BufferedReader steps = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = steps.readLine(); line != null; line = steps.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("value", JSON.valueToTree(step(line.split(" ", 2))));
            } catch (Exception problem) {
                answer.put("error", problem.getClass().getSimpleName());
                answer.put("message", String.valueOf(problem.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static Object step(String[] words) throws Exception {
        JsonNode given = words.length > 1 ? JSON.readTree(words[1]) : null;
        switch (words[0]) {
            case "open" -> open(given);
            case "append" -> segment.append(
                given.get("largest").asLong(),
                MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(given.get("hex").asText()))));
            case "inactive" -> segment.onBecomeInactiveSegment();
            case "flush" -> segment.flush();
            case "close" -> segment.close();
            case "resize" -> segment.resizeIndexes(given.get("indexBytes").asInt());
            case "rename" -> segment.changeFileSuffixes(given.get("old").asText(), given.get("new").asText());
            case "abort" -> segment.updateTxnIndex(
                new CompletedTxn(
                    given.get("producerId").asLong(), given.get("first").asLong(), given.get("last").asLong(), true),
                given.get("stable").asLong());
            case "truncate" -> {
                return segment.truncateTo(given.get("offset").asLong());
            }
            case "next" -> {
                return segment.readNextOffset();
            }
            case "max" -> {
                TimestampOffset max = segment.readMaxTimestampAndOffsetSoFar();
                return new long[] {max.timestamp(), max.offset()};
            }
            case "waited" -> {
                return segment.timeWaitedForRoll(given.get("now").asLong(), given.get("timestamp").asLong());
            }
            case "read" -> {
                return read(given);
            }
            case "translate" -> {
                FileRecords.LogOffsetPosition found = segment.translateOffset(given.get("offset").asLong());
                return found == null ? null : new long[] {found.offset, found.position, found.size};
            }
            case "time" -> {
                return time(given);
            }
            case "upper" -> {
                var upper = segment.fetchUpperBoundOffset(
                    new OffsetPosition(0, given.get("position").asInt()), given.get("size").asInt());
                return upper.isPresent() ? upper.getAsLong() : null;
            }
            case "aborted" -> {
                return aborted(given);
            }
            case "recover" -> {
                return recover();
            }
            default -> throw new IllegalArgumentException("no such step: " + words[0]);
        }
        return null;
    }

    private static void open(JsonNode given) throws IOException {
        directory = new File(given.get("dir").asText());
        LogConfig config = new LogConfig(Map.of(
            "index.interval.bytes", given.get("interval").asText(), "segment.index.bytes", given.get("indexBytes").asText()));
        segment = LogSegment.open(directory, given.get("base").asLong(), config, Time.SYSTEM, 0, false);
    }

    private static Object read(JsonNode given) throws IOException {
        JsonNode end = given.get("maxPosition");
        FetchDataInfo found = segment.read(
            given.get("offset").asLong(),
            given.get("max").asInt(),
            Optional.of(end.isNull() ? (long) segment.size() : end.asLong()),
            given.get("minOne").asBoolean());
        return found == null ? null : new Object[] {
            found.fetchOffsetMetadata.messageOffset,
            found.fetchOffsetMetadata.relativePositionInSegment,
            found.records.sizeInBytes(),
            found.firstEntryIncomplete};
    }

    private static Object time(JsonNode given) throws IOException {
        var found = segment.findOffsetByTimestamp(given.get("timestamp").asLong(), given.get("start").asLong());
        return found.map(at -> new Object[] {at.timestamp, at.offset, at.leaderEpoch.orElse(null)}).orElse(null);
    }

    private static ObjectNode aborted(JsonNode given) {
        var found = segment.collectAbortedTxns(given.get("from").asLong(), given.get("upper").asLong());
        ObjectNode answer = JSON.createObjectNode().put("complete", found.isComplete());
        ArrayNode list = answer.putArray("list");
        found.abortedTransactions().forEach(txn -> list.add(JSON.valueToTree(
            new long[] {txn.producerId(), txn.firstOffset(), txn.lastOffset(), txn.lastStableOffset()})));
        return answer;
    }

    private static ObjectNode recover() throws IOException {
        ProducerStateManager producers = new ProducerStateManager(
            PARTITION, directory, 900000, new ProducerStateManagerConfig(86400000, false), Time.SYSTEM);
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(
            PARTITION,
            new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(directory), new LogDirFailureChannel(1)),
            SCHEDULER);
        ObjectNode answer = JSON.createObjectNode().put("truncated", segment.recover(producers, epochs));
        ArrayNode epochList = answer.putArray("epochs");
        for (EpochEntry entry : epochs.epochEntries()) {
            epochList.add(JSON.valueToTree(new long[] {entry.epoch(), entry.startOffset()}));
        }
        ArrayNode list = answer.putArray("producers");
        producers.activeProducers().forEach((id, entry) -> list.add(producer(id, entry)));
        return answer;
    }

    private static ObjectNode producer(long id, ProducerStateEntry entry) {
        ObjectNode answer = JSON.createObjectNode();
        answer.put("id", id).put("epoch", entry.producerEpoch()).put("coordinatorEpoch", entry.coordinatorEpoch());
        answer.put("timestamp", entry.lastTimestamp());
        answer.put("txn", entry.currentTxnFirstOffset().orElse(-1));
        ArrayNode batches = answer.putArray("batches");
        for (BatchMetadata batch : entry.batchMetadata()) {
            batches.add(JSON.valueToTree(
                new long[] {batch.lastSeq(), batch.lastOffset(), batch.offsetDelta(), batch.timestamp()}));
        }
        return answer;
    }
}
