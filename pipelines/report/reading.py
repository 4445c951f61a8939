"""Queries that every rule's part of the report shares: each bounded, whatever a log's length."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: Points of a distribution: one for each half per cent of the values.
CURVE_POINTS = 200


def plain() -> Column:
    """No sweep."""
    return F.col("parameter") == "none"


def curve_points(values: DataFrame) -> DataFrame:
    """At most CURVE_POINTS points of the distribution of each recording, variant, metric and group.

    ``values``: what a rule's ``latencies`` makes for latency_summary (``value_us``, null where not
    known). Each point is exact: the largest value of a slice of the ranks, and how many values it
    is not below. Computed from the histogram of distinct microseconds, so nothing is sorted row by
    row.
    """
    line = ("recording", "variant", "metric", "group_value")
    histogram = values.groupBy(*line, "value_us").agg(F.count("*").alias("occurs"))
    whole = Window.partitionBy(*line)
    rising = whole.orderBy(F.col("value_us").asc_nulls_last()).rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    ranked = histogram.withColumn("up_to", F.sum("occurs").over(rising)).withColumn(
        "all", F.sum("occurs").over(whole)
    )
    ranks_per_slice = F.expr(f"((up_to - 1) * {CURVE_POINTS}) DIV all")
    return (
        ranked.where(F.col("value_us").isNotNull())
        .groupBy(*line, ranks_per_slice.alias("slice"))
        .agg(
            F.min("value_us").alias("from_us"),
            F.max("value_us").alias("value_us"),
            F.max("up_to").alias("up_to"),
            F.max("all").alias("all"),
        )
    )


def counted(outcomes: DataFrame, what: Column, facts: Mapping[str, Column]) -> DataFrame:
    """How many outcomes have each verdict and reason, sweeps left out; ``facts`` are summed up.

    ``what``: what a row is of. ``facts``: what else is counted of each row, 0 or 1.
    """
    group = ("recording", "variant", "what", "verdict", "reason")
    return (
        outcomes.where(plain())
        .withColumn("what", what)
        .groupBy(*group)
        .agg(
            F.count("*").alias("n"),
            *(
                F.sum(F.coalesce(fact, F.lit(False)).cast("bigint")).alias(name)
                for name, fact in facts.items()
            ),
        )
    )
