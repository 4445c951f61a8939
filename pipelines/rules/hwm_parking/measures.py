"""hwm_parking: how late replicas learn, what FETCHes cost, and how near that is to brokers."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.accuracy import Tolerance, held_against, measure, side_by_side
from kip_replay.pipelines.analysis.phases import Phases, is_steady, steady_span_s
from kip_replay.pipelines.analysis.summaries import (
    WHAT_IF,
    bandwidth_summary,
    measured,
    replica_kind,
    steady,
)
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.phases import STEADY
from kip_replay.replay.rules import EMPTY_WAKE, WITH_KIP, WITHOUT_KIP, Completion
from kip_replay.replay.schema import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG

_ALL_FETCHES = ("predicted_from", "recorded_in", *WHAT_IF[1:], "metric", "group_kind")

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

#: Naive guesses of the lag: parked for a random part of 500 ms without the KIP, none with it.
_NAIVE_LAG = {
    WITHOUT_KIP: {"p50": 250.0, "p90": 450.0, "p99": 495.0},
    WITH_KIP: {"p50": 0.0, "p90": 0.0, "p99": 0.0},
}


def predictions(read: Read, summary: DataFrame, phases: Phases, pairs: DataFrame) -> DataFrame:
    """Lag, FETCHes per second, replica and completion; and the shares of answers explained.

    Predicted under the rule that the brokers of ``recorded_in`` ran.
    """
    outcomes, lags = read(FETCH_PARKING_OUTCOMES), read(HIGH_WATERMARK_LAG)
    own = _own_variants(outcomes)
    wanted = F.broadcast(
        pairs.join(own.withColumnRenamed("recording", "recorded_in"), "recorded_in")
    )
    both = side_by_side(_measures(outcomes, lags, summary, phases), wanted)
    # One FETCH more of a rare completion is no large error: it is held against all FETCHes.
    of_all = F.sum("recorded").over(Window.partitionBy(*_ALL_FETCHES))
    scaled = both.withColumn("scale", F.when(F.col("group_kind") == "completion", of_all))
    return _with_demands(scaled, own).unionByName(
        held_against(_answers_explained(outcomes), wanted, 1.0)
    )


def _with_demands(rows: DataFrame, own: DataFrame) -> DataFrame:
    """Which rows are judged: those of brokers (voters are shown beside them), and no pair of
    recordings of one protocol: that shows how much two runs differ, and predicts nothing."""
    ran = own.select(F.col("recording").alias("predicted_from"), F.col("own_variant").alias("ran"))
    crossed = F.col("predicted_from") != F.col("recorded_in")
    predicts = ~crossed | (F.col("ran") != F.col("variant"))
    return (
        rows.join(F.broadcast(ran), "predicted_from", "left")
        .withColumn("is_judged", (F.col("group_value") != "voter") & predicts)
        .drop("ran")
    )


def _own_variants(outcomes: DataFrame) -> DataFrame:
    """recording, own_variant: the rule its brokers ran, told by whether FETCHes say a HWM."""
    recorded = outcomes.where(F.col("variant") == RECORDED)
    says = F.max(F.col("replica_high_watermark").isNotNull())
    return recorded.groupBy("recording").agg(
        F.when(says, WITH_KIP).otherwise(WITHOUT_KIP).alias("own_variant")
    )


def _measures(
    outcomes: DataFrame, lags: DataFrame, summary: DataFrame, phases: Phases
) -> DataFrame:
    """One row per recording, variant and measure: what is predicted or recorded, and a baseline.

    Columns: WHAT_IF, metric, group_kind, group_value, unit, value, baseline, sample_count,
    unknown_count. No sweeps: they are compared with nothing.
    """
    plain = F.col("parameter") == "none"
    fetches = steady(outcomes.where(plain & (F.col("verdict") == Verdict.REPLAYED.value)), phases)
    advances = _advances(lags.where(plain))
    return (
        _lag_measures(summary.where(plain))
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


def _lag_measures(summary: DataFrame) -> DataFrame:
    lag = summary.where(
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
        *measure(F.col("percentile.name"), "replica_kind", F.col("group_value"), "ms"),
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


def _answers_explained(outcomes: DataFrame) -> DataFrame:
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


def latencies(read: Read, phases: Phases) -> DataFrame:
    """Values of hwm_parking's two metrics in the steady phase, for ``latency_summary``.

    ``high_watermark_lag``: per advance and replica that was not away. ``fetch_parked``: per FETCH
    that was parked.
    """
    applicable = F.col("verdict") != Verdict.NOT_APPLICABLE.value
    lag = measured(
        read(HIGH_WATERMARK_LAG).where(applicable & (F.col("phase") == STEADY)),
        "high_watermark_lag",
        "lag_ms",
        {"replica_kind": replica_kind(), "replica_id": F.col("replica_id")},
    )
    parked = measured(
        steady(
            read(FETCH_PARKING_OUTCOMES).where(applicable & (F.col("decision") == "parked")), phases
        ),
        "fetch_parked",
        "parked_ms",
        {"replica_kind": replica_kind(), "completion": F.col("completion")},
    )
    return lag.unionByName(parked)


def bandwidth(read: Read, phases: Phases) -> DataFrame:
    """Rows of bandwidth_summary for FETCHes of the metadata log in the steady phase."""
    outcomes = read(FETCH_PARKING_OUTCOMES)
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
            F.lit(1).alias("partitions"),
            steady_span_s().alias("span_s"),
        )
    )
    return bandwidth_summary(both)
