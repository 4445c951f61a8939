"""Bodies of FETCH, PRODUCE and BROKER_HEARTBEAT as columns of their tables, many lines at once.

These are nearly all of a busy log, and their partitions nearly all of a line: Arrow's JSON reader
turns them into columns without a Python object for each. Which fields are read, under which names
and with which defaults follows from the message schemas (``messages.schemas``): absent fields take
Kafka's defaults, as older versions lack them and tagged ones are written only where they differ.
So an absent ``highWatermark`` is 2^63 - 1 (the sender knows nothing of KIP-1166); -1 (unknown) is
written out.

What does not fit follows from ``JsonConverterGenerator``, by which Kafka writes bodies to the log:
a field is there in each of its versions but those where it is tagged, and null only where the
version allows it. What has a default may be absent nevertheless. What a number may be is declared
with its field (``schemas``), or follows from its type (``layout``).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kip_replay.replay.table import BOOL, INT, LONG, TEXT

from ..messages import Api
from ..messages.layout import Field, Struct
from .arrow_rows import Bools, Columns, Positions, list_of, lists_in, nulls_of, one_chunk

_SCALARS = {
    "bool": BOOL,
    "int8": INT,
    "int16": INT,
    "int32": INT,
    "int64": LONG,
    "records": LONG,
    "string": TEXT,
    "uuid": TEXT,
}
#: In what Arrow's reader says, which also has values.
_COLUMN = re.compile(r"Column\(/([A-Za-z/\[\]]*)")
#: So much of a text stays near the processor while Arrow goes over it.
_BLOCK_BYTES = 4 << 20
_NO_BODY = "a body does not have its API's form"


@dataclass(frozen=True)
class Bodies:
    """Holds columns of the requests and responses of lines, null without a body."""

    request: Columns
    response: Columns
    has_response: pa.BooleanArray


def typed_bodies(table: pa.Table, api: Api, row: pa.StructType) -> Bodies:
    """Bodies of lines of one API, whose table has the columns of ``row``."""
    request, response = (one_chunk(table.column(name)) for name in ("request", "response"))
    requested = _columns_of(api.request.body, request, row)
    returned = _columns_of(api.response.body, response, row)
    return Bodies(requested, returned, response.is_valid())


@lru_cache
def body_schema(api: Api) -> pa.Schema:
    bodies = (("request", api.request.body), ("response", api.response.body))
    return pa.schema([(name, _type(body)) for name, body in bodies])


def _type(struct: Struct) -> pa.StructType:
    types = (_type(f.struct) if f.struct else _SCALARS[f.type] for f in struct.fields)
    fields = zip(struct.fields, types, strict=True)
    return pa.struct([(f.json_name, pa.list_(t) if f.is_array else t) for f, t in fields])


def read_fitting(
    lines: Sequence[bytes], schema: pa.Schema, lines_min: int, unexpected: str
) -> tuple[Positions, pa.Table, dict[int, str]]:
    """The lines that can be read, and what of the others cannot.

    Arrow reads all lines or none: where it refuses, they are halved down to ``lines_min``.
    ``unexpected`` fields are ignored, or an error.
    """
    good: list[int] = []
    bad: dict[int, str] = {}
    tables: list[pa.Table] = []
    pending = [(0, len(lines))]
    while pending:
        start, end = pending.pop()
        table = _read(lines[start:end], schema, unexpected)
        if isinstance(table, pa.Table):
            good.extend(range(start, end))
            tables.append(table)
        elif end - start > lines_min:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
        else:
            bad |= dict.fromkeys(range(start, end), table)
    return np.array(good, np.int64), pa.concat_tables(tables or [schema.empty_table()]), bad


def _read(lines: Sequence[bytes], schema: pa.Schema, unexpected: str) -> pa.Table | str:
    """Reads lines of JSON; returns what does not fit, where some line does not."""
    if not lines:
        return schema.empty_table()
    text = b"\n".join(lines)
    block_bytes = max(_BLOCK_BYTES, max(map(len, lines)) + 2)
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=block_bytes),
            parse_options=pyarrow.json.ParseOptions(schema, None, unexpected),
        )
    except pa.ArrowInvalid as error:
        column = _COLUMN.search(str(error))
        if column is None:
            return _NO_BODY
        return f"{column[1].replace('/[]', '').replace('/', '.')} is of another type"
    return table if table.num_rows == len(lines) else _NO_BODY


def _columns_of(struct: Struct, bodies: pa.StructArray, row: pa.StructType) -> Columns:
    absent = nulls_of(bodies)
    columns = _values(struct, bodies, row, absent)
    for field in struct.fields:
        if field.partitions is not None:
            topics = bodies.field(field.json_name)
            columns[field.column] = _listed(field, field.partitions, topics, row, absent)
    return columns


def _values(
    struct: Struct, array: pa.StructArray, row: pa.StructType, absent: Bools | None = None
) -> Columns:
    """Columns of structs, but for lists of topics.

    Lists are null where their field is missing or, given ``absent``, there.
    """
    columns: Columns = {}
    for field in struct.fields:
        value, place = array.field(field.json_name), row.get_field_index(field.column)
        column = row.field(place).type if place >= 0 else pa.null()
        if field.is_array and not pa.types.is_list(column):  # only its length is kept
            columns[field.column] = pc.list_value_length(value)
        elif field.struct is None:
            columns[field.column] = _with_default(field, value, array)
        elif not field.is_array:
            # What a tagged struct holds goes before what older versions wrote beside it.
            for name, inner in _values(field.struct, value, row).items():
                columns[name] = pc.coalesce(inner, columns[name]) if name in columns else inner
        elif field.partitions is None:
            lengths, flat = lists_in(value)
            elements = _struct_of(_values(field.struct, flat, column.value_type))
            missing = nulls_of(value) if absent is None else absent
            columns[field.column] = list_of(lengths, elements, missing)
    return columns


def _listed(
    field: Field, partitions: Field, topics: pa.ListArray, row: pa.StructType, absent: Bools
) -> pa.ListArray:
    assert field.struct is not None
    topics_per_row, topic = lists_in(topics)
    listed = topic.field(partitions.json_name)
    per_topic, flat = lists_in(listed)
    row_of_topic = np.repeat(np.arange(len(topics)), topics_per_row)
    lengths = np.bincount(row_of_topic, weights=per_topic, minlength=len(topics)).astype(np.int64)
    parent = pa.array(np.repeat(np.arange(len(topic)), per_topic))
    names = {
        name.column: topic.field(name.json_name)
        for name in field.struct.fields
        if name is not partitions
    }
    columns = {name: array.take(parent) for name, array in names.items()}
    if partitions.struct is None:
        columns[partitions.column] = flat
    else:
        inner_row = row.field(field.column).type.value_type
        columns |= _values(partitions.struct, flat, inner_row)
    return list_of(lengths, _struct_of(columns), absent)


def _with_default(field: Field, value: pa.Array, parent: pa.StructArray) -> pa.Array:
    """Nulls replaced where there is a parent; without one nothing is known."""
    if value.null_count == 0 or field.default is None:
        return value
    filled = value.fill_null(field.default)
    if parent.null_count == 0:
        return filled
    return pc.if_else(parent.is_valid(), filled, pa.scalar(None, value.type))


def _struct_of(columns: Columns) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def misfits(table: pa.Table, api: Api, versions: pa.Int32Array) -> dict[int, str]:
    """The lines whose bodies do not fit, and what of them: ``request.topics is missing``."""
    paths: dict[int, str] = {}
    of_lines = versions.fill_null(-1).to_numpy().astype(np.int64)
    for name, message in (("request", api.request), ("response", api.response)):
        bodies = one_chunk(table.column(name))
        for lines, path in _misfits(message.body, bodies, np.arange(len(bodies)), of_lines):
            paths |= {line: f"{name}.{path}" for line in lines.tolist() if line not in paths}
    return paths


def _misfits(
    struct: Struct, array: pa.StructArray, rows: Positions, versions: Positions
) -> Iterator[tuple[Positions, str]]:
    """Yields those of ``rows``, which the structs come from, with a field that does not fit."""
    for field in struct.fields:
        name = field.json_name
        value, parents = array.field(name), rows
        may_be_absent = field.is_tagged or field.is_nullable or field.has_default
        if value.null_count and not may_be_absent:
            of_versions = versions[rows]
            has_field = (of_versions >= field.versions.start) & (of_versions < field.versions.stop)
            yield rows[nulls_of(value) & ~nulls_of(array) & has_field], f"{name} is missing"
        if field.is_array:
            lengths, value = lists_in(value)
            parents = np.repeat(rows, lengths)
            yield parents[nulls_of(value)], f"{name} is missing"
        if field.struct is not None:
            for lines, path in _misfits(field.struct, value, parents, versions):
                yield lines, f"{name}.{path}"
        if field.limits is not None:
            least, largest = field.limits
            bounds = pc.min_max(value).as_py()
            if bounds["min"] is not None and (bounds["min"] < least or bounds["max"] > largest):
                values = value.fill_null(least).to_numpy(zero_copy_only=False)
                outside = ((values < least) | (values > largest)) & (values != field.default)
                yield parents[outside], f"{name} is out of range"
