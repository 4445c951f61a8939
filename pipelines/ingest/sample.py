"""A first look at log files: heads, middles and tails, in seconds whatever their size.

What a survey reads whole, this samples: enough to know nodes, spans of time, APIs and versions,
and what is wrong already; never enough for a number that ends in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kip_replay.pipelines.ingest.log_bytes import LogBytes, is_gzip
from kip_replay.pipelines.ingest.log_files import LogFile, on_disk
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.replay.kafka.request_log import LocalTime, stamp_of
from kip_replay.replay.kafka.request_log.reasons import Unreadable

#: A line may be longer than a chunk: this far its end is looked for.
_HEAD_BYTES_MAX = 16 << 20
#: Where no trailer tells: what logs of requests were found to unpack to.
_GZIP_RATIO = 25


@dataclass(frozen=True)
class Sample:
    """Of one file. Bytes are on disk, and uncompressed (estimated for gzip); ``lines`` are whole,
    ``line_count`` estimates how many the file has.

    ``first_us`` and ``last_us``: UTC microseconds of its first and last stamp, None without. Where
    not ``is_end_seen``, the last is when the file was modified. ``damage`` as ``LogBytes`` has it.
    """

    file: LogFile
    disk_bytes: int
    log_bytes: int
    lines: tuple[bytes, ...]
    line_count: int
    first_us: int | None
    last_us: int | None
    is_end_seen: bool
    damage: str | None


def sampled(file: LogFile, sample_bytes: int, inflated_bytes_max: int) -> Sample:
    """Looks at about ``sample_bytes`` at the head, the middle and the tail each.

    A gzip stream has to be inflated from its start: of one that is larger, on disk, than
    ``inflated_bytes_max``, only the head is looked at.

    Raises UserError if the file cannot be found, OSError if it cannot be read.
    """
    disk_bytes, modified_at = on_disk(file)
    log = LogBytes(file.path)
    if disk_bytes and is_gzip(file.path):
        log_bytes = _unpacked_bytes(file.path, disk_bytes)
        is_whole = disk_bytes <= inflated_bytes_max
        parts = _of_stream(log.chunks(), log_bytes, sample_bytes, is_whole)
    else:
        log_bytes, is_whole = disk_bytes, True
        parts = _of_file(file.path, disk_bytes, sample_bytes)
    places = [part for part in parts if part]
    lines = [line for part in places for line in part]
    # Each stands for as many bytes: lines are short where a log begins.
    line_bytes = [sum(map(len, part)) / len(part) + 1 for part in places]
    stamps = [stamp for line in lines if (stamp := stamp_of(line)) is not None]
    return Sample(
        file=file,
        disk_bytes=disk_bytes,
        log_bytes=log_bytes,
        lines=tuple(lines),
        line_count=round(sum(log_bytes / len(places) / each for each in line_bytes)),
        first_us=_time_us(file, stamps[:1]),
        last_us=_time_us(file, stamps[-1:]) if is_whole else microseconds(modified_at),
        is_end_seen=is_whole,
        damage=log.damage.what if log.damage else None,
    )


def log_bytes_of(files: Iterable[LogFile]) -> int:
    """Uncompressed bytes of files, as far as can be known without reading them."""
    total = 0
    for file in files:
        size = on_disk(file).bytes
        total += _unpacked_bytes(file.path, size) if size and is_gzip(file.path) else size
    return total


def _of_file(path: str, size: int, sample_bytes: int) -> Iterator[list[bytes]]:
    if size <= 3 * sample_bytes:
        yield _lines(b"".join(LogBytes(path).chunks()), True, True)
        return
    head = b""
    for chunk in LogBytes(path, 0, min(size, _HEAD_BYTES_MAX)).chunks():
        head += chunk[: sample_bytes if b"\n" in head else len(chunk)]
        if len(head) >= sample_bytes and b"\n" in head:
            break
    yield _lines(head, True, len(head) == size)
    for start in ((size - sample_bytes) // 2, size - sample_bytes):
        if start >= len(head):
            end = start + sample_bytes
            yield _lines(b"".join(LogBytes(path, start, end).chunks()), False, end == size)


def _of_stream(
    chunks: Iterator[bytes], size: int, sample_bytes: int, is_whole: bool
) -> Iterator[list[bytes]]:
    """The same of a stream; only its head unless ``is_whole``."""
    head, seen, middle, tail = b"", 0, b"", b""
    for chunk in chunks:
        seen += len(chunk)
        if len(head) < sample_bytes or b"\n" not in head:
            head += chunk
        elif not is_whole:
            break
        elif not middle and seen > size // 2:
            middle = chunk
        else:
            tail = (tail + chunk)[-max(sample_bytes, len(chunk)) :]
    is_all = seen == len(head)
    yield _lines(head, True, is_all and is_whole)
    yield _lines(middle[:sample_bytes], False, False)
    yield _lines(tail[-sample_bytes:], False, True)


def _lines(text: bytes, is_start: bool, is_end: bool) -> list[bytes]:
    """Whole lines; the last of a file need not have a line end."""
    lines = text.split(b"\n")
    return [line for line in lines[0 if is_start else 1 : None if is_end else -1] if line.strip()]


def _time_us(file: LogFile, stamps: list[bytes]) -> int | None:
    try:
        local_time = LocalTime(file.timezone, file.clock_offset_ms)
        return local_time.microseconds(stamps[0], False) if stamps else None
    except Unreadable:
        return None


def _unpacked_bytes(path: str, disk_bytes: int) -> int:
    """By the trailer of the gzip stream, which has the size of its last member, modulo 2^32."""
    with Path(path).open("rb") as file:
        file.seek(-min(4, disk_bytes), 2)
        size = int.from_bytes(file.read(4), "little")
    guess = disk_bytes * _GZIP_RATIO
    return size if disk_bytes <= size and guess < 1 << 31 else guess
