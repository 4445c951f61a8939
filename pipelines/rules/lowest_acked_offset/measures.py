"""lowest_acked_offset: how stale reads are, what the draft costs, and what clients really saw."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.accuracy import Tolerance, held_against, measure, side_by_side
from kip_replay.pipelines.analysis.phases import Phases, is_steady, with_phases
from kip_replay.pipelines.analysis.summaries import WHAT_IF, distributions, measured
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.rules import HEARTBEAT_INTERVAL, LOWEST_ACKED, LOWEST_ACKED_OFFSET
from kip_replay.replay.schema import (
    BROKER_HEARTBEATS,
    CLIENT_OBSERVATIONS,
    METADATA_WRITE_OUTCOMES,
    METADATA_WRITE_VISIBILITY,
    METADATA_WRITES,
    REQUESTS,
    TOPICS,
)

#: METADATA of a broker whose image has no such topic (Errors.UNKNOWN_TOPIC_OR_PARTITION).
UNKNOWN_TOPIC = 3

#: Clients ask each broker again this long after its answer, so they may see a topic so late.
POLL_MS = 30
#: How long an answer may have taken, but for a broker that stands still ...
ANSWER_MS = 70
#: ... whose clients give up after two seconds and ask again.
FROZEN_POLL_MS = 2_000
#: A broker whose heartbeats are this far apart stood still in between.
STANDSTILL_US = 4_000_000
#: How near a sweep's interval must be to the recorded one to be held against it.
_SAME_INTERVAL = 0.05

#: What the project demands of itself. Metrics without an entry are shown and not judged.
TOLERANCES = (
    Tolerance("claims_not_before_clients_saw_it", LOWEST_ACKED, True, 0.0, None),
    Tolerance("claims_no_broker_denied", LOWEST_ACKED, True, 0.0, None),
    *(
        Tolerance(f"simulated_read_after_write_{p}", LOWEST_ACKED, True, None, 0.10)
        for p in ("p50", "p90")
    ),
)
_PERCENTILES = ("p50", "p90")
#: A prediction that is there and unknown is a miss, and stays.
_BOTH_SIDES = "sample_count + unknown_count > 0 AND recorded IS NOT NULL"


def latencies(read: Read, phases: Phases) -> DataFrame:
    """Values for latency_summary: writes that arrived in the steady phase.

    ``stale_window``: from the controller's answer until every broker had applied it (today).
    ``read_after_write``: from the request until the broker that forwarded it knows that.
    """
    writes = _steady_writes(read, phases)
    groups = {"api_name": F.col("api_name")}
    return measured(writes, "stale_window", "stale_window_ms", groups).unionByName(
        measured(writes, "read_after_write", "read_after_write_ms", groups)
    )


def _steady_writes(read: Read, phases: Phases) -> DataFrame:
    applicable = F.col("verdict") != Verdict.NOT_APPLICABLE.value
    outcomes = read(METADATA_WRITE_OUTCOMES).where(applicable)
    return outcomes.transform(with_phases, phases).where(is_steady("received_at"))


def predictions(read: Read, summary: DataFrame, phases: Phases, pairs: DataFrame) -> DataFrame:
    """Claims against what clients saw, and simulated heartbeats against recorded ones.

    The draft is in no release, so nothing here is predicted of another recording.
    """
    itself = pairs.where(F.col("predicted_from") == F.col("recorded_in"))
    wanted = F.broadcast(itself.withColumn("own_variant", F.lit(LOWEST_ACKED)))
    claims = _claims(read)
    return reduce(
        DataFrame.unionByName,
        [
            held_against(_claims_not_denied(read, claims), wanted, 1.0),
            held_against(_claims_in_time(read, claims), wanted, 1.0),
            # Few recordings have what clients saw, or were made at an interval of the sweep.
            side_by_side(_stale_windows(read, summary, phases), wanted).where(_BOTH_SIDES),
            side_by_side(_simulated(read, summary), wanted).where(_BOTH_SIDES),
        ],
    )


# --- claims against what brokers answered and clients saw -----------------------------------------


def _claims(read: Read) -> DataFrame:
    """Each claim that a broker had applied a topic's creation, and when that was asked for."""
    created = (
        read(METADATA_WRITES)
        .where((F.col("api_name") == "CREATE_TOPICS") & (F.col("error_code") == 0))
        .select(
            "recording",
            "request_id",
            F.col("received_at").alias("created_at"),
            F.inline("resources"),
        )
        .where("resource_type = 'topic' AND error_code = 0")
        .select("recording", "request_id", "created_at", F.col("name").alias("topic"))
    )
    claims = read(METADATA_WRITE_VISIBILITY).where(
        (F.col("variant") == LOWEST_ACKED)
        & (F.col("parameter") == "none")
        & (F.col("verdict") == Verdict.REPLAYED.value)
        & F.col("applied_at_latest").isNotNull()
    )
    return claims.join(created, ["recording", "request_id"])


