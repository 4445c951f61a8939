"""Lines of a request log to Arrow, each parsed once.

Theory of operation
-------------------
1. Each line is split (``line``), its stamp converted (``local_time``), its envelope decoded
   (``envelope``). This is all that is done line by line for most of a log.
2. Bodies of FETCH, PRODUCE and BROKER_HEARTBEAT are read for all lines of a batch at once
   (``typed_bodies``), those of rarer APIs one by one (``bodies``). A line whose body does not fit
   is rejected as a whole, so that a request never silently lacks its row in a typed table.
3. Sizes on the wire follow from the typed columns (``kafka.messages``).
4. Typed rows stand beside the request in one row per line: readers can count lines, and drop lines
   read twice, before anything is split into tables.
5. To share a log, names are hidden in what comes out (``anonymous``), lines in their ids.

Pure: no files, no clock. The same bytes give the same rows, however they are cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.table import INT, LONG, TEXT

from ..messages import APIS, BROKER_HEARTBEAT, FETCH, PRODUCE, request_bytes, response_bytes
from . import (
    config_view,
    fetch_view,
    isr_view,
    offset_view,
    parsed_line,
    produce_view,
    producer_id_view,
    topic_view,
    write_view,
)
from .anonymous import Anonymous
from .arrow_rows import Positions, list_rows, scatter, struct_of, struct_rows
from .line import without_line_end
from .local_time import LocalTime
from .parsed_line import PARSED_LINE
from .reading import Reading, line_digest, line_ids, read_envelopes, reject_absurd_times
from .reasons import Reason
from .request_columns import durations_of, request_columns
from .typed_bodies import Columns, read_bodies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .bodies import Row, TypedRows
    from .envelope import Envelope
    from .pseudonyms import Pseudonyms
    from .typed_bodies import Bodies

#: How much of a rejected line is kept.
_REJECTED_LINE_BYTES = 1000
_MIB = 1 << 20
_NONE: Mapping[int, str] = {}

#: APIs read one line at a time.
_READERS: dict[int, Callable[[Envelope], TypedRows]] = {
    isr_view.ALTER_PARTITION: isr_view.read_alter_partition,
    isr_view.METADATA: isr_view.read_metadata,
    topic_view.API_KEY: topic_view.read,
    config_view.DESCRIBE_CONFIGS: config_view.read_describe,
    config_view.ALTER_CONFIGS: config_view.read_alter,
    config_view.INCREMENTAL_ALTER_CONFIGS: config_view.read_alter,
    offset_view.BROKER_REGISTRATION: offset_view.read_broker_registration,
    offset_view.DESCRIBE_QUORUM: offset_view.read_describe_quorum,
    producer_id_view.API_KEY: producer_id_view.read,
    **dict.fromkeys(write_view.API_KEYS, write_view.read),
}


@dataclass(frozen=True)
class _View:
    """A column of ``PARSED_LINE`` with a row of each line of an API, read many at once."""

    name: str
    api_key: int
    columns: Callable[[Bodies], Columns]

    @property
    def type(self) -> pa.StructType:
        return PARSED_LINE.field(self.name).type


_VIEWS = (
    _View("fetch", FETCH.key, fetch_view.columns),
    _View("produce", PRODUCE.key, produce_view.columns),
    _View("broker_heartbeat", BROKER_HEARTBEAT.key, lambda b: {**b.request, **b.response}),
)
#: Lists of ``PARSED_LINE``, with the request's columns that their elements have too.
_LISTS = {
    "isr_changes": ("dequeued_at",),
    "topics": (),
    "configs": (),
    "metadata_offsets": ("dequeued_at", "connection"),
}


class LineParser:
    """Parses the logs of one node of a recording.

    ``zone`` is the IANA name of the stamps' time zone, ``clock_offset_ms`` is added to them.
    Batches hold at most ``rows_max`` lines and, but for a single longer line, ``bytes_max`` bytes.
    With ``pseudonyms``, names and lines
    are replaced by what its key makes of them, and rejected lines not kept.
    """

    def __init__(
        self,
        recording: str,
        node_id: int,
        zone: str,
        *,
        clock_offset_ms: int = 0,
        line_bytes_max: int = 256 * _MIB,
        rows_max: int = 1 << 15,
        bytes_max: int = 16 * _MIB,
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        self.recording = recording
        self.node_id = node_id
        self._time = LocalTime(zone, clock_offset_ms)
        self._line_bytes_max = line_bytes_max
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._line_digest = line_digest(node_id, pseudonyms)
        self._anonymous = Anonymous(pseudonyms) if pseudonyms else None

    def parse(
        self,
        lines: Iterable[bytes],
        source_file: str,
        first_line_number: int = 1,
        fold_changes_at_line: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of ``PARSED_LINE``, one row per line, in order; no batch for no lines.

        ``lines`` may end in LF, CR LF or nothing. ``fold_changes_at_line`` is the line number from
        which on ambiguous local times are the second pass (``fold_boundary``), None for never.
        """
        number = first_line_number
        for batch in self._bounded(lines):
            yield self.parse_batch(batch, source_file, number, fold_changes_at_line)
            number += len(batch)

    def _bounded(self, lines: Iterable[bytes]) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if batch and (size + len(line) > self._bytes_max or len(batch) == self._rows_max):
                yield batch
                batch, size = [], 0
            batch.append(without_line_end(line))
            size += len(line)
        if batch:
            yield batch

    def parse_batch(
        self,
        lines: Sequence[bytes],
        source_file: str,
        first: int,
        fold_changes_at_line: int | None = None,
        strays: Mapping[int, str] = _NONE,
    ) -> pa.RecordBatch:
        """One batch of lines without their line ends, as many as there are; the first is ``first``.

        For whoever has them in memory already, and knows how many are too many. ``strays``: numbers
        of lines whose stamps cannot be where they stand, and why.
        """
        n = len(lines)
        second_pass_from = n if fold_changes_at_line is None else fold_changes_at_line - first
        reading = read_envelopes(lines, self._time, second_pass_from, self._line_bytes_max)
        for number in range(first, first + n) if strays else ():
            if number in strays:
                reading.reject(number - first, Reason.stray_stamp, strays[number])
        columns = {
            "recording": pa.repeat(pa.scalar(self.recording, TEXT), n),
            "line_id": pa.array(line_ids(self._line_digest, lines), TEXT),
            "node_id": pa.repeat(pa.scalar(self.node_id, INT), n),
            "source_file": pa.repeat(pa.scalar(source_file, TEXT), n),
            "line_number": pa.array(np.arange(first, first + n), LONG),
            **_typed_columns(reading, self.node_id),
            "rejected": _rejected(lines, reading, is_kept=self._anonymous is None),
        }
        batch = pa.record_batch([columns[name] for name in PARSED_LINE.names], schema=PARSED_LINE)
        return self._anonymous.lines(batch) if self._anonymous else batch


