"""Producers that react, in small histories: milliseconds, one leader, followers 12 and 13.

A follower's cycle is the time from a response until its next FETCH is noted, whose handler is done
half a millisecond later. A PRODUCE is handled in one millisecond, a parked FETCH gets its response
0.7 ms after the arrival.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from notation.heartbeats import us
from notation.leader_log import History, batch_of

from kip_replay.replay.min_isr_acks.closed_loop import (
    Group,
    LoopState,
    Produce,
    ProducerLoop,
    SendTime,
    Waits,
)
from kip_replay.replay.min_isr_acks.closed_loop_replay import ProducersReact
from kip_replay.replay.min_isr_acks.events import LeaderEvent
from kip_replay.replay.min_isr_acks.follower_cycles import IN_A_ROW, LOOKAHEAD_US, Cycles
from kip_replay.replay.min_isr_acks.outcomes import variants
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks
from kip_replay.replay.model.partition import Acks, Errors

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


#: All followers, and how many have a batch when two of three replicas are enough.
BOTH, ONE = ((12, 13), 2), ((12, 13), 1)


def produce(
    number: int,
    received_ms: float,
    *,
    all_isr: tuple[list[Group], int, int] = ([BOTH], us(60), 0),
    early: tuple[list[Group], int, int] = ([ONE], us(10), 0),
    error: int = Errors.NONE,
    **more: Any,
) -> "Produced":
    """A PRODUCE with acks=all to one partition of three replicas, two of which are enough.

    Under each acks: who must have it, its latency as it arrived, and what passes behind the last
    acknowledgement.
    """
    at_us, under = us(received_ms), {Acks.ALL: all_isr, Acks.MIN_ISR: early}
    times = at_us, at_us, us(received_ms + 1), us(received_ms + 60)
    event = LeaderEvent(at_us, 0, f"r{number}", "produce", *times, client_id="p", acks=-1)
    values: dict[str, Any] = {
        "sent_us": dict.fromkeys(SendTime, at_us),
        "handling_us": (1000, 1000),
    }
    values |= {"is_appended": True, "followers": (12, 13)}
    values["waits"] = {acks: Waits(of[1], error, of[2]) for acks, of in under.items()}
    one = Produce(number, event, at_us, **(values | more))
    return one, {acks: of[0] for acks, of in under.items()}


Produced = tuple[Produce, dict[Acks, list[Group]]]


class Simulated:
    """A loop over some PRODUCEs, which name their groups."""

    def __init__(
        self,
        followers: Mapping[int, Cycles],
        acks: Acks = Acks.MIN_ISR,
        sent: SendTime = SendTime.ESTIMATE,
    ) -> None:
        self.state = LoopState(acks, sent)
        self.produces: dict[int, Produce] = {}
        self.loop = ProducerLoop(self.produces, followers, self.state)
        for replica_id in followers:
            self.loop.add_follower(replica_id, 0)

    def add(self, produced: Produced) -> None:
        one, groups = produced
        for acks, of_acks in groups.items():
            one.waits[acks].groups = of_acks
        self.produces[one.number] = one
        previous = self.produces.get(one.previous)
        if previous is not None:
            previous.next = one.number
        self.loop.add(one)

    def latencies(self, until_ms: float) -> dict[int, tuple[float, float]]:
        """Arrival and wait in ms, by number."""
        self.loop.advance(us(until_ms))
        return {
            number: (run.arrived_us / 1000, (run.built_us - run.arrived_us) / 1000)
            for number, run in self.state.runs.items()
            if run.built_us is not None
        }


def latencies(
    produces: Sequence[Produced],
    *,
    acks: Acks = Acks.MIN_ISR,
    sent: SendTime = SendTime.ESTIMATE,
    until_ms: float = 4_000.0,
    followers: Mapping[int, Cycles] | None = None,
) -> dict[int, tuple[float, float]]:
    loop = Simulated(cycles() if followers is None else followers, acks, sent)
    for one in produces:
        loop.add(one)
    return loop.latencies(until_ms)


def test_a_request_is_responded_to_with_its_slowest_partition() -> None:
    both = produce(1, 100, early=([((12,), 1), ((13,), 1)], us(10), 0))
    assert latencies([both]) == {1: (100, WOKEN + 60)}


def test_error_before_the_append_comes_as_soon_in_either_cluster() -> None:
    history = History(isr=None).then("12:0@5000")
    history.produce(0, -1, error=87)
    replay = ProducersReact(11, lambda saved: MinIsrAcks(11, variants(), saved=saved))
    fed = [replay.feed(batch_of(history.in_order())), replay.finish()]
    rows = [row for _, reacting in fed for row in reacting.to_pylist()]
    assert [(r["verdict"], r["latency_ms"], r["error_code"]) for r in rows] == 2 * [
        ("replayed", 1, 87)
    ]


def held_back(previous_ms: float, received_ms: float) -> Produced:
    """The second: it arrived when the response to the first was built."""
    times_ms = previous_ms, (previous_ms + received_ms) / 2, received_ms
    sent = dict(zip(SendTime, map(us, times_ms), strict=True))
    of_first: dict[str, Any] = {"previous": 1, "turnaround_us": 0, "sent_us": sent}
    return produce(2, received_ms, is_own=False, **of_first)


def test_what_was_held_back_arrives_when_it_was_sent() -> None:
    """Under acks=all it came at 160 ms, behind the one of 100 ms."""

    def arrived(sent: SendTime) -> float:
        return latencies([produce(1, 100), held_back(100, 160)], sent=sent)[2][0]

    # Sent at once, it still waits for the response to the one before.
    assert arrived(SendTime.EARLIEST) == pytest.approx(100 + WOKEN + 10)
    assert (arrived(SendTime.ESTIMATE), arrived(SendTime.LATEST)) == (130, 160)


def test_a_batch_of_a_transaction_is_appended_once_its_coordinator_has_responded() -> None:
    late = produce(1, 100, append_us=us(50))
    assert latencies([late]) == {1: (100, 50 + 10)}


def test_a_wait_of_more_than_a_second_ends_as_that_of_the_request_alone() -> None:
    """The far follower is gone, and the ISR shrinks after three seconds."""
    followers = cycles({12: 10.0})
    one = produce(1, 100, all_isr=([BOTH], us(3_000), 0))
    assert latencies([one], acks=Acks.ALL, followers=followers) == {1: (100, 3_000)}
    loop = Simulated(followers, Acks.ALL)
    loop.add(produce(1, 100, all_isr=([BOTH], us(300), 0), error=Errors.REQUEST_TIMED_OUT))
    assert loop.latencies(4_000) == {1: (100, WOKEN + 1_000)}
    assert loop.state.runs[1].error == Errors.REQUEST_TIMED_OUT


def test_consumers_that_come_first_are_before_the_producer_in_either_cluster() -> None:
    late = produce(1, 100, early=([ONE], us(64), us(4)))
    assert latencies([late]) == {1: (100, WOKEN + 10 + 4)}


def test_a_follower_that_was_away_for_long_is_back_when_it_was() -> None:
    """For 14 s: longer than is looked ahead."""
    away = {12: cycles_of((10, 13), (30, 14_030), (14_031, 14_034), (14_040, 14_043))}
    produces = [produce(1, 40), produce(2, 14_029.5)]
    found = latencies(produces, followers=away, until_ms=14_100)
    assert found[1] == (40, 1_000 + WOKEN)
    assert found[2] == (14_029.5, pytest.approx(WOKEN + 3))


def cycles_of(*begins_and_ends: tuple[float, float]) -> Cycles:
    """Responses built and next FETCHes noted (ms).

    More as long as the last follow, so that the distance of all these is told.
    """
    begin, end = begins_and_ends[-1]
    more = [(begin + 1_000 * n, end + 1_000 * n) for n in range(1, IN_A_ROW)]
    found = Cycles()
    found.fetched(0, 0, us(begins_and_ends[0][0]), -1)
    cycles = [*begins_and_ends, *more]
    following = [*cycles[1:], (1e9, 0.0)]
    for (_, noted), (built, _) in zip(cycles, following, strict=True):
        found.fetched(us(noted), us(noted), us(built), -1)
    return found


def after(found: Cycles, ms: float) -> float | None:
    drawn = found.after(us(ms), in_burst=False)
    return None if drawn is None else drawn[0] / 1000


def test_a_pause_ends_when_it_did_and_is_drawn_at_no_other_time() -> None:
    found = cycles_of((10, 13), (30, 330), (400, 403))
    assert [after(found, ms) for ms in (29, 31, 200, 331)] == [32, 330, 330, 334]


def test_nothing_is_drawn_that_the_log_shows_only_later() -> None:
    late = LOOKAHEAD_US / 1000 + 100
    found = cycles_of((10, 13), (30, late), (late + 1, late + 4))
    assert after(found, 31) is None
    assert after(found, 101) == late
    assert after(cycles_of((10, 13)), 1e9) is None


def test_what_is_forgotten_draws_nothing() -> None:
    """Cycles just before a long pause are known behind it: earlier ones draw until then."""
    cycles, late = [(10.0 * n, 10.0 * n + 3) for n in range(20)], LOOKAHEAD_US / 1000 + 1_000
    found, shorter = (cycles_of(*cycles, (200, late), (late + 1, late + 4)) for _ in range(2))
    shorter.forget(us(199))
    assert after(shorter, 199.5) == after(found, 199.5) is not None
