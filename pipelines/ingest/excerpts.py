"""Surveys the head and the tail of a log file, so that a plan takes seconds."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kip_replay.pipelines.ingest.log_bytes import LogBytes, is_compressed, unpacked_size
from kip_replay.pipelines.ingest.log_files import LogFile, on_disk
from kip_replay.pipelines.ingest.survey import Survey, survey
from kip_replay.pipelines.warehouse.data_files import microseconds


@dataclass
class Excerpts(LogBytes):
    """Whole lines at the head and the tail of a file, of a small one all of it.

    A compressed one has to be unpacked from its start: of one that is larger, on disk, than
    ``unpacked_bytes_max``, the end is not seen. ``log_bytes`` and ``lines`` are about those of the
    file, unpacked; ``parts`` are what was read.
    """

    excerpt_bytes: int = 1 << 20
    unpacked_bytes_max: int = 1 << 26
    disk_bytes: int = 0
    log_bytes: int = 0
    lines: int = 0
    is_end_seen: bool = True
    parts: list[bytes] = field(default_factory=list)

    def chunks(self) -> Iterator[bytes]:
        head, tail = self._ends()
        # Lines are short where a log begins.
        densities = [text.count(b"\n") / len(text) for text in (head, tail) if text]
        self.lines = round(self.log_bytes * sum(densities) / max(len(densities), 1))
        if self.is_end_seen and not tail:
            self.lines += bool(head) and not head.endswith(b"\n")
            parts = [head]
        else:
            parts = [head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]]
        self.parts = [part for part in parts if part]
        yield from self.parts

    def _ends(self) -> tuple[bytes, bytes]:
        """Reads head and tail; there is no tail where the head is all."""
        is_packed = self.disk_bytes > 0 and is_compressed(self.path)
        self.is_end_seen = not is_packed or self.disk_bytes <= self.unpacked_bytes_max
        self.log_bytes = size = unpacked_size(self.path) if is_packed else self.disk_bytes
        part = self.excerpt_bytes
        head_bytes = size if size <= 3 * part else 2 * part
        spans: list[tuple[int, int | None]] = [(0, None if is_packed else head_bytes)]
        if not is_packed and head_bytes < size:
            spans.append((size - part, size))
        head, tail = b"", b""
        for start, end in spans:
            log, at = LogBytes(self.path, start, end), start
            for chunk in log.chunks():
                at += len(chunk)
                if len(head) < head_bytes:
                    head += chunk
                elif not self.is_end_seen:
                    break
                else:
                    tail = (tail + chunk)[-part:]
            self.damage = log.damage
        if self.is_end_seen:
            self.log_bytes = at
        return head, tail


class Look(NamedTuple):
    """A file as far as it was looked at."""

    survey: Survey
    excerpts: Excerpts


def look_at(file: LogFile, excerpt_bytes: int, unpacked_bytes_max: int) -> Look:
    """Surveys excerpts; the last time is when the file was modified if its end was not seen.

    Raises UserError.
    """
    excerpts = Excerpts(file.path, 0, None, None, excerpt_bytes, unpacked_bytes_max)
    excerpts.disk_bytes, modified_at = on_disk(file)
    of_file = survey(file, log=excerpts)
    if of_file.first_us and not excerpts.is_end_seen:
        of_file = replace(of_file, last_us=microseconds(modified_at))
    return Look(of_file, excerpts)
