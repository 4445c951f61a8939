import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.Collectors;
import kafka.server.*;
import org.apache.kafka.clients.FetchSessionHandler;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.controller.BrokersOracle;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * FetchSessionHandler at clients, FetchManager with its contexts and cache at a broker: what each client wants at each of its
 * FETCHes, and what the broker has of that, is drawn once (moments); then what goes over the wire with so many slots.
 */
public class SessionsOracle {
    static final int[] SLOTS = {0, 8, 16, 80_000};
    static final int NORMAL = 0, LAST = 1, REQUEST_LOST = 2, RESPONSE_LOST = 3, EPOCH_LOST = 4;
    static final int[] FAILURES = {3, 6, 29};

    /** As requested: by the topic's number, and its generation; and as returned. {@code aborted} -1: none are listed. */
    record Wanted(int topic, int generation, int partition, long offset, long start, int maxBytes, int leaderEpoch, int fetchedEpoch) {
        Wanted fetched() { return new Wanted(topic, generation, partition, offset + 1, start, maxBytes, leaderEpoch, 0); }
        String json(Map<String, Integer> topics, boolean byId) { return "[" + topics.computeIfAbsent(name(byId), n -> topics.size()) + "," + partition + "," + offset + "," + start + "," + maxBytes + "," + leaderEpoch + "," + fetchedEpoch + "]"; }
        Uuid id() { return new Uuid(generation + 1, topic + 1); }
        String topicName() { return "abcd".substring(topic, topic + 1); }
        String name(boolean byId) { return byId ? id() + "\",\"" + topicName() : topicName() + "\",\"" + topicName(); }
        TopicPartition key() { return new TopicPartition(topicName(), partition); }
    }
    record State(int error, long highWatermark, long stable, long start, int records, int aborted, int preferred, int diverging) {
        String json() { return "[" + error + "," + highWatermark + "," + stable + "," + start + "," + records + "," + aborted + "," + preferred + "," + diverging + "]"; }
        boolean isRead() { return error == 0 || aborted < 0; }
        FetchResponseData.PartitionData data(int partition) {
            var data = new FetchResponseData.PartitionData().setPartitionIndex(partition).setErrorCode((short) error).setHighWatermark(highWatermark).setLastStableOffset(stable).setLogStartOffset(start)
                .setPreferredReadReplica(preferred).setRecords(MemoryRecords.readableRecords(ByteBuffer.allocate(records)));
            return diverging < 0 ? data : data.setDivergingEpoch(new FetchResponseData.EpochEndOffset().setEpoch(diverging).setEndOffset(3));
        }
    }
    record Moment(long at, long lasts, int client, int replica, int connection, boolean byId, int kind, boolean throttled, List<Wanted> wanted, List<State> states, Set<Uuid> unresolved) {}

    static class Client {
        int replica, connection, wire; long free; boolean byId = true;
        final LinkedHashMap<TopicPartition, Wanted> wanted = new LinkedHashMap<>(); final Map<TopicPartition, State> states = new HashMap<>();
        void add(Random r) {
            int topic = r.nextInt(4), generation = wanted.values().stream().filter(w -> w.topic == topic).mapToInt(Wanted::generation).findFirst().orElse(0);
            var w = new Wanted(topic, generation, r.nextInt(4), r.nextInt(3), 0, 1 << 20, 0, -1); wanted.putIfAbsent(w.key(), w);
        }
        State tell(Random r, State before, Wanted w, Set<Uuid> unresolved) {
            if (byId && unresolved.contains(w.id())) return new State(100, -1, -1, -1, 0, 0, -1, -1);
            if (before != null && before.error != 0 && before.error != 100 && r.nextBoolean()) return before;
            if (r.nextInt(10) == 0) { int error = FAILURES[r.nextInt(3)]; return new State(error, -1, -1, -1, 0, error == 6 || error == 3 && r.nextBoolean() ? -1 : 0, -1, -1); }
            long high = Math.max(0, (before == null ? 0 : before.highWatermark) + (r.nextInt(4) == 0 ? 1 : r.nextInt(40) == 0 ? -1 : 0)), start = Math.max(0, (before == null ? 0 : before.start) + (r.nextInt(20) == 0 ? r.nextInt(4) - 1 : 0));
            int records = new int[]{0, 0, 0, 100, 70_000}[r.nextInt(5)];
            return new State(0, high, high - r.nextInt(10) / 9, start, records, records > 0 ? r.nextInt(3) / 2 : 0, r.nextInt(33) == 0 ? 12 : -1, r.nextInt(33) == 0 ? 1 : -1);
        }
    }

