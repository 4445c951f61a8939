"""plan: what samples of logs show, before anything is run; and the manifest it drafts."""

import gzip
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_logs import BROKER, CONTROLLER, plain, stamped, write_recording

from kip_replay.jobs import plan, run
from kip_replay.pipelines.ingest.log_files import find_log_files, log_bytes_of
from kip_replay.pipelines.ingest.overview import look_at
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.replaying.log_gaps import gap_sentence
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import LogGaps

Capsys = pytest.CaptureFixture[str]
Planned = Callable[..., dict[str, Any]]

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
NO_PRODUCE = ["no broker logged PRODUCE"]


@pytest.fixture
def planned(capsys: Capsys) -> Callable[..., dict[str, Any]]:
    """The plan of some arguments as JSON, with its exit status."""

    def of(*arguments: object) -> dict[str, Any]:
        status = plan.main([*map(str, arguments), "--format", "json"])
        return {"status": status, **json.loads(capsys.readouterr().out)}

    return of


@pytest.mark.golden
@pytest.mark.parametrize(
    ("folder", "kafka", "missing"),
    [
        (SAMPLES / "metadata-4.0", "4.0.0", NO_PRODUCE),
        (SAMPLES / "acks-two-replicas", "4.0.0", []),
        (RECORDINGS / "failover-4.0", "4.0.0", NO_PRODUCE),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_recordings(planned: Planned, folder: Path, kafka: str, missing: list[str]) -> None:
    found = planned(folder)
    one = found["recordings"][0]
    assert found["status"] == 0
    assert one["missing"] == missing
    assert one["kafka_versions"] == [kafka]
    sizes = [len(gzip.decompress(log.read_bytes())) for log in sorted(folder.glob("*.log.gz"))]
    assert sum(node["log_bytes"] for node in one["nodes"]) == sum(sizes)
    if folder.name == "acks-two-replicas":  # a broker was down
        (problem,) = one["problems"]
        assert problem.startswith("node 13: no file has 2026-11-20 20:5")


SERVER_LOG = b"[2026-11-20 20:35:58,000] INFO x (kafka.server.KafkaServer)\n"
BOTH = {2: "c.log*", 11: "b.log*"}
HALF = BROKER + BROKER[:300] + b"\n" + SERVER_LOG * 50
#: An hour later.
LATER = re.sub(rb"\[2026-11-20 (\d\d):", lambda m: b"[2026-11-20 %02d:" % (int(m[1]) + 1), BROKER)


@pytest.mark.parametrize(
    ("files", "logs", "problems"),
    [
        (
            {
                "c.log.gz": gzip.compress(CONTROLLER)[:-20],
                "b.log": HALF,
                "3.log": b"",
                "13.gz": b"",
            },
            BOTH | {3: "3.log", 13: "13.gz"},
            [
                "c.log.gz of recording 'r' ends in the middle of its gzip",
                "b.log line 24 (truncated): It ends within its JSON",
                "empty: 3.log, 13.gz",
            ],
        ),
        (
            {"c.log": CONTROLLER, "b.log.1": BROKER, "b.log": LATER},
            BOTH,
            ["node 11: no file has 2026-11-20"],
        ),
    ],
    ids=["damage", "a rotated file"],
)
def test_what_a_run_would_work_with_is_a_problem(
    planned: Planned,
    tmp_path: Path,
    files: dict[str, bytes],
    logs: dict[int, str | list[str]],
    problems: list[str],
) -> None:
    write_recording(tmp_path / "r", files, logs, voters=[1, 2, 3])
    plan_of_all = planned(tmp_path / "r")
    (one,) = plan_of_all["recordings"]
    assert plan_of_all["status"] == 0
    for problem in problems:
        assert any(problem in text for text in one["problems"]), one["problems"]


def test_what_is_missing_is_named_as_by_a_run(
    planned: Planned, tmp_path: Path, capsys: Capsys
) -> None:
    files = {"c.log": CONTROLLER, "b.log": BROKER, "3.log": b"", "13.log": b""}
    logs = BOTH | {3: "3.log", 13: "13.log"}
    write_recording(tmp_path / "r", files, logs, voters=[1, 2, 3])
    missing = planned(tmp_path / "r")["recordings"][0]["missing"]
    nodes = [text for text in missing if text.startswith("node ")]
    assert [text.split()[1] for text in nodes] == ["1", "12", "13"]
    run.main([str(tmp_path / "r"), "--warehouse", str(tmp_path / "w"), "--quiet"])
    gaps = Warehouse(tmp_path / "w").rows(LogGaps, ["r"]).to_pylist()
    assert {*nodes} < {*map(gap_sentence, gaps)}
    assert f"warning: {nodes[0]}\n" in capsys.readouterr().out


def test_of_a_role_without_a_log_its_requests_are_missing(planned: Planned, tmp_path: Path) -> None:
    write_recording(tmp_path / "r", {"b.log": BROKER}, {11: "b.log"}, voters=[1, 2, 3])
    missing = planned(tmp_path / "r")["recordings"][0]["missing"]
    absent = [text for text in missing if text.startswith("no ")]
    assert absent[-1] == ("no controller logged BROKER_HEARTBEAT, FETCH")


def of_broker(line: bytes, key: int, api: str) -> bytes:
    """A line of METADATA as if of another API."""
    line = line.replace(b'"requestApiKey":3,', b'"requestApiKey":%d,' % key)
    return line.replace(b'"METADATA"', b'"%s"' % api.encode())


def test_a_zookeeper_cluster_is_named_and_lacks_no_controller(
    planned: Planned, tmp_path: Path, capsys: Capsys
) -> None:
    lines = BROKER.splitlines(keepends=True)
    metadata = next(line for line in lines if b'"METADATA"' in line)
    apis = {4: "LEADER_AND_ISR", 6: "UPDATE_METADATA", 67: "ALLOCATE_PRODUCER_IDS"}
    log = b"".join([*lines, *(of_broker(metadata, *api) for api in apis.items())])
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "broker-11.log").write_bytes(log)
    (one,) = planned(tmp_path / "r", "--write-manifest")["recordings"]
    said = "is of a ZooKeeper cluster (its brokers were sent LEADER_AND_ISR, UPDATE_METADATA)"
    assert said in one["problems"][0]
    assert one["manifest_draft"]["voters"] == []
    assert one["nodes"][0]["role"] == "broker"
    assert "controller" not in " ".join([*one["missing"], *one["to_do"]])
    run.main([str(tmp_path / "r"), "--warehouse", str(tmp_path / "w"), "--quiet"])
    assert f"warning: recording 'r' {said}" in capsys.readouterr().out


OLD = (
    b"[2020-05-01 10:00:00,123] DEBUG Completed request:RequestHeader(apiKey=PRODUCE, "
    b"apiVersion=7, clientId=p, correlationId=4) -- {acks=1},response:{responses=[]} from "
    b"connection 127.0.0.1:9092-127.0.0.1:54436-0;totalTime:1.2 (kafka.request.logger)\n"
)


@pytest.mark.parametrize(
    ("files", "entries", "sentence"),
    [
        ({"b.log": b"", "c.log": b""}, {}, "log of node 2 of recording 'r' (c.log) is empty: set"),
        ({"b.log": SERVER_LOG}, {}, "(kafka.server.KafkaServer (1)) and none of kafka.request"),
        ({}, {}, "node 11 of recording 'r' has no log"),
        ({"b.log": OLD, "c.log": OLD * 2}, {}, "(before_2_8): A Kafka before 2.8 wrote it"),
        ({"b.log": BROKER}, {"timezone": "Asia/Tokyo"}, "its stamps look"),
        ({"b.log": BROKER}, {"voters": None, "role": None}, "does not say who votes"),
        ({}, {"log": "c.log"}, "the log of node 2 and of node 11"),
    ],
    ids=[
        "empty",
        "another log",
        "no file",
        "an old Kafka",
        "a zone that is wrong",
        "no voters",
        "two nodes",
    ],
)
def test_what_a_run_stops_at(
    planned: Planned,
    tmp_path: Path,
    files: dict[str, bytes],
    entries: dict[str, Any],
    sentence: str,
) -> None:
    folder = tmp_path / "r"
    write_recording(folder, {"c.log": CONTROLLER, **files}, {2: "c.log", 11: "b.log"})
    manifest = json.loads((folder / "recording.json").read_text())
    manifest["nodes"][1] |= entries
    for part in (manifest, *manifest["nodes"]):
        for name in part.keys() & {name for name, value in entries.items() if value is None}:
            del part[name]
    (folder / "recording.json").write_text(json.dumps(manifest))
    plan_of_all = planned(folder)
    assert plan_of_all["status"] == 2
    assert sentence in plan_of_all["recordings"][0]["refused"][0]


def test_of_a_large_log_head_and_tail_are_read(planned: Planned, tmp_path: Path) -> None:
    """The whole would take a while: 10 GB that are there in name only, between head and tail."""
    plain(tmp_path / "r")
    log = tmp_path / "r" / "broker-11.log"
    with log.open("r+b") as file:
        file.truncate(10_000_000_000)
        file.seek(10_000_000_000 - len(BROKER) - 1)
        file.write(b"\n" + BROKER)
    one = planned(tmp_path / "r")["recordings"][0]
    node = one["nodes"][1]
    assert [of["is_sample"] for of in one["nodes"]] == [False, True]
    assert all("in the samples" in text for text in one["missing"] if text.startswith("no "))
    assert node["log_bytes"] == 10_000_000_000
    assert node["until"] == planned(tmp_path / "r")["recordings"][0]["nodes"][1]["until"]


def test_of_a_large_gzip_stream_the_head_is_read(tmp_path: Path) -> None:
    plain(tmp_path / "r")
    log = tmp_path / "r" / "broker-11.log"
    log.write_bytes(gzip.compress(BROKER * 200))
    file = find_log_files(load_recording(tmp_path / "r"))[1]
    whole, head = (look_at(file, len(BROKER), size) for size in (1 << 30, 1))
    assert whole.excerpts.log_bytes == 200 * len(BROKER)
    assert head.excerpts.log_bytes == pytest.approx(200 * len(BROKER), rel=0.05)
    assert (whole.excerpts.is_end_seen, head.excerpts.is_end_seen) == (True, False)
    assert head.survey.first_us == whole.survey.first_us
    assert head.survey.last_us == log.stat().st_mtime_ns // 1000 > (whole.survey.last_us or 0)


def test_a_compressed_log_is_as_large_for_a_run_as_for_its_plan(tmp_path: Path) -> None:
    """Of a gzip stream that was cut, or is behind another, the end does not have the size."""
    packed = (RECORDINGS / "mixed-4.2" / "broker-11.log.gz").read_bytes()
    text = gzip.decompress(packed)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("broker-11.log", text)
    for content, size in {
        packed: len(text),
        packed[:40_000]: 900_000,
        packed[:200_000]: 200_000 * 21,
        packed + gzip.compress(BROKER): len(text) + len(BROKER),
        (tmp_path / "a.zip").read_bytes(): len(text),
    }.items():
        (file,) = find_log_files(write_recording(tmp_path / "r", {"log": content}, {11: "log"}))
        assert log_bytes_of([file]) == pytest.approx(size, rel=0.2)
        assert look_at(file, 1 << 20, 1 << 30).excerpts.log_bytes == pytest.approx(size, rel=0.2)


def test_of_many_files_some_are_parsed_and_all_are_seen(planned: Planned, tmp_path: Path) -> None:
    log = b"".join(BROKER.splitlines(keepends=True)[:3])
    files = {f"b.log.{number}": log for number in range(200)}
    write_recording(tmp_path / "r", {"c.log": CONTROLLER, **files}, {2: "c.log", 11: "b.log*"})
    node = planned(tmp_path / "r")["recordings"][0]["nodes"][1]
    assert node["files"] == 200
    assert sum(node["requests"].values()) == 100 * 3
    assert node["is_sample"]


def test_a_folder_without_a_manifest_gets_one_that_runs(
    planned: Planned, tmp_path: Path, capsys: Capsys
) -> None:
    for node in ("broker-11", "broker-12", "controller-3"):
        (tmp_path / "logs" / node).mkdir(parents=True)
        packed = (SAMPLES / "acks-slow-follower" / f"{node}.log.gz").read_bytes()
        (tmp_path / "logs" / node / "kafka-request.log.1.gz").write_bytes(packed)
        (tmp_path / "logs" / node / "server.log").write_bytes(SERVER_LOG)
    stated = tmp_path / "logs" / "kafka-request.log"
    shutil.copy(SAMPLES / "acks-slow-follower" / "controller-1.log.gz", stated)
    (tmp_path / "logs" / "other.log").write_bytes(stamped("2026-11-20 20:52:00,000"))

    assert plan.main([str(tmp_path / "logs")]) == 0
    text = capsys.readouterr().out
    assert "to do: other.log* does not show which node it is of, 0 is assumed" in text
    assert text.endswith("--write-manifest, correct the file, and run\n")
    assert not (tmp_path / "logs" / "recording.json").exists()

    found = planned(tmp_path / "logs", "--write-manifest")
    assert found["written"] == [str(tmp_path / "logs" / "recording.json")]
    draft = found["recordings"][0]["manifest_draft"]
    written = json.loads((tmp_path / "logs" / "recording.json").read_text())
    assert written == draft
    assert draft["kafka_version"] == "4.0.0"
    assert 3 in draft["voters"]
    assert not {11, 12, 13} & {*draft["voters"]}
    assert [node["node_id"] for node in draft["nodes"]] == [0, 1, 3, 11, 12]
    assert draft["nodes"][2] == {
        "node_id": 3,
        "role": "controller",
        "log": "controller-3/kafka-request.log*",
    }
    again = planned(tmp_path / "logs")
    assert again["status"] == 0
    assert again["recordings"][0]["manifest_draft"] is None


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        (
            ["B/Broker-1_17-05_5b17f696.log.gz", "B/Broker-1_17-10_0ac93d21.log.gz"],
            {11: [0, 1]},
        ),
        (["kafka-broker-0.log", "kafka-controller-0.log"], {11: [0], 2: [1]}),
    ],
)
def test_ids_are_what_lines_say(
    planned: Planned, tmp_path: Path, names: list[str], nodes: dict[int, list[int]]
) -> None:
    for name, log in zip(names, (BROKER, CONTROLLER if len(nodes) > 1 else LATER), strict=True):
        (tmp_path / "r" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "r" / name).write_bytes(log)
    draft = planned(tmp_path / "r")["recordings"][0]["manifest_draft"]
    globs = {node["node_id"]: node["log"] for node in draft["nodes"]}
    assert globs == {
        node_id: [f"{names[at].split('.log')[0]}.log*" for at in files]
        if len(files) > 1
        else f"{names[files[0]].split('.log')[0]}.log*"
        for node_id, files in nodes.items()
    }


def test_a_folder_of_recordings_names_them(tmp_path: Path, capsys: Capsys) -> None:
    for name in ("a", "b c"):
        plain(tmp_path / name)
    assert plan.main([str(tmp_path)]) == 2
    assert f"but {tmp_path}/a '{tmp_path}/b c' do: name those" in capsys.readouterr().err
