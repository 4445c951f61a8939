"""Runs one task of ingest: byte ranges in, Parquet files of all tables out.

Rows never leave the worker but as files. What the driver gets is what it needs to commit them and
to be sure that no line is in them twice: counts, statistics, and the span of time of each batch of
lines. A task drops lines that it has read before; what others have read, ``second_parse`` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.line_accounting import Counts, FileKey, NodeKey, Times, has_step
from kip_replay.pipelines.ingest.log_bytes import LogBytes, line_batches
from kip_replay.pipelines.ingest.survey import ParsedRange
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.kafka.messages import FETCH, newer_versions
from kip_replay.replay.kafka.request_log import LineParser, RejectReason, Rows
from kip_replay.replay.kafka.request_log.layouts import LineReader, Lines
from kip_replay.replay.kafka.request_log.layouts.reader import LINE_BYTES_MAX
from kip_replay.replay.kafka.request_log.line import Unreadable
from kip_replay.replay.log_tables import LINE_TABLES

TOPIC_FETCH, METADATA_FETCH = "successful topic FETCH", "successful metadata FETCH"
_TO_VOTERS = pa.array(["BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH", "VOTE"])
#: Requests by recording, node, API, and the node that sent them (-1 for clients).
Senders = Counter[tuple[str, int, str, int]]
#: Lines parsed at once: what is read of them costs memory several times.
_BATCH_BYTES = 16 << 20
_BATCH_LINES = 1 << 15
#: Small files are parsed together up to this many bytes: a batch takes as long as 50 lines
_TOGETHER_BYTES = 1 << 20


def joined(ranges: Sequence[ParsedRange], bytes_max: int | None = None) -> list[ParsedRange]:
    """Returns ranges, those joined that continue one another in a file."""
    whole: list[ParsedRange] = []
    for part in ranges:
        before = whole[-1] if whole else None
        if (
            before is not None
            and (before.file, before.end) == (part.file, part.start)
            and (bytes_max is None or part.end - before.start <= bytes_max)
        ):
            whole[-1] = replace(before, end=part.end)
        else:
            whole.append(part)
    return whole


def together(ranges: Sequence[ParsedRange]) -> Iterator[list[ParsedRange]]:
    """Yields ranges in their order, those of small files of a node with the ones that follow."""
    batch: list[ParsedRange] = []
    for part in ranges:
        whole_bytes = sum(other.end - other.start for other in (*batch, part))
        if batch and (whole_bytes > _TOGETHER_BYTES or not _are_alike(part, batch[-1])):
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def _are_alike(part: ParsedRange, other: ParsedRange) -> bool:
    """Returns whether one parser gives both their times, and damage can be in neither."""
    files = (part.file, other.file)
    nodes = {(f.recording, f.node_id, f.timezone, f.clock_offset_ms) for f in files}
    is_apart = any(p.second_pass_line is not None or p.is_unsure for p in (part, other))
    return len(nodes) == 1 and not is_apart


def parse_together(
    parts: Sequence[ParsedRange], line_bytes_max: int = LINE_BYTES_MAX
) -> Iterator[tuple[Rows, dict[str, Lines]]]:
    """Yields the rows of ranges that are parsed together, batch by batch.

    Beside them the lines by source file, for what else they count.
    """
    first = parts[0].file
    node = first.recording, first.node_id, first.timezone
    parser = LineParser(*node, clock_offset_ms=first.clock_offset_ms)
    read = (
        (part.file.source_file, lines)
        for part in parts
        for lines in _lines_of(part, line_bytes_max)
    )
    for batch in [[*read]] if len(parts) > 1 else ([of_file] for of_file in read):
        whole, names, of_files = Lines(), list[str](), dict[str, Lines]()
        for source_file, lines in batch:
            whole.add(lines)
            names += [source_file] * len(lines.lines)
            of_files.setdefault(source_file, Lines()).add(lines)
        yield parser.parse_batch(whole, names, parts[0].second_pass_line), of_files


def _lines_of(part: ParsedRange, line_bytes_max: int) -> Iterator[Lines]:
    """Yields the lines of a range, with what is known of them by then."""
    reader = LineReader(part.file.timezone, part.framing, line_bytes_max)
    chunks = LogBytes(part.file.path, part.start, part.end).chunks()
    number, strays = part.first_line_number, dict(part.strays)
    for lines in line_batches(chunks, line_bytes_max, _BATCH_BYTES, _BATCH_LINES):
        yield _judged(reader.read(lines, number), strays, part.sound_until)
        number += len(lines)
    if (rest := reader.ended()) != Lines():
        yield _judged(rest, strays, part.sound_until)


def _judged(lines: Lines, strays: Mapping[int, str], sound_until: int | None) -> Lines:
    """Returns lines, the stray ones and those behind damage rejected."""
    for at, number in enumerate(lines.numbers if strays or sound_until else ()):
        if number in strays:
            lines.rejections.setdefault(at, Unreadable(RejectReason.stray_stamp, strays[number]))
        if sound_until is not None and number > sound_until:
            lines.rejections.setdefault(at, Unreadable(RejectReason.after_damage))
    return lines


# --- the task

#: First and last microsecond (UTC, since 1970) of something, both included.
Span = tuple[int, int]


def hull(spans: Sequence[Span]) -> Span:
    """Returns the least span that has all of these."""
    return min(first for first, _ in spans), max(last for _, last in spans)


#: The requests whose time decides what a replay by increments has seen.
_EVENTS = (
    *("fetches", "produces", "broker_heartbeats", "metadata_writes", "producer_ids"),
    *("isr_changes", "configs", "metadata_offsets"),
)


@dataclass(frozen=True)
class ParseTask:
    """Ranges to be parsed by one task, in the order of files and lines; ``files`` takes the rows.

    ``repeated``: ids of lines that are read elsewhere too, where they stay.
    """

    number: int
    files: TableFiles
    ranges: tuple[ParsedRange, ...]
    line_bytes_max: int
    repeated: frozenset[str] = frozenset()


@dataclass
class Parsed:
    """Holds what a task has done. ``counts`` are of the lines it has read, by file.

    ``spans``: first and last completion in each batch of requests, UTC microseconds since 1970.
    ``newer_versions`` counts requests that the message schemas do not know, by API key and version.
    ``unread``: of each recording and reason, the first line that cannot be read. ``unsound``: the
    first of a damaged file whose lines may be altered.
    """

    task: int
    files: list[DataFile] = field(default_factory=list)
    spans: dict[NodeKey, list[Span]] = field(default_factory=dict)
    counts: dict[FileKey, Counts] = field(default_factory=dict)
    times: dict[FileKey, Times] = field(default_factory=dict)
    newer_versions: Counter[tuple[int, int]] = field(default_factory=Counter)
    senders: Senders = field(default_factory=Counter)
    unread: dict[tuple[str, str], Unread] = field(default_factory=dict)
    unsound: dict[FileKey, int] = field(default_factory=dict)


class Unread(NamedTuple):
    """A line that cannot be read: where it is, and what it is."""

    source_file: str
    line_number: int
    reason: str
    detail: str | None
    line: str | None


def parse_task(task: ParseTask) -> Parsed:
    """Parses the ranges and writes the files. Raises UserError."""
    try:
        return _parsed(task)
    except OSError as error:
        raise UserError(
            f"a log or the warehouse failed while lines were parsed ({error}): correct that and "
            "run this again"
        ) from None


def _parsed(task: ParseTask) -> Parsed:
    parsed = Parsed(task.number)
    tables = task.files
    seen: dict[NodeKey, set[str]] = {}
    for parts in together(task.ranges):
        part = parts[0]
        node = (part.file.recording, part.file.node_id)
        for rows, read in parse_together(parts, task.line_bytes_max):
            kept = _without_repeated(rows, seen.setdefault(node, {*task.repeated}))
            note(parsed, part, read, rows, kept)
            for table in LINE_TABLES:
                tables.write(table, kept[table.name])
            times = pc.min_max(kept["requests"].column("completed_at").cast(pa.int64()))
            first, last = times.as_py().values()
            if first is not None:
                parsed.spans.setdefault(node, []).append((first, last))
    parsed.files = tables.closed()
    return parsed


def _without_repeated(rows: Rows, seen: set[str]) -> Rows:
    """Returns rows without those of lines that were seen; adds the ids of all to ``seen``."""
    ids = rows["lines"].column("request_id").to_pylist()
    here = set(ids)
    if len(here) < len(ids) or not here.isdisjoint(seen):
        first = {line_id: at for at, line_id in reversed([*enumerate(ids)]) if line_id not in seen}
        positions = pa.array(sorted(first.values()), pa.int64())
        rows = {
            name: of_table.filter(pc.is_in(of_table.column("position"), positions))
            for name, of_table in rows.items()
        }
    seen |= here
    return rows


def note(
    parsed: Parsed, part: ParsedRange, read: Mapping[str, Lines], rows: Rows, kept: Rows
) -> None:
    """Adds what was read of a range, by file, what was parsed of that, and what is kept of it."""
    node = part.file.recording, part.file.node_id
    lines, requests, rejected = (
        Counter(kept[name].column("source_file").to_pylist())
        for name in ("lines", "requests", "rejected_lines")
    )
    for source_file, of_file in read.items():
        counts = Counts(
            requests=requests[source_file],
            rejected=rejected[source_file],
            repeated=len(of_file.lines) - lines[source_file],
            other=of_file.others.total(),
            physical=of_file.physical,
            outside=of_file.outside,
        )
        file = (*node, source_file)
        parsed.counts[file] = parsed.counts.get(file, Counts()) + counts
    # Of all lines, since it depends on the number of tasks which copies are dropped here.
    for source_file, times in _times(rows):
        file = (*node, source_file)
        parsed.times[file] = parsed.times.get(file, Times()).with_other(times)
    for row in rows["rejected_lines"].to_pylist():
        line = Unread(*(row[name] for name in Unread._fields))
        parsed.unread.setdefault((part.file.recording, line.reason), line)
        if part.is_unsure:
            parsed.unsound.setdefault((*node, line.source_file), line.line_number)
    parsed.newer_versions += newer_versions(kept["requests"])
    parsed.senders.update(_senders_of(kept, node))


def _senders_of(rows: Rows, node: tuple[str, int]) -> Senders:
    """Counts the requests of a node's lines by who sent them, without failed FETCHes."""
    requests, fetches = rows["requests"], rows["fetches"]
    responses = fetches.column("response_partitions")
    is_error = pc.not_equal(pc.struct_field(responses.flatten(), "error_code"), 0)
    is_ok = pc.fill_null(pc.equal(fetches.column("error_code"), 0), True).to_numpy(False)
    is_ok[pc.list_parent_indices(responses).filter(is_error).to_numpy()] = False
    fetches = fetches.filter(pa.array(is_ok))
    fetched = pc.if_else(fetches.column("is_cluster_metadata"), METADATA_FETCH, TOPIC_FETCH)
    requests = requests.filter(pc.not_equal(requests.column("api_key"), FETCH.key))
    api, client = requests.column("api_name"), requests.column("client_id")
    voter = pc.if_else(pc.is_in(api, _TO_VOTERS), client, None)
    voter = pc.struct_field(pc.extract_regex(voter, r"^raft-client-(?P<id>\d{1,9})$"), "id")
    apis = pa.chunked_array([fetched.fill_null("FETCH"), api.fill_null("")])
    senders = pa.chunked_array([fetches.column("replica_id"), voter.cast("int32")]).fill_null(-1)
    sent = pa.table({"api": apis, "sender": senders}).group_by(["api", "sender"])
    counts = sent.aggregate([([], "count_all")]).select(["api", "sender", "count_all"]).to_pylist()
    return Counter({(*node, *key): count for *key, count in map(dict.values, counts)})


def _times(rows: Rows) -> Iterator[tuple[str, Times]]:
    """Yields the times of each file, whose requests follow one another."""
    requests = rows["requests"]
    events = pa.chunked_array([rows[name].column("position") for name in _EVENTS])
    is_event = pc.is_in(requests.column("position"), events).to_numpy(zero_copy_only=False)
    received, completed = (
        requests.column(name).cast(pa.int64()).to_numpy()
        for name in ("received_at", "completed_at")
    )
    runs = pc.run_end_encode(requests.column("source_file"))
    of_files = zip(runs.values.to_pylist(), pairwise([0, *runs.run_ends.to_pylist()]), strict=True)
    for source_file, (begin, end) in of_files:
        of_events = received[begin:end][is_event[begin:end]]
        yield (
            source_file,
            Times(
                int(received[begin:end].min()),
                int(completed[begin:end].max()),
                int(of_events.min()) if len(of_events) else None,
                (int(completed[begin]), int(completed[end - 1])),
                has_step(completed[begin:end]),
            ),
        )


def tasks_of(
    ranges: Sequence[ParsedRange],
    count: int,
    files: TableFiles,
    line_bytes_max: int,
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
        )
        for number, task in enumerate(tasks.values())
    ]
