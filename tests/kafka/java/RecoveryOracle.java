import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import kafka.log.LogManager;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.ConfigRepository;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Starts Kafka's own LogManager over log directories and shuts it down cleanly, as a broker does, without the broker:
 * one JSON object per line on stdin, one on stdout.
 *
 * <pre>
 * {"dirs":["", ...], "broker":{"log.index.size.max.bytes":"4096"}, "topics":{"t":{"segment.ms":"5"}}, "epoch":7}
 * {"offline":["", ...], "logs":{"t-0":{"logStart":0, "logEnd":5, "recoveryPoint":5, "segments":1}}}
 * {"error": class, "message": text}            the start failed, or no directory was left
 * </pre>
 *
 * The marks are those after loading, before the shutdown moves the recovery points.
 */
public final class RecoveryOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer;
            try {
                answer = load(JSON.readTree(line));
            } catch (Exception problem) {
                answer = JSON.createObjectNode()
                    .put("error", problem.getClass().getSimpleName())
                    .put("message", String.valueOf(problem.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static ObjectNode load(JsonNode given) throws Exception {
        List<String> directories = new ArrayList<>();
        given.get("dirs").forEach(directory -> directories.add(directory.asText()));
        LogDirFailureChannel failures = new LogDirFailureChannel(directories.size());
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        LogManager manager = LogManager.apply(
            broker(given, directories), CollectionConverters.asScala(List.<String>of()).toSeq(), new Topics(given.get("topics")),
            scheduler, Time.SYSTEM, new BrokerTopicStats(), failures);
        List<String> topics = new ArrayList<>();
        given.get("topics").fieldNames().forEachRemaining(topics::add);
        try {
            manager.startup(CollectionConverters.asScala(topics).toSet(), log -> false);
            ObjectNode answer = marks(manager);
            ArrayNode offline = answer.putArray("offline");
            directories.stream().filter(failures::hasOfflineLogDir).forEach(offline::add);
            return answer;
        } finally {
            // Epoch files and partition.metadata are written in the background; a shutdown waits for them.
            scheduler.shutdown();
            manager.shutdown(given.get("epoch").asLong());
        }
    }

    private static KafkaConfig broker(JsonNode given, List<String> directories) {
        Properties settings = new Properties();
        settings.put("process.roles", "broker");
        settings.put("node.id", "1");
        settings.put("controller.quorum.voters", "2@localhost:1");
        settings.put("controller.listener.names", "CONTROLLER");
        settings.put("log.dirs", String.join(",", directories));
        given.get("broker").properties().forEach(field -> settings.put(field.getKey(), field.getValue().asText()));
        return KafkaConfig.fromProps(settings, false);
    }

    private static ObjectNode marks(LogManager manager) {
        ObjectNode answer = JSON.createObjectNode();
        ObjectNode logs = answer.putObject("logs");
        for (UnifiedLog log : CollectionConverters.asJava(manager.allLogs())) {
            logs.putObject(log.topicPartition().toString())
                .put("logStart", log.logStartOffset())
                .put("logEnd", log.logEndOffset())
                .put("recoveryPoint", log.recoveryPoint())
                .put("segments", log.numberOfSegments());
        }
        return answer;
    }

    /** The topics' configurations, as the metadata would tell them. */
    private record Topics(JsonNode given) implements ConfigRepository {
        @Override
        public Properties config(ConfigResource resource) {
            Properties settings = new Properties();
            if (resource.type() == ConfigResource.Type.TOPIC && given.has(resource.name())) {
                given.get(resource.name()).properties()
                    .forEach(field -> settings.put(field.getKey(), field.getValue().asText()));
            }
            return settings;
        }
    }
}