def _claims_not_denied(read: Read, claims: DataFrame) -> DataFrame:
    """Share of claims after which the broker never answered METADATA that it knows no such topic.

    Of the claims about topics of which it ever said so, until the topic was deleted: no other
    could be denied.
    """
    taken_up = read(REQUESTS).where("api_name = 'METADATA'")
    denials = (
        read(TOPICS)
        .where((F.col("source") == "METADATA") & (F.col("error_code") == UNKNOWN_TOPIC))
        .join(
            taken_up.select("recording", "request_id", "dequeued_at"), ["recording", "request_id"]
        )
        .select("recording", "topic", F.col("node_id").alias("broker_id"), "dequeued_at")
    )
    # A topic may be deleted before it is created, and created again: its next deletion counts.
    deleted_at = F.array_min(F.filter("deletions", lambda at: at > F.col("created_at")))
    decided = (
        claims.join(_deletions(read), ["recording", "topic"], "left")
        .withColumn("deleted_at", deleted_at)
        .join(denials, ["recording", "topic", "broker_id"])
        .where("deleted_at IS NULL OR dequeued_at < deleted_at")
        .groupBy(*METADATA_WRITE_VISIBILITY.key, "topic", "applied_at_latest")
        .agg(F.max("dequeued_at").alias("denied_at"))
    )
    return _share(
        decided, "claims_no_broker_denied", F.col("applied_at_latest") >= F.col("denied_at")
    )


def _deletions(read: Read) -> DataFrame:
    """recording, topic, deletions: when its deletion was asked for."""
    return (
        read(METADATA_WRITES)
        .where("api_name = 'DELETE_TOPICS'")
        .select("recording", "received_at", F.inline("resources"))
        .groupBy("recording", F.col("name").alias("topic"))
        .agg(F.collect_set("received_at").alias("deletions"))
    )


def _share(decided: DataFrame, metric: str, holds: Column) -> DataFrame:
    """The share of claims for which it holds, by kind of evidence."""
    counted = decided.groupBy(*WHAT_IF, "evidence").agg(
        (F.sum(holds.cast("bigint")) / F.count("*")).alias("value"),
        F.count("*").alias("sample_count"),
    )
    return counted.select(
        *WHAT_IF,
        *measure(metric, "evidence", F.col("evidence"), "share"),
        "value",
        "sample_count",
        F.lit(0).cast("bigint").alias("unknown_count"),
    )


def _standstills(read: Read) -> DataFrame:
    """recording, broker_id, standstills: array of (since, until), where it has any."""
    of_broker = Window.partitionBy("recording", "broker_id").orderBy("received_at", "request_id")
    gaps = read(BROKER_HEARTBEATS).select(
        "recording",
        "broker_id",
        F.lag("received_at").over(of_broker).alias("since"),
        F.col("received_at").alias("until"),
    )
    long = F.unix_micros("until") - F.unix_micros("since") > STANDSTILL_US
    return (
        gaps.where(long)
        .groupBy("recording", "broker_id")
        .agg(F.collect_list(F.struct("since", "until")).alias("standstills"))
    )


def _claims_in_time(read: Read, claims: DataFrame) -> DataFrame:
    """Share of claims that are not earlier than one poll before a client saw it.

    A client names a broker for its poll, and its library may ask another one: so this is a rougher
    truth than what brokers answered.
    """
    beside = _seen(read, claims).join(_standstills(read), ["recording", "broker_id"], "left")
    stood_still = F.exists(
        "standstills",
        lambda still: F.col("visible_at").between(
            still["since"], still["until"] + F.expr("INTERVAL 3 SECONDS")
        ),
    )
    late_ms = F.when(stood_still, FROZEN_POLL_MS).otherwise(0)
    earliest_us = F.unix_micros("visible_at") - (late_ms + F.lit(POLL_MS + ANSWER_MS)) * 1000
    in_time = F.unix_micros("applied_at_latest") >= earliest_us
    return _share(beside, "claims_not_before_clients_saw_it", in_time)


