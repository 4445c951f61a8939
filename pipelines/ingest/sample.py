"""A first look at log files: heads, middles and tails, in seconds whatever their size.

What a survey reads whole, this samples: enough to know nodes, spans of time, APIs and versions,
and what is wrong already; never enough for a number that ends in a table.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kip_replay.pipelines.ingest.log_bytes import LogBytes, is_compressed, unpacked_size
from kip_replay.pipelines.ingest.log_files import AT_ONCE, LogFile, on_disk, readable
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.replay.kafka.request_log import LocalTime, stamp_of
from kip_replay.replay.kafka.request_log.layouts import LineReader, Lines
from kip_replay.replay.kafka.request_log.line import Unreadable

#: A line may be longer than a chunk: this far its end is looked for.
_HEAD_BYTES_MAX = 16 << 20
#: METADATA, configs and groups tell what held when a log began: looked for this many times as far.
_TELLING, _FURTHER = re.compile(rb'requestApiKey\\*":(3|8|14|15|32|69),'), 8


@dataclass(frozen=True)
class Sample:
    """Samples one file. Bytes are on disk, and uncompressed (estimated if compressed); ``lines``
    are those looked at, ``line_count`` estimates how many the file has.

    ``first_us`` and ``last_us``: UTC microseconds of its first and last stamp, None without. Where
    not ``is_end_seen``, the last is when the file was modified. ``damage`` as ``LogBytes`` has it.
    """

    file: LogFile
    disk_bytes: int
    log_bytes: int
    lines: Lines
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
    log, log_bytes, is_whole = LogBytes(file.path), disk_bytes, True
    if disk_bytes and is_compressed(file.path):
        log_bytes = unpacked_size(file.path)
        is_whole = disk_bytes <= inflated_bytes_max
        parts = [*_of_stream(log.chunks(), log_bytes, sample_bytes, is_whole)]
    else:
        parts = [*_of_file(file.path, disk_bytes, sample_bytes)]
    places = [part for part in parts if part]
    framing = file.framing(b"\n".join(places[0]) if places else b"")
    lines, line_bytes = Lines(), list[float]()
    for part in places:
        found = LineReader(file.timezone, framing).read(part, 1)
        lines.add(found)
        # Each stands for as many bytes: lines are short where a log begins.
        count = len(found.lines) + found.others.total() + found.outside
        line_bytes.append(sum(len(line) + 1 for line in part) / max(count, 1))
    if len(parts) > 1:
        text = b"".join(LogBytes(file.path, 0, _FURTHER * sample_bytes).chunks())
        telling = [line for line in _lines(text, True, False) if _TELLING.search(line, 0, 2000)]
        lines.add(LineReader(file.timezone, framing).read(telling, 1))
    times = [us for line in lines.requests() if (us := _time_us(file, line)) is not None]
    return Sample(
        file=file,
        disk_bytes=disk_bytes,
        log_bytes=log_bytes,
        lines=lines,
        line_count=round(sum(log_bytes / len(places) / each for each in line_bytes)),
        first_us=min(times, default=None),
        last_us=max(times, default=None) if is_whole else microseconds(modified_at),
        is_end_seen=is_whole,
        damage=log.damage.what if log.damage else None,
    )


def log_bytes_of(files: Iterable[LogFile]) -> int:
    """Uncompressed bytes, about."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(_log_bytes, files))


def _log_bytes(file: LogFile) -> int:
    size = on_disk(file).bytes
    with readable(file):
        return unpacked_size(file.path) if size and is_compressed(file.path) else size


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
    """Samples a stream; only its head unless ``is_whole``."""
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


def _time_us(file: LogFile, line: bytes) -> int | None:
    try:
        return LocalTime(file.timezone, file.clock_offset_ms).microseconds(stamp_of(line), False)
    except Unreadable:
        return None
