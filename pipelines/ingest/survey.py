"""Surveys a log file before a line of it is parsed: what is new in it, and where to cut.

A survey reads the file once, in chunks: its content hash, its number of lines (so that line
accounting can be checked against an independent count), its first and last stamp, the line at which
an ambiguous hour of autumn begins again, and ranges of whole lines that can be parsed apart. For a
plan, excerpts of it are surveyed in the same way (``overview``).

What has been read of a node is known by its *content*: uncompressed length and hash, whatever the
file was called. The longest known content that a file begins with is not parsed again: one that
grew is read from where it ended, one that was rotated or compressed not at all, one that was cut
anew.

A last line without its line end may be half written. Unless the file is ``final``, it is left for a
later run, but for a whole request line, which ends as such lines do.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from kip_replay.pipelines.ingest.log_bytes import Damage, LogBytes, is_compressed, line_batches
from kip_replay.pipelines.ingest.log_files import LogFile, readable
from kip_replay.replay.kafka.request_log import (
    LocalTime,
    fold_boundary,
    has_ambiguous_hour,
    stamp_of,
)
from kip_replay.replay.kafka.request_log.layouts import WHOLE_LINES, Framing, LineReader
from kip_replay.replay.kafka.request_log.layouts.wrappers import marker_in
from kip_replay.replay.kafka.request_log.line import LOGGER, Unreadable
from kip_replay.replay.kafka.request_log.local_time import parse_local

CONTENT_HASH_BYTES = 16
#: Of one chunk kept for the next, so that a marker or the logger's name across the border is seen.
_OVERLAP_BYTES = 32
#: Kept of both ends of a file, for the first and the last stamp.
_END_BYTES = 1 << 20


@dataclass(frozen=True, order=True)
class Content:
    """The first bytes of some file of a node, which have been read: how many, and their hash."""

    bytes: int
    content_hash: str


@dataclass(frozen=True)
class ParsedRange:
    """Describes a range to a task: bytes [start, end) of a node's file, and how to read its lines.

    ``strays``: lines of the file to be rejected for their stamps, each with why. Where it
    ``is_unsure``, damage may have altered them: those after ``sound_until`` are rejected for it.
    """

    file: LogFile
    start: int
    end: int
    first_line_number: int
    second_pass_line: int | None
    framing: Framing = WHOLE_LINES
    is_unsure: bool = False
    strays: tuple[tuple[int, str], ...] = ()
    sound_until: int | None = None


@dataclass
class FileReading:
    file: LogFile
    log: LogBytes
    contents: Contents
    splits: Splits
    framing: Framing = WHOLE_LINES
    has_requests: bool = False
    start: bytes = b""
    end: bytes = b""

    def done(self) -> FileReading:
        for number, chunk in enumerate(self.log.chunks()):
            if number == 0:
                self.framing = self.file.selection.of_head(chunk)
                self.splits.begins = partial(self.framing.begins, self.file.timezone)
            self.contents.see(chunk)
            self.splits.see(chunk, self.end)
            if len(self.start) < _END_BYTES:
                self.start += chunk[: _END_BYTES - len(self.start)]
            border = self.end[-_OVERLAP_BYTES:] + chunk[:_OVERLAP_BYTES]
            self.has_requests = self.has_requests or marker_in(border) or marker_in(chunk)
            self.end = self.end[max(0, len(self.end) + len(chunk) - _END_BYTES) :] + chunk
        return self

    @property
    def open_from(self) -> int | None:
        """Finds the first line that the last whole physical line does not end."""
        lines = self.end.split(b"\n")[:-1]
        reader = LineReader(self.file.timezone, self.framing)
        reader.read(lines, 1)
        if reader.pending_number is None:
            return None
        before = lines[: reader.pending_number - 1]
        return self.splits.bytes_seen - len(self.end) + sum(len(line) + 1 for line in before)


class Contents:
    """Hashes a file as it goes by, and compares where known contents end.

    ``of_part`` says which part of its lines is read: another part is not known by this one's hash.
    """

    def __init__(self, known: Collection[Content], of_part: bytes = b"") -> None:
        self._known = frozenset(known)
        self._sizes = sorted({content.bytes for content in known})
        self._digest = hashlib.blake2b(digest_size=CONTENT_HASH_BYTES)
        self._digest.update(of_part)
        self._at_line_start = self._digest.copy()
        self._seen = 0
        #: Bytes of the longest known content that the file begins with.
        self.longest = 0

    def see(self, chunk: bytes) -> None:
        line_start = chunk.rfind(b"\n") + 1
        sizes = self._sizes[bisect_right(self._sizes, self._seen) :]
        ends = [size - self._seen for size in sizes if size - self._seen <= len(chunk)]
        view = memoryview(chunk)
        hashed = 0
        for end in sorted({*ends, line_start, len(chunk)}):
            self._digest.update(view[hashed:end])
            hashed = end
            if end == line_start and end:
                self._at_line_start = self._digest.copy()
            if Content(self._seen + end, self._digest.copy().hexdigest()) in self._known:
                self.longest = self._seen + end
        self._seen += len(chunk)

    def hash_of(self, end: int) -> str:
        """Hashes the bytes [0, end): all of them, or those of whole lines."""
        return (self._digest if end == self._seen else self._at_line_start).hexdigest()

    def is_known(self, end: int) -> bool:
        """Returns whether all that is to be read has been."""
        return self.longest == end and (end > 0 or Content(0, self.hash_of(0)) in self._known)


class Splits:
    """Counts bytes and lines, those before each of ``places`` (where reading may begin) too, and
    notes where a range of about ``range_bytes`` can end."""

    def __init__(self, range_bytes: int, places: Collection[int]) -> None:
        self._range_bytes = range_bytes
        self._starts = [(0, 1)]
        self._line_ends = 0
        self._places = sorted(places)
        self._line_ends_before = {0: 0}
        #: Those of ``places`` that are within a line.
        self.in_line: set[int] = set()
        self.bytes_seen = 0
        #: Whether a range may begin with a physical line, given what is before it.
        self.begins: Callable[[bytes, Callable[[], bytes]], bool] = lambda line, before: True
        #: Where the last line begins that has no end yet.
        self.line_start = 0

    def see(self, chunk: bytes, before: bytes = b"") -> None:
        """Counts the next bytes; ``before`` are some of those that came before."""
        self._note_places(chunk)
        counted = 0
        while True:
            wanted = self._starts[-1][0] + self._range_bytes - self.bytes_seen
            start = self._place(chunk, before, max(wanted, counted + 1))
            if start < 0:
                break
            self._line_ends += chunk.count(b"\n", counted, start)
            counted = start
            self._starts.append((self.bytes_seen + counted, self._line_ends + 1))
        self._line_ends += chunk.count(b"\n", counted)
        last = chunk.rfind(b"\n")
        if last >= 0:
            self.line_start = self.bytes_seen + last + 1
        self.bytes_seen += len(chunk)

    def _place(self, chunk: bytes, before: bytes, wanted: int) -> int:
        """Finds where in a chunk, from a byte on, a range may begin; -1 where none may."""
        at = wanted - 1
        while at < len(chunk) and (at := chunk.find(b"\n", at) + 1) > 0:
            end = chunk.find(b"\n", at)
            if end < 0:
                break
            if self.begins(chunk[at:end], partial(_last_bytes, before, chunk, at)):
                return at
        return -1

    def _note_places(self, chunk: bytes) -> None:
        first = bisect_right(self._places, self.bytes_seen)
        for place in self._places[first:]:
            at = place - self.bytes_seen
            if at > len(chunk):
                break
            self._line_ends_before[place] = self._line_ends + chunk.count(b"\n", 0, at)
            if chunk[at - 1 : at] != b"\n":
                self.in_line.add(place)

    def lines(self, start: int, end: int) -> int:
        """Counts lines of [start, end), the last one also where it has no line end."""
        return self._line_ends - self._before(start) + (end > max(self.line_start, start))

    def ranges(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Cuts [start, end) into ranges: begin, end, and number of the first line."""
        first = (start, self._before(start) + 1)
        starts = [first, *(place for place in self._starts if start < place[0] < end)]
        ends = [place for place, _ in starts[1:]] + [end]
        return [
            (start, end, first_line_number)
            for (start, first_line_number), end in zip(starts, ends, strict=True)
            if start < end
        ]

    def _before(self, start: int) -> int:
        """Counts lines that end before a place, or before the line end there."""
        if start in self._line_ends_before:
            return self._line_ends_before[start]
        return self._line_ends_before[max(p for p in self._line_ends_before if p < start)] + 1