    static List<Moment> draw(Random r, boolean breaks) {
        var moments = new ArrayList<Moment>(); int generation = 0; var clients = new ArrayList<Client>();
        for (int n = 2 + r.nextInt(9); n > 0; n--) { var c = new Client(); c.replica = r.nextBoolean() ? 12 + clients.size() : -1; c.free = r.nextInt(1_000_000); for (int k = r.nextInt(5); k >= 0; k--) c.add(r); clients.add(c); }
        for (int step = 0; step < 40; step++) {
            int n = r.nextInt(clients.size()); var c = clients.get(n); var keys = new ArrayList<>(c.wanted.keySet());
            if (keys.isEmpty() || r.nextInt(5) == 0) c.add(r);
            if (r.nextInt(7) == 0 && keys.size() > 1) { var key = keys.get(r.nextInt(keys.size())); c.wanted.remove(key); c.states.remove(key); }
            if (breaks && r.nextInt(40) == 0) { c.wanted.clear(); c.states.clear(); }
            if (r.nextInt(10) == 0 && !c.wanted.isEmpty()) { // a topic of the same name in its place
                int topic = c.wanted.values().iterator().next().topic, next = ++generation; c.states.keySet().removeIf(k -> c.wanted.get(k).topic == topic);
                c.wanted.replaceAll((k, w) -> w.topic == topic ? new Wanted(topic, next, w.partition, 0, w.start, w.maxBytes, w.leaderEpoch, w.fetchedEpoch) : w);
            }
            if (breaks && r.nextInt(20) == 0) c.byId = !c.byId;
            c.wanted.replaceAll((k, w) -> r.nextInt(30) > 0 ? w : new Wanted(w.topic, w.generation, w.partition, w.offset, w.start + r.nextInt(2), w.maxBytes << r.nextInt(2), w.leaderEpoch + r.nextInt(2), w.fetchedEpoch));
            var before = Map.copyOf(c.states); var unresolved = new HashSet<Uuid>();
            for (var w : c.wanted.values()) if (r.nextInt(30) == 0) unresolved.add(w.id());
            c.wanted.forEach((k, w) -> c.states.put(k, c.tell(r, c.states.get(k), w, unresolved)));
            boolean throttled = c.replica < 0 && r.nextInt(10) == 0; int kind = breaks && r.nextInt(8) == 0 ? 2 + r.nextInt(3) : NORMAL;
            long at = c.free + new long[]{1, 30, 5_000, 70_000}[r.nextInt(4)] * 1000 + r.nextInt(1000), lasts = new long[]{500, 40_000, 400_000}[r.nextInt(3)] + r.nextInt(100);
            c.free = at + lasts; var wanted = List.copyOf(c.wanted.values());
            moments.add(new Moment(at, lasts, n, c.replica, c.connection, c.byId, kind, throttled, wanted, wanted.stream().map(w -> c.states.get(w.key())).toList(), unresolved));
            if (throttled || kind != NORMAL) { c.states.clear(); c.states.putAll(before); if (kind == REQUEST_LOST || kind == RESPONSE_LOST) c.connection++; continue; }
            c.wanted.replaceAll((k, w) -> c.states.get(k).records > 0 ? w.fetched() : w);
            keys = new ArrayList<>(c.wanted.keySet());
            if (!keys.isEmpty() && r.nextBoolean()) { var key = keys.get(r.nextInt(keys.size())); c.wanted.put(key, c.wanted.remove(key)); }
        }
        for (int n = 0; n < clients.size(); n++) { var c = clients.get(n); if (c.replica < 0) moments.add(new Moment(c.free + 1000, 1000, n, -1, c.connection, c.byId, LAST, false, List.of(), List.of(), Set.of())); }
        moments.sort(Comparator.comparingLong(Moment::at).thenComparing(Moment::client));
        return moments;
    }

