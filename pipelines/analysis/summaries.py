"""The summaries: latency_summary, latency_curves and bandwidth_summary, the same to the last digit
however Spark partitions.

Durations are summed as integer microseconds, and percentiles come from their exact histogram
(distinct microseconds and how often each occurs), so no group is ever held in memory or sorted
row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kip_replay.pipelines.analysis.phases import is_steady
from kip_replay.replay.schema import Table
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: Rows of a table, of the recordings at hand.
Read = Callable[[Table], DataFrame]

WHAT_IF = ("recording", "rule", "variant", "parameter", "parameter_value")
_GROUP = (*WHAT_IF, "metric", "group_kind", "group_value")
#: Percentiles in thousandths, so that ranks are computed in integers.
_PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}
#: Points of a distribution: one for each half per cent of the values.
CURVE_POINTS = 200


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
    whole = Window.partitionBy(*group)
    known = F.when(F.col(value).isNotNull(), F.col("occurs")).otherwise(0)
    ranked = _histogram(values, group, value).withColumn("count", F.sum(known).over(whole))
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


def _histogram(values: DataFrame, group: Sequence[str], value: str) -> DataFrame:
    """Per group and value: how often it occurs, its rank (up_to), and the group's values (all)."""
    whole = Window.partitionBy(*group)
    rising = whole.orderBy(F.col(value).asc_nulls_last()).rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    histogram = values.groupBy(*group, value).agg(F.count("*").alias("occurs"))
    return histogram.withColumn("up_to", F.sum("occurs").over(rising)).withColumn(
        "all", F.sum("occurs").over(whole)
    )


def latency_summary(values: DataFrame) -> DataFrame:
    """Rows of latency_summary from one row per value: group columns and ``value_us``."""
    spread = distributions(values, _GROUP, "value_us")
    as_ms = [(F.col(name) / F.lit(1000.0)).alias(f"{name}_ms") for name in (*_PERCENTILES, "max")]
    mean_ms = (F.col("total") / F.col("count") / F.lit(1000.0)).alias("mean_ms")
    return spread.select(*_GROUP, "count", "unknown_count", mean_ms, *as_ms)


def _rank(thousandths: int) -> Column:
    """Rank from 0 of a percentile: floor(q * (n - 1)), in integers."""
    return F.expr(f"({thousandths} * (all - 1)) DIV 1000")


def steady(outcomes: DataFrame, phases: DataFrame) -> DataFrame:
    """Outcomes whose FETCH was dequeued in the steady phase, with the phase's bounds."""
    return outcomes.join(F.broadcast(phases), "recording").where(is_steady("dequeued_at"))


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


def latency_curves(values: DataFrame, drawn: Iterable[tuple[str, str]]) -> DataFrame:
    """Rows of latency_curves: at most CURVE_POINTS exact points of each group's distribution.

    ``values``: as for ``latency_summary``. ``drawn``: the (metric, group_kind) that have curves;
    sweeps have none. A point is the largest value of a slice of the ranks.
    """
    pairs = F.array(*(F.array(F.lit(metric), F.lit(kind)) for metric, kind in drawn))
    chosen = values.where(
        (F.col("parameter") == "none") & F.array_contains(pairs, F.array("metric", "group_kind"))
    )
    ranks_per_slice = F.expr(f"((up_to - 1) * {CURVE_POINTS}) DIV all")
    return (
        _histogram(chosen, _GROUP, "value_us")
        .where(F.col("value_us").isNotNull())
        .groupBy(*_GROUP, ranks_per_slice.alias("slice"))
        .agg(
            F.max("value_us").alias("value_us"),
            F.max("up_to").alias("up_to"),
            F.min("value_us").alias("from_us"),
            F.max("all").alias("total"),
        )
        .drop("slice")
    )
