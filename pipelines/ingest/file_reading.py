"""One reading of a log file: content hashed and compared, lines counted, both ends kept."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from kip_replay.pipelines.ingest.log_bytes import LogBytes
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.replay.kafka.request_log.layouts import WHOLE_LINES, Framing, LineReader
from kip_replay.replay.kafka.request_log.layouts.wrappers import marker_in

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
class ByteRange:
    start: int
    end: int
    first_line_number: int


@dataclass
class FileReading:
    file: LogFile
    log: LogBytes
    contents: "Contents"
    splits: "Splits"
    framing: Framing = WHOLE_LINES
    has_requests: bool = False
    start: bytes = b""
    end: bytes = b""

    def done(self) -> "FileReading":
        for number, chunk in enumerate(self.log.chunks()):
            if number == 0:
                self.framing = self.file.framing(chunk)
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
        """The next bytes; ``before`` are some of those that came before."""
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
        """Lines of [start, end), the last one also where it has no line end."""
        return self._line_ends - self._before(start) + (end > max(self.line_start, start))

    def ranges(self, start: int, end: int) -> tuple[ByteRange, ...]:
        first = (start, self._before(start) + 1)
        starts = [first, *(place for place in self._starts if start < place[0] < end)]
        ends = [place for place, _ in starts[1:]] + [end]
        return tuple(
            ByteRange(start, end, first_line_number)
            for (start, first_line_number), end in zip(starts, ends, strict=True)
            if start < end
        )

    def _before(self, start: int) -> int:
        """Lines that end before a place, or before the line end there."""
        if start in self._line_ends_before:
            return self._line_ends_before[start]
        return self._line_ends_before[max(p for p in self._line_ends_before if p < start)] + 1


def _last_bytes(before: bytes, chunk: bytes, end: int) -> bytes:
    return (before + chunk[:end])[-_END_BYTES:]