def _rejected(lines: Sequence[bytes], reading: Reading, is_kept: bool) -> pa.StructArray:
    """Why lines could not be read; with their text where that ``is_kept``."""
    rows: list[Row] = []
    positions: list[int] = []
    for position, reason in enumerate(reading.reasons):
        if reason is not None:
            line = lines[position]
            text = line[:_REJECTED_LINE_BYTES].decode(errors="replace") if is_kept else None
            rows.append((reason.name, reading.details.get(position), text, len(line)))
            positions.append(position)
    rejected = struct_rows(parsed_line.REJECTED, rows, {})
    return scatter(rejected, np.array(positions, np.int64), len(lines))


def _typed_columns(reading: Reading, node_id: int) -> Columns:
    """Request and typed views, each with a row per line."""
    reject_absurd_times(reading)
    api_versions = partial(offset_view.read_api_versions, node_id=node_id)
    typed = reading.typed_rows(_READERS | {offset_view.API_VERSIONS: api_versions})
    bodies = {view: _bodies(reading, view) for view in _VIEWS}
    n, readable = len(reading.reasons), reading.readable()
    requests = {
        name: scatter(column, readable, n) for name, column in _requests(reading, readable).items()
    }
    views = {view.name: _sized(view, *bodies[view], requests, n) for view in _VIEWS}
    sizes = {
        name: pc.coalesce(*(pc.struct_field(view, name) for view in views.values()))
        for name in ("request_bytes", "response_bytes")
    }
    is_request = scatter(pa.array(np.ones(len(readable), np.bool_)), readable, n).is_valid()
    requests["source"] = requests["api_name"]
    return {
        "request": _where(is_request, parsed_line.REQUEST, {**requests, **sizes}),
        **views,
        **{
            name: _single(name, {row: getattr(t, name) for row, t in typed.items()}, requests, n)
            for name in ("metadata_write", "producer_id")
        },
        **{name: _list(name, also, typed, requests, n) for name, also in _LISTS.items()},
    }


