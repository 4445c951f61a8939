"""What clients of a recorded cluster saw, where a recording has it: the truth beside its logs.

A recording's folder may hold ``client_ops.jsonl``: one operation a line, with the seconds since the
epoch at which a client asked for it, was answered, and at which clients of each broker first saw
it (``visible``, by broker id). It is held against predictions and never read by a replay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.recording import Recording
from pipelines.warehouse import Warehouse
from replay.schema import CLIENT_OBSERVATIONS

CLIENT_OPS = "client_ops.jsonl"
_SCHEMA = (
    "op string, topic string, requested_at double, responded_at double, visible map<string, double>"
)


def ingest_client_observations(
    spark: SparkSession, recordings: Sequence[Recording], warehouse: Warehouse
) -> None:
    """Writes client_observations of the recordings that have them; again only if they changed."""
    warehouse.create_missing_tables([CLIENT_OBSERVATIONS])
    for recording in recordings:
        file = recording.path / CLIENT_OPS if recording.path else None
        if file is None or not file.is_file():
            continue
        mark = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
        scope = {"recording": recording.name}
        if not warehouse.is_current(CLIENT_OBSERVATIONS, scope, mark):
            rows = _observations(spark, file, recording.name)
            warehouse.replace(CLIENT_OBSERVATIONS, rows, scope, mark)


def _observations(spark: SparkSession, file: Path, recording: str) -> DataFrame:
    """Rows of client_observations: one per operation and broker at which it was seen."""
    operations = spark.read.schema(_SCHEMA).json(str(file.absolute()))
    return (
        operations.where("topic IS NOT NULL AND requested_at IS NOT NULL")
        .select("*", F.explode("visible").alias("broker", "seen"))
        .select(
            F.lit(recording).alias("recording"),
            F.col("op").alias("operation"),
            "topic",
            F.col("broker").cast("int").alias("broker_id"),
            *(_at(name).alias(name) for name in ("requested_at", "responded_at")),
            _at("seen").alias("visible_at"),
        )
        .dropDuplicates(["operation", "topic", "broker_id", "requested_at"])
    )


def _at(seconds: str) -> Column:
    return F.timestamp_micros(F.round(F.col(seconds) * 1_000_000).cast("bigint"))
