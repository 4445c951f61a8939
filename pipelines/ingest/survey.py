"""What a log file is made of, before a line of it is parsed: what is new in it, and where to cut.

A survey reads the file once, in chunks, and learns what parsing in parallel needs: its size, its
content hash, its number of lines (so that line accounting can be checked against an independent
count), its first and last stamp, the line at which an ambiguous hour of autumn begins again, and
byte ranges of whole lines that can be parsed apart, each with the number of its first line.

Files grow, are renamed and compressed
--------------------------------------
What has been read of a node is known by its *content*: uncompressed length and hash, whatever the
file was called. Passing those places, the survey compares; the longest content that the file begins
with is not parsed again. So a file that grew is read from where it ended, one that
was rotated or compressed since not at all, and one that was cut or replaced anew.

A last line without its line end may be half written. Unless the file is ``final``, it is
left for a later run, but for a whole request line, which ends as such lines do.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.log_bytes import LogBytes, is_gzip, split_lines
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.replay.kafka.request_log import (
    LocalTime,
    Pseudonyms,
    fold_boundary,
    has_ambiguous_hour,
    stamp_of,
)
from kip_replay.replay.kafka.request_log.line import LOGGER, MARKER
from kip_replay.replay.kafka.request_log.local_time import parse_local
from kip_replay.replay.kafka.request_log.reasons import Unreadable

#: Files can be parsed in ranges of about this size.
RANGE_BYTES = 8 << 20
CONTENT_HASH_BYTES = 16

_STAMP = re.compile(rb"\n\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
#: Of one chunk kept for the next, so that a stamp, a marker or the logger's name across the border
#: is seen.
_OVERLAP_BYTES = 32
#: Above this span of days a file is read for its fold at once instead of searching the calendar.
_CALENDAR_DAYS_MAX = 800


@dataclass(frozen=True, order=True)
class Content:
    """The first bytes of some file of a node, which have been read: how many, and their hash."""

    bytes: int
    content_hash: str


@dataclass(frozen=True)
class ByteRange:
    """Uncompressed bytes [start, end) of a file, whole lines."""

    start: int
    end: int
    first_line_number: int


@dataclass(frozen=True)
class Survey:
    """What a pass over a file has learned. Bytes are uncompressed, stamps as they stand there.

    To be read are the bytes [first_byte, end): ``lines`` lines, in ``ranges``; what is before is
    known, what comes after is half a line. ``content_hash`` is of the bytes [0, end).
    ``second_pass_line``: first line whose ambiguous stamps are the second pass, None if none are;
    ``fold_is_known`` is False where the file holds ambiguous stamps and does not show which pass.
    ``damage`` completes a sentence that begins with the file's name.
    """

    file: LogFile
    is_gzip: bool
    content_hash: str
    first_byte: int
    end: int
    left_bytes: int
    lines: int
    is_known: bool
    has_requests: bool
    first_stamp: bytes | None
    last_stamp: bytes | None
    second_pass_line: int | None
    fold_is_known: bool
    damage: str | None
    ranges: tuple[ByteRange, ...]

    @property
    def bytes_read(self) -> int:
        """Bytes that are new."""
        return self.end - self.first_byte


def survey(
    file: LogFile,
    range_bytes: int = RANGE_BYTES,
    known: Collection[Content] = (),
    final: bool = True,
    pseudonyms: Pseudonyms | None = None,
) -> Survey:
    """Reads the file once (twice where its span holds an ambiguous hour), a chunk at a time.

    ``known`` is what has been read of the node. With ``pseudonyms``, contents are hashed with its
    key: of a short log a guess could be confirmed otherwise. Raises UserError if the file cannot be
    opened or read.
    """
    try:
        return _survey(file, range_bytes, known, final, pseudonyms)
    except OSError as error:
        raise UserError(
            f"{file.source_file} of recording {file.recording!r} cannot be read "
            f"({error.strerror or error}): correct its rights or its name"
        ) from None


def survey_or_error(
    file: LogFile,
    range_bytes: int,
    known: Mapping[tuple[str, int], Collection[Content]],
    final: bool,
    pseudonyms: Pseudonyms | None,
) -> Survey | UserError:
    """The same for a Spark task, out of which an exception would come as a trace of the JVM."""
    try:
        known_here = known[file.recording, file.node_id]
        return survey(file, range_bytes, known_here, final, pseudonyms)
    except UserError as error:
        return error


def _survey(
    file: LogFile,
    range_bytes: int,
    known: Collection[Content],
    final: bool,
    pseudonyms: Pseudonyms | None,
) -> Survey:
    log = LogBytes(file.path)
    contents, stamps = _Contents(known, pseudonyms), _Stamps()
    splits = _Splits(range_bytes, {content.bytes for content in known})
    has_requests = False
    before = b"\n"
    for chunk in log.chunks():
        border = before + chunk[:_OVERLAP_BYTES]
        contents.see(chunk)
        splits.see(chunk)
        has_requests = has_requests or MARKER in border or MARKER in chunk
        stamps.see(border, chunk)
        before = (before + chunk[-_OVERLAP_BYTES:])[-_OVERLAP_BYTES:]
    is_whole = final or before.removesuffix(b"\r").endswith(LOGGER)
    end = max(splits.bytes_seen if is_whole else splits.line_start, contents.longest)
    first_byte = contents.longest
    if 0 < first_byte < end and splits.is_in_line(first_byte):
        first_byte += _line_end_bytes(file.path, first_byte)
    second_pass_line, fold_is_known = _fold(file, stamps)
    return Survey(
        file=file,
        is_gzip=is_gzip(file.path),
        content_hash=contents.hash_of(end),
        first_byte=first_byte,
        end=end,
        left_bytes=splits.bytes_seen - end,
        lines=splits.lines(first_byte, end),
        is_known=contents.is_known(end),
        has_requests=has_requests,
        first_stamp=stamps.first,
        last_stamp=stamps.last,
        second_pass_line=second_pass_line,
        fold_is_known=fold_is_known,
        damage=log.damage,
        ranges=splits.ranges(first_byte, end),
    )


def _line_end_bytes(path: str, at: int) -> int:
    """Of a line that was read without it, the line end that has been written since."""
    written = b"".join(LogBytes(path, at, at + 2).chunks())
    return next((len(end) for end in (b"\r\n", b"\n") if written.startswith(end)), 0)


class _Contents:
    """Hashes a file as it goes by, and compares where known contents end."""

    def __init__(self, known: Collection[Content], pseudonyms: Pseudonyms | None) -> None:
        self._known = frozenset(known)
        self._sizes = sorted({content.bytes for content in known})
        self._digest = (
            pseudonyms.content_digest()
            if pseudonyms
            else hashlib.blake2b(digest_size=CONTENT_HASH_BYTES)
        )
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
        """Of the bytes [0, end): all of them, or those of whole lines."""
        return (self._digest if end == self._seen else self._at_line_start).hexdigest()

    def is_known(self, end: int) -> bool:
        """Whether all that is to be read has been."""
        return self.longest == end and (end > 0 or Content(0, self.hash_of(0)) in self._known)


class _Stamps:
    """The first and the last stamp at the beginning of a line."""

    def __init__(self) -> None:
        self.first: bytes | None = None
        self.last: bytes | None = None

    def see(self, border: bytes, chunk: bytes) -> None:
        """``border``: the last bytes before the chunk and its first ones."""
        if self.first is None:
            match = _STAMP.search(border) or _STAMP.search(chunk)
            self.first = match.group(1) if match else None
        self.last = _last_stamp(chunk) or _last_stamp(border) or self.last


def _last_stamp(text: bytes) -> bytes | None:
    # From the end: nearly always one step, where a search from the front reads the chunk.
    at = text.rfind(b"\n[")
    while at >= 0:
        match = _STAMP.match(text, at)
        if match:
            return match.group(1)
        at = text.rfind(b"\n[", 0, at)
    return None


class _Splits:
    """Counts bytes and lines, and notes where a range of about ``range_bytes`` can end.

    Also notes how many lines end before each of ``places``, at which reading may begin.
    """

    def __init__(self, range_bytes: int, places: Collection[int]) -> None:
        self._range_bytes = range_bytes
        self._starts = [(0, 1)]
        self._line_ends = 0
        self._places = sorted(places)
        self._line_ends_before = {0: 0}
        self._in_line: set[int] = set()
        self.bytes_seen = 0
        #: Where the last line begins that has no end yet.
        self.line_start = 0

    def see(self, chunk: bytes) -> None:
        self._note_places(chunk)
        counted = 0
        while True:
            wanted = self._starts[-1][0] + self._range_bytes - self.bytes_seen
            # The LF that ends the line which holds the byte before ``wanted``.
            line_end = chunk.find(b"\n", max(wanted - 1, counted)) if wanted <= len(chunk) else -1
            if line_end < 0:
                break
            self._line_ends += chunk.count(b"\n", counted, line_end + 1)
            counted = line_end + 1
            self._starts.append((self.bytes_seen + counted, self._line_ends + 1))
        self._line_ends += chunk.count(b"\n", counted)
        last = chunk.rfind(b"\n")
        if last >= 0:
            self.line_start = self.bytes_seen + last + 1
        self.bytes_seen += len(chunk)

    def _note_places(self, chunk: bytes) -> None:
        first = bisect_right(self._places, self.bytes_seen)
        for place in self._places[first:]:
            at = place - self.bytes_seen
            if at > len(chunk):
                break
            self._line_ends_before[place] = self._line_ends + chunk.count(b"\n", 0, at)
            if chunk[at - 1 : at] != b"\n":
                self._in_line.add(place)

    def is_in_line(self, place: int) -> bool:
        """Whether the byte before is no line end."""
        return place in self._in_line

    def lines(self, start: int, end: int) -> int:
        """Lines of [start, end), the last one also where it has no line end.

        ``end`` is where the file ends, or its last line begins.
        """
        return self._line_ends - self._before(start) + (end > max(self.line_start, start))

    def ranges(self, start: int, end: int) -> tuple[ByteRange, ...]:
        """Ranges that cover [start, end)."""
        first = (start, self._before(start) + 1)
        starts = [first, *(place for place in self._starts if start < place[0] < end)]
        ends = [place for place, _ in starts[1:]] + [end]
        return tuple(
            ByteRange(start, end, first_line_number)
            for (start, first_line_number), end in zip(starts, ends, strict=True)
            if start < end
        )

    def _before(self, start: int) -> int:
        """Lines that end before a place, or before the line end that stands there."""
        if start in self._line_ends_before:
            return self._line_ends_before[start]
        return self._line_ends_before[max(p for p in self._line_ends_before if p < start)] + 1


def _fold(file: LogFile, stamps: _Stamps) -> tuple[int | None, bool]:
    """First line of the second pass, and whether the file shows it."""
    if stamps.first is None or stamps.last is None:
        return None, True
    if not _may_be_ambiguous(file.timezone, stamps.first, stamps.last):
        return None, True
    boundary = fold_boundary(_numbered_stamps(file.path), file.timezone)
    return boundary.changes_at_line, boundary.decided


def _may_be_ambiguous(timezone: str, first: bytes, last: bytes) -> bool:
    try:
        if abs(parse_local(last) - parse_local(first)).days > _CALENDAR_DAYS_MAX:
            return True
        return has_ambiguous_hour(timezone, first, last)
    except Unreadable:
        return True


def _numbered_stamps(path: str) -> Iterator[tuple[int, bytes]]:
    # A line too long to parse is too long for its stamp to matter.
    lines = split_lines(LogBytes(path).chunks(), line_bytes_max=RANGE_BYTES)
    for line_number, line in enumerate(lines, start=1):
        stamp = stamp_of(line) if isinstance(line, bytes) else None
        if stamp is not None:
            yield line_number, stamp


def span_us(surveys: Iterable[Survey]) -> tuple[int, int] | None:
    """First and last stamp of some files of one zone, UTC microseconds since 1970."""
    times: list[int] = []
    for of_file in surveys:
        local_time = LocalTime(of_file.file.timezone, of_file.file.clock_offset_ms)
        begins_late = of_file.second_pass_line == 1
        ends_late = of_file.second_pass_line is not None
        for stamp, second_pass in (
            (of_file.first_stamp, begins_late),
            (of_file.last_stamp, ends_late),
        ):
            if stamp is not None:
                try:
                    times.append(local_time.microseconds(stamp, second_pass))
                except Unreadable:
                    continue
    return (min(times), max(times)) if times else None


def by_node(surveys: Iterable[Survey]) -> dict[int, list[Survey]]:
    """Surveys of one recording by node id."""
    nodes: dict[int, list[Survey]] = {}
    for of_file in surveys:
        nodes.setdefault(of_file.file.node_id, []).append(of_file)
    return nodes
