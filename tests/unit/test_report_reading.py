"""The report from tables: bounded, exact, and the same whatever the order of the rows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report.data import read_report
from kip_replay.pipelines.report.logs import EXAMPLE_CHARACTERS, EXAMPLES
from kip_replay.pipelines.report.page import write_report
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.incremental_fetch import INCREMENTAL
from kip_replay.replay.lowest_acked_offset import LOWEST_ACKED
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.table import Table

#: Rows by name of their table; columns that are not named are null.
Rows = Mapping[str, list[dict[str, Any]]]
START = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)
NOT_ASKED = "not asked for"


class InMemory(Warehouse):
    """Tables that were never written, with their rows in an order that nothing may depend on."""

    def __init__(self, rows: Rows, shuffle: int = 1) -> None:
        super().__init__("in memory")
        self._rows = {name: random.Random(shuffle).sample(of, len(of)) for name, of in rows.items()}

    def _dataset(self, table: Table) -> pa.Table:
        loose = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
        return pa.Table.from_pylist(self._rows.get(table.name, []), schema=loose)


def what_if(
    recording: str, rule: str, variant: str, parameter: str = "none", value: int = -1
) -> dict[str, Any]:
    return {
        "recording": recording,
        "rule": rule,
        "variant": variant,
        "parameter": parameter,
        "parameter_value": value,
    }


def hwm(recording: str, variant: str, wait: int | None = None) -> dict[str, Any]:
    if wait is None:
        return what_if(recording, "hwm_parking", variant)
    return what_if(recording, "hwm_parking", variant, "max_wait_ms", wait)


def lag_rows(recording: str, variant: str) -> list[dict[str, Any]]:
    steady = {**hwm(recording, variant), "phase": "steady", "verdict": "replayed"}
    unknown = {**steady, "verdict": "unknown", "reason": "the log ended"}
    away = {**steady, "verdict": "not_applicable", "reason": "away"}
    return [steady, unknown, unknown, unknown, away, {**steady, "phase": "starting"}]


def curve_rows(what: dict[str, Any], metric: str, kind: str, value: str) -> list[dict[str, Any]]:
    """Values of 100 to 250 us, 300 to 900 us and one unknown, four of all in each slice."""
    line = {**what, "metric": metric, "group_kind": kind, "group_value": value, "total": 9}
    return [
        {**line, "value_us": 250, "up_to": 4, "from_us": 100},
        {**line, "value_us": 900, "up_to": 8, "from_us": 300},
    ]


def summary_rows(recording: str, variant: str, wait: int | None = None) -> list[dict[str, Any]]:
    return [
        {
            **hwm(recording, variant, wait),
            "metric": metric,
            "group_kind": "replica_kind",
            "group_value": "broker",
            "count": 997,
            "unknown_count": 3,
            "p50_ms": 1.5 if variant == WITH_KIP else 330.0,
        }
        for metric in ("high_watermark_lag", "fetch_parked")
    ]


def traffic_rows(recording: str, variant: str, wait: int | None = None) -> list[dict[str, Any]]:
    return [
        {
            **hwm(recording, variant, wait),
            "api_name": "FETCH",
            "node_id": leader,
            "client_kind": "broker",
            "direction": direction,
            "requests": 300 if variant == WITH_KIP else 150,
            "bytes": 60_000,
            "unknown_size_requests": 1,
            "span_s": 60.0,
        }
        for leader in (1, 2)
        for direction in ("request", "response")
    ]


def check_rows(recording: str) -> list[dict[str, Any]]:
    judged = {
        **hwm(recording, WITHOUT_KIP),
        "predicted_from": recording,
        "recorded_in": recording,
        "metric": "fetches",
        "group_kind": "replica_id",
        "group_value": "11",
        "unit": "count",
        "predicted": 210.0,
        "recorded": 208.0,
        "error": 2.0,
        "tolerance": 4.0,
        "passed": True,
        "sample_count": 210,
        "unknown_count": 0,
    }
    acks = {
        **what_if(recording, "min_isr_acks", ACKS_ALL),
        "metric": "produces_per_second",
        "tolerance": None,
        "passed": None,
    }
    return [
        {**judged, "group_value": "9"},
        judged,
        {**judged, "group_value": "12", "tolerance": None, "passed": None},
        {**judged, "recorded_in": NOT_ASKED},
        # Not judged, and shown all the same where there is something to compare.
        {**judged, **acks, "recorded": 7.0},
        {**judged, **acks, "recorded": None},
    ]


def rows_of(recording: str) -> Rows:
    variants = (RECORDED, WITHOUT_KIP, WITH_KIP)
    line = {"recording": recording, "node_id": 1, "source_file": "a.log", "reason": "bad_json"}
    replays = (WITHOUT_KIP, WITH_KIP)
    outcome = {**hwm(recording, RECORDED), "verdict": "replayed", "decision": "parked"}
    return {
        "ingested_files": [
            {
                "recording": recording,
                "node_id": 1,
                "source_file": name,
                "content_hash": name,
                "bytes_read": 1000,
                "lines_read": 12,
                "requests": 6,
                "rejected": 5,
                "repeated": 1,
            }
            for name in ("a.log", "a.log.1")
        ],
        "requests": [
            {
                "recording": recording,
                "node_id": 1,
                "received_at": START + timedelta(seconds=second),
                "completed_at": START + timedelta(seconds=second, microseconds=1),
                "client_id": client,
                "software_name": "apache-kafka-java",
                "software_version": version,
            }
            for second, client, version in (
                (0, "raft-client-11", "4.0.0"),
                (70, "adminclient-1", "9.9.9"),
            )
        ],
        "fetches": [{"recording": recording, "is_cluster_metadata": True, "max_wait_ms": 500}],
        "rejected_lines": [
            {**line, "line_id": str(n), "line_number": n, "line": "x" * 900, "line_bytes": 5000}
            for n in range(1, 11)
        ],
        "fetch_parking_outcomes": [
            {**outcome, "completion": "records"},
            {**outcome, "completion": "unexplained"},
            {**outcome, "completion": "error", "verdict": "not_applicable", "reason": "elsewhere"},
        ],
        "high_watermark_lag": [row for v in variants for row in lag_rows(recording, v)],
        "latency_summary": [row for v in variants for row in summary_rows(recording, v)]
        + [row for v in replays for row in summary_rows(recording, v, 100)],
        "bandwidth_summary": [row for v in variants for row in traffic_rows(recording, v)]
        + [row for v in replays for row in traffic_rows(recording, v, 100)],
        "prediction_accuracy": check_rows(recording),
        "latency_curves": [
            *(
                row
                for v in variants
                for row in curve_rows(
                    hwm(recording, v), "high_watermark_lag", "replica_kind", "broker"
                )
            )
        ],
        **outcomes_of(recording),
    }


def outcomes_of(recording: str) -> Rows:
    """Outcomes of the other rules, counted by verdict."""
    fetch = what_if(recording, "incremental_fetch", INCREMENTAL)
    produce = {
        **what_if(recording, "min_isr_acks", ACKS_MIN_INSYNC_REPLICAS),
        "node_id": 11,
        "topic": "t",
        "partition": 0,
        "acks": -1,
        "received_at": START + timedelta(seconds=5),
    }
    write = {
        **what_if(recording, "lowest_acked_offset", LOWEST_ACKED),
        "api_name": "CREATE_TOPICS",
        "received_at": START + timedelta(seconds=5),
    }
    answered = {"verdict": "replayed", "recorded_error": 0, "acks_all_error": 0}
    refused = {"verdict": "replayed", "recorded_error": 19, "acks_all_error": 19}
    return {
        "fetch_session_outcomes": [
            {**fetch, "verdict": "replayed", "is_full": False, "equals_recorded": True},
            {**fetch, "verdict": "unknown", "reason": "began before the log"},
            {**fetch, "variant": RECORDED, "verdict": "replayed", "is_full": False},
        ],
        "fetch_session_evictions": [
            {**fetch, "parameter": "session_slots", "parameter_value": 8, "event": "refused"}
        ]
        * 3,
        "produce_ack_outcomes": [
            {**produce, **answered, "request_id": str(n), "partition_min_isr_latency_ms": n + 1.0}
            for n in range(4)
        ]
        + [{**produce, **refused, "request_id": "refused"}],
        "metadata_write_outcomes": [
            {**write, "verdict": "replayed", "stale_window_ms": 40.0, "read_after_write_ms": 90.0},
            {**write, "verdict": "unknown", "reason": "the log ended"},
        ],
        "heartbeat_outcomes": [
            {**write, "response_bytes": size, "replayed_response_bytes": size and size + 8}
            for size in (19, 19, None)
        ],
    }


def tables(*recordings: str) -> Rows:
    every = [rows_of(recording) for recording in recordings]
    return {name: [row for rows in every for row in rows[name]] for name in every[0]}


@pytest.fixture(scope="module")
def warehouse() -> Warehouse:
    return InMemory(tables("one", NOT_ASKED))


def figures_of(warehouse: Warehouse, rule: str) -> Any:
    (one,) = read_report(warehouse, ["one"]).figures[rule]
    return one


def test_report_says_what_the_tables_say(warehouse: Warehouse) -> None:
    report = read_report(warehouse, ["one", "one"], {"one": "4.0.1"})

    (one,) = report.logs
    assert one.version == "Kafka 4.0.1 as stated, 4.0.0 in the logs"
    assert one.lines == [24, 12, 10, 2]
    (node,) = one.nodes
    assert (node["first_us"], node["files"]) == (START.timestamp() * 1_000_000, 2)

    (rejected,) = one.rejected
    assert (rejected["reason"], rejected["n"]) == ("bad_json", 10)
    lines = rejected["examples"]
    assert [line["line_number"] for line in lines] == list(range(1, EXAMPLES + 1))
    assert {len(line["line"]) for line in lines} == {EXAMPLE_CHARACTERS}
    # What is judged or goes with it, among what was asked for, replicas in order of their numbers.
    assert [check.group_value for check in report.checks] == ["9", "11", "11"]
    assert report.checks[2].metric == "produces_per_second"


def test_metadata_fetches_say_what_the_tables_say(warehouse: Warehouse) -> None:
    one = figures_of(warehouse, "hwm_parking")

    assert one.protocol is Protocol.WITHOUT
    assert one.max_wait_ms == (500, 500)
    assert one.judged == (1, 2)

    total = one.total(WITH_KIP)
    assert total.rates[:2] == (10.0, 4000.0)
    assert total.unknown_sizes == 4
    assert one.swept == [100]
    assert one.lag(WITH_KIP, at=100).p50 == 1.5

    doubts = {(d.what, d.reason): d.counts for d in one.doubts}
    assert doubts["responses", "elsewhere"] == {RECORDED: 1}
    assert doubts["advances steady", "the log ended"][WITH_KIP] == 3

    for variant in (RECORDED, WITHOUT_KIP, WITH_KIP):
        curve = one.curves["high_watermark_lag", variant, "broker"]
        assert curve.start_ms == 0.1
        # The one that is unknown is among all, and never reached.
        assert curve.points == ((0.25, 4 / 9), (0.9, 8 / 9))


def test_other_rules_count_their_outcomes(warehouse: Warehouse) -> None:
    fetches = figures_of(warehouse, "incremental_fetch")
    assert fetches.uses_sessions
    assert (fetches.fetches, fetches.compared) == (1, (1, 1))
    assert fetches.unknown(INCREMENTAL) == 1
    assert [(at, fetches.events(at)) for at in fetches.swept] == [(8, {"refused": 3})]

    acks = figures_of(warehouse, "min_isr_acks")
    assert (acks.produced, acks.waited) == (5, 5)
    errors = {(row["variant"], row["code"], row["n"]) for row in acks.found("errors")}
    assert errors == {(RECORDED, 19, 1), (ACKS_ALL, 19, 1)}

    writes = figures_of(warehouse, "lowest_acked_offset")
    assert writes.writes == 2
    (sent,) = writes.found("heartbeats")
    assert (sent["n"], sent["recorded"], sent["replayed"]) == (2, 38, 54)


def test_same_tables_same_bytes(warehouse: Warehouse, tmp_path: Path) -> None:
    otherwise = InMemory(tables(NOT_ASKED, "one"), shuffle=2)

    first = write_report(warehouse, ["one"], tmp_path / "new" / "report.html")
    second = write_report(otherwise, ["one"], tmp_path / "again.html")

    assert first.read_bytes() == second.read_bytes()
    assert NOT_ASKED not in first.read_text(encoding="utf-8")
    # Nothing unfinished is left beside it.
    assert [path.name for path in first.parent.iterdir()] == ["report.html"]


def test_unknown_recording_is_the_users_error(warehouse: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'another' is not in the warehouse"):
        write_report(warehouse, ["one", "another"], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
