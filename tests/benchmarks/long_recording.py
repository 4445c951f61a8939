"""A recording of any size: a real one, gone through over and over, as if it had gone on.

Each time through it is one *repetition*: all nodes' lines in the order of their stamps, moved on by
the span of the recording, with offsets, epochs, session and correlation ids moved on as well
(``real_lines.Template``). Lines of one repetition fit each other as they did; where one ends and
the next begins, offsets jump. So the rules work as hard as on a real log of that length, and what
they predict means nothing.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, NamedTuple

from .real_lines import Template

_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BETWEEN_MS = 1000


class _Line(NamedTuple):
    at_ms: int
    node: int
    template: Template


class Source:
    """The lines of a real recording: a folder with a recording.json and a log for each node."""

    def __init__(self, folder: Path) -> None:
        self.manifest = json.loads((folder / "recording.json").read_text())
        logs = [node["log"] for node in self.manifest["nodes"]]
        for node, log in zip(self.manifest["nodes"], logs, strict=True):
            node["log"] = log.removesuffix(".gz")
        self.logs: list[str] = [node["log"] for node in self.manifest["nodes"]]
        self._lines = sorted(
            (line for node, log in enumerate(logs) for line in _lines(folder / log, node)),
            key=lambda line: line.at_ms,
        )

    def repeat(
        self, repetition: int, moved_ms: int, files: Sequence[IO[bytes]], size_bytes: int
    ) -> tuple[int, int]:
        """Writes one repetition, or about ``size_bytes`` of it; its bytes and its lines."""
        written, second, text = 0, -1, b""
        for count, line in enumerate(self._lines):
            if written >= size_bytes:
                return written, count
            now, millis = divmod(line.at_ms + moved_ms, 1000)
            if now != second:
                second, text = now, (_EPOCH + timedelta(seconds=now)).isoformat(" ").encode()
            stamp = b"%b,%03d" % (text[:19], millis)
            written += files[line.node].write(line.template.line(stamp, repetition))
        return written, len(self._lines)

    @property
    def span_ms(self) -> int:
        """From the first line to where the next repetition begins."""
        return self._lines[-1].at_ms - self._lines[0].at_ms + _BETWEEN_MS

    def write_manifest(self, folder: Path, suffix: str = "") -> None:
        """The recording.json of a folder whose logs' names end with ``suffix``."""
        nodes = [node | {"log": node["log"] + suffix} for node in self.manifest["nodes"]]
        manifest = self.manifest | {"name": folder.name, "nodes": nodes}
        (folder / "recording.json").write_text(json.dumps(manifest))


def write_recording(folder: Path, source: Path, size_bytes: int) -> tuple[int, int]:
    """Write a recording of at least ``size_bytes`` into ``folder``; its bytes and its lines."""
    real = Source(source)
    folder.mkdir(parents=True)
    real.write_manifest(folder)
    written = count = repetition = 0
    with ExitStack() as stack:
        files = [
            stack.enter_context((folder / log).open("wb", buffering=1 << 20)) for log in real.logs
        ]
        while written < size_bytes:
            moved_ms = repetition * real.span_ms
            more, lines = real.repeat(repetition, moved_ms, files, size_bytes - written)
            written, count, repetition = written + more, count + lines, repetition + 1
    return written, count


def _lines(path: Path, node: int) -> Iterator[_Line]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as log:
        for line in log:
            stamp = _STAMP.match(line)
            if stamp:
                # In the recording's own zone; only distances matter.
                local = datetime.fromisoformat(stamp[1].decode()).replace(tzinfo=UTC)
                at_ms = (local - _EPOCH) // timedelta(seconds=1) * 1000 + int(stamp[2])
                yield _Line(at_ms, node, Template.of(line.rstrip(b"\r\n")))
