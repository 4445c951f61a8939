"""Runs one task of ingest: byte ranges in, Parquet files of all tables out.

Rows never leave the worker but as files. What the driver gets is what it needs to commit them and
to be sure that no line is in them twice: counts, statistics, and the span of time of each batch of
lines. A task drops lines that it has read before; what others have read, ``repeated_lines`` does.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.line_accounting import Counts, FileKey, Node, Times, has_step
from kip_replay.pipelines.ingest.parse_range import ParsedRange, joined, parse_together, together
from kip_replay.pipelines.ingest.whose_log import Senders, senders_of
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.kafka.messages import newer_versions
from kip_replay.replay.kafka.request_log import Pseudonyms
from kip_replay.replay.kafka.request_log.layouts import Lines
from kip_replay.replay.kafka.request_log.parsed_line import LISTS, STRUCTS
from kip_replay.replay.table import Table

#: First and last microsecond (UTC, since 1970) of something, both included.
Span = tuple[int, int]
TABLES_OF_LINES = STRUCTS | LISTS
#: Columns of wide rows: the requests whose time decides what a replay by increments has seen.
_EVENTS = ("fetch", "produce", "broker_heartbeat", "metadata_write", "producer_id")
_LISTS_OF_EVENTS = ("isr_changes", "configs", "metadata_offsets")


@dataclass(frozen=True)
class ParseTask:
    """Ranges to be parsed by one task, in the order of files and lines; ``files`` takes the rows.

    With ``pseudonyms``, no name and no line leaves it as it is. ``repeated``: ids of lines that are
    read elsewhere too, where they stay.
    """

    number: int
    files: TableFiles
    ranges: tuple[ParsedRange, ...]
    line_bytes_max: int
    pseudonyms: Pseudonyms | None = None
    repeated: frozenset[str] = frozenset()


@dataclass
class Parsed:
    """Holds what a task has done. ``counts`` are of the lines it has read, by file.

    ``spans``: first and last completion in each batch of requests, UTC microseconds since 1970.
    ``newer_versions`` counts requests that the message schemas do not know, by API key and version;
    ``loggers`` lines that are no requests, by recording and logger. ``unread``: of each recording
    and reason, the first line that cannot be read. ``unsound``: of files that are damaged the first
    such line where lines may be altered.
    """

    task: int
    files: list[DataFile] = field(default_factory=list)
    spans: dict[Node, list[Span]] = field(default_factory=dict)
    counts: dict[FileKey, Counts] = field(default_factory=dict)
    times: dict[FileKey, Times] = field(default_factory=dict)
    newer_versions: Counter[tuple[int, int]] = field(default_factory=Counter)
    senders: Senders = field(default_factory=Counter)
    loggers: Counter[tuple[str, str]] = field(default_factory=Counter)
    unread: dict[tuple[str, str], Unread] = field(default_factory=dict)
    unsound: dict[FileKey, int] = field(default_factory=dict)


class Unread(NamedTuple):
    """A line that cannot be read: where it is, and what it is; no text where names are hidden."""

    source_file: str
    line_number: int
    reason: str
    detail: str | None
    text: str | None

    @staticmethod
    def of(row: Mapping[str, Any]) -> Unread:
        why = row["rejected"]
        place = row["source_file"], row["line_number"]
        return Unread(*place, why["reason"], why["detail"], why["line"])


class ParseError(Exception):
    """A mistake in this program that a line brought to light, reported without the line."""


def parse_task(task: ParseTask) -> Parsed:
    """Parses the ranges and writes the files. Raises UserError, ParseError."""
    try:
        return _parsed(task)
    except OSError as error:
        raise UserError(
            f"a log or the warehouse failed while lines were parsed ({error}): correct that and "
            "run this again"
        ) from None
    except Exception as error:
        if task.pseudonyms is None:
            raise
        # Its message could hold a name, and tracebacks are kept in the warehouse.
        raise ParseError(f"{type(error).__name__} {_where(error)}") from None


def _parsed(task: ParseTask) -> Parsed:
    parsed = Parsed(task.number)
    tables = task.files
    seen: dict[Node, set[str]] = {}
    for parts in together(task.ranges, task.line_bytes_max):
        part = parts[0]
        node = (part.file.recording, part.file.node_id)
        for lines, read in parse_together(parts, task.line_bytes_max, task.pseudonyms):
            kept = _without_repeated(lines, seen.setdefault(node, {*task.repeated}))
            note(parsed, part, read, lines, kept)
            for table in TABLES_OF_LINES.values():
                if (rows := rows_of(table, kept)).num_rows:
                    tables.write(table, rows)
            if (span := _span(kept)) is not None:
                parsed.spans.setdefault(node, []).append(span)
    parsed.files = tables.closed()
    return parsed


def _where(error: Exception) -> str:
    """The places in the code that an error passed, the last first; nothing of what it says."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return ", ".join(f"in {f.name} ({Path(f.filename).name}:{f.lineno})" for f in frames)


