"""Where lines can have been read twice, told from spans of time."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip_replay.pipelines.ingest.repeated_lines import _SPANS_MAX, Span, overlaps

NODE = ("r", 11)


def found(*readings: list[Span], slack: int = 0) -> list[Span]:
    return overlaps([{NODE: spans} for spans in readings], {NODE: slack}).get(NODE, [])


@pytest.mark.parametrize(
    ("readings", "slack", "shared"),
    [
        ([[(0, 9)], [(10, 19)]], 0, []),
        ([[(0, 10)], [(10, 19)]], 0, [(10, 10)]),
        ([[(10, 19)], [(0, 9), (20, 30)]], 0, []),
        ([[(10, 19)], [(0, 5)]], 5, [(0, 15)]),
        ([[(0, 9), (5, 12), (0, 3)]], 0, []),
        ([[(0, 9), (5, 12)], [(11, 14)]], 0, [(11, 12)]),
    ],
)
def test_only_what_overlaps_is_looked_into(
    readings: list[list[Span]], slack: int, shared: list[Span]
) -> None:
    assert found(*readings, slack=slack) == shared


def test_another_node_has_other_lines() -> None:
    assert overlaps([{NODE: [(0, 9)]}, {("r", 12): [(0, 9)]}], {}) == {}


_SPANS = st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 30)), max_size=200)


@given(st.lists(_SPANS, max_size=3))
def test_every_time_that_two_have_is_within_a_span(lengths: list[list[tuple[int, int]]]) -> None:
    readings = [[(at, at + length) for at, length in of] for of in lengths]
    shared = found(*readings)
    assert len(shared) <= _SPANS_MAX
    times = {us for first, last in shared for us in range(first, last + 1)}
    for one, other in (pair for two in combinations(readings, 2) for pair in product(*two)):
        assert times.issuperset(range(max(one[0], other[0]), min(one[1], other[1]) + 1))
