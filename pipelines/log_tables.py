"""The tables that are in the wide rows of parsed lines, one row per line (``PARSED_LINE``)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replay.schema import (
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
    Table,
)

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
    "topics": TOPICS,
    "configs": CONFIGS,
    "metadata_offsets": METADATA_OFFSETS,
}
TABLES_OF_LINES = STRUCTS | LISTS
#: Columns that the wide row has once, outside of its structs.
_SHARED = ("recording", "line_id", "request_id", "node_id", "source_file", "line_number")


def rows_of(table: Table, lines: DataFrame) -> DataFrame:
    """The table's rows in wide rows; at most one per key and line."""
    column = next(name for name, of in TABLES_OF_LINES.items() if of is table)
    names = [name for name in _SHARED if name in table.arrow_schema.names]
    shared = [F.col("line_id").alias(n) if n == "request_id" else F.col(n) for n in names]
    if column in LISTS:
        return lines.filter(F.size(column) > 0).select(*shared, F.inline(column))
    return lines.filter(F.col(column).isNotNull()).select(*shared, f"{column}.*")
