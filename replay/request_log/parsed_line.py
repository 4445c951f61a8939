"""What the parser makes of a line: one row with everything that the line says."""

from __future__ import annotations

import pyarrow as pa

from kip_replay.replay.log_tables import (
    BROKER_HEARTBEATS,
    CONFIGS,
    FETCHES,
    ISR_CHANGES,
    METADATA_OFFSETS,
    METADATA_WRITES,
    PRODUCER_IDS,
    PRODUCES,
    REJECTED_LINES,
    REQUESTS,
    TOPICS,
)
from kip_replay.replay.table import INT, LONG, TEXT, Table

#: Columns that every table of the log shares: once per line, not once per struct.
_SHARED = ("recording", "request_id", "line_id", "node_id", "source_file", "line_number")


def _struct(table: Table) -> pa.StructType:
    return pa.struct(list(table.without(*_SHARED)))


REQUEST = _struct(REQUESTS)
REJECTED = _struct(REJECTED_LINES)
FETCH = _struct(FETCHES)
PRODUCE = _struct(PRODUCES)
BROKER_HEARTBEAT = _struct(BROKER_HEARTBEATS)
METADATA_WRITE = _struct(METADATA_WRITES)
ISR_CHANGE = _struct(ISR_CHANGES)
TOPIC = _struct(TOPICS)
CONFIG = _struct(CONFIGS)
METADATA_OFFSET = _struct(METADATA_OFFSETS)
PRODUCER_ID = _struct(PRODUCER_IDS)

#: One row per line. Exactly one of ``request`` and ``rejected`` is not null; the typed structs are
#: null, the lists empty, where the line says nothing of the kind.
PARSED_LINE = pa.schema(
    [
        pa.field("recording", TEXT, nullable=False),
        pa.field("line_id", TEXT, nullable=False),
        pa.field("node_id", INT, nullable=False),
        pa.field("source_file", TEXT, nullable=False),
        pa.field("line_number", LONG, nullable=False),
        pa.field("request", REQUEST),
        pa.field("rejected", REJECTED),
        pa.field("fetch", FETCH),
        pa.field("produce", PRODUCE),
        pa.field("broker_heartbeat", BROKER_HEARTBEAT),
        pa.field("metadata_write", METADATA_WRITE),
        pa.field("producer_id", PRODUCER_ID),
        pa.field("isr_changes", pa.list_(ISR_CHANGE), nullable=False),
        pa.field("topics", pa.list_(TOPIC), nullable=False),
        pa.field("configs", pa.list_(CONFIG), nullable=False),
        pa.field("metadata_offsets", pa.list_(METADATA_OFFSET), nullable=False),
    ]
)
