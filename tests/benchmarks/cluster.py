"""A KRaft cluster, simulated event by event, that logs its requests as Kafka 4.2 does.

Simulated is what rules read: the metadata quorum (appends, a NoOp record when idle, FETCHes that
park and what completes them, the high watermark of KIP-1166), heartbeats, PRODUCEs with acks=-1, 1
and 0, followers' FETCHes in incremental sessions, and a metadata write now and then.
Nothing fails, and every counter goes on, so a log of any length has no gap.

Times are microseconds of the cluster's clock. An event is the moment at which a request is handled;
when it arrived lies a little before. The same load gives the same bytes.
"""

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, count, groupby, zip_longest
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

MS, SECOND = 1_000, 1_000_000
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_JAVA = {"softwareName": "apache-kafka-java", "softwareVersion": "4.2.0"}
_RDKAFKA = {"softwareName": "confluent-kafka-python", "softwareVersion": "2.16.1-rdkafka-2.16.0"}
_UNKNOWN = {"softwareName": "unknown", "softwareVersion": "unknown"}
#: Key and version of the requests that are logged.
_APIS = {
    "PRODUCE": (0, 10),
    "FETCH": (1, 18),
    "METADATA": (3, 13),
    "API_VERSIONS": (18, 4),
    "CREATE_TOPICS": (19, 4),
    "INCREMENTAL_ALTER_CONFIGS": (44, 1),
    "BROKER_REGISTRATION": (62, 4),
    "BROKER_HEARTBEAT": (63, 1),
}
#: Requests, responses and their parts, of which only what changes is set below.
_BODIES = json.loads(Path(__file__).with_name("bodies.json").read_text())
_PORTS = {"CONTROLLER": 9093, "CLIENT": 9092, "REPL": 9094}
_RAFT_TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
_LEADER = 1
#: controller.quorum.append.linger.ms, and how long FETCHes may be parked.
_LINGER_US, _MAX_WAIT_US = 25 * MS, 500 * MS
#: Between heartbeats, records of an idle controller, and metadata writes.
HEARTBEAT_MS, _IDLE_US, _WRITE_US = 2_000, 500 * MS, 10 * SECOND
#: From a response to the same replica's next FETCH: brokers are near or far.
_ROUND_TRIPS_US = (22_000, 30_000, 85_000)
_encode = msgspec.json.Encoder().encode
Body = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """How large the cluster is, and what its clients do."""

    brokers: int = 3
    #: Of topics of at most a thousand; the first ``leaders`` brokers lead them all, and the first
    #: ``busy`` of them have all the traffic.
    partitions: int = 12
    leaders: int = 1_000_000
    busy: int = 1_000_000
    #: Each writes to every leader: one of five with acks=0, two with acks=1.
    producers: int = 5
    produce_ms: int = 140


class Connection:
    """A client's connection to a node, and the ids of its requests."""

    def __init__(
        self, cluster: "Cluster", node: int, sender: int, client: str, listener: str, software: Body
    ) -> None:
        self.cluster, self.node, self.client, self.software = cluster, node, client, software
        number = cluster.connections = cluster.connections + 1
        self.ids = count(int(software is _RDKAFKA))  # librdkafka's begin with 1
        to, by = f"{_host(node)}:{_PORTS[listener]}", f"{_host(sender)}:{20_000 + number % 40_000}"
        self.line = _BODIES["line"] | {
            "connection": f"{to}-{by}-{number % 6}-{number}",
            "listener": listener,
            "clientInformation": software,
        }

    def take(self, api: str, request: Body, dequeued_us: int, handled_us: int) -> "Pending":
        return Pending(self, api, next(self.ids), request, dequeued_us, handled_us)

    def open(self, broker: "Broker | None" = None) -> None:
        """Logs the API_VERSIONS that opens it; a broker returns its metadata offset."""
        now = self.cluster.now_us
        name, version = (_JAVA if self.software is _UNKNOWN else self.software).values()
        request = {"clientSoftwareName": name, "clientSoftwareVersion": version}
        offset = {"finalizedFeaturesEpoch": broker.applied(now - 300)} if broker else {}
        response = _BODIES["versions"] | offset
        self.take("API_VERSIONS", request, now - 300, now).respond(response, now)


