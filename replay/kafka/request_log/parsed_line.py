"""Defines what the parser makes of a line: one row, its typed rows nested."""

import pyarrow as pa

from kip_replay.replay import log_tables as tables
from kip_replay.replay.table import INT, LONG, TEXT, Table

#: Columns that every table of the log shares: once per line, not once per struct.
_SHARED = ("recording", "request_id", "line_id", "node_id", "source_file", "line_number")
#: Tables with at most one row a line, by the struct of the wide row that holds their columns ...
STRUCTS = {
    "request": tables.REQUESTS,
    "rejected": tables.REJECTED_LINES,
    "fetch": tables.FETCHES,
    "produce": tables.PRODUCES,
    "broker_heartbeat": tables.BROKER_HEARTBEATS,
    "metadata_write": tables.METADATA_WRITES,
    "producer_id": tables.PRODUCER_IDS,
}
#: ... and with several, which their key tells apart, by the list of structs.
LISTS = {table.name: table for table in tables.TYPED_TABLES if len(table.key) > 2}


def _struct(table: Table) -> pa.StructType:
    return pa.struct(list(table.without(*_SHARED)))


REQUEST = _struct(tables.REQUESTS)
REJECTED = _struct(tables.REJECTED_LINES)

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
