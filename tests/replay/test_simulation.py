"""The kernel of simulations, held against scans of the same values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip_replay.replay.simulation import EventQueue, Rising, Timeline

pytestmark = pytest.mark.property

TIMES = st.integers(0, 50)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1), st.integers(0, 50))
def test_rising_is_as_a_scan_finds_it_also_after_forgetting(
    steps: list[tuple[int, int]], before: int
) -> None:
    timeline = Rising()
    now = 0
    seen: list[tuple[int, int]] = []
    for at, value in steps:
        now = max(now, at)
        timeline.add(now, value)
        seen.append((now, value))
    timeline.forget(before)
    for at in range(before, 51):
        expected = max((value for when, value in seen if when <= at), default=None)
        assert timeline.value(at) == expected
    for value in range(21):
        first = min((when for when, other in seen if other >= value), default=None)
        reached = timeline.reached(value)
        if first is None or first >= before:
            assert (None if reached is None else reached[0]) == first


@given(st.lists(TIMES, max_size=20), TIMES)
def test_nearest_sample_is_the_earlier_of_two_as_near(times: list[int], at: int) -> None:
    """Times may go back, of a timeline too."""
    samples: Timeline[int] = Timeline()
    for time in times:
        samples.add(time, time)
    assert samples.nearest(at) == min(times, key=lambda time: (abs(time - at), time), default=None)
    assert samples.value(at) == max((time for time in times if time <= at), default=None)


@given(st.lists(st.tuples(TIMES, st.integers(0, 3), TIMES), max_size=20), TIMES)
def test_events_come_in_order_up_to_a_time(events: list[tuple[int, int, int]], until: int) -> None:
    queue: EventQueue[int] = EventQueue()
    for event in events:
        queue.push(*event)
    assert list(queue.until(until)) == sorted(event for event in events if event[0] <= until)
    assert sorted(queue.heap) == sorted(event for event in events if event[0] > until)
