"""The tables that are in the wide rows of parsed lines, one row per line (``PARSED_LINE``)."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.kafka.request_log.parsed_line import LISTS, STRUCTS
from kip_replay.replay.table import Table

TABLES_OF_LINES = STRUCTS | LISTS
#: The column that names a line, in the tables that have it under another name.
_LINE_ID = "request_id"


def rows_of(table: Table, lines: pa.RecordBatch) -> pa.RecordBatch:
    """The table's rows in wide rows, in their order; at most one per key and line."""
    column = next(name for name, of in TABLES_OF_LINES.items() if of is table)
    values = lines.column(column)
    if column in LISTS:
        parents, structs = pc.list_parent_indices(values), values.flatten()
    else:
        parents = pc.indices_nonzero(values.is_valid())
        structs = values if len(parents) == len(values) else values.take(parents)
    own = dict(zip(structs.type.names, structs.flatten(), strict=True))
    schema = table.arrow_schema
    columns = [own[name] if name in own else _shared(lines, name, parents) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def tables_of(lines: pa.RecordBatch) -> Iterator[tuple[Table, pa.RecordBatch]]:
    """Every table that has rows in wide rows, with its rows."""
    for table in TABLES_OF_LINES.values():
        rows = rows_of(table, lines)
        if rows.num_rows:
            yield table, rows


def _shared(lines: pa.RecordBatch, name: str, parents: pa.Array) -> pa.Array:
    """A column that the wide row has once, outside of its structs."""
    return lines.column("line_id" if name == _LINE_ID else name).take(parents)
