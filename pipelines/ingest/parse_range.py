"""Parses byte ranges of log files: bytes to lines, lines to wide rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kip_replay.pipelines.ingest.file_reading import ByteRange
from kip_replay.pipelines.ingest.log_bytes import LogBytes, LongLine, line_batches
from kip_replay.pipelines.ingest.stamps import Stray
from kip_replay.pipelines.ingest.survey import Survey
from kip_replay.replay.kafka.request_log import PARSED_LINE, LineParser, Pseudonyms, Reason
from kip_replay.replay.kafka.request_log.reading import line_digest

#: A longer line is rejected without ever being in memory as a whole.
LINE_BYTES_MAX = 256 << 20
#: Lines parsed at once: what is read of them costs memory several times.
_BATCH_BYTES = 16 << 20
_BATCH_LINES = 1 << 15
#: Small files are parsed together until they have so many bytes: a batch takes as long as 50 lines.
_TOGETHER_BYTES = 1 << 20


@dataclass(frozen=True)
class ParsedRange:
    """What a task must know of a range: bytes [start, end) of a node's file.

    ``strays`` are those of the whole file.
    """

    recording: str
    node_id: int
    timezone: str
    source_file: str
    path: str
    start: int
    end: int
    first_line_number: int
    second_pass_line: int | None
    strays: tuple[Stray, ...] = ()
    clock_offset_ms: int = 0

    @staticmethod
    def of(survey: Survey, byte_range: ByteRange) -> ParsedRange:
        """A range of a surveyed file."""
        file = survey.file
        return ParsedRange(
            recording=file.recording,
            node_id=file.node_id,
            timezone=file.timezone,
            source_file=file.source_file,
            path=file.path,
            start=byte_range.start,
            end=byte_range.end,
            first_line_number=byte_range.first_line_number,
            second_pass_line=survey.second_pass_line,
            strays=survey.strays,
            clock_offset_ms=file.clock_offset_ms,
        )


def joined(ranges: Sequence[ParsedRange], bytes_max: int | None = None) -> list[ParsedRange]:
    """Ranges with those joined that continue one another in a file.

    None of more than ``bytes_max`` comes of it.
    """
    whole: list[ParsedRange] = []
    for part in ranges:
        before = whole[-1] if whole else None
        if (
            before is not None
            and (before.path, before.end) == (part.path, part.start)
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
        # No line of it can be too long, and its lines are read by their zone alone.
        plain = ParsedRange(part.recording, part.node_id, part.timezone, "", "", 0, 0, 1, None)
        is_small = size <= min(line_bytes_max, _TOGETHER_BYTES) and _without_place(part) == plain
        fits = held_bytes + size <= _TOGETHER_BYTES and held and _without_place(held[-1]) == plain
        if held and not (is_small and fits):
            yield held
            held, held_bytes = [], 0
        held.append(part)
        held_bytes += size if is_small else _TOGETHER_BYTES
    if held:
        yield held


def _without_place(part: ParsedRange) -> ParsedRange:
    return replace(part, source_file="", path="", start=0, end=0, first_line_number=1)


def parse_together(
    parts: Sequence[ParsedRange],
    line_bytes_max: int = LINE_BYTES_MAX,
    pseudonyms: Pseudonyms | None = None,
) -> Iterator[pa.RecordBatch]:
    """``parse_range`` of what ``together`` gives, several ranges in one batch."""
    if len(parts) == 1:
        yield from parse_range(parts[0], line_bytes_max, pseudonyms)
        return
    of_node = parts[0]
    parser = LineParser(
        of_node.recording,
        of_node.node_id,
        of_node.timezone,
        line_bytes_max=line_bytes_max,
        pseudonyms=pseudonyms,
    )
    lines: list[bytes] = []
    counts: list[int] = []
    for part in parts:
        chunks = LogBytes(part.path, part.start, part.end).chunks()
        before = len(lines)
        for batch in line_batches(chunks, line_bytes_max, _BATCH_BYTES, _BATCH_LINES):
            assert isinstance(batch, list), "a range has no line that is longer than itself"
            lines += batch
        counts.append(len(lines) - before)
    names = pa.array([part.source_file for part in parts])
    numbers = [np.arange(n) + part.first_line_number for part, n in zip(parts, counts, strict=True)]
    rows = parser.parse_batch(lines, of_node.source_file, 1)
    for name, values in (
        ("source_file", names.take(pa.array(np.repeat(np.arange(len(parts)), counts)))),
        ("line_number", pa.array(np.concatenate(numbers))),
    ):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), values)
    yield rows


def parse_range(
    part: ParsedRange,
    line_bytes_max: int = LINE_BYTES_MAX,
    pseudonyms: Pseudonyms | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of ``PARSED_LINE``, a row per line of the range; without names if ``pseudonyms``."""
    parser = LineParser(
        part.recording,
        part.node_id,
        part.timezone,
        clock_offset_ms=part.clock_offset_ms,
        line_bytes_max=line_bytes_max,
        pseudonyms=pseudonyms,
    )
    chunks = LogBytes(part.path, part.start, part.end).chunks()
    digest = line_digest(part.node_id, pseudonyms)
    line_number = part.first_line_number
    strays = {stray.line_number: stray.why for stray in part.strays}
    for lines in line_batches(chunks, line_bytes_max, _BATCH_BYTES, _BATCH_LINES, digest):
        if isinstance(lines, LongLine):
            head = None if pseudonyms else lines.head.decode(errors="replace")
            batch = _rejected_as_too_long(part, lines, head, line_number)
        else:
            batch = parser.parse_batch(
                lines, part.source_file, line_number, part.second_pass_line, strays
            )
        yield batch
        line_number += batch.num_rows


def _rejected_as_too_long(
    part: ParsedRange, line: LongLine, head: str | None, line_number: int
) -> pa.RecordBatch:
    row = {
        "recording": part.recording,
        "line_id": line.digest.hexdigest(),
        "node_id": part.node_id,
        "source_file": part.source_file,
        "line_number": line_number,
        "rejected": {
            "reason": Reason.too_long.name,
            "line": head,
            "line_bytes": line.line_bytes,
            "detail": None,
        },
        "isr_changes": [],
        "topics": [],
        "configs": [],
        "metadata_offsets": [],
    }
    return pa.RecordBatch.from_pylist([row], schema=PARSED_LINE)