def _last_bytes(before: bytes, chunk: bytes, end: int) -> bytes:
    return (before + chunk[:end])[-_END_BYTES:]


# --- the survey

RANGE_BYTES = 8 << 20
#: No first or last stamp is further from those beside it, but where a digit was altered.
_FAR = timedelta(days=2)
#: No zone sets its clock back by more.
_FOLD = timedelta(hours=3)


@dataclass(frozen=True)
class SurveySettings:
    """Configures a survey; conf/defaults.toml says more. ``final``: logs do not grow any more."""

    range_bytes: int = RANGE_BYTES
    final: bool = True
    gzip_ratio_max: float | None = 250.0


@dataclass(frozen=True)
class Survey:
    """Holds what a pass over a file has learned. Bytes are uncompressed, times UTC microseconds.

    To be read are the bytes [first_byte, end): ``lines`` lines, in ``ranges``; what is before is
    known, what comes after is half a line. ``content_hash`` is of the bytes [0, end).
    ``second_pass_line``: first line whose ambiguous stamps are the second pass, None if none are;
    ``fold_is_known`` is False where the file holds ambiguous stamps and does not show which pass.
    ``others``: loggers of lines that are no requests, as far as its beginning shows them.
    ``damage`` completes a sentence that begins with the file's name; the line it lies in is left.
    """

    file: LogFile
    is_compressed: bool
    content_hash: str
    first_byte: int
    end: int
    left_bytes: int
    lines: int
    is_known: bool
    has_requests: bool
    first_us: int | None
    last_us: int | None
    second_pass_line: int | None
    fold_is_known: bool
    damage: str | None
    ranges: tuple[ParsedRange, ...]
    framing: Framing
    others: Mapping[str, int]

    @property
    def bytes_read(self) -> int:
        return self.end - self.first_byte


