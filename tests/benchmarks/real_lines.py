"""Request logs of any size from the lines of real brokers.

A line of a recording becomes a template: its stamp, correlation id, session id and offsets are
holes, all else is as Kafka wrote it. The templates are then written over and over. Each time
through them is one *repetition*, in which ids and offsets are moved on by the same amount, so that
numbers of one line still fit each other; stamps are a millisecond apart. No two lines are equal.

* ``small``: PRODUCE and incremental FETCH, about 1 KB;
* ``large``: full FETCHes of many partitions, 10 to 30 KB.

The lines of all brokers become the log of one node, so sessions and offsets of such a log mean
nothing to a rule: it is for reading only.
"""

import gzip
import random
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

NODE_ID = 99  # none that sent a recorded line: its log has no request of its own
SHAPES = ("small", "large")
#: Stamps begin here.
START = datetime(2026, 1, 5, tzinfo=UTC)

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
_NUMBER = re.compile(b'"(' + b"|".join(_STEPS) + rb')":(\d+)(?=[,}])')
#: Of the text before the JSON: ``[``, then the stamp.
_STAMP_END = 24


class Template(NamedTuple):
    """A line with holes for ``numbers``, which move on by ``steps`` a repetition."""

    text: bytes
    numbers: NDArray[np.int64]
    steps: NDArray[np.int64]
    session_ids: NDArray[np.int64]

    @classmethod
    def of(cls, line: bytes) -> Self:
        """The template of a line without its line end."""
        rest = line[_STAMP_END:].replace(b"%", b"%%")
        found = [
            (name, int(number))
            for name, number in _NUMBER.findall(rest)
            if (name, number) != (b"sessionId", b"0")  # no session stays none
        ]
        text = _NUMBER.sub(
            lambda match: (
                match[0] if match.groups() == (b"sessionId", b"0") else b'"' + match[1] + b'":%d'
            ),
            rest,
        )
        return cls(
            text,
            np.array([number for _, number in found], np.int64),
            np.array([_STEPS[name] for name, _ in found], np.int64),
            np.flatnonzero(np.array([name == b"sessionId" for name, _ in found], np.bool_)),
        )

    def line(self, stamp: bytes, repetition: int) -> bytes:
        """The line of a repetition, with its line end."""
        numbers = self.numbers + self.steps * repetition
        numbers[self.session_ids] = (numbers[self.session_ids] - 1) % _SESSION_IDS + 1
        return b"[" + stamp + self.text % tuple(numbers.tolist()) + b"\n"


def templates(recordings: Sequence[Path], shape: str, seed: int = 5) -> list[Template]:
    """Templates of a shape from all brokers' lines of some recordings, shuffled by ``seed``."""
    lines = [line for folder in recordings for line in lines_of(folder, shape)]
    random.Random(seed).shuffle(lines)
    return [Template.of(line) for line in lines]


def write_log(path: Path, shapes: Sequence[Template], size_bytes: int) -> int:
    """Write a log of at least ``size_bytes`` to ``path``, line by line; how many lines it has."""
    written = lines = 0
    with path.open("wb", buffering=1 << 20) as log:
        stamps = _stamps()
        repetition = 0
        while written < size_bytes:
            for template in shapes:
                written += log.write(template.line(next(stamps), repetition))
                lines += 1
                if written >= size_bytes:
                    break
            repetition += 1
    return lines


def lines_of(folder: Path, shape: str) -> Iterator[bytes]:
    """Brokers' lines of a shape, without line ends."""
    for path in sorted(folder.glob("broker-*.log.gz")):
        with gzip.open(path) as log:
            yield from (line.rstrip(b"\r\n") for line in log if _fits(line, shape))


def _fits(line: bytes, shape: str) -> bool:
    is_fetch = b'"requestApiKeyName":"FETCH"' in line
    is_full = b'"sessionEpoch":0,' in line or b'"sessionEpoch":-1,' in line
    if shape == "large":
        return 10_000 <= len(line) <= 30_000 and is_fetch and is_full
    is_produce = b'"requestApiKeyName":"PRODUCE"' in line
    return len(line) < 4_000 and (is_produce or (is_fetch and not is_full))


def _stamps() -> Iterator[bytes]:
    """``yyyy-MM-dd HH:mm:ss,SSS``, a millisecond apart."""
    second = START
    while True:
        text = second.strftime("%Y-%m-%d %H:%M:%S").encode()
        for millis in range(1000):
            yield b"%b,%03d" % (text, millis)
        second += timedelta(seconds=1)
