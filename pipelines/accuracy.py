"""prediction_accuracy: every prediction beside what real brokers did, a baseline, a verdict.

A prediction is made from one recording under the rule that another recording's brokers ran (or
the same recording's: a self-check). It is held against what that other recording shows. Which
figures those are, and which errors pass, each rule says in ``pipelines.measures``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.summaries import WHAT_IF
from replay.outcomes import RECORDED

MEASURE = ("metric", "group_kind", "group_value", "unit")
#: What a rule's ``predictions`` has; ``judged`` adds error, tolerance and verdict.
PREDICTED = (
    "predicted_from",
    "recorded_in",
    *WHAT_IF[1:],
    *MEASURE,
    "baseline",
    "predicted",
    "recorded",
    "scale",
    "is_judged",
    "sample_count",
    "unknown_count",
)


class Tolerance(NamedTuple):
    """The largest |error| that passes: absolute in the metric's unit, relative, or the larger."""

    metric: str
    variant: str
    self_check: bool
    absolute: float | None
    relative: float | None


_TOLERANCE_SCHEMA = (
    "metric string, variant string, self_check boolean, absolute double, relative double"
)


def wanted_pairs(spark: SparkSession, pairs: Iterable[tuple[str, str]]) -> DataFrame:
    """predicted_from, recorded_in."""
    return spark.createDataFrame(list(pairs), "predicted_from string, recorded_in string")


def measure(metric: Column | str, kind: str, value: Column, unit: str) -> list[Column]:
    """The columns that say what is measured."""
    name = F.lit(metric) if isinstance(metric, str) else metric
    return [
        name.alias("metric"),
        F.lit(kind).alias("group_kind"),
        value.cast("string").alias("group_value"),
        F.lit(unit).alias("unit"),
    ]


def side_by_side(measures: DataFrame, wanted: DataFrame) -> DataFrame:
    """Prediction and recording joined; a count that only one side has is none on the other.

    ``measures``: a row per recording, variant and measure (WHAT_IF, MEASURE, value, baseline,
    sample_count, unknown_count), the variant ``recorded`` among them. ``wanted``: predicted_from,
    recorded_in, own_variant (what to predict under).
    """
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
            *MEASURE,
            F.col("value").alias("recorded"),
        )
    )
    key = ["predicted_from", "recorded_in", *WHAT_IF[1:], *MEASURE]
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
        F.lit(None).cast("double").alias("scale"),
        F.lit(True).alias("is_judged"),
        F.coalesce("sample_count", F.lit(0)).cast("bigint").alias("sample_count"),
        F.coalesce("unknown_count", F.lit(0)).cast("bigint").alias("unknown_count"),
    )


def held_against(measures: DataFrame, wanted: DataFrame, recorded: float) -> DataFrame:
    """Self-checks whose truth is known beforehand, such as a share that should be 1.

    ``measures`` without a variant of its own takes the ``own_variant`` of ``wanted``.
    """
    self_checks = wanted.where(F.col("predicted_from") == F.col("recorded_in"))
    return measures.join(self_checks, measures["recording"] == self_checks["recorded_in"]).select(
        "predicted_from",
        "recorded_in",
        "rule",
        F.col("own_variant").alias("variant"),
        "parameter",
        "parameter_value",
        *MEASURE,
        F.lit(None).cast("double").alias("baseline"),
        F.col("value").alias("predicted"),
        F.lit(recorded).alias("recorded"),
        F.lit(None).cast("double").alias("scale"),
        F.lit(True).alias("is_judged"),
        "sample_count",
        "unknown_count",
    )


def judged(spark: SparkSession, rows: DataFrame, tolerances: Iterable[Tolerance]) -> DataFrame:
    """Rows of prediction_accuracy: error, tolerance and verdict of each of ``PREDICTED``.

    A relative tolerance is relative to ``scale``, where there is none to |recorded|. Rows that are
    not ``is_judged`` are shown without one. An outcome that is unknown has counted as a miss.
    """
    passes = F.broadcast(spark.createDataFrame(list(tolerances), _TOLERANCE_SCHEMA))
    self_check = F.col("predicted_from") == F.col("recorded_in")
    scale = F.coalesce("scale", F.abs("recorded"))
    with_tolerance = (
        rows.withColumn("self_check", self_check)
        .join(passes, ["metric", "variant", "self_check"], "left")
        .withColumn("error", F.col("predicted") - F.col("recorded"))
        .withColumn("tolerance", F.greatest("absolute", F.col("relative") * scale))
        .withColumn("tolerance", F.when(F.col("is_judged"), F.col("tolerance")))
    )
    return with_tolerance.select(
        F.col("predicted_from").alias("recording"),
        *WHAT_IF[1:],
        "predicted_from",
        "recorded_in",
        *MEASURE,
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
