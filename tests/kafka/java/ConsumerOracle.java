import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's own consumer: one JSON object per line on stdin, one on stdout. All have "bootstrap" and "isolation",
 * all but the first "topic" and "partition".
 *
 * <pre>
 * {"ask":"topics"}                      {"topics":{"t":[0, 1]}}
 * {"ask":"bounds"}                      {"earliest":0, "latest":5}
 * {"ask":"time", "time":1000}           {"offset":3}, or -1 where no record is as late
 * {"ask":"read", "start":0, "end":5}    {"records":[[0, key, value, timestamp, type, [[name, value], ...]], ...]}
 * {"error": class, "message": text}     Kafka threw
 * </pre>
 *
 * Keys and values are hex, or null; the type is 0 for the time of creation, 1 for that of the log.
 */
public final class ConsumerOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final Map<String, KafkaConsumer<byte[], byte[]>> CONSUMERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Exception problem) {
                answer = JSON.createObjectNode()
                    .put("error", problem.getClass().getSimpleName())
                    .put("message", String.valueOf(problem.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static void answer(JsonNode given, ObjectNode answer) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(given);
        if (given.get("ask").asText().equals("topics")) {
            ObjectNode topics = answer.putObject("topics");
            consumer.listTopics(PATIENCE).forEach((name, partitions) -> {
                ArrayNode numbers = topics.putArray(name);
                partitions.stream().map(each -> each.partition()).sorted().forEach(numbers::add);
            });
            return;
        }
        TopicPartition partition = new TopicPartition(given.get("topic").asText(), given.get("partition").asInt());
        switch (given.get("ask").asText()) {
            case "bounds" -> answer
                .put("earliest", consumer.beginningOffsets(List.of(partition), PATIENCE).get(partition))
                .put("latest", consumer.endOffsets(List.of(partition), PATIENCE).get(partition));
            case "time" -> {
                OffsetAndTimestamp found = consumer
                    .offsetsForTimes(Map.of(partition, given.get("time").asLong()), PATIENCE).get(partition);
                answer.put("offset", found == null ? -1 : found.offset());
            }
            case "read" -> read(consumer, partition, given.get("start").asLong(), given.get("end").asLong(),
                answer.putArray("records"));
            default -> throw new IllegalArgumentException(given.toString());
        }
    }

    private static void read(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long start, long end, ArrayNode answer) {
        consumer.assign(List.of(partition));
        consumer.seek(partition, start);
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        // The position also passes what is not given out: aborted records, markers, and what compaction took.
        while (consumer.position(partition, PATIENCE) < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100)).records(partition)) {
                if (record.offset() < end) {
                    add(record, answer.addArray());
                }
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(partition + " did not come to " + end);
            }
        }
    }

    private static void add(ConsumerRecord<byte[], byte[]> record, ArrayNode row) {
        row.add(record.offset()).add(hex(record.key())).add(hex(record.value())).add(record.timestamp())
            .add(record.timestampType().id);
        ArrayNode headers = row.addArray();
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(hex(header.value()));
        }
    }

    private static String hex(byte[] data) {
        return data == null ? null : HexFormat.of().formatHex(data);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode given) {
        return CONSUMERS.computeIfAbsent(given.get("bootstrap").asText() + given.get("isolation").asText(), key -> {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", given.get("bootstrap").asText());
            settings.put("isolation.level", given.get("isolation").asText());
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "none");
            settings.put("fetch.max.wait.ms", "10");
            return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        });
    }
}