def _seen(read: Read, claims: DataFrame) -> DataFrame:
    """Claims beside what a client of that broker saw of the same creation.

    A topic may be created more than once: the client's request next to the write is the one.
    """
    saw = read(CLIENT_OBSERVATIONS).where("operation = 'create'")
    apart = F.abs(F.unix_micros("requested_at") - F.unix_micros("created_at"))
    of_claim = Window.partitionBy(*METADATA_WRITE_VISIBILITY.key, "topic")
    return (
        claims.join(saw, ["recording", "topic", "broker_id"])
        .withColumn("nearness", F.row_number().over(of_claim.orderBy(apart, "requested_at")))
        .where("nearness = 1")
    )


def _stale_windows(read: Read, summary: DataFrame, phases: Phases) -> DataFrame:
    """The stale window of CREATE_TOPICS by the evidence, beside what clients saw of it.

    By heartbeats it is what can be known, and far above what is: so it is shown and not judged.
    """
    stale = summary.where(
        (F.col("metric") == "stale_window")
        & (F.col("group_value") == "CREATE_TOPICS")
        & (F.col("parameter") == "none")
    )
    predicted = _figures(stale, "create_topics_stale_window")
    # Not known where a client of some broker never saw it.
    last_seen = F.when(F.count("visible_at") == F.count("*"), F.max("visible_at"))
    saw = (
        read(CLIENT_OBSERVATIONS)
        .where("operation = 'create'")
        .groupBy("recording", "topic", "requested_at", "responded_at")
        .agg((F.unix_micros(last_seen) - F.unix_micros(F.col("responded_at"))).alias("us"))
        .transform(with_phases, phases)
        .where(is_steady("requested_at"))
    )
    spread = distributions(saw, ("recording",), "us")
    as_summary = spread.select(
        "recording",
        F.lit(LOWEST_ACKED_OFFSET.name).alias("rule"),
        F.lit(RECORDED).alias("variant"),
        F.lit("none").alias("parameter"),
        F.lit("none").alias("parameter_value"),
        *((F.col(p) / F.lit(1000.0)).alias(f"{p}_ms") for p in _PERCENTILES),
        "count",
        "unknown_count",
    )
    return predicted.unionByName(_figures(as_summary, "create_topics_stale_window"))


def _figures(summary: DataFrame, metric: str) -> DataFrame:
    """p50 and p90 of rows of latency_summary as measures."""
    figures = F.array(
        *(
            F.struct(F.lit(f"{metric}_{p}").alias("metric"), F.col(f"{p}_ms").alias("value"))
            for p in _PERCENTILES
        )
    )
    return summary.withColumn("figure", F.explode(figures)).select(
        *WHAT_IF,
        *measure(F.col("figure.metric"), "all", F.lit("all"), "ms"),
        F.col("figure.value").alias("value"),
        F.lit(None).cast("double").alias("baseline"),
        F.col("count").alias("sample_count"),
        "unknown_count",
    )


# --- simulated heartbeats against recorded ones --------------------------------------------------


def _simulated(read: Read, summary: DataFrame) -> DataFrame:
    """read_after_write simulated at the recorded heartbeat interval, beside the recorded beats.

    Of several intervals that are near enough, the nearest.
    """
    chosen = summary.where(
        (F.col("metric") == "read_after_write")
        & (F.col("group_kind") == "all")
        & (F.col("variant") == LOWEST_ACKED)
    )
    plain = chosen.where(F.col("parameter") == "none").withColumn("variant", F.lit(RECORDED))
    interval = F.col("parameter_value").cast("double")
    apart = F.abs(interval / F.col("interval_ms") - 1)
    nearest = Window.partitionBy("recording").orderBy(apart, interval)
    swept = (
        chosen.where(F.col("parameter") == HEARTBEAT_INTERVAL)
        .join(_recorded_interval(read), "recording")
        .where(apart <= _SAME_INTERVAL)
        .withColumn("nearness", F.row_number().over(nearest))
        .where("nearness = 1")
        .drop("interval_ms", "nearness")
    )
    as_plain = swept.withColumn("parameter", F.lit("none")).withColumn(
        "parameter_value", F.lit("none")
    )
    return _figures(plain.unionByName(as_plain), "simulated_read_after_write")


def _recorded_interval(read: Read) -> DataFrame:
    """recording, interval_ms: median time from an answered heartbeat to the broker's next."""
    of_broker = Window.partitionBy("recording", "broker_id").orderBy("received_at", "request_id")
    gap: Column = F.unix_micros("received_at") - F.unix_micros(F.lag("built_at").over(of_broker))
    gaps = read(BROKER_HEARTBEATS).select("recording", gap.alias("gap_us"))
    spread = distributions(gaps.where("gap_us IS NOT NULL"), ("recording",), "gap_us")
    return spread.select("recording", (F.col("p50") / F.lit(1000.0)).alias("interval_ms"))
