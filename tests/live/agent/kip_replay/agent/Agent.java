package kip_replay.agent;

import static net.bytebuddy.matcher.ElementMatchers.named;

import java.lang.instrument.Instrumentation;
import java.util.Map;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.loading.ClassReloadingStrategy;
import org.apache.kafka.controller.LowestAcknowledgedOffset;

/**
 * Puts what is in no release into a released broker or controller, and notes what no log says.
 *
 * <p>-javaagent:agent.jar=min-isr-acks,applied=FILE,lowest-acked=FILE, as many of them as wanted. A
 * Kafka that does not have a method as it is wanted does not start.
 */
public final class Agent {
    /** By option the class of Kafka, and by the name of a method what happens at its exit. */
    private record Patch(String type, Map<String, Class<?>> exits) {}

    private static final Map<String, Patch> PATCHES = Map.of(
        "min-isr-acks", new Patch("kafka.cluster.Partition", Map.of(
            "checkEnoughReplicasReachOffset", MinIsrAcks.Enough.class,
            "updateFollowerFetchState", MinIsrAcks.Fetched.class)),
        "sooner-fetches", new Patch("org.apache.kafka.common.requests.FetchRequest",
            Map.of("maxWait", SoonerFetches.class)),
        "applied", new Patch("kafka.server.metadata.BrokerMetadataPublisher",
            Map.of("onMetadataUpdate", Notes.Published.class)),
        "lowest-acked", new Patch("org.apache.kafka.controller.ReplicationControlManager",
            Map.of("processBrokerHeartbeat", LowestAcknowledgedOffset.class)));

    public static void premain(String options, Instrumentation instrumentation) {
        for (String option : String.valueOf(options).split(",")) {
            String[] parts = option.split("=", 2);
            if (!PATCHES.containsKey(parts[0])) {
                throw stop("'" + option + "' is no option, but these are: " + PATCHES.keySet());
            }
            try {
                if (parts.length > 1) {
                    Notes.open(parts[0], parts[1]);
                }
                apply(PATCHES.get(parts[0]), instrumentation);
            } catch (Exception | LinkageError why) {
                throw stop("option '" + option + "' failed: " + why);
            }
        }
    }

    private static void apply(Patch patch, Instrumentation instrumentation) throws Exception {
        Class<?> type = Class.forName(patch.type, false, Agent.class.getClassLoader());
        var changed = new ByteBuddy().redefine(type);
        for (var exit : patch.exits.entrySet()) {
            var wanted = named(exit.getKey());
            if (TypeDescription.ForLoadedType.of(type).getDeclaredMethods().filter(wanted).size() != 1) {
                throw new NoSuchMethodException(patch.type + "." + exit.getKey());
            }
            changed = changed.visit(Advice.to(exit.getValue()).on(wanted));
        }
        changed.make().load(type.getClassLoader(), ClassReloadingStrategy.of(instrumentation));
    }

    /** Ends the process with a sentence, whatever Kafka does with exceptions of its threads. */
    public static RuntimeException stop(String why) {
        System.err.println("kip-replay's agent: " + why);
        Runtime.getRuntime().halt(3);
        return new IllegalStateException(why);
    }
}
