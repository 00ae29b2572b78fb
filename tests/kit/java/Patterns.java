import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** Says which names an expression matches completely: lines of expression and names in Base64, 0 and 1 back. */
public final class Patterns {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("flush")) {
                answers.flush();
                continue;
            }
            answers.println(answer(line.split("\t")));
        }
        answers.flush();
    }

    private static String answer(String[] words) {
        StringBuilder found = new StringBuilder("=");
        try {
            Pattern pattern = Pattern.compile(decoded(words[0]));
            for (int index = 1; index < words.length; index++) {
                found.append(pattern.matcher(decoded(words[index])).matches() ? '1' : '0');
            }
        } catch (PatternSyntaxException error) {
            return "refused";
        } catch (RuntimeException | StackOverflowError error) {
            return "failed";
        }
        return found.toString();
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
