"""Where a figure lies, nine times in ten, over another span as long in such a cluster.

Two errors are put together. **Sampling**: time is cut into blocks, and whole blocks are drawn with
replacement, since what happens in one second is not independent (a block bootstrap, Künsch 1989).
The other span is a sample too, so that distances count twice as squares. By how much the
recording's own halves differ is added: as brokers warm up and clients come and go, the next span
may differ as much. **Systematic**: the largest error seen where predictions were held against
brokers (``errors.toml`` of each rule); of what was recorded there is none.

What a variant changes is a figure too: the same blocks are drawn under both, for they are of the
same requests, so that what moves both does not widen the difference.
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kip_replay.pipelines.analysis.accuracy import FEW, SHORT_S

#: Blocks of a recording at most.
BLOCKS = 32
#: A figure with values in fewer blocks has no interval, nor has a percentile with fewer beyond it,
#: nor what has too few values or too little time (``FEW``, ``SHORT_S``).
FEWEST_BLOCKS, FEWEST_BEYOND = 4, 3
_RESAMPLES = 400
#: Percentiles of resampled figures that bound nine of ten.
_LOW, _HIGH = 5, 95

Integers = NDArray[np.int64]
Figures = NDArray[np.float64]
Used = NDArray[np.bool_]


class Interval(NamedTuple):
    """Bounds of a figure, in its unit."""

    low: float
    high: float


class Error(NamedTuple):
    """The largest error of predictions: in the figure's unit, and relative to the predicted."""

    absolute: float = 0.0
    relative: float = 0.0

    def of(self, value: float) -> float:
        return max(self.absolute, self.relative * abs(value))


class Drawn(NamedTuple):
    """A figure for each row of ``draws``, in its unit; ``error``: the systematic one, if any.

    ``in_blocks``: of each block alone, where the figure is a sum of theirs.
    """

    figures: Figures
    error: Error = Error()
    in_blocks: Figures = np.array([np.nan])

    @classmethod
    def rate(cls, parts: Iterable[tuple[Figures, Figures]], used: Used, error: Error) -> "Drawn":
        """The sum of amounts in blocks, each by seconds or by another amount in the same blocks."""
        weights = np.vstack([draws(used), np.eye(len(used), dtype=np.int64)])
        figures = np.sum([rate(*part, weights) for part in parts], axis=0)
        return cls(figures[: -len(used)], error, figures[-len(used) :])

    @property
    def interval(self) -> Interval | None:
        """None if too many are unknown. Never below 0."""
        found = _within(self.figures, self._systematic)
        return found and Interval(max(found.low, 0.0), found.high)

    def less(self, before: "Drawn") -> Interval | None:
        """Where the difference to a figure of another variant lies, in the same blocks.

        What does not differ, whichever blocks are drawn, no error of predictions makes differ; what
        rises in no block is not taken to rise in another span, nor what falls in none to fall.
        """
        with np.errstate(invalid="ignore"):
            change = self.figures - before.figures
        if not change.any():
            return Interval(0.0, 0.0)
        found = _within(change, float(np.hypot(self._systematic, before._systematic)))
        in_blocks = self.in_blocks - before.in_blocks
        if found and (in_blocks >= 0).all():
            return Interval(max(found.low, 0.0), found.high)
        if found and (in_blocks <= 0).all():
            return Interval(found.low, min(found.high, 0.0))
        return found

    @property
    def _systematic(self) -> float:
        return self.error.of(float(self.figures[0]))