def survey(
    file: LogFile,
    settings: SurveySettings = SurveySettings(),
    known: Mapping[tuple[str, int], Collection[Content]] | None = None,
    log: LogBytes | None = None,
) -> Survey:
    """Reads the file a chunk at a time: once, or once more where an hour may occur twice in it.

    ``known`` is what has been read of each node. ``log``: what to read instead of all. Raises
    UserError.
    """
    of_node = (known or {}).get((file.recording, file.node_id), ())

    def read(log: LogBytes) -> FileReading:
        splits = Splits(settings.range_bytes, {content.bytes for content in of_node})
        return FileReading(file, log, Contents(of_node, file.part), splits).done()

    with readable(file):
        log = log or LogBytes(file.path, ratio_max=settings.gzip_ratio_max)
        reading = read(log)
        bytes_seen, damage = reading.splits.bytes_seen, reading.log.damage
        first_stamp, last_stamp, others = _ends(reading)
        second_pass_line, fold_is_known = _fold(file, reading, first_stamp, last_stamp)
        is_whole = settings.final and damage is None
        is_read = is_whole or reading.end.removesuffix(b"\n").removesuffix(b"\r").endswith(LOGGER)
        end = bytes_seen if is_read else reading.splits.line_start
        if not settings.final and (open_from := reading.open_from) is not None:
            end = open_from
            reading = read(replace(log, end=end))
        contents, splits = reading.contents, reading.splits
        first_byte = contents.longest
        end = max(end, first_byte)
        if 0 < first_byte < end and first_byte in splits.in_line:
            first_byte += _line_end_bytes(file.path, first_byte)
        is_unsure = damage is not None and damage.is_unsure
        as_surveyed = second_pass_line, reading.framing, is_unsure
        return Survey(
            file=file,
            is_compressed=is_compressed(file.path),
            content_hash=contents.hash_of(end),
            first_byte=first_byte,
            end=end,
            left_bytes=bytes_seen - end,
            lines=splits.lines(first_byte, end),
            is_known=contents.is_known(end),
            has_requests=reading.has_requests,
            first_us=_time_us(file, first_stamp, second_pass_line == 1),
            last_us=_time_us(file, last_stamp, bool(second_pass_line)),
            second_pass_line=second_pass_line,
            fold_is_known=fold_is_known,
            damage=_where(damage, end, splits) if damage else None,
            ranges=tuple(
                ParsedRange(file, *place, *as_surveyed) for place in splits.ranges(first_byte, end)
            ),
            framing=reading.framing,
            others=others,
        )


