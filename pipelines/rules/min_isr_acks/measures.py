"""min_isr_acks: how long producers wait and what that risks, and how near that is to brokers."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.accuracy import Tolerance, held_against, measure, side_by_side
from kip_replay.pipelines.analysis.phases import Phases
from kip_replay.pipelines.analysis.summaries import WHAT_IF, grouped_by
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.rules import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.schema import PRODUCE_ACK_OUTCOMES

#: A replayed answer this near the recorded one counts as right.
NEAR_MS = 2.0

#: Percentiles of fewer answers than this say little.
FEW = 30

#: What the project demands of itself. Metrics without an entry are shown and not judged.
TOLERANCES = (
    Tolerance("answers_within_2_ms", ACKS_ALL, True, 0.02, None),
    Tolerance("answers_within_2_ms_of_bounds", ACKS_ALL, True, 0.02, None),
    Tolerance("answers_with_the_recorded_error", ACKS_ALL, True, 0.02, None),
    *(Tolerance(f"produce_latency_{p}", ACKS_ALL, True, 1.0, 0.10) for p in ("p50", "p90")),
    *(
        Tolerance(f"produce_latency_{p}", ACKS_MIN_INSYNC_REPLICAS, False, 1.0, 0.20)
        for p in ("p50", "p90")
    ),
)

#: Who waits how long: the variant, and the column of a partition's latency under it.
_LATENCIES = {
    RECORDED: "partition_recorded_latency_ms",
    ACKS_ALL: "partition_acks_all_latency_ms",
    ACKS_MIN_INSYNC_REPLICAS: "partition_min_isr_latency_ms",
}
_REQUEST_LATENCIES = {
    RECORDED: "request_recorded_latency_ms",
    ACKS_ALL: "request_acks_all_latency_ms",
    ACKS_MIN_INSYNC_REPLICAS: "request_min_isr_latency_ms",
}


def latencies(read: Read, _: Phases) -> DataFrame:
    """Values for latency_summary, over the whole recording: brokers come and go in it.

    ``produce_latency`` per partition and ``produce_request_latency`` per request of producers that
    waited for all replicas: recorded, with acks=all and with acks=min.insync.replicas; the sweep
    has the last only. ``exposure``: from the early answer until the whole ISR had the batch; a
    PRODUCE that is refused exposes nothing.
    """
    produced = _applicable(read(PRODUCE_ACK_OUTCOMES))
    waited = produced.where(F.col("acks") == -1)
    early = produced.where(
        (F.col("verdict") == Verdict.UNKNOWN.value) | (F.col("min_isr_error") == 0)
    )
    return reduce(
        DataFrame.unionByName,
        [
            _values(_by_variant(waited, _LATENCIES), "produce_latency", _groups()),
            _values(
                _by_variant(_requests(waited), _REQUEST_LATENCIES),
                "produce_request_latency",
                {"node_id": F.col("node_id")},
            ),
            _values(early.withColumn("value_ms", F.col("exposure_ms")), "exposure", _groups()),
        ],
    )


def _applicable(outcomes: DataFrame) -> DataFrame:
    return outcomes.where(F.col("verdict") != Verdict.NOT_APPLICABLE.value)


def _requests(waited: DataFrame) -> DataFrame:
    """One row per request: its latencies, unknown as soon as one of its partitions is."""
    unknown = F.bool_or(F.col("verdict") == Verdict.UNKNOWN.value)
    return waited.groupBy(*WHAT_IF, "request_id", "node_id").agg(
        F.when(unknown, Verdict.UNKNOWN.value).otherwise(Verdict.REPLAYED.value).alias("verdict"),
        *(F.max(name).alias(name) for name in _REQUEST_LATENCIES.values()),
    )


def _groups() -> dict[str, Column]:
    partition = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    return {"node_id": F.col("node_id"), "topic_partition": partition}


def _by_variant(rows: DataFrame, latency_of: dict[str, str]) -> DataFrame:
    """Each row once per variant, with its latency in ``value_ms``; sweeps with the last only."""
    known = F.col("verdict") == Verdict.REPLAYED.value
    values = F.array(
        *(
            F.struct(
                F.lit(variant).alias("variant"),
                (F.col(name) if variant == RECORDED else F.when(known, F.col(name))).alias("ms"),
            )
            for variant, name in latency_of.items()
        )
    )
    swept = (F.col("parameter") == "none") | (F.col("of.variant") == ACKS_MIN_INSYNC_REPLICAS)
    return (
        rows.withColumn("of", F.explode(values))
        .where(swept)
        .withColumn("variant", F.col("of.variant"))
        .withColumn("value_ms", F.col("of.ms"))
    )


def _values(rows: DataFrame, metric: str, groups: dict[str, Column]) -> DataFrame:
    return rows.withColumn("group", F.explode(grouped_by(groups))).select(
        *WHAT_IF,
        F.lit(metric).alias("metric"),
        "group.group_kind",
        "group.group_value",
        F.round(F.col("value_ms") * 1000).cast("bigint").alias("value_us"),
    )


def predictions(read: Read, summary: DataFrame, _: Phases, pairs: DataFrame) -> DataFrame:
    """Answers replayed as recorded; and what waiting for min.insync.replicas costs elsewhere.

    A self-check replays acks=all. Another recording can tell what acks=min.insync.replicas costs
    if its ISR is no larger than min.insync.replicas: there acks=all waits for just as many.
    """
    outcomes = read(PRODUCE_ACK_OUTCOMES).where(F.col("parameter") == "none")
    wanted = F.broadcast(_wanted(outcomes, pairs))
    latency = _latency_measures(summary.where(F.col("parameter") == "none"))
    rates = _rates(_applicable(outcomes))
    both = _with_demands(side_by_side(latency.unionByName(rates), wanted))
    shares = held_against(_answers_as_recorded(outcomes), wanted, 1.0)
    return both.unionByName(shares)


def _with_demands(rows: DataFrame) -> DataFrame:
    """Partitions with few PRODUCEs are left out; single ones are judged across recordings only.

    What nobody has to compute is that producers elsewhere wait as long as here.
    """
    of_partition = F.col("group_kind") == "topic_partition"
    crossed = F.col("predicted_from") != F.col("recorded_in")
    produces = F.col("sample_count") + F.col("unknown_count")
    enough = rows.where(~of_partition | (produces >= FEW))
    return enough.withColumn("is_judged", ~of_partition | crossed).withColumn(
        "baseline", F.when(crossed & (F.col("unit") == "ms"), F.col("unchanged"))
    )


def _wanted(outcomes: DataFrame, pairs: DataFrame) -> DataFrame:
    """predicted_from, recorded_in, own_variant; pairs that can't tell are left out.

    A self-check needs no ISR: where none is known, its answers are misses.
    """
    waited = outcomes.where((F.col("acks") == -1) & F.col("isr").isNotNull())
    small = F.avg((F.size("isr") <= F.col("min_insync_replicas")).cast("double"))
    told = waited.groupBy("recording").agg((small > 0.9).alias("waits_for_min_isr"))
    of_predicted = told.select(
        F.col("recording").alias("predicted_from"),
        (~F.col("waits_for_min_isr")).alias("has_more_replicas"),
    )
    of_recorded = told.withColumnRenamed("recording", "recorded_in")
    itself = F.col("predicted_from") == F.col("recorded_in")
    return (
        pairs.join(of_predicted, "predicted_from", "left")
        .join(of_recorded, "recorded_in", "left")
        .where(itself | (F.col("has_more_replicas") & F.col("waits_for_min_isr")))
        .select(
            "predicted_from",
            "recorded_in",
            F.when(itself, ACKS_ALL).otherwise(ACKS_MIN_INSYNC_REPLICAS).alias("own_variant"),
        )
    )


def _latency_measures(summary: DataFrame) -> DataFrame:
    chosen = summary.where(
        (F.col("metric") == "produce_latency")
        & F.col("group_kind").isin("all", "node_id", "topic_partition")
    )
    figures = F.array(
        *(
            F.struct(F.lit(f"produce_latency_{p}").alias("metric"), F.col(f"{p}_ms").alias("value"))
            for p in ("p50", "p90")
        )
    )
    return chosen.withColumn("figure", F.explode(figures)).select(
        *WHAT_IF,
        F.col("figure.metric").alias("metric"),
        "group_kind",
        "group_value",
        F.lit("ms").alias("unit"),
        F.col("figure.value").alias("value"),
        F.lit(None).cast("double").alias("baseline"),
        F.col("count").alias("sample_count"),
        "unknown_count",
    )


def _rates(produced: DataFrame) -> DataFrame:
    """PRODUCEs a second per leader, from first to last: the open loop's caveat.

    They are the recorded ones under every variant.
    """
    counted = produced.groupBy(*[n for n in WHAT_IF if n != "variant"], "node_id").agg(
        F.countDistinct("request_id").alias("requests"),
        (F.unix_micros(F.max("received_at")) - F.unix_micros(F.min("received_at"))).alias(
            "span_us"
        ),
    )
    variants = F.array(*(F.lit(name) for name in _LATENCIES))
    return counted.withColumn("variant", F.explode(variants)).select(
        *WHAT_IF,
        *measure("produces_per_second", "node_id", F.col("node_id"), "1/s"),
        F.try_divide(F.col("requests") * F.lit(1e6), F.col("span_us")).alias("value"),
        F.lit(None).cast("double").alias("baseline"),
        F.col("requests").alias("sample_count"),
        F.lit(0).cast("bigint").alias("unknown_count"),
    )


def _answers_as_recorded(outcomes: DataFrame) -> DataFrame:
    """Shares of the acks=all answers that come out at the recorded time, and with its error.

    The log says in which handler a follower's progress was noted and not when in it, so the time
    is an estimate between two bounds; how many recorded answers lie in them is told as well. Over
    the whole recording; what is unknown counts as a miss.
    """
    answered = outcomes.where(
        (F.col("acks") == -1)
        & F.col("recorded_error").isNotNull()
        & (F.col("verdict") != Verdict.NOT_APPLICABLE.value)
    )
    away = F.abs(F.col("request_acks_all_latency_ms") - F.col("request_recorded_latency_ms"))
    known = F.col("verdict") == Verdict.REPLAYED.value
    near = F.coalesce(known & (away <= NEAR_MS), F.lit(False)).cast("bigint")
    earliest, latest = (
        F.col(f"request_acks_all_latency_{bound}_ms") for bound in ("earliest", "latest")
    )
    recorded = F.col("request_recorded_latency_ms")
    between = known & (recorded >= earliest - NEAR_MS) & (recorded <= latest + NEAR_MS)
    same = F.coalesce(known & (F.col("acks_all_error") == F.col("recorded_error")), F.lit(False))
    counted = answered.groupBy(*WHAT_IF).agg(
        F.sum(near).alias("near"),
        F.sum(same.cast("bigint")).alias("same"),
        F.sum(F.coalesce(between, F.lit(False)).cast("bigint")).alias("between"),
        F.count("*").alias("sample_count"),
        F.sum((~known).cast("bigint")).alias("unknown_count"),
    )
    shares = F.array(
        F.struct(F.lit("answers_within_2_ms").alias("metric"), F.col("near").alias("n")),
        F.struct(
            F.lit("answers_within_2_ms_of_bounds").alias("metric"), F.col("between").alias("n")
        ),
        F.struct(
            F.lit("answers_with_the_recorded_error").alias("metric"), F.col("same").alias("n")
        ),
    )
    return counted.withColumn("share", F.explode(shares)).select(
        *WHAT_IF,
        F.col("share.metric").alias("metric"),
        F.lit("all").alias("group_kind"),
        F.lit("all").alias("group_value"),
        F.lit("share").alias("unit"),
        (F.col("share.n") / F.col("sample_count")).alias("value"),
        "sample_count",
        "unknown_count",
    )
