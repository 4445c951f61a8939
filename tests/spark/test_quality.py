"""Quality checks: what is sound passes; whatever is wrong is found, located, kept and told."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from in_memory import InMemory
from pyspark.sql import SparkSession

from kip_replay.jobs import check as check_job
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.quality import data_docs
from kip_replay.pipelines.quality.failing_rows import Finding, find
from kip_replay.pipelines.quality.suites import Expectation, Severity, load_suites
from kip_replay.pipelines.quality.validation import validate
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import QUALITY_FAILURES, QUALITY_RESULTS, REQUESTS, TABLES

FAILOVER = Path(__file__).resolve().parents[1] / "recordings" / "failover-4.0"
FREEZE = FAILOVER.with_name("freeze-4.1")
AT = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(2)'> $sql ${sql} {x} \"' \\ OR 1=1 --"


def place(expectation: Expectation) -> tuple[str, str, str]:
    """What names an expectation."""
    return (expectation.suite, expectation.name, expectation.table.name)


def row(table: str, **values: Any) -> dict[str, Any]:
    """A row of a recording "r": columns that may not be null are filled where not given."""
    fillers = {pa.string(): "x", pa.int32(): 1, pa.int64(): 1, pa.timestamp("us", tz="UTC"): AT}
    filled = {c.name: fillers.get(c.type) for c in TABLES[table].columns if not c.nullable}
    if "parameter" in filled:
        filled |= {"rule": "hwm_parking", "parameter": "none", "parameter_value": "none"}
    if "verdict" in filled:
        filled["verdict"] = "replayed"
    if table == "requests":
        filled["request_id"] = "logged"
    return {**filled, "recording": "r", **values}


def sent(connection: str, *ids: int, **values: Any) -> list[dict[str, Any]]:
    """Requests on one connection, in the lines of their ids."""
    whole = f"10.0.0.1:9092-10.0.0.2:{connection}-0-1"
    return [
        row(
            "requests",
            request_id=f"{connection}-{i}",
            correlation_id=i,
            line_number=i,
            connection=whole,
            is_forwarded=False,
            **values,
        )
        for i in ids
    ]


def fetch(request_id: str, **values: Any) -> dict[str, Any]:
    """A FETCH that was answered without error."""
    return row("fetches", request_id=request_id, error_code=0, connection="c", **values)


def told(*high_watermarks: int, **values: Any) -> list[dict[str, Any]]:
    """Partitions of an answer."""
    return [
        {"topic": "t", "partition": 0, "error_code": 0, "high_watermark": h, **values}
        for h in high_watermarks
    ]


RAFT = {"client_id": "raft-client-2"}
LATE = AT + timedelta(seconds=1)
ASKED_9 = [{"fetch_offset": 9, "high_watermark": 10, "current_leader_epoch": 1}]
ASKED_8 = [{"fetch_offset": 8, "high_watermark": 8, "current_leader_epoch": 1}]
METADATA = {"is_cluster_metadata": True, "client_id": "raft-client-2"}
SESSION = {"is_cluster_metadata": False, "session_id": 7, "response_session_id": 7}

#: At least one wrong row for every expectation that ships.
WRONG: dict[str, list[dict[str, Any]]] = {
    "ingested_files": [row("ingested_files", lines_read=9, requests=1, rejected=1, repeated=0)],
    "requests": [
        *sent("1", 1, 2, 4, client_id="broker-12-fetcher-0"),
        *sent("2", 1, 3, client_id="java"),
        *sent("3", 1, 3, **RAFT),
        row("requests", request_id="body", api_name="FETCH", is_forwarded=True),
        row("requests", request_id="body-2", api_name="PRODUCE", is_forwarded=True),
        row("requests", request_id="body-3", api_name="BROKER_HEARTBEAT", is_forwarded=True),
        row("requests", request_id="size", request_bytes=3, is_forwarded=True),
        row(
            "requests", request_id="more", is_forwarded=True, total_ms=9.0, request_queue_ms=1.0,
            local_ms=1.0, remote_ms=1.0, response_queue_ms=1.0, send_ms=1.0,
        ),
        row(
            "requests", request_id="less", is_forwarded=True, total_ms=1.0, request_queue_ms=1.0,
            local_ms=1.0, remote_ms=0.0, response_queue_ms=1.0, send_ms=1.0,
        ),
    ],
    "rejected_lines": [row("rejected_lines")],
    "fetches": [
        fetch("nowhere"),
        fetch("3-1", response_partitions=told(5), **METADATA),
        fetch("3-3", response_partitions=told(5), **METADATA),
        fetch("1-1", session_epoch=1, **SESSION),
        fetch("1-2", session_epoch=3, **SESSION),
        fetch("a", correlation_id=1, request_partitions=ASKED_9, **METADATA),
        fetch("b", correlation_id=2, request_partitions=ASKED_8, **METADATA),
        fetch("c", correlation_id=1, response_partitions=told(5, log_start_offset=6)),
        fetch("d", correlation_id=2, response_partitions=told(4)),
    ],
    "broker_heartbeats": [
        row("broker_heartbeats", request_id="h1", received_at=AT, current_metadata_offset=5),
        row("broker_heartbeats", request_id="h2", received_at=LATE, current_metadata_offset=4),
    ],
    "metadata_offsets": [
        row("metadata_offsets", kind="high_watermark", offset=9),
        row("metadata_offsets", kind="log_end_offset", offset=8),
    ],
    "isr_changes": [row("isr_changes", isr=[1, 9], replicas=[1, 2])],
    "produces": [row("produces", partitions=[{"topic": "t", "partition": 0}])],
    "fetch_parking_outcomes": [
        row("fetch_parking_outcomes", recorded_request_id="nowhere", sequence=1, decision="perhaps",
            received_at=LATE, dequeued_at=AT, built_at=AT, response_high_watermark=5),
        row("fetch_parking_outcomes", sequence=2, response_high_watermark=4),
    ],
    "high_watermark_lag": [
        row("high_watermark_lag", high_watermark=5, previous_high_watermark=6, phase="steady"),
    ],
    "fetch_session_outcomes": [
        row("fetch_session_outcomes", variant="incremental", request_partitions=2, attempt=0,
            session_partitions=1, equals_recorded=False),
    ],
    "fetch_session_evictions": [row("fetch_session_evictions", event="lost")],
    "produce_ack_outcomes": [
        row("produce_ack_outcomes", partition=2, min_isr_acked_at=AT, min_isr_error=0, isr=[1, 2],
            parameter="min_insync_replicas", parameter_value="2", min_insync_replicas=2,
            replicas_at_min_isr_ack=1, last_offset=5),
        row("produce_ack_outcomes", partition=3, min_isr_acked_at=AT, min_isr_error=0, isr=[1, 2],
            min_insync_replicas=2, replicas_at_min_isr_ack=1),
        row("produce_ack_outcomes", partition=4, min_isr_acked_at=LATE, all_isr_acked_at=AT),
        row("produce_ack_outcomes", partition=5, request_acks_all_latency_ms=-1.0),
    ],
    "heartbeat_outcomes": [
        row("heartbeat_outcomes", request_id="h1", built_at=AT, lowest_acknowledged_offset=5),
        row("heartbeat_outcomes", request_id="h2", built_at=LATE, lowest_acknowledged_offset=4),
        row("heartbeat_outcomes", request_id="h3", built_at=LATE),
    ],
    "metadata_write_outcomes": [row("metadata_write_outcomes", offset_low=2, offset_high=1)],
    "metadata_write_visibility": [
        row("metadata_write_visibility", applied_at_earliest=LATE, applied_at_latest=AT),
    ],
    "latency_summary": [
        row("latency_summary", metric="high_watermark_lag", group_kind="all", count=7,
            unknown_count=0, p50_ms=2.0, p90_ms=1.0, max_ms=2.0),
        row("latency_summary", metric="high_watermark_lag", group_kind="node", count=8000,
            unknown_count=0, max_ms=2.0),
    ],
    "bandwidth_summary": [
        row("bandwidth_summary", rule="incremental_fetch", direction="request", requests=5,
            bytes=9, record_bytes=1, overhead_bytes=1),
    ],
    "prediction_accuracy": [
        row("prediction_accuracy", error=5.0, predicted=1.0, recorded=1.0, passed=False),
    ],
}  # fmt: skip
#: Wrong in the same way in many tables.
for _name in {each.table.name for each in load_suites()}:
    _rows = WRONG.setdefault(_name, [])
    if "verdict" in TABLES[_name].arrow_schema.names:
        _rows.append(row(_name, verdict="unknown", request_id="v"))
        _rows.append(row(_name, verdict="perhaps", request_id="w", reason="so"))
    if "parameter" in TABLES[_name].arrow_schema.names:
        _rows.append(row(_name, parameter_value="7", request_id="p"))
    _rows += [row(_name), row(_name)]


def test_every_expectation_that_ships_can_fail(spark: SparkSession) -> None:
    shipped = load_suites()
    findings = find(spark, InMemory(spark, WRONG).read, ["r"], shipped, kept_rows=2)
    sound = {place(each.expectation) for each in findings if each.failing_rows == 0}
    assert sound == set()
    assert all(1 <= len(each.kept) <= 2 for each in findings)
    lost = of(findings, "no_line_is_lost_of_own_counters")
    assert [json.loads(text)["correlation_id_before"] for text in lost.kept] == [2]
    epochs = json.loads(of(findings, "session_epochs_have_no_holes").kept[0])
    assert (epochs["epoch_before"], epochs["epoch"], epochs["lost_lines"]) == (1, 3, 1)


def of(findings: list[Finding], name: str) -> Finding:
    """The one finding of an expectation of this name."""
    (found,) = (each for each in findings if each.expectation.name == name)
    return found


def test_what_is_not_there_is_not_wrong(spark: SparkSession) -> None:
    findings = find(spark, InMemory(spark, {}).read, ["r"], load_suites(), kept_rows=2)
    assert [place(each.expectation) for each in findings if each.failing_rows] == []
    assert {each.rows_checked for each in findings} == {0}


def test_a_line_taken_out_of_a_real_log_is_located(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(FAILOVER, folder)
    manifest = json.loads((folder / "recording.json").read_text())
    (node,) = (n for n in manifest["nodes"] if n["node_id"] == 11)
    log = whole_log(folder, node["log"])
    lines = log.splitlines(keepends=True)
    followers = [i for i, line in enumerate(lines) if b'"broker-12-fetcher-0"' in line]
    taken = followers[len(followers) // 2]
    for file in folder.glob(node["log"]):
        file.unlink()
    (folder / "cut.log").write_bytes(b"".join(lines[:taken] + lines[taken + 1 :]))
    node["log"] = "cut.log"
    manifest["name"] = "cut"
    (folder / "recording.json").write_text(json.dumps(manifest))
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest([load_recording(folder)], warehouse)
    bronze = [each for each in load_suites() if each.suite == "bronze"]
    findings = find(spark, warehouse.read, ["cut"], bronze, kept_rows=5)
    failed = [each for each in findings if each.failing_rows]
    critical = {each.expectation.name for each in failed if each.expectation.severity == "critical"}
    assert critical == {"no_line_is_lost_of_own_counters", "session_epochs_have_no_holes"}
    hole = json.loads(of(findings, "no_line_is_lost_of_own_counters").kept[0])
    assert (hole["node_id"], hole["client_id"]) == (11, "broker-12-fetcher-0")
    assert hole["lost_lines"] == 1
    # Lines are numbered from 1, and the one taken out would have had the number taken + 1.
    assert hole["line_number_before"] <= taken < hole["line_number"]


def whole_log(folder: Path, pattern: str) -> bytes:
    """The uncompressed bytes of a node's one log file."""
    import gzip

    (file,) = folder.glob(pattern)
    content = file.read_bytes()
    return gzip.decompress(content) if file.suffix == ".gz" else content


