"""A recording of any size: a real one, gone through over and over, as if it had gone on.

Each time through it is one *repetition*: all nodes' lines in the order of their stamps, moved on by
the span of the recording, with offsets, epochs, session and correlation ids moved on as well
(``real_lines.Template``). Lines of one repetition fit each other as they did; where one ends and
the next begins, offsets jump. So the rules work as hard as on a real log of that length, and what
they predict means nothing.
"""

import gzip
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from .real_lines import Template

_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BETWEEN_MS = 1000


class _Line(NamedTuple):
    at_ms: int
    node: int
    template: Template


class Source:
    """The lines of a real recording: a folder with a recording.json and a log for each node.

    ``logs`` are the names of the nodes' logs, ``manifest`` says what the recording is of.
    """

    def __init__(self, folder: Path) -> None:
        self.manifest = json.loads((folder / "recording.json").read_text())
        logs = [node["log"] for node in self.manifest["nodes"]]
        self.logs: list[str] = [log.removesuffix(".gz") for log in logs]
        self._lines = sorted(
            (line for node, log in enumerate(logs) for line in _lines(folder / log, node)),
            key=lambda line: line.at_ms,
        )

    def cut(self, begin: float, size_bytes: int) -> None:
        """From a share of the lines on, about so many bytes; nodes without a line are left out."""
        kept = []
        for line in self._lines[int(begin * len(self._lines)) :]:
            kept.append(line)
            size_bytes -= len(line.template.text)
            if size_bytes <= 0:
                break
        nodes = sorted({line.node for line in kept})
        self._lines = [line._replace(node=nodes.index(line.node)) for line in kept]
        self.logs = [self.logs[node] for node in nodes]
        self.manifest["nodes"] = [self.manifest["nodes"][node] for node in nodes]

    @property
    def span_ms(self) -> int:
        """From the first line to where the next repetition begins."""
        return self._lines[-1].at_ms - self._lines[0].at_ms + _BETWEEN_MS

    def write_manifest(self, folder: Path, suffix: str = "") -> None:
        """The recording.json of a folder whose logs' names end with ``suffix``."""
        nodes = [
            node | {"log": log + suffix}
            for node, log in zip(self.manifest["nodes"], self.logs, strict=True)
        ]
        manifest = self.manifest | {"name": folder.name, "nodes": nodes}
        (folder / "recording.json").write_text(json.dumps(manifest))

    def repeat(
        self, repetition: int, moved_ms: int, paths: Sequence[Path], size_bytes: float = math.inf
    ) -> tuple[int, int]:
        """Appends one repetition, or about ``size_bytes`` of it; its bytes and its lines."""
        written, second, text = 0, -1, b""
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("ab", buffering=1 << 20)) for path in paths]
            for count, line in enumerate(self._lines):
                if written >= size_bytes:
                    return written, count
                now, millis = divmod(line.at_ms + moved_ms, 1000)
                if now != second:
                    second, text = now, (_EPOCH + timedelta(seconds=now)).isoformat(" ").encode()
                stamp = b"%b,%03d" % (text[:19], millis)
                written += files[line.node].write(line.template.line(stamp, repetition))
        return written, len(self._lines)


def write_recording(folder: Path, source: Path, size_bytes: int) -> tuple[int, int]:
    """Write a recording of at least ``size_bytes`` into ``folder``; its bytes and its lines."""
    real = Source(source)
    folder.mkdir(parents=True)
    real.write_manifest(folder)
    paths = [folder / log for log in real.logs]
    written = count = repetition = 0
    while written < size_bytes:
        more, lines = real.repeat(
            repetition, repetition * real.span_ms, paths, size_bytes - written
        )
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
