"""Consumers that are parked on a partition complete before its producers. Synthetic.

Follower 13 moves the high watermark at 60 ms, in a handler that is done at 80. ``BEHIND`` is when
a producer gets its response then, after all consumers.
"""

from typing import Any

import pytest
from notation.leader_log import History, Row, ms

from kip_replay.replay.min_isr_acks.produces import AFTER_RESPONSE_US, SESSIONS_KEPT
from kip_replay.replay.model.partition import Errors

#: From the PRODUCE's arrival, a millisecond before its append at 0.
AT_ONCE, BEHIND = 61.0, 81.0 - AFTER_RESPONSE_US / 1000


def slow_handler(min_isr: int = 2, first_until_ms: float | None = None, **options: Any) -> History:
    """Follower 12 has the batch after 4 ms, 13 after 60, in a handler of 20."""
    history = History(min_isr=min_isr)
    for replica in (12, 13):
        history.fetch(-10, replica, 0)
    history.produce(0, 0, **options)
    history.fetch(4, 12, 1, until_ms=first_until_ms)
    history.fetch(60, 13, 1, until_ms=80)
    return history


def replayed(history: History) -> Row:
    return history.row("p00004", until_ms=200_000)


def latency(history: History) -> float:
    found: float = replayed(history)["request_acks_all_latency_ms"]
    return found


def parked(history: History) -> None:
    history.consumer_fetch(30, 0, until_ms=62)


#: FETCHes of consumers: when, partitions, and more.
Park = list[tuple[float, tuple[int, ...], dict[str, Any]]]
IN_SESSION: dict[str, Any] = {"until_ms": 62, "session": 7, "full": False}
ONE_OF_TWO: Park = [(30, (0,), {"until_ms": 40}), (31, (0,), {"until_ms": 62})]
#: The second FETCH lists nothing: its session has the partition.
UNLISTED: Park = [(10, (0, 1), {"until_ms": 20, "session": 7}), (30, (), IN_SESSION)]
FIRST: dict[str, Park] = {
    "parked": [(30, (0,), {"until_ms": 62})],
    "parked long after": [(30, (0,), {"until_ms": 500})],
    "in a session": UNLISTED,
    "added to its session": [(10, (1,), {"until_ms": 20, "session": 7}), (30, (0,), IN_SESSION)],
    "of a session older than the log, listed since": [(30, (0,), IN_SESSION)],
    "one of two": ONE_OF_TWO,
}
NOT_FIRST: dict[str, Park] = {
    "no consumer": [],
    "of another partition": [(30, (1,), {"until_ms": 62})],
    "of another topic": [(30, (0,), {"until_ms": 62, "topic": "u"})],
    "completed before": [(30, (0,), {"until_ms": 59})],
    "completed at once": [(59.9, (0,), {"until_ms": 59.9})],
    "parked after the high watermark had moved": [(61, (0,), {"until_ms": 90})],
    "forgot the partition": [
        (10, (0, 1), {"until_ms": 20, "session": 7}),
        (30, (), {**IN_SESSION, "forgets": [0]}),
    ],
    "listed others in full": [
        (10, (0,), {"until_ms": 20, "session": 7}),
        (30, (1,), {"until_ms": 62, "session": 7}),
    ],
    "waits for many bytes": [(30, (0,), {"until_ms": 500, "min_bytes": 100_000})],
}


@pytest.mark.parametrize(
    ("park", "expected"),
    [(park, BEHIND) for park in FIRST.values()] + [(park, AT_ONCE) for park in NOT_FIRST.values()],
    ids=[*FIRST, *NOT_FIRST],
)
def test_parked_consumer_comes_first(park: Park, expected: float) -> None:
    """Without one, half way through the handler, at most ``PROGRESS_US_MAX`` after it began."""
    history = slow_handler()
    for at_ms, partitions, more in park:
        history.consumer_fetch(at_ms, *partitions, **more)
    assert latency(history) == expected


@pytest.mark.parametrize(("min_isr", "early"), [(1, 1), (2, 5), (3, BEHIND)])
def test_early_answer_waits_for_consumers_only_where_the_last_replica_gives_it(
    min_isr: int, early: float
) -> None:
    history = slow_handler(min_isr)
    history.consumer_fetch(2, 0, until_ms=62)
    row = replayed(history)
    assert row["request_min_isr_latency_ms"] == early
    assert row["request_acks_all_latency_ms"] == BEHIND


def test_a_high_watermark_that_becomes_known_wakes_no_consumer() -> None:
    """Nothing was appended before: follower 12, in a handler of 20 ms, does not move it."""
    history = slow_handler(first_until_ms=24)
    history.consumer_fetch(2, 0, until_ms=62)
    assert replayed(history)["request_min_isr_latency_ms"] == 5


def test_who_times_out_before_the_consumers_are_answered_is_told_so() -> None:
    history = slow_handler(timeout_ms=70)
    parked(history)
    row = replayed(history)
    assert (row["acks_all_error"], row["request_acks_all_latency_ms"]) == (
        Errors.REQUEST_TIMED_OUT,
        71,
    )
    assert ms(row["visible_at"]) == 60


def test_only_whether_it_was_parked_is_read_not_when_it_was_answered() -> None:
    def rows(until_ms: float) -> list[Row]:
        history = slow_handler()
        history.consumer_fetch(30, 0, until_ms=until_ms)
        return history.rows(until_ms=200_000)

    assert rows(59.7) == rows(62) == rows(79) == rows(2_000)


@pytest.mark.parametrize(
    ("session", "wakes"), [(1, True), (2, False), (3, True), (SESSIONS_KEPT + 1, True)]
)
def test_sessions_that_were_used_last_are_remembered(session: int, wakes: bool) -> None:
    """One session more than are kept; 1 is used again, so 2 is forgotten.

    All have the partition, and all completed before it mattered; one of them fetches once more.
    """
    history = slow_handler()
    for number in range(1, SESSIONS_KEPT + 2):
        history.consumer_fetch(10 + number / 1000, 0, until_ms=30, session=number)
        if number == 2:
            history.consumer_fetch(10.0025, until_ms=30, session=1, full=False)
    history.consumer_fetch(40, until_ms=500, session=session, full=False)
    assert latency(history) == (BEHIND if wakes else AT_ONCE)
