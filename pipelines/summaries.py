"""latency_summary and bandwidth_summary, to the last digit the same however Spark partitions.

Durations are summed as integer microseconds, and percentiles come from their exact histogram
(distinct microseconds and how often each occurs), so no group is ever held in memory or sorted
row by row.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.phases import STEADY, is_steady, steady_span_s
from replay.outcomes import Verdict

WHAT_IF = ("recording", "rule", "variant", "parameter", "parameter_value")
_GROUP = (*WHAT_IF, "metric", "group_kind", "group_value")
#: Percentiles in thousandths, so that ranks are computed in integers.
_PERCENTILES = {"p50_ms": 500, "p90_ms": 900, "p95_ms": 950, "p99_ms": 990, "p999_ms": 999}


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


def _measured(
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


def latency_summary(values: DataFrame) -> DataFrame:
    """Rows of latency_summary from one row per value: group columns and ``value_us``.

    A null value is one that is not known: it counts as a miss, so percentiles rank it last and
    are null where they fall on one.
    """
    histogram = values.groupBy(*_GROUP, "value_us").agg(F.count("*").alias("occurs"))
    group = Window.partitionBy(*_GROUP)
    known = F.when(F.col("value_us").isNotNull(), F.col("occurs")).otherwise(0)
    # Nulls are last, so that the running count reaches the known values first.
    counted = histogram.withColumn("count", F.sum(known).over(group)).withColumn(
        "all", F.sum("occurs").over(group)
    )
    ranked = counted.withColumn(
        "up_to",
        F.sum(known).over(
            group.orderBy(F.col("value_us").asc_nulls_last()).rowsBetween(
                Window.unboundedPreceding, Window.currentRow
            )
        ),
    )
    percentiles = [
        F.min(F.when(F.col("up_to") > _rank(thousandths), F.col("value_us"))) / F.lit(1000.0)
        for thousandths in _PERCENTILES.values()
    ]
    total_us = F.sum(F.col("value_us") * F.col("occurs"))
    return ranked.groupBy(*_GROUP).agg(
        F.max("count").alias("count"),
        F.sum(F.when(F.col("value_us").isNull(), F.col("occurs")).otherwise(0)).alias(
            "unknown_count"
        ),
        (total_us / F.max("count") / F.lit(1000.0)).alias("mean_ms"),
        *(p.alias(name) for name, p in zip(_PERCENTILES, percentiles, strict=True)),
        (F.max("value_us") / F.lit(1000.0)).alias("max_ms"),
    )


def _rank(thousandths: int) -> Column:
    """Rank from 0 of a percentile: floor(q * (n - 1)), in integers."""
    return F.expr(f"({thousandths} * (all - 1)) DIV 1000")


def hwm_parking_latencies(outcomes: DataFrame, lags: DataFrame, phases: DataFrame) -> DataFrame:
    """Values of hwm_parking's two metrics in the steady phase, for ``latency_summary``.

    ``high_watermark_lag``: per advance and replica that was not away. ``fetch_parked``: per FETCH
    that was parked.
    """
    applicable = F.col("verdict") != Verdict.NOT_APPLICABLE.value
    lag = _measured(
        lags.where(applicable & (F.col("phase") == STEADY)),
        "high_watermark_lag",
        "lag_ms",
        {"replica_kind": replica_kind(), "replica_id": F.col("replica_id")},
    )
    parked = _measured(
        steady(outcomes.where(applicable & (F.col("decision") == "parked")), phases),
        "fetch_parked",
        "parked_ms",
        {"replica_kind": replica_kind(), "completion": F.col("completion")},
    )
    return lag.unionByName(parked)


def steady(outcomes: DataFrame, phases: DataFrame) -> DataFrame:
    """Outcomes whose FETCH was dequeued in the steady phase, with the phase's bounds."""
    return outcomes.join(F.broadcast(phases), "recording").where(is_steady("dequeued_at"))


def hwm_parking_bandwidth(outcomes: DataFrame, phases: DataFrame) -> DataFrame:
    """Rows of bandwidth_summary for FETCHes of the metadata log in the steady phase."""
    rows = steady(outcomes.where(F.col("verdict") == Verdict.REPLAYED.value), phases)
    no_records = F.lit(0).cast("bigint")
    directions = F.array(
        F.struct(
            F.lit("request").alias("direction"),
            F.col("request_bytes").alias("bytes"),
            no_records.alias("record_bytes"),
        ),
        F.struct(
            F.lit("response").alias("direction"),
            F.col("response_bytes").alias("bytes"),
            F.col("record_bytes").alias("record_bytes"),
        ),
    )
    # A FETCH of the steady phase may be answered with the burst of records of a shutdown.
    in_phase = (F.col("way.direction") == "request") | is_steady("built_at")
    both = (
        rows.withColumn("way", F.explode(directions))
        .where(in_phase)
        .select(
            *WHAT_IF,
            F.lit("FETCH").alias("api_name"),
            F.col("leader_id").alias("node_id"),
            replica_kind().alias("client_kind"),
            "way.*",
            steady_span_s().alias("span_s"),
        )
    )
    group = (*WHAT_IF, "api_name", "node_id", "client_kind", "direction")
    # Overhead is only told of requests whose size is known.
    known = F.when(F.col("bytes").isNotNull(), F.coalesce("record_bytes", F.lit(0))).otherwise(0)
    summed = both.groupBy(*group).agg(
        F.count("*").alias("requests"),
        F.count("*").alias("partitions"),
        F.coalesce(F.sum("bytes"), no_records).alias("bytes"),
        F.sum(F.col("bytes").isNull().cast("bigint")).alias("unknown_size_requests"),
        F.sum(known).alias("record_bytes"),
        F.max("span_s").alias("span_s"),
    )
    return (
        summed.withColumn("overhead_bytes", F.col("bytes") - F.col("record_bytes"))
        .withColumn("requests_per_second", F.col("requests") / F.col("span_s"))
        .withColumn("bytes_per_second", F.col("bytes") / F.col("span_s"))
    )
