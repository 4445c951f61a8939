"""The report from tables: bounded, exact, and the same whatever the order of the rows."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from report_examples import CONFIG

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report.data import read_report
from kip_replay.pipelines.report.logs import EXAMPLE_CHARACTERS, EXAMPLES
from kip_replay.pipelines.report.page import text_of, write_page
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
NOT_REQUESTED = "not requested"


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
    variation = {"variant": variant, "parameter": parameter, "parameter_value": value}
    return {"recording": recording, "rule": rule, **variation}


def hwm(recording: str, variant: str, wait: int | None = None) -> dict[str, Any]:
    sweep = () if wait is None else ("max_wait_ms", wait)
    return what_if(recording, "hwm_parking", variant, *sweep)


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
    p50_ms = 1.5 if variant == WITH_KIP else 330.0
    group = {"group_kind": "replica_kind", "group_value": "broker"}
    figures = {**group, "count": 997, "unknown_count": 3, "p50_ms": p50_ms}
    return [
        {**hwm(recording, variant, wait), "metric": metric, **figures}
        for metric in ("high_watermark_lag", "fetch_parked")
    ]


def traffic_rows(recording: str, variant: str, wait: int | None = None) -> list[dict[str, Any]]:
    fetches = {**hwm(recording, variant, wait), "api_name": "FETCH", "client_kind": "broker"}
    counts = {"requests": 300 if variant == WITH_KIP else 150, "unknown_size_requests": 1}
    return [
        {**fetches, **counts, "node_id": leader, "direction": way, "bytes": 60_000, "span_s": 60.0}
        for leader in (1, 2)
        for way in ("request", "response")
    ]


def check_rows(recording: str) -> list[dict[str, Any]]:
    pair = {"predicted_from": recording, "recorded_in": recording}
    group = {"metric": "fetches", "group_kind": "replica_id", "group_value": "11", "unit": "count"}
    figures = {"predicted": 210.0, "recorded": 208.0, "error": 2.0, "sample_count": 210}
    passed = {"kind": "self_check", "tolerance": 4.0, "passed": True, "unknown_count": 0}
    judged = hwm(recording, WITHOUT_KIP) | pair | group | figures | passed
    shown = {"kind": "self_check", "tolerance": None, "passed": None}
    acks = what_if(recording, "min_isr_acks", ACKS_ALL) | {"metric": "produces_per_second"} | shown
    return [
        {**judged, "group_value": "9"},
        judged,
        {**judged, "group_value": "12", **shown},
        {**judged, "recorded_in": NOT_REQUESTED},
        # Not judged, and shown all the same where there is something to compare.
        {**judged, **acks, "recorded": 7.0},
        {**judged, **acks, "recorded": None},
    ]


def rows_of(recording: str) -> Rows:
    variants, replays = (RECORDED, WITHOUT_KIP, WITH_KIP), (WITHOUT_KIP, WITH_KIP)
    of_node = {"recording": recording, "node_id": 1}
    counts = {"bytes_read": 1000, "lines_read": 12, "requests": 4, "other": 2}
    counts |= {"rejected": 5, "repeated": 1}
    software = {"software_name": "apache-kafka-java"}
    line = {"source_file": "a.log", "reason": "bad_json", "line": "x" * 900, "line_bytes": 5000}
    outcome = {**hwm(recording, RECORDED), "verdict": "replayed", "decision": "parked"}
    lag_curve = ("high_watermark_lag", "replica_kind", "broker")
    return {
        "ingested_files": [
            {**of_node, **counts, "source_file": name, "content_hash": name}
            for name in ("a.log", "a.log.1")
        ],
        "requests": [
            {**of_node, **software, "client_id": client, "software_version": version}
            | {"received_at": at, "completed_at": at + timedelta(microseconds=1)}
            for at, client, version in (
                (START, "raft-client-11", "4.0.0"),
                (START + timedelta(seconds=70), "adminclient-1", "9.9.9"),
            )
        ],
        "fetches": [{"recording": recording, "is_cluster_metadata": True, "max_wait_ms": 500}],
        "rejected_lines": [
            {**of_node, **line, "line_id": str(n), "line_number": n} for n in range(1, 11)
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
            row for v in variants for row in curve_rows(hwm(recording, v), *lag_curve)
        ],
        **outcomes_of(recording),
    }


def outcomes_of(recording: str) -> Rows:
    """Outcomes of the other rules, counted by verdict."""
    fetch = what_if(recording, "incremental_fetch", INCREMENTAL)
    received = {"received_at": START + timedelta(seconds=5)}
    partition = {"node_id": 11, "topic": "t", "partition": 0, "acks": -1}
    produce = what_if(recording, "min_isr_acks", ACKS_MIN_INSYNC_REPLICAS) | partition | received
    write = what_if(recording, "lowest_acked_offset", LOWEST_ACKED) | received
    write["api_name"] = "CREATE_TOPICS"
    acked = {"verdict": "replayed", "recorded_error": 0, "acks_all_error": 0}
    refused = {"verdict": "replayed", "recorded_error": 19, "acks_all_error": 19}
    slots = {"parameter": "session_slots", "parameter_value": 8}
    return {
        "fetch_session_outcomes": [
            {**fetch, "verdict": "replayed", "is_full": False, "equals_recorded": True},
            {**fetch, "verdict": "unknown", "reason": "began before the log"},
            {**fetch, "variant": RECORDED, "verdict": "replayed", "is_full": False},
        ],
        "fetch_session_evictions": [{**fetch, **slots, "event": "refused"}] * 3,
        "produce_ack_outcomes": [
            {**produce, **acked, "request_id": str(n), "partition_min_isr_latency_ms": n + 1.0}
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
    return InMemory(tables("one", NOT_REQUESTED))


def figures_of(warehouse: Warehouse, rule: str) -> Any:
    (one,) = read_report(warehouse, ["one"]).figures[rule]
    return one


def test_report_says_what_the_tables_say(warehouse: Warehouse) -> None:
    report = read_report(warehouse, ["one", "one"], {"one": "4.0.1"})

    (one,) = report.logs
    assert one.version == "Kafka 4.0.1 as stated, 4.0.0 in the logs"
    assert one.lines == [24, 8, 4, 10, 2]
    (node,) = one.nodes
    assert (node["first_us"], node["files"]) == (START.timestamp() * 1_000_000, 2)

    (rejected,) = one.rejected
    assert (rejected["reason"], rejected["n"]) == ("bad_json", 10)
    lines = rejected["examples"]
    assert [line["line_number"] for line in lines] == list(range(1, EXAMPLES + 1))
    assert {len(line["line"]) for line in lines} == {EXAMPLE_CHARACTERS}
    # What is judged or goes with it, among what was requested, replicas in order of their numbers.
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
    otherwise = InMemory(tables(NOT_REQUESTED, "one"), shuffle=2)

    first, second = tmp_path / "new" / "report.html", tmp_path / "again.html"
    for path, of in ((first, warehouse), (second, otherwise)):
        write_page(path, text_of(read_report(of, ["one"]), CONFIG, "html"))
    assert first.read_bytes() == second.read_bytes()
    assert NOT_REQUESTED not in first.read_text(encoding="utf-8")
    # Nothing unfinished is left beside it.
    assert [path.name for path in first.parent.iterdir()] == ["report.html"]


def test_unknown_recording_is_the_users_error(warehouse: Warehouse) -> None:
    with pytest.raises(UserError, match="'another' is not in the warehouse"):
        read_report(warehouse, ["one", "another"])
