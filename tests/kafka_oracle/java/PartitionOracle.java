import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import kafka.cluster.*;
import kafka.server.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.replica.*;
import org.apache.kafka.common.requests.LeaderAndIsrRequest;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.controller.BrokersOracle;
import org.apache.kafka.metadata.*;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Partition with a log on disk: its high watermark and ISR; and ReplicaManager.findPreferredReadReplica. */
public class PartitionOracle {
    static final TopicPartition TP = new TopicPartition("t", 0);
    static final String[] RACKS = {"a", "b", "A", null};

    static <T> T proxy(Class<T> type, java.util.function.BiFunction<String, Object[], Object> answer) {
        return type.cast(Proxy.newProxyInstance(PartitionOracle.class.getClassLoader(), new Class<?>[]{type}, (p, m, a) -> answer.apply(m.getName(), a)));
    }

    static void run(Random r, int count, PrintStream out) throws Exception {
        var f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe"); f.setAccessible(true); var unsafe = (sun.misc.Unsafe) f.get(null);
        for (int i = 0; i < count; i++) {
            var clock = new BrokersOracle.Clock(); var fenced = new HashSet<Integer>(); var dir = Files.createTempDirectory("oracle").resolve("t-0").toFile(); dir.mkdirs();
            int n = 1 + r.nextInt(4), minIsr = 1 + r.nextInt(3); var racks = new HashMap<Integer, String>(); var endpoints = new HashMap<Integer, Node>(); var replicas = new ArrayList<Integer>(); var isr = new ArrayList<Integer>(List.of(11));
            for (int b = 11; b < 11 + n; b++) { replicas.add(b); racks.put(b, RACKS[r.nextInt(4)]); if (b > 11 && r.nextInt(3) > 0) isr.add(b); endpoints.put(b, new Node(b, "h", 1, racks.get(b))); }
            var cache = proxy(MetadataCache.class, (name, a) -> switch (name) {
                case "getAliveBrokerEpoch" -> Optional.of(5L); case "isBrokerFenced" -> fenced.contains(a[0]); case "isBrokerShuttingDown" -> false; case "hasAliveBroker" -> true;
                case "getPartitionReplicaEndpoints" -> endpoints; default -> null; });
            var config = new Properties(); config.put("min.insync.replicas", "" + minIsr);
            var log = UnifiedLog.create(dir, new LogConfig(config), 0, 0, proxy(Scheduler.class, (name, a) -> null), new BrokerTopicStats(), clock, 300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true, Optional.of(new Uuid(1, 2)));
            var submitted = new ArrayDeque<Map.Entry<LeaderAndIsr, CompletableFuture<LeaderAndIsr>>>();
            var manager = proxy(AlterPartitionManager.class, (name, a) -> { var future = new CompletableFuture<LeaderAndIsr>(); submitted.add(Map.entry((LeaderAndIsr) a[1], future)); return future; });
            var delayed = new DelayedOperations(Option.empty(), TP, null, null, null, null) { @Override public void checkAndCompleteAll() { } @Override public int numDelayedDelete() { return 0; } };
            var partition = new Partition(TP, 30_000, 11, () -> 5L, clock, proxy(AlterPartitionListener.class, (name, a) -> null), delayed, cache, null, manager, Option.apply(new Uuid(1, 2)));
            partition.setLog(log, false);
            var state = new LeaderAndIsrRequest.PartitionState().setLeader(11).setLeaderEpoch(3).setIsr(isr).setPartitionEpoch(1).setReplicas(replicas);
            partition.makeLeader(state, null, Option.apply(new Uuid(1, 2)), Option.empty());
            var selecting = (ReplicaManager) unsafe.allocateInstance(ReplicaManager.class);
            var parts = Map.of("replicaSelectorPlugin", Option.apply(Plugin.wrapInstance((ReplicaSelector) new RackAwareReplicaSelector(), null, "selector")), "metadataCache", cache);
            for (var part : parts.entrySet()) unsafe.putObject(selecting, unsafe.objectFieldOffset(ReplicaManager.class.getDeclaredField(part.getKey())), part.getValue());
            var offsets = new HashMap<Integer, Long>(); var ends = new ArrayList<Long>(List.of(0L)); var text = new StringJoiner(",");
            for (int k = 0; k < 50; k++) {
                clock.ms += r.nextInt(8) == 0 ? r.nextInt(20_000) : r.nextInt(700); int what = r.nextInt(10); String op; long leo = log.logEndOffset();
                if (what <= 2) {
                    int records = 1 + r.nextInt(3), acks = r.nextInt(4) == 0 ? 1 : -1; boolean appended = true;
                    var batch = MemoryRecords.withRecords(Compression.NONE, Collections.nCopies(records, new SimpleRecord(clock.ms, new byte[]{1})).toArray(new SimpleRecord[0]));
                    try { partition.appendRecordsToLeader(batch, AppendOrigin.CLIENT, acks, RequestLocal.noCaching(), VerificationGuard.SENTINEL); } catch (NotEnoughReplicasException e) { appended = false; }
                    if (appended) ends.add(log.logEndOffset());
                    op = "\"op\":\"append\",\"base\":" + leo + ",\"acks\":" + acks + ",\"appended\":" + appended + ",\"end\":" + log.logEndOffset();
                } else if (what <= 6 && n > 1) {
                    int b = 12 + r.nextInt(n - 1); long before = offsets.getOrDefault(b, 0L); var next = ends.stream().filter(e -> e >= before).toList();
                    long offset = r.nextInt(3) == 0 ? next.get(r.nextInt(next.size())) : leo, start = r.nextInt(10) == 0 ? Math.min(2, offset) : 0; offsets.put(b, offset);
                    partition.updateFollowerFetchState(partition.getReplica(b).get(), new LogOffsetMetadata(offset), start, clock.ms, leo, 5);
                    op = "\"op\":\"fetch\",\"broker\":" + b + ",\"offset\":" + offset + ",\"start\":" + start;
                } else if (what == 7 && !submitted.isEmpty()) {
                    var change = submitted.poll(); var sent = change.getKey(); boolean accepted = r.nextInt(4) > 0;
                    if (accepted) change.getValue().complete(new LeaderAndIsr(11, 3, sent.isr(), LeaderRecoveryState.RECOVERED, sent.partitionEpoch() + 1)); else change.getValue().completeExceptionally(new IneligibleReplicaException("no"));
                    op = "\"op\":\"altered\",\"accepted\":" + accepted;
                } else if (what == 8) { if (n > 1) { int b = 12 + r.nextInt(n - 1); if (!fenced.remove(b)) fenced.add(b); } partition.maybeShrinkIsr(); op = "\"op\":\"fence\",\"fenced\":" + new TreeSet<>(fenced);
                } else {
                    String rack = RACKS[r.nextInt(4)]; long offset = r.nextInt(3) == 0 ? 0 : ends.get(r.nextInt(ends.size()));
                    var chosen = selecting.findPreferredReadReplica(partition, new ClientMetadata.DefaultClientMetadata(rack == null ? "" : rack, "c", null, null, "L"), -1, offset, clock.ms);
                    op = "\"op\":\"prefer\",\"rack\":" + Oracle.q(rack) + ",\"offset\":" + offset + ",\"chosen\":" + (chosen.isEmpty() ? "null" : "" + chosen.get());
                }
                text.add("{" + op + ",\"at_ms\":" + clock.ms + ",\"hwm\":" + log.highWatermark() + ",\"isr\":" + ids(partition.partitionState().isr()) + ",\"maximal\":" + ids(partition.partitionState().maximalIsr()) + "}");
            }
            log.closeHandlers(); Utils.delete(dir.getParentFile());
            var named = racks.entrySet().stream().map(e -> "\"" + e.getKey() + "\":" + Oracle.q(e.getValue())).collect(Collectors.joining(","));
            out.println("{\"replicas\":" + n + ",\"min_isr\":" + minIsr + ",\"isr\":" + isr + ",\"racks\":{" + named + "},\"ops\":[" + text + "]}");
        }
    }
    static Collection<Object> ids(scala.collection.immutable.Set<Object> ids) { return new TreeSet<>(CollectionConverters.asJava(ids)); }
}
