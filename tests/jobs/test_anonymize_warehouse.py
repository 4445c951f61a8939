"""A warehouse made with ``--anonymize``: nothing of a name in any file, and the same answers."""

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from put_rows import contents, without_texts
from recorded_logs import folder_of
from small_logs import BROKER, CONTROLLER, write_recording

from kip_replay.jobs import ingest, run
from kip_replay.jobs._parser import KEY_VARIABLE
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.replaying.replay import replay
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.request_log import Anonymous, Pseudonyms
from kip_replay.replay.kafka.request_log.anonymous import INTERNAL_TOPICS, KAFKA_CLIENTS
from kip_replay.replay.log_tables import (
    INGESTED_FILES,
    PRODUCES,
    REQUESTS,
    TOPICS,
)
from kip_replay.replay.table import Table
from kip_replay.replay.tables import (
    BANDWIDTH_SUMMARY,
    LATENCY_SUMMARY,
    LINEAGE,
    PREDICTION_ACCURACY,
    QUALITY_RESULTS,
    REPLAY_STATE,
    TABLES,
)

SECRET = b"not to be guessed, ever"
SWEEPS = (
    "hwm_parking.max_wait_ms",
    "incremental_fetch.session_slots",
    "min_isr_acks.min_insync_replicas",
    "lowest_acked_offset.broker_heartbeat_interval_ms",
)
FAILOVER = folder_of("failover-4.0")
#: What stands in the hostile log instead. Nothing of it may be found in the warehouse.
HOSTILE = {
    b'"User:ANONYMOUS"': b'"User:CN=Alice,OU=Acme Billing"',
    b"10.77.0.1:": b"laptop-7.acme.example:",
    b"10.77.0.12": b"kafka-12.acme.example",
    b'"rack":null': b'"rack":"acme-floor-3"',
    b'"listener":"CLIENT"': b'"listener":"ACME_DMZ"',
    b'"rdkafka"': b'"acme billing \xc3\xa9"',
    b'"producer-': b'"acme-orders-',
    b'"adminclient-1"': b'"raft-client-acme"',
    b'"confluent-kafka-python"': b'"acme-kafka-wrapper"',
    b'"2.16.1-rdkafka-2.16.0"': b'"2.16.1-acme"',
    b'"transactionalId":null': b'"transactionalId":"acme-transaction"',
    b'"transactionalId":"tx-2"': b'"transactionalId":"acme-tx"',
    b'"name":"y"': b'"name":"acme.secret.orders"',
    b'"name":"m7-': b'"name":"acme-m7-',
    b'"errorMessage":null': b'"errorMessage":"Acme says no"',
    b'"clusterId":"MkU3': b'"clusterId":"acme',
}


# Two whole runs of a recording, and the search of all that they wrote.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "key"
    file.write_bytes(SECRET)
    return file


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small logs with names in them that must not be seen, and garbage that tells one."""
    logs = [_hostile(log) for log in (CONTROLLER, BROKER)]
    assert all(b"acme" in log for log in logs)
    garbage = b"[2026-11-20 20:36:07,645] DEBUG Completed request:{acme password\nAcme: hello\n"
    folder = tmp_path_factory.mktemp("hostile") / "small"
    files = {"controller-2.log": logs[0], "broker-11.log.gz": logs[1] + garbage}
    write_recording(folder, files, {2: "controller-2.log", 11: "broker-11.log.gz"})
    return folder


@pytest.fixture(scope="module")
def anonymous(key: Path, hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Both recordings from raw logs to report, without sweeps, which say nothing more of names."""
    path = tmp_path_factory.mktemp("anonymous") / "warehouse"
    options = ["--warehouse", str(path), "--anonymize", str(key)]
    for sweep in SWEEPS:
        options += ["--set", f"{sweep}=[]"]
    assert run.main([str(FAILOVER), str(hostile), *options]) in (0, 3)
    return Warehouse(path)


def test_no_name_is_in_any_byte_of_the_warehouse(anonymous: Warehouse) -> None:
    everything = dict(_contents(Path(anonymous.path)))
    assert {".parquet", ".json", ".html"} <= {Path(name).suffix for name in everything}
    names = _names_of(FAILOVER)
    assert len(names) > 10
    told = re.compile(b"(?i)acme|alice|" + b"|".join(re.escape(name) for name in sorted(names)))
    leaks = {name: set(told.findall(content)) for name, content in everything.items()}
    assert {name: found for name, found in leaks.items() if found} == {}
    assert not [name for name, content in everything.items() if SECRET in content]


def test_the_search_finds_what_is_there(finished: Warehouse) -> None:
    left = _names_of(FAILOVER)
    for _, content in _contents(Path(finished.path)):
        left -= {name for name in left if name in content}
    assert left == set()


def test_equal_names_are_equal_everywhere(anonymous: Warehouse) -> None:
    names = Anonymous(Pseudonyms.of_secret(SECRET))
    topics = _texts_of(anonymous, TOPICS, "topic")
    assert names.topic("acme-m7-1") in topics
    assert names.connection("10.77.0.11:9092-laptop-7.acme.example:60438-0-1") in _texts_of(
        anonymous, PRODUCES, "connection"
    )
    clients = _texts_of(anonymous, REQUESTS, "client_id")
    assert {"raft-client-12", names.client_id("acme billing é")} <= clients
    assert names.name("acme-transaction") in _texts_of(anonymous, PRODUCES, "transactional_id")


