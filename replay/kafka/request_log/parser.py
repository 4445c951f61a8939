"""Lines of a request log to Arrow, each parsed once.

A line whose body does not fit is rejected as a whole, so that a request never silently lacks its
row in a typed table (``reading``).

Pure: no files, no clock. The same bytes give the same rows, however they are cut into batches.
"""

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.log_tables import TYPED_TABLES, RejectedLines, Requests
from kip_replay.replay.table import INT, LONG, TEXT, Table

from ..messages import APIS, request_bytes, response_bytes
from . import cluster_states, groups, metadata_writes
from .frequent import VIEWS, Columns, Positions, Rows, body_columns, list_of, lists_in
from .layouts import Lines
from .line import envelope_columns, stamp_of, with_times
from .local_time import LocalTime
from .reading import OTHERS, Reading, Row, TypedRows, read_batch

#: How much of a rejected line is kept.
_REJECTED_LINE_BYTES = 1000

#: APIs read one line at a time.
_READERS = {**cluster_states.READERS, **metadata_writes.READERS, **groups.READERS}
_SIZES = {"request_bytes": request_bytes, "response_bytes": response_bytes}
_POSITION = pa.field("position", LONG, nullable=False)
#: Columns that rows take from their line or request, by the name that they have there.
_NAMES = {"source": "api_name", "line_id": "request_id"}
#: Columns that a table has of its own, though requests have one of that name.
_OWN = {("group_assignments", "client_id")}


class LineParser:
    """Parses the logs of one node of a recording.

    ``zone`` is the IANA name of the stamps' time zone, ``clock_offset_ms`` is added to them.
    """

    def __init__(
        self, recording: str, node_id: int, zone: str, *, clock_offset_ms: int = 0
    ) -> None:
        self.recording = recording
        self.node_id = node_id
        self._time = LocalTime(zone, clock_offset_ms)
        own = {cluster_states.API_VERSIONS: cluster_states.api_versions(node_id)}
        self._readers = _READERS | own
        #: The hash of a line, so far of its node's id alone.
        self._digest = hashlib.blake2b(digest_size=16)
        self._digest.update(b"%d\0" % node_id)

    def parse_batch(
        self, read: Lines, source_files: Sequence[str], fold_changes_at_line: int | None = None
    ) -> Rows:
        """Parses lines, each of its source file; each becomes a request or a rejected line.

        ``fold_changes_at_line`` is the line number from which on ambiguous local times are the
        second pass (``fold_boundary``), None for never.
        """
        lines, n = read.lines, len(read.lines)
        second_pass_from = n
        if fold_changes_at_line is not None:
            second_pass_from = bisect_left(read.numbers, fold_changes_at_line)
        stamps_us, bad_stamps = self._time.all_microseconds(
            [stamp_of(line) for line in lines], second_pass_from
        )
        reading = read_batch(lines, bad_stamps | read.rejections, self._readers)
        columns = {
            "recording": pa.repeat(pa.scalar(self.recording, TEXT), n),
            "request_id": self._line_ids(lines),
            "node_id": pa.repeat(pa.scalar(self.node_id, INT), n),
            "source_file": pa.array(source_files, TEXT),
            "line_number": pa.array(read.numbers, LONG),
            "position": pa.array(np.arange(n)),
        }
        of_lines = pa.RecordBatch.from_pydict(columns)
        return {
            "lines": of_lines,
            **_tables(reading, stamps_us, of_lines),
            RejectedLines.name: _rejected(read, reading, of_lines),
        }

    def _line_ids(self, lines: Sequence[bytes]) -> pa.StringArray:
        """Names lines by their content on a node: 32 hex digits of BLAKE2b over id, NUL, line."""
        ids = []
        for line in lines:
            digest = self._digest.copy()
            digest.update(line)
            ids.append(digest.digest())
        digits = b"".join(ids).hex().encode()
        ends = np.arange(0, len(digits) + 1, 2 * self._digest.digest_size, dtype=np.int32)
        return pa.StringArray.from_buffers(len(lines), pa.py_buffer(ends), pa.py_buffer(digits))


