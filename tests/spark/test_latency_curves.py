"""Points of distributions: few, exact, and the same however Spark partitions."""

from __future__ import annotations

import random

from pyspark.sql import SparkSession

from kip_replay.pipelines.analysis.summaries import CURVE_POINTS, latency_curves
from kip_replay.replay.schema import LATENCY_CURVES

_COLUMNS = (
    "recording string, rule string, variant string, parameter string, parameter_value string, "
    "metric string, group_kind string, group_value string, value_us bigint"
)
_LINE = ("r", "rule", "v", "none", "none", "lag", "kind", "broker")
DRAWN = [("lag", "kind")]


def test_points_are_few_and_exact(spark: SparkSession) -> None:
    # Uneven values with ties, more of them than a curve has points; three are unknown.
    draw = random.Random(1)
    values = [100 * draw.randrange(1, 4000) for _ in range(997)]
    rows = spark.createDataFrame([(*_LINE, us) for us in (*values, None, None, None)], _COLUMNS)

    one, other = (
        latency_curves(rows.repartition(n), DRAWN).orderBy("value_us").collect() for n in (1, 3)
    )

    assert one == other
    assert set(one[0].asDict()) == set(LATENCY_CURVES.arrow_schema.names)
    assert 0 < len(one) <= CURVE_POINTS
    assert (one[0]["from_us"], one[-1]["value_us"]) == (min(values), max(values))
    for row in one:
        assert row["up_to"] == sum(us <= row["value_us"] for us in values)
        assert row["total"] == 1000


def test_what_is_not_drawn_has_no_curve(spark: SparkSession) -> None:
    others = [
        (*_LINE[:3], "max_wait_ms", "100", *_LINE[5:], 5),  # a sweep
        (*_LINE[:6], "all", "all", 5),
        (*_LINE[:5], "another", "kind", "broker", 5),
    ]
    assert latency_curves(spark.createDataFrame(others, _COLUMNS), DRAWN).count() == 0
