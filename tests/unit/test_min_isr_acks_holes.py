"""Holes in logs: what they hide is unknown, what the leader's log shows all the same is not.

Synthetic histories: brokers 11 to 13, controllers 1 to 3 of which 1 is active.
"""

from typing import Any

import pytest
from notation.leader_log import LEADER, History, Row, at

from kip_replay.replay.log_gaps import LOG_GAP, LogGap
from kip_replay.replay.min_isr_acks.holes import Holes
from kip_replay.replay.min_isr_acks.reasons import (
    ISR_NOT_IN_LOG,
    MIN_ISR_NOT_IN_LOG,
    NOT_ENOUGH_REPLICAS,
)

CONTROLLERS = (1, 2, 3)
#: A hole, milliseconds.
HOLE = 10_000, 12_000


def holes(*nodes: int, hole: tuple[float, float] = HOLE) -> Holes:
    """A hole in the logs of some nodes."""
    return Holes.of(LEADER, [LogGap(node, *map(at, hole)) for node in nodes], CONTROLLERS)


def fetching(history: History, *followers: int, since_ms: int, until_ms: int) -> History:
    """Followers fetch twice a second, and have what is appended each second (``writing``)."""
    for now in range(since_ms, until_ms, 500):
        for follower in followers:
            history.fetch(now + follower - 10, follower, now // 1000 + 1)
    return history


def writing(history: History, until_ms: int) -> History:
    """A batch a second; base offsets are the seconds."""
    for second in range(1, until_ms // 1000):
        history.produce(1000 * second, second)
    return history


def metadata_log(
    history: History, *more_at: int, node: int = 1, without: tuple[float, float] = (-1, -1)
) -> History:
    """A record each 500 ms, and six at other times; FETCHes in ``without`` are not logged."""
    end, fetched = 100, -100.0
    for now in sorted([*range(0, 30_000, 500), *more_at]):
        if not without[0] <= now <= without[1]:
            history.metadata_fetch(fetched, end, end, built_ms=now, node=node)
        end, fetched = end + (6 if now in more_at else 1), now + 1
    return history


def by_second(history: History, of: Holes) -> dict[int, Row]:
    return {row["base_offset"]: row for row in history.rows(holes=of, until_ms=200_000)}


def unknown(rows: dict[int, Row]) -> dict[int, str]:
    return {second: r["reason"] for second, r in rows.items() if r["verdict"] == "unknown"}


def test_hole_of_the_leader_touches_what_waits_across_it() -> None:
    history = fetching(writing(History(), 20_000), 12, 13, since_ms=0, until_ms=30_000)
    rows = by_second(history, holes(LEADER))
    # 9: a line that is missing may be a FETCH of up to a second before.
    assert unknown(rows) == dict.fromkeys((9, 10, 11), LOG_GAP)
    names = ("all_isr_acked_at", "visible_at", "acks_all_error")
    assert [rows[10][name] for name in names] == [None] * 3
    # What was appended next is missing, maybe.
    unfinished = [second for second, row in rows.items() if row["last_offset"] is None]
    assert unfinished == [8, 9, 10, 11, 19]
    assert unknown(by_second(history, holes())) == {}


def test_hole_of_a_controller_touches_nothing_while_all_members_fetch() -> None:
    history = metadata_log(writing(History(), 20_000), 11_200, without=HOLE)
    fetching(history, 12, 13, since_ms=0, until_ms=30_000)
    assert unknown(by_second(history, holes(1))) == {}


def test_member_that_is_silent_over_a_hole_may_be_out_of_the_isr() -> None:
    """It stopped in the hole, so no line has its heartbeat: the others alone may be the ISR."""
    history = metadata_log(writing(History(), 20_000), 11_200, without=HOLE)
    fetching(history, 12, since_ms=0, until_ms=30_000)
    fetching(history, 13, since_ms=0, until_ms=11_000)
    rows = by_second(history, holes(1))
    assert [*unknown(rows)] == [*range(9, 20)]
    assert {unknown(rows)[second] for second in range(14, 20)} == {ISR_NOT_IN_LOG}
    silent = by_second(history, holes())
    assert {silent[second]["acks_all_error"] for second in range(11, 20)} == {7}


def test_isr_is_known_again_from_metadata_that_has_nobody_who_is_silent() -> None:
    history = metadata_log(writing(History(), 24_000), 11_200, without=HOLE)
    fetching(history, 12, since_ms=0, until_ms=30_000)
    fetching(history, 13, since_ms=0, until_ms=11_000)
    # Of a node that has not applied it yet, then of one that has.
    history.metadata(15_500, (11, 12, 13))
    history.metadata(18_500, (11, 12))
    rows = by_second(history, holes(1))
    assert [*unknown(rows)] == [*range(9, 19)]
    assert rows[20]["isr"] == [11, 12]


def test_follower_outside_the_isr_may_have_joined_it_in_a_hole() -> None:
    history = metadata_log(writing(History(isr=(11, 12)), 20_000), 11_200, without=HOLE)
    fetching(history, 12, since_ms=0, until_ms=30_000)
    fetching(history, 13, since_ms=10_500, until_ms=30_000)
    history.alter_partition(15_500, (11, 12, 13), 15_510)
    rows = by_second(history, holes(1))
    assert unknown(rows) == dict.fromkeys(range(11, 16), ISR_NOT_IN_LOG)
    assert rows[17]["isr"] == [11, 12, 13]


def test_hole_of_a_controller_that_was_not_the_active_one_hides_nothing() -> None:
    history = metadata_log(writing(History(), 20_000), node=1)
    fetching(history, 12, since_ms=0, until_ms=30_000)
    fetching(history, 13, since_ms=0, until_ms=11_000)
    assert unknown(by_second(history, holes(2))) == unknown(by_second(history, holes()))


def test_silence_of_heartbeats_in_a_hole_fences_nobody() -> None:
    """A broker's next heartbeat comes after 10 s, since those between are missing."""
    hole = 10_000, 19_500
    history = metadata_log(writing(History(), 25_000), 19_800, without=hole)
    fetching(history, 12, 13, since_ms=0, until_ms=30_000)
    for broker in (12, 13):
        history.heartbeat(9_900, broker, silence=True)
        history.heartbeat(19_900, broker)
    rows = by_second(history, holes(1, hole=hole))
    assert unknown(rows) == {}
    assert {tuple(row["isr"]) for row in rows.values()} == {(11, 12, 13)}


@pytest.mark.parametrize(("more_at", "reason"), [((), None), ((11_200,), MIN_ISR_NOT_IN_LOG)])
def test_config_may_be_altered_in_a_hole_of_all_nodes(more_at: Any, reason: str | None) -> None:
    """But not where the metadata log got nothing besides the records of an idle controller."""
    history = metadata_log(writing(History(), 20_000), *more_at, without=HOLE)
    fetching(history, 12, 13, since_ms=0, until_ms=30_000)
    rows = by_second(history, holes(1, LEADER, 12))
    assert {rows[second]["reason"] for second in range(14, 20)} == {reason}
    assert rows[7]["verdict"] == "replayed"


def test_config_whose_commit_lies_in_a_hole_is_not_in_force_for_certain() -> None:
    history = metadata_log(writing(History(), 20_000), without=(10_000, 14_000))
    fetching(history, 12, 13, since_ms=0, until_ms=30_000)
    history.config(10_500, 3, applies=True)
    rows = by_second(history, holes(1, hole=(10_000, 14_000)))
    assert unknown(rows) == dict.fromkeys((11, 12, 13, 14), MIN_ISR_NOT_IN_LOG)
    assert (rows[10]["min_insync_replicas"], rows[16]["min_insync_replicas"]) == (2, 3)


def test_refusal_is_not_foreseen_from_an_isr_that_a_hole_may_have_changed() -> None:
    history = metadata_log(History(isr=(11,)), 11_200, without=HOLE)
    fetching(history, 12, since_ms=10_500, until_ms=30_000)
    history.produce(9_000, -1, error=NOT_ENOUGH_REPLICAS)
    history.produce(13_000, -1, error=NOT_ENOUGH_REPLICAS)
    before, after = history.rows(holes=holes(1), until_ms=200_000)
    assert before["acks_all_error"] == NOT_ENOUGH_REPLICAS
    assert (after["reason"], after["acks_all_error"]) == (ISR_NOT_IN_LOG, None)


def test_hole_of_a_combined_node_hides_what_it_forwards() -> None:
    """A leader that votes: the gap in the active controller's log is one in a broker's."""
    gap = LogGap(1, *map(at, HOLE))
    assert Holes.of(2, [gap], CONTROLLERS).of_others == [gap]
    assert Holes.of(LEADER, [gap], CONTROLLERS).of_others == []
