"""Computes 90 % prediction intervals of figures over another span as long.

Two errors are put together. **Sampling**: time is cut into blocks, and whole blocks are drawn with
replacement, since what happens in one second is not independent (a block bootstrap, Künsch 1989).
The other span is a sample too, so that distances count twice as squares; few blocks say less than
many, by as much as Student's t is wider. How far apart the recording's own halves are is added, as
a square twice too: brokers warm up and clients come and go, and what drifts does so twice as far
from one span to the next as from half to half. **Systematic**: the largest error seen where
predictions were held against brokers (``rules/errors.toml``); of what was recorded there is
none.

What a variant changes is a figure too: the same blocks are drawn under both, for they are of the
same requests, so that what moves both does not widen the difference. How often intervals hold, out
of sample: docs/coverage.md.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kip_replay.pipelines.analysis.accuracy import SHORT_S
from kip_replay.pipelines.rule_files import RULES_ERRORS, read_toml
from kip_replay.replay.records import RECORDED, SAMPLES_MIN

#: Blocks of a recording at most.
BLOCKS = 32
#: A figure with values in fewer blocks has no interval, nor has a percentile with fewer beyond it,
#: nor what has too few values or too little time (``SAMPLES_MIN``, ``SHORT_S``).
BLOCKS_MIN, BEYOND_MIN = 4, 3
_RESAMPLES = 400
#: Up to this many numbers a histogram has them in a table, which is quicker than searching.
_CELLS_MAX = 1 << 22
_PERCENTILE = re.compile(r"_p\d+$")
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

    def at(self, value: float) -> float:
        return max(self.absolute, self.relative * abs(value))


class Drawn(NamedTuple):
    """A figure for each row of ``draws`` of this many ``blocks``; ``error``: the systematic one.

    ``in_blocks``: of each block alone, where the figure is a sum of theirs. ``is_ratio``: a variant
    changes it by a share.
    """

    figures: Figures
    blocks: int
    error: Error = Error()
    in_blocks: Figures = np.array([np.nan])
    is_ratio: bool = False

    @property
    def interval(self) -> Interval | None:
        """None if too many are unknown. Never below 0."""
        return _within(self.figures, self.blocks, self._systematic, least=0.0)

    def less(self, before: "Drawn") -> Interval | None:
        """Bounds the difference to a figure of another variant, in the same blocks.

        What does not differ, whichever blocks are drawn, no error of predictions makes differ; what
        rises in no block is not taken to rise in another span, nor what falls in none to fall. A
        share of the same requests is that of as many in another span.
        """
        change = self.change_from(before, before.figures[0])
        if not change.any():
            return Interval(0.0, 0.0)
        systematic = float(np.hypot(self._systematic, before._systematic))
        in_blocks = self.in_blocks - before.in_blocks
        least = 0.0 if (in_blocks >= 0).all() else -np.inf
        most = 0.0 if (in_blocks <= 0).all() else np.inf
        return _within(change, min(self.blocks, before.blocks), systematic, least, most)

    def change_from(self, before: "Drawn", amount: float) -> Figures:
        """The difference to a figure of another variant; of ratios, where that is ``amount``."""
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.is_ratio:
                return amount * (self.figures / before.figures - 1)
            return self.figures - before.figures

    @property
    def _systematic(self) -> float:
        return self.error.at(float(self.figures[0]))


def _within(
    figures: Figures, blocks: int, systematic: float, least: float, most: float = np.inf
) -> Interval | None:
    value, resampled, halves = figures[0], np.sort(figures[1:-2]), figures[-2:]
    low, high = (resampled[_RESAMPLES * percent // 100] for percent in (_LOW, _HIGH))
    if not np.isfinite([value, low, high, *halves]).all():
        return None
    # Student's t by the normal quantile (Cornish and Fisher), and n by n - 1.
    t = 1 + 0.926 / (blocks - 1) + 0.744 / (blocks - 1) ** 2
    twice = 2 * t**2 * blocks / (blocks - 1)
    more = 2 * np.ptp(halves) ** 2 + systematic**2
    below, above = (np.sqrt(twice * max(by, 0) ** 2 + more) for by in (value - low, high - value))
    return Interval(max(float(value - below), least), min(float(value + above), most))


def block_us(from_us: int, until_us: int) -> int:
    """Chooses the length of the blocks of a recording: a power of two of seconds.

    As a recording grows, blocks merge in pairs, and none moves.
    """
    width = 1_000_000
    while (until_us - 1) // width - from_us // width >= BLOCKS:
        width *= 2
    return width


def draws(used: Used) -> Integers:
    """Draws blocks: a row with how often all that are used, one for each resample, then the
    first half of them and the second.

    The same for every figure, whatever the order of rows.
    """
    count = int(used.sum())
    resamples = np.zeros((_RESAMPLES, len(used)), np.int64)
    resamples[:, used] = _resamples(count)
    first = np.cumsum(used) <= count // 2
    return np.vstack([used, resamples, used & first, used & ~first]).astype(np.int64)


@cache
def _resamples(blocks: int) -> Integers:
    return np.random.default_rng(0).multinomial(blocks, [1 / blocks] * blocks, _RESAMPLES)


@dataclass(frozen=True)
class Figure:
    """A figure in its unit; ``weighted`` by how often each block is there, one for each row.

    ``counts``: values behind it in each block, the ``unknown`` ones too. ``seconds``: of each block
    that it is of, else 0. ``beyond``: thousandths of the values above it. ``is_sum``: of blocks.
    ``is_ratio``: as in ``Drawn``.
    """

    weighted: Callable[[Integers], Figures]
    counts: Integers | Figures
    seconds: Figures
    unknown: int = 0
    beyond: int = 1000
    is_sum: bool = False
    is_ratio: bool = False

    @property
    def used(self) -> Used:
        return self.seconds > 0

    @property
    def count(self) -> int:
        return int(self.counts.sum()) - self.unknown

    @cached_property
    def value(self) -> float | None:
        """None where it is unknown."""
        [value] = self.weighted(np.ones((1, len(self.counts)), np.int64))
        return float(value) if np.isfinite(value) else None

    @property
    def is_shown(self) -> bool:
        """Enough values lie beyond it for it to say something."""
        return int(self.counts.sum()) * self.beyond // 1000 >= BEYOND_MIN

    def drawn(self, blocks: Used, error: Error) -> Drawn | None:
        """Computes the figure of blocks, all or a part; None where there is not enough data."""
        mine = replace(self, counts=self.counts * blocks, seconds=self.seconds * blocks)
        if not (
            mine.is_shown
            and mine.counts.sum() >= SAMPLES_MIN
            and mine.used.sum() >= BLOCKS_MIN
            and mine.seconds.sum() >= SHORT_S
        ):
            return None
        drawn = Drawn(self.weighted(draws(blocks)), int(mine.used.sum()), error)
        in_blocks = np.diag(blocks).astype(np.int64)
        if not self.is_sum:
            return drawn
        return drawn._replace(in_blocks=self.weighted(in_blocks), is_ratio=self.is_ratio)


def rates(parts: Collection[tuple[Figures, Figures]], weights: Integers) -> Figures:
    """The sum of amounts in blocks, each by seconds or by another amount in the same blocks; as in
    all blocks where none of that is drawn."""
    sums = np.zeros(len(weights))
    for amounts, by in parts:
        total, divisor = weights @ amounts, weights @ by
        everywhere = np.full(len(weights), amounts.sum() / max(by.sum(), 1e-9))
        sums += np.divide(total, divisor, out=everywhere, where=divisor > 0)
    return sums


class Histogram:
    """Counts each value in each block; of rows of ``latency_histogram`` by value, those
    last that are not known."""

    #: Of each value the values of each block that are not above it, unless there are too many.
    _table: Integers | None = None

    def __init__(self, rows: pa.Table | pa.RecordBatch):
        values = rows.column("value_us").drop_null().to_numpy()
        block, occurs = (rows.column(name).to_numpy() for name in ("block", "occurs"))
        known = len(values)
        self._unknown = int(occurs[known:].sum())
        self._totals = np.bincount(block, occurs, BLOCKS).astype(np.int64)
        self._values, place = np.unique(values, return_inverse=True)
        blocks, cells = np.flatnonzero(self._totals), BLOCKS * len(self._values)
        self._parts = [
            (values[mine], np.concatenate(([0], occurs[:known][mine].cumsum())))
            for mine in (block[:known] == number for number in blocks)
        ]
        if 0 < cells <= _CELLS_MAX:
            counts = np.bincount(place * BLOCKS + block[:known], occurs[:known], cells)
            self._table = counts.reshape(-1, BLOCKS)[:, blocks].cumsum(0).astype(np.int64)

    def _not_above(self, places: Integers) -> Integers:
        """Counts how many values of each block are not above those at ``places``."""
        if self._table is not None:
            return self._table[places]
        at = self._values[places]
        counts = [up_to[values.searchsorted(at, "right")] for values, up_to in self._parts]
        return np.stack(counts, axis=1)

    def _percentile(self, thousandths: int, weights: Integers) -> Figures:
        """The value at rank floor(q * (n - 1)) if each block is there so often (rows of weights).

        Infinite where it is unknown, NaN where there is no value.
        """
        counts = weights @ self._totals
        ranks, weights = thousandths * (counts - 1) // 1000, weights[:, self._totals > 0]
        low = np.zeros(len(weights), np.int64)
        high = np.full(len(weights), len(self._values))
        while (open_ := low < high).any():
            middle = (low + high) // 2
            not_above = self._not_above(np.minimum(middle, len(self._values) - 1))
            reached = np.einsum("ij,ij->i", weights, not_above) > ranks
            high = np.where(open_ & reached, middle, high)
            low = np.where(open_ & ~reached, middle + 1, low)
        values = np.append(self._values, np.inf)[low] / 1000.0
        return np.where(counts > 0, values, np.nan)

    def figure(self, thousandths: int, block_s: float) -> Figure:
        weighted = partial(self._percentile, thousandths)
        seconds = np.where(self._totals, block_s, 0.0)
        return Figure(weighted, self._totals, seconds, self._unknown, 1000 - thousandths)


#: Of a rule's predictions, by variant and metric.
Errors = Mapping[tuple[str, str], Error]


def error_of(errors: Errors, variant: str, metric: str) -> Error:
    """The systematic error of a figure; none of what was recorded.

    A variant or percentile that was not judged is as far off as the worst of the others.
    """
    if variant == RECORDED:
        return Error()
    name = _PERCENTILE.sub("", metric)
    others = [it.relative for (_, m), it in errors.items() if _PERCENTILE.sub("", m) == name]
    return errors.get((variant, metric), Error(relative=max(others, default=0.0)))


@cache
def errors(rule: str) -> Errors:
    """The errors of a rule's predictions; none where nothing was judged."""
    stated = read_toml(RULES_ERRORS, dict[str, dict[str, dict[str, Any]]])
    return {
        (variant, metric): Error(amounts["absolute"], amounts["relative"])
        for variant, metrics in stated.get(rule, {}).items()
        for metric, amounts in metrics.items()
    }
