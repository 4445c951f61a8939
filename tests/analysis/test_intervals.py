"""Intervals equal plain arithmetic on the values, and hold what they promise of a steady source."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from constructed import at_rank
from hypothesis import given
from hypothesis import strategies as st

from kip_replay.pipelines.analysis.intervals import (
    BLOCKS,
    Drawn,
    Error,
    Figure,
    Histogram,
    Interval,
    block_us,
    draws,
    rates,
)

Blocks = list[list[int | None]]


def histogram(blocks: Blocks) -> Histogram:
    """Of the values of each block, in ms; None is one that is not known."""
    counts = Counter((value, number) for number, of in enumerate(blocks) for value in of)
    ordered = sorted(counts.items(), key=lambda each: (each[0][0] is None, each))
    rows = [(None if ms is None else ms * 1000, block, n) for (ms, block), n in ordered]
    columns = dict(zip(("value_us", "block", "occurs"), zip(*rows, strict=True), strict=True))
    return Histogram(pa.table({name: pa.array(of, pa.int64()) for name, of in columns.items()}))


def interval(blocks: Blocks, thousandths: int = 500, block_s: float = 5.0) -> Interval | None:
    figure = histogram(blocks).figure(thousandths, block_s)
    drawn = figure.drawn(figure.used, Error())
    return drawn and drawn.interval


VALUES = st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=12)


@given(blocks=st.lists(VALUES, min_size=1, max_size=BLOCKS).filter(any), data=st.data())
def test_a_percentile_of_drawn_blocks_is_that_of_all_their_values(
    blocks: Blocks, data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.integers(0, 3), min_size=BLOCKS, max_size=BLOCKS))
    thousandths = data.draw(st.sampled_from([0, 500, 900, 990, 1000]))
    [found] = histogram(blocks).figure(thousandths, 1.0).weighted(np.array([weights]))
    drawn = [value for n, of in zip(weights, blocks, strict=False) for value in of * n]
    if drawn:
        expected = at_rank(drawn, thousandths)
        assert found == (math.inf if expected is None else expected)
    else:
        assert math.isnan(found)


@given(st.integers(0, 2**50), st.lists(st.integers(1, 2**40), min_size=1, max_size=5).map(sorted))
def test_blocks_of_a_span_that_grows_only_merge(from_us: int, lengths: list[int]) -> None:
    widths = [block_us(from_us, from_us + length) for length in lengths]
    assert all(after % before == 0 for before, after in pairwise(widths))
    for width, length in zip(widths, lengths, strict=True):
        assert (from_us + length - 1) // width - from_us // width < BLOCKS
        assert width == 1_000_000 or block_us(0, length) * 4 >= width


def test_draws_are_whole_recordings_and_both_halves() -> None:
    every, *drawn, first, second = draws(np.array([True] * 3 + [False] + [True] * 4))
    assert every.tolist() == [1, 1, 1, 0, 1, 1, 1, 1]
    assert (first.tolist(), second.tolist()) == ([1, 1, 1, 0, 0, 0, 0, 0], [0] * 4 + [1] * 4)
    assert {sum(draw) for draw in drawn} == {7}
    # Each block is drawn about as often as another.
    assert abs(np.mean(drawn, axis=0) - every).max() < 0.2


def test_halves_that_differ_widen_the_interval() -> None:
    """A cluster that has become faster may go on so: all that blocks drawn at random show, more."""
    slow, fast = [[100] * 6] * 8, [[40] * 6] * 8
    drifting = interval([*slow, *fast])
    taking_turns = interval([block for pair in zip(slow, fast, strict=True) for block in pair])
    assert drifting
    assert taking_turns
    assert drifting.high - drifting.low > taking_turns.high - taking_turns.low
    assert drifting.low == 0.0  # never below


FEW: Blocks = [[1], [2]] * 14
EIGHTEEN: Blocks = [[*range(18)]] * 16
UNKNOWN: Blocks = [[1, 2, 3, 4]] * 15 + [[None] * 8]


@pytest.mark.parametrize(
    ("blocks", "thousandths", "block_s", "is_enough"),
    [
        pytest.param([*FEW, [1]], 500, 5.0, False, id="29 values"),
        pytest.param([*FEW, [1], [2]], 500, 5.0, True, id="30 values"),
        pytest.param([[1, 2, 3]] * 16, 500, 0.5, False, id="8 s"),
        pytest.param([[1, 2, 3]] * 16, 500, 5.0, True, id="80 s"),
        pytest.param([[1, 2, 3] * 9] * 3, 500, 60.0, False, id="3 blocks"),
        pytest.param([[None] * 9] * BLOCKS, 500, 5.0, False, id="no value is known"),
        pytest.param(EIGHTEEN, 900, 5.0, True, id="28 values above the 90th percentile"),
        pytest.param(EIGHTEEN, 990, 5.0, False, id="2 values above the 99th"),
        pytest.param([[*of, 18] for of in EIGHTEEN], 990, 5.0, True, id="3 values above the 99th"),
        pytest.param(UNKNOWN, 500, 5.0, True, id="the median is known"),
        pytest.param(UNKNOWN, 900, 5.0, False, id="the 90th percentile may be unknown"),
    ],
)
def test_what_is_enough_data(
    blocks: Blocks, thousandths: int, block_s: float, is_enough: bool
) -> None:
    assert (interval(blocks, thousandths, block_s) is not None) == is_enough


def test_amounts_by_seconds_and_by_other_amounts() -> None:
    amounts, seconds = np.arange(5), np.array([1.0, 2.0, 2.0, 2.0, 0.0])
    weights = np.array([[1, 1, 1, 1, 1], [2, 0, 1, 0, 0], [0, 0, 0, 0, 3]])
    # Of nothing but time that the log lacks, nothing is known: the rate is that of all.
    assert rates([(amounts, seconds)], weights).tolist() == [10 / 7, 2 / 4, 10 / 7]
    every = amounts >= 0
    steady = Figure(partial(rates, [(3 * amounts, amounts)]), 3 * amounts, 2 * seconds)
    assert steady.drawn(every, Error()).interval == (3.0, 3.0)  # type: ignore[union-attr]
    # Too few blocks, too little time, too few values.
    assert steady.drawn(amounts > 1, Error()) is None
    assert replace(steady, seconds=seconds).drawn(every, Error()) is None
    assert replace(steady, counts=amounts).drawn(every, Error()) is None


def drawn(values: Iterable[float], error: Error = Error()) -> Drawn:  # noqa: B008
    """A percentile that happens to be a sum of blocks."""
    amounts = np.array([*values])
    return Drawn((draws(amounts >= 0) @ amounts).astype(float), len(amounts), error)


def test_both_errors_are_put_together() -> None:
    low, high = drawn([1, 3, 2, 4] * 4).interval or (0.0, 0.0)
    assert 0 < low < 40 < high
    wider = drawn([1, 3, 2, 4] * 4, Error(4.0, 0.5)).interval
    assert wider == (
        pytest.approx(40 - math.hypot(40 - low, 20)),
        pytest.approx(40 + math.hypot(high - 40, 20)),
    )
    assert drawn([1, 3, 2, 4] * 4, Error(4.0, 2.0)).interval == (0.0, pytest.approx(125, abs=9))


def test_what_moves_both_variants_does_not_widen_their_difference() -> None:
    amounts = np.random.default_rng(1).integers(0, 100, 16)
    before, after = drawn(amounts + 5), drawn(amounts + 3)
    assert before.interval
    assert before.interval.high - before.interval.low > 100
    assert after.less(before) == (pytest.approx(-32), pytest.approx(-32))
    off = drawn(amounts + 3, Error(3.0)).less(drawn(amounts + 5, Error(4.0)))
    assert off == (pytest.approx(-37), pytest.approx(-27))
    # Of the same figures neither error says anything; of unknown ones nothing is known.
    assert drawn(amounts, Error(3.0)).less(drawn(amounts, Error(4.0))) == (0.0, 0.0)
    assert before._replace(figures=before.figures * np.inf).less(before) is None


def test_a_rate_that_falls_in_no_block_is_not_taken_to_fall() -> None:
    def per_second(values: list[int]) -> Drawn:
        amounts = np.array(values, float)
        of = partial(rates, [(amounts, np.ones(8)), (amounts, np.ones(8))])
        figure = Figure(of, 9 * amounts, 2 * np.ones(8), is_sum=True)
        return figure.drawn(figure.used, Error(9.0)) or drawn([])

    few, more, mixed = map(per_second, ([1] * 8, [1] * 7 + [5], [0] + [1] * 6 + [5]))
    assert few.figures[0] == 2.0
    low, high = more.less(few) or (9.0, 9.0)
    assert (low, (few.less(more) or (0, 9.0))[1]) == (0.0, 0.0)
    low, high = mixed.less(few) or (9.0, 9.0)
    assert low < 0 < high
