"""Brokers of every kind get in: versions, formats, roles, SASL, layouts. No time is judged."""

import json
import re
import subprocess
import threading
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from layouts.log4j import LAYOUTS
from layouts.wrappers import WRAPPERS, Record

from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.messages.schemas import SERVED_VERSIONS
from kip_replay.replay.tables import TABLES
from live.artifacts import CLIENTS, VERSIONS, class_path
from live.cluster import Cluster, Node
from live.recorded import frames, run

_MORE = 8
#: Version, what its storage is formatted for, and which FETCH its followers send then.
FORMATS = [
    ("3.9.2", "3.4-IV0", 13),
    ("3.9.2", "3.5-IV0", 14),
    ("4.4.0", "3.5", 15),
    ("4.4.0", "3.7", 16),
    ("4.4.0", "3.9", 17),
    ("4.4.0", None, 18),
]
_ALICE = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "alice",
    "sasl.password": "secret",
}


def work(bootstrap: str, copies: int, **settings: Any) -> None:
    """Creates and deletes topics, one of many partitions; produces and consumes."""
    client = {"bootstrap.servers": bootstrap, **settings}
    admin, producer = AdminClient(client), Producer({**client, "client.id": "producer"})
    consumer = Consumer({**client, "client.id": "consumer", "group.id": "group"})
    consumer.subscribe(["work"])
    topics = {"work": 4, "wide": 150, **{f"topic-{n}": 1 for n in range(_MORE)}}
    for name, partitions in topics.items():
        admin.create_topics([NewTopic(name, partitions, copies)])[name].result(60)
        admin.list_topics(timeout=60)
        for _ in range(40):
            producer.produce("work", b"x" * 300)
            producer.poll(0.01)
        consumer.poll(0.2)
    assert producer.flush(60) == 0
    consumer.close()


def perform(version: str, bootstrap: str, topic: str, records: int) -> None:
    java = ["java", "-Xmx128m", "-cp", class_path(version, "kafka-tools")]
    java += ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--record-size", "100"]
    java += ["--num-records", f"{records}", "--throughput", f"{records}", "--producer-props"]
    java += [f"bootstrap.servers={bootstrap}", "client.id=java"]
    subprocess.run(java, check=True, capture_output=True)


def read(cluster: Cluster) -> duckdb.DuckDBPyConnection:
    """Runs all on the logs of a cluster, of which no line may be rejected or left out."""
    node_logs = [(n, n.folder / "kafka-request.log") for n in cluster.nodes.values()]
    nodes = [{"node_id": n.node_id, "role": n.roles, "log": str(log)} for n, log in node_logs]
    manifest = {"name": "live", "timezone": "UTC", "nodes": nodes}
    (cluster.folder / "recording.json").write_text(json.dumps(manifest))
    print(run(cluster.folder / "warehouse", [cluster.folder], "--engine", "local"))
    database = Warehouse(cluster.folder / "warehouse").database(["live"])
    assert database.sql("FROM rejected_lines").fetchall() == []
    counted = database.sql("SELECT node_id, count(*) FROM requests GROUP BY node_id").fetchall()
    assert dict(counted) == {
        n.node_id: log.read_bytes().count(b"Completed request:") for n, log in node_logs
    }
    return database


@pytest.mark.parametrize(("version", "release", "fetch_version"), FORMATS)
def test_bytes_of_every_format(
    tmp_path: Path, version: str, release: str | None, fetch_version: int
) -> None:
    """The proxy's bytes of FETCHes and PRODUCEs are those of the log."""
    nodes = {1: "controller", 11: "broker", 12: "broker"}
    copies = {"offsets.topic.replication.factor": 2, "min.insync.replicas": 1}
    options = ("--release-version", release) if release else ()
    with Cluster(
        tmp_path, version, nodes, copies, level="DEBUG", format_options=options
    ) as cluster:
        proxied = ",".join(f"127.0.0.1:{node.proxied}" for node in cluster.brokers)
        work(proxied, copies=2)
        perform(CLIENTS, proxied, "work", 500)
        stopped_at = time.time()
        time.sleep(1)
    database = read(cluster)
    names = "node_id, {}, api_version, client_id, correlation_id, request_bytes, response_bytes"
    seen = frames(cluster).filter("api IN (0, 1)").project(names.format("api"))
    # A consumer that closes and a broker that stops do not wait for responses.
    logged = f"""SELECT {names.format("api_key")} FROM requests WHERE api_key IN (0, 1)
        AND listener = 'REPLICATION' AND client_id <> 'consumer'
        AND epoch(completed_at) < {stopped_at}"""
    lines = Counter(database.sql(logged).fetchall())
    assert lines - Counter(seen.fetchall()) == {}
    assert len(lines) > 100
    of = "SELECT max(api_version) FROM requests WHERE api_key = {} AND client_id LIKE '{}'"
    assert database.sql(of.format(1, "broker-%-fetcher-%")).fetchall() == [(fetch_version,)]
    produce_version = 13 if version == "4.4.0" else 11
    assert database.sql(of.format(0, "java")).fetchall() == [(produce_version,)]


