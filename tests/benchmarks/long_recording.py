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
from collections.abc import Iterator
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


def write_recording(folder: Path, source: Path, size_bytes: int) -> tuple[int, int]:
    """Write a recording of at least ``size_bytes`` into ``folder``; its bytes and its lines.

    ``source`` is a folder with a recording.json and one log for each node, plain or gzip.
    """
    manifest = json.loads((source / "recording.json").read_text())
    logs = [node["log"] for node in manifest["nodes"]]
    lines = sorted(
        (line for node, log in enumerate(logs) for line in _lines(source / log, node)),
        key=lambda line: line.at_ms,
    )
    for node, log in zip(manifest["nodes"], logs, strict=True):
        node["log"] = log.removesuffix(".gz")
    folder.mkdir(parents=True)
    (folder / "recording.json").write_text(json.dumps(manifest | {"name": folder.name}))
    return _write([folder / node["log"] for node in manifest["nodes"]], lines, size_bytes)


def _write(paths: list[Path], lines: list[_Line], size_bytes: int) -> tuple[int, int]:
    span_ms = lines[-1].at_ms - lines[0].at_ms + _BETWEEN_MS
    written = count = repetition = 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb", buffering=1 << 20)) for path in paths]
        while written < size_bytes:
            second, text = -1, b""
            for line in lines:
                now, millis = divmod(line.at_ms + repetition * span_ms, 1000)
                if now != second:
                    second, text = now, (_EPOCH + timedelta(seconds=now)).isoformat(" ").encode()
                stamp = b"%b,%03d" % (text[:19], millis)
                written += files[line.node].write(line.template.line(stamp, repetition))
                count += 1
                if written >= size_bytes:
                    break
            repetition += 1
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
