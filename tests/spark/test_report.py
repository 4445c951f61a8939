"""The report from tables: bounded, exact, and the same whatever the order of the rows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from pipelines.errors import UserError
from pipelines.report import write_report
from pipelines.report.data import CURVE_POINTS, EXAMPLES, Protocol, read_report
from pipelines.warehouse import Scope, Warehouse
from replay.outcomes import RECORDED
from replay.rules import WITH_KIP, WITHOUT_KIP
from replay.schema import TABLES, Table

START = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)
NOT_ASKED = "not asked for"
Rows = Mapping[str, list[dict[str, Any]]]


class InMemory(Warehouse):
    """Tables that were never written: reading is what is tested here, and Delta has its tests."""

    def __init__(self, spark: SparkSession, rows: Rows, shuffle: int, partitions: int) -> None:
        super().__init__(spark, "in memory")
        self._tables = {
            name: self._table(table, rows.get(name, []), shuffle, partitions)
            for name, table in TABLES.items()
        }

    def _table(
        self, table: Table, rows: list[dict[str, Any]], shuffle: int, partitions: int
    ) -> DataFrame:
        shuffled = random.Random(shuffle).sample(rows, len(rows))
        filled = [{name: row.get(name) for name in table.arrow_schema.names} for row in shuffled]
        loose = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
        frame = self.spark.createDataFrame(pa.Table.from_pylist(filled, schema=loose))
        return frame.repartition(partitions)

    def read(self, table: Table, where: Scope | None = None) -> DataFrame:
        assert where is None
        return self._tables[table.name]


def what_if(recording: str, variant: str, wait: str | None = None) -> dict[str, Any]:
    return {
        "recording": recording,
        "rule": "hwm_parking",
        "variant": variant,
        "parameter": "max_wait_ms" if wait else "none",
        "parameter_value": wait or "none",
    }


def lags_us(variant: str) -> list[int]:
    """Uneven values with ties, more of them than a curve has points."""
    draw = random.Random(variant)
    return [100 * draw.randrange(1, 4000) for _ in range(997)]


def lag_rows(recording: str, variant: str) -> list[dict[str, Any]]:
    steady = {
        **what_if(recording, variant),
        "is_voter": False,
        "phase": "steady",
        "verdict": "replayed",
    }
    known = [{**steady, "lag_ms": us / 1000} for us in lags_us(variant)]
    unknown = {**steady, "verdict": "unknown", "reason": "the log ended"}
    away = {**steady, "verdict": "not_applicable", "reason": "away", "lag_ms": 5e6}
    early = {**steady, "phase": "starting", "lag_ms": 9e6}
    return [*known, unknown, unknown, unknown, away, early]


def summary_rows(recording: str, variant: str, wait: str | None = None) -> list[dict[str, Any]]:
    return [
        {
            **what_if(recording, variant, wait),
            "metric": metric,
            "group_kind": "replica_kind",
            "group_value": "broker",
            "count": 997,
            "unknown_count": 3,
            "p50_ms": 1.5 if variant == WITH_KIP else 330.0,
        }
        for metric in ("high_watermark_lag", "fetch_parked")
    ]


def traffic_rows(recording: str, variant: str, wait: str | None = None) -> list[dict[str, Any]]:
    return [
        {
            **what_if(recording, variant, wait),
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
        **what_if(recording, WITHOUT_KIP),
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
    return [
        {**judged, "group_value": "9"},
        judged,
        {**judged, "group_value": "12", "tolerance": None, "passed": None},
        {**judged, "recorded_in": NOT_ASKED},
    ]


def rows_of(recording: str) -> Rows:
    variants = (RECORDED, WITHOUT_KIP, WITH_KIP)
    line = {"recording": recording, "node_id": 1, "source_file": "a.log", "reason": "bad_json"}
    replays = (WITHOUT_KIP, WITH_KIP)
    outcome = {**what_if(recording, RECORDED), "verdict": "replayed", "decision": "parked"}
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
        + [row for v in replays for row in summary_rows(recording, v, "100")],
        "bandwidth_summary": [row for v in variants for row in traffic_rows(recording, v)]
        + [row for v in replays for row in traffic_rows(recording, v, "100")],
        "prediction_accuracy": check_rows(recording),
    }


def tables(*recordings: str) -> Rows:
    every = [rows_of(recording) for recording in recordings]
    return {name: [row for rows in every for row in rows[name]] for name in every[0]}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession) -> Warehouse:
    return InMemory(spark, tables("one", NOT_ASKED), shuffle=1, partitions=2)


def test_report_says_what_the_tables_say(warehouse: Warehouse) -> None:
    report = read_report(warehouse, ["one", "one"], {"one": "4.0.1"})

    (one,) = report.recordings
    assert one.protocol is Protocol.WITHOUT
    assert (one.stated_version, one.logged_versions) == ("4.0.1", ("4.0.0",))
    assert one.lines_read == (24, 12, 10, 2)
    assert (one.nodes[0].first_at, one.nodes[0].files) == (START, 2)
    assert one.max_wait_ms == (500, 500)
    assert (one.metadata_fetches, one.judged_answers, one.unexplained_answers) == (3, 2, 1)

    total = one.of(WITH_KIP).total_traffic
    assert total is not None
    assert (total.fetches_per_second, total.bytes_per_second) == (10.0, 4000.0)
    assert total.unknown_sizes == 4
    assert [point.max_wait_ms for point in one.sweep] == [100]
    assert one.sweep[0].with_kip.lag["broker"].p50 == 1.5

    doubts = {(d.what, d.phase, d.reason): d.counts for d in one.doubts}
    assert doubts["answers", None, "elsewhere"] == {RECORDED: 1}
    assert doubts["advances", "steady", "the log ended"][WITH_KIP] == 3

    (rejected,) = one.rejected
    assert (rejected.reason, rejected.count) == ("bad_json", 10)
    assert [line.line_number for line in rejected.examples] == list(range(1, EXAMPLES + 1))
    # Only what is judged, only among what was asked for, replicas in the order of their numbers.
    assert [check.group_value for check in report.checks] == ["9", "11"]

    for variant in (RECORDED, WITHOUT_KIP, WITH_KIP):
        values = [us / 1000 for us in lags_us(variant)]
        curve = one.of(variant).curve["broker"]
        assert len(curve.points) <= CURVE_POINTS
        assert curve.start_ms == min(values)
        for ms, share in curve.points:
            # Exact: the three that are unknown are among all, and never reached.
            assert share == sum(value <= ms for value in values) / 1000
        assert curve.points[-1] == (max(values), 0.997)


def test_same_tables_same_bytes(spark: SparkSession, warehouse: Warehouse, tmp_path: Path) -> None:
    otherwise = InMemory(spark, tables(NOT_ASKED, "one"), shuffle=2, partitions=3)

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
