"""prediction_accuracy: every prediction beside what real brokers did, a baseline, a verdict.

A prediction is made from one recording under the rule that another recording's brokers ran (or
the same recording's: a self-check). It is held against what that other recording shows. Which
figures those are, and which errors pass, each rule says in ``pipelines.measures``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.summaries import WHAT_IF
from kip_replay.replay.outcomes import RECORDED

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
    "unchanged",
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
    """Prediction and recording of each pair; a count that only one side has is none on the other.

    ``measures``: a row per recording, variant and measure (WHAT_IF, MEASURE, value, baseline,
    sample_count, unknown_count), the variant ``recorded`` among them. ``wanted``: predicted_from,
    recorded_in, own_variant (what to predict under). Besides ``PREDICTED`` there is ``unchanged``:
    what was recorded in ``predicted_from``, the naive guess of what another cluster does.
    """
    is_recording = F.col("variant") == RECORDED
    of_predicted = F.col("recording") == F.col("predicted_from")
    roles = {
        "is_predicted": of_predicted & (F.col("variant") == F.col("own_variant")),
        "is_recorded": (F.col("recording") == F.col("recorded_in")) & is_recording,
        "is_unchanged": of_predicted & is_recording,
    }
    # One pass over the measures, which are costly, and none of the sides is joined with another.
    beside = measures.join(F.broadcast(wanted), reduce(Column.__or__, roles.values()))
    named = beside.select(
        "predicted_from",
        "recorded_in",
        "rule",
        F.col("own_variant").alias("variant"),
        *WHAT_IF[3:],
        *MEASURE,
        "value",
        "baseline",
        "sample_count",
        "unknown_count",
        *(role.alias(name) for name, role in roles.items()),
    )
    key = ["predicted_from", "recorded_in", *WHAT_IF[1:], *MEASURE]
    sides = named.groupBy(*key).agg(
        _of("is_predicted", "baseline").alias("baseline"),
        _of("is_predicted", "value").alias("predicted"),
        _of("is_recorded", "value").alias("recorded"),
        _of("is_unchanged", "value").alias("unchanged"),
        _of("is_predicted", "sample_count").alias("sample_count"),
        _of("is_predicted", "unknown_count").alias("unknown_count"),
        F.max(F.col("is_predicted") | F.col("is_recorded")).alias("is_wanted"),
    )
    nothing = F.when(F.col("unit") == "count", 0.0)
    return sides.where("is_wanted").select(
        *key,
        "baseline",
        F.coalesce("predicted", nothing).alias("predicted"),
        F.coalesce("recorded", nothing).alias("recorded"),
        "unchanged",
        F.lit(None).cast("double").alias("scale"),
        F.lit(True).alias("is_judged"),
        F.coalesce("sample_count", F.lit(0)).cast("bigint").alias("sample_count"),
        F.coalesce("unknown_count", F.lit(0)).cast("bigint").alias("unknown_count"),
    )


def _of(role: str, name: str) -> Column:
    """The value of the one row in that role."""
    return F.max(F.when(F.col(role), F.col(name)))


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
        F.lit(None).cast("double").alias("unchanged"),
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
