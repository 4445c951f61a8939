"""incremental_fetch's summaries equal plain arithmetic on the same small tables."""

from collections import defaultdict

import pytest
from constructed import STEADY_S, Key, Row, assert_same, keyed, phases
from constructed.sessions import RECORDINGS, ROWS, STEPS, is_steady
from pyspark.sql import SparkSession
from small_tables import reader, rows_of

from kip_replay.pipelines.analysis.summaries import outside_holes, per_second
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.replay.incremental_fetch import SESSION_SLOTS
from kip_replay.replay.incremental_fetch.registration import RULE as INCREMENTAL_FETCH
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.outcomes import Verdict


def expected_bandwidth() -> dict[Key, Row]:
    ways: dict[Key, list[Row]] = defaultdict(list)
    what_if = ("recording", "variant", "parameter", "parameter_value", "node_id", "client_kind")
    for r in ROWS:
        if r["verdict"] != Verdict.REPLAYED.value or not is_steady(r, "dequeued_at"):
            continue
        for way in ("request", "response"):
            if way == "response" and not is_steady(r, "built_at"):
                continue
            ways[(*(r[name] for name in what_if), way)].append(
                {
                    "partitions": r[f"{way}_partitions"],
                    "bytes": r[f"{way}_bytes"],
                    "records": r["record_bytes"] if way == "response" else 0,
                }
            )
    span_s = STEADY_S[1] - STEADY_S[0]
    found: dict[Key, Row] = {}
    for key, rows in ways.items():
        known = [r for r in rows if r["bytes"] is not None]
        size, records = (sum(r[name] for r in known) for name in ("bytes", "records"))
        found[key] = {
            "rule": INCREMENTAL_FETCH.name,
            "api_name": "FETCH",
            "requests": len(rows),
            "partitions": sum(r["partitions"] for r in rows),
            "bytes": size,
            "unknown_size_requests": len(rows) - len(known),
            "record_bytes": records,
            "overhead_bytes": size - records,
            "span_s": span_s,
            "requests_per_second": len(rows) / span_s,
            "bytes_per_second": size / span_s,
        }
    return found


def test_every_figure_of_bandwidth_summary(spark: SparkSession) -> None:
    assert STEPS.bandwidth
    read = reader(spark, {FETCH_SESSION_OUTCOMES: ROWS})
    key = "recording variant parameter parameter_value node_id client_kind direction"
    rates = per_second(STEPS.bandwidth(read, phases(*RECORDINGS)), {}, phases(*RECORDINGS))
    found = keyed(rows_of(rates), key.split())
    expected = expected_bandwidth()
    assert_same(found, expected)
    assert {key[2] for key in expected} == {"none", SESSION_SLOTS}
    assert {r["unknown_size_requests"] for r in expected.values()} == {0, 1}


def test_rates_are_of_the_time_without_holes(spark: SparkSession) -> None:
    assert STEPS.bandwidth
    read = reader(spark, {FETCH_SESSION_OUTCOMES: ROWS})
    steady = phases(*RECORDINGS)
    (name, bounds), *_ = steady.items()
    whole = rows_of(STEPS.bandwidth(read, steady))
    node = next(row["node_id"] for row in whole if row["recording"] == name)
    half_us = (bounds.from_us + bounds.until_us) // 2
    gaps = {name: [LogGap(node, bounds.from_us - 5_000_000, half_us)]}
    found = rows_of(per_second(STEPS.bandwidth(read, steady), gaps, steady))
    for row in found:
        is_its = (row["recording"], row["node_id"]) == (name, node)
        span_s = steady[row["recording"]].span_s / (2 if is_its else 1)
        assert row["span_s"] == pytest.approx(span_s)
        assert row["requests_per_second"] == pytest.approx(row["requests"] / span_s)


def test_what_was_dequeued_within_a_hole_of_its_node_is_left_out(spark: SparkSession) -> None:
    read = reader(spark, {FETCH_SESSION_OUTCOMES: ROWS})
    name, node = ROWS[0]["recording"], ROWS[0]["node_id"]
    times = sorted({microseconds(r["dequeued_at"]) for r in ROWS if r["node_id"] == node})
    hole = LogGap(node, times[1], times[-2])
    left = rows_of(outside_holes(read, {name: [hole]}, spark)(FETCH_SESSION_OUTCOMES))
    expected = [
        r["request_id"]
        for r in ROWS
        if (r["recording"], r["node_id"]) != (name, node)
        or not times[1] < microseconds(r["dequeued_at"]) < times[-2]
    ]
    assert sorted(r["request_id"] for r in left) == sorted(expected)
    assert 0 < len(left) < len(ROWS)
