import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.server.util.FileLock;

/**
 * Holds the lock of a log directory as a broker does: with Kafka's own FileLock, on the file .lock in it.
 *
 * <pre>
 * lock DIRECTORY    true, or false if another process holds it
 * unlock            what a broker does with the lock when it stops
 * </pre>
 */
public class DirectoryLocker {
    private static FileLock held;

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String question = questions.readLine(); question != null; question = questions.readLine()) {
            String[] words = question.split(" ", 2);
            System.out.println(words[0].equals("lock") ? lock(words[1]) : unlock());
        }
    }

    private static boolean lock(String directory) throws Exception {
        FileLock lock = new FileLock(new File(directory, ".lock"));
        if (!lock.tryLock()) {
            lock.unlockAndClose();
            return false;
        }
        held = lock;
        return true;
    }

    private static boolean unlock() throws Exception {
        held.destroy();
        held = null;
        return true;
    }
}
