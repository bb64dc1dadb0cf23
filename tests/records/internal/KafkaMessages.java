import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * Makes the vectors of this folder with Kafka's own generated classes and its own dump tool.
 *
 * <p>Every schema, in every version, four times: "full" (all fields set, two elements an array), "default" (a new
 * object), "nulls" (null wherever it may be, one element an array) and "odd" (extreme numbers, odd text, tags that
 * no schema has). Kafka's table of fields says what a version has; our own table plays no part.
 *
 * <p>javac -cp 'JARS/*' -d OUT KafkaMessages.java; java -cp 'OUT:JARS/*' KafkaMessages MESSAGES DUMPED.
 * MESSAGES gets a line for each message (bytes, JSON); DUMPED one for each record put in a log file of its topic
 * and dumped by the tool (key, value, the line it printed).
 */
public final class KafkaMessages {
    private static final String GROUP = "org.apache.kafka.coordinator.group.generated.";
    private static final String TRANSACTION = "org.apache.kafka.coordinator.transaction.generated.";
    private static final String SHARE = "org.apache.kafka.coordinator.share.generated.";
    private static final String METADATA = "org.apache.kafka.common.metadata.";
    private static final String CLIENTS = "org.apache.kafka.common.message.";
    private static final String[] ODD_TEXT = {
        "", "\"quoted\\back\"", "\u0000\u0001\u001f\u007f", "tab\tline\nfeed\f\r\b", "Grüße/€/\uD83D\uDE00/\u2028",
        "x".repeat(200)
    };
    private static final double[] ODD_DOUBLES = {
        0.0, -0.0, 1e7, 9999999.5, 0.001, 0.00099, 1.5e300, 1e-300, 1048576.0, -1234567.891, Double.NaN,
        Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, Double.MAX_VALUE, 1e21
    };
    private static final String[] NOT_UTF_8 = {
        "61ff62", "61c3", "c328", "eda080", "f09f98", "e28261", "c080", "e080af", "f8888080806b", "f4908080", "80bf"
    };
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final List<String> VARIANTS = List.of("full", "default", "nulls", "odd");

    private final Random random = new Random(431);
    private String variant;

    private record Row(String control, byte[] keyBytes, byte[] valueBytes) {}

    public static void main(String[] arguments) throws Exception {
        KafkaMessages maker = new KafkaMessages();
        try (PrintStream messages = new PrintStream(arguments[0], StandardCharsets.UTF_8);
                PrintStream dumped = new PrintStream(arguments[1], StandardCharsets.UTF_8)) {
            maker.coordinator(messages, dumped, GROUP, "__consumer_offsets", "--offsets-decoder");
            maker.coordinator(messages, dumped, TRANSACTION, "__transaction_state", "--transaction-log-decoder");
            maker.coordinator(messages, dumped, SHARE, "__share_group_state", "--share-group-state-decoder");
            maker.metadata(messages, dumped);
            maker.control(messages, dumped);
            for (String name : List.of("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")) {
                maker.all(messages, CLIENTS + name, "");
            }
        }
    }

    /** Messages of one coordinator: each value under its key, then what no healthy broker writes. */
    private void coordinator(PrintStream messages, PrintStream dumped, String folder, String topic, String option)
            throws Exception {
        List<Row> rows = new ArrayList<>();
        for (Object constant : Class.forName(folder + "CoordinatorRecordType").getEnumConstants()) {
            short id = (short) constant.getClass().getMethod("id").invoke(constant);
            String key = constant.getClass().getMethod("newRecordKey").invoke(constant).getClass().getName();
            String value = constant.getClass().getMethod("newRecordValue").invoke(constant).getClass().getName();
            List<byte[]> keys = all(messages, key, constant.toString());
            List<byte[]> values = all(messages, value, constant.toString());
            for (int i = 0; i < values.size(); i++) {
                rows.add(new Row(null, prefixed(id, strip(keys.get(i % 4))), values.get(i)));
            }
            rows.add(new Row(null, prefixed(id, strip(keys.get(0))), null));
            rows.add(new Row(null, prefixed(id, strip(keys.get(0))), prefixed((short) 77, new byte[9])));
            rows.add(new Row(null, prefixed(id, strip(keys.get(0))), prefixed((short) -1, new byte[9])));
            rows.add(new Row(null, prefixed(id, strip(keys.get(0))), new byte[1]));
        }
        rows.add(new Row(null, prefixed((short) 99, new byte[3]), new byte[] {0, 0, 7}));
        rows.add(new Row(null, prefixed((short) -5, new byte[3]), null));
        rows.add(new Row(null, new byte[1], new byte[] {0, 0, 7}));
        if (topic.equals("__consumer_offsets")) {
            rows.addAll(classicGroups());
        }
        if (topic.equals("__transaction_state")) {
            for (String text : NOT_UTF_8) {
                byte[] raw = HexFormat.of().parseHex(text);
                byte[] id = ByteBuffer.allocate(2 + raw.length).putShort((short) raw.length).put(raw).array();
                rows.add(new Row(null, prefixed((short) 0, id), null));
            }
        }
        dump(dumped, topic, option, rows, false);
    }

