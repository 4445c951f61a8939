"""Bytes of a log file as chunks and as lines, in bounded memory, plain or gzip.

Whether a file is gzip is told by its first two bytes and not by its name. A gzip stream that ends
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
    """The uncompressed bytes of a file, or of the byte range [start, end) of a plain one.

    ``damage`` is None until ``chunks()`` has met damage, then it says which, for a sentence about
    the file: "ends in the middle of its gzip stream".
    """

    path: str
    start: int = 0
    end: int | None = None
    damage: str | None = field(default=None, init=False)

    def chunks(self) -> Iterator[bytes]:
        """Non-empty chunks of at most ``CHUNK_BYTES``."""
        if is_gzip(self.path):
            yield from self._gunzipped()
        else:
            yield from self._plain()

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
    hash object that whoever asks has primed) take in the line piece by piece.
    """
    pieces: list[bytes] = []
    held_bytes = 0
    long_line: _LongLineUnderWay | None = None
    for chunk in chunks:
        lines = chunk.split(b"\n")
        for position, piece in enumerate(lines):
            is_end = position < len(lines) - 1
            if long_line is None and held_bytes + len(piece) > line_bytes_max:
                long_line = _LongLineUnderWay(digest)
                for held in pieces:
                    long_line.add(held)
                pieces.clear()
                held_bytes = 0
            if long_line is not None:
                long_line.add(piece)
                if is_end:
                    yield long_line.ended()
                    long_line = None
            elif is_end:
                if pieces:
                    pieces.append(piece)
                    piece = b"".join(pieces)
                    pieces.clear()
                    held_bytes = 0
                yield piece
            elif piece:
                pieces.append(piece)
                held_bytes += len(piece)
    if long_line is not None:
        yield long_line.ended()
    elif pieces:
        yield b"".join(pieces)


class _LongLineUnderWay:
    """Takes in a long line. A CR before the LF is part of the line end, so one CR is held back."""

    def __init__(self, digest: hashlib.blake2b | None) -> None:
        self._digest = digest.copy() if digest is not None else hashlib.blake2b()
        self._head = b""
        self._line_bytes = 0
        self._held_back = b""

    def add(self, piece: bytes) -> None:
        if not piece:
            return
        piece = self._held_back + piece
        self._held_back = b"\r" if piece.endswith(b"\r") else b""
        if self._held_back:
            piece = piece[:-1]
        self._digest.update(piece)
        self._line_bytes += len(piece)
        missing = LONG_LINE_HEAD_BYTES - len(self._head)
        if missing > 0:
            self._head += piece[:missing]

    def ended(self) -> LongLine:
        return LongLine(self._head, self._line_bytes, self._digest)
