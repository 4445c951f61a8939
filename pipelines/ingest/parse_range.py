"""Parses byte ranges of log files: bytes to lines, lines to rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kip_replay.pipelines.ingest.file_reading import ByteRange
from kip_replay.pipelines.ingest.log_bytes import LogBytes, line_batches
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.survey import Survey
from kip_replay.replay.kafka.request_log import LineParser, Reason, Rows
from kip_replay.replay.kafka.request_log.layouts import WHOLE_LINES, Framing, LineReader, Lines
from kip_replay.replay.kafka.request_log.layouts.reader import LINE_BYTES_MAX
from kip_replay.replay.kafka.request_log.line import Unreadable

#: Lines parsed at once: what is read of them costs memory several times.
_BATCH_BYTES = 16 << 20
_BATCH_LINES = 1 << 15
#: Small files are parsed together up to this many bytes: a batch takes as long as 50 lines
_TOGETHER_BYTES = 1 << 20


@dataclass(frozen=True)
class ParsedRange:
    """Describes a range to a task: bytes [start, end) of a node's file.

    ``strays``: lines of the file to be rejected for their stamps, each with why. Where it
    ``is_unsure``, damage may have altered them: those after ``sound_until`` are rejected for it.
    """

    file: LogFile
    start: int
    end: int
    first_line_number: int
    second_pass_line: int | None
    framing: Framing = WHOLE_LINES
    strays: tuple[tuple[int, str], ...] = ()
    is_unsure: bool = False
    sound_until: int | None = None

    @staticmethod
    def of(survey: Survey, part: ByteRange) -> "ParsedRange":
        fold, framing = survey.second_pass_line, survey.framing
        place = survey.file, part.start, part.end, part.first_line_number
        return ParsedRange(*place, fold, framing, is_unsure=survey.is_unsure)

    @property
    def is_plain(self) -> bool:
        """Returns whether its lines are read by its node and zone alone."""
        plain = ParsedRange(self.file, self.start, self.end, self.first_line_number, None)
        return self == plain and not self.file.clock_offset_ms


def joined(ranges: Sequence[ParsedRange], bytes_max: int | None = None) -> list[ParsedRange]:
    """Ranges with those joined that continue one another in a file."""
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


def together(ranges: Sequence[ParsedRange], line_bytes_max: int) -> Iterator[list[ParsedRange]]:
    """Ranges in their order, those of small files of a node with the ones that follow."""
    held: list[ParsedRange] = []
    held_bytes = 0
    for part in ranges:
        size = part.end - part.start
        # No line of it can be too long.
        is_small = size <= min(line_bytes_max, _TOGETHER_BYTES) and part.is_plain
        fits = held_bytes + size <= _TOGETHER_BYTES and held and _follows(part, held[-1])
        if held and not (is_small and fits):
            yield held
            held, held_bytes = [], 0
        held.append(part)
        held_bytes += size if is_small else _TOGETHER_BYTES
    if held:
        yield held


def _follows(part: ParsedRange, before: ParsedRange) -> bool:
    nodes = {(file.recording, file.node_id, file.timezone) for file in (part.file, before.file)}
    return before.is_plain and len(nodes) == 1


def parse_together(
    parts: Sequence[ParsedRange], line_bytes_max: int = LINE_BYTES_MAX
) -> Iterator[tuple[Rows, dict[str, Lines]]]:
    """Rows of what ``together`` gives, batch by batch.

    Beside them the lines by source file, for what else they count.
    """
    first = parts[0].file
    parser = LineParser(
        first.recording,
        first.node_id,
        first.timezone,
        clock_offset_ms=first.clock_offset_ms,
        line_bytes_max=line_bytes_max,
    )
    read = ((part.file.source_file, of) for part in parts for of in _lines_of(part, line_bytes_max))
    for batch in [[*read]] if len(parts) > 1 else ([of_file] for of_file in read):
        whole, names, of_files = Lines(), list[str](), dict[str, Lines]()
        for source_file, lines in batch:
            whole.add(lines)
            names += [source_file] * len(lines.lines)
            of_files.setdefault(source_file, Lines()).add(lines)
        yield parser.parse_batch(whole, names, parts[0].second_pass_line), of_files


def _lines_of(part: ParsedRange, line_bytes_max: int) -> Iterator[Lines]:
    """The lines of a range, with what is known of them by then."""
    reader = LineReader(part.file.timezone, part.framing, line_bytes_max)
    chunks = LogBytes(part.file.path, part.start, part.end).chunks()
    number, strays = part.first_line_number, dict(part.strays)
    for lines in line_batches(chunks, line_bytes_max, _BATCH_BYTES, _BATCH_LINES):
        yield _judged(reader.read(lines, number), strays, part.sound_until)
        number += len(lines)
    if (rest := reader.ended()) != Lines():
        yield _judged(rest, strays, part.sound_until)


def _judged(lines: Lines, strays: Mapping[int, str], sound_until: int | None) -> Lines:
    """The lines, stray ones and those behind damage rejected."""
    for at, number in enumerate(lines.numbers if strays or sound_until else ()):
        if number in strays:
            lines.rejections.setdefault(at, Unreadable(Reason.stray_stamp, strays[number]))
        if sound_until is not None and number > sound_until:
            lines.rejections.setdefault(at, Unreadable(Reason.after_damage))
    return lines
