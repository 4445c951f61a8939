"""What such a cluster would show over another span as long: nine times in ten, between two bounds.

Two errors are put together. **Sampling**: the recording's time is cut into blocks, and whole blocks
are drawn with replacement, since what happens in one second is not independent (a block bootstrap,
Künsch 1989). The other span is a sample too, so that distances count twice as squares. By how much
the recording's own halves differ is added: as brokers warm up and clients come and go, the next
span may differ as much. **Systematic**: the largest error seen where predictions were held against
brokers (``errors.toml`` of each rule).
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kip_replay.pipelines.analysis.accuracy import FEW, SHORT_S

#: Equal parts of a recording's time.
BLOCKS = 16
#: A figure with values in fewer blocks has no interval, nor has a percentile with fewer beyond it,
#: nor what has too few values or too little time (``FEW``, ``SHORT_S``).
FEWEST_BLOCKS, FEWEST_BEYOND = 4, 3
_RESAMPLES = 400
#: Percentiles of resampled figures that bound nine of ten.
_LOW, _HIGH = 5, 95

Integers = NDArray[np.int64]
Figures = NDArray[np.float64]


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


@cache
def draws(blocks: int) -> Integers:
    """How often each block is drawn, a row for each resample; then the first half, the second half.

    The same for every figure, whatever the order of rows.
    """
    drawn = np.random.default_rng(0).multinomial(blocks, [1 / blocks] * blocks, _RESAMPLES)
    first = np.arange(blocks) < blocks // 2
    return np.vstack([drawn, first, ~first]).astype(np.int64)


class Histogram:
    """How often each value occurs in each block; of rows (value, block, occurs) that rise by value.

    ``unknown``: values that are not known, by block; they rank last.
    """

    def __init__(self, values: Integers, block: Integers, occurs: Integers, unknown: Integers):
        used = np.flatnonzero(np.bincount(block, occurs, len(unknown)) + unknown)
        self.blocks = len(used)
        self._values = np.unique(values)
        self._parts = [
            (values[mine], np.concatenate(([0], occurs[mine].cumsum())))
            for mine in (block == number for number in used)
        ]
        self._totals = np.array([up_to[-1] for _, up_to in self._parts]) + unknown[used]

    def percentile(self, thousandths: int, weights: Integers) -> Figures:
        """The value at rank floor(q * (n - 1)) if each block is there so often (rows of weights).

        Infinite where it is unknown.
        """
        ranks = thousandths * (weights @ self._totals - 1) // 1000
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
        return np.append(self._values, np.inf)[low]

    def interval(self, thousandths: int, block_s: float) -> Interval | None:
        """Where a percentile lies in another span as long; None where there is not enough data."""
        count = int(self._totals.sum())
        beyond = count * (1000 - thousandths) // 1000
        if not (is_enough(count, self.blocks, block_s) and beyond >= FEWEST_BEYOND):
            return None
        [value] = self.percentile(thousandths, np.ones((1, self.blocks), np.int64))
        return spread(value, self.percentile(thousandths, draws(self.blocks)))


def is_enough(count: int, blocks: int, block_s: float) -> bool:
    """So many values in so many blocks of so many seconds are enough data for an interval."""
    return count >= FEW and blocks >= FEWEST_BLOCKS and blocks * block_s >= SHORT_S


def spread(value: float, drawn: Figures, least: float = 0.0) -> Interval | None:
    """The sampling error of a figure, of what it is in each of ``draws``; None if too
    many are unknown.

    Another span is as far off as this one, and differs as its halves do.
    """
    resampled, halves = np.sort(drawn[:_RESAMPLES]), drawn[_RESAMPLES:]
    low, high = (resampled[_RESAMPLES * of // 100] for of in (_LOW, _HIGH))
    if not np.isfinite([value, low, high, *halves]).all():
        return None
    changed = float(np.ptp(halves))
    below = np.sqrt(2 * max(value - low, 0.0) ** 2 + changed**2)
    above = np.sqrt(2 * max(high - value, 0.0) ** 2 + changed**2)
    return Interval(max(value - float(below), least), value + float(above))


def per_block(
    amounts: Integers, of: Integers | float, count: int, block_s: float, can_fall: bool = False
) -> Interval | None:
    """Where the sum of blocks, by the sum of others or by seconds of each, lies in another span.

    ``count``: the values behind it. ``can_fall``: below 0, as differences do. None where there is
    not enough data.
    """
    blocks = len(amounts)
    if not is_enough(count, blocks, block_s):
        return None
    by = np.broadcast_to(of, blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = draws(blocks)
        value, drawn = float(amounts.sum() / by.sum()), weights @ amounts / (weights @ by)
        return spread(value, drawn, 0.0 if not can_fall else -np.inf)


def interval(value: float | None, sampling: Interval | None, error: Error) -> Interval | None:
    """Both errors of a value; None where the sampling error is not known. Never below 0."""
    if value is None or sampling is None:
        return None
    systematic = error.of(value)
    low = value - np.hypot(value - sampling.low, systematic)
    return Interval(
        max(float(low), 0.0), float(value + np.hypot(sampling.high - value, systematic))
    )


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