    /** Classic groups, whose members hold messages of their own: every version, none, and damaged ones. */
    private List<Row> classicGroups() throws Exception {
        List<Row> rows = new ArrayList<>();
        byte[] key = prefixed((short) 2, new byte[] {0, 1, 'g'});
        List<byte[]> subscriptions = all(null, CLIENTS + "ConsumerProtocolSubscription", "");
        List<byte[]> assignments = all(null, CLIENTS + "ConsumerProtocolAssignment", "");
        subscriptions.add(new byte[0]);
        subscriptions.add(new byte[] {0, 1, 0, 0, 0, 9});
        for (int i = 0; i < subscriptions.size(); i++) {
            for (String type : List.of("consumer", "connect")) {
                variant = "full";
                Object value = Class.forName(GROUP + "GroupMetadataValue").getConstructor().newInstance();
                fill(value, schemas(value)[3]);
                value.getClass().getMethod("setProtocolType", String.class).invoke(value, type);
                for (Object member : (Collection<?>) value.getClass().getMethod("members").invoke(value)) {
                    byte[] assignment = assignments.get(i % assignments.size());
                    member.getClass().getMethod("setSubscription", byte[].class).invoke(member, subscriptions.get(i));
                    member.getClass().getMethod("setAssignment", byte[].class).invoke(member, assignment);
                }
                rows.add(new Row(null, key, prefixed((short) 3, bytes((Message) value, (short) 3))));
            }
        }
        return rows;
    }

    private void metadata(PrintStream messages, PrintStream dumped) throws Exception {
        List<Row> rows = new ArrayList<>();
        for (Object constant : Class.forName(METADATA + "MetadataRecordType").getEnumConstants()) {
            short id = (short) constant.getClass().getMethod("id").invoke(constant);
            String name = constant.getClass().getMethod("newMetadataRecord").invoke(constant).getClass().getName();
            for (byte[] value : all(messages, name, constant.toString())) {
                rows.add(new Row(null, null, framed(1, id, ByteBuffer.wrap(value).getShort(), strip(value))));
            }
        }
        for (double value : ODD_DOUBLES) {
            ByteBuffer quota = ByteBuffer.allocate(12).put((byte) 1).put((byte) 1).putDouble(value);
            rows.add(new Row(null, null, framed(1, 14, 0, quota.array())));
        }
        rows.add(new Row(null, null, framed(0, 2, 0, new byte[4])));
        rows.add(new Row(null, null, framed(2, 2, 0, new byte[4])));
        rows.add(new Row(null, null, framed(1, 99, 0, new byte[4])));
        dump(dumped, "__cluster_metadata", "--cluster-metadata-decoder", rows, false);
    }

    private void control(PrintStream messages, PrintStream dumped) throws Exception {
        List<Row> rows = new ArrayList<>();
        String[] names = {
            "LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord"
        };
        for (int i = 0; i < names.length; i++) {
            ControlRecordType type = ControlRecordType.fromTypeId((short) (i + 2));
            for (byte[] value : all(messages, CLIENTS + names[i], type.toString())) {
                // The tool reads version 0 always, and the message must say so of itself to be printed as such.
                byte[] own = strip(value);
                if (ByteBuffer.wrap(value).getShort() == 0 && ByteBuffer.wrap(own).getShort() == 0) {
                    rows.add(new Row(type.toString(), null, own));
                }
            }
        }
        dump(dumped, "control", "--cluster-metadata-decoder", rows, true);
    }

