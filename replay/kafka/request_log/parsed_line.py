"""Defines what the parser makes of a line: one row, its typed rows nested."""

import pyarrow as pa

from kip_replay.replay.log_tables import (
    BROKER_HEARTBEATS,
    BROKERS,
    CONFIGS,
    FETCHES,
    GROUP_ASSIGNMENTS,
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
#: Tables with at most one row a line, by the struct of the wide row that holds their columns ...
STRUCTS = {
    "request": REQUESTS,
    "rejected": REJECTED_LINES,
    "fetch": FETCHES,
    "produce": PRODUCES,
    "broker_heartbeat": BROKER_HEARTBEATS,
    "metadata_write": METADATA_WRITES,
    "producer_id": PRODUCER_IDS,
}
#: ... and with several, by the list of structs.
LISTS = {
    "isr_changes": ISR_CHANGES,
    "brokers": BROKERS,
    "group_assignments": GROUP_ASSIGNMENTS,
    "topics": TOPICS,
    "configs": CONFIGS,
    "metadata_offsets": METADATA_OFFSETS,
}


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
        *(pa.field(name, _struct(table)) for name, table in STRUCTS.items()),
        *(
            pa.field(name, pa.list_(_struct(table)), nullable=False)
            for name, table in LISTS.items()
        ),
    ]
)
