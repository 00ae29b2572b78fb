import java.lang.reflect.Field;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;

/** Prints the names of the properties of type PASSWORD that the given classes of Kafka define, one a line. */
public class SecretNames {
    public static void main(String[] classes) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        for (String name : classes) {
            ConfigDef definitions = definitionsOf(Class.forName(name));
            definitions.configKeys().values().stream()
                .filter(key -> key.type == ConfigDef.Type.PASSWORD)
                .forEach(key -> names.add(key.name));
        }
        names.forEach(System.out::println);
    }

    private static ConfigDef definitionsOf(Class<?> type) throws Exception {
        try {
            return (ConfigDef) type.getMethod("configDef").invoke(null);
        } catch (NoSuchMethodException absent) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getType() == ConfigDef.class) {
                    field.setAccessible(true);
                    return (ConfigDef) field.get(null);
                }
            }
            throw absent;
        }
    }
}