    /** Writes a line for each version and variant; returns the messages, each behind its version. */
    private List<byte[]> all(PrintStream out, String className, String kind) throws Exception {
        List<byte[]> made = new ArrayList<>();
        Class<?> type = Class.forName(className);
        Method write = Class.forName(className + "JsonConverter").getMethod("write", type, short.class);
        Message empty = (Message) type.getConstructor().newInstance();
        for (short version = empty.lowestSupportedVersion(); version <= empty.highestSupportedVersion(); version++) {
            for (String name : VARIANTS) {
                variant = name;
                Object message = type.getConstructor().newInstance();
                fill(message, schemas(message)[version]);
                if (type.getSimpleName().matches("LeaderChangeMessage|Snapshot.*|KRaftV.*|VotersRecord")) {
                    type.getMethod("setVersion", short.class).invoke(message, version);
                }
                byte[] body = bytes((Message) message, version);
                made.add(prefixed(version, body));
                if (out != null) {
                    ObjectNode line = MAPPER.createObjectNode();
                    line.put("schema", type.getSimpleName()).put("kind", kind).put("version", version);
                    line.put("variant", name).put("hex", HexFormat.of().formatHex(body));
                    line.put("json", ((JsonNode) write.invoke(null, message, version)).toString());
                    out.println(line);
                }
            }
        }
        return made;
    }

    private static Schema[] schemas(Object message) throws Exception {
        return (Schema[]) message.getClass().getField("SCHEMAS").get(null);
    }

