"""Sums of a recording's outcomes are the reviewed ones; rates are of the time that logs have."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from constructed import PERCENTILES, Row, assert_reviewed, written_rows
from golden.recorded import ENGINE, STEPS, WAREHOUSE, replayed, session, steady

from kip_replay.pipelines.analysis.summaries import (
    BandwidthSummaries,
    LatencySummaries,
    bandwidth_summaries,
    latency_summaries,
)
from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.engines import Feeding, Steps
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles, microseconds
from kip_replay.replay.incremental_fetch.outcomes import Sent
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.records import Verdict
from kip_replay.replay.table import Table
from kip_replay.replay.tables import BandwidthSummary, LatencySummary

pytestmark = pytest.mark.golden

#: Brokers that stop and come back; consumers with sessions, and of other zones; a new controller.
RECORDINGS = {
    "closest_replica": "racks-aware",
    "hwm_parking": "acks-not-enough",
    "incremental_fetch": "sessions-on",
    "lowest_acked_offset": "failover-4.0",
    "min_isr_acks": "acks-not-enough",
}
WHAT_IF = ("variant", "parameter", "parameter_value")
FIGURES = ("count", "unknown_count", "mean_ms", "max_ms", *(f"{name}_ms" for name in PERCENTILES))


def latencies(steps: SummedRule, name: str) -> list[Row]:
    headlines, spans = frozenset(steps.latencies), {name: steady(name)}
    with TemporaryDirectory() as folder:
        task = LatencySummaries(TableFiles(folder, "part"), headlines, headlines, spans, {})
        step = latency_summaries([steps.text("latencies")], spans, task)
        return summed(steps, name, LatencySummary, folder, step)


def bandwidth(steps: SummedRule, name: str, gaps: Sequence[LogGap] = ()) -> list[Row]:
    spans, ratios = {name: steady(name)}, {steps.name: steps.ratios}
    with TemporaryDirectory() as folder:
        metrics = {steps.name: steps.traffic_errors}
        task = BandwidthSummaries(TableFiles(folder, "part"), spans, {}, metrics, ratios)
        step = bandwidth_summaries([steps.text("bandwidth")], spans, {name: [*gaps]}, task)
        return summed(steps, name, BandwidthSummary, folder, step)


def summed(
    steps: SummedRule, name: str, table: Table, folder: str, step: Feeding[list[DataFile]]
) -> list[Row]:
    replayed(name, steps.name)
    [files] = ENGINE.beside(Steps({"sums": step}, 0)).values()
    rows = written_rows(Path(folder), table, files)
    assert {(row["recording"], row["rule"]) for row in rows} == {(name, steps.name)}
    return rows


def sorted_by(key: tuple[str, ...], rows: list[Row], figures: tuple[str, ...]) -> list[Row]:
    ordered = sorted(rows, key=lambda row: [row[name] for name in key])
    return [{name: row[name] for name in (*key, *figures)} for row in ordered]


@pytest.mark.parametrize("rule", sorted({*STEPS} - {"incremental_fetch"}))
def test_every_figure_of_latency_summary(tmp_path: Path, rule: str) -> None:
    rows = latencies(STEPS[rule], RECORDINGS[rule])
    key = (*WHAT_IF, "metric", "group_kind", "group_value")
    assert_reviewed(sorted_by(key, rows, FIGURES), "latencies", rule, tmp_path)


@pytest.mark.parametrize("rule", ["closest_replica", "hwm_parking", "incremental_fetch"])
def test_every_figure_of_bandwidth_summary(tmp_path: Path, rule: str) -> None:
    rows = bandwidth(STEPS[rule], RECORDINGS[rule])
    key = (*WHAT_IF, "node_id", "client_kind", "direction")
    assert {row["api_name"] for row in rows} == {"FETCH"}
    figures = ("requests", "unknown_size_requests", "partitions", "bytes", "record_bytes")
    figures += ("overhead_bytes", "span_s", "requests_per_second", "bytes_per_second")
    assert_reviewed(sorted_by(key, rows, figures), "bandwidth", rule, tmp_path)


def test_rates_are_of_the_time_without_gaps_and_of_requests_outside_of_them() -> None:
    rule, node = "incremental_fetch", 11
    name = RECORDINGS[rule]
    span = steady(name)
    half_us = (span.from_us + span.until_us) // 2
    found = bandwidth(STEPS[rule], name, [LogGap(node, span.from_us - 5_000_000, half_us)])
    assert {row["node_id"] for row in found} > {node}
    for row in found:
        span_s = (span.until_us - span.from_us) / 1e6 / (2 if row["node_id"] == node else 1)
        assert row["span_s"] == pytest.approx(span_s)
        assert row["requests_per_second"] == pytest.approx(row["requests"] / span_s)
    outcomes = [
        (row["node_id"], microseconds(row["dequeued_at"]))
        for row in WAREHOUSE.rows(Sent, [name]).to_pylist()
        if row["verdict"] != Verdict.NOT_APPLICABLE.value
    ]
    outside = [
        at_us
        for of, at_us in outcomes
        if (half_us if of == node else span.from_us) <= at_us < span.until_us
    ]
    requests = [row for row in found if row["direction"] == "request"]
    assert sum(row["requests"] for row in requests) == len(outside) < len(outcomes)


@pytest.mark.parametrize(
    ("view", "rule"),
    [
        ("lag_over_time", "hwm_parking"),
        ("produce_latency_over_time", "min_isr_acks"),
        ("stale_window_over_time", "lowest_acked_offset"),
        ("fetch_bytes_over_time", "incremental_fetch"),
    ],
)
def test_view_over_time(tmp_path: Path, view: str, rule: str) -> None:
    with session(RECORDINGS[rule], rule) as database:
        rows = database.sql(f"FROM {view} ORDER BY ALL").to_arrow_table().to_pylist()
    assert_reviewed(rows, "views", view, tmp_path)
