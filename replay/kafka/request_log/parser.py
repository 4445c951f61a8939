"""Lines of a request log to Arrow, each parsed once.

A line whose body does not fit is rejected as a whole, so that a request never silently lacks its
row in a typed table (``reading``). Typed rows are beside the request in one row per line: readers
can count lines, and drop lines read twice, before anything is split.

Pure: no files, no clock. The same bytes give the same rows, however they are cut into batches.
"""

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.table import INT, LONG, TEXT

from ..messages import APIS, request_bytes, response_bytes
from . import cluster_states, groups, metadata_writes
from .anonymous import Anonymous
from .arrow_rows import Columns, Positions, list_of, list_rows, scatter, struct_of, struct_rows
from .bodies import Row, TypedRows
from .envelope import envelope_columns, with_times
from .frequent import VIEWS, body_columns
from .layouts import Lines
from .layouts.reader import LINE_BYTES_MAX
from .line import Reason, Unreadable, stamp_of
from .local_time import LocalTime
from .parsed_line import LISTS, PARSED_LINE, REJECTED, REQUEST
from .pseudonyms import Pseudonyms
from .reading import OTHERS, Reading, read_batch

#: How much of a rejected line is kept.
_REJECTED_LINE_BYTES = 1000

#: APIs read one line at a time.
_READERS = {**cluster_states.READERS, **metadata_writes.READERS, **groups.READERS}
_SIZES = {"request_bytes": request_bytes, "response_bytes": response_bytes}
#: Typed rows have these columns of their request, but for what they state themselves.
_OF_REQUEST = {"source": "api_name"} | {field.name: field.name for field in REQUEST}
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
        self._time = LocalTime(zone, clock_offset_ms)
        self._line_bytes_max = line_bytes_max
        own = {cluster_states.API_VERSIONS: cluster_states.api_versions(node_id)}
        self._readers = _READERS | own
        #: The hash of a line's content, primed with its node: the line is still to come.
        self._digest = pseudonyms.line_digest() if pseudonyms else hashlib.blake2b(digest_size=16)
        self._digest.update(b"%d\0" % node_id)
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
        stamps_us, bad_stamps = self._time.all_microseconds(
            [stamp_of(line) for line in lines], second_pass_from
        )
        too_long = {
            position: Unreadable(Reason.too_long)
            for position, line in enumerate(lines)
            if len(line) > self._line_bytes_max
        }
        reading = read_batch(lines, bad_stamps | too_long | read.rejections, self._readers)
        columns = {
            "recording": pa.repeat(pa.scalar(self.recording, TEXT), n),
            "line_id": self._line_ids(lines),
            "node_id": pa.repeat(pa.scalar(self.node_id, INT), n),
            "source_file": pa.repeat(pa.scalar(source_file, TEXT), n),
            "line_number": pa.array(read.numbers, LONG),
            **_typed_columns(reading, stamps_us),
            "rejected": _rejected(read, reading, is_kept=self._anonymous is None),
        }
        batch = pa.record_batch([columns[name] for name in PARSED_LINE.names], schema=PARSED_LINE)
        return self._anonymous.lines(batch) if self._anonymous else batch

    def _line_ids(self, lines: Sequence[bytes]) -> pa.StringArray:
        """Content of a line on a node: 32 hex digits of BLAKE2b over node id, NUL and line."""
        ids = []
        for line in lines:
            digest = self._digest.copy()
            digest.update(line)
            ids.append(digest.digest())
        digits = b"".join(ids).hex().encode()
        ends = np.arange(0, len(digits) + 1, 2 * self._digest.digest_size, dtype=np.int32)
        return pa.StringArray.from_buffers(len(lines), pa.py_buffer(ends), pa.py_buffer(digits))


def _rejected(read: Lines, reading: Reading, is_kept: bool) -> pa.StructArray:
    rows: list[Row] = []
    rejected = sorted(reading.rejected.items())
    for position, why in rejected:
        line = read.lines[position]
        text = line[:_REJECTED_LINE_BYTES].decode(errors="replace") if is_kept else None
        rows.append((why.reason.name, why.detail, text, why.line_bytes or len(line)))
    positions = np.array([position for position, _ in rejected], np.int64)
    return scatter(struct_rows(REJECTED, rows), positions, len(read.lines))


def _typed_columns(reading: Reading, stamps_us: Positions) -> Columns:
    n = len(stamps_us)
    parts: dict[str, list[tuple[Positions, pa.Array]]] = defaultdict(list)
    for key, (of_api, batches) in reading.columns.items():
        positions = np.array(of_api, np.int64)
        structs = _structs(key, pa.concat_batches(batches), stamps_us[positions])
        for name, array in structs.items():
            parts[name].append((positions, array))
    columns = {name: _column(name, parts[name], n) for name in ("request", *VIEWS.values())}
    names = ("metadata_write", "producer_id", *LISTS)
    return columns | {name: _typed(name, reading.typed, columns["request"]) for name in names}


def _column(name: str, parts: Sequence[tuple[Positions, pa.Array]], n: int) -> pa.Array:
    if not parts:
        return pa.nulls(n, PARSED_LINE.field(name).type)
    positions, structs = zip(*parts, strict=True)
    return scatter(pa.concat_arrays(structs), np.concatenate(positions), n)


def _structs(key: int, lines: pa.RecordBatch, stamps_us: Positions) -> dict[str, pa.StructArray]:
    """The requests of an API and, where it has one, its view."""
    requests = with_times(envelope_columns(lines), stamps_us)
    if key == OTHERS:
        unknown = dict.fromkeys(_SIZES, pa.nulls(lines.num_rows))
        return {"request": struct_of(REQUEST, requests | unknown)}
    columns = requests | body_columns(key, lines)
    batch = pa.RecordBatch.from_pydict(columns)
    sizes = {
        size: pc.if_else(columns["is_forwarded"], pa.scalar(None, LONG), of(APIS[key], batch))
        for size, of in _SIZES.items()
    }
    type_ = PARSED_LINE.field(VIEWS[key]).type
    return {
        "request": struct_of(REQUEST, requests | sizes),
        VIEWS[key]: struct_of(type_, columns | sizes),
    }


def _typed(name: str, typed: Mapping[int, TypedRows], request: pa.StructArray) -> pa.Array:
    """The rows of lines that have such ones: a struct for a line, or a list of them."""
    column, n = PARSED_LINE.field(name).type, len(request)
    type_ = column.value_type if name in LISTS else column
    rows = {line: of_line[name] for line, of_line in typed.items() if of_line.get(name)}
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