def test_real_recordings_have_no_critical_flaw(spark: SparkSession, finished: Warehouse) -> None:
    results = finished.read(QUALITY_RESULTS)
    critical = results.where("severity = 'critical' AND NOT success")
    assert critical.collect() == []
    checked = {(r["suite"], r["expectation"], r["table_name"]) for r in results.collect()}
    assert checked == {place(each) for each in load_suites()}
    pages = list((Path(finished.path) / "data_docs").rglob("*.html"))
    assert len(pages) == 1 + 3 + 2 * 3  # the index, the suites, the recordings' results
    for page in pages:
        text = page.read_text()
        assert "<script" not in text
        assert "src=" not in text
        assert 'rel="stylesheet"' not in text


@pytest.mark.slow
def test_a_flaw_ends_with_3_is_kept_and_told_and_mended_goes_away(
    spark: SparkSession, finished: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.path, copy)
    warehouse = Warehouse(copy)
    requests = DeltaTable.forPath(spark, warehouse.uri_of(REQUESTS))
    sound = requests.history(1).head()["version"]
    requests.update("recording = 'freeze-4.1' AND line_number = 7", {"total_ms": "total_ms + 1"})
    arguments = [str(FAILOVER), str(FREEZE), "--warehouse", str(copy)]
    assert check_job.main(arguments) == 3
    said = capsys.readouterr().out
    assert "critical in freeze-4.1: requests, time_parts_sum_to_total" in said
    assert "line_number 7" in said
    assert f"data docs: {copy}/data_docs/index.html" in said
    kept = warehouse.read(QUALITY_FAILURES).where("expectation = 'time_parts_sum_to_total'")
    assert {r["recording"] for r in kept.collect()} == {"freeze-4.1"}
    versions = [history(spark, warehouse, t) for t in (QUALITY_RESULTS, QUALITY_FAILURES)]
    assert check_job.main(arguments) == 3
    assert [history(spark, warehouse, t) for t in (QUALITY_RESULTS, QUALITY_FAILURES)] == versions
    requests.restoreToVersion(sound)
    assert check_job.main(arguments) == 0


