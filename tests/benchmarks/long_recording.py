"""A recording of any size: a real one, gone through over and over, as if it had gone on.

Each time through it is one *repetition*: all nodes' lines in the order of their stamps, moved on by
the span of the recording, with offsets, epochs, session and correlation ids moved on as well
(``real_lines.Template``). Lines of one repetition fit each other as they did; where one ends and
the next begins, offsets jump. So the rules work as hard as on a real log of that length, and what
they predict means nothing.
"""

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import lru_cache
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
    """Write a recording of at least ``size_bytes`` into ``folder``; its bytes and its lines."""
    manifest = json.loads((source / "recording.json").read_text())
    logs = [node["log"] for node in manifest["nodes"]]
    lines = sorted(
        (line for node, log in enumerate(logs) for line in _lines(source / log, node)),
        key=lambda line: line.at_ms,
    )
    span_ms = lines[-1].at_ms - lines[0].at_ms + _BETWEEN_MS
    folder.mkdir(parents=True)
    for node in manifest["nodes"]:
        node["log"] = node["log"].removesuffix(".gz")
    (folder / "recording.json").write_text(json.dumps(manifest | {"name": folder.name}))
    written = count = 0
    with ExitStack() as stack:
        paths = [folder / node["log"] for node in manifest["nodes"]]
        files = [stack.enter_context(path.open("wb", buffering=1 << 20)) for path in paths]
        while written < size_bytes:
            repetition, place = divmod(count, len(lines))
            line = lines[place]
            stamp = _stamp(line.at_ms + repetition * span_ms)
            written += files[line.node].write(line.template.line(stamp, repetition))
            count += 1
    return written, count


def _stamp(at_ms: int) -> bytes:
    return b"%b,%03d" % (_second(at_ms // 1000), at_ms % 1000)


@lru_cache(1)
def _second(at_s: int) -> bytes:
    return (_EPOCH + timedelta(seconds=at_s)).isoformat(" ").encode()[:19]


def _lines(path: Path, node: int) -> Iterator[_Line]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as log:
        for line in log:
            stamp = _STAMP.match(line)
            if stamp:
                # In the recording's own zone; only distances matter.
                local = datetime.fromisoformat(stamp[1].decode()).replace(tzinfo=UTC)
                at_ms = (local - _EPOCH) // timedelta(seconds=1) * 1000 + int(stamp[2])
                yield _Line(at_ms, node, Template.of(line.rstrip(b"\r\n")))
