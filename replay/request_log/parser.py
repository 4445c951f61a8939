"""Lines of a request log to Arrow: everything they say, parsed once.

Theory of operation
-------------------
1. Each line is split (``line``), its stamp converted (``local_time``), its envelope decoded
   (``envelope``). This is all that is done line by line for most of a log.
2. Bodies of FETCH and PRODUCE are read for all lines of a batch at once (``json_bodies``), those of
   rarer APIs one by one (``bodies``). A line whose body does not fit is rejected as a whole, so
   that a request never silently lacks its row in a typed table.
3. Sizes on the wire follow from the typed columns (``replay.wire_size``).
4. Typed rows stand beside the request in one row per line: readers can count lines, and drop lines
   read twice, before anything is split into tables.

5. To share a log, names are hidden in what comes out (``anonymous``), lines in their ids.

Pure: no files, no clock. The same bytes give the same rows, however they are cut into batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.table import INT, LONG, TEXT

from .. import wire_size
from . import (
    config_view,
    fetch_view,
    heartbeat_view,
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .bodies import Row, Told
    from .envelope import Envelope
    from .pseudonyms import Pseudonyms

Columns = dict[str, pa.Array]

#: How much of a rejected line is kept.
_REJECTED_LINE_BYTES = 1000
_MIB = 1 << 20

#: APIs read one line at a time.
_READERS: dict[int, Callable[[Envelope], Told]] = {
    heartbeat_view.API_KEY: heartbeat_view.read,
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
#: A heartbeat's own columns, in the order of ``heartbeat_view``.
_HEARTBEAT_COLUMNS = (
    "broker_id",
    "broker_epoch",
    "current_metadata_offset",
    "want_fence",
    "want_shut_down",
    "error_code",
    "is_caught_up",
    "is_fenced",
    "should_shut_down",
    "offline_log_dirs",
    "cordoned_log_dirs",
)
_HEARTBEAT_BODY = pa.struct(
    [parsed_line.BROKER_HEARTBEAT.field(name) for name in _HEARTBEAT_COLUMNS]
)


class LineParser:
    """Parses the logs of one node of a recording.

    ``zone`` is the IANA name of the stamps' time zone. Batches hold at most ``rows_max`` lines and,
    but for a single longer line, ``bytes_max`` bytes of them. With ``pseudonyms``, names and lines
    are replaced by what its key makes of them, and rejected lines not kept.
    """

    def __init__(
        self,
        recording: str,
        node_id: int,
        zone: str,
        *,
        line_bytes_max: int = 256 * _MIB,
        rows_max: int = 1 << 15,
        bytes_max: int = 16 * _MIB,
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        self.recording = recording
        self.node_id = node_id
        self._time = LocalTime(zone)
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
    ) -> pa.RecordBatch:
        """One batch of lines without their line ends, as many as there are; the first is ``first``.

        For whoever has them in memory already, and knows how many are too many.
        """
        n = len(lines)
        second_pass_from = n if fold_changes_at_line is None else fold_changes_at_line - first
        reading = read_envelopes(lines, self._time, second_pass_from, self._line_bytes_max)
        columns = {
            "recording": pa.repeat(pa.scalar(self.recording, TEXT), n),
            "line_id": pa.array(line_ids(self._line_digest, lines), TEXT),
            "node_id": pa.repeat(pa.scalar(self.node_id, INT), n),
            "source_file": pa.repeat(pa.scalar(source_file, TEXT), n),
            "line_number": pa.array(np.arange(first, first + n), LONG),
            **_typed_columns(reading, self.node_id),
            "rejected": _rejected(lines, reading.reasons, is_kept=self._anonymous is None),
        }
        batch = pa.record_batch([columns[name] for name in PARSED_LINE.names], schema=PARSED_LINE)
        return self._anonymous.lines(batch) if self._anonymous else batch


def _rejected(
    lines: Sequence[bytes], reasons: Sequence[Reason | None], is_kept: bool
) -> pa.StructArray:
    """Why lines could not be read; with their text where that ``is_kept``."""
    rows: list[Row] = []
    positions: list[int] = []
    for position, reason in enumerate(reasons):
        if reason is not None:
            line = lines[position]
            text = line[:_REJECTED_LINE_BYTES].decode(errors="replace") if is_kept else None
            rows.append((reason.name, text, len(line)))
            positions.append(position)
    rejected = struct_rows(parsed_line.REJECTED, rows, {})
    return scatter(rejected, np.array(positions, np.int64), len(lines))


def _typed_columns(reading: Reading, node_id: int) -> Columns:
    """Request and typed views, each with a row per line."""
    reject_absurd_times(reading)
    told = reading.told_by(_READERS | {offset_view.API_VERSIONS: _api_versions_of(node_id)})
    fetches = _bodies(reading, fetch_view.API_KEY, fetch_view.fetch_columns)
    produces = _bodies(reading, produce_view.API_KEY, produce_view.produce_columns)
    n, readable = len(reading.reasons), reading.readable()
    envelopes = reading.of(readable)
    stamps_us = [reading.stamps_us[position] for position in readable.tolist()]
    requests = request_columns(envelopes, stamps_us, durations_of(envelopes))
    requests = {name: scatter(column, readable, n) for name, column in requests.items()}

    fetch, fetch_sizes = _fetch(fetches, requests, n)
    produce, produce_sizes = _produce(produces, requests, n)
    heartbeat, heartbeat_sizes = _heartbeat(told, requests, n)
    sizes = _coalesced([fetch_sizes, produce_sizes, heartbeat_sizes])
    rows = scatter(pa.array(np.ones(len(readable), np.bool_)), readable, n).is_valid()
    return {
        "request": _where(rows, parsed_line.REQUEST, {**requests, **sizes}),
        "fetch": fetch,
        "produce": produce,
        "broker_heartbeat": heartbeat,
        "metadata_write": _metadata_write(told, requests, n),
        "producer_id": _producer_id(told, requests, n),
        "isr_changes": _lists(
            told, lambda t: t.isr_changes, parsed_line.ISR_CHANGE, requests, ("dequeued_at",)
        ),
        "topics": _lists(told, lambda t: t.topics, parsed_line.TOPIC, requests, ()),
        "configs": _lists(told, lambda t: t.configs, parsed_line.CONFIG, requests, ()),
        "metadata_offsets": _lists(
            told,
            lambda t: t.metadata_offsets,
            parsed_line.METADATA_OFFSET,
            requests,
            ("dequeued_at", "connection"),
        ),
    }


def _api_versions_of(node_id: int) -> Callable[[Envelope], Told]:
    """API_VERSIONS tells of the node that answered."""
    return lambda envelope: offset_view.read_api_versions(envelope, node_id)


def _bodies(
    reading: Reading,
    api_key: int,
    read: Callable[[Sequence[Envelope]], tuple[Positions, Columns]],
) -> tuple[Positions, Columns]:
    """Positions and body columns of an API's lines; those that do not fit are rejected."""
    positions = reading.positions_of(api_key)
    good, columns = read(reading.of(positions))
    unfit = np.ones(len(positions), np.bool_)
    unfit[good] = False
    for position in positions[unfit].tolist():
        reading.reject(position, Reason.bad_body)
    return positions[good], columns


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


