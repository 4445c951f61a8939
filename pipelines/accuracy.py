"""prediction_accuracy: every prediction beside what real brokers did, a baseline, a verdict.

A prediction is made from one recording under the rule that another recording's brokers ran (or
the same recording's: a self-check). It is held against what that other recording shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pipelines.phases import STEADY, is_steady, steady_span_s
from pipelines.summaries import WHAT_IF, steady
from replay.outcomes import RECORDED, Verdict
from replay.rules import EMPTY_WAKE, WITH_KIP, WITHOUT_KIP, Completion

_MEASURE = ("metric", "group_kind", "group_value", "unit")


class Tolerance(NamedTuple):
    """The largest |error| that passes: absolute in the metric's unit, or relative."""

    metric: str
    variant: str
    self_check: bool
    absolute: float | None
    relative: float | None


#: What the project demands of itself. Metrics without an entry are shown and not judged.
TOLERANCES = (
    Tolerance("fetches_per_second", WITHOUT_KIP, True, None, 0.005),
    Tolerance("fetches_per_second", WITH_KIP, True, None, 0.005),
    Tolerance("fetches_per_second", WITH_KIP, False, None, 0.02),
    Tolerance("fetches_per_second", WITHOUT_KIP, False, None, 0.03),
    Tolerance("high_watermark_lag_p50", WITHOUT_KIP, True, 2.0, None),
    Tolerance("high_watermark_lag_p90", WITHOUT_KIP, True, 3.0, None),
    Tolerance("high_watermark_lag_p99", WITHOUT_KIP, True, 5.0, None),
    Tolerance("high_watermark_lag_p50", WITH_KIP, True, 1.0, None),
    Tolerance("high_watermark_lag_p90", WITH_KIP, True, 3.0, None),
    Tolerance("high_watermark_lag_p99", WITH_KIP, True, 6.0, None),
    Tolerance("high_watermark_lag_p50", WITH_KIP, False, 1.0, None),
    Tolerance("high_watermark_lag_p90", WITH_KIP, False, 3.0, None),
    Tolerance("high_watermark_lag_p99", WITH_KIP, False, 8.0, None),
    Tolerance("high_watermark_lag_p50", WITHOUT_KIP, False, 10.0, None),
    Tolerance("high_watermark_lag_p90", WITHOUT_KIP, False, 5.0, None),
    Tolerance("high_watermark_lag_p99", WITHOUT_KIP, False, 10.0, None),
    *(Tolerance("fetches", kip, True, None, 0.02) for kip in (WITHOUT_KIP, WITH_KIP)),
    *(Tolerance("answers_explained", kip, True, 0.01, None) for kip in (WITHOUT_KIP, WITH_KIP)),
    *(
        Tolerance("answers_explained_or_woken", kip, True, 0.01, None)
        for kip in (WITHOUT_KIP, WITH_KIP)
    ),
)
_TOLERANCE_SCHEMA = (
    "metric string, variant string, self_check boolean, absolute double, relative double"
)

#: Naive guesses of the lag: parked for a random part of 500 ms without the KIP, none with it.
_NAIVE_LAG = {
    WITHOUT_KIP: {"p50": 250.0, "p90": 450.0, "p99": 495.0},
    WITH_KIP: {"p50": 0.0, "p90": 0.0, "p99": 0.0},
}


def own_variants(outcomes: DataFrame) -> DataFrame:
    """recording, own_variant: the rule its brokers ran, told by whether FETCHes say a HWM."""
    recorded = outcomes.where(F.col("variant") == RECORDED)
    says = F.max(F.col("replica_high_watermark").isNotNull())
    return recorded.groupBy("recording").agg(
        F.when(says, WITH_KIP).otherwise(WITHOUT_KIP).alias("own_variant")
    )


