"""Bytes of a log file as chunks and as lines, in bounded memory, plain or gzip.

A file is gzip by its first two bytes and not by its name. A gzip stream that ends
early or is damaged gives everything before the damage.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Bytes per read; what is in memory is one chunk and the line under way.
CHUNK_BYTES = 1 << 20
#: Of a line that is too long, this much is kept.
LONG_LINE_HEAD_BYTES = 1000
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31  # zlib: a gzip header, the largest window


def is_gzip(path: str | Path) -> bool:
    """Whether the file begins with gzip's magic number."""
    with Path(path).open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


@dataclass
class LogBytes:
    """The uncompressed bytes [start, end) of a file, plain or gzip.

    A gzip stream cannot be entered in the middle: what comes before ``start`` is inflated too.

    ``damage`` is None until ``chunks()`` has met damage, then it says which, for a sentence about
    the file: "ends in the middle of its gzip stream".
    """

    path: str
    start: int = 0
    end: int | None = None
    damage: str | None = field(default=None, init=False)

    def chunks(self) -> Iterator[bytes]:
        """Non-empty chunks of at most ``CHUNK_BYTES``."""
        if not is_gzip(self.path):
            yield from self._plain()
        elif self.start == 0 and self.end is None:
            yield from self._gunzipped()
        else:
            yield from _between(self._gunzipped(), self.start, self.end)

    def _plain(self) -> Iterator[bytes]:
        with Path(self.path).open("rb") as file:
            file.seek(self.start)
            left = None if self.end is None else self.end - self.start
            while left is None or left > 0:
                chunk = file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
                if not chunk:
                    return
                left = None if left is None else left - len(chunk)
                yield chunk

    def _gunzipped(self) -> Iterator[bytes]:
        """Every member of the file in turn; ``max_length`` keeps a zip bomb from filling memory."""
        with Path(self.path).open("rb") as file:
            member = zlib.decompressobj(_GZIP_WINDOW_BITS)
            compressed = file.read(CHUNK_BYTES)
            while compressed:
                try:
                    chunk = member.decompress(compressed, CHUNK_BYTES)
                except zlib.error:
                    self.damage = "has a damaged gzip stream"
                    return
                if chunk:
                    yield chunk
                if member.eof:
                    # Members may follow one another, and zeros may pad the last one.
                    compressed = member.unused_data.lstrip(b"\0") or file.read(CHUNK_BYTES)
                    compressed = compressed.lstrip(b"\0")
                    if compressed:
                        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
                else:
                    compressed = member.unconsumed_tail or file.read(CHUNK_BYTES)
            if not member.eof:
                yield from self._rest_of(member)
                self.damage = "ends in the middle of its gzip stream"

    @staticmethod
    def _rest_of(member: zlib._Decompress) -> Iterator[bytes]:
        """What a member that never ended still holds back."""
        try:
            rest = member.flush()
        except zlib.error:
            return
        if rest:
            yield rest


def _between(chunks: Iterable[bytes], start: int, end: int | None) -> Iterator[bytes]:
    """Of chunks that begin at byte 0 those of [start, end), no further than needed."""
    at = 0
    for chunk in chunks:
        if end is not None and at >= end:
            return
        part = chunk[max(0, start - at) : None if end is None else end - at]
        at += len(chunk)
        if part:
            yield part


@dataclass(frozen=True)
class LongLine:
    """A line that is longer than it may be: never in memory as a whole.

    ``digest`` has taken in every byte of the line, its line end excepted.
    """

    head: bytes
    line_bytes: int
    digest: hashlib.blake2b


def split_lines(
    chunks: Iterable[bytes], line_bytes_max: int, digest: hashlib.blake2b | None = None
) -> Iterator[bytes | LongLine]:
    """Lines without their LF; the last one also where it has none.

    A line above ``line_bytes_max`` comes as a ``LongLine``, for which copies of ``digest`` (a fresh
    hash object that the caller has primed) take in the line chunk by chunk.
    """
    line = _LineUnderWay(line_bytes_max, digest)
    for chunk in chunks:
        parts = chunk.split(b"\n")
        for part in parts[:-1]:
            line.add(part)
            yield line.ended()
        line.add(parts[-1])
    if line.has_begun:
        yield line.ended()