def _within(figures: Figures, systematic: float) -> Interval | None:
    value, resampled, halves = figures[0], np.sort(figures[1:-2]), figures[-2:]
    low, high = (resampled[_RESAMPLES * of // 100] for of in (_LOW, _HIGH))
    if not np.isfinite([value, low, high, *halves]).all():
        return None
    more = np.ptp(halves) ** 2 + systematic**2
    below, above = (np.sqrt(2 * max(by, 0.0) ** 2 + more) for by in (value - low, high - value))
    return Interval(float(value - below), float(value + above))


def block_us(from_us: int, until_us: int) -> int:
    """How long each block of a recording's span is: a power of two of seconds since the epoch.

    As a recording grows, blocks merge in pairs, and none moves.
    """
    width = 1_000_000
    while (until_us - 1) // width - from_us // width >= BLOCKS:
        width *= 2
    return width


def draws(used: Used) -> Integers:
    """How often each block is drawn: a row with all that are used, one for each resample, then the
    first half of them and the second.

    The same for every figure, whatever the order of rows.
    """
    there = np.flatnonzero(used)
    resamples = np.zeros((_RESAMPLES, len(used)), np.int64)
    if len(there):
        resamples[:, there] = _resamples(len(there))
    first = np.cumsum(used) <= len(there) // 2
    return np.vstack([used, resamples, used & first, used & ~first]).astype(np.int64)


@cache
def _resamples(blocks: int) -> Integers:
    return np.random.default_rng(0).multinomial(
        blocks, np.full(blocks, 1 / max(1, blocks)), _RESAMPLES
    )


def is_enough(count: int, used: Used, seconds: float | Figures) -> bool:
    """So many values in blocks of so many seconds are enough data for an interval."""
    span_s = float((used * seconds).sum())
    return count >= FEW and int(used.sum()) >= FEWEST_BLOCKS and span_s >= SHORT_S


def is_shown(count: int, thousandths: int) -> bool:
    """So many values have enough beyond a percentile for it to say something."""
    return count * (1000 - thousandths) // 1000 >= FEWEST_BEYOND


class Histogram:
    """How often each value occurs in each block; of rows (value, block, occurs) that rise by value.

    ``block`` and ``occurs`` go on with values that are not known; they rank last. In ms, of us.
    """

    def __init__(self, values: Integers, block: Integers, occurs: Integers):
        known = len(values)
        self.count, self.unknown = int(occurs[:known].sum()), int(occurs[known:].sum())
        self._totals = np.bincount(block, occurs, BLOCKS).astype(np.int64)
        self._values = np.unique(values)
        self._parts = [
            (values[mine], np.concatenate(([0], occurs[:known][mine].cumsum())))
            for mine in (block[:known] == number for number in np.flatnonzero(self.used))
        ]

    @property
    def used(self) -> Used:
        """Blocks that have values, known or not."""
        return self._totals > 0

    def percentile(self, thousandths: int, weights: Integers) -> Figures:
        """The value at rank floor(q * (n - 1)) if each block is there so often (rows of weights).

        Infinite where it is unknown, NaN where there is no value.
        """
        counts = weights @ self._totals
        ranks, weights = thousandths * (counts - 1) // 1000, weights[:, self.used]
        low = np.zeros(len(weights), np.int64)
        high = np.full(len(weights), len(self._values))
        while (open_ := low < high).any():
            middle = (low + high) // 2
            at = self._values[np.minimum(middle, len(self._values) - 1)]
            not_above = np.stack(
                [up_to[values.searchsorted(at, "right")] for values, up_to in self._parts], axis=1
            )
            reached = (weights * not_above).sum(axis=1) > ranks
            high = np.where(open_ & reached, middle, high)
            low = np.where(open_ & ~reached, middle + 1, low)
        found = np.append(self._values, np.inf)[low] / 1000.0
        return np.where(counts > 0, found, np.nan)

    def drawn(
        self, thousandths: int, weights: Integers, block_s: float, error: Error
    ) -> Drawn | None:
        """A percentile in each of ``draws``; None where there is not enough data."""
        count = self.count + self.unknown
        if not (is_shown(count, thousandths) and is_enough(count, self.used, block_s)):
            return None
        return Drawn(self.percentile(thousandths, weights), error)


def rate(amounts: Figures, by: Figures, weights: Integers) -> Figures:
    """The sum of drawn blocks by their sum of another amount, or of seconds; as in all blocks where
    that is 0."""
    total, divisor = weights @ amounts, weights @ by
    everywhere = np.full(len(weights), amounts.sum() / max(by.sum(), 1e-9))
    return np.divide(total, divisor, out=everywhere, where=divisor > 0)


@cache
def errors(rule: str) -> Mapping[tuple[str, str], Error]:
    """The errors of a rule's predictions by variant and metric; none where nothing was judged."""
    file = resources.files(f"kip_replay.pipelines.rules.{rule}") / "errors.toml"
    if not file.is_file():
        return {}
    found = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        (variant, metric): Error(of["absolute"], of["relative"])
        for variant, metrics in found.items()
        for metric, of in metrics.items()
    }
