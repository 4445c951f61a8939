"""What the parser makes of a line: one row, its typed rows nested."""

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

from ..messages import BROKER_HEARTBEAT, FETCH, PRODUCE

#: Columns that every table of the log shares: once per line, not once per struct.
_SHARED = ("recording", "request_id", "line_id", "node_id", "source_file", "line_number")


def _struct(table: Table) -> pa.StructType:
    return pa.struct(list(table.without(*_SHARED)))


REQUEST = _struct(REQUESTS)
REJECTED = _struct(REJECTED_LINES)

#: One row per line. Exactly one of ``request`` and ``rejected`` is not null; the typed structs are
#: null, the lists empty, where nothing of the kind follows from the line.
PARSED_LINE = pa.schema(
    [
        pa.field("recording", TEXT, nullable=False),
        pa.field("line_id", TEXT, nullable=False),
        pa.field("node_id", INT, nullable=False),
        pa.field("source_file", TEXT, nullable=False),
        pa.field("line_number", LONG, nullable=False),
        pa.field("request", REQUEST),
        pa.field("rejected", REJECTED),
        pa.field("fetch", _struct(FETCHES)),
        pa.field("produce", _struct(PRODUCES)),
        pa.field("broker_heartbeat", _struct(BROKER_HEARTBEATS)),
        pa.field("metadata_write", _struct(METADATA_WRITES)),
        pa.field("producer_id", _struct(PRODUCER_IDS)),
        pa.field("isr_changes", pa.list_(_struct(ISR_CHANGES)), nullable=False),
        pa.field("topics", pa.list_(_struct(TOPICS)), nullable=False),
        pa.field("configs", pa.list_(_struct(CONFIGS)), nullable=False),
        pa.field("metadata_offsets", pa.list_(_struct(METADATA_OFFSETS)), nullable=False),
    ]
)
#: Columns of the APIs that are nearly all of a busy log, by API key.
VIEWS = {FETCH.key: "fetch", PRODUCE.key: "produce", BROKER_HEARTBEAT.key: "broker_heartbeat"}