@dataclass(slots=True)
class Pending:
    """A request that has no response yet; ``sender`` is whose a broker forwards."""

    connection: Connection
    api: str
    number: int
    request: Body
    dequeued_us: int
    handled_us: int
    sender: str | None = None

    def respond(self, response: Any, built_us: int) -> None:
        to = self.connection
        queued, waited, sent = (int(50 + 300 * to.cluster.random.random() ** 4) for _ in range(3))
        taken = built_us - self.dequeued_us
        local = min(self.handled_us - self.dequeued_us, taken)
        key, version = _APIS[self.api]
        header = {
            "requestApiKey": key,
            "requestApiVersion": version - (key == 18 and to.software is _RDKAFKA),
            "correlationId": self.number,
            "clientId": self.sender or to.client,
            "requestApiKeyName": self.api,
        }
        line = to.line | {"isForwarded": self.sender is not None, "requestHeader": header}
        line |= {"request": self.request, "response": response}
        line |= {"totalTimeMs": (queued + taken + waited + sent) / MS}
        line |= {"requestQueueTimeMs": queued / MS, "localTimeMs": local / MS}
        line |= {"remoteTimeMs": (taken - local) / MS}
        line |= {"responseQueueTimeMs": waited / MS, "sendTimeMs": sent / MS}
        to.cluster.write(built_us + waited + sent, to.node, _encode(line))