def test_layouts_behind_sasl(tmp_path: Path) -> None:
    """A layout for each node, one of them as Docker keeps it; clients authenticate by SCRAM."""
    of_clients = "listener.name.client.scram-sha-256.sasl.jaas.config"
    settings = {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,REPLICATION:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        of_clients: "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    }
    layouts = {1: "thread-after", 11: "strimzi-millis", 13: "spring"}
    with Cluster(
        tmp_path,
        CLIENTS,
        {1: "controller", 11: "broker", 12: "broker", 13: "broker"},
        settings,
        patterns={node: LAYOUTS[name].argument for node, name in layouts.items()},
        stdout=(12,),
        level="DEBUG",
        format_options=("--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]"),
    ) as cluster:
        docker = threading.Thread(target=_keep, args=(cluster.nodes[12],))
        docker.start()
        work(cluster.bootstrap, 3, **_ALICE)
        # METADATA of all topics, in a line that Docker splits.
        asked = {"bootstrap.servers": f"127.0.0.1:{cluster.nodes[12].client}", **_ALICE}
        AdminClient(asked).list_topics(timeout=60)
        for node in cluster.brokers:
            cluster.stop(node.node_id)
        docker.join(60)
    assert b'"log":"[' in (kept := cluster.nodes[12].log.read_bytes())
    assert any(b'\\n","stream"' not in line for line in kept.splitlines()), "none was split"
    database = read(cluster)
    of = "SELECT DISTINCT listener, principal FROM requests WHERE listener <> 'CONTROLLER'"
    assert {*database.sql(of).fetchall()} == {
        ("CLIENT", "User:alice"),
        ("REPLICATION", "User:ANONYMOUS"),
    }


def _keep(node: Node) -> None:
    """Keeps what a node prints as Docker's json-file does."""
    assert node.process is not None
    assert node.process.stdout is not None
    with node.log.open("wb") as log:
        for line in node.process.stdout:
            record = Record(line.rstrip(b"\n"), time.time_ns() // 1000)
            log.write(WRAPPERS["docker-json"].of([record]))


def test_combined_nodes(tmp_path: Path) -> None:
    """A write through a node that leads and serves is one write, and known to be applied there."""
    both = dict.fromkeys((1, 2, 3), "broker,controller")
    with Cluster(tmp_path, CLIENTS, both, level="DEBUG") as cluster:
        work(cluster.bootstrap, 3)
        time.sleep(5)  # for two heartbeats of each
    database = read(cluster)
    written = database.sql(
        "SELECT count(*), count_if(via_broker IS NULL AND client_id = 'rdkafka') "
        "FROM metadata_write_outcomes WHERE variant = 'estimated' AND client_id = 'rdkafka'"
    )
    assert written.fetchall() == [(2 + _MORE, 0)]
    unknown = database.sql(
        "SELECT variant, reason FROM metadata_write_outcomes WHERE parameter = 'none' "
        "AND verdict = 'unknown'"
    )
    assert unknown.fetchall() == []


@pytest.mark.parametrize("version", ["4.0.0", *VERSIONS])
def test_served_versions_are_those_of_the_release(version: str) -> None:
    jar = next(p for p in class_path(version, "kafka-clients").split(":") if "kafka-clients" in p)
    lowest = {}
    with zipfile.ZipFile(jar) as messages:
        for file in messages.namelist():
            if name := re.fullmatch(r"common/message/(\w+)Request\.json", file):
                [first] = re.findall(r'"validVersions": *"(\w+)', messages.read(file).decode())
                lowest[re.sub(r"\B(?=[A-Z])", "_", name[1]).upper()] = first
    served = [of for of in SERVED_VERSIONS if of[2] <= version < (of[3] or "9")]
    raised = {name: first for name, first in lowest.items() if first not in ("0", "none")}
    assert raised == {name: str(first) for name, first, *_ in served}


def test_an_upgrade_breaks_a_client_of_old(tmp_path: Path) -> None:
    """Kafka 3.9 serves both clients, 4.3 the newer one, as the view says of 3.9's log."""
    records, refused, nodes = [], [], {1: "controller", 11: "broker"}
    for version, client in [(v, c) for v in ("3.9.2", "4.3.1") for c in ("0.10.2.2", "2.0.1")]:
        with Cluster(tmp_path / version / client, version, nodes, level="DEBUG") as cluster:
            at = {"bootstrap.servers": cluster.bootstrap, "group.id": "counts"}
            admin, consumer = AdminClient(at), Consumer(at)
            admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
            perform(client, cluster.bootstrap, "t", 50)
            records.append(consumer.get_watermark_offsets(TopicPartition("t", 0), 60)[1])
        create_views(database := read(cluster), in_order(read_views(), TABLES))
        rows = database.view("client_api_versions").filter(
            "not_served_from <> '' OR deprecated > 0"
        )
        refused += rows.project("api_name, lowest_version, requests = deprecated").fetchall()
    assert records == [50, 50, 0, 50]
    assert refused == [("PRODUCE", 2, True)]
