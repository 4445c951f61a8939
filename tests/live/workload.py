"""Work for a cluster, the same for one seed: by real clients, which note what they saw.

``metadata``: topics are created, altered and deleted, and clients of each broker look for new ones.
``acks``: Java producers send at fixed times, while the delays of replication change.
``sessions``: Java's console consumers and librdkafka's on many partitions, few of them busy.
``racks``: librdkafka's consumers in the racks of the brokers.
"""

import json
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from live.artifacts import CLIENTS, class_path
from live.cluster import Cluster, Node

_TOPICS = ("p1", "p2", "p3")
_WIDE, _WIDE_PARTITIONS = "wide", 64
_VERSION = 9
#: Readers that had no record so late for so long are up to date: a transaction takes 0.3 s.
_LATE_S, _STEADY_S = 0.6, 5


def prepare(cluster: Cluster) -> None:
    """Creates the topics that producers and consumers use, each led by the brokers in turn."""
    ids = [node.node_id for node in cluster.brokers]
    turns = [ids[i:] + ids[:i] for i in range(len(ids))]
    topics = [NewTopic(name, 2, replica_assignment=turns[:2]) for name in _TOPICS]
    wide = [turns[i % len(turns)] for i in range(_WIDE_PARTITIONS)]
    topics.append(NewTopic(_WIDE, len(wide), replica_assignment=wide))
    admin = _admin(cluster)
    for done in admin.create_topics(topics).values():
        done.result()


def mixed(cluster: Cluster, folder: Path, seed: int, seconds: int) -> None:
    """All three, one after another. Topics are created first: the log sees all sessions begin."""
    prepare(cluster)
    for work in (metadata, acks, sessions):
        work(cluster, folder, seed, seconds)


def warm_up(cluster: Cluster, folder: Path, seconds: int = 20) -> None:
    """Produces to all topics: JVMs that have just started are slow."""
    with producers(cluster, folder, 0, seconds, ",".join((*_TOPICS, _WIDE))):
        pass


def metadata(cluster: Cluster, folder: Path, seed: int, seconds: float) -> None:
    """Writes client_ops.jsonl: when each operation was requested, responded to, and visible."""
    admin, chance, topics = _admin(cluster), random.Random(seed), list[str]()
    began, due = time.time(), 0.0
    with (folder / "client_ops.jsonl").open("w") as out:
        while (due := due + chance.expovariate(1.6)) < seconds:
            time.sleep(max(0.0, began + due - time.time()))
            kind = chance.choices(("create", "alter", "delete"), (5, 3, 2))[0]
            kind = kind if topics else "create"
            topic = f"m{began:.0f}-{due:.3f}" if kind == "create" else chance.choice(topics)
            requested_at = time.time()
            _operation(admin, kind, topic, chance.randrange(1, 5))
            row: dict[str, Any] = {"op": kind, "topic": topic, "requested_at": requested_at}
            row["responded_at"] = time.time()
            if kind == "create":
                topics.append(topic)
                row["visible"] = _visible(cluster, topic)
            elif kind == "delete":
                topics.remove(topic)
            print(json.dumps(row), file=out)


def acks(cluster: Cluster, folder: Path, seed: int, seconds: int) -> None:
    """Writes events.jsonl of the delays."""
    chance, out = random.Random(seed), (folder / "events.jsonl").open("w")
    names = [f"broker_{node.node_id}" for node in cluster.brokers]
    with producers(cluster, folder, seed, seconds) as load, out:
        while load.poll() is None:
            delays = {name: chance.choice((1, 3, 10, 30, 80)) for name in names}
            cluster.delay(**delays)
            event = {"event": f"one-way replication delay ms: {delays}", "at": time.time()}
            print(json.dumps(event), file=out)
            try:
                load.wait(chance.uniform(4, 8))
            except subprocess.TimeoutExpired:
                continue
    cluster.delay(**dict.fromkeys(names, 0))


@contextmanager
def producers(
    cluster: Cluster, folder: Path, seed: int, seconds: int, topics: str = ",".join(_TOPICS)
) -> Iterator[subprocess.Popen[bytes]]:
    """24 Java producers of two records a second each, for so many seconds since all connected."""
    source = Path(__file__).with_name("Load.java")
    command = ["java", "-Xmx128m", "-cp", class_path(CLIENTS, "kafka-tools"), source]
    command += [cluster.bootstrap, seed, seconds, 24, 2, folder / "client_latency.jsonl", topics]
    with _running(list(map(str, command)), subprocess.PIPE) as load:
        assert load.stdout is not None
        with load.stdout as connected:
            connected.readline()
        yield load
        if load.wait(seconds + 60):
            raise RuntimeError("the producers failed")


