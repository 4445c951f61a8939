"""Bodies of many lines of one API, read into nested Arrow columns at once.

FETCH and PRODUCE are nearly all of a busy log, and their partitions nearly all of a line: Arrow's
JSON reader turns them into columns without a Python object for each. It reads all lines or none,
so where it refuses, the lines are halved until the one that it refuses stands alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from .envelope import Envelope

_BEFORE_REQUEST = b'{"request":'
_BEFORE_RESPONSE = b',"response":'
_AFTER = b"}\n"
_NULL = b"null"


def read_bodies(
    envelopes: Sequence[Envelope], request: pa.StructType, response: pa.StructType
) -> tuple[list[int], pa.StructArray, pa.StructArray]:
    """Positions of the lines whose bodies fit the types, and their requests and responses.

    A body ``""`` is a null struct; fields that the types lack are passed over; fields that a line
    lacks are null.
    """
    schema = pa.schema([("request", request), ("response", response)])
    good: list[int] = []
    tables: list[pa.Table] = []
    pending = [(0, len(envelopes))]
    while pending:
        start, end = pending.pop()
        table = _read(envelopes[start:end], schema)
        if table is not None:
            good.extend(range(start, end))
            tables.append(table)
        elif end - start > 1:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
    whole = pa.concat_tables(tables) if tables else schema.empty_table()
    return good, _one_chunk(whole.column("request")), _one_chunk(whole.column("response"))


def _read(envelopes: Sequence[Envelope], schema: pa.Schema) -> pa.Table | None:
    """None where some line does not fit, or is several objects."""
    if not envelopes:
        return schema.empty_table()
    parts: list[msgspec.Raw | bytes] = []
    for envelope in envelopes:
        parts += (
            _BEFORE_REQUEST,
            envelope.request if envelope.has_request else _NULL,
            _BEFORE_RESPONSE,
            envelope.response if envelope.has_response else _NULL,
            _AFTER,
        )
    text = b"".join(parts)
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == len(envelopes) else None


def _one_chunk(column: pa.ChunkedArray) -> pa.StructArray:
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(column.chunks)
