import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in this JVM.
 *
 * A question is the main class and its arguments, an answer the exit status, stdout and stderr; each of them
 * in base64, with a space between two.
 */
public class ToolRunner {
    private static final class Ended extends Error {
    }

    private static ByteArrayOutputStream out;
    private static ByteArrayOutputStream err;
    private static String answer;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = Arrays.stream(line.split(" ", -1)).map(ToolRunner::decoded).toArray(String[]::new);
            out = new ByteArrayOutputStream();
            err = new ByteArrayOutputStream();
            answer = null;
            System.setOut(new PrintStream(out, false, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, false, StandardCharsets.UTF_8));
            end(run(words[0], Arrays.copyOfRange(words, 1, words.length)));
            answers.println(answer);
        }
    }

    private static int run(String name, String[] arguments) throws ReflectiveOperationException {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException error) {
            System.err.print("Exception in thread \"main\" ");
            error.getCause().printStackTrace();
            return 1;
        }
    }

    /** What a tool does after its first exit does not count: some catch every error, and ours with them. */
    private static void exit(int status) {
        end(status);
        throw new Ended();
    }

    private static void end(int status) {
        System.out.flush();
        System.err.flush();
        if (answer == null) {
            answer = status + " " + encoded(out) + " " + encoded(err);
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