def sessions(cluster: Cluster, folder: Path, seed: int, seconds: int) -> None:
    """Two of Java's console consumers and one of librdkafka, of a topic with many partitions."""
    with ExitStack() as stack:
        for number in range(2):
            command = ["java", "-Xmx128m", "-cp", class_path(CLIENTS, "kafka-tools")]
            command += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", _WIDE]
            command += ["--bootstrap-server", cluster.bootstrap, "--group", f"java-{seed}-{number}"]
            stack.enter_context(_running(command))
        stop = threading.Event()
        thread = threading.Thread(target=consume, args=(cluster, stop))
        thread.start()
        try:
            with producers(cluster, folder, seed, seconds, _WIDE):
                pass
        finally:
            stop.set()
            thread.join()


def consume(cluster: Cluster, stop: threading.Event, **more: str) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "librdkafka", "log_level": 0}
    consumer = Consumer(settings | {name.replace("_", "."): more[name] for name in more})
    consumer.subscribe([_WIDE])
    while not stop.is_set():
        consumer.poll(0.2)
    consumer.close()


def racks(cluster: Cluster, folder: Path, seed: int, seconds: int) -> None:
    """Writes deliveries.jsonl: when each record was sent, and had by a reader in each rack.

    ``busy`` has a replica on each broker, ``two`` on two of three; record values have their time.
    It is noted for so many seconds since readers are up to date: brokers that have just started are
    slow.
    """
    chance, ids = random.Random(seed), [node.node_id for node in cluster.brokers]
    turns = [ids[i:] + ids[:i] for i in range(len(ids))]
    topics = [
        NewTopic(name, 3, replica_assignment=[turn[:count] for turn in turns])
        for name, count in (("busy", 3), ("two", 2))
    ]
    admin, late_at, up_to_date = _admin(cluster), dict[str, float](), threading.Event()
    for done in admin.create_topics(topics).values():
        done.result()
    stop, lines, lock = threading.Event(), (folder / "deliveries.jsonl").open("w"), threading.Lock()
    began = False

    def read(rack: str) -> None:
        settings = {"group.id": rack, "client.id": f"reader-{rack}", "client.rack": rack}
        settings |= {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["busy", "two"])
        while not stop.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            now, sent_at = time.time(), float(message.value()[:20])
            if not up_to_date.is_set():
                if rack not in late_at or now - sent_at > _LATE_S:
                    late_at[rack] = now
                if len(late_at) == len(ids) and now > max(late_at.values()) + _STEADY_S:
                    up_to_date.set()
                continue
            what = {"reader": f"reader-{rack}", "rack": rack, "topic": message.topic()}
            what |= {"partition": message.partition(), "offset": message.offset()}
            what |= {"sent_at": sent_at, "received_at": now}
            with lock:
                print(json.dumps({**what, "bytes": len(message.value())}), file=lines)
        consumer.close()

    threads = [threading.Thread(target=read, args=(f"az{n + 1}",)) for n in range(len(ids))]
    with lines:
        for thread in threads:
            thread.start()
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        until = time.time() + 120
        while time.time() < until:
            if up_to_date.is_set() and not began:
                began, until = True, time.time() + seconds
            size = chance.randrange(200, 2000)
            topic = "busy" if chance.random() < 0.8 else "two"
            producer.produce(
                topic, f"{time.time():020.6f}".ljust(size), partition=chance.randrange(3)
            )
            producer.poll(chance.uniform(0.01, 0.05))
        producer.flush()
        time.sleep(2)
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def _running(
    command: list[str], stdout: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def _operation(admin: AdminClient, kind: str, topic: str, partitions: int) -> None:
    if kind == "create":
        done = admin.create_topics([NewTopic(topic, partitions)])
    elif kind == "delete":
        done = admin.delete_topics([topic])
    else:
        value = ConfigEntry("retention.ms", f"{3_600_000 + partitions}")
        value.incremental_operation = AlterConfigOpType.SET
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[value])
        done = admin.incremental_alter_configs([resource])
    for future in done.values():
        future.result()


def _visible(cluster: Cluster, topic: str) -> dict[int, float | None]:
    """When a client of each broker first saw the topic, in seconds since the epoch."""
    with ThreadPoolExecutor() as pool:
        seen = pool.map(partial(_look, topic), cluster.brokers)
        return {broker.node_id: at for broker, at in zip(cluster.brokers, seen, strict=True)}


def _look(topic: str, broker: Node) -> float | None:
    wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    request.API_VERSION = _VERSION
    with (
        suppress(OSError),  # the broker is down or frozen: nobody saw it there
        socket.create_connection(("127.0.0.1", broker.client), timeout=3) as connection,
    ):
        until = time.time() + 3
        while time.time() < until:
            request.with_header(correlation_id=1, client_id=f"look-{broker.node_id}")
            connection.sendall(request.encode(version=_VERSION, header=True, framed=True))
            read = connection.makefile("rb").read
            body = read(int.from_bytes(read(4)))[5:]
            if not MetadataResponse.decode(body, version=_VERSION).topics[0].error_code:
                return time.time()
            time.sleep(0.005)
    return None
