"""Summaries equal what NumPy-free arithmetic on the same rows gives, to the last digit."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.headlines import (
    accuracy_line,
    accuracy_rows,
    headline_figures,
    headlines,
)
from kip_replay.pipelines.analysis.summaries import latency_summary
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import (
    BANDWIDTH_SUMMARY,
    FETCH_PARKING_OUTCOMES,
    HIGH_WATERMARK_LAG,
    LATENCY_SUMMARY,
    PREDICTION_ACCURACY,
)

_GROUP = ("r", "rule", "v", "none", "none", "m", "all", "all")
_COLUMNS = (
    "recording string, rule string, variant string, parameter string, parameter_value string, "
    "metric string, group_kind string, group_value string, value_us bigint"
)


def summary_of(spark: SparkSession, values: list[int | None], partitions: int) -> dict[str, Any]:
    rows = spark.createDataFrame([(*_GROUP, value) for value in values], _COLUMNS)
    [summary] = latency_summary(rows.repartition(partitions)).collect()
    return summary.asDict()


def at_rank(values: list[int | None], q: float) -> float | None:
    """The value at rank floor(q * (n - 1)); those not known come last."""
    known = sorted(value for value in values if value is not None)
    rank = math.floor(round(q * 1000) * (len(values) - 1) / 1000)
    return known[rank] / 1000 if rank < len(known) else None


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    values=st.lists(st.one_of(st.none(), st.integers(0, 10**7)), min_size=1, max_size=300),
    partitions=st.integers(1, 5),
)
def test_percentiles_are_exact(
    spark: SparkSession, values: list[int | None], partitions: int
) -> None:
    summary = summary_of(spark, values, partitions)
    known = [value for value in values if value is not None]
    assert (summary["count"], summary["unknown_count"]) == (len(known), len(values) - len(known))
    for name, q in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        assert summary[name] == at_rank(values, q)
    assert summary["max_ms"] == (max(known) / 1000 if known else None)
    assert summary["mean_ms"] == (sum(known) / len(known) / 1000 if known else None)


def test_what_is_unknown_is_never_taken_for_small(spark: SparkSession) -> None:
    summary = summary_of(spark, [1000, 2000, None, None], 1)
    assert summary["p50_ms"] == 2.0
    assert summary["p90_ms"] is None
    assert summary["max_ms"] == 2.0


def steady(frame: DataFrame) -> DataFrame:
    return frame.where("phase = 'steady' AND verdict = 'replayed'")


def test_lag_percentiles_follow_from_the_lags(finished: Warehouse) -> None:
    lags: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row in steady(finished.read(HIGH_WATERMARK_LAG)).where("NOT is_voter").collect():
        key = (row["recording"], row["variant"], row["parameter_value"])
        lags[key].append(round(row["lag_ms"] * 1000))
    summaries = finished.read(LATENCY_SUMMARY).where(
        "metric = 'high_watermark_lag' AND group_value = 'broker'"
    )
    found = summaries.collect()
    assert len(found) == len(lags)
    for row in found:
        mine: list[int | None] = [*lags[row["recording"], row["variant"], row["parameter_value"]]]
        assert row["count"] == len(mine)
        assert row["p50_ms"] == at_rank(mine, 0.5)
        assert row["p99_ms"] == at_rank(mine, 0.99)


def test_bandwidth_adds_up(finished: Warehouse) -> None:
    sums = finished.read(BANDWIDTH_SUMMARY)
    assert sums.where("bytes != record_bytes + overhead_bytes OR overhead_bytes <= 0").count() == 0
    assert sums.where("abs(bytes_per_second * span_s - bytes) > 1e-6 * bytes").count() == 0
    group = ("recording", "variant", "parameter_value")
    of_metadata = sums.where("rule = 'hwm_parking' AND direction = 'request'")
    requests = of_metadata.groupBy(*group)
    summed = requests.agg(F.sum("requests").alias("requests")).collect()
    counted = {tuple(row)[:3]: row["requests"] for row in summed}
    outcomes = finished.read(FETCH_PARKING_OUTCOMES).where("verdict = 'replayed'")
    spans = sums.select("recording", "span_s").distinct().collect()
    assert len(spans) == 2
    # Steady is a part of the whole, and by far the larger one.
    for row in outcomes.groupBy(*group).count().collect():
        share = counted[tuple(row)[:3]] / row["count"]
        assert 0.85 < share < 1


def test_every_self_check_is_judged_and_nothing_is_judged_twice(finished: Warehouse) -> None:
    rows = accuracy_rows(finished)
    assert {(row["predicted_from"], row["recorded_in"]) for row in rows} == {
        ("failover-4.0", "failover-4.0"),
        ("freeze-4.1", "freeze-4.1"),
    }
    judged = {(row["rule"], row["metric"]) for row in rows if row["tolerance"] is not None}
    said = {
        (steps.name, tolerance.metric)
        for steps in RULES
        for tolerance in steps.tolerances
        if tolerance.self_check and steps.name != "min_isr_acks"  # nobody produced anything
    }
    assert judged == said
    key = ("rule", "predicted_from", "recorded_in", "metric", "group_kind", "group_value")
    assert len({tuple(row[name] for name in key) for row in rows}) == len(rows)
    for row in rows:
        assert row["error"] == pytest.approx(row["predicted"] - row["recorded"])
        if row["tolerance"] is not None:
            assert row["passed"] == (abs(row["error"]) <= row["tolerance"])


def test_the_self_checks_of_both_recordings_hold(finished: Warehouse) -> None:
    rows = accuracy_rows(finished)
    missed = [
        (row["recorded_in"], row["metric"], row["group_value"], row["error"], row["tolerance"])
        for row in rows
        if row["tolerance"] is not None and not row["passed"]
    ]
    assert missed == []


def test_the_constant_guess_fails_where_a_replica_is_away(finished: Warehouse) -> None:
    """One FETCH per append and replica (two with the KIP) knows nothing of absences."""
    away = {"freeze-4.1": "13", "failover-4.0": "2"}
    for recording, replica in away.items():
        [row] = [
            row
            for row in accuracy_rows(finished, recording, recording)
            if (row["group_kind"], row["group_value"]) == ("replica_id", replica)
        ]
        assert abs(row["baseline"] - row["recorded"]) > row["tolerance"]
        assert abs(row["predicted"] - row["recorded"]) <= row["tolerance"]


def test_headlines_say_each_variant_of_each_recording(finished: Warehouse) -> None:
    names = ["failover-4.0", "freeze-4.1", "never recorded"]
    text = "\n".join(headlines(headline_figures(finished, names), names))
    assert text.count("with_kip_1166") == 2
    assert text.count("  recorded") == 2
    assert "never recorded: no FETCH" in text
    rows = accuracy_rows(finished)
    judged = sum(row["tolerance"] is not None for row in rows)
    assert judged > 20
    assert accuracy_line(rows).endswith(f"{judged} of {judged}")


def test_accuracy_is_kept_per_pair(finished: Warehouse) -> None:
    assert finished.read(PREDICTION_ACCURACY).where("recording != predicted_from").count() == 0
