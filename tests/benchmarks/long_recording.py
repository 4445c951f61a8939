"""A recording of any size: a real one, gone through over and over, as if it had gone on.

Each time through it is one *repetition*: all nodes' lines in the order of their stamps, moved on by
the span of the recording, with offsets, epochs, session and correlation ids moved on as well. Lines
of one repetition fit each other as they did; where one ends and the next begins, offsets jump. So
the rules work as hard as on a real log of that length, and what they predict means nothing.
"""

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
#: Of the text before the JSON: ``[``, then the stamp.
_STAMP_END = 24
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BETWEEN_MS = 1000
#: Session ids are of 31 bits, from 1.
_SESSION_IDS = 2**31 - 2
#: By how much a repetition moves a number on.
_STEPS = {
    b"correlationId": 10_000,
    b"sessionId": 7_919,
    b"fetchOffset": 100_000,
    b"baseOffset": 100_000,
    b"highWatermark": 100_000,
    b"lastStableOffset": 100_000,
    b"currentMetadataOffset": 100_000,
    b"partitionEpoch": 1_000,
}
# No session stays none.
_NUMBER = re.compile(b'"(?!sessionId":0[,}])(' + b"|".join(_STEPS) + rb')":(\d+)(?=[,}])')


class _Line(NamedTuple):
    """A line with holes for its stamp and for ``numbers``, which move on by ``steps``."""

    at_ms: int
    node: int
    text: bytes
    numbers: NDArray[np.int64]
    steps: NDArray[np.int64]
    are_sessions: NDArray[np.bool_]

    @classmethod
    def of(cls, at_ms: int, node: int, line: bytes) -> Self:
        rest = line[_STAMP_END:].replace(b"%", b"%%")
        names = [match[1] for match in _NUMBER.finditer(rest)]
        return cls(
            at_ms,
            node,
            _NUMBER.sub(rb'"\1":%d', rest),
            np.array([int(match[2]) for match in _NUMBER.finditer(rest)], np.int64),
            np.array([_STEPS[name] for name in names], np.int64),
            np.array([name == b"sessionId" for name in names], np.bool_),
        )

    def repeated(self, repetition: int, span_ms: int) -> bytes:
        """The line of a repetition."""
        at_ms = self.at_ms + repetition * span_ms
        numbers = self.numbers + self.steps * repetition
        numbers[self.are_sessions] = (numbers[self.are_sessions] - 1) % _SESSION_IDS + 1
        stamp = b"[%b,%03d" % (_second(at_ms // 1000), at_ms % 1000)
        return stamp + self.text % tuple(numbers.tolist()) + b"\n"


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
            written += files[line.node].write(line.repeated(repetition, span_ms))
            count += 1
    return written, count


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
                yield _Line.of(at_ms, node, line.rstrip(b"\r\n"))
