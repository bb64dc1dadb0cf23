import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.AbstractLegacyRecordBatch;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Answers questions about record batches with Kafka's own record classes: one question per line on stdin, one JSON
 * object per line on stdout. Bytes are hex, null stays null, names are Kafka's.
 *
 * <pre>
 * decode HEX                        all batches with their records
 * build {"magic":2, "records":[]}   a batch or message set
 * compress CODEC[:LEVEL] MAGIC HEX  what Kafka's codec writes
 * decompress CODEC MAGIC HEX
 * set {"hex":"", "lastOffset":9}    the first batch, changed in place as a broker does on append
 * emptyBatch {"baseOffset":5}       the header without records that compaction leaves
 * </pre>
 *
 * An exception of Kafka's is an answer too: {"error": class, "message": text}.
 */
public final class RecordsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final int ATTRIBUTES_AT_V2 = 21;
    private static final int ATTRIBUTES_AT_LEGACY = 17;

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer;
            try {
                answer = answer(line);
            } catch (Exception | OutOfMemoryError | StackOverflowError problem) {
                answer = failed(JSON.createObjectNode(), problem);
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static ObjectNode answer(String line) throws Exception {
        String[] words = line.split(" ", 2);
        String question = words.length > 1 ? words[1] : "";
        return switch (words[0]) {
            case "decode" -> decode(HEX.parseHex(question));
            case "build" -> hex(build(JSON.readTree(question)));
            case "compress" -> hex(compress(question.split(" ", 3)));
            case "decompress" -> hex(decompress(question.split(" ", 3)));
            case "set" -> hex(set(JSON.readTree(question)));
            case "emptyBatch" -> hex(emptyBatch(JSON.readTree(question)));
            default -> throw new IllegalArgumentException("no such question: " + words[0]);
        };
    }

    private static ObjectNode decode(byte[] bytes) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode batches = answer.putArray("batches");
        int position = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            ObjectNode described = batches.addObject().put("position", position);
            try {
                describe(described, batch, bytes, position);
            } catch (RuntimeException | OutOfMemoryError problem) {
                failed(described, problem); // other batches may still be fine
            }
            position += batch.sizeInBytes();
        }
        return answer.put("validBytes", position);
    }

    private static void describe(ObjectNode described, MutableRecordBatch batch, byte[] bytes, int position) {
        boolean legacy = batch.magic() < RecordBatch.MAGIC_VALUE_V2;
        ByteBuffer raw = ByteBuffer.wrap(bytes);
        described.put("size", batch.sizeInBytes())
            .put("magic", batch.magic())
            .put("crc", batch.checksum())
            .put("valid", batch.isValid())
            .put("attributes", legacy
                ? raw.get(position + ATTRIBUTES_AT_LEGACY) : raw.getShort(position + ATTRIBUTES_AT_V2))
            .put("codec", batch.compressionType().name)
            .put("timestampType", batch.timestampType().name)
            .put("maxTimestamp", batch.maxTimestamp())
            .put("lastOffset", batch.lastOffset())
            .put("partitionLeaderEpoch", batch.partitionLeaderEpoch())
            .put("producerId", batch.producerId())
            .put("producerEpoch", batch.producerEpoch())
            .put("baseSequence", batch.baseSequence())
            .put("lastSequence", batch.lastSequence())
            .put("isTransactional", batch.isTransactional())
            .put("isControl", batch.isControlBatch())
            .put("deleteHorizonMs", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
        if (!legacy) {
            described.put("baseTimestamp", ((DefaultRecordBatch) batch).baseTimestamp());
        }
        described.put("baseOffset", batch.baseOffset()); // of a compressed legacy set: found by decompressing it
        ArrayNode records = JSON.createArrayNode();
        for (Record record : batch) {
            describe(records.addObject(), record, batch.isControlBatch());
        }
        described.set("records", records);
    }

    private static void describe(ObjectNode described, Record record, boolean control) {
        described.put("offset", record.offset())
            .put("timestamp", record.timestamp())
            .put("sequence", record.sequence())
            .put("key", hexOf(record.key()))
            .put("value", hexOf(record.value()));
        ArrayNode headers = described.putArray("headers");
        for (Header header : record.headers()) {
            byte[] value = header.value();
            headers.addArray().add(header.key()).add(value == null ? null : HEX.formatHex(value));
        }
        if (record instanceof AbstractLegacyRecordBatch legacy) {
            described.put("crc", legacy.checksum()).put("valid", legacy.isValid());
        }
        if (control) {
            described.put("controlType", ControlRecordType.fromTypeId(ControlRecordType.parseTypeId(record.key())).name());
        }
    }

    private static ByteBuffer build(JsonNode wanted) {
        byte magic = (byte) wanted.path("magic").asInt(2);
        boolean control = wanted.path("isControl").asBoolean(false);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(512), magic, compression(wanted.path("codec").asText("none")), timestampType(wanted),
            wanted.path("baseOffset").asLong(0), wanted.path("logAppendTime").asLong(RecordBatch.NO_TIMESTAMP),
            wanted.path("producerId").asLong(-1), (short) wanted.path("producerEpoch").asInt(-1),
            wanted.path("baseSequence").asInt(-1), wanted.path("isTransactional").asBoolean(false), control,
            wanted.path("partitionLeaderEpoch").asInt(-1), Integer.MAX_VALUE,
            wanted.path("deleteHorizonMs").asLong(RecordBatch.NO_TIMESTAMP));
        long offset = wanted.path("baseOffset").asLong(0);
        for (JsonNode record : wanted.path("records")) {
            offset = record.path("offset").asLong(offset);
            if (control) {
                appendControl(builder, record);
            } else {
                builder.appendWithOffset(offset, record.path("timestamp").asLong(RecordBatch.NO_TIMESTAMP),
                    bytesOf(record.get("key")), bytesOf(record.get("value")), headersOf(record));
            }
            offset++;
        }
        if (wanted.has("lastOffset")) {
            builder.overrideLastOffset(wanted.get("lastOffset").asLong());
        }
        return builder.build().buffer();
    }

    private static void appendControl(MemoryRecordsBuilder builder, JsonNode record) {
        ControlRecordType type = ControlRecordType.valueOf(record.path("controlType").asText());
        long timestamp = record.path("timestamp").asLong(RecordBatch.NO_TIMESTAMP);
        if (record.has("coordinatorEpoch")) {
            builder.appendEndTxnMarker(timestamp, new EndTransactionMarker(type, record.get("coordinatorEpoch").asInt()));
        } else {
            builder.appendControlRecord(timestamp, type, ByteBuffer.wrap(bytesOf(record.get("value"))));
        }
    }

    private static ByteBuffer compress(String[] words) throws Exception {
        ByteBufferOutputStream compressed = new ByteBufferOutputStream(512);
        try (OutputStream stream = compression(words[0]).wrapForOutput(compressed, Byte.parseByte(words[1]))) {
            stream.write(HEX.parseHex(words[2]));
        }
        return compressed.buffer().flip();
    }

    private static ByteBuffer decompress(String[] words) throws Exception {
        ByteBuffer compressed = ByteBuffer.wrap(HEX.parseHex(words[2]));
        byte magic = Byte.parseByte(words[1]);
        try (InputStream stream = compression(words[0]).wrapForInput(compressed, magic, BufferSupplier.NO_CACHING)) {
            return ByteBuffer.wrap(stream.readAllBytes());
        }
    }

    private static ByteBuffer set(JsonNode wanted) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytesOf(wanted.get("hex"))));
        MutableRecordBatch batch = records.batches().iterator().next();
        if (wanted.has("lastOffset")) {
            batch.setLastOffset(wanted.get("lastOffset").asLong());
        }
        if (wanted.has("maxTimestamp")) {
            batch.setMaxTimestamp(timestampType(wanted), wanted.get("maxTimestamp").asLong());
        }
        if (wanted.has("partitionLeaderEpoch")) {
            batch.setPartitionLeaderEpoch(wanted.get("partitionLeaderEpoch").asInt());
        }
        return records.buffer();
    }

    private static ByteBuffer emptyBatch(JsonNode wanted) {
        ByteBuffer header = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(header, RecordBatch.CURRENT_MAGIC_VALUE,
            wanted.path("producerId").asLong(-1), (short) wanted.path("producerEpoch").asInt(-1),
            wanted.path("baseSequence").asInt(-1), wanted.path("baseOffset").asLong(0), wanted.path("lastOffset").asLong(0),
            wanted.path("partitionLeaderEpoch").asInt(-1), timestampType(wanted),
            wanted.path("maxTimestamp").asLong(RecordBatch.NO_TIMESTAMP),
            wanted.path("isTransactional").asBoolean(false), wanted.path("isControl").asBoolean(false));
        return header.flip();
    }

    private static Compression compression(String named) {
        String[] words = named.split(":");
        CompressionType type = CompressionType.forName(words[0]);
        if (words.length == 1) {
            return Compression.of(type).build();
        }
        int level = Integer.parseInt(words[1]);
        return switch (type) {
            case GZIP -> Compression.gzip().level(level).build();
            case LZ4 -> Compression.lz4().level(level).build();
            case ZSTD -> Compression.zstd().level(level).build();
            default -> throw new IllegalArgumentException(named + ": this codec has no levels");
        };
    }

    private static TimestampType timestampType(JsonNode wanted) {
        byte magic = (byte) wanted.path("magic").asInt(2);
        boolean untimed = magic == RecordBatch.MAGIC_VALUE_V0;
        return TimestampType.forName(wanted.path("timestampType").asText(untimed ? "NoTimestampType" : "CreateTime"));
    }

    private static Header[] headersOf(JsonNode record) {
        Header[] headers = new Header[record.path("headers").size()];
        for (int i = 0; i < headers.length; i++) {
            JsonNode header = record.get("headers").get(i);
            headers[i] = new RecordHeader(header.get(0).asText(), bytesOf(header.get(1)));
        }
        return headers;
    }

    private static byte[] bytesOf(JsonNode hex) {
        return hex == null || hex.isNull() ? null : HEX.parseHex(hex.asText());
    }

    private static String hexOf(ByteBuffer bytes) {
        if (bytes == null) {
            return null;
        }
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return HEX.formatHex(copy);
    }

    private static ObjectNode hex(ByteBuffer bytes) {
        return JSON.createObjectNode().put("hex", hexOf(bytes));
    }

    private static ObjectNode failed(ObjectNode answer, Throwable problem) {
        return answer.put("error", problem.getClass().getName()).put("message", String.valueOf(problem.getMessage()));
    }
}
