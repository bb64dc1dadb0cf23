import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Kafka's LogValidator and ProducerStateManager, asked one JSON question per line on stdin and answering with one
 * JSON object per line on stdout.
 *
 * <pre>
 * validate {"hex":"", "codec":"producer", ...}   what a leader makes of these batches, or why it refuses them
 * producers {"directory":"", ...}                a new state manager, to which the next two speak
 * append {"hex":"", "origin":"CLIENT", ...}      a set against the state; the answer has the state afterwards
 * do {"what":"snapshot", "offset":5}             anything else that changes it; likewise
 * </pre>
 *
 * An exception of Kafka's is an answer too: {"error": class, "message": text}.
 */
public final class ValidationOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final TopicPartition PARTITION = new TopicPartition("oracle", 0);

    private static ProducerStateManager producers;

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer;
            try {
                String[] words = line.split(" ", 2);
                answer = answer(words[0], JSON.readTree(words[1]));
            } catch (RecordValidationException refused) {
                answer = failed(refused.invalidException());
                ArrayNode indexes = answer.putArray("recordErrors");
                refused.recordErrors().forEach(error -> indexes.add(error.batchIndex));
            } catch (Exception problem) {
                answer = failed(problem);
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static ObjectNode answer(String question, JsonNode wanted) throws Exception {
        switch (question) {
            case "validate":
                return validate(wanted);
            case "producers":
                producers = new ProducerStateManager(PARTITION, new File(wanted.get("directory").asText()),
                    wanted.path("maxTransactionTimeoutMs").asInt(900000),
                    new ProducerStateManagerConfig(wanted.path("producerIdExpirationMs").asInt(86400000), false),
                    timeAt(wanted.path("now").asLong(0)));
                return state();
            case "append":
                return append(wanted);
            case "do":
                act(wanted);
                return state();
            default:
                throw new IllegalArgumentException("no such question: " + question);
        }
    }

    private static ObjectNode validate(JsonNode wanted) {
        MemoryRecords records = recordsOf(wanted);
        CompressionType source = CompressionType.NONE;
        for (MutableRecordBatch batch : records.batches()) {
            if (batch.compressionType() != CompressionType.NONE) {
                source = batch.compressionType();
            }
        }
        String codec = wanted.get("codec").asText();
        CompressionType target = codec.equals("producer") ? source : CompressionType.forName(codec);
        PrimitiveRef.LongRef next = PrimitiveRef.ofLong(wanted.get("nextOffset").asLong());
        LogValidator validator = new LogValidator(records, PARTITION, timeAt(wanted.get("now").asLong()), source,
            Compression.of(target).build(), wanted.get("compacted").asBoolean(), RecordBatch.CURRENT_MAGIC_VALUE,
            TimestampType.forName(wanted.get("timestampType").asText()), wanted.get("beforeMaxMs").asLong(),
            wanted.get("afterMaxMs").asLong(), wanted.get("leaderEpoch").asInt(),
            AppendOrigin.valueOf(wanted.get("origin").asText()));
        LogValidator.ValidationResult result =
            validator.validateMessagesAndAssignOffsets(next, new NoMetrics(), BufferSupplier.NO_CACHING);
        ByteBuffer bytes = result.validatedRecords().buffer().duplicate();
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        return JSON.createObjectNode()
            .put("hex", HEX.formatHex(copy))
            .put("maxTimestamp", result.maxTimestampMs())
            .put("logAppendTime", result.logAppendTimeMs())
            .put("isRebuilt", result.messageSizeMaybeChanged())
            .put("nextOffset", next.value);
    }

    /** As UnifiedLog does under its lock: a duplicate ends it, then every batch is staged, then all is taken over. */
    private static ObjectNode append(JsonNode wanted) {
        AppendOrigin origin = AppendOrigin.valueOf(wanted.get("origin").asText());
        short version = (short) wanted.path("transactionVersion").asInt(-1);
        Map<Long, ProducerAppendInfo> staged = new LinkedHashMap<>();
        List<CompletedTxn> completed = new ArrayList<>();
        long end = producers.mapEndOffset();
        for (MutableRecordBatch batch : recordsOf(wanted).batches()) {
            end = batch.nextOffset();
            if (!batch.hasProducerId()) {
                continue;
            }
            if (origin == AppendOrigin.CLIENT && isDuplicate(batch)) {
                return state().put("isDuplicate", true);
            }
            ProducerAppendInfo info = staged.computeIfAbsent(batch.producerId(), id -> producers.prepareUpdate(id, origin));
            info.append(batch, Optional.empty(), version).ifPresent(completed::add);
        }
        staged.values().forEach(producers::update);
        ArrayNode ended = JSON.createArrayNode();
        for (CompletedTxn txn : completed) {
            ended.addArray().add(txn.producerId()).add(txn.firstOffset()).add(txn.lastOffset()).add(txn.isAborted())
                .add(producers.lastStableOffset(txn));
            producers.completeTxn(txn);
        }
        producers.updateMapEndOffset(end);
        ObjectNode answer = state();
        answer.set("completed", ended);
        return answer;
    }

    private static boolean isDuplicate(MutableRecordBatch batch) {
        Optional<ProducerStateEntry> entry = producers.lastEntry(batch.producerId());
        return entry.isPresent() && entry.get().producerEpoch() == batch.producerEpoch()
            && entry.get().batchMetadata().stream().anyMatch(
                known -> known.firstSeq() == batch.baseSequence() && known.lastSeq() == batch.lastSequence());
    }

    private static void act(JsonNode wanted) throws Exception {
        long offset = wanted.path("offset").asLong();
        switch (wanted.get("what").asText()) {
            case "snapshot" -> producers.takeSnapshot();
            case "highWatermark" -> producers.onHighWatermarkUpdated(offset);
            case "logStart" -> producers.onLogStartOffsetIncremented(offset);
            case "truncate" -> producers.truncateAndReload(
                wanted.get("start").asLong(), offset, wanted.get("now").asLong());
            case "truncateFully" -> producers.truncateFullyAndStartAt(offset);
            case "deleteBefore" -> producers.deleteSnapshotsBefore(offset);
            case "expire" -> producers.removeExpiredProducers(wanted.get("now").asLong());
            default -> throw new IllegalArgumentException(wanted.toString());
        }
    }

    private static ObjectNode state() {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode entries = answer.putArray("producers");
        new TreeMap<>(producers.activeProducers()).values().forEach(entry -> {
            ArrayNode fields = entries.addArray().add(entry.producerId()).add(entry.producerEpoch())
                .add(entry.coordinatorEpoch()).add(entry.lastTimestamp()).add(entry.currentTxnFirstOffset().orElse(-1));
            ArrayNode batches = fields.addArray();
            for (BatchMetadata batch : entry.batchMetadata()) {
                batches.addArray().add(batch.lastSeq()).add(batch.lastOffset()).add(batch.offsetDelta()).add(batch.timestamp());
            }
        });
        answer.put("firstUnstable", producers.firstUnstableOffset().map(mark -> mark.messageOffset).orElse(-1L))
            .put("firstUndecided", producers.firstUndecidedOffset().orElse(-1))
            .put("mapEnd", producers.mapEndOffset())
            .put("isEmpty", producers.isEmpty())
            .put("latestSnapshot", producers.latestSnapshotOffset().orElse(-1));
        return answer;
    }

    private static MemoryRecords recordsOf(JsonNode wanted) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(wanted.get("hex").asText())));
    }

    private static ObjectNode failed(Throwable problem) {
        return JSON.createObjectNode().put("error", problem.getClass().getSimpleName())
            .put("message", String.valueOf(problem.getMessage()));
    }

    private static Time timeAt(long now) {
        return new Time() {
            @Override
            public long milliseconds() {
                return now;
            }

            @Override
            public long nanoseconds() {
                return now * 1000000;
            }

            @Override
            public void sleep(long ms) {
                throw new UnsupportedOperationException("this clock stands still");
            }

            @Override
            public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
                throw new UnsupportedOperationException("this clock stands still");
            }
        };
    }

    private static final class NoMetrics implements LogValidator.MetricsRecorder {
        @Override
        public void recordInvalidMagic() { }

        @Override
        public void recordInvalidOffset() { }

        @Override
        public void recordInvalidSequence() { }

        @Override
        public void recordInvalidChecksums() { }

        @Override
        public void recordNoKeyCompactedTopic() { }
    }
}
