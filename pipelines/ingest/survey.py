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

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.correlation_ids import contradicted
from kip_replay.pipelines.ingest.file_reading import (
    ByteRange,
    Content,
    Contents,
    FileReading,
    Splits,
)
from kip_replay.pipelines.ingest.garbled import first_garbled_byte
from kip_replay.pipelines.ingest.log_bytes import Damage, LogBytes, is_gzip, split_lines
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.stamps import Doubt, Stamps, Stray, shown, stamp_at
from kip_replay.replay.kafka.request_log import (
    LocalTime,
    Pseudonyms,
    fold_boundary,
    has_ambiguous_hour,
    stamp_of,
)
from kip_replay.replay.kafka.request_log.line import LOGGER
from kip_replay.replay.kafka.request_log.local_time import parse_local
from kip_replay.replay.kafka.request_log.reasons import Unreadable

#: Files can be parsed in ranges of about this size.
RANGE_BYTES = 8 << 20
#: Above this span of days a file is read for its fold at once instead of searching the calendar.
_CALENDAR_DAYS_MAX = 800


@dataclass(frozen=True)
class SurveySettings:
    """Of ``IngestSettings``. ``gzip_ratio_max`` None is no limit."""

    range_bytes: int = RANGE_BYTES
    final: bool = True
    gzip_ratio_max: float | None = None
    accept_stray_stamps: bool = False


