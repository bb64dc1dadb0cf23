import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Lets Kafka's own Cleaner clean a closed log once, at a given clock: one JSON object per line on stdin, one on stdout.
 *
 * <pre>
 * {"dir":"", "config":{}, "logStart":0, "logEnd":9, "firstDirty":0, "firstUncleanable":9, "now":5, "mapBytes":2400,
 *  "ioBuffer":262144}
 * {"endOffset":9, "recordsRead":0, "invalidRead":0, "recordsWritten":0, "bytesRead":0, "bytesWritten":0,
 *  "mapRecordsRead":0, "seconds":0.1}
 * {"error": class, "message": text}
 * </pre>
 *
 * The log is opened as after a clean shutdown and closed again; what waits to be deleted keeps its suffix.
 */
public final class CleanerOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final BrokerTopicStats STATS = new BrokerTopicStats();
    private static final double LOAD_FACTOR = 0.9;

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer;
            try {
                answer = clean(JSON.readTree(line));
            } catch (Exception problem) {
                answer = JSON.createObjectNode()
                    .put("error", problem.getClass().getSimpleName())
                    .put("message", String.valueOf(problem.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static ObjectNode clean(JsonNode given) throws Exception {
        Map<String, String> settings = new HashMap<>();
        given.get("config").properties().forEach(field -> settings.put(field.getKey(), field.getValue().asText()));
        Time clock = new StandingClock(given.get("now").asLong());
        UnifiedLog log = UnifiedLog.create(
            new File(given.get("dir").asText()), new LogConfig(settings), given.get("logStart").asLong(),
            given.get("logEnd").asLong(), new Never(), STATS, clock, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true, Optional.empty());
        try {
            log.updateHighWatermark(log.logEndOffset());
            int buffer = given.get("ioBuffer").asInt();
            Cleaner cleaner = new Cleaner(
                0, new SkimpyOffsetMap(given.get("mapBytes").asInt()), buffer, Math.max(buffer, 1 << 20), LOAD_FACTOR,
                new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "throttler", "entries", clock), clock, partition -> {});
            LogToClean dirty = new LogToClean(
                log, given.get("firstDirty").asLong(), given.get("firstUncleanable").asLong(), false);
            long began = System.nanoTime();
            Map.Entry<Long, CleanerStats> done = cleaner.doClean(dirty, given.get("now").asLong());
            double seconds = (System.nanoTime() - began) / 1e9;
            CleanerStats stats = done.getValue();
            return JSON.createObjectNode()
                .put("endOffset", done.getKey())
                .put("recordsRead", stats.messagesRead())
                .put("invalidRead", stats.invalidMessagesRead())
                .put("recordsWritten", stats.messagesWritten())
                .put("bytesRead", stats.bytesRead())
                .put("bytesWritten", stats.bytesWritten())
                .put("mapRecordsRead", stats.mapMessagesRead())
                .put("seconds", seconds);
        } finally {
            log.close();
        }
    }

    private record StandingClock(long now) implements Time {
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
            throw new UnsupportedOperationException("nothing here waits");
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException("nothing here waits");
        }
    }

    /** A scheduler that does nothing: files that wait for their deletion stay. */
    private static final class Never implements Scheduler {
        @Override
        public ScheduledFuture<?> schedule(String name, Runnable work, long delayMs, long periodMs) {
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
