"""incremental_fetch: partitions and bytes on the wire, and how near that is to brokers."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.accuracy import Tolerance, held_against, measure, side_by_side
from kip_replay.pipelines.analysis.phases import Phases, is_steady, steady_span_s
from kip_replay.pipelines.analysis.summaries import (
    WHAT_IF,
    bandwidth_summary,
    distributions,
    steady,
)
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.rules import FULL, INCREMENTAL
from kip_replay.replay.schema import FETCH_SESSION_OUTCOMES

_COUNTED = ("request_partitions", "response_partitions")
#: FETCHes whose client asks for the same set of partitions as before: bursts of new ones come when
#: an application happens to begin, not when the protocol says so.
SAME_SET = "same_set_"

#: What the project demands of itself. Metrics without an entry are shown and not judged.
TOLERANCES = (
    Tolerance("fetches_as_recorded", INCREMENTAL, True, 0.0, None),
    *(
        Tolerance(f"{of}{name}_{figure}", variant, self_check, None, 0.0 if self_check else 0.10)
        for of in ("", SAME_SET)
        for name in _COUNTED
        for figure in ("mean", "p90")
        for variant, self_check in (
            (INCREMENTAL, True),
            (INCREMENTAL, False),
            (FULL, True),
            (FULL, False),
        )
    ),
    *(Tolerance("fetch_bytes", variant, True, None, 0.0) for variant in (INCREMENTAL, FULL)),
)


def bandwidth(read: Read, phases: Phases) -> DataFrame:
    """Rows of bandwidth_summary for FETCHes of topic partitions in the steady phase."""
    outcomes = read(FETCH_SESSION_OUTCOMES)
    rows = steady(outcomes.where(F.col("verdict") == Verdict.REPLAYED.value), phases)
    ways = F.array(
        F.struct(
            F.lit("request").alias("direction"),
            F.col("request_partitions").alias("partitions"),
            F.col("request_bytes").alias("bytes"),
            F.lit(0).cast("bigint").alias("record_bytes"),
        ),
        F.struct(
            F.lit("response").alias("direction"),
            F.col("response_partitions").alias("partitions"),
            F.col("response_bytes").alias("bytes"),
            F.col("record_bytes").alias("record_bytes"),
        ),
    )
    in_phase = (F.col("way.direction") == "request") | is_steady("built_at")
    return bandwidth_summary(
        rows.withColumn("way", F.explode(ways))
        .where(in_phase)
        .select(
            *WHAT_IF,
            F.lit("FETCH").alias("api_name"),
            "node_id",
            "client_kind",
            "way.*",
            steady_span_s().alias("span_s"),
        )
    )


def predictions(read: Read, _: DataFrame, phases: Phases, pairs: DataFrame) -> DataFrame:
    """Partitions per FETCH both ways by kind of client, and FETCHes that come out as recorded.

    Predicted under what the brokers of ``recorded_in`` ran: sessions, or none.
    """
    outcomes = read(FETCH_SESSION_OUTCOMES).where(F.col("parameter") == "none")
    wanted = F.broadcast(_wanted(_own_variants(outcomes), pairs))
    both = side_by_side(_measures(outcomes, phases), wanted)
    crossed = F.col("predicted_from") != F.col("recorded_in")
    both = both.withColumn("baseline", F.when(crossed, F.col("unchanged")))
    return both.unionByName(held_against(_as_recorded(outcomes), wanted, 1.0))


def _wanted(own: DataFrame, pairs: DataFrame) -> DataFrame:
    """predicted_from, recorded_in, own_variant: self-checks, and pairs that differ in protocol.

    Two recordings of one protocol show how much two runs differ, and predict nothing.
    """
    ran = own.withColumnRenamed("own_variant", "ran").withColumnRenamed(
        "recording", "predicted_from"
    )
    itself = F.col("predicted_from") == F.col("recorded_in")
    return (
        pairs.join(own.withColumnRenamed("recording", "recorded_in"), "recorded_in")
        .join(ran, "predicted_from")
        .where(itself | (F.col("ran") != F.col("own_variant")))
        .drop("ran")
    )


def _own_variants(outcomes: DataFrame) -> DataFrame:
    """recording, own_variant: sessions where some recorded FETCH of a session is not full."""
    recorded = outcomes.where(F.col("variant") == RECORDED)
    return recorded.groupBy("recording").agg(
        F.when(F.max(~F.col("is_full")), INCREMENTAL).otherwise(FULL).alias("own_variant")
    )


def _measures(outcomes: DataFrame, phases: Phases) -> DataFrame:
    """One row per recording, variant, kind of client and measure; unknown outcomes have none."""
    fetches = steady(
        outcomes.where(F.col("verdict") != Verdict.NOT_APPLICABLE.value), phases
    ).withColumn("client", F.col("client_kind"))
    same_set = fetches.where("added_partitions = 0 AND coalesce(forgotten_partitions, 0) = 0")
    parts = [
        *(_partitions(fetches, name, "") for name in _COUNTED),
        *(_partitions(same_set, name, SAME_SET) for name in _COUNTED),
        _bytes(fetches),
    ]
    return reduce(DataFrame.unionByName, parts)


def _partitions(fetches: DataFrame, counted: str, of: str) -> DataFrame:
    group = (*WHAT_IF, "client")
    known = F.when(F.col("verdict") == Verdict.REPLAYED.value, F.col(counted))
    spread = distributions(fetches.withColumn("value", known), group, "value")
    figures = F.array(
        _figure(f"{of}{counted}_mean", F.col("total") / F.col("count")),
        _figure(f"{of}{counted}_p50", F.col("p50")),
        _figure(f"{of}{counted}_p90", F.col("p90")),
    )
    return spread.withColumn("figure", F.explode(figures)).select(
        *WHAT_IF,
        *measure(F.col("figure.metric"), "client_kind", F.col("client"), "partitions"),
        F.col("figure.value").alias("value"),
        F.lit(None).cast("double").alias("baseline"),
        F.col("count").alias("sample_count"),
        "unknown_count",
    )


def _figure(metric: str, value: Column) -> Column:
    return F.struct(F.lit(metric).alias("metric"), value.cast("double").alias("value"))


def _bytes(fetches: DataFrame) -> DataFrame:
    known = F.col("verdict") == Verdict.REPLAYED.value
    per_fetch = F.col("request_bytes") + F.coalesce("response_bytes", F.lit(0))
    return (
        fetches.groupBy(*WHAT_IF, "client")
        .agg(
            (F.sum(F.when(known, per_fetch)) / F.sum(known.cast("bigint"))).alias("value"),
            F.sum(known.cast("bigint")).alias("sample_count"),
            F.sum((~known).cast("bigint")).alias("unknown_count"),
        )
        .select(
            *WHAT_IF,
            *measure("fetch_bytes", "client_kind", F.col("client"), "bytes"),
            "value",
            F.lit(None).cast("double").alias("baseline"),
            "sample_count",
            "unknown_count",
        )
    )


def _as_recorded(outcomes: DataFrame) -> DataFrame:
    """Share of the recorded incremental FETCHes that come out the same, lists and bytes."""
    compared = outcomes.where(
        (F.col("variant") == INCREMENTAL)
        & (F.col("equals_recorded").isNotNull() | (F.col("verdict") == Verdict.UNKNOWN.value))
    )
    equal = F.coalesce("equals_recorded", F.lit(False)).cast("bigint")
    unknown = (F.col("verdict") == Verdict.UNKNOWN.value).cast("bigint")
    return (
        compared.groupBy(*WHAT_IF)
        .agg(
            (F.sum(equal) / F.count("*")).alias("value"),
            F.count("*").alias("sample_count"),
            F.sum(unknown).alias("unknown_count"),
        )
        .select(
            *WHAT_IF,
            *measure("fetches_as_recorded", "all", F.lit("all"), "share"),
            "value",
            "sample_count",
            "unknown_count",
        )
    )
