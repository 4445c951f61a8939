"""min_isr_acks: how long producers wait, and what that risks."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import Phases
from kip_replay.pipelines.analysis.summaries import WHAT_IF, measured
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.min_isr_acks.tables import PRODUCE_ACK_OUTCOMES, PRODUCE_CLOSED_LOOP_OUTCOMES
from kip_replay.replay.outcomes import RECORDED, Verdict

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
    has the last only. ``exposure``: from the early response until the whole ISR had the batch; a
    PRODUCE that is refused exposes nothing. ``closed_loop_latency`` per request, recorded and in
    the other cluster, where producers react; ``closed_loop_latency_sent_earliest`` and ``_latest``
    if all that the log leaves open were sent at one end of their intervals.
    """
    applicable = F.col("verdict") != Verdict.NOT_APPLICABLE.value
    produced = read(PRODUCE_ACK_OUTCOMES).where(applicable)
    waited = produced.where(F.col("acks") == -1)
    early = produced.where(
        (F.col("verdict") == Verdict.UNKNOWN.value) | (F.col("min_isr_error") == 0)
    )
    return reduce(
        DataFrame.unionByName,
        [
            measured(
                _by_variant(waited, _LATENCIES),
                "produce_latency",
                "value_ms",
                _groups(),
                at="received_at",
            ),
            measured(
                _by_variant(_requests(waited), _REQUEST_LATENCIES),
                "produce_request_latency",
                "value_ms",
                {"node_id": F.col("node_id")},
                at="received_at",
            ),
            measured(early, "exposure", "exposure_ms", _groups(), at="received_at"),
            _reacting(read(PRODUCE_CLOSED_LOOP_OUTCOMES)),
        ],
    )


def _reacting(outcomes: DataFrame) -> DataFrame:
    """Values of the closed loop; what was recorded once, of the rows of one variant."""
    ms = ("latency_ms", "latency_sent_earliest_ms", "latency_sent_latest_ms")
    values = F.array(
        *(_reaction(F.col("variant"), name) for name in ms),
        F.when(
            (outcomes["variant"] == ACKS_MIN_INSYNC_REPLICAS)
            & F.col("request_recorded_latency_ms").isNotNull(),
            _reaction(F.lit(RECORDED), "request_recorded_latency_ms"),
        ),
    )
    groups = {
        "node_id": F.col("node_id"),
        "arrival": F.when(F.col("is_own"), "own").otherwise("held_back"),
    }
    rows = outcomes.withColumn("of", F.explode(F.array_compact(values)))
    return measured(
        rows.withColumns({"variant": F.col("of.variant"), "value_ms": F.col("of.ms")}),
        F.col("of.metric"),
        "value_ms",
        groups,
        at="recorded_received_at",
    )


def _reaction(variant: Column, value_ms: str) -> Column:
    metric = "closed_loop_" + value_ms.removeprefix("request_recorded_").removesuffix("_ms")
    return F.struct(
        variant.alias("variant"), F.lit(metric).alias("metric"), F.col(value_ms).alias("ms")
    )


def _requests(waited: DataFrame) -> DataFrame:
    """One row per request: its latencies, unknown as soon as one of its partitions is."""
    unknown = F.bool_or(F.col("verdict") == Verdict.UNKNOWN.value)
    return waited.groupBy(*WHAT_IF, "request_id", "node_id").agg(
        F.when(unknown, Verdict.UNKNOWN.value).otherwise(Verdict.REPLAYED.value).alias("verdict"),
        F.min("received_at").alias("received_at"),
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
