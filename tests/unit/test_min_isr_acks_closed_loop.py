"""Producers that react, in small histories: milliseconds, one leader, followers 12 and 13.

A follower's cycle is the time from a response until its next FETCH is noted, whose handler is done
half a millisecond later. A PRODUCE is handled in one millisecond, a parked FETCH gets its response
0.7 ms after the arrival.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation.heartbeats import us

from kip_replay.replay.min_isr_acks.closed_loop import Alone, ClosedLoop, Produce, Sent
from kip_replay.replay.min_isr_acks.follower_cycles import LOOKAHEAD_US, Cycles
from kip_replay.replay.min_isr_acks.reasons import NONE, REQUEST_TIMED_OUT

#: A cycle of each follower, and when its first FETCH is parked.
NEAR, FAR = {12: 10.0, 13: 60.0}, 0.0
WOKEN = 0.7


def cycles(follower_ms: Mapping[int, float] = NEAR, end_ms: float = 5_000.0) -> dict[int, Cycles]:
    """Followers that come back after the same time, all along the log."""
    found = {}
    for replica_id, ms in follower_ms.items():
        found[replica_id] = Cycles()
        at_ms = 0.0
        while at_ms < end_ms:
            noted = us(at_ms)
            found[replica_id].fetched(noted, noted + 500, noted + 500, -1)
            at_ms += ms + 0.5
    return found


def produce(number: int, received_ms: float, **more: Any) -> Produce:
    """A PRODUCE with acks=all to one partition of three replicas, two of which are enough."""
    values: dict[str, Any] = {
        "number": number,
        "request_id": f"r{number}",
        "client_id": "p",
        "connection": "c",
        "acks": -1,
        "received_us": us(received_ms),
        "dequeued_us": us(received_ms),
        "built_us": us(received_ms + 60),
        "previous_received_us": us(received_ms),
        "previous_built_us": None,
        "handling_us": 1000,
        "is_own": True,
        "partitions": 1,
        "is_appended": True,
        "groups": [((12, 13), 1)],
        "acks_all": Alone(us(60), NONE),
        "acks_min_isr": Alone(us(10), NONE),
        "reason": None,
    }
    return Produce(**(values | more))


def latencies(
    produces: Sequence[Produce],
    *,
    waits_for_all: bool = False,
    sent: Sent = Sent.ESTIMATE,
    until_ms: float = 4_000.0,
    followers: Mapping[int, Cycles] | None = None,
) -> dict[int, tuple[float, float]]:
    """Arrival and wait in ms, by number."""
    loop = ClosedLoop(waits_for_all, sent)
    followers = cycles() if followers is None else followers
    for replica_id in followers:
        loop.add_follower(replica_id, 0)
    for one in produces:
        loop.add(one)
    found = loop.advance(followers, us(until_ms))
    return {n: (r.arrived_us / 1000, (r.built_us - r.arrived_us) / 1000) for n, r in found.items()}


def test_a_parked_fetch_carries_the_batch_and_the_next_one_acknowledges_it() -> None:
    assert latencies([produce(1, 100)]) == {1: (100, WOKEN + 10)}


def test_acks_all_waits_for_the_slowest_follower() -> None:
    assert latencies([produce(1, 100)], waits_for_all=True) == {1: (100, WOKEN + 60)}


def test_a_batch_that_finds_the_fetch_gone_waits_for_the_next_one() -> None:
    """The second is appended while the response with the first is on its way."""
    found = latencies([produce(1, 100), produce(2, 104, connection="d")])
    # Back 10 ms after 100.7, handled 0.5 ms later, and 10 ms there and back again.
    assert found == {1: (100, WOKEN + 10), 2: (104, pytest.approx(WOKEN + 10 + 0.5 + 10 - 4))}


def test_a_batch_that_one_replica_is_enough_for_waits_for_nobody() -> None:
    alone = produce(1, 100, groups=[((12, 13), 0)])
    assert latencies([alone]) == {1: (100, 1.0)}


@pytest.mark.parametrize("acks", [0, 1])
def test_a_producer_that_waits_for_no_replica_wakes_followers_all_the_same(acks: int) -> None:
    found = latencies([produce(1, 100, acks=acks), produce(2, 104, connection="d")])
    assert found[1] == (100, 1.0)
    assert found[2][1] == pytest.approx(WOKEN + 10 + 0.5 + 10 - 4)


def test_a_request_is_responded_to_with_its_slowest_partition() -> None:
    both = produce(1, 100, groups=[((12,), 1), ((13,), 1)])
    assert latencies([both]) == {1: (100, WOKEN + 60)}


def test_after_max_wait_a_follower_is_on_its_way_with_nothing() -> None:
    """Parked at 0.0 ms, an empty response at 500 ms, back and handled at 510.5 ms."""
    (wait,) = (wait for _, wait in latencies([produce(1, 505)]).values())
    assert wait == pytest.approx(510.5 + 10 - 505)
    assert latencies([produce(1, 600)])[1] == (600, WOKEN + 10)


def held_back(
    number: int, previous_ms: float, received_ms: float, turnaround: float = 0
) -> Produce:
    """It arrived when the response to the one before it was built."""
    return produce(
        number,
        received_ms,
        is_own=False,
        previous_received_us=us(previous_ms),
        previous_built_us=us(received_ms - turnaround),
    )


def test_what_was_held_back_arrives_when_it_was_sent() -> None:
    """Under acks=all it came at 160 ms, behind the one of 100 ms."""
    produces = [produce(1, 100), held_back(2, 100, 160)]
    earliest = latencies(produces, sent=Sent.EARLIEST)
    # Sent at once, it still waits for the response to the one before.
    assert earliest[2][0] == pytest.approx(100 + WOKEN + 10)
    assert latencies(produces, sent=Sent.LATEST)[2][0] == 160
    (arrived, _) = latencies(produces)[2]
    assert 100 + WOKEN + 10 <= arrived <= 160


def test_behind_a_later_response_it_comes_later() -> None:
    """Predicted from brokers that respond early: the next one waits for acks=all."""
    produces = [produce(1, 100, built_us=us(110)), held_back(2, 100, 112, turnaround=2)]
    found = latencies(produces, waits_for_all=True)
    assert found[2][0] == pytest.approx(100 + WOKEN + 60 + 2)


@given(
    st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(-1000, 10**6)
)
def test_the_estimate_lies_between_the_bounds(n: int, since: int, wait: int, after: int) -> None:
    one = produce(n, 0).__class__
    values = {name: getattr(produce(n, 0), name) for name in one.__struct_fields__}
    values |= {
        "is_own": False,
        "previous_received_us": since,
        "previous_built_us": since + wait,
        "received_us": since + wait + max(after, -wait),
    }
    times = [one(**values).ready_us(sent) for sent in Sent]
    assert times == sorted(times)
    assert since <= times[0]


def test_a_wait_of_more_than_a_second_ends_as_that_of_the_request_alone() -> None:
    """The far follower is gone, and the ISR shrinks after three seconds."""
    followers = cycles({12: 10.0})
    alone = Alone(us(3_000), NONE)
    one = produce(1, 100, acks_all=alone)
    assert latencies([one], waits_for_all=True, followers=followers) == {1: (100, 3_000)}
    lost = produce(1, 100, acks_all=Alone(us(300), REQUEST_TIMED_OUT))
    loop = ClosedLoop(True, Sent.ESTIMATE)
    loop.add_follower(12, 0)
    loop.add(lost)
    (response,) = loop.advance(followers, us(4_000)).values()
    assert (response.built_us, response.error) == (us(100 + WOKEN + 1_000), REQUEST_TIMED_OUT)


def test_consumers_that_come_first_are_before_the_producer_in_either_cluster() -> None:
    late = Alone(us(64), NONE, after_ack_us=us(4))
    assert latencies([produce(1, 100, acks_min_isr=late)]) == {1: (100, WOKEN + 10 + 4)}


def test_what_was_not_appended_is_responded_to_as_it_was() -> None:
    refused = produce(1, 100, is_appended=False, acks_min_isr=Alone(us(2), 19), groups=[])
    assert latencies([refused]) == {1: (100, 2.0)}


def test_a_follower_that_was_away_for_long_is_back_when_it_was() -> None:
    """For 14 s: longer than is looked ahead."""
    away = {12: cycles_of((10, 13), (30, 14_030), (14_031, 14_034), (14_040, 14_043))}
    produces = [produce(1, 40), produce(2, 14_029.5, connection="d")]
    found = latencies(produces, followers=away, until_ms=14_100)
    assert found[1] == (40, 1_000 + WOKEN)
    assert found[2] == (14_029.5, pytest.approx(WOKEN + 3))


def test_what_the_log_ends_before_has_no_response() -> None:
    assert latencies([produce(1, 100)], until_ms=105) == {}


def test_connections_that_are_gone_leave_nothing() -> None:
    loop = ClosedLoop(False, Sent.ESTIMATE)
    loop.add_follower(12, 0)
    for n in range(100):
        loop.add(produce(n, 100 + 20 * n, connection=f"c{n}"))
    assert len(loop.advance(cycles(), us(2_100))) == 100
    assert not loop.queued
    assert len(loop.free_us) < 5


# --- a follower's cycles


def cycles_of(*begins_and_ends: tuple[float, float], busy: Sequence[int] = ()) -> Cycles:
    """Responses built and next FETCHes noted (ms); those of ``busy`` ran in a burst."""
    found = Cycles()
    found.fetched(0, 0, us(begins_and_ends[0][0]), -1)
    following = [*begins_and_ends[1:], (1e9, 0.0)]
    for number, ((begin, noted), (built, _)) in enumerate(
        zip(begins_and_ends, following, strict=True)
    ):
        held_back = us(begin) if number in busy else -1
        found.fetched(us(noted), us(noted), us(built), held_back)
    return found


def after(found: Cycles, ms: float) -> float | None:
    cycle = found.after(us(ms))
    return None if cycle is None else cycle.noted_us / 1000


def test_the_cycle_nearest_in_time_is_drawn() -> None:
    found = cycles_of((10, 13), (30, 38), (90, 95))
    assert [after(found, ms) for ms in (12, 28, 61)] == [15, 36, 66]


def test_a_quiet_cycle_is_drawn_if_there_is_one() -> None:
    found = cycles_of((10, 13), (30, 38), (90, 95), busy=[0, 1])
    assert [after(found, ms) for ms in (12, 28)] == [17, 33]
    assert after(cycles_of((10, 13), busy=[0]), 12) == 15


def test_a_pause_ends_when_it_did_and_is_drawn_at_no_other_time() -> None:
    found = cycles_of((10, 13), (30, 330), (400, 403))
    assert [after(found, ms) for ms in (29, 31, 200, 331)] == [32, 330, 330, 334]


def test_nothing_is_drawn_that_the_log_shows_only_later() -> None:
    late = LOOKAHEAD_US / 1000 + 100
    found = cycles_of((10, 13), (30, late), (late + 1, late + 4))
    assert after(found, 31) is None
    assert after(found, 101) == late
    assert after(cycles_of((10, 13)), 1e9) is None
