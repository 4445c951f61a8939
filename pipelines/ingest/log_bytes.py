"""Bytes of a log file as chunks and as lines, in bounded memory, compressed or in an archive.

What a file is follows from its first bytes and not from its name. A compressed stream that ends
early or is damaged gives everything before the damage. A file in an archive is read where it is:
``logs.tar.gz!/broker-11/kafka-request.log``. UTF-16 with its mark, as PowerShell writes it, is read
as UTF-8, also for where bytes are.
"""

import bz2
import codecs
import gzip
import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa

from kip_replay.pipelines.storage import Place, place_of
from kip_replay.replay.kafka.request_log.layouts import LongLine

#: Bytes per read; what is in memory is one chunk and the line under way.
CHUNK_BYTES = 1 << 20
LONG_LINE_HEAD_BYTES = 1000
#: Of a store, where a little is read: a megabyte of log is packed in about as much.
_SMALL_REQUEST_BYTES = 1 << 16
#: Between an archive and the name of a file in it.
WITHIN = "!/"
_ZIP_MAGIC = b"PK\x03\x04", b"PK\x05\x06"
#: Compressions by their first bytes: their names, and what unpacks them.
_UNPACKERS: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda file: pa.CompressedInputStream(file, "zstd")),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ": ("xz", lzma.LZMAFile),
    codecs.BOM_UTF16_LE: ("UTF-16", lambda file: file),
    codecs.BOM_UTF16_BE: ("UTF-16", lambda file: file),
}
_DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError)
_MAGIC_BYTES_MAX = 6
#: Of a compressed file this much may be more than its ratio allows.
_UNPACKED_FREE_BYTES = 1 << 20


def is_compressed(path: str) -> bool:
    """Returns whether a part of the file can only be read through all before it."""
    return _archive_of(path) is not None or _magic(place_of(path)).startswith(tuple(_UNPACKERS))


def members(path: Place) -> list[str] | None:
    magic = _magic(path)
    is_zip = magic.startswith(_ZIP_MAGIC)
    is_tar = ".tar" in path.name or path.suffix in (".tgz", ".tzst") or magic[:1] == b"\0"
    if not (is_zip or is_tar):
        return None
    try:
        if is_zip:
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                return [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        with _tar(path) as archive:
            return [entry.name for entry in archive if entry.isfile()]
    except tarfile.TarError:
        return None
    except _DAMAGE as error:
        raise OSError(f"its archive is damaged: {error}") from None


def _magic(path: Place) -> bytes:
    with path.open("rb", buffering=0) as file:
        return file.read(_MAGIC_BYTES_MAX)


def _archive_of(path: str) -> tuple[Place, str] | None:
    """An archive and the name of a file in it."""
    archive, within, name = path.partition(WITHIN)
    return (place_of(archive), name) if within and not place_of(path).exists() else None


@contextmanager
def _tar(path: Place) -> Iterator[tarfile.TarFile]:
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("rb"))
        if _magic(path).startswith(b"\x28\xb5\x2f\xfd"):
            unpacked = stack.enter_context(tempfile.TemporaryFile())  # tarfile goes back and forth
            shutil.copyfileobj(pa.CompressedInputStream(file, "zstd"), unpacked, CHUNK_BYTES)
            unpacked.seek(0)
            file = unpacked
        yield stack.enter_context(tarfile.open(fileobj=file))


@contextmanager
def _opened(path: str, buffering: int = 0) -> Iterator[BinaryIO]:
    inside = _archive_of(path)
    with ExitStack() as stack:
        if inside is None:
            place = place_of(path)
            file = place.open("rb", buffering) if buffering else place.open("rb")
            yield stack.enter_context(file)
        elif _magic(inside[0]).startswith(_ZIP_MAGIC):
            file = stack.enter_context(inside[0].open("rb"))
            archive = stack.enter_context(zipfile.ZipFile(file))
            yield stack.enter_context(archive.open(inside[1]))  # type: ignore[misc]
        else:
            tar = stack.enter_context(_tar(inside[0]))
            entry = next(entry for entry in tar if entry.name == inside[1])
            member = tar.extractfile(entry)
            assert member is not None
            yield stack.enter_context(member)  # type: ignore[misc]


@dataclass(frozen=True)
class Damage:
    """Why a compressed file is not read further than to a byte of it.

    ``what`` continues a sentence about the file: "ends in the middle of its gzip stream".
    Where it ``is_unsure``, what came out until then may not be what went in.
    """

    what: str
    compressed_byte: int
    is_unsure: bool = False


