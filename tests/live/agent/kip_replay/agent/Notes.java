package kip_replay.agent;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.image.MetadataImage;

/** Files of notes, one for an option: numbers, the last of a line microseconds since the epoch. */
public final class Notes {
    private static final Map<String, PrintStream> FILES = new ConcurrentHashMap<>();

    static void open(String option, String path) throws IOException {
        FILES.put(option, new PrintStream(new FileOutputStream(path, true)));
    }

    public static void add(String option, String numbers) {
        PrintStream file = FILES.get(option);
        file.print(numbers + " " + ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()) + "\n");
        if (file.checkError()) {
            throw Agent.stop("the notes of '" + option + "' cannot be written");
        }
    }

    /** Notes the last offset of a metadata image that the broker has published. */
    public static final class Published {
        @Advice.OnMethodExit
        public static void published(@Advice.Argument(1) MetadataImage newImage) {
            add("applied", String.valueOf(newImage.offset()));
        }
    }
}
