import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.*;
import org.apache.logging.log4j.core.config.*;
import org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilderFactory;
import org.apache.logging.log4j.core.impl.Log4jLogEvent;
import org.apache.logging.log4j.core.layout.*;
import org.apache.logging.log4j.layout.template.json.JsonTemplateLayout;
import org.apache.logging.log4j.message.SimpleMessage;

/**
 * Writes events of kafka.request.logger in log4j2's layouts, each into its file of a folder.
 *
 * <p>Standard input: a line for each layout (name, kind, argument), an empty line, a line for each
 * event (milliseconds since the epoch, level, thread, message). Between the fields: a tab.
 */
public class Log4j {
    /** Where Kafka logs a request, for %L. */
    private static final StackTraceElement SOURCE =
            new StackTraceElement("kafka.network.RequestChannel", "log", "RequestChannel.scala", 284);
    /** Without appenders; its host is named like a pod, not like the machine that runs this. */
    private static final Configuration CONFIGURATION =
            Configurator.initialize(ConfigurationBuilderFactory.newConfigurationBuilder()
                    .addProperty("hostName", "kafka-0").build(false)).getConfiguration();

    private static Layout<?> layout(String kind, String argument) {
        return switch (kind) {
            case "pattern" -> PatternLayout.newBuilder().withPattern(argument).build();
            case "template" -> JsonTemplateLayout.newBuilder().setConfiguration(CONFIGURATION)
                    .setEventTemplateUri("classpath:" + argument).build();
            case "json" -> JsonLayout.newBuilder().setConfiguration(CONFIGURATION)
                    .setIncludeTimeMillis(argument.contains("timeMillis"))
                    .setCompact(argument.contains("compact"))
                    .setComplete(argument.contains("complete"))
                    .setEventEol(argument.contains("eventEol")).build();
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private static LogEvent event(String line) {
        String[] fields = line.split("\t", 4);
        return Log4jLogEvent.newBuilder()
                .setLoggerName("kafka.request.logger")
                .setTimeMillis(Long.parseLong(fields[0]))
                .setLevel(Level.valueOf(fields[1]))
                .setThreadName(fields[2]).setThreadId(72).setThreadPriority(5)
                .setMessage(new SimpleMessage(fields[3]))
                .setIncludeLocation(true).setSource(SOURCE).build();
    }

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<Layout<?>, OutputStream> files = new LinkedHashMap<>();
        String line;
        while (!(line = input.readLine()).isEmpty()) {
            String[] fields = line.split("\t", 3);
            Layout<?> layout = layout(fields[1], fields[2]);
            var file = Files.newOutputStream(Path.of(arguments[0], fields[0]));
            files.put(layout, new BufferedOutputStream(file));
            files.get(layout).write(Objects.requireNonNullElse(layout.getHeader(), new byte[0]));
        }
        while ((line = input.readLine()) != null) {
            LogEvent event = event(line);
            for (var entry : files.entrySet()) {
                entry.getValue().write(entry.getKey().toByteArray(event));
            }
        }
        for (var entry : files.entrySet()) {
            byte[] footer = Objects.requireNonNullElse(entry.getKey().getFooter(), new byte[0]);
            entry.getValue().write(footer);
            entry.getValue().close();
        }
    }
}