def _rejected(read: Lines, reading: Reading, lines: pa.RecordBatch) -> pa.RecordBatch:
    rows: list[Row] = []
    rejected = sorted(reading.rejected.items())
    for position, why in rejected:
        line = read.lines[position]
        text = line[:_REJECTED_LINE_BYTES].decode(errors="replace")
        rows.append((why.reason.name, why.detail, text, why.line_bytes or len(line)))
    positions = pa.array([position for position, _ in rejected], LONG)
    return _batch(RejectedLines, _fields(_structs(RejectedLines, rows, lines)), lines, positions)


def _tables(reading: Reading, stamps_us: Positions, lines: pa.RecordBatch) -> Rows:
    parts: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for key, positions, batches in reading.columns:
        stamps = stamps_us[np.array(positions, np.int64)]
        for table, columns in _columns(key, pa.concat_batches(batches), stamps):
            places = pa.array(positions, LONG)
            parts[table.name].append(_batch(table, columns, lines, places))
    tables = (Requests, *VIEWS.values())
    rows = {table.name: _in_order(table, parts[table.name]) for table in tables}
    others = (table for table in TYPED_TABLES if table not in tables)
    return rows | {table.name: _typed(table, reading.typed, rows["requests"]) for table in others}


def _columns(
    key: int, lines: pa.RecordBatch, stamps_us: Positions
) -> Iterator[tuple[Table, Columns]]:
    """Yields columns of ``requests`` and, if the API has a table of its own, columns of that."""
    requests = with_times(envelope_columns(lines), stamps_us)
    if key == OTHERS:
        yield Requests, requests | dict.fromkeys(_SIZES, pa.nulls(lines.num_rows))
        return
    columns = requests | body_columns(key, lines)
    batch = pa.RecordBatch.from_pydict(columns)
    sizes = {
        size: pc.if_else(columns["is_forwarded"], pa.scalar(None, LONG), measure(APIS[key], batch))
        for size, measure in _SIZES.items()
    }
    yield Requests, requests | sizes
    yield VIEWS[key], columns | sizes


def _batch(
    table: Table, own: Columns, of_lines: pa.RecordBatch, places: pa.Array
) -> pa.RecordBatch:
    """Rows of a table: columns of their own, and of lines or requests at ``places``."""
    schema = table.arrow_schema.append(_POSITION)
    columns = [
        own[name].cast(type_)
        if name in own
        else of_lines.column(_NAMES.get(name, name)).take(places)
        for name, type_ in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _in_order(table: Table, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if not parts:
        return pa.RecordBatch.from_pylist([], table.arrow_schema.append(_POSITION))
    rows = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
    positions = rows.column("position").to_numpy()
    in_order = np.argsort(positions, kind="stable")
    return rows if np.array_equal(in_order, np.arange(len(in_order))) else rows.take(in_order)


def _typed(
    table: Table, typed: Mapping[int, TypedRows], requests: pa.RecordBatch
) -> pa.RecordBatch:
    """Makes a table's rows of the lines that have some, by their positions in ``typed``."""
    rows = {line: tables[table.name] for line, tables in typed.items() if tables.get(table.name)}
    # Many lines can have the very same rows (one object), which are made once.
    different = {id(line_rows): line_rows for line_rows in rows.values()}
    structs = _structs(table, [*chain.from_iterable(different.values())], requests)
    lists = list_of(np.array([*map(len, different.values())], np.int64), structs)
    places = {identity: place for place, identity in enumerate(different)}
    lists_of_lines = pa.array([places[id(line_rows)] for line_rows in rows.values()], LONG)
    lengths, own = lists_in(lists.take(lists_of_lines))
    positions = pa.array(np.repeat(np.array([*rows], np.int64), lengths))
    request_places = pc.index_in(positions, requests.column("position"))
    return _batch(table, _fields(own), requests, request_places)


def _structs(table: Table, rows: Sequence[Row], of_lines: pa.RecordBatch) -> pa.StructArray:
    """Makes rows of the columns that a table does not have of lines or requests."""
    shared = {*of_lines.schema.names}
    own = [
        field
        for field in table.arrow_schema
        if _NAMES.get(field.name, field.name) not in shared or (table.name, field.name) in _OWN
    ]
    values = zip(*rows, strict=True) if rows else [()] * len(own)
    arrays = [pa.array(v, field.type) for field, v in zip(own, values, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=own)


def _fields(structs: pa.StructArray) -> Columns:
    return dict(zip(structs.type.names, structs.flatten(), strict=True))
