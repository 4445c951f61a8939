"""What clients of a recorded cluster saw, where a recording has it: the truth beside its logs.

A recording's folder may hold ``client_ops.jsonl``: one operation a line, with the seconds since the
epoch at which a client asked for it, was answered, and at which clients of each broker first saw
it (``visible``, by broker id). It is held against predictions and never read by a replay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.request_log import Anonymous, Pseudonyms
from kip_replay.replay.schema import CLIENT_OBSERVATIONS
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

CLIENT_OPS = "client_ops.jsonl"
_SCHEMA = (
    "op string, topic string, requested_at double, responded_at double, visible map<string, double>"
)


def ingest_client_observations(
    spark: SparkSession,
    recordings: Sequence[Recording],
    warehouse: Warehouse,
    pseudonyms: Pseudonyms | None = None,
) -> None:
    """Writes client_observations of the recordings that have them; again only if they changed.

    To be called after ``ingest``, which sees to it that ``pseudonyms`` are the warehouse's.
    """
    warehouse.create_missing_tables([CLIENT_OBSERVATIONS])
    for recording in recordings:
        file = recording.path / CLIENT_OPS if recording.path else None
        if file is None or not file.is_file():
            continue
        digest = pseudonyms.content_digest() if pseudonyms else hashlib.blake2b(digest_size=16)
        digest.update(file.read_bytes())
        mark = digest.hexdigest()
        scope = {"recording": recording.name}
        if not warehouse.is_current(CLIENT_OBSERVATIONS, scope, mark):
            rows = _observations(spark, file, recording.name)
            rows = _anonymous(rows, pseudonyms) if pseudonyms else rows
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


def _anonymous(rows: DataFrame, pseudonyms: Pseudonyms) -> DataFrame:
    """The same rows without names of topics."""

    def hidden(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        anonymous = Anonymous(pseudonyms)
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name in ("operation", "topic"):
                columns[name] = anonymous.texts(columns[name], name)
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)

    return rows.mapInArrow(hidden, rows.schema)


def _at(seconds: str) -> Column:
    return F.timestamp_micros(F.round(F.col(seconds) * 1_000_000).cast("bigint"))
