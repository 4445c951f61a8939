"""Which log files a recording has, and what each is made of, before a line of it is parsed.

``find_log_files`` turns the manifest's file names, globs and folders into files. ``survey`` reads
each once, in chunks, and learns what parsing in parallel needs: its size, its content hash (is it
known already?), its number of lines (so that the books can be checked against somebody else's
count), its first and last stamp, the line at which an ambiguous hour of autumn begins again, and
for plain files the byte ranges that can be parsed apart, each with the number of its first line. A
gzip stream cannot be entered in the middle and is one range.

A name in the manifest stands for itself: rotated siblings (``kafka-request.log.2026-11-20-20``) are
read where the manifest gives a glob (``kafka-request.log*``) or a folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import UserError
from pipelines.log_bytes import LogBytes, is_gzip, split_lines
from pipelines.recording import Node, Recording
from replay.request_log import LocalTime, fold_boundary, has_ambiguous_hour, stamp_of
from replay.request_log.line import MARKER
from replay.request_log.local_time import parse_local
from replay.request_log.reasons import Unreadable

#: Plain files are parsed in ranges of about this size.
RANGE_BYTES = 32 << 20
CONTENT_HASH_BYTES = 16

_GLOB_CHARACTERS = frozenset("*?[")
#: What a folder stands for: Kafka's own name first, else whatever looks like a log.
_FOLDER_GLOBS = ("kafka-request.log*", "*.log*")
_STAMP = re.compile(rb"(?:\A|\n)\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
#: Of one chunk kept for the next, so that a stamp or a marker across the border is seen.
_OVERLAP_BYTES = 32
#: Above this span of days a file is read for its fold at once instead of asked the calendar.
_CALENDAR_DAYS_MAX = 800


@dataclass(frozen=True)
class LogFile:
    """A log file of a node. ``source_file`` is its name within its recording."""

    recording: str
    node_id: int
    timezone: str
    source_file: str
    path: str


@dataclass(frozen=True)
class ByteRange:
    """Bytes [start, end) of a plain file, whole lines; a gzip file is one range with no end."""

    start: int
    end: int | None
    first_line_number: int


@dataclass(frozen=True)
class Survey:
    """What a pass over a file has learned. Bytes are uncompressed, stamps as they stand there.

    ``second_pass_line``: first line whose ambiguous stamps are the second pass, None if none are;
    ``fold_is_known`` is False where the file holds ambiguous stamps and does not tell which pass.
    ``damage`` completes a sentence that begins with the file's name.
    """

    file: LogFile
    content_hash: str
    bytes_read: int
    lines: int
    has_requests: bool
    first_stamp: bytes | None
    last_stamp: bytes | None
    second_pass_line: int | None
    fold_is_known: bool
    damage: str | None
    ranges: tuple[ByteRange, ...]


def find_log_files(recording: Recording) -> list[LogFile]:
    """The recording's files, by node and name.

    Raises UserError where a node has no file or where two nodes claim one.
    """
    files = [file for node in recording.nodes for file in _files_of(node, recording)]
    owners: dict[str, int] = {}
    for file in files:
        owner = owners.setdefault(file.path, file.node_id)
        if owner != file.node_id:
            raise UserError(
                f"{file.source_file} of recording {recording.name!r} is given as the log of node "
                f"{owner} and of node {file.node_id}: a request log is one node's, correct the "
                "manifest's 'log' or --node"
            )
    return files


def _files_of(node: Node, recording: Recording) -> list[LogFile]:
    found: dict[str, str] = {}
    for log in node.log:
        base = recording.path if recording.path is not None else Path.cwd()
        matches = list(_matches(base, log))
        if not matches:
            raise UserError(
                f"node {node.node_id} of recording {recording.name!r} has no log: nothing there "
                f"matches {log!r}, correct its 'log' in the manifest or pass --node "
                f"{node.node_id}=PATH"
            )
        for path in matches:
            found[str(path.resolve())] = _name_within(path, base, log)
    return [
        LogFile(recording.name, node.node_id, node.timezone, source_file, path)
        for path, source_file in sorted(found.items(), key=lambda item: item[1])
    ]


def _matches(base: Path, log: str) -> Iterator[Path]:
    """Files for a name, a glob or a folder, relative to ``base`` or absolute."""
    path = base / log
    if path.is_file():
        yield path
    elif path.is_dir():
        for pattern in _FOLDER_GLOBS:
            in_folder = _globbed(path, pattern)
            if in_folder:
                yield from in_folder
                return
    elif _is_glob(log):
        absolute = Path(log).is_absolute()
        root = Path(path.anchor) if absolute else base
        yield from _globbed(root, str(path.relative_to(root)) if absolute else log)


def _globbed(folder: Path, pattern: str) -> list[Path]:
    return sorted(
        path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith(".")
    )


def _is_glob(text: str) -> bool:
    return not _GLOB_CHARACTERS.isdisjoint(text)


def _name_within(path: Path, base: Path, log: str) -> str:
    """Relative to the recording's folder, or to the folder that ``log`` names outside of it."""
    if path.is_relative_to(base):
        return path.relative_to(base).as_posix()
    folder = base / log
    if not folder.is_dir():
        fixed = [part for part in Path(log).parts[:-1] if not _is_glob(part)]
        folder = base.joinpath(*fixed) if fixed else base
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


