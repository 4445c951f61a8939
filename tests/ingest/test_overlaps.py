"""Where lines can have been read twice, told from spans of time."""

from itertools import combinations, pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from kip_replay.pipelines.ingest.overlaps import _SPANS_MAX, Span, overlaps

NODE = ("r", 11)


def found(*readings: list[Span], slack: int = 0) -> list[Span]:
    return overlaps([{NODE: spans} for spans in readings], {NODE: slack}).get(NODE, [])


def test_only_what_overlaps_is_looked_into() -> None:
    assert found([(0, 9)], [(10, 19)]) == []
    assert found([(0, 10)], [(10, 19)]) == [(10, 10)]
    assert found([(0, 99)], [(10, 19)], [(5, 12)]) == [(5, 19)]


def test_another_node_has_other_lines() -> None:
    assert overlaps([{NODE: [(0, 9)]}, {("r", 12): [(0, 9)]}], {}) == {}


def test_the_slack_of_zones_counts() -> None:
    assert found([(10, 19)], [(0, 9), (20, 30)]) == []
    assert found([(10, 19)], [(0, 5)], slack=5) == [(0, 15)]


def test_what_one_has_read_has_no_line_twice() -> None:
    assert found([(0, 9), (5, 12), (0, 3)]) == []
    assert found([(0, 9), (5, 12)], [(11, 14)]) == [(11, 12)]


_SPANS = st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 30)), max_size=200)


@given(st.lists(_SPANS, max_size=3))
def test_every_time_that_two_have_is_within_a_span(lengths: list[list[tuple[int, int]]]) -> None:
    readings = [[(at, at + length) for at, length in of] for of in lengths]
    there = found(*readings)
    assert len(there) <= _SPANS_MAX
    assert all(before[1] < after[0] for before, after in pairwise(there))
    for one, other in (pair for two in combinations(readings, 2) for pair in product(*two)):
        first, last = max(one[0], other[0]), min(one[1], other[1])
        if first <= last:
            assert any(a <= first and last <= b for a, b in there)
