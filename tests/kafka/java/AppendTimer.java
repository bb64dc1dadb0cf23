import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * How long Kafka's own UnifiedLog takes to append batches one by one, as leader, in process. A line on stdin names a file
 * of v2 batches and a new partition directory, a tab between them; the answer is the seconds that the appends took. Each
 * batch is copied before it is appended, as its offsets are written into it.
 */
public final class AppendTimer {
    private static final BrokerTopicStats STATS = new BrokerTopicStats();
    private static final int LENGTH_AT = 8;
    private static final int LOG_OVERHEAD = 12;

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        String file = "";
        List<byte[]> batches = List.of();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split("\t");
            if (!words[0].equals(file)) {
                file = words[0];
                batches = split(Files.readAllBytes(Path.of(file)));
            }
            answers.println(seconds(new File(words[1]), scheduler, batches));
        }
        scheduler.shutdown();
    }

    private static double seconds(File directory, KafkaScheduler scheduler, List<byte[]> batches) throws IOException {
        UnifiedLog log = UnifiedLog.create(
            directory, new LogConfig(Map.of()), 0, 0, scheduler, STATS, Time.SYSTEM, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true, Optional.empty());
        RequestLocal memory = RequestLocal.withThreadConfinedCaching();
        long start = System.nanoTime();
        for (byte[] batch : batches) {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(batch.clone()));
            log.appendAsLeader(records, 0, AppendOrigin.CLIENT, memory, VerificationGuard.SENTINEL, (short) -1);
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        log.closeHandlers();
        memory.close();
        return seconds;
    }

    private static List<byte[]> split(byte[] data) {
        List<byte[]> batches = new ArrayList<>();
        ByteBuffer all = ByteBuffer.wrap(data);
        while (all.hasRemaining()) {
            byte[] batch = new byte[LOG_OVERHEAD + all.getInt(all.position() + LENGTH_AT)];
            all.get(batch);
            batches.add(batch);
        }
        return batches;
    }
}
