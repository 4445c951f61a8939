"""Gaps in a broker's log: a stream whose session's epochs go on has missed nothing.

Synthetic histories: a FETCH a second; those that a test leaves out are in the gap.
"""

import pytest
from fetch_logs import (
    NODE,
    RecordedFetch,
    Replayed,
    Request,
    Response,
    fetched,
    replay_of,
    requested,
    returned,
)

from kip_replay.replay.incremental_fetch.outcomes import FULL, INCREMENTAL
from kip_replay.replay.log_gaps import ALWAYS_SINCE_US, LOG_GAP, Gaps, LogGap
from kip_replay.replay.records import RECORDED

SESSION, SECOND_US = 77, 1_000_000
TOPIC = "t"


def fetch(second: int, epoch: int, *, session: int = SESSION, client: str = "c") -> RecordedFetch:
    """A FETCH of two partitions of which the first moves; the epoch is 0 where all are full."""
    moved = requested(TOPIC, 0, second)
    lists = [moved] if epoch else [moved, requested(TOPIC, 1)]
    request = Request(session if epoch else 0, epoch, lists, [], version=12)
    response = Response(0, session, [returned(TOPIC, one.partition, second) for one in lists])
    return fetched(1000 * second, request, response, client_id=client, connection=client)


def in_session(*seconds: int, client: str = "c", session: int = SESSION) -> list[RecordedFetch]:
    """A session that began at 0: its epochs are the seconds."""
    return [fetch(second, second, session=session, client=client) for second in seconds]


def without_session(*seconds: int) -> list[RecordedFetch]:
    return [fetch(second, 0, session=0) for second in seconds]


def replayed(rows: list[RecordedFetch], since: float, until: float, *slots: int) -> Replayed:
    """Between two seconds lines are missing; the rows of both tables."""
    gap = LogGap(NODE, round(since * SECOND_US), round(until * SECOND_US))
    return replay_of([sorted(rows, key=lambda row: row.dequeued_us)], slots, gaps=Gaps([gap]))


def reasons(of: Replayed, variant: str = INCREMENTAL, slots: int = -1) -> list[str | None]:
    """Why each FETCH is unknown, in order of time."""
    return [row["reason"] for row in of.variant(variant, slots)]


def test_session_whose_epochs_go_on_has_missed_nothing() -> None:
    of = replayed(in_session(*range(6)), 2.2, 2.8)
    assert reasons(of) == [None] * 6
    last, first = fetch(4, 2**31 - 1), fetch(5, 1)  # FetchMetadata.nextEpoch
    assert reasons(replayed([*in_session(*range(4)), last, first], 4.2, 4.8)) == [None] * 6


def test_session_whose_epochs_jump_is_lost_until_a_full_fetch() -> None:
    rows = [*in_session(0, 1, 4, 5), fetch(6, 0, session=78), fetch(7, 1, session=78)]
    of = replayed(rows, 1.5, 3.5)
    assert reasons(of) == reasons(of, FULL) == [None, None, LOG_GAP, LOG_GAP, None, None]
    recorded = [row for row in of.outcomes if row["variant"] == RECORDED]
    assert {row["verdict"] for row in recorded} == {"replayed"}
    assert [row["session_partitions"] for row in recorded] == [2, 2, None, None, 2, 2]
    assert [row["added_partitions"] for row in recorded][4:] == [None, 0]


def test_session_that_was_created_in_a_gap_is_another_one() -> None:
    rows = [*in_session(0, 1), *in_session(4, 5, session=78)]
    of = replayed(rows, 1.5, 3.5)
    assert reasons(of) == [None, None, LOG_GAP, LOG_GAP]
    assert {row["session_key"] for row in of.outcomes[-5:]} == {f"{NODE}/78/before the log"}


def test_without_sessions_one_fetch_is_unknown_and_then_the_epoch() -> None:
    """What a full FETCH changes since one that is missing is not known, what it lists can."""
    rows = without_session(*range(7))
    of = replayed(rows[:2] + rows[4:], 1.5, 3.5)
    assert reasons(of) == [None, None, LOG_GAP, None, None]
    assert reasons(of, FULL) == [None] * 5
    whole = {row["request_id"]: row for row in replayed(rows, 9, 9).variant(INCREMENTAL)}
    for row in of.variant(INCREMENTAL)[3:]:
        assert row == whole[row["request_id"]] | {"session_epoch": None}


@pytest.mark.parametrize("began_at", [0, 3])
def test_slots_are_not_known_after_a_gap(began_at: int) -> None:
    """A session that another client had in the gap may hold one."""
    other = [fetch(second, second - began_at, session=78, client="d") for second in (3, 4, 5)]
    of = replayed(
        [*in_session(0, 1, 2, 3, 4), *other] if began_at else in_session(*range(5)), 1.5, 1.6, 8
    )
    assert LOG_GAP not in reasons(of)
    assert set(reasons(of, slots=8)[2:]) == {LOG_GAP}
    assert {row["parameter_value"] for row in of.evictions if row["event_at"] >= 2 * SECOND_US} <= {
        -1
    }
    assert {row["shard"] for row in of.evictions if row["event_at"] >= 2 * SECOND_US} <= {None}


def test_caches_are_taken_for_empty_where_the_log_begins() -> None:
    of = replayed(in_session(*range(3)), ALWAYS_SINCE_US / SECOND_US, -900, 8)
    assert reasons(of, slots=8) == [None] * 3