def survey(file: LogFile, range_bytes: int = RANGE_BYTES) -> Survey:
    """Reads the file once (twice where its span holds an ambiguous hour), a chunk at a time.

    Raises UserError if the file cannot be opened or read.
    """
    try:
        return _survey(file, range_bytes)
    except OSError as error:
        raise UserError(
            f"{file.source_file} of recording {file.recording!r} cannot be read "
            f"({error.strerror or error}): correct its rights or its name"
        ) from None


def _survey(file: LogFile, range_bytes: int) -> Survey:
    log = LogBytes(file.path)
    digest = hashlib.blake2b(digest_size=CONTENT_HASH_BYTES)
    stamps = _Stamps()
    splits = _Splits(range_bytes)
    has_requests = False
    before = b""
    for chunk in log.chunks():
        digest.update(chunk)
        splits.see(chunk)
        seen = before + chunk
        has_requests = has_requests or MARKER in seen
        stamps.see(seen)
        before = seen[-_OVERLAP_BYTES:]
    second_pass_line, fold_is_known = _fold(file, stamps)
    return Survey(
        file=file,
        content_hash=digest.hexdigest(),
        bytes_read=splits.bytes_seen,
        lines=splits.lines,
        has_requests=has_requests,
        first_stamp=stamps.first,
        last_stamp=stamps.last,
        second_pass_line=second_pass_line,
        fold_is_known=fold_is_known,
        damage=log.damage,
        ranges=(ByteRange(0, None, 1),) if is_gzip(file.path) else splits.ranges(),
    )


class _Stamps:
    """The first and the last stamp at the beginning of a line."""

    def __init__(self) -> None:
        self.first: bytes | None = None
        self.last: bytes | None = None

    def see(self, chunk: bytes) -> None:
        if self.first is None:
            match = _STAMP.search(chunk)
            self.first = match.group(1) if match else None
        # From the end: nearly always one step, where a search from the front reads the chunk.
        at = chunk.rfind(b"\n[")
        while at >= 0:
            match = _STAMP.match(chunk, at)
            if match:
                self.last = match.group(1)
                return
            at = chunk.rfind(b"\n[", 0, at)
        if self.last is None:
            self.last = self.first


class _Splits:
    """Counts bytes and lines, and notes where a range of about ``range_bytes`` can end."""

    def __init__(self, range_bytes: int) -> None:
        self._range_bytes = range_bytes
        self._starts = [(0, 1)]
        self._line_ends = 0
        self._ends_in_line = False
        self.bytes_seen = 0

    @property
    def lines(self) -> int:
        """Lines so far, one under way included."""
        return self._line_ends + self._ends_in_line

    def see(self, chunk: bytes) -> None:
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
        self._ends_in_line = not chunk.endswith(b"\n")
        self.bytes_seen += len(chunk)

    def ranges(self) -> tuple[ByteRange, ...]:
        """Ranges that cover the bytes seen so far; none for an empty file."""
        starts = [start for start in self._starts if start[0] < self.bytes_seen]
        ends = [start for start, _ in starts[1:]] + [self.bytes_seen]
        return tuple(
            ByteRange(start, end, first_line_number)
            for (start, first_line_number), end in zip(starts, ends, strict=False)
        )


def _fold(file: LogFile, stamps: _Stamps) -> tuple[int | None, bool]:
    """First line of the second pass, and whether the file tells."""
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
        local_time = LocalTime(of_file.file.timezone)
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


def disk_bytes(files: Sequence[LogFile]) -> int:
    """Bytes on disk, compressed where files are. Raises UserError where one cannot be found."""
    total = 0
    for file in files:
        try:
            total += Path(file.path).stat().st_size
        except OSError as error:
            raise UserError(
                f"{file.source_file} of recording {file.recording!r} cannot be read "
                f"({error.strerror or error}): correct its rights or its name"
            ) from None
    return total
