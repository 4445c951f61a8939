"""Whole recordings from carriers, archives and standard input, through the commands."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from layouts.log4j import event
from layouts.wrappers import WRAPPERS, Record, mixed, noise
from small_logs import folder_of, write_recording

from kip_replay.jobs import ingest, plan

Capsys = pytest.CaptureFixture[str]

SOURCE = folder_of("metadata-4.0")
NODES = {1: "controller", 2: "controller", 3: "controller"}
NODES |= {11: "broker", 12: "broker", 13: "broker"}
LOGS = {
    node_id: gzip.decompress((SOURCE / f"{role}-{node_id}.log.gz").read_bytes())
    for node_id, role in NODES.items()
}
RECORDS = {
    node_id: [
        Record(line, event(line).millis * 1000 + 777, f"my-kafka-{node_id}")
        for line in log.splitlines()
    ]
    for node_id, log in LOGS.items()
}


def requests(warehouse: Path) -> list[tuple[object, ...]]:
    """By node and content, with what was not there in the file."""
    rows = DeltaTable(str(warehouse / "requests")).to_pyarrow_table()
    assert isinstance(rows, pa.Table)
    columns = "node_id, request_id, epoch_us(received_at), response_bytes"
    return duckdb.sql(f"SELECT {columns} FROM rows ORDER BY ALL").fetchall()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    warehouse = tmp_path_factory.mktemp("expected")
    assert ingest.main([str(SOURCE), "--warehouse", str(warehouse), "--quiet"]) == 0
    return requests(warehouse)


def one_export(name: str) -> Callable[[Path], None]:
    return lambda place: (place / "export").write_bytes(
        WRAPPERS[name].of(mixed(*RECORDS.values(), newest_first=name == "cloudwatch-filter"))
    )


def pods(place: Path) -> None:
    for node_id, records in RECORDS.items():
        pod = place / f"ns_my-kafka-{node_id}_0a1b2c3d-1111-2222-3333-0123456789ab" / "kafka"
        pod.mkdir(parents=True)
        others = noise(record.stamp_us - 50 for record in records[::9])
        (pod / "0.log").write_bytes(WRAPPERS["cri"].of(mixed(records, others)))


def archives(place: Path) -> None:
    with tarfile.open(place / "brokers.tar.gz", "w:gz") as tar:
        for node_id in (11, 12, 13):
            entry = tarfile.TarInfo(f"logs/broker-{node_id}/kafka-request.log")
            entry.size = len(LOGS[node_id])
            tar.addfile(entry, io.BytesIO(LOGS[node_id]))
    with zipfile.ZipFile(place / "controllers.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("controller-1/kafka-request.log.gz", gzip.compress(LOGS[1]))
        file.writestr("controller-2/kafka-request.log", LOGS[2])
    with pa.CompressedOutputStream(str(place / "controller-3.log.zst"), "zstd") as packed:
        packed.write(LOGS[3])


@pytest.mark.parametrize("write", [pods, archives, one_export("cloudwatch-filter")])
def test_a_drafted_manifest_gives_the_same_requests(
    tmp_path: Path, expected: list[tuple[object, ...]], write: Callable[[Path], None]
) -> None:
    place = tmp_path / "logs"
    place.mkdir()
    write(place)
    assert plan.main([str(place), "--write-manifest"]) == 0
    drafted = json.loads((place / "recording.json").read_text())
    assert {node["node_id"]: node["role"] for node in drafted["nodes"]} == NODES
    assert drafted["voters"] == [1, 2, 3]
    assert ingest.main([str(place), "--warehouse", str(tmp_path / "w"), "--quiet"]) == 0
    assert requests(tmp_path / "w") == expected


def test_lines_of_nodes_that_are_not_listed_are_others(tmp_path: Path, capsys: Capsys) -> None:
    place = tmp_path / "logs"
    place.mkdir()
    one_export("logcli-jsonl")(place)
    nodes = [{"node_id": 2, "log": "export", "node_by": {"labels.pod": "my-kafka-2"}}]
    write_recording(place, {}, {}, nodes=nodes)
    assert ingest.main([str(place), "--warehouse", str(tmp_path / "w"), "--quiet"]) == 0
    own, all_ = len(RECORDS[2]), sum(map(len, RECORDS.values()))
    read = f"lines read {all_:,} = requests {own:,} + other {all_ - own:,} + rejected 0"
    assert read in capsys.readouterr().out


def test_a_part_of_the_time_and_then_all(
    tmp_path: Path, expected: list[tuple[object, ...]], capsys: Capsys
) -> None:
    command = [str(SOURCE), "--warehouse", str(tmp_path), "--quiet"]
    span = ["--from", "2026-11-20T20:36:30", "--until", "2026-11-20T21:36:40+01:00"]
    assert ingest.main([*command, *span]) == 0
    part = requests(tmp_path)
    assert 0 < len(part) < len(expected)
    assert set(part) <= set(expected)
    assert ingest.main([*command, *span]) == 0
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .endswith("lines read 0 = requests 0 + other 0 + rejected 0 + repeated 0")
    )
    assert ingest.main(command) == 0
    assert requests(tmp_path) == expected
    assert (
        ingest.main([*command[:1], "--warehouse", str(tmp_path / "2"), "--from", "2030-01-01"]) == 2
    )
    assert "correct --from and --until" in capsys.readouterr().err


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    def piped() -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LOGS[2])))

    piped()
    assert plan.main(["-"]) == 0
    assert "next: write the log into a folder" in capsys.readouterr().out
    piped()
    of_node = ["--node", "2=-", "--name", "n", "--timezone", "UTC", "--voters", "2"]
    assert ingest.main([*of_node, "--warehouse", str(tmp_path), "--quiet"]) == 0
    assert len(requests(tmp_path)) == len(RECORDS[2])


SERVER = b"".join(
    b"[2026-11-20 20:00:00,%03d] INFO started (kafka.server.KafkaServer)\n" % i for i in range(99)
)


@pytest.mark.parametrize(
    ("log", "said", "growing"),
    [
        (
            SERVER,
            r"holds lines of other loggers (kafka.server.KafkaServer (99)) and none of kafka",
            [],
        ),
        (
            b"".join(r.text.replace(r.text[20:24], b"") + b"\n" for r in RECORDS[2][:50]),
            r"(stamp_without_milliseconds): Its time has no milliseconds: the pattern of log4j "
            r"needs SSS. (2026-11-20 20:35:59) It begins: [2026-11-20 20:35:59] DEBUG Completed",
            ["--growing"],
        ),
        (
            WRAPPERS["logcli-jsonl"].of(RECORDS[2][:50], limit=300),
            r"node-2.log line 1 (truncated): It ends within its JSON",
            ["--growing"],
        ),
        (
            LOGS[2][:300] + b"\n" + LOGS[2][:200] + b"\n",
            "of 2 lines of recording 'r' none can be",
            [],
        ),
        (b"\x1b[31m Completed request:{\n", r"It begins: \x1b[31m Completed request:{", []),
    ],
)
def test_a_log_without_a_readable_request_is_said_to_be_what_it_is(
    tmp_path: Path, capsys: Capsys, log: bytes, said: str, growing: list[str]
) -> None:
    place = write_recording(tmp_path / "r", {"node-2.log": log}, {2: "node-2.log"}).path
    assert ingest.main([str(place), "--warehouse", str(tmp_path / "w"), *growing]) == 2
    assert said in capsys.readouterr().err
    assert not [*tmp_path.rglob("*.parquet")]