@dataclass
class LogBytes:
    """The uncompressed bytes [start, end) of a file.

    A compressed one is unpacked from its beginning, and no further than to ``ratio_max`` times its
    size. ``damage`` is None until ``chunks()`` has met some; ``unpacked_bytes`` were read so far.
    """

    path: str
    start: int = 0
    end: int | None = None
    ratio_max: float | None = None
    damage: Damage | None = field(default=None, init=False)
    unpacked_bytes: int = field(default=0, init=False)

    def chunks(self) -> Iterator[bytes]:
        with _opened(self.path) as file:
            if (unpacked := self.unpacked(file)) is not None:
                yield from _between(unpacked, self.start, self.end)
            else:
                file.seek(self.start)
                chunks = iter(partial(file.read, CHUNK_BYTES), b"")
                yield from _between(chunks, 0, None if self.end is None else self.end - self.start)

    def unpacked(self, file: BinaryIO) -> Iterator[bytes] | None:
        """Chunks of a compressed file, None of another; of the opened one, from its first byte."""
        magic = file.read(_MAGIC_BYTES_MAX)
        file.seek(0)
        unpackers = [named for begin, named in _UNPACKERS.items() if magic.startswith(begin)]
        return _as_utf8(self._unpacked(file, *unpackers[0])) if unpackers else None

    def _unpacked(
        self, file: BinaryIO, name: str, unpacker: Callable[[Any], Any]
    ) -> Iterator[bytes]:
        stream = unpacker(file)
        read = getattr(stream, "read1", stream.read)  # little is lost where that fails
        while True:
            try:
                chunk = read(CHUNK_BYTES)
            except EOFError:
                self.damage = Damage(f"ends in the middle of its {name} stream", file.tell())
                return
            except _DAMAGE:
                self.damage = Damage(f"has a damaged {name} stream", file.tell(), True)
                return
            if not chunk:
                return
            self.unpacked_bytes += len(chunk)
            yield chunk
            taken = file.tell()
            allowed = (self.ratio_max or 0) * taken + _UNPACKED_FREE_BYTES
            if self.ratio_max and self.unpacked_bytes > allowed:
                what = f"unpacks to more than {self.ratio_max:g} times its size"
                self.damage = Damage(what, taken)
                return


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    whole: Iterable[bytes] = chain([first], chunks)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        whole = (text.encode() for text in codecs.iterdecode(whole, "utf-16", "replace"))
    yield from filter(None, whole)


def unpacked_size(path: str) -> int:
    """Returns about how many bytes a compressed file, or one in an archive, unpacks to: as many
    for each of its bytes as its beginning."""
    with _opened(path, _SMALL_REQUEST_BYTES) as file:
        size = file.seek(0, 2)
        file.seek(0)
        log = LogBytes(path)
        if (chunks := log.unpacked(file)) is None:
            return size
        for _ in chunks:
            if log.unpacked_bytes > CHUNK_BYTES:
                return size * log.unpacked_bytes // file.tell()
        return log.unpacked_bytes


def _between(chunks: Iterable[bytes], start: int, end: int | None) -> Iterator[bytes]:
    """Yields [start, end) of chunks that begin at byte 0, no further than needed."""
    at = 0
    for chunk in chunks:
        if end is not None and at >= end:
            return
        part = chunk[max(0, start - at) : None if end is None else end - at]
        at += len(chunk)
        if part:
            yield part


def line_batches(
    chunks: Iterable[bytes], line_bytes_max: int, batch_bytes: int, batch_lines: int
) -> Iterator[list[bytes | LongLine]]:
    """Lines without LF or CR LF, the last one also where it has none, ``batch_lines`` at most.

    A list ends with the line that brings it to ``batch_bytes``, or a chunk later, for chunks are
    cut at once. Of a line above ``line_bytes_max`` no more is held than its head.
    """
    batch: list[bytes | LongLine] = []
    held_bytes = 0
    for lines in _lines_of_chunks(chunks, line_bytes_max):
        batch += lines
        held_bytes += sum(map(len, lines))
        while held_bytes >= batch_bytes or len(batch) > batch_lines:
            yield batch[:batch_lines]
            del batch[:batch_lines]
            held_bytes = sum(map(len, batch))
    if batch:
        yield batch


def _lines_of_chunks(
    chunks: Iterable[bytes], line_bytes_max: int
) -> Iterator[Sequence[bytes | LongLine]]:
    begun, size = list[bytes](), 0
    for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        begun.append(first)
        size += len(first)
        if lines:
            yield [_line(b"".join(begun), size, line_bytes_max)]
            begun = [lines.pop()]
            size = len(begun[0])
            if b"\r" in chunk or len(chunk) > line_bytes_max:
                yield [_line(line, len(line), line_bytes_max) for line in lines]
            else:
                yield lines
        if size > line_bytes_max:
            begun = [b"".join(begun)[:LONG_LINE_HEAD_BYTES]]
    if size:
        yield [_line(b"".join(begun), size, line_bytes_max)]


def _line(line: bytes, size: int, line_bytes_max: int) -> bytes | LongLine:
    if size > line_bytes_max:
        return LongLine(line[:LONG_LINE_HEAD_BYTES], size)
    return line.removesuffix(b"\r")