def _without_repeated(lines: pa.RecordBatch, seen: set[str]) -> pa.RecordBatch:
    """The lines but for copies of others here or before; ``seen`` takes in their ids."""
    ids = lines.column("line_id").to_pylist()
    here = set(ids)
    if len(here) < len(ids) or not here.isdisjoint(seen):
        first = {line_id: at for at, line_id in reversed([*enumerate(ids)]) if line_id not in seen}
        lines = lines.take(pa.array(sorted(first.values()), pa.int64()))
    seen |= here
    return lines


def _span(lines: pa.RecordBatch) -> Span | None:
    times = pc.min_max(pc.struct_field(lines.column("request"), "completed_at").cast(pa.int64()))
    first, last = times.as_py().values()
    return None if first is None else (first, last)


def note(
    parsed: Parsed,
    part: ParsedRange,
    read: Mapping[str, Lines],
    lines: pa.RecordBatch,
    kept: pa.RecordBatch,
) -> None:
    """Adds what was read of a range, by file, what was parsed of that, and what is kept of it."""
    for source_file, of_file in read.items():
        file = (part.file.recording, part.file.node_id, source_file)
        others = of_file.others.total()
        counts = Counts(other=others, physical=of_file.physical, outside=of_file.outside)
        parsed.counts[file] = parsed.counts.get(file, Counts()) + counts
        for logger, count in of_file.others.items():
            parsed.loggers[part.file.recording, logger] += count
    _note_unread(parsed, part, lines)
    is_request = kept.column("request").is_valid().to_numpy(zero_copy_only=False)
    kept_rows = _rows_of_files(kept)
    # Of all lines, since it depends on the number of tasks which copies are dropped here.
    times = _times(lines)
    for source_file, rows in _rows_of_files(lines).items():
        file = (part.file.recording, part.file.node_id, source_file)
        mine = is_request[kept_rows.get(source_file, slice(0))]
        parsed.counts[file] = parsed.counts.get(file, Counts()) + Counts(
            requests=int(mine.sum()),
            rejected=int((~mine).sum()),
            repeated=rows.stop - rows.start - len(mine),
        )
        known = parsed.times.get(file, Times())
        parsed.times[file] = known.with_other(Times(*(of(rows) for of in times)))
    parsed.newer_versions += newer_versions(kept.column("request"))
    parsed.senders.update(senders_of(kept))


def _note_unread(parsed: Parsed, part: ParsedRange, lines: pa.RecordBatch) -> None:
    rejected = lines.column("rejected")
    if rejected.null_count == len(rejected):
        return
    for row in lines.filter(rejected.is_valid()).to_pylist():
        line = Unread.of(row)
        parsed.unread.setdefault((row["recording"], line.reason), line)
        if part.is_unsure:
            file = (part.file.recording, part.file.node_id, line.source_file)
            parsed.unsound.setdefault(file, line.line_number)


def _rows_of_files(lines: pa.RecordBatch) -> dict[str, slice]:
    """Finds the rows of each file, which follow one another."""
    runs = pc.run_end_encode(lines.column("source_file"))
    ends = runs.run_ends.to_pylist()
    starts = [0, *ends[:-1]]
    return dict(zip(runs.values.to_pylist(), map(slice, starts, ends), strict=True))


def _times(lines: pa.RecordBatch) -> list[Callable[[slice], Any]]:
    """The fields of ``Times``, each of any slice of the lines."""
    lengths = (pc.list_value_length(lines.column(name)) for name in _LISTS_OF_EVENTS)
    has_events = [pc.fill_null(pc.greater(length, 0), False) for length in lengths]
    has_events += [lines.column(name).is_valid() for name in _EVENTS]
    received, completed = (
        pc.struct_field(lines.column("request"), name).cast(pa.int64())
        for name in ("received_at", "completed_at")
    )
    of_events = pc.if_else(reduce(pc.or_, has_events), received, None)
    return [
        lambda rows: pc.min(received[rows]).as_py(),
        lambda rows: pc.max(completed[rows]).as_py(),
        lambda rows: pc.min(of_events[rows]).as_py(),
        lambda rows: _ends(completed[rows].drop_null()),
        lambda rows: has_step(completed[rows].drop_null()),
    ]


def _ends(times: pa.Array) -> tuple[int, ...]:
    return (*times[:1].to_pylist(), *times[-1:].to_pylist())


def tasks_of(
    ranges: Sequence[ParsedRange],
    count: int,
    files: TableFiles,
    line_bytes_max: int,
    pseudonyms: Pseudonyms | None = None,
) -> list[ParseTask]:
    """Cuts ranges, in their order, into at most ``count`` tasks of about as many bytes each."""
    total = sum(part.end - part.start for part in ranges)
    tasks: dict[int, list[ParsedRange]] = {}
    done = 0
    for part in ranges:
        middle = done + (part.end - part.start) / 2
        done += part.end - part.start
        tasks.setdefault(min(int(middle * count / total), count - 1), []).append(part)
    return [
        ParseTask(
            number,
            replace(files, name=f"{files.name}-{number:05d}"),
            tuple(joined(task)),
            line_bytes_max,
            pseudonyms,
        )
        for number, task in enumerate(tasks.values())
    ]


# --- tables of wide rows


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
    whole = {"request_id": "line_id"}  # a line is named so in most tables
    columns = [
        own[name] if name in own else lines.column(whole.get(name, name)).take(parents)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
