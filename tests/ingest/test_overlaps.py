"""Where lines can have been read twice, told from spans of time."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kip_replay.pipelines.ingest.overlaps import _SPANS_MAX, Span, overlaps
from kip_replay.pipelines.ingest.parse_task import COMPARED_BATCHES, Batch, Edge

NODE = ("r", 11)


def batch(first: int, last: int, task: int = 0, number: int = 0, *edges: Edge) -> Batch:
    return Batch(*NODE, task, number, first, last, list(edges))


def found(*batches: Batch, earlier: tuple[Span, ...] = (), slack: int = 0) -> list[Span]:
    return overlaps(batches, {NODE: earlier}, {NODE: slack}).get(NODE, [])


def test_only_what_overlaps_is_looked_into() -> None:
    assert found(batch(0, 9), batch(10, 19, task=1)) == []
    assert found(batch(0, 10), batch(10, 19, task=1)) == [(10, 10)]
    assert found(batch(0, 99), batch(10, 19, task=1), batch(5, 12, task=2)) == [(5, 19)]


def test_another_node_has_other_lines() -> None:
    other = Batch("r", 12, 1, 0, 0, 9)
    assert overlaps([batch(0, 9), other], {}, {}) == {}


def test_what_the_warehouse_holds_counts_with_the_slack_of_zones() -> None:
    assert found(batch(10, 19), earlier=((0, 9), (20, 30))) == []
    assert found(batch(10, 19), earlier=((0, 10),)) == [(10, 10)]
    assert found(batch(10, 19), earlier=((0, 5),), slack=5) == [(5, 15)]


def test_batches_that_their_task_compared_are_done_with() -> None:
    near = [batch(0, 9, number=0), batch(0, 9, number=COMPARED_BATCHES)]
    assert found(*near) == []
    assert found(near[0], batch(0, 9, number=COMPARED_BATCHES + 1)) == [(0, 9)]
    assert found(near[0], batch(0, 9, task=1)) == [(0, 9)]


def test_edges_without_a_line_in_common_are_done_with() -> None:
    before = batch(0, 11, 0, 0, Edge(9, 11, frozenset("ab")))
    after = batch(10, 19, 1, 0, Edge(10, 12, frozenset("cd")))
    assert found(before, after) == []
    assert found(before, batch(10, 19, 1, 0, Edge(10, 12, frozenset("bc")))) == [(10, 11)]
    # An edge that does not have all lines of the overlap proves nothing.
    assert found(before, batch(10, 19, 1, 0, Edge(10, 10, frozenset("cd")))) == [(10, 11)]
    assert found(before, after, slack=3) == [(7, 14)]


@given(
    st.lists(
        st.tuples(st.integers(0, 3000), st.integers(0, 30), st.integers(0, 2), st.integers(0, 99)),
        max_size=200,
    )
)
def test_every_time_that_two_have_is_within_a_span(spans: list[tuple[int, int, int, int]]) -> None:
    batches = [batch(at, at + length, task, number) for at, length, task, number in spans]
    there = found(*batches)
    assert len(there) <= _SPANS_MAX
    assert all(before[1] < after[0] for before, after in pairwise(there))
    for i, one in enumerate(batches):
        for other in batches[:i]:
            first, last = max(one.first_us, other.first_us), min(one.last_us, other.last_us)
            apart = one.task != other.task or abs(one.number - other.number) > COMPARED_BATCHES
            if first <= last and apart:
                assert any(a <= first and last <= b for a, b in there)