    /** A shard whose ids count up: Kafka draws them, and of two sessions that are worth the same the lower id goes. */
    static FetchSessionCacheShard shard(int slots, int number) {
        return new FetchSessionCacheShard(slots, 120_000, 1000, number) {
            int last = number * 1000;
            @Override public synchronized int newSessionId() { return ++last; }
        };
    }

    static class Broker {
        final BrokersOracle.Clock clock = new BrokersOracle.Clock(); final FetchManager manager; final Map<Integer, FetchSessionHandler> handlers = new HashMap<>();
        final Map<String, Integer> topics; final List<Moment> moments; final StringJoiner text = new StringJoiner(",");
        final PriorityQueue<Due> due = new PriorityQueue<>(Comparator.comparingLong(d -> d.moment.at + d.moment.lasts));
        record Due(Moment moment, int attempt, FetchRequest request, FetchContext context) {}

        Broker(int slots, List<Moment> moments, Map<String, Integer> topics) {
            this.moments = moments; this.topics = topics; var shards = new ArrayList<FetchSessionCacheShard>();
            for (int n = 0; n < 8; n++) shards.add(shard(slots / 8, n));
            manager = new FetchManager(clock, new FetchSessionCache(CollectionConverters.asScala(shards).toList()));
        }
        String run() {
            for (var m : moments) {
                finish(m.at); clock.ms = m.at / 1000;
                var handler = handlers.computeIfAbsent(m.client, n -> new FetchSessionHandler(new LogContext(), 11));
                if (m.kind == LAST) handler.notifyClose();
                var request = build(handler, m); boolean nothing = request.fetchData(names(m)).isEmpty() && request.forgottenTopics(names(m)).isEmpty() && m.wanted.isEmpty() && m.kind != LAST;
                if (nothing && request.metadata().isFull()) continue;
                if (m.kind == REQUEST_LOST) { handler.handleError(new DisconnectException()); continue; }
                if (m.kind == EPOCH_LOST && !request.metadata().isFull()) { handler.handleResponse(FetchResponse.of(Errors.NONE, 0, request.metadata().sessionId(), new LinkedHashMap<>(), List.of()), request.version()); continue; }
                var context = context(request, m); int attempt = 0;
                if (context instanceof SessionErrorContext) {
                    handler.handleResponse(answer(new Due(m, attempt++, request, context)), request.version());
                    if (m.wanted.isEmpty()) continue;
                    request = build(handler, m); context = context(request, m);
                }
                due.add(new Due(m, attempt, request, context));
            }
            finish(Long.MAX_VALUE); return "[" + text + "]";
        }
        void finish(long now) {
            while (!due.isEmpty() && due.peek().moment.at + due.peek().moment.lasts <= now) {
                var d = due.poll(); clock.ms = (d.moment.at + d.moment.lasts) / 1000; var response = answer(d); var handler = handlers.get(d.moment.client);
                if (d.moment.kind == RESPONSE_LOST) handler.handleError(new DisconnectException()); else handler.handleResponse(response, d.request.version());
            }
        }
        FetchRequest build(FetchSessionHandler handler, Moment m) {
            var builder = handler.newBuilder();
            for (var w : m.wanted) builder.add(w.key(), new FetchRequest.PartitionData(m.byId ? w.id() : Uuid.ZERO_UUID, w.offset, w.start, w.maxBytes, Optional.of(w.leaderEpoch), w.fetchedEpoch < 0 ? Optional.empty() : Optional.of(w.fetchedEpoch)));
            var data = builder.build(); short version = (short) (m.byId ? 17 : 12);
            var request = m.replica < 0 ? FetchRequest.Builder.forConsumer(version, 500, 1, data.toSend()) : FetchRequest.Builder.forReplica(version, m.replica, 7, 500, 1, data.toSend());
            return request.removed(data.toForget()).replaced(data.toReplace()).metadata(data.metadata()).build(version);
        }
        /** As the broker's metadata has them. */
        Map<Uuid, String> names(Moment m) {
            var names = new HashMap<Uuid, String>();
            for (var topic : topics.keySet()) { var both = topic.split("\",\""); if (!both[0].equals(both[1])) names.put(Uuid.fromString(both[0]), both[1]); }
            for (var w : m.wanted) names.put(w.id(), w.topicName());
            names.keySet().removeAll(m.byId ? m.unresolved : Set.of()); return names;
        }
        FetchContext context(FetchRequest request, Moment m) {
            var names = names(m);
            return manager.newContext(request.version(), request.metadata(), request.isFromFollower(), request.fetchData(names), request.forgottenTopics(names), names);
        }
        /** KafkaApis.handleFetchRequest: what can't be read comes behind what is. */
        FetchResponse answer(Due d) {
            var read = new LinkedHashMap<TopicIdPartition, FetchResponseData.PartitionData>(); var failed = new LinkedHashMap<TopicIdPartition, FetchResponseData.PartitionData>(); var m = d.moment;
            d.context.foreachPartition((tp, data) -> { var state = m.states.get(at(m, tp.topicId(), tp.topic(), tp.partition())); (state.isRead() ? read : failed).put(tp, state.data(tp.partition())); return BoxedUnit.UNIT; });
            read.putAll(failed);
            var response = m.throttled && d.attempt >= 0 && !(d.context instanceof SessionErrorContext) ? d.context.getThrottledResponse(5, List.of()) : d.context.updateAndGenerateResponseData(read, List.of());
            var sent = new StringJoiner(",", "[", "]"); var forgotten = new StringJoiner(",", "[", "]"); var returned = new StringJoiner(",", "[", "]"); var meta = d.request.metadata();
            for (var topic : d.request.data().topics()) for (var p : topic.partitions()) sent.add("" + at(m, topic.topicId(), topic.topic(), p.partition()));
            for (var topic : d.request.data().forgottenTopicsData()) for (int p : topic.partitions()) forgotten.add("[" + number(topic.topicId(), topic.topic()) + "," + p + "]");
            for (var topic : response.data().responses()) for (var p : topic.partitions()) returned.add("" + at(m, topic.topicId(), topic.topic(), p.partitionIndex()));
            text.add("[" + moments.indexOf(m) + "," + d.attempt + "," + meta.sessionId() + "," + meta.epoch() + "," + sent + "," + forgotten + "," + response.error().code() + "," + response.sessionId() + "," + returned + "]");
            return response;
        }
        static int at(Moment m, Uuid id, String name, int partition) {
            for (int i = 0; i < m.wanted.size(); i++) { var w = m.wanted.get(i); if (w.partition == partition && (m.byId ? w.id().equals(id) : w.topicName().equals(name))) return i; }
            throw new IllegalStateException(id + " " + name + " " + partition + " is not in " + m);
        }
        int number(Uuid id, String name) { return topics.entrySet().stream().filter(e -> e.getKey().startsWith((id.equals(Uuid.ZERO_UUID) ? name : id.toString()) + "\"")).findFirst().get().getValue(); }
    }

    static void run(Random r, int count, PrintStream out) {
        for (int i = 0; i < count; i++) {
            boolean breaks = i % 2 == 1; var moments = draw(r, breaks); var topics = new LinkedHashMap<String, Integer>(); var drawn = new StringJoiner(","); var logs = new StringJoiner(",");
            for (var m : moments) {
                var wanted = m.wanted.stream().map(w -> w.json(topics, m.byId)).collect(Collectors.joining(",")); var states = m.states.stream().map(State::json).collect(Collectors.joining(","));
                drawn.add("[" + m.at + "," + m.lasts + "," + m.client + "," + m.replica + "," + m.connection + "," + m.byId + "," + m.kind + "," + m.throttled + ",[" + wanted + "],[" + states + "]]");
            }
            for (int slots : SLOTS) logs.add("\"" + slots + "\":" + new Broker(slots, moments, topics).run());
            var names = topics.keySet().stream().map(n -> "[\"" + n + "\"]").collect(Collectors.joining(","));
            out.println("{\"breaks\":" + breaks + ",\"topics\":[" + names + "],\"moments\":[" + drawn + "],\"fetches\":{" + logs + "}}");
        }
    }
}
