"""Parses one byte range of a log file: what a Spark task does in Python."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pipelines.log_bytes import LogBytes, LongLine, split_lines
from pipelines.log_files import ByteRange, Survey
from replay.request_log import PARSED_LINE, LineParser, Reason

#: A longer line is rejected without ever being in memory as a whole.
LINE_BYTES_MAX = 256 << 20


@dataclass(frozen=True)
class ParsedRange:
    """All that a task must be told about a range: bytes [start, end) of a node's file."""

    recording: str
    node_id: int
    timezone: str
    source_file: str
    path: str
    start: int
    end: int | None
    first_line_number: int
    second_pass_line: int | None
    bytes_on_disk: int

    @staticmethod
    def of(survey: Survey, byte_range: ByteRange) -> ParsedRange:
        """A range of a surveyed file."""
        file = survey.file
        end = byte_range.end
        size = Path(file.path).stat().st_size if end is None else end - byte_range.start
        return ParsedRange(
            recording=file.recording,
            node_id=file.node_id,
            timezone=file.timezone,
            source_file=file.source_file,
            path=file.path,
            start=byte_range.start,
            end=end,
            first_line_number=byte_range.first_line_number,
            second_pass_line=survey.second_pass_line,
            bytes_on_disk=size,
        )


def parse_range(
    part: ParsedRange, line_bytes_max: int = LINE_BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Batches of ``PARSED_LINE``, a row per line of the range."""
    parser = LineParser(part.recording, part.node_id, part.timezone, line_bytes_max=line_bytes_max)
    chunks = LogBytes(part.path, part.start, part.end).chunks()
    lines = split_lines(chunks, line_bytes_max, _line_digest(part.node_id))
    line_number = part.first_line_number
    for group in _alike(lines):
        if isinstance(group, LongLine):
            yield _rejected_as_too_long(part, group, line_number)
            line_number += 1
            continue
        for batch in parser.parse(group, part.source_file, line_number, part.second_pass_line):
            yield batch
            line_number += batch.num_rows


def _alike(lines: Iterator[bytes | LongLine]) -> Iterator[Iterator[bytes] | LongLine]:
    """Runs of lines that can be parsed, and between them lines that cannot.

    A run is to be read to its end before the next is asked for.
    """
    long_line: list[LongLine] = []

    def run(first: bytes) -> Iterator[bytes]:
        yield first
        for line in lines:
            if isinstance(line, LongLine):
                long_line.append(line)
                return
            yield line

    for line in lines:
        if isinstance(line, LongLine):
            yield line
            continue
        yield run(line)
        if long_line:
            yield long_line.pop()


def _line_digest(node_id: int) -> hashlib.blake2b:
    """Primed as ``replay.request_log`` primes the hash of a line's content."""
    return hashlib.blake2b(b"%d\0" % node_id, digest_size=16)


def _rejected_as_too_long(part: ParsedRange, line: LongLine, line_number: int) -> pa.RecordBatch:
    row = {
        "recording": part.recording,
        "line_id": line.digest.hexdigest(),
        "node_id": part.node_id,
        "source_file": part.source_file,
        "line_number": line_number,
        "rejected": {
            "reason": Reason.too_long.name,
            "line": line.head.decode(errors="replace"),
            "line_bytes": line.line_bytes,
        },
        "isr_changes": [],
        "topics": [],
        "configs": [],
        "metadata_offsets": [],
    }
    return pa.RecordBatch.from_pylist([row], schema=PARSED_LINE)