def hwm_parking_measures(
    outcomes: DataFrame, lags: DataFrame, latencies: DataFrame, phases: DataFrame
) -> DataFrame:
    """One row per recording, variant and measure: what is predicted or recorded, and a baseline.

    Columns: WHAT_IF, metric, group_kind, group_value, unit, value, baseline, sample_count,
    unknown_count. No sweeps: they are compared with nothing.
    """
    plain = F.col("parameter") == "none"
    fetches = steady(outcomes.where(plain & (F.col("verdict") == Verdict.REPLAYED.value)), phases)
    advances = _advances(lags.where(plain))
    return (
        _lag_measures(latencies.where(plain))
        .unionByName(_rates(fetches, advances))
        .unionByName(_counts(fetches, advances))
    )


def _advances(lags: DataFrame) -> DataFrame:
    """Advances of the high watermark in the steady phase, and how many replicas follow them."""
    steady_lags = lags.where(F.col("phase") == STEADY)
    moved = F.countDistinct("leader_id", "leader_epoch", "high_watermark")
    return steady_lags.groupBy(*WHAT_IF).agg(
        moved.alias("advances"), F.countDistinct("replica_id").alias("replicas")
    )


def _fetches_per_advance() -> Column:
    """The constant that comes near: one FETCH per append and replica, two with the KIP."""
    return F.when(F.col("variant") == WITHOUT_KIP, 1.0).when(F.col("variant") == WITH_KIP, 2.0)


def _measure(metric: Column | str, kind: str, value: Column, unit: str) -> list[Column]:
    name = F.lit(metric) if isinstance(metric, str) else metric
    return [
        name.alias("metric"),
        F.lit(kind).alias("group_kind"),
        value.cast("string").alias("group_value"),
        F.lit(unit).alias("unit"),
    ]


def _lag_measures(latencies: DataFrame) -> DataFrame:
    lag = latencies.where(
        (F.col("metric") == "high_watermark_lag") & (F.col("group_kind") == "replica_kind")
    )
    percentiles = F.array(
        *(
            F.struct(
                F.lit(f"high_watermark_lag_{p}").alias("name"),
                F.col(f"{p}_ms").alias("value"),
                F.when(F.col("variant") == WITHOUT_KIP, _NAIVE_LAG[WITHOUT_KIP][p])
                .when(F.col("variant") == WITH_KIP, _NAIVE_LAG[WITH_KIP][p])
                .alias("baseline"),
            )
            for p in ("p50", "p90", "p99")
        )
    )
    return lag.withColumn("percentile", F.explode(percentiles)).select(
        *WHAT_IF,
        *_measure(F.col("percentile.name"), "replica_kind", F.col("group_value"), "ms"),
        F.col("percentile.value").alias("value"),
        F.col("percentile.baseline").alias("baseline"),
        F.col("count").alias("sample_count"),
        "unknown_count",
    )


def _rates(fetches: DataFrame, advances: DataFrame) -> DataFrame:
    counted = (
        fetches.groupBy(*WHAT_IF)
        .agg(
            F.count("*").alias("fetches"),
            F.max(steady_span_s()).alias("span_s"),
            F.sum(
                F.coalesce("request_bytes", F.lit(0)) + F.coalesce("response_bytes", F.lit(0))
            ).alias("bytes"),
        )
        .join(advances, list(WHAT_IF), "left")
    )
    constant = _fetches_per_advance() * F.col("advances") * F.col("replicas")
    rows = F.array(
        F.struct(
            F.lit("fetches_per_second").alias("metric"),
            F.lit("1/s").alias("unit"),
            (F.col("fetches") / F.col("span_s")).alias("value"),
            (constant / F.col("span_s")).alias("baseline"),
        ),
        F.struct(
            F.lit("fetch_bytes_per_second").alias("metric"),
            F.lit("bytes/s").alias("unit"),
            (F.col("bytes") / F.col("span_s")).alias("value"),
            F.lit(None).cast("double").alias("baseline"),
        ),
    )
    return counted.withColumn("row", F.explode(rows)).select(
        *WHAT_IF,
        F.col("row.metric").alias("metric"),
        F.lit("all").alias("group_kind"),
        F.lit("all").alias("group_value"),
        F.col("row.unit").alias("unit"),
        F.col("row.value").alias("value"),
        F.col("row.baseline").alias("baseline"),
        F.col("fetches").alias("sample_count"),
        F.lit(0).cast("bigint").alias("unknown_count"),
    )


