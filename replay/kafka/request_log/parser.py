"""Lines of a request log to Arrow, each parsed once.

FETCH, PRODUCE and BROKER_HEARTBEAT are read for all lines of a batch at once (``reading``), the
rarer APIs one by one (``envelope``, ``bodies``). A line whose body does not fit is rejected as a
whole, so that a request never silently lacks its row in a typed table. Typed rows are beside the
request in one row per line: readers can count lines, and drop lines read twice, before anything is
split.

Pure: no files, no clock. The same bytes give the same rows, however they are cut into batches.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.table import INT, LONG, TEXT

from ..messages import APIS, request_bytes, response_bytes
from . import frequent, groups, metadata_offsets, metadata_writes, parsed_line, partition_states
from .anonymous import Anonymous
from .arrow_rows import Columns, Positions, list_of, list_rows, scatter, struct_of, struct_rows
from .bodies import Row, TypedRows
from .frequent import VIEWS
from .layouts import Lines
from .layouts.reader import LINE_BYTES_MAX
from .local_time import LocalTime
from .parsed_line import LISTS, PARSED_LINE
from .pseudonyms import Pseudonyms
from .reading import BatchReader, Part, Reading, line_digest, line_ids
from .request_columns import with_times
from .typed_bodies import typed_bodies

#: How much of a rejected line is kept.
_REJECTED_LINE_BYTES = 1000

#: APIs read one line at a time.
_READERS = {
    **partition_states.READERS,
    **metadata_offsets.READERS,
    **frequent.READERS,
    **metadata_writes.READERS,
    **groups.READERS,
}
_SIZES = ("request_bytes", "response_bytes")
#: Typed rows have these columns of their request, but for what they state themselves.
_OF_REQUEST = {"source": "api_name"} | {field.name: field.name for field in parsed_line.REQUEST}
_OWN = {("group_assignments", "client_id")}


class LineParser:
    """Parses the logs of one node of a recording.

    ``zone`` is the IANA name of the stamps' time zone, ``clock_offset_ms`` is added to them.
    With ``pseudonyms``, names and lines are replaced by what its key makes of them, and rejected
    lines not kept.
    """

    def __init__(
        self,
        recording: str,
        node_id: int,
        zone: str,
        *,
        clock_offset_ms: int = 0,
        line_bytes_max: int = LINE_BYTES_MAX,
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        self.recording = recording
        self.node_id = node_id
        readers = _READERS | {metadata_offsets.API_VERSIONS: metadata_offsets.api_versions(node_id)}
        self._batches = BatchReader(LocalTime(zone, clock_offset_ms), line_bytes_max, readers)
        self._line_digest = line_digest(node_id, pseudonyms)
        self._anonymous = Anonymous(pseudonyms) if pseudonyms else None

    def parse_batch(
        self, read: Lines, source_file: str, fold_changes_at_line: int | None = None
    ) -> pa.RecordBatch:
        """A row for each of the lines.

        ``fold_changes_at_line`` is the line number from which on ambiguous local times are the
        second pass (``fold_boundary``), None for never.
        """
        lines, n = read.lines, len(read.lines)
        second_pass_from = n
        if fold_changes_at_line is not None:
            second_pass_from = bisect_left(read.numbers, fold_changes_at_line)
        reading = self._batches.read(lines, second_pass_from, read.rejections)
        columns = {
            "recording": pa.repeat(pa.scalar(self.recording, TEXT), n),
            "line_id": line_ids(self._line_digest, lines),
            "node_id": pa.repeat(pa.scalar(self.node_id, INT), n),
            "source_file": pa.repeat(pa.scalar(source_file, TEXT), n),
            "line_number": pa.array(read.numbers, LONG),
            **_typed_columns(reading, n),
            "rejected": _rejected(read, reading, is_kept=self._anonymous is None),
        }
        batch = pa.record_batch([columns[name] for name in PARSED_LINE.names], schema=PARSED_LINE)
        return self._anonymous.lines(batch) if self._anonymous else batch


def _rejected(read: Lines, reading: Reading, is_kept: bool) -> pa.StructArray:
    rows: list[Row] = []
    rejected = sorted(reading.rejected.items())
    for position, why in rejected:
        line = read.lines[position]
        text = line[:_REJECTED_LINE_BYTES].decode(errors="replace") if is_kept else None
        rows.append((why.reason.name, why.detail, text, why.line_bytes or len(line)))
    positions = np.array([position for position, _ in rejected], np.int64)
    return scatter(struct_rows(parsed_line.REJECTED, rows), positions, len(read.lines))


def _typed_columns(reading: Reading, n: int) -> Columns:
    structs = [(part.positions, _structs(part, reading.stamps_us)) for part in reading.parts]
    columns = {
        name: _column(name, [(rows, of[name]) for rows, of in structs if name in of], n)
        for name in ("request", *(name for name, _ in VIEWS.values()))
    }
    names = ("metadata_write", "producer_id", *LISTS)
    return columns | {name: _typed(name, reading.typed, columns["request"]) for name in names}


def _column(name: str, parts: Sequence[tuple[Positions, pa.Array]], n: int) -> pa.Array:
    if not parts:
        return pa.nulls(n, PARSED_LINE.field(name).type)
    positions, structs = zip(*parts, strict=True)
    return scatter(pa.concat_arrays(structs), np.concatenate(positions), n)


def _structs(part: Part, stamps_us: Positions) -> dict[str, pa.StructArray]:
    """The requests of a part and, where it has one, its API's view."""
    columns = with_times(part.columns, stamps_us[part.positions])
    null = pa.scalar(None, LONG)
    if part.api_key is None or part.bodies is None:
        sizes = dict.fromkeys(_SIZES, pa.repeat(null, len(part.positions)))
        return {"request": struct_of(parsed_line.REQUEST, columns | sizes)}
    api, (name, of_bodies) = APIS[part.api_key], VIEWS[part.api_key]
    type_ = PARSED_LINE.field(name).type
    body = of_bodies(typed_bodies(part.bodies, api, type_))
    batch = pa.RecordBatch.from_pydict(columns | body)
    sizes = {
        size: pc.if_else(columns["is_forwarded"], null, of(api, batch))
        for size, of in zip(_SIZES, (request_bytes, response_bytes), strict=True)
    }
    return {
        "request": struct_of(parsed_line.REQUEST, columns | sizes),
        name: struct_of(type_, columns | body | sizes),
    }


def _typed(name: str, typed: Mapping[int, TypedRows], request: pa.StructArray) -> pa.Array:
    """The rows of lines that have such ones: a struct for a line, or a list of them."""
    column, n = PARSED_LINE.field(name).type, len(request)
    type_ = column.value_type if name in LISTS else column
    rows = {
        line: row if name in LISTS else (row,)
        for line, of_line in typed.items()
        if (row := getattr(of_line, name))
    }
    if not rows:
        no_row = pa.nulls(0, type_)
        return list_of(np.zeros(n, np.int64), no_row) if name in LISTS else pa.nulls(n, column)
    shared = {
        field.name: pc.struct_field(request, _OF_REQUEST[field.name])
        for field in type_
        if field.name in _OF_REQUEST and (name, field.name) not in _OWN
    }
    lists = list_rows(type_, rows, shared, n)
    return lists if name in LISTS else scatter(lists.flatten(), np.array([*rows], np.int64), n)