def _fetch(
    bodies: tuple[Positions, Columns], requests: Columns, n: int
) -> tuple[pa.StructArray, Columns]:
    rows, body = bodies
    columns = {**_taken(requests, parsed_line.FETCH, rows), **body}
    batch = pa.RecordBatch.from_pydict(columns)
    sizes = {
        "request_bytes": wire_size.fetch_request_bytes(batch),
        "response_bytes": wire_size.fetch_response_bytes(batch),
    }
    return _sized(parsed_line.FETCH, columns, sizes, rows, requests, n)


def _produce(
    bodies: tuple[Positions, Columns], requests: Columns, n: int
) -> tuple[pa.StructArray, Columns]:
    rows, body = bodies
    columns = {**_taken(requests, parsed_line.PRODUCE, rows), **body}
    batch = pa.RecordBatch.from_pydict(columns)
    sizes = {
        "request_bytes": wire_size.produce_request_bytes(batch),
        "response_bytes": wire_size.produce_response_bytes(batch),
    }
    return _sized(parsed_line.PRODUCE, columns, sizes, rows, requests, n)


def _heartbeat(
    told: Mapping[int, Told], requests: Columns, n: int
) -> tuple[pa.StructArray, Columns]:
    bodies = {row: t.broker_heartbeat for row, t in told.items() if t.broker_heartbeat is not None}
    rows = np.array(list(bodies), np.int64)
    body = struct_rows(_HEARTBEAT_BODY, list(bodies.values()), {})
    columns = {
        **_taken(requests, parsed_line.BROKER_HEARTBEAT, rows),
        **dict(zip(_HEARTBEAT_COLUMNS, body.flatten(), strict=True)),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    sizes = {
        "request_bytes": wire_size.broker_heartbeat_request_bytes(batch),
        "response_bytes": wire_size.broker_heartbeat_response_bytes(batch),
    }
    return _sized(parsed_line.BROKER_HEARTBEAT, columns, sizes, rows, requests, n)


def _sized(
    type_: pa.StructType,
    columns: Columns,
    sizes: Columns,
    rows: Positions,
    requests: Columns,
    n: int,
) -> tuple[pa.StructArray, Columns]:
    """The typed struct and its sizes, over ``n`` rows.

    What came inside an ENVELOPE has no size of its own.
    """
    forwarded = requests["is_forwarded"].take(pa.array(rows))
    null = pa.scalar(None, LONG)
    sizes = {name: pc.if_else(forwarded, null, size) for name, size in sizes.items()}
    struct = scatter(struct_of(type_, {**columns, **sizes}), rows, n)
    return struct, {name: scatter(size, rows, n) for name, size in sizes.items()}


def _coalesced(sizes: Sequence[Columns]) -> Columns:
    return {name: pc.coalesce(*(s[name] for s in sizes)) for name in sizes[0]}


def _metadata_write(told: Mapping[int, Told], requests: Columns, n: int) -> pa.StructArray:
    writes = {row: t.metadata_write for row, t in told.items() if t.metadata_write is not None}
    rows = np.array(list(writes), np.int64)
    shared = _taken(requests, parsed_line.METADATA_WRITE, rows)
    struct = struct_rows(parsed_line.METADATA_WRITE, _with_names(writes), shared)
    return scatter(struct, rows, n)


def _with_names(writes: Mapping[int, Row]) -> list[Row]:
    """Resources as dictionaries, as nested structs are given to Arrow."""
    names = [field.name for field in parsed_line.METADATA_WRITE.field("resources").type.value_type]
    return [
        (
            validate_only,
            error_code,
            None
            if resources is None
            else [dict(zip(names, resource, strict=True)) for resource in resources],
        )
        for validate_only, error_code, resources in writes.values()
    ]


def _producer_id(told: Mapping[int, Told], requests: Columns, n: int) -> pa.StructArray:
    answers = {row: t.producer_id for row, t in told.items() if t.producer_id is not None}
    rows = np.array(list(answers), np.int64)
    shared = _taken(requests, parsed_line.PRODUCER_ID, rows)
    return scatter(struct_rows(parsed_line.PRODUCER_ID, list(answers.values()), shared), rows, n)


def _lists(
    told: Mapping[int, Told],
    rows_of: Callable[[Told], list[Row]],
    type_: pa.StructType,
    requests: Columns,
    also: tuple[str, ...],
) -> pa.ListArray:
    """A list per line; ``source`` is the API."""
    shared = {
        "built_at": requests["built_at"],
        "source": requests["api_name"],
        **{name: requests[name] for name in also},
    }
    rows = {row: rows_of(t) for row, t in told.items() if rows_of(t)}
    return list_rows(type_, rows, shared, len(requests["api_name"]))