@dataclass(slots=True, eq=False)
class Partition:
    """A partition at its leader; ``followers`` with the offset that each has fetched."""

    topic: str
    topic_id: str
    index: int
    replicas: list[int]
    followers: dict[int, int]
    end: int = 0
    high_watermark: int = 0
    bytes: int = 0
    #: PRODUCEs that wait for the high watermark, by the end of their batch.
    waiting: deque[tuple[int, "Produce"]] = field(default_factory=deque)
    fetched: list["Fetched"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Fetched:
    """A partition in a session: its place there, what its client has, and was returned last."""

    partition: Partition
    session: "Session"
    number: int
    place: int
    offset: int = 0
    next_offset: int = 0
    bytes: int = 0
    high_watermark: int = -1


@dataclass(slots=True, eq=False)
class Session:
    """A follower's FETCHes of a leader's partitions, one at a time."""

    connection: Connection
    broker: "Broker"
    gap_us: int
    id: int = 0
    epoch: int = 0
    last_place: int = 0
    changed: set[Fetched] = field(default_factory=set)
    listed: list[Fetched] = field(default_factory=list)
    parked: Pending | None = None

    def add(self, partition: Partition) -> None:
        number = self.last_place = len(self.listed)
        fetched = Fetched(partition, self, number, number)
        partition.fetched.append(fetched)
        self.listed.append(fetched)
        self.changed.add(fetched)


class Producer(NamedTuple):
    connection: Connection
    partitions: list[Partition]
    acks: int


@dataclass(slots=True)
class Produce:
    """A PRODUCE, and of how many partitions it still waits for the high watermark."""

    producer: Producer
    pending: Pending
    response: Any = ""
    missing: int = 0


@dataclass(slots=True)
class Replica:
    """Who fetches the metadata log; what the last response brought is known once it arrives."""

    node: int
    connection: Connection
    is_voter: bool
    gap_us: int
    directory: str
    offset: int = 0
    bytes: int = 0
    high_watermark: int = -1
    learned: int = -1
    learned_us: int = 0
    parked: Pending | None = None


class Broker:
    def __init__(self, cluster: "Cluster", node: int) -> None:
        self.node, self.place = node, node - cluster.broker_ids[0]
        self.replica = cluster.quorum.replica(node, is_voter=False)
        self.connection = Connection(cluster, _LEADER, node, str(node), "CONTROLLER", _JAVA)
        self.forwarding = Connection(cluster, _LEADER, node, str(node), "CONTROLLER", _UNKNOWN)
        self.admin = Connection(cluster, node, 2000, "rdkafka", "CLIENT", _RDKAFKA)
        self.partitions: list[Partition] = []
        self.epoch, self.is_registering = -1, True

    def applied(self, at_us: int) -> int:
        """The last metadata offset that it has applied."""
        known = self.replica
        return (known.learned if at_us >= known.learned_us else known.high_watermark) - 1


class Cluster:
    """The nodes of a load: ``write`` gets their lines, with when and where each was completed."""

    def __init__(self, load: Load, write: Callable[[int, int, bytes], None]) -> None:
        self.load, self.write = load, write
        self.random = Random(1)
        self.connections = self.writes = self.now_us = self._count = 0
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.controllers = [1, 2, 3]
        self.broker_ids = [*range(11, 11 + load.brokers)]
        self.quorum = Quorum(self)
        self.brokers = [Broker(self, node) for node in self.broker_ids]
        self.topics: dict[str, list[Partition]] = {}
        for number, broker in enumerate(self.brokers):
            self.at(2 * SECOND + number * 200 * MS // load.brokers, self._register, broker)
        self.at(4 * SECOND, self._create_topics)

    def at(self, at_us: int, call: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heappush(self._events, (at_us, self._count, call, arguments))

    def run(self, until_us: int) -> None:
        while self._events[0][0] < until_us:
            self.now_us, _, call, arguments = heappop(self._events)
            call(*arguments)

    def uuid(self) -> str:
        return base64.b64encode(self.random.randbytes(16), b"ab").decode()[:22]

    # Brokers and the controller.

    def _register(self, broker: Broker) -> None:
        broker.connection.open()
        broker.epoch = self.quorum.append(1, 330)
        request = _BODIES["registration"] | {
            "brokerId": broker.node,
            "incarnationId": self.uuid(),
            "logDirs": [broker.replica.directory],
        }
        response = {"throttleTimeMs": 0, "errorCode": 0, "brokerEpoch": broker.epoch}
        self._await_commit(broker, "BROKER_REGISTRATION", request, response, 100 * MS)

    def _heartbeat(self, broker: Broker) -> None:
        """Fenced until it has applied its registration, then unfenced by a record."""
        offset = broker.applied(self.now_us - MS)
        is_caught_up = offset >= broker.epoch
        if is_caught_up and broker.is_registering:
            broker.is_registering = False
            self.quorum.append(1, 90)
        request = _BODIES["heartbeat"] | {
            "brokerId": broker.node,
            "brokerEpoch": broker.epoch,
            "currentMetadataOffset": offset,
            "wantFence": not is_caught_up,
        }
        state = {"isCaughtUp": is_caught_up, "isFenced": not is_caught_up}
        response = _BODIES["beaten"] | state
        pause_us = HEARTBEAT_MS * MS if is_caught_up else 200 * MS
        self._await_commit(broker, "BROKER_HEARTBEAT", request, response, pause_us)

    def _await_commit(
        self, broker: Broker, api: str, request: Any, response: Any, pause_us: int
    ) -> None:
        """Responds when all that is appended is committed; then comes the next heartbeat."""
        pending = broker.connection.take(api, request, self.now_us - 250, self.now_us)

        def respond() -> None:
            built_us = self.now_us + 200
            pending.respond(response, built_us)
            self.at(built_us + pause_us, self._heartbeat, broker)

        self.quorum.when_committed(respond)

    def _forward(self, broker: Broker, api: str, request: Any, response: Any, records: int) -> None:
        """A broker passes the admin client's metadata write on to the controller."""
        now, handled_us = self.now_us, self.now_us + 2 * MS
        of_broker = broker.admin.take(api, request, now, now + MS)
        at = handled_us - 400, handled_us, "rdkafka"
        of_controller = Pending(broker.forwarding, api, of_broker.number, request, *at)

        def respond() -> None:
            of_controller.respond(response, self.now_us + 100)
            of_broker.respond(response, self.now_us + 2 * MS)

        def append() -> None:
            self.quorum.append(records, 90 * records)
            self.quorum.when_committed(respond)

        self.at(handled_us, append)

    def _alter_config(self) -> None:
        self.writes += 1
        topic = [*self.topics][self.writes % len(self.topics)]
        resource = {"resourceType": 2, "resourceName": topic}
        value = f"{86_400_000 + self.writes}"
        configs = [{"name": "retention.ms", "configOperation": 0, "value": value}]
        request = {"resources": [{**resource, "configs": configs}], "validateOnly": False}
        result = {"errorCode": 0, "errorMessage": None, **resource}
        response = {"throttleTimeMs": 0, "responses": [result]}
        broker = self.brokers[self.writes % len(self.brokers)]
        self._forward(broker, "INCREMENTAL_ALTER_CONFIGS", request, response, 1)
        self.at(self.now_us + _WRITE_US, self._alter_config)

    def _create_topics(self) -> None:
        """Creates topics, one after the other, and then starts clients."""
        load, created = self.load, sum(map(len, self.topics.values()))
        if created == load.partitions:
            self._start_clients()
            return
        name, topic_id = f"topic-{len(self.topics)}", self.uuid()
        partitions = self.topics[name] = []
        for index in range(min(load.partitions - created, 1000, max(load.partitions // 2, 1))):
            first = (created + index) % min(load.leaders, load.brokers)
            nodes = [self.broker_ids[(first + n) % load.brokers] for n in range(3)][: load.brokers]
            partitions.append(Partition(name, topic_id, index, nodes, dict.fromkeys(nodes[1:], 0)))
            self.brokers[first].partitions.append(partitions[-1])
        assigned = [{"partitionIndex": p.index, "brokerIds": p.replicas} for p in partitions]
        topic = _BODIES["topic"] | {"name": name, "assignments": assigned}
        request = {"topics": [topic], "timeoutMs": 60000, "validateOnly": False}
        result = {"name": name, "errorCode": 0, "errorMessage": None}
        response = {"throttleTimeMs": 0, "topics": [result]}
        if len(self.topics) == 1:
            for broker in self.brokers:
                broker.admin.open(broker)
        self._forward(self.brokers[-1], "CREATE_TOPICS", request, response, 2 + len(partitions))
        self.at(self.now_us + 300 * MS, self._create_topics)

    # Clients.

    def _start_clients(self) -> None:
        load, now = self.load, self.now_us
        self.at(now + SECOND, self._alter_config)
        for leader in self.brokers:
            for broker in self.brokers:
                followed = [p for p in leader.partitions if broker.node in p.followers]
                name = f"broker-{broker.node}-fetcher-0"
                if followed:
                    to = Connection(self, leader.node, broker.node, name, "REPL", _UNKNOWN)
                    session = Session(to, broker, _ROUND_TRIPS_US[broker.place % 3])
                    for partition in followed:
                        session.add(partition)
                    begin_us = now + SECOND // 2 + self.random.randrange(SECOND // 4)
                    self.at(begin_us, self._fetch, session)
        in_turn = chain(*zip_longest(*(broker.partitions for broker in self.brokers)))
        busy = {*[partition for partition in in_turn if partition][: load.busy]}
        for leader in self.brokers:
            partitions = [partition for partition in leader.partitions if partition in busy]
            if partitions:
                for number in range(load.producers):
                    self._start_producer(number, leader, partitions)

    def _start_producer(self, number: int, leader: Broker, partitions: list[Partition]) -> None:
        acks = (-1, -1, 1, 1, 0)[number % 5]
        # acks=0 hides how many records there are, so it has partitions of its own.
        own = [p for p in partitions if (p.index % 4 == 3) == (acks == 0)] or partitions
        client = f"producer-{number + 1}"
        connection = Connection(self, leader.node, 2001 + number, client, "CLIENT", _RDKAFKA)
        begin_us = self.now_us + SECOND + self.random.randrange(SECOND)
        self.at(begin_us, connection.open, leader)
        self.at(begin_us + 5 * MS, self._metadata, connection)
        self.at(begin_us + 50 * MS, self._produce, Producer(connection, own, acks))

    def _metadata(self, connection: Connection) -> None:
        """METADATA of two topics, and again every five minutes."""
        topics = [*self.topics.items()][:2]
        names = [{"topicId": "A" * 22, "name": name} for name, _ in topics]
        request = _BODIES["metadata"] | {"topics": names}
        response = _BODIES["described"] | {
            "brokers": [
                {"nodeId": node, "host": _host(node), "port": 9092, "rack": None}
                for node in self.broker_ids
            ],
            "controllerId": self.broker_ids[0],
            "topics": [_described(partitions) for _, partitions in topics],
        }
        pending = connection.take("METADATA", request, self.now_us - 900, self.now_us)
        pending.respond(response, self.now_us)
        self.at(self.now_us + 300 * SECOND, self._metadata, connection)

    def _produce(self, producer: Producer) -> None:
        now, random = self.now_us, self.random.random
        connection, partitions, acks = producer
        # With acks=-1, a partition of several does not show when it was acknowledged itself.
        count = 2 if acks == 1 and len(partitions) > 1 and random() < 0.1 else 1
        first = int(random() * len(partitions))
        sent, returned, woken = [], [], dict[Session, None]()
        request = {"transactionalId": None, "acks": acks, "timeoutMs": 30000}
        dequeued_us = now - 250 - int(600 * random() ** 3)
        done = Produce(producer, connection.take("PRODUCE", request, dequeued_us, now))
        for partition in (partitions[(first + n) % len(partitions)] for n in range(count)):
            records = 1 + int(random() * 4)
            size = 70 + records * int(60 + random() * 60)
            sent.append((partition.topic, {"index": partition.index, "recordsSizeInBytes": size}))
            appended = {"index": partition.index, "baseOffset": partition.end}
            returned.append((partition.topic, _BODIES["appended"] | appended))
            partition.end += records
            partition.bytes += size
            if not partition.followers:
                partition.high_watermark = partition.end
            elif acks == -1:
                done.missing += 1
                partition.waiting.append((partition.end, done))
            for fetched in partition.fetched:
                fetched.session.changed.add(fetched)
                if fetched.session.parked:
                    woken[fetched.session] = None
        request["topicData"] = _grouped("name", "partitionData", sent)
        if acks:
            responses = _grouped("name", "partitionResponses", returned)
            done.response = {"responses": responses, "throttleTimeMs": 0}
        for step, session in enumerate(woken):
            self._respond(session, now + 30 + 25 * step)
        if not done.missing:
            self._acknowledge(done, now)

    def _acknowledge(self, done: Produce, built_us: int) -> None:
        done.pending.respond(done.response, built_us)
        # Sent at times of the producer's own, but not before the last response.
        next_us = done.pending.handled_us + int(
            self.random.expovariate(1 / (self.load.produce_ms * MS))
        )
        self.at(max(built_us + 2 * MS, next_us + 3 * MS), self._produce, done.producer)

    def _fetch(self, session: Session) -> None:
        now, broker = self.now_us, session.broker
        listed = sorted(session.listed, key=attrgetter("number"))
        session.listed = []
        for fetched in listed:
            fetched.offset = fetched.next_offset
        topics = [(f.partition.topic_id, _listed(f)) for f in listed]
        request = {"sessionId": session.id, "sessionEpoch": session.epoch}
        request["topics"] = _grouped("topicId", "partitions", topics)
        request["replicaState"] = {"replicaId": broker.node, "replicaEpoch": broker.epoch}
        request = _BODIES["follower's fetch"] | request
        dequeued_us = now - 200 - int(700 * self.random.random() ** 3) - 2 * len(listed)
        session.parked = session.connection.take("FETCH", request, dequeued_us, now + 30)
        if any(f.partition.end > f.offset for f in session.changed):
            # With the high watermarks from before this FETCH.
            self._respond(session, now + 30)
        else:
            self.at(now + _MAX_WAIT_US, self._expire, session, session.epoch)
        # The follower's offsets move high watermarks.
        acknowledged: list[Produce] = []
        for fetched in listed:
            partition = fetched.partition
            partition.followers[broker.node] = fetched.offset
            end = min(partition.end, *partition.followers.values())
            if end > partition.high_watermark:
                acknowledged += self._advance(partition, end)
        for step, done in enumerate(acknowledged):
            self._acknowledge(done, now + 15 + 10 * step)

    def _expire(self, session: Session, epoch: int) -> None:
        if session.parked and session.epoch == epoch:
            self._respond(session, self.now_us)

    def _advance(self, partition: Partition, high_watermark: int) -> Iterator["Produce"]:
        """Moves the high watermark; who waited for that only."""
        partition.high_watermark = high_watermark
        for fetched in partition.fetched:
            fetched.session.changed.add(fetched)
        while partition.waiting and partition.waiting[0][0] <= high_watermark:
            done = partition.waiting.popleft()[1]
            done.missing -= 1
            if not done.missing:
                yield done

    def _respond(self, session: Session, built_us: int) -> None:
        """Returns the partitions that have records or another high watermark."""
        parked, session.parked = session.parked, None
        assert parked is not None
        returned = []
        for fetched in sorted(session.changed, key=attrgetter("place")):
            partition, size = fetched.partition, 0
            if partition.end > fetched.offset:
                size, fetched.bytes = partition.bytes - fetched.bytes, partition.bytes
                fetched.next_offset = partition.end
                session.listed.append(fetched)
                if session.epoch:  # a session begins in the order of its first request
                    session.last_place += 1
                    fetched.place = session.last_place
            elif partition.high_watermark == fetched.high_watermark:
                continue
            fetched.high_watermark = partition.high_watermark
            returned.append((partition.topic_id, _returned(partition, size)))
        session.changed.clear()
        if not session.epoch:
            session.id = self.random.randrange(1, 2**31 - 1)
        session.epoch += 1
        topics = _grouped("topicId", "partitions", returned)
        response = _BODIES["fetched"] | {"sessionId": session.id, "responses": topics}
        parked.respond(response, built_us)
        gap_us = int(session.gap_us * (1 + 0.3 * self.random.random()))
        self.at(built_us + gap_us, self._fetch, session)


class Quorum:
    """The metadata log at its leader, and the replicas that fetch it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: A record begins the leader's epoch.
        self.end, self.bytes, self.appended_us = 1, 106, 0
        #: Records and bytes that are appended in a moment, together.
        self.lingering = 0, 0
        self.voters = dict.fromkeys(cluster.controllers[1:], 0)
        self.high_watermark = -1
        self.parked: dict[int, Replica] = {}
        self.waiting: deque[tuple[int, Callable[[], None]]] = deque()
        for node in self.voters:
            self.replica(node, is_voter=True)
            # What other controllers have in their logs: the leader asked for votes.
            asking = Connection(cluster, node, _LEADER, "raft-client-1", "CONTROLLER", _JAVA)
            cluster.at(SECOND // 4, asking.open)
        cluster.at(SECOND, self.append, 9, 330)
        cluster.at(2 * SECOND, self._idle)

    def replica(self, node: int, *, is_voter: bool) -> Replica:
        cluster = self.cluster
        client = node, f"raft-client-{node}", "CONTROLLER", _JAVA
        connection = Connection(cluster, _LEADER, *client)
        gap_us = _ROUND_TRIPS_US[node % 3] // (4 if is_voter else 2)
        begin_us = SECOND // 2 + cluster.random.randrange(SECOND // 4)
        cluster.at(begin_us, connection.open)
        replica = Replica(node, connection, is_voter, gap_us, cluster.uuid())
        cluster.at(begin_us + 5 * MS, self._fetch, replica)
        return replica

    def append(self, records: int, size: int) -> int:
        """Appends records, with others of the next 25 ms; returns the offset of the first."""
        cluster, (count, held) = self.cluster, self.lingering
        if not count:
            cluster.at(cluster.now_us + _LINGER_US, self._drain)
        self.lingering = count + records, held + size
        return self.end + count

    def _drain(self) -> None:
        """Appends what lingers, and responds to all that are parked."""
        (records, size), self.lingering = self.lingering, (0, 0)
        self.end, self.bytes = self.end + records, self.bytes + size
        self.appended_us = self.cluster.now_us
        self._wake(self.cluster.now_us + 100)
        self._commit()

    def _idle(self) -> None:
        """Appends a NoOp record where nothing was appended for so long."""
        now, due_us = self.cluster.now_us, self.appended_us + _IDLE_US - _LINGER_US
        if now >= due_us:
            self.append(1, 72)
            due_us = now + _IDLE_US
        self.cluster.at(due_us, self._idle)

    def when_committed(self, call: Callable[[], None]) -> None:
        """Calls when all is committed that was appended until now."""
        self.waiting.append((self.end + self.lingering[0], call))
        self._commit()

    def _commit(self) -> None:
        while self.waiting and self.waiting[0][0] <= self.high_watermark:
            self.waiting.popleft()[1]()

    def _wake(self, at_us: int) -> int:
        """Responds to the parked, one after the other; returns when the last was."""
        parked, self.parked = self.parked, {}
        for replica in parked.values():
            self._respond(replica, at_us)
            at_us += 20
        return at_us

    def _fetch(self, replica: Replica) -> None:
        now = self.cluster.now_us
        replica.high_watermark = max(replica.high_watermark, replica.learned)
        fetched = _BODIES["replica's partition"] | {
            "fetchOffset": replica.offset,
            "lastFetchedEpoch": int(replica.offset > 0),
            "replicaDirectoryId": replica.directory,
            "highWatermark": replica.high_watermark,
        }
        request = _BODIES["replica's fetch"] | {
            "replicaState": {"replicaId": replica.node, "replicaEpoch": -1},
            "topics": [{"topicId": _RAFT_TOPIC, "partitions": [fetched]}],
        }
        dequeued_us = now - 300 - int(200 * self.cluster.random.random())
        replica.parked = replica.connection.take("FETCH", request, dequeued_us, now - 200)
        built_us = now + 20
        if replica.is_voter:
            self.voters[replica.node] = replica.offset
            ends = sorted([self.end, *self.voters.values()], reverse=True)
            if ends[len(ends) // 2] > max(self.high_watermark, 0):
                self.high_watermark = ends[len(ends) // 2]
                built_us = self._wake(built_us)
        if self.end > replica.offset or self.high_watermark > replica.high_watermark:
            self._respond(replica, built_us)
        else:
            self.parked[replica.node] = replica
            self.cluster.at(now + _MAX_WAIT_US, self._expire, replica, replica.parked.number)
        self._commit()

    def _expire(self, replica: Replica, number: int) -> None:
        if replica.parked and replica.parked.number == number:
            self._respond(self.parked.pop(replica.node), self.cluster.now_us)

    def _respond(self, replica: Replica, built_us: int) -> None:
        parked, replica.parked = replica.parked, None
        assert parked is not None
        size, replica.bytes = self.bytes - replica.bytes, self.bytes
        state = {"highWatermark": self.high_watermark, "recordsSizeInBytes": size}
        returned = _BODIES["replicated partition"] | state
        topics = [{"topicId": _RAFT_TOPIC, "partitions": [returned]}]
        response = _BODIES["replicated"] | {"responses": topics}
        parked.respond(response, built_us)
        replica.offset = self.end
        replica.learned = max(replica.learned, min(self.end, self.high_watermark))
        gap_us = int(replica.gap_us * (1 + 0.3 * self.cluster.random.random()))
        replica.learned_us = built_us + gap_us // 2
        self.cluster.at(built_us + gap_us, self._fetch, replica)


def _host(node: int) -> str:
    return f"10.77.{node >> 8}.{node & 255}"


def _grouped(key: str, name: str, partitions: Iterable[tuple[str, Body]]) -> list[Body]:
    """Neighbours of one topic stand in one list."""
    topics = groupby(partitions, key=lambda one: one[0])
    return [{key: topic, name: [entry for _, entry in of]} for topic, of in topics]


def _listed(fetched: Fetched) -> Body:
    return _BODIES["listed"] | {
        "partition": fetched.partition.index,
        "fetchOffset": fetched.offset,
        "lastFetchedEpoch": 0 if fetched.offset else -1,
        "logStartOffset": 0,
    }


def _returned(partition: Partition, size: int) -> Body:
    return _BODIES["returned"] | {
        "partitionIndex": partition.index,
        "highWatermark": partition.high_watermark,
        "lastStableOffset": partition.high_watermark,
        "recordsSizeInBytes": size,
    }


def _described(partitions: list[Partition]) -> Body:
    described = [
        _BODIES["described partition"]
        | {"partitionIndex": p.index, "leaderId": p.replicas[0]}
        | {"replicaNodes": p.replicas, "isrNodes": p.replicas}
        for p in partitions
    ]
    named = {"name": partitions[0].topic, "topicId": partitions[0].topic_id}
    return _BODIES["described topic"] | named | {"partitions": described}