def history(spark: SparkSession, warehouse: Warehouse, table: Any) -> int:
    """The table's version."""
    last = DeltaTable.forPath(spark, warehouse.uri_of(table)).history(1).head()
    return int(last["version"])


def test_hostile_strings_stay_text(spark: SparkSession, tmp_path: Path) -> None:
    wrong = {"rejected_lines": [row("rejected_lines", reason=HOSTILE, recording=HOSTILE)]}
    expectation = Expectation(
        suite="mine",
        name="none",
        table=TABLES["rejected_lines"],
        severity=Severity.WARNING,
        says=HOSTILE,
        column="reason",
        fails_where="reason LIKE '<script>%'",
    )
    findings = find(spark, InMemory(spark, wrong).read, [HOSTILE], [expectation], 5)
    assert json.loads(findings[0].kept[0])["reason"] == HOSTILE
    results = validate(findings, tmp_path / "new")
    assert [each.success for each in results] == [False]
    index = data_docs.publish(tmp_path / "new", tmp_path / "docs", results)
    pages = [page.read_text() for page in index.parent.rglob("*.html")]
    assert len(pages) == 3
    for page in pages:
        assert "<script" not in page
        assert "<img" not in page
        # Escaped once, and not mistaken for a name in a template.
        assert "&lt;script&gt;alert(1)" in page
        assert "&amp;lt;" not in page
        assert "${sql}" in page.replace("&#36;", "$")


@pytest.mark.parametrize("condition", ["nowhere > 1", "line_number >", "sum(line_number) > 1"])
def test_sql_that_is_wrong_is_one_sentence(spark: SparkSession, condition: str) -> None:
    expectation = Expectation("mine", "wrong", REQUESTS, Severity.INFO, "so", fails_where=condition)
    with pytest.raises(UserError, match="'wrong' of the suite 'mine' is not Spark SQL") as error:
        find(spark, InMemory(spark, {}).read, ["r"], [expectation], 5)
    assert "\n" not in str(error.value)


def test_an_unknown_recording_says_what_to_do(
    finished: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    other = FAILOVER.with_name("acks-varying")
    assert check_job.main([str(other), "--warehouse", finished.path]) == 2
    assert "run jobs.run" in capsys.readouterr().err