def _bytes_in_phase() -> Column:
    """Bytes of a FETCH, less an answer that was built after the steady phase."""
    answer = F.when(is_steady("built_at"), F.coalesce("response_bytes", F.lit(0))).otherwise(0)
    return F.coalesce("request_bytes", F.lit(0)) + answer


def _counts(fetches: DataFrame, advances: DataFrame) -> DataFrame:
    """FETCHes per replica, and per completion (what no rule explains is in no prediction)."""
    explained = fetches.where(F.col("completion") != Completion.UNEXPLAINED.value)
    kinds = F.array(
        F.struct(
            F.lit("replica_id").alias("kind"), F.col("replica_id").cast("string").alias("value")
        ),
        F.struct(F.lit("completion").alias("kind"), F.col("completion").alias("value")),
    )
    counted = (
        explained.withColumn("group", F.explode(kinds))
        .groupBy(*WHAT_IF, "group")
        .agg(F.count("*").alias("fetches"))
        .join(advances, list(WHAT_IF), "left")
    )
    constant = F.when(
        F.col("group.kind") == "replica_id", _fetches_per_advance() * F.col("advances")
    )
    return counted.select(
        *WHAT_IF,
        F.lit("fetches").alias("metric"),
        F.col("group.kind").alias("group_kind"),
        F.col("group.value").alias("group_value"),
        F.lit("count").alias("unit"),
        F.col("fetches").cast("double").alias("value"),
        constant.alias("baseline"),
        F.col("fetches").alias("sample_count"),
        F.lit(0).cast("bigint").alias("unknown_count"),
    )


def answers_explained(outcomes: DataFrame) -> DataFrame:
    """The open-loop check as measures: shares of a leader's answers that are explained.

    ``answers_explained``: by the rule. ``answers_explained_or_woken``: or by a wake of everyone
    who was parked, which the released code does and no KIP tells of.
    """
    recorded = outcomes.where(F.col("variant") == RECORDED)
    applicable = recorded.where(F.col("verdict") != Verdict.NOT_APPLICABLE.value)
    told = F.col("verdict") == Verdict.REPLAYED.value
    explained = told & (F.col("completion") != Completion.UNEXPLAINED.value)
    woken = told & (F.coalesce("reason", F.lit("")) == EMPTY_WAKE)
    counted = applicable.groupBy(*WHAT_IF).agg(
        F.sum(explained.cast("bigint")).alias("explained"),
        F.sum((explained | woken).cast("bigint")).alias("woken"),
        F.count("*").alias("sample_count"),
        F.sum((F.col("verdict") == Verdict.UNKNOWN.value).cast("bigint")).alias("unknown_count"),
    )
    shares = F.array(
        F.struct(F.lit("answers_explained").alias("metric"), F.col("explained").alias("n")),
        F.struct(F.lit("answers_explained_or_woken").alias("metric"), F.col("woken").alias("n")),
    )
    return counted.withColumn("share", F.explode(shares)).select(
        *WHAT_IF,
        "share.metric",
        F.lit("all").alias("group_kind"),
        F.lit("all").alias("group_value"),
        F.lit("share").alias("unit"),
        (F.col("share.n") / F.col("sample_count")).alias("value"),
        "sample_count",
        "unknown_count",
    )


def predictions(
    spark: SparkSession,
    measures: DataFrame,
    explained: DataFrame,
    own: DataFrame,
    pairs: Iterable[tuple[str, str]],
) -> DataFrame:
    """Rows of prediction_accuracy for pairs (predicted_from, recorded_in); equal ones are
    self-checks.

    ``measures`` and ``explained`` as above, ``own`` as ``own_variants``.
    """
    asked = spark.createDataFrame(list(pairs), "predicted_from string, recorded_in string")
    wanted = F.broadcast(
        asked.join(own.withColumnRenamed("recording", "recorded_in"), "recorded_in")
    )
    return _judged(
        spark,
        _side_by_side(measures, wanted).unionByName(_explained_rows(explained, wanted)),
    )