def test_all_that_is_no_name_is_as_without_a_key(anonymous: Warehouse, finished: Warehouse) -> None:
    for table in TABLES.values():
        if table in (LINEAGE, PREDICTION_ACCURACY, QUALITY_RESULTS, REPLAY_STATE):
            continue
        rows = [_rows(warehouse, table) for warehouse in (anonymous, finished)]
        if table not in (LATENCY_SUMMARY, BANDWIDTH_SUMMARY):  # texts are names, hashes and words
            rows = [[without_texts(row) for row in of_one] for of_one in rows]
        mine, theirs = (sorted(map(repr, of_one)) for of_one in rows)
        assert mine == theirs, table.name


def test_lines_read_before_are_known(
    anonymous: Warehouse, hostile: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = shutil.copytree(hostile, tmp_path / "small")
    log = again / "controller-2.log"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[5:]))  # another content of the same lines
    monkeypatch.setenv(KEY_VARIABLE, key.read_text())
    before = anonymous.rows(REQUESTS, ["small"]).num_rows
    assert ingest.main([str(again), "--warehouse", anonymous.path]) == 0
    assert anonymous.rows(REQUESTS, ["small"]).num_rows == before
    repeated = anonymous.rows(INGESTED_FILES, ["small"]).column("repeated").to_pylist()
    assert sorted(repeated) == [0, 0, len(lines) - 5]


def test_another_key_or_none_is_refused(
    anonymous: Warehouse,
    finished: Warehouse,
    key: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "other").write_bytes(b"another key of enough bytes")
    before = contents(anonymous.path), contents(finished.path)
    for options, said in (
        ([anonymous.path], "is anonymized: give its key with --anonymize"),
        ([anonymous.path, "--anonymize", str(tmp_path / "other")], "with another key"),
        ([finished.path, "--anonymize", str(key)], "holds names as they are: name an empty one"),
    ):
        assert ingest.main([str(FAILOVER), "--warehouse", *options]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.startswith("error: ")
        assert error.count("\n") == 1
    assert (contents(anonymous.path), contents(finished.path)) == before


def test_saved_state_tells_no_name(hostile: Path, key: Path, tmp_path: Path) -> None:
    path = tmp_path / "warehouse"
    options = ["--warehouse", str(path), "--anonymize", str(key), "--growing"]
    assert ingest.main([str(hostile), *options]) in (0, 3)
    warehouse = Warehouse(path)
    recording = write_recording(hostile, {}, {2: "controller-2.log", 11: "broker-11.log.gz"})
    how = (lambda line: None, False, 1.0, 1.0)
    replay([recording], Local(warehouse), RULES, {}, *how)
    assert warehouse.files(REPLAY_STATE)
    for name, content in _contents(path):
        assert not re.search(b"(?i)acme|alice", content), name


def _hostile(log: bytes) -> bytes:
    for name, instead in HOSTILE.items():
        log = log.replace(name, instead)
    return log


def _names_of(folder: Path) -> set[bytes]:
    """All hosts, and clients, principals, topics and transactional ids that are not Kafka's own.

    Of fewer than four bytes none: those are anywhere.
    """
    names: set[str] = set()
    for log in folder.glob("*.log.gz"):
        for line in gzip.decompress(log.read_bytes()).splitlines():
            whole = json.loads(line[line.index(b"{") : line.rindex(b"}") + 1])
            names |= set(_named(whole, ""))
            names |= set(re.findall(r"[0-9.]+(?=:\d)", whole["connection"]))
    own = {name for name in names if KAFKA_CLIENTS.fullmatch(name)} | INTERNAL_TOPICS
    own |= {"User:ANONYMOUS", "rdkafka"}  # the latter is in the version of a library
    return {name.encode() for name in names - own if len(name) >= 4}


_NAMING = {"clientId", "principal", "transactionalId", "host", "rack", "topic", "clusterId"}
_LISTS_OF_TOPICS = {"topics", "topicData"}


def _named(value: Any, place: str) -> Iterator[str]:
    """Texts under the fields that name somebody. ``place``: the field that the value is in."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _named(
                each, "topic" if name == "name" and place in _LISTS_OF_TOPICS else name
            )
    elif isinstance(value, list):
        for each in value:
            yield from _named(each, place)
    elif isinstance(value, str) and place in _NAMING:
        yield value


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file's bytes, and of Parquet also what is in it, and what that holds compressed."""
    for file in folder.rglob("*"):
        if not file.is_file():
            continue
        content = file.read_bytes()
        if file.suffix == ".gz":
            content += gzip.decompress(content)
        if file.suffix == ".parquet" and content:
            rows = pq.ParquetFile(file).read().to_pylist()
            content += repr(rows).encode()
            content += b"".join(part for row in rows for part in _inflated(row.get("state", b"")))
        yield str(file.relative_to(folder)), content


def _inflated(value: bytes) -> Iterator[bytes]:
    """Buffers of Arrow's IPC: eight bytes of length, then a zstd frame."""
    for frame in re.finditer(re.escape(b"\x28\xb5\x2f\xfd"), value):
        length = int.from_bytes(value[frame.start() - 8 : frame.start()], "little")
        with pa.CompressedInputStream(pa.BufferReader(value[frame.start() :]), "zstd") as stream:
            yield stream.read(length)


def _texts_of(warehouse: Warehouse, table: Table, column: str) -> set[str]:
    rows = warehouse.rows(table, [FAILOVER.name, "small"])
    return set(rows.column(column).to_pylist())


def _rows(warehouse: Warehouse, table: Table) -> list[dict[str, Any]]:
    """Rows of the recording, but for sweeps, and for the draft of KIP-227, which sends topics by
    name: those of the recording have fewer bytes than a pseudonym."""
    rows = warehouse.rows(table, [FAILOVER.name]).to_pylist()
    return [
        row
        for row in rows
        if "incremental_draft" not in row.values() and row.get("parameter", "none") == "none"
    ]