def _where(damage: Damage, end: int, splits: Splits) -> str:
    state, line_number = "sound", splits.lines(0, end) + 1
    if damage.is_unsure:
        state = "read, though what unpacks from byte 0 on may be altered,"
    return (
        f"{damage.what} at its byte {damage.compressed_byte:,}, and is {state} up to byte {end:,} "
        f"when unpacked, where line {line_number:,} begins"
    )


def _line_end_bytes(path: str, at: int) -> int:
    """Returns the line end that was written since a line was read without it."""
    written = b"".join(LogBytes(path, at, at + 2).chunks())
    return next((len(end) for end in (b"\r\n", b"\n") if written.startswith(end)), 0)


def _ends(reading: FileReading) -> tuple[bytes | None, bytes | None, Mapping[str, int]]:
    """Returns the first and last stamp, but for those days off, and loggers of other lines."""
    framing = replace(reading.framing, since=None, until=None)
    first, last = (
        LineReader(reading.file.timezone, framing).read(ends.splitlines(), 1)
        for ends in (reading.start, reading.end)
    )
    since, until = reading.framing.since, reading.framing.until
    ends = (first.requests(), reversed(last.requests()))
    stamps = [_near(_stamps(enumerate(lines))) for lines in ends]
    first_stamp, last_stamp = (s and min(max(s, since or s), until or s) for s in stamps)
    return first_stamp, last_stamp, first.others


def _time_us(file: LogFile, stamp: bytes | None, is_second_pass: bool) -> int | None:
    local_time = LocalTime(file.timezone, file.clock_offset_ms)
    with suppress(Unreadable):
        return local_time.microseconds(stamp, is_second_pass) if stamp else None
    return None


def _near(stamps: Iterable[_Stamp]) -> bytes | None:
    """Returns the first stamp that is near the median of the first five."""
    five = list(islice(stamps, 5))
    median = sorted(near.local for near in five)[len(five) // 2] if five else None
    return next((near.stamp for near in five if median and abs(near.local - median) < _FAR), None)


def _fold(
    file: LogFile, whole: FileReading, first: bytes | None, last: bytes | None
) -> tuple[int | None, bool]:
    """Returns the first line of the second pass, and whether the file shows it."""
    is_known = first and last and not has_ambiguous_hour(file.timezone, first, last)
    if is_known or not whole.has_requests:
        return None, True
    in_place = ((s.line_number, s.local) for s in _in_place(_stamps(_requests(whole))))
    return fold_boundary(in_place, file.timezone)


def _requests(whole: FileReading) -> Iterator[tuple[int, bytes]]:
    reader = LineReader(whole.file.timezone, whole.framing)
    number = 1
    # A line too long to parse is too long for its stamp to matter.
    for lines in line_batches(replace(whole.log).chunks(), RANGE_BYTES, RANGE_BYTES, 1 << 15):
        read = reader.read(lines, number)
        number += len(lines)
        yield from (
            (number, line)
            for at, (number, line) in enumerate(zip(read.numbers, read.lines, strict=True))
            if at not in read.rejections
        )


class _Stamp(NamedTuple):
    line_number: int
    stamp: bytes
    local: datetime


def _stamps(lines: Iterable[tuple[int, bytes]]) -> Iterator[_Stamp]:
    for line_number, line in lines:
        with suppress(Unreadable):
            stamp = stamp_of(line)
            yield _Stamp(line_number, stamp, parse_local(stamp))


def _in_place(stamps: Iterable[_Stamp]) -> Iterator[_Stamp]:
    """Passes over those that are hours from both neighbours, which are not from one another."""
    before = here = None
    for after in chain(stamps, [None]):
        if here and not (
            before
            and after
            and abs(after.local - before.local) < _FOLD
            and min(abs(here.local - other.local) for other in (before, after)) > _FOLD
        ):
            yield here
        before, here = here, after


def span_us(surveys: Iterable[Survey]) -> tuple[int, int] | None:
    """Spans the stamps of some files, in UTC microseconds since 1970."""
    times = [us for of_file in surveys for us in (of_file.first_us, of_file.last_us) if us]
    return (min(times), max(times)) if times else None
