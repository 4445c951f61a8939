"""latency_summary and bandwidth_summary, to the last digit the same however Spark partitions.

Durations are summed as integer microseconds, and percentiles come from their exact histogram
(distinct microseconds and how often each occurs), so no group is ever held in memory or sorted
row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import Phases, is_steady, with_phases

WHAT_IF = ("recording", "rule", "variant", "parameter", "parameter_value")
_GROUP = (*WHAT_IF, "metric", "group_kind", "group_value")
#: Points of a distribution: one for each half per cent of the values.
CURVE_POINTS = 200
#: Percentiles in thousandths, so that ranks are computed in integers.
_PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}


def replica_kind() -> Column:
    """voter or broker, of rows that say whether the replica votes."""
    return F.when(F.col("is_voter"), "voter").otherwise("broker")


def grouped_by(groups: Mapping[str, Column]) -> Column:
    """The groups a row counts in, to be exploded: everything, and one for each named column."""
    every = [F.struct(F.lit("all").alias("group_kind"), F.lit("all").alias("group_value"))]
    named = [
        F.struct(F.lit(kind).alias("group_kind"), value.cast("string").alias("group_value"))
        for kind, value in groups.items()
    ]
    return F.array(*every, *named)


def measured(
    rows: DataFrame, metric: str, value_ms: str, groups: Mapping[str, Column]
) -> DataFrame:
    exploded = rows.withColumn("group", F.explode(grouped_by(groups)))
    return exploded.select(
        *WHAT_IF,
        F.lit(metric).alias("metric"),
        "group.group_kind",
        "group.group_value",
        F.round(F.col(value_ms) * 1000).cast("bigint").alias("value_us"),
    )


def distributions(values: DataFrame, group: Sequence[str], value: str) -> DataFrame:
    """Per group: count, unknown_count, total, max and p50 ... p999 of integers, all exact.

    A null value is one that is not known: it counts as a miss, so percentiles rank it last and
    are null where they fall on one.
    """
    histogram = values.groupBy(*group, value).agg(F.count("*").alias("occurs"))
    whole = Window.partitionBy(*group)
    known = F.when(F.col(value).isNotNull(), F.col("occurs")).otherwise(0)
    ranked = (
        histogram.withColumn("all", F.sum("occurs").over(whole))
        .withColumn("count", F.sum(known).over(whole))
        .withColumn(
            "up_to",
            F.sum("occurs").over(
                whole.orderBy(F.col(value).asc_nulls_last()).rowsBetween(
                    Window.unboundedPreceding, Window.currentRow
                )
            ),
        )
    )
    percentiles = [
        F.min(F.when(F.col("up_to") > _rank(thousandths), F.col(value))).alias(name)
        for name, thousandths in _PERCENTILES.items()
    ]
    unknown = F.sum(F.when(F.col(value).isNull(), F.col("occurs")).otherwise(0))
    return ranked.groupBy(*group).agg(
        F.max("count").alias("count"),
        unknown.alias("unknown_count"),
        F.sum(F.col(value) * F.col("occurs")).alias("total"),
        F.max(value).alias("max"),
        *percentiles,
    )


def latency_summary(values: DataFrame) -> DataFrame:
    """Rows of latency_summary from one row per value: group columns and ``value_us``."""
    spread = distributions(values, _GROUP, "value_us")
    as_ms = [(F.col(name) / F.lit(1000.0)).alias(f"{name}_ms") for name in (*_PERCENTILES, "max")]
    mean_ms = (F.col("total") / F.col("count") / F.lit(1000.0)).alias("mean_ms")
    return spread.select(*_GROUP, "count", "unknown_count", mean_ms, *as_ms)


def latency_curves(values: DataFrame) -> DataFrame:
    """Rows of latency_curves of the same values: no sweeps, and no partitions one by one."""
    shown = F.col("group_kind").isin("all", "replica_kind", "node_id", "api_name")
    histogram = (
        values.where((F.col("parameter") == "none") & shown)
        .groupBy(*_GROUP, "value_us")
        .agg(F.count("*").alias("occurs"))
    )
    whole = Window.partitionBy(*_GROUP)
    rising = whole.orderBy(F.col("value_us").asc_nulls_last()).rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    ranked = histogram.withColumn("up_to", F.sum("occurs").over(rising)).withColumn(
        "total", F.sum("occurs").over(whole)
    )
    slices = F.expr(f"((up_to - 1) * {CURVE_POINTS}) DIV total").alias("slice")
    return (
        ranked.where(F.col("value_us").isNotNull())
        .groupBy(*_GROUP, slices)
        .agg(
            F.max("value_us").alias("value_us"),
            F.min("value_us").alias("from_us"),
            F.max("up_to").alias("up_to"),
            F.max("total").alias("total"),
        )
    )


def _rank(thousandths: int) -> Column:
    """Rank from 0 of a percentile: floor(q * (n - 1)), in integers."""
    return F.expr(f"({thousandths} * (all - 1)) DIV 1000")


def steady(outcomes: DataFrame, phases: Phases) -> DataFrame:
    """Outcomes whose FETCH was dequeued in the steady phase, with the phase's bounds."""
    return with_phases(outcomes, phases).where(is_steady("dequeued_at"))


def bandwidth_summary(ways: DataFrame) -> DataFrame:
    """Rows of bandwidth_summary from one row per request and direction.

    Columns: WHAT_IF, api_name, node_id, client_kind, direction, partitions, bytes (null: size not
    known), record_bytes, span_s.
    """
    # Overhead is only told of requests whose size is known.
    known = F.when(F.col("bytes").isNotNull(), F.coalesce("record_bytes", F.lit(0))).otherwise(0)
    summed = ways.groupBy(*WHAT_IF, "api_name", "node_id", "client_kind", "direction").agg(
        F.count("*").alias("requests"),
        F.sum("partitions").cast("bigint").alias("partitions"),
        F.coalesce(F.sum("bytes"), F.lit(0).cast("bigint")).alias("bytes"),
        F.sum(F.col("bytes").isNull().cast("bigint")).alias("unknown_size_requests"),
        F.sum(known).alias("record_bytes"),
        F.max("span_s").alias("span_s"),
    )
    return (
        summed.withColumn("overhead_bytes", F.col("bytes") - F.col("record_bytes"))
        .withColumn("requests_per_second", F.col("requests") / F.col("span_s"))
        .withColumn("bytes_per_second", F.col("bytes") / F.col("span_s"))
    )