def _side_by_side(measures: DataFrame, wanted: DataFrame) -> DataFrame:
    """Prediction and recording joined; a count that only one side has is none on the other."""
    predicted = (
        measures.withColumnRenamed("recording", "predicted_from")
        .join(wanted, "predicted_from")
        .where(F.col("variant") == F.col("own_variant"))
        .withColumnRenamed("value", "predicted")
        .drop("own_variant")
    )
    recorded = (
        measures.where(F.col("variant") == RECORDED)
        .withColumnRenamed("recording", "recorded_in")
        .join(wanted, "recorded_in")
        .select(
            "predicted_from",
            "recorded_in",
            "rule",
            F.col("own_variant").alias("variant"),
            "parameter",
            "parameter_value",
            *_MEASURE,
            F.col("value").alias("recorded"),
        )
    )
    key = ["predicted_from", "recorded_in", *WHAT_IF[1:], *_MEASURE]
    joined = predicted.join(recorded, key, "full")
    is_count = F.col("unit") == "count"
    return joined.select(
        *key,
        "baseline",
        F.when(is_count, F.coalesce("predicted", F.lit(0.0)))
        .otherwise(F.col("predicted"))
        .alias("predicted"),
        F.when(is_count, F.coalesce("recorded", F.lit(0.0)))
        .otherwise(F.col("recorded"))
        .alias("recorded"),
        F.coalesce("sample_count", F.lit(0)).alias("sample_count"),
        F.coalesce("unknown_count", F.lit(0)).alias("unknown_count"),
    )


def _explained_rows(explained: DataFrame, wanted: DataFrame) -> DataFrame:
    self_checks = wanted.where(F.col("predicted_from") == F.col("recorded_in"))
    return explained.join(self_checks, explained["recording"] == self_checks["recorded_in"]).select(
        "predicted_from",
        "recorded_in",
        "rule",
        F.col("own_variant").alias("variant"),
        "parameter",
        "parameter_value",
        *_MEASURE,
        F.lit(None).cast("double").alias("baseline"),
        F.col("value").alias("predicted"),
        F.lit(1.0).alias("recorded"),
        "sample_count",
        "unknown_count",
    )


def _judged(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """Error, tolerance and verdict of each row. An outcome that is unknown counts as a miss."""
    tolerances = F.broadcast(spark.createDataFrame(list(TOLERANCES), _TOLERANCE_SCHEMA))
    self_check = F.col("predicted_from") == F.col("recorded_in")
    judged = rows.withColumn("self_check", self_check).join(
        tolerances, ["metric", "variant", "self_check"], "left"
    )
    # One FETCH more of a rare completion is no large error: it is held against all FETCHes.
    of_all = F.sum("recorded").over(
        Window.partitionBy("predicted_from", "recorded_in", *WHAT_IF[1:], "metric", "group_kind")
    )
    scale = F.when(F.col("group_kind") == "completion", of_all).otherwise(F.abs("recorded"))
    judged = (
        judged.withColumn("scale", scale)
        .withColumn("error", F.col("predicted") - F.col("recorded"))
        .withColumn("tolerance", F.coalesce(F.col("absolute"), F.col("relative") * F.col("scale")))
        # Voters are shown beside the brokers; the demands are on the brokers.
        .withColumn("tolerance", F.when(F.col("group_value") != "voter", F.col("tolerance")))
    )
    return judged.select(
        F.col("predicted_from").alias("recording"),
        *WHAT_IF[1:],
        "predicted_from",
        "recorded_in",
        *_MEASURE,
        "baseline",
        "predicted",
        "recorded",
        "error",
        F.when(F.col("recorded") != 0, F.col("error") / F.col("recorded")).alias("relative_error"),
        "tolerance",
        F.when(
            F.col("tolerance").isNotNull(),
            F.coalesce(F.abs("error") <= F.col("tolerance"), F.lit(False)),
        ).alias("passed"),
        "sample_count",
        "unknown_count",
    )
