"""Bytes of a log file as chunks and as lines, in bounded memory, plain or gzip.

A file is gzip by its first two bytes and not by its name. A gzip stream that ends
early or is damaged gives everything before the damage.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

#: Bytes per read; what is in memory is one chunk and the line under way.
CHUNK_BYTES = 1 << 20
#: Of a line that is too long, this much is kept.
LONG_LINE_HEAD_BYTES = 1000
_GZIP_MAGIC = b"\x1f\x8b"
#: Of a gzip file this much may be more than its ratio allows.
_UNPACKED_FREE_BYTES = 1 << 20
_GZIP_WINDOW_BITS = 31  # zlib: a gzip header, the largest window


def is_gzip(path: str | Path) -> bool:
    """Whether the file begins with gzip's magic number."""
    with Path(path).open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


@dataclass(frozen=True)
class Damage:
    """Why a gzip file is not read further than to a byte of it.

    ``what`` continues a sentence about the file: "ends in the middle of its gzip stream".
    From the uncompressed byte ``unsure_from_byte`` on, what comes out may not be what went in; None
    where it is.
    """

    what: str
    compressed_byte: int
    unsure_from_byte: int | None = None


@dataclass
class LogBytes:
    """The uncompressed bytes [start, end) of a file, plain or gzip.

    A gzip stream cannot be entered in the middle: what comes before ``start`` is inflated too. One
    that unpacks to more than ``ratio_max`` times its size is read as far as it does not.

    ``damage`` is None until ``chunks()`` has met damage.
    """

    path: str
    start: int = 0
    end: int | None = None
    ratio_max: float | None = None
    damage: Damage | None = field(default=None, init=False)

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
        unpacked = 0
        with Path(self.path).open("rb") as file:
            try:
                for chunk, taken in _inflated(file):
                    unpacked += len(chunk)
                    if chunk:
                        yield chunk
                    if self.ratio_max and unpacked > self.ratio_max * taken + _UNPACKED_FREE_BYTES:
                        what = f"unpacks to more than {self.ratio_max:g} times its size"
                        raise _DamagedError(Damage(what, taken))
            except _DamagedError as error:
                self.damage = error.damage


class _DamagedError(Exception):
    def __init__(self, damage: Damage) -> None:
        super().__init__(damage.what)
        self.damage = damage


def _inflated(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Every gzip member in turn: a chunk, and how much of the file has been taken in for it."""
    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    unpacked = member_begin = 0
    while compressed := file.read(CHUNK_BYTES):
        while compressed:
            place = file.tell() - len(compressed)
            before = member.copy()
            try:
                chunk = member.decompress(compressed, CHUNK_BYTES)
            except zlib.error:
                chunk, good_bytes = _up_to_damage(before, compressed)
                yield chunk, place + good_bytes
                what = "has a damaged gzip stream"
                raise _DamagedError(Damage(what, place + good_bytes, member_begin)) from None
            unpacked += len(chunk)
            if member.eof:
                # Members may follow one another, and zeros may pad the last one.
                compressed = member.unused_data.lstrip(b"\0")
                if compressed or _is_followed(file):
                    member, member_begin = zlib.decompressobj(_GZIP_WINDOW_BITS), unpacked
            else:
                compressed = member.unconsumed_tail
            yield chunk, file.tell() - len(compressed)
    if not member.eof:
        yield _rest_of(member), file.tell()
        raise _DamagedError(Damage("ends in the middle of its gzip stream", file.tell()))


def _is_followed(file: BinaryIO) -> bool:
    """Skips zeros; whether anything else follows."""
    while padding := file.read(CHUNK_BYTES):
        left = len(padding.lstrip(b"\0"))
        if left:
            file.seek(-left, os.SEEK_CUR)
            return True
    return False


def _up_to_damage(member: zlib._Decompress, compressed: bytes) -> tuple[bytes, int]:
    """What a member gives before it fails, and how many bytes it takes: a chunk at most.

    zlib keeps to itself what a call has inflated that fails, so it gets less and less at a time.
    """
    unpacked: list[bytes] = []
    taken, step = 0, len(compressed)
    while step:
        before = member.copy()
        try:
            unpacked.append(member.decompress(compressed[taken : taken + step]))
        except zlib.error:
            member, step = before, step // 2
        else:
            taken += step
    return b"".join(unpacked), taken


def _rest_of(member: zlib._Decompress) -> bytes:
    """What a member that never ended still holds back."""
    try:
        return member.flush()
    except zlib.error:
        return b""


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
