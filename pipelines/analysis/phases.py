"""The phases of a recording: starting, steady, stopping.

Steady is from the last broker's first unfencing to the first wantShutDown, both read from the
heartbeats that controllers answered. A log that begins or ends in the middle of normal work has
no such moment: then the log's own begin or end bounds the phase.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

STARTING, STEADY, STOPPING = "starting", "steady", "stopping"


def steady_phases(requests: DataFrame, broker_heartbeats: DataFrame) -> DataFrame:
    """One row per recording: recording, steady_from, steady_until (timestamps, until exclusive)."""
    answered = F.col("error_code") == 0
    span = _spans(requests, broker_heartbeats.where(answered))
    brokers = broker_heartbeats.groupBy("recording", "broker_id").agg(
        F.min(F.when(answered & ~F.col("is_fenced"), F.col("built_at"))).alias("unfenced_at"),
        F.min(F.when(F.col("want_shut_down"), F.col("received_at"))).alias("shut_down_at"),
    )
    bounds = brokers.groupBy("recording").agg(
        F.max("unfenced_at").alias("unfenced_at"), F.min("shut_down_at").alias("shut_down_at")
    )
    return span.join(bounds, "recording", "left").select(
        "recording",
        F.coalesce("unfenced_at", "first_at").alias("steady_from"),
        F.coalesce("shut_down_at", F.expr("last_at + INTERVAL 1 MICROSECOND")).alias(
            "steady_until"
        ),
    )


def _spans(requests: DataFrame, answered_heartbeats: DataFrame) -> DataFrame:
    """recording, first_at, last_at: what the logs cover of the time that a controller was active.

    Logs of other nodes may reach further; where no controller answered heartbeats, all count.
    """
    active = answered_heartbeats.select("recording", "node_id", F.lit(True).alias("active"))
    nodes = (
        requests.groupBy("recording", "node_id")
        .agg(F.min("received_at").alias("first_at"), F.max("completed_at").alias("last_at"))
        .join(active.distinct(), ["recording", "node_id"], "left")
    )
    return nodes.groupBy("recording").agg(
        F.coalesce(F.min(F.when(F.col("active"), F.col("first_at"))), F.min("first_at")).alias(
            "first_at"
        ),
        F.coalesce(F.max(F.when(F.col("active"), F.col("last_at"))), F.max("last_at")).alias(
            "last_at"
        ),
    )


def phase_of(at: str) -> Column:
    """The phase of a time, in rows that were joined with ``steady_phases``."""
    return (
        F.when(F.col(at) < F.col("steady_from"), STARTING)
        .when(F.col(at) >= F.col("steady_until"), STOPPING)
        .otherwise(STEADY)
    )


def is_steady(at: str) -> Column:
    """The time lies in the steady phase."""
    return (F.col(at) >= F.col("steady_from")) & (F.col(at) < F.col("steady_until"))


def steady_span_s() -> Column:
    """Length of the steady phase in seconds, from integer microseconds."""
    micros = F.unix_micros("steady_until") - F.unix_micros("steady_from")
    return micros / F.lit(1e6)
