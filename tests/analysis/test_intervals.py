"""Intervals equal plain arithmetic on the values, and hold what they promise of a steady source."""

import math

import numpy as np
import pytest
from constructed import at_rank
from hypothesis import given
from hypothesis import strategies as st

from kip_replay.pipelines.analysis.intervals import (
    BLOCKS,
    Error,
    Histogram,
    Interval,
    draws,
    interval,
    per_block,
    spread,
)

Blocks = list[list[int | None]]


def histogram(blocks: Blocks) -> Histogram:
    """Of the values of each block; None is one that is not known."""
    counts: dict[tuple[int, int], int] = {}
    unknown = np.zeros(BLOCKS, np.int64)
    for number, values in enumerate(blocks):
        for value in values:
            if value is None:
                unknown[number] += 1
            else:
                counts[value, number] = counts.get((value, number), 0) + 1
    rows = np.array([(*key, n) for key, n in sorted(counts.items())], np.int64).reshape(-1, 3)
    return Histogram(rows[:, 0], rows[:, 1], rows[:, 2], unknown)


VALUES = st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=12)


@given(blocks=st.lists(VALUES, min_size=1, max_size=BLOCKS).filter(any), data=st.data())
def test_a_percentile_of_drawn_blocks_is_that_of_all_their_values(
    blocks: Blocks, data: st.DataObject
) -> None:
    used = [values for values in blocks if values]
    weights = data.draw(
        st.lists(st.integers(0, 3), min_size=len(used), max_size=len(used)).filter(any)
    )
    thousandths = data.draw(st.sampled_from([0, 500, 900, 990, 1000]))
    [found] = histogram(blocks).percentile(thousandths, np.array([weights]))
    drawn = [value for n, of in zip(weights, used, strict=True) for value in of * n]
    expected = at_rank(drawn, thousandths)
    assert found == (math.inf if expected is None else expected)


def test_draws_are_whole_recordings_and_both_halves() -> None:
    drawn = draws(7)
    assert (drawn[:-2].sum(axis=1) == 7).all()
    assert drawn[-2:].tolist() == [[1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1]]
    # Each block is drawn about as often as another.
    assert abs(drawn[:-2].mean(axis=0) - 1).max() < 0.2


def test_blocks_that_are_alike_have_no_error() -> None:
    blocks: Blocks = [[10, 20, 30] for _ in range(BLOCKS)]
    assert histogram(blocks).interval(500, 5.0) == (20, 20)


def test_halves_that_differ_widen_the_interval() -> None:
    """A cluster that has become faster may go on so: all that blocks drawn at random show, more."""
    slow, fast = [[100] * 6] * 8, [[40] * 6] * 8
    drifting = histogram([*slow, *fast]).interval(500, 5.0)
    turns = histogram([block for pair in zip(slow, fast, strict=True) for block in pair])
    taking_turns = turns.interval(500, 5.0)
    assert drifting
    assert taking_turns
    assert drifting.high - drifting.low > taking_turns.high - taking_turns.low
    assert drifting.low == 0.0  # never below


@pytest.mark.parametrize(
    ("blocks", "block_s"),
    [
        pytest.param([[1], [2]] * 7 + [[1]], 5.0, id="29 values"),
        pytest.param([[1, 2, 3]] * BLOCKS, 0.5, id="8 s"),
        pytest.param([[1, 2, 3] * 9] * 3, 60.0, id="3 blocks"),
        pytest.param([[None] * 9] * BLOCKS, 5.0, id="no value is known"),
    ],
)
def test_not_enough_data(blocks: Blocks, block_s: float) -> None:
    doubled: Blocks = [[*values, *values] for values in blocks]
    assert histogram(blocks[:15]).interval(500, block_s) is None
    if block_s > 1 and len(blocks) > 3 and doubled[0][0] is not None:
        assert histogram(doubled).interval(500, block_s)


def test_a_percentile_needs_values_beyond_it() -> None:
    blocks: Blocks = [[*range(18)]] * BLOCKS  # 288 values: 2 above the 99th percentile
    assert histogram(blocks).interval(900, 5.0)
    assert histogram(blocks).interval(990, 5.0) is None
    assert histogram([[*of, 18] for of in blocks]).interval(990, 5.0)


def test_a_figure_that_may_be_unknown_has_no_interval() -> None:
    blocks: Blocks = [[1, 2, 3, 4]] * (BLOCKS - 1) + [[None] * 8]
    assert histogram(blocks).interval(500, 5.0)
    assert histogram(blocks).interval(900, 5.0) is None


def test_amounts_by_seconds_and_by_other_amounts() -> None:
    sixteen = np.arange(BLOCKS)
    by_second = per_block(sixteen, 2.0, 120, 2.0)
    drawn = draws(BLOCKS) @ sixteen / (2.0 * draws(BLOCKS).sum(axis=1))
    assert by_second == spread(sixteen.sum() / (2.0 * BLOCKS), drawn)
    assert per_block(3 * sixteen, sixteen, 120, 2.0) == (3.0, 3.0)
    assert per_block(sixteen, 2.0, 29, 2.0) is None
    assert per_block(sixteen[:0], 2.0, 120, 2.0) is None


def test_both_errors_are_put_together() -> None:
    sampling = Interval(17.0, 28.0)
    assert interval(20.0, sampling, Error()) == sampling
    assert interval(20.0, sampling, Error(4.0, 0.1)) == (15.0, pytest.approx(20 + 80**0.5))
    assert interval(20.0, sampling, Error(4.0, 2.0))[0] == 0.0  # type: ignore[index]
    assert interval(None, sampling, Error()) is None
    assert interval(20.0, None, Error(4.0, 0.1)) is None


def test_nine_in_ten_spans_of_a_steady_source_lie_within() -> None:
    """Values whose blocks differ: some are slow as a whole, at random."""
    draw = np.random.default_rng(1)
    slowness = draw.integers(0, 3, (401, BLOCKS)) * 40
    spans = [
        [list(map(int, pace + draw.exponential(100, 12))) for pace in of_span]
        for of_span in slowness
    ]
    medians = [at_rank([value for block in span for value in block], 500) for span in spans]
    found = [histogram(span).interval(500, 5.0) for span in spans]
    held = [
        one.low <= after <= one.high
        for one, after in zip(found[:-1], medians[1:], strict=True)
        if one and after is not None
    ]
    assert len(held) == 400
    assert 0.88 < np.mean(held) < 0.99
