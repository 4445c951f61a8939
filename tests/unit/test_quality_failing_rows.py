"""Failing rows: whatever is wrong is found, located and judged, and strings stay text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality import data_docs
from kip_replay.pipelines.quality.failing_rows import Finding, find
from kip_replay.pipelines.quality.suites import Expectation, Severity, load_suites
from kip_replay.pipelines.quality.validation import validate
from kip_replay.replay.tables import TABLES

AT = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(2)'> $sql ${sql} {x} \"' \\ OR 1=1 --"


def database(rows: Mapping[str, list[dict[str, Any]]]) -> duckdb.DuckDBPyConnection:
    """Tables of rows; columns that are not named are null."""
    connection = duckdb.connect()
    for name, table in TABLES.items():
        loose = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
        connection.register(name, pa.Table.from_pylist(rows.get(name, []), schema=loose))
    return connection


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


def response(*high_watermarks: int, **values: Any) -> list[dict[str, Any]]:
    """Partitions of a response."""
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
        fetch("3-1", response_partitions=response(5), **METADATA),
        fetch("3-3", response_partitions=response(5), **METADATA),
        fetch("1-1", session_epoch=1, **SESSION),
        fetch("1-2", session_epoch=3, **SESSION),
        fetch("a", correlation_id=1, request_partitions=ASKED_9, **METADATA),
        fetch("b", correlation_id=2, request_partitions=ASKED_8, **METADATA),
        fetch("c", correlation_id=1, response_partitions=response(5, log_start_offset=6)),
        fetch("d", correlation_id=2, response_partitions=response(4)),
    ],
    "broker_heartbeats": [
        row("broker_heartbeats", request_id="h1", received_at=AT, current_metadata_offset=5),
        row("broker_heartbeats", request_id="h2", received_at=LATE, current_metadata_offset=4),
    ],
    "metadata_offsets": [
        row("metadata_offsets", kind="high_watermark", metadata_offset=9),
        row("metadata_offsets", kind="log_end_offset", metadata_offset=8),
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
for _name in {each.table for each in load_suites()}:
    _rows = WRONG.setdefault(_name, [])
    if "verdict" in TABLES[_name].arrow_schema.names:
        _rows.append(row(_name, verdict="unknown", request_id="v"))
        _rows.append(row(_name, verdict="perhaps", request_id="w", reason="so"))
    if "parameter" in TABLES[_name].arrow_schema.names:
        _rows.append(row(_name, parameter_value="7", request_id="p"))
    _rows += [row(_name), row(_name)]


def test_every_expectation_that_ships_can_fail() -> None:
    findings = find(database(WRONG), ["r"], load_suites(), kept_rows=2)
    assert {each.place for each in findings if each.failing_rows == 0} == set()
    assert all(1 <= len(each.kept) <= 2 for each in findings)
    assert all(each.rows_checked == len(WRONG[each.expectation.table]) for each in findings)
    lost = of(findings, "no_line_is_lost_of_own_counters")
    assert [json.loads(text)["correlation_id_before"] for text in lost.kept] == [2]
    epochs = json.loads(of(findings, "session_epochs_have_no_holes").kept[0])
    assert (epochs["epoch_before"], epochs["epoch"], epochs["lost_lines"]) == (1, 3, 1)


def of(findings: list[Finding], name: str) -> Finding:
    """The one finding of an expectation of this name."""
    (found,) = (each for each in findings if each.expectation.name == name)
    return found


def test_what_is_not_there_is_not_wrong() -> None:
    findings = find(database({}), ["r"], load_suites(), kept_rows=2)
    assert {(each.failing_rows, each.rows_checked) for each in findings} == {(0, 0)}


def test_rows_are_kept_as_json_in_the_order_of_their_text() -> None:
    late = AT + timedelta(microseconds=1)
    changes = [
        row("isr_changes", request_id="b", built_at=late, isr=[9, 1], replicas=[1, 2]),
        row("isr_changes", request_id="a", built_at=AT, isr=[9], replicas=[1, 2], recording="s"),
        row("isr_changes", request_id="a", isr=[9], replicas=[1, 2]),
        row("isr_changes", request_id="c", isr=[2], replicas=[1, 2]),
    ]
    (isr,) = (each for each in load_suites() if each.name == "isr_is_of_replicas")
    first, second = find(database({"isr_changes": changes}), ["r", "s"], [isr], kept_rows=5)
    assert [json.loads(text)["request_id"] for text in first.kept] == ["a", "b"]
    assert json.loads(first.kept[1]) == {
        "request_id": "b",
        "topic": "x",
        "partition": 1,
        "isr": [9, 1],
        "built_at": "2026-01-01T00:00:00.000001Z",
        "source": None,
        "replicas": [1, 2],
    }
    assert (first.failing_rows, first.rows_checked) == (2, 3)
    assert (second.failing_rows, second.rows_checked, len(second.kept)) == (1, 1, 1)


def test_lines_with_one_correlation_id_are_no_hole() -> None:
    lines = [*sent("1", 1, 2, 2, 3, client_id="broker-12-fetcher-0")]
    (lost,) = (each for each in load_suites() if each.name == "no_line_is_lost_of_own_counters")
    assert find(database({"requests": lines}), ["r"], [lost], 5)[0].failing_rows == 0


def expectation(**ways: Any) -> Expectation:
    """An expectation of rejected_lines."""
    return Expectation(
        suite="mine",
        name="none",
        table="rejected_lines",
        severity=Severity.WARNING,
        says=HOSTILE,
        column="reason",
        **ways,
    )


def test_hostile_strings_stay_text(tmp_path: Path) -> None:
    wrong = {"rejected_lines": [row("rejected_lines", reason=HOSTILE, recording=HOSTILE)]}
    mine = [
        expectation(fails_where="reason LIKE '<script>%' -- {x}"),
        expectation(query='SELECT recording, reason AS "it\'s"" " FROM {table} -- so'),
    ]
    findings = find(database(wrong), [HOSTILE], mine, 5)
    assert json.loads(findings[0].kept[0])["reason"] == HOSTILE
    assert json.loads(findings[1].kept[0]) == {"it's\" ": HOSTILE}
    results, sections = validate(findings)
    assert [each.success for each in results] == [False, False]
    data_docs.publish(tmp_path / "docs" / "index.html", sections, results)
    page = (tmp_path / "docs" / "index.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    # Escaped once, and not mistaken for a name in a template.
    assert page.count("&lt;script&gt;alert(1)") > 4
    assert "&amp;lt;" not in page
    assert "${sql}" in page.replace("&#36;", "$")


def test_failures_come_first_and_name_their_recording() -> None:
    good, bad = (expectation(fails_where=f"line_bytes = {size}") for size in (0, 1))
    rows = [row("rejected_lines", line_bytes=1, recording=name) for name in ("r", "s")]
    findings = find(database({"rejected_lines": rows[:1]}), ["r", "s"], [good, bad], 5)
    results, sections = validate(findings)
    assert [each.success for each in results] == [True, False, True, True]
    section = sections["mine"]
    assert section.index("line_bytes = 1") < section.index("line_bytes = 0")
    assert "<b>r</b>: 1 failing, 1 in the table" in section
    assert "<b>s</b>" not in section


@pytest.mark.parametrize(
    "way",
    [
        {"fails_where": "nowhere > 1"},
        {"fails_where": "line_number >"},
        {"fails_where": "sum(line_number) > 1"},
        {"fails_where": "CAST(reason AS INTEGER) > 1"},
        {"query": "SELECT recording FROM nowhere"},
        {"query": "SELECT reason FROM rejected_lines"},
        {"query": "SELECT recording, CAST(reason AS INTEGER) AS n FROM rejected_lines"},
    ],
)
def test_sql_that_is_wrong_is_one_sentence(way: dict[str, str]) -> None:
    sound = [each for each in load_suites() if each.table == "rejected_lines"]
    lines = database({"rejected_lines": [row("rejected_lines", reason="x")]})
    with pytest.raises(UserError, match="'none' of the suite 'mine' is not DuckDB SQL") as error:
        find(lines, ["r"], [*sound, expectation(**way)], 5)
    assert "\n" not in str(error.value)
