import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.utils.Utils;

/** Says how Kafka reads a file, a JAAS configuration or a value: lines of a kind and Base64, "=" and words back. */
public final class Settings {
    private static Path file;

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        file = Path.of(arguments[0]);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("flush")) {
                answers.flush();
                continue;
            }
            String[] words = line.split("\t", -1);
            answers.println(answer(words[0], Base64.getDecoder().decode(words[1])));
        }
        answers.flush();
    }

    private static String answer(String kind, byte[] content) throws IOException {
        try {
            return switch (kind) {
                case "properties" -> properties(content);
                case "jaas" -> jaas(text(content));
                default -> value(ConfigDef.Type.valueOf(kind), text(content));
            };
        } catch (RuntimeException error) {
            return "refused";
        }
    }

    private static String properties(byte[] content) throws IOException {
        Files.write(file, content);
        TreeMap<String, String> found = new TreeMap<>();
        Utils.loadProps(file.toString()).forEach((key, value) -> found.put((String) key, (String) value));
        return encoded("=", found);
    }

    private static String jaas(String text) {
        var entry = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text)))
            .configurationEntries().get(0);
        TreeMap<String, String> found = new TreeMap<>();
        entry.getOptions().forEach((key, value) -> found.put(key == null ? "(no name)" : key, (String) value));
        return encoded("=" + encoded(entry.getLoginModuleName()), found);
    }

    private static String value(ConfigDef.Type type, String text) {
        Object found = ConfigDef.parseType("name", text, type);
        StringBuilder words = new StringBuilder("=");
        for (Object word : found instanceof List<?> list ? list : List.of(found)) {
            words.append(' ').append(encoded(word instanceof Password password ? password.value() : word.toString()));
        }
        return words.toString();
    }

    private static String encoded(String prefix, Map<String, String> found) {
        StringBuilder words = new StringBuilder(prefix);
        found.forEach((key, value) -> words.append(' ').append(encoded(key)).append(':').append(encoded(value)));
        return words.toString();
    }

    /** Keeps halves of characters, which no encoder does. */
    private static String encoded(String text) {
        byte[] units = new byte[text.length() * 2];
        for (int index = 0; index < text.length(); index++) {
            units[index * 2] = (byte) (text.charAt(index) >> 8);
            units[index * 2 + 1] = (byte) text.charAt(index);
        }
        return Base64.getEncoder().encodeToString(units);
    }

    private static String text(byte[] content) {
        return new String(content, StandardCharsets.UTF_16BE);
    }
}