def line_batches(
    chunks: Iterable[bytes],
    line_bytes_max: int,
    batch_bytes: int,
    batch_lines: int,
    digest: hashlib.blake2b | None = None,
) -> Iterator[list[bytes] | LongLine]:
    """The same lines, without LF or CR LF, in lists of at most ``batch_lines``.

    A list ends with the line that brings it to ``batch_bytes``, or a chunk later. Chunks are cut
    into lines at once, without a step of Python for each.
    """
    batch: list[bytes] = []
    held_bytes = 0
    for lines in _lines_of_chunks(chunks, line_bytes_max, digest):
        if isinstance(lines, LongLine):
            if batch:
                yield batch
            yield lines
            batch, held_bytes = [], 0
            continue
        batch += lines
        held_bytes += sum(map(len, lines))
        while held_bytes >= batch_bytes or len(batch) > batch_lines:
            yield batch[:batch_lines]
            del batch[:batch_lines]
            held_bytes = sum(map(len, batch))
    if batch:
        yield batch


def _lines_of_chunks(
    chunks: Iterable[bytes], line_bytes_max: int, digest: hashlib.blake2b | None
) -> Iterator[list[bytes] | LongLine]:
    """Lines without their ends: those of a chunk together, others alone."""
    under_way = _LineUnderWay(line_bytes_max, digest)
    for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        under_way.add(first)
        if not lines:
            continue
        yield _alone(under_way.ended())
        under_way.add(lines.pop())
        if len(chunk) > line_bytes_max and any(len(line) > line_bytes_max for line in lines):
            for line in lines:
                too_long = _LineUnderWay(line_bytes_max, digest)
                too_long.add(line)
                yield _alone(too_long.ended())
        elif lines:
            yield [line.removesuffix(b"\r") for line in lines] if b"\r" in chunk else lines
    if under_way.has_begun:
        yield _alone(under_way.ended())


def _alone(line: bytes | LongLine) -> list[bytes] | LongLine:
    return line if isinstance(line, LongLine) else [line.removesuffix(b"\r")]


class _LineUnderWay:
    """Takes in a line chunk by chunk, and lets go of it when it gets too long."""

    def __init__(self, line_bytes_max: int, digest: hashlib.blake2b | None) -> None:
        self._line_bytes_max = line_bytes_max
        self._digest = digest
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self._long: _LongLineUnderWay | None = None

    @property
    def has_begun(self) -> bool:
        return self._held_bytes > 0 or self._long is not None

    def add(self, part: bytes) -> None:
        if self._long is None and self._held_bytes + len(part) > self._line_bytes_max:
            self._long = _LongLineUnderWay(self._digest)
            for held in self._parts:
                self._long.add(held)
            self._parts.clear()
            self._held_bytes = 0
        if self._long is not None:
            self._long.add(part)
        else:
            self._parts.append(part)
            self._held_bytes += len(part)

    def ended(self) -> bytes | LongLine:
        """The line without its LF; the next one begins."""
        line = b"".join(self._parts) if self._long is None else self._long.ended()
        self._parts.clear()
        self._held_bytes = 0
        self._long = None
        return line


class _LongLineUnderWay:
    """Takes in a long line. A CR before the LF is part of the line end, so one CR is held back."""

    def __init__(self, digest: hashlib.blake2b | None) -> None:
        self._digest = digest.copy() if digest is not None else hashlib.blake2b()
        self._head = b""
        self._line_bytes = 0
        self._held_back = b""

    def add(self, part: bytes) -> None:
        if not part:
            return
        part = self._held_back + part
        self._held_back = b"\r" if part.endswith(b"\r") else b""
        if self._held_back:
            part = part[:-1]
        self._digest.update(part)
        self._line_bytes += len(part)
        missing = LONG_LINE_HEAD_BYTES - len(self._head)
        if missing > 0:
            self._head += part[:missing]

    def ended(self) -> LongLine:
        return LongLine(self._head, self._line_bytes, self._digest)