def _requests(reading: Reading, readable: Positions) -> Columns:
    envelopes = reading.of(readable)
    stamps_us = [reading.stamps_us[position] for position in readable.tolist()]
    return request_columns(envelopes, stamps_us, durations_of(envelopes))


def _bodies(reading: Reading, view: _View) -> tuple[Positions, Columns]:
    """Positions and body columns of an API's lines; those that do not fit are rejected."""
    positions = reading.positions_of(view.api_key)
    bodies = read_bodies(reading.of(positions), APIS[view.api_key], view.type)
    for line, misfit in bodies.misfits.items():
        reading.reject(int(positions[line]), Reason.bad_body, misfit)
    return positions[bodies.positions], view.columns(bodies)


def _sized(
    view: _View, rows: Positions, body: Columns, requests: Columns, n: int
) -> pa.StructArray:
    """The view's struct with its sizes, over ``n`` rows.

    What came inside an ENVELOPE has no size of its own.
    """
    columns = {**_taken(requests, view.type, rows), **body}
    batch = pa.RecordBatch.from_pydict(columns)
    forwarded = requests["is_forwarded"].take(pa.array(rows))
    api, null = APIS[view.api_key], pa.scalar(None, LONG)
    columns["request_bytes"] = pc.if_else(forwarded, null, request_bytes(api, batch))
    columns["response_bytes"] = pc.if_else(forwarded, null, response_bytes(api, batch))
    return scatter(struct_of(view.type, columns), rows, n)


def _where(rows: pa.BooleanArray, type_: pa.StructType, columns: Columns) -> pa.StructArray:
    """A struct per row, null where ``rows`` is false."""
    fields = list(type_)
    arrays = [columns[field.name] for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.invert(rows))


def _taken(columns: Columns, type_: pa.StructType, rows: Positions) -> Columns:
    """Of the request's columns those that ``type_`` has too, for some rows."""
    names = {field.name for field in type_}
    indices = pa.array(rows)
    return {name: column.take(indices) for name, column in columns.items() if name in names}


def _single(name: str, of_lines: Mapping[int, Row | None], requests: Columns, n: int) -> pa.Array:
    """A struct of the lines that have such a row."""
    type_ = PARSED_LINE.field(name).type
    values = {line: row for line, row in of_lines.items() if row is not None}
    rows = np.array(list(values), np.int64)
    shared = _taken(requests, type_, rows)
    return scatter(struct_rows(type_, list(values.values()), shared), rows, n)


def _list(
    name: str, also: tuple[str, ...], typed: Mapping[int, TypedRows], requests: Columns, n: int
) -> pa.ListArray:
    """A list per line; ``source`` is the API."""
    shared = {column: requests[column] for column in ("built_at", "source", *also)}
    rows = {line: getattr(t, name) for line, t in typed.items() if getattr(t, name)}
    return list_rows(PARSED_LINE.field(name).type.value_type, rows, shared, n)
