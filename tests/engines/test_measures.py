"""Summaries of constructed tables are the reviewed ones, which plain arithmetic gave once."""

from pathlib import Path
from typing import Any

import pytest
from constructed import PERCENTILES, Row, assert_reviewed, phases, produces, sessions, writes
from small_tables import bandwidth, latencies

from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.outcomes import Verdict

WHAT_IF = ("recording", "variant", "parameter", "parameter_value")
GROUP = (*WHAT_IF, "metric", "group_kind", "group_value")
FIGURES = ("count", "unknown_count", "mean_ms", "max_ms", *(f"{name}_ms" for name in PERCENTILES))


@pytest.mark.parametrize("of", [produces, writes], ids=lambda of: of.__name__)
def test_every_figure_of_latency_summary(tmp_path: Path, of: Any) -> None:
    rows = latencies(of.STEPS, of.OUTCOMES, of.RECORDINGS)
    assert {row["rule"] for row in rows} == {of.STEPS.name}
    assert_reviewed(sorted_by(GROUP, rows, FIGURES), "summaries", of.STEPS.name, tmp_path)


def sorted_by(key: tuple[str, ...], rows: list[Row], figures: tuple[str, ...]) -> list[Row]:
    ordered = sorted(rows, key=lambda row: [row[name] for name in key])
    return [{name: row[name] for name in (*key, *figures)} for row in ordered]


def test_every_figure_of_bandwidth_summary(tmp_path: Path) -> None:
    rows = bandwidth(sessions.STEPS, sessions.tables(), sessions.RECORDINGS)
    key = (*WHAT_IF, "node_id", "client_kind", "direction")
    assert {(row["rule"], row["api_name"]) for row in rows} == {(sessions.STEPS.name, "FETCH")}
    figures = ("requests", "unknown_size_requests", "partitions", "bytes", "record_bytes")
    figures += ("overhead_bytes", "span_s", "requests_per_second", "bytes_per_second")
    assert_reviewed(sorted_by(key, rows, figures), "summaries", sessions.STEPS.name, tmp_path)


def test_rates_are_of_the_time_without_gaps_and_of_requests_outside_of_them() -> None:
    (name, steady), *_ = phases(*sessions.RECORDINGS).items()
    mine = [
        row
        for row in sessions.ROWS
        if row["recording"] == name and row["verdict"] != Verdict.NOT_APPLICABLE.value
    ]
    node, half_us = mine[0]["node_id"], (steady.from_us + steady.until_us) // 2
    gaps = {name: [LogGap(node, steady.from_us - 5_000_000, half_us)]}
    found = bandwidth(sessions.STEPS, sessions.tables(), sessions.RECORDINGS, gaps)
    for row in found:
        is_its = (row["recording"], row["node_id"]) == (name, node)
        span_s = steady.span_s / (2 if is_its else 1)
        assert row["span_s"] == pytest.approx(span_s)
        assert row["requests_per_second"] == pytest.approx(row["requests"] / span_s)
    outside = [
        row
        for row in mine
        for at_us in [microseconds(row["dequeued_at"])]
        if (half_us if row["node_id"] == node else steady.from_us) <= at_us < steady.until_us
    ]
    requests = [row for row in found if (row["recording"], row["direction"]) == (name, "request")]
    assert sum(row["requests"] for row in requests) == len(outside) < len(mine)
