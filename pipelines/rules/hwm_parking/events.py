"""hwm_parking over Spark: recorded FETCHes of the metadata log, replayed per controller."""

from __future__ import annotations

from kip_replay.pipelines.analysis.phases import phase_of, steady_phases
from kip_replay.pipelines.analysis.summaries import Read
from kip_replay.pipelines.replaying.dependencies import content, row_count
from kip_replay.pipelines.replaying.seam import WHOLE_LOG, Piece, replayed_by, rows_of
from kip_replay.replay.hwm_parking.metadata_log import INPUT_SCHEMA, NO_ANSWER, NOT_SENT
from kip_replay.replay.rules import HWM_PARKING, Settings
from kip_replay.replay.schema import (
    BROKER_HEARTBEATS,
    FETCH_PARKING_OUTCOMES,
    FETCHES,
    HIGH_WATERMARK_LAG,
    REQUESTS,
    Table,
)
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def metadata_fetches(fetches: DataFrame) -> DataFrame:
    """FETCHes of the metadata log in the form the rule reads: recording, node_id, INPUT_SCHEMA.

    What a version does not have is -1, as in Kafka's own defaults.
    """
    asked = F.col("request_partitions")[0]
    told = F.col("response_partitions")[0]
    columns: dict[str, Column] = {
        "request_id": F.col("request_id"),
        "replica_id": F.col("replica_id"),
        "leader_epoch": asked["current_leader_epoch"],
        "correlation_id": F.col("correlation_id"),
        "api_version": F.col("api_version"),
        "received_us": F.unix_micros("received_at"),
        "dequeued_us": F.unix_micros("dequeued_at"),
        "built_us": F.unix_micros("built_at"),
        "completed_us": F.unix_micros("completed_at"),
        "max_wait_us": F.col("max_wait_ms") * F.lit(1000),
        "fetch_offset": asked["fetch_offset"],
        "last_fetched_epoch": asked["last_fetched_epoch"],
        "high_watermark": F.coalesce(asked["high_watermark"], F.lit(NOT_SENT)),
        "error_code": F.when(F.col("error_code").isNull(), F.lit(NO_ANSWER))
        .when(F.col("error_code") != 0, F.col("error_code"))
        .otherwise(F.coalesce(told["error_code"], F.lit(0))),
        "response_high_watermark": told["high_watermark"],
        "record_bytes": F.coalesce(told["record_bytes"], F.lit(0)),
        "is_diverging": F.coalesce(told["diverging_epoch"], F.lit(-1)) >= 0,
        "is_snapshot": F.coalesce(told["snapshot_end_offset"], F.lit(-1)) >= 0,
        "request_bytes": F.col("request_bytes"),
        "response_bytes": F.col("response_bytes"),
    }
    return fetches.where("is_cluster_metadata AND size(request_partitions) > 0").select(
        "recording", "node_id", *(_as_read(name, columns[name]) for name in INPUT_SCHEMA.names)
    )


def _as_read(name: str, column: Column) -> Column:
    """A column in the type of the rule's input; only sizes may be null there."""
    if INPUT_SCHEMA.field(name).type != "int64":
        return column.alias(name)
    number = column.cast("bigint")
    if name.endswith("_bytes") and name != "record_bytes":
        return number.alias(name)
    return F.coalesce(number, F.lit(-1)).alias(name)


def replayed_hwm_parking(read: Read, settings: Settings, piece: Piece = WHOLE_LOG) -> DataFrame:
    """Outcomes and lags of every controller's log, as rows of one struct each (``rows_of``)."""
    fetches = metadata_fetches(piece.recent(read)(FETCHES))
    return fetches.transform(replayed_by(HWM_PARKING, settings, piece))


def outcome_rows(replayed: DataFrame, phases: DataFrame) -> dict[Table, DataFrame]:
    """Rows of fetch_parking_outcomes and high_watermark_lag, each lag with its phase."""
    lags = rows_of(replayed, HIGH_WATERMARK_LAG.name).join(F.broadcast(phases), "recording")
    return {
        FETCH_PARKING_OUTCOMES: rows_of(replayed, FETCH_PARKING_OUTCOMES.name),
        HIGH_WATERMARK_LAG: lags.withColumn("phase", phase_of("leader_at")).drop(
            "steady_from", "steady_until"
        ),
    }


def facts(read: Read, until_us: int) -> list[DataFrame]:
    """What rows up to a time follow from (``replaying.dependencies``), for one recording."""
    later = F.timestamp_micros(F.lit(until_us + 1))
    phases = steady_phases(read(REQUESTS), read(BROKER_HEARTBEATS))
    bounds = [F.least(F.col(name), later).alias(name) for name in ("steady_from", "steady_until")]
    return [
        row_count("fetches", read(FETCHES).where("is_cluster_metadata"), "built_at", until_us),
        content("phases", phases.select(*bounds)),
    ]