@dataclass(frozen=True)
class Survey:
    """What a pass over a file has learned. Bytes are uncompressed, stamps as they stand there.

    To be read are the bytes [first_byte, end): ``lines`` lines, in ``ranges``; what is before is
    known, what comes after is half a line. ``content_hash`` is of the bytes [0, end).
    ``second_pass_line``: first line whose ambiguous stamps are the second pass, None if none are;
    ``fold_is_known`` is False where the file holds ambiguous stamps and does not show which pass.
    ``damage`` completes a sentence that begins with the file's name; the line it lies in is left.
    ``strays``: lines to be rejected for their stamps, in order; ``undecided``: those
    of which that cannot be known. ``awaits_stamps``: lines are left because of their stamps.
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
    strays: tuple[Stray, ...]
    undecided: tuple[Stray, ...]
    awaits_stamps: bool
    ranges: tuple[ByteRange, ...]

    @property
    def bytes_read(self) -> int:
        """Bytes that are new."""
        return self.end - self.first_byte


def survey(
    file: LogFile,
    settings: SurveySettings = SurveySettings(),
    known: Collection[Content] = (),
    pseudonyms: Pseudonyms | None = None,
) -> Survey:
    """Reads the file a chunk at a time: once, or once more for what few files have.

    That is an ambiguous hour, damage, or stamps that others do not decide on.

    ``known`` is what has been read of the node. With ``pseudonyms``, contents are hashed with its
    key: of a short log a guess could be confirmed otherwise. Raises UserError if the file cannot be
    opened or read.
    """
    try:
        return _survey(file, settings, known, pseudonyms)
    except OSError as error:
        raise UserError(
            f"{file.source_file} of recording {file.recording!r} cannot be read "
            f"({error.strerror or error}): correct its rights or its name"
        ) from None


def survey_or_error(
    file: LogFile,
    settings: SurveySettings,
    known: Mapping[tuple[str, int], Collection[Content]],
    pseudonyms: Pseudonyms | None,
) -> Survey | UserError:
    """The same for a Spark task, out of which an exception would come as a trace of the JVM."""
    try:
        return survey(file, settings, known[file.recording, file.node_id], pseudonyms)
    except UserError as error:
        return error


def _survey(
    file: LogFile,
    settings: SurveySettings,
    known: Collection[Content],
    pseudonyms: Pseudonyms | None,
) -> Survey:
    def reading(end: int | None = None) -> FileReading:
        return FileReading(
            LogBytes(file.path, 0, end, settings.gzip_ratio_max),
            Contents(known, pseudonyms),
            Splits(settings.range_bytes, {content.bytes for content in known}),
            Stamps(file.timezone, settings.accept_stray_stamps),
        ).done()

    found = reading()
    damage, has_requests, bytes_seen = found.log.damage, found.has_requests, found.splits.bytes_seen
    garbled = first_garbled_byte(file, damage) if damage else None
    if garbled is not None:
        found = reading(garbled)
    is_whole = settings.final and damage is None
    found.stamps.ended(is_final=is_whole)
    strays, undecided = _strays(file, found)
    first_stamp, last_stamp = _ends(found.stamps, strays)
    second_pass_line, fold_is_known = _fold(file, found, first_stamp, last_stamp, strays)
    is_read = is_whole or found.end.removesuffix(b"\r").endswith(LOGGER)
    end = found.splits.bytes_seen if is_read else found.splits.line_start
    awaited = found.stamps.undecided_byte
    if awaited is not None and awaited < end:
        end = max(awaited, found.contents.longest)
        found = reading(end)
    contents, splits = found.contents, found.splits
    first_byte = contents.longest
    end = max(end, first_byte)
    if 0 < first_byte < end and splits.is_in_line(first_byte):
        first_byte += _line_end_bytes(file.path, first_byte)
    ranges, lines = splits.ranges(first_byte, end), splits.lines(first_byte, end)
    first_line = ranges[0].first_line_number if ranges else 0
    numbers = range(first_line, first_line + lines)
    return Survey(
        file=file,
        is_gzip=is_gzip(file.path),
        content_hash=contents.hash_of(end),
        first_byte=first_byte,
        end=end,
        left_bytes=bytes_seen - end,
        lines=lines,
        is_known=contents.is_known(end),
        has_requests=has_requests,
        first_stamp=first_stamp,
        last_stamp=last_stamp,
        second_pass_line=second_pass_line,
        fold_is_known=fold_is_known,
        damage=_where(damage, end, splits.lines(0, end) + 1) if damage else None,
        strays=tuple(s for s in strays if s.line_number in numbers),
        undecided=tuple(s for s in undecided if s.line_number in numbers),
        awaits_stamps=awaited is not None and awaited == end,
        ranges=ranges,
    )


def _strays(file: LogFile, whole: FileReading) -> tuple[list[Stray], list[Stray]]:
    """Lines whose stamps cannot be where they stand, in order, and which may be such."""
    stamps, undecided = whole.stamps, list[Stray]()
    found = stamps.strays
    if stamps.suspects:
        strays = {stray.line_number for stray in found}
        contradictions = contradicted(stamps.suspects, strays, _numbered_lines(file, whole))
        found = sorted([*found, *contradictions], key=lambda stray: stray.line_number)
        proved = {stray.line_number for stray in contradictions}
        undecided = [
            Stray(suspect.line_number, f"{shown(suspect.second)} beside {shown(suspect.median_s)}")
            for suspect in stamps.suspects
            if suspect.doubt is not Doubt.back and suspect.line_number not in proved
        ]
    return found, undecided


def _where(damage: Damage, end: int, line_number: int) -> str:
    state = (
        "sound"
        if damage.unsure_from_byte is None
        else "well formed, though letters may be altered,"
    )
    return (
        f"{damage.what} at its byte {damage.compressed_byte:,}, and is {state} up to byte {end:,} "
        f"when unpacked, where line {line_number:,} begins"
    )


def _line_end_bytes(path: str, at: int) -> int:
    """Of a line that was read without it, the line end that has been written since."""
    written = b"".join(LogBytes(path, at, at + 2).chunks())
    return next((len(end) for end in (b"\r\n", b"\n") if written.startswith(end)), 0)


def _ends(stamps: Stamps, strays: Collection[Stray]) -> tuple[bytes | None, bytes | None]:
    """First and last stamp; where correlation ids contradict it, what stands beside it."""
    proved = {stray.line_number for stray in strays}
    beside = {s.doubt: stamp_at(s.median_s) for s in stamps.suspects if s.line_number in proved}
    return beside.get(Doubt.first, stamps.first), beside.get(Doubt.last, stamps.last)


def _fold(
    file: LogFile,
    whole: FileReading,
    first: bytes | None,
    last: bytes | None,
    strays: Collection[Stray],
) -> tuple[int | None, bool]:
    """First line of the second pass, and whether the file shows it."""
    if first is None or last is None or not _may_be_ambiguous(file.timezone, first, last):
        return None, True
    passed_over = {stray.line_number for stray in strays}
    stamps = (
        (number, stamp)
        for number, line in _numbered_lines(file, whole)
        if number not in passed_over and (stamp := stamp_of(line)) is not None
    )
    boundary = fold_boundary(stamps, file.timezone)
    return boundary.changes_at_line, boundary.decided


def _may_be_ambiguous(timezone: str, first: bytes, last: bytes) -> bool:
    try:
        if abs(parse_local(last) - parse_local(first)).days > _CALENDAR_DAYS_MAX:
            return True
        return has_ambiguous_hour(timezone, first, last)
    except Unreadable:
        return True


def _numbered_lines(file: LogFile, whole: FileReading) -> Iterator[tuple[int, bytes]]:
    """The lines that were read, once more."""
    # A line too long to parse is too long for its stamp to matter.
    chunks = LogBytes(file.path, 0, whole.splits.bytes_seen).chunks()
    lines = split_lines(chunks, line_bytes_max=RANGE_BYTES)
    for line_number, line in enumerate(lines, start=1):
        if isinstance(line, bytes):
            yield line_number, line


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