    private void fill(Object target, Schema schema) throws Exception {
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (Field field : tagged.fields().values()) {
                    if (!variant.equals("nulls") || field.type.isNullable()) {
                        set(target, field);
                    }
                }
                if (variant.equals("odd")) {
                    List<RawTaggedField> unknown = ((Message) target).unknownTaggedFields();
                    unknown.add(new RawTaggedField(1000, new byte[] {1, 2, 3}));
                    unknown.add(new RawTaggedField(70000, new byte[0]));
                }
            } else {
                set(target, bound.def);
            }
        }
    }

    private void set(Object target, Field field) throws Exception {
        if (variant.equals("default")) {
            return;
        }
        Method setter = setter(target, field.name);
        boolean asNull = variant.equals("nulls") && field.type.isNullable();
        setter.invoke(target, asNull ? null : value(setter.getGenericParameterTypes()[0], field.type));
    }

    /** The tables of fields have snake_case names, the classes camelCase ones. */
    private static Method setter(Object target, String name) {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().toLowerCase(Locale.ROOT).equals("set" + name.replace("_", ""))) {
                return method;
            }
        }
        throw new IllegalStateException(target.getClass() + " has no setter for " + name);
    }

    private Object value(Type type, org.apache.kafka.common.protocol.types.Type wire) throws Exception {
        boolean odd = variant.equals("odd");
        if (type == boolean.class) {
            return odd ? random.nextBoolean() : true;
        } else if (type == byte.class || type == Byte.class) {
            return (byte) number(odd, Byte.MIN_VALUE, Byte.MAX_VALUE);
        } else if (type == short.class || type == Short.class) {
            return (short) number(odd, Short.MIN_VALUE, Short.MAX_VALUE);
        } else if (type == int.class || type == Integer.class) {
            boolean unsigned = wire.toString().equals("UINT16");
            return (int) number(odd, unsigned ? 0 : Integer.MIN_VALUE, unsigned ? 65535 : Integer.MAX_VALUE);
        } else if (type == long.class || type == Long.class) {
            return number(odd, Long.MIN_VALUE, Long.MAX_VALUE);
        } else if (type == double.class) {
            return odd ? ODD_DOUBLES[random.nextInt(ODD_DOUBLES.length)] : random.nextInt(1000000) / 8.0 + 1;
        } else if (type == String.class) {
            return odd ? ODD_TEXT[random.nextInt(ODD_TEXT.length)] : "text-" + random.nextInt(1000000);
        } else if (type == Uuid.class) {
            return new Uuid(random.nextLong(), random.nextLong());
        } else if (type == byte[].class || type == ByteBuffer.class) {
            byte[] raw = new byte[odd ? random.nextInt(4) : 1 + random.nextInt(8)];
            random.nextBytes(raw);
            return type == ByteBuffer.class ? ByteBuffer.wrap(raw) : raw;
        }
        return collectionOrStruct(type, wire);
    }

    private Object collectionOrStruct(Type type, org.apache.kafka.common.protocol.types.Type wire) throws Exception {
        Class<?> raw = (Class<?>) (type instanceof ParameterizedType p ? p.getRawType() : type);
        if (!Collection.class.isAssignableFrom(raw)) {
            Object struct = raw.getConstructor().newInstance();
            fill(struct, schemaOf(struct, wire));
            return struct;
        }
        // A collection with keys is a class of its own; its element stands in what it extends.
        Type from = type instanceof ParameterizedType ? type : raw.getGenericSuperclass();
        Type element = ((ParameterizedType) from).getActualTypeArguments()[0];
        @SuppressWarnings("unchecked")
        Collection<Object> values =
                raw.isInterface() ? new ArrayList<>() : (Collection<Object>) raw.getConstructor().newInstance();
        int count = variant.equals("full") ? 2 : variant.equals("nulls") ? 1 : random.nextInt(3);
        for (int i = 0; i < count; i++) {
            values.add(value(element, wire.arrayElementType().orElseThrow()));
        }
        return values;
    }

    /** A struct's table of fields; a struct that may be null hides it behind a type of its own. */
    private static Schema schemaOf(Object struct, org.apache.kafka.common.protocol.types.Type wire) throws Exception {
        if (wire instanceof Schema schema) {
            return schema;
        }
        Schema newest = null;
        for (Schema schema : schemas(struct)) {
            newest = schema == null ? newest : schema;
        }
        return newest;
    }

    private long number(boolean odd, long low, long high) {
        if (odd) {
            return random.nextBoolean() ? low : high;
        }
        return 2 + random.nextInt(100);
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static byte[] prefixed(short prefix, byte[] body) {
        return ByteBuffer.allocate(2 + body.length).putShort(prefix).put(body).array();
    }

    private static byte[] strip(byte[] prefixed) {
        return java.util.Arrays.copyOfRange(prefixed, 2, prefixed.length);
    }

    private static byte[] framed(int frame, int type, int version, byte[] body) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(frame);
        out.write(type);
        out.write(version);
        out.writeBytes(body);
        return out.toByteArray();
    }

    /** Puts the records in a log file, runs the tool on it, and writes a line for each record. */
    private static void dump(PrintStream out, String topic, String option, List<Row> rows, boolean control)
            throws Exception {
        File file = new File(java.nio.file.Files.createTempDirectory("dump").toFile(), "00000000000000000000.log");
        try (FileOutputStream log = new FileOutputStream(file)) {
            for (int i = 0; i < rows.size(); i++) {
                log.write(batch(i, rows.get(i), control));
            }
        }
        List<String> lines = new ArrayList<>();
        for (String line : run(file, option, control).split("\n")) {
            if (line.startsWith("| ")) {
                lines.add(control ? line.replaceFirst("^.*headerKeys: \\[\\] ", "") : line.substring(2));
            }
        }
        if (lines.size() != rows.size()) {
            throw new IllegalStateException(lines.size() + " lines for " + rows.size() + " records of " + topic);
        }
        for (int i = 0; i < rows.size(); i++) {
            Row row = rows.get(i);
            byte[] key = control ? controlKey(row) : row.keyBytes();
            ObjectNode line = MAPPER.createObjectNode().put("topic", topic).put("offset", i);
            line.put("key", key == null ? null : HexFormat.of().formatHex(key));
            line.put("value", row.valueBytes() == null ? null : HexFormat.of().formatHex(row.valueBytes()));
            out.println(line.put("text", lines.get(i)));
        }
    }

    private static byte[] controlKey(Row row) {
        short type = ControlRecordType.valueOf(row.control()).type();
        return ByteBuffer.allocate(4).putShort((short) 0).putShort(type).array();
    }

    private static byte[] batch(long offset, Row row, boolean control) {
        byte[] key = control ? controlKey(row) : row.keyBytes();
        MemoryRecords records =
                MemoryRecords.withRecords(offset, Compression.NONE, new SimpleRecord(0L, key, row.valueBytes()));
        byte[] raw = new byte[records.sizeInBytes()];
        records.buffer().get(raw);
        if (control) {
            raw[22] |= 0x20; // the control bit of the attributes; the tool does not mind the CRC
        }
        return raw;
    }

    private static String run(File file, String option, boolean control) throws Exception {
        PrintStream before = System.out;
        ByteArrayOutputStream captured = new ByteArrayOutputStream();
        System.setOut(new PrintStream(captured, true, StandardCharsets.UTF_8));
        try {
            List<String> arguments = new ArrayList<>(List.of(option, "--files", file.getPath()));
            if (!control) {
                arguments.add("--skip-record-metadata");
            }
            DumpLogSegments.main(arguments.toArray(new String[0]));
        } finally {
            System.setOut(before);
        }
        return captured.toString(StandardCharsets.UTF_8);
    }
}
