"""incremental_fetch: partitions and bytes on the wire."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import (
    Phases,
    is_steady,
    steady_block,
    steady_span_s,
)
from kip_replay.pipelines.analysis.summaries import WHAT_IF, bandwidth_summary, steady
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.outcomes import Verdict


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
            steady_block("dequeued_at"),
        )
    )
