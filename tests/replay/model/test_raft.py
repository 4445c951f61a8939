"""What a leader does that no recording has, after tests of Kafka 4.3.0 where named.

The high watermark is in ``kafka_oracle``; who waits and why it ends, in the replays of hwm_parking.
"""

from typing import Any

import pytest
from notation.recorded import EPOCH

from kip_replay.replay.model.raft import (
    NOT_SENT,
    UNKNOWN_OFFSET,
    Completion,
    Fetch,
    Leader,
    ReplicaState,
    Response,
)


def leader_of(**more: Any) -> Leader:
    """Of voters 1, 2 and 3; its epoch starts at 10, its log ends at 15."""
    of: dict[str, Any] = {"voters": frozenset({2, 3}), "voter_count": 3, "epoch_start_offset": 10}
    of |= {"hwm_aware": True, "leader_epoch": EPOCH, "log_end_offset": 15}
    return Leader(**(of | more))


def ends(responses: list[Response]) -> list[tuple[int, Completion, int]]:
    return [(r.fetch.replica_id, r.completion, r.high_watermark) for r in responses]


DIVERGED = {"epoch_ends": {3: 8}}
CUT, WHOLE = ({"log_start_offset": start, "snapshot": 4} for start in (4, 0))
KNOWN = {"high_watermark": 15}
FETCHES: dict[str, tuple[dict[str, Any], Fetch, Completion | None]] = {
    "testLeaderImmediatelySendsDivergingEpoch": (
        *(DIVERGED, Fetch(2, 12, 3, NOT_SENT), Completion.DIVERGING),
    ),
    "nothing beyond the epoch's end": (DIVERGED, Fetch(3, 8, 3, NOT_SENT), Completion.RECORDS),
    "before the start of the log": (CUT, Fetch(8, 3, EPOCH, NOT_SENT), Completion.SNAPSHOT),
    "at the start of the log": (CUT, Fetch(8, 4, EPOCH, NOT_SENT), Completion.RECORDS),
    "testFetchRequestOffsetAtZero": (WHOLE, Fetch(9, 0, EPOCH, -1), Completion.SNAPSHOT),
    "though the log is whole": (WHOLE, Fetch(9, 1, EPOCH, -1), Completion.RECORDS),
    "testDefaultHwmDeferred": (KNOWN, Fetch(9, 15, EPOCH, NOT_SENT), None),
    "testUnknownHwmDeferredWhenLeaderDoesNotKnowHwm": ({}, Fetch(9, 15, EPOCH, -1), None),
    "testOutdatedHwmCompletedWhenLeaderKnowsHwm": (
        *(KNOWN, Fetch(9, 15, EPOCH, 14), Completion.HIGH_WATERMARK),
    ),
    "waits 0 ms": (KNOWN, Fetch(9, 15, EPOCH, 15, max_wait_us=0), Completion.TIMEOUT),
    "the same without KIP-1166": (KNOWN | {"hwm_aware": False}, Fetch(9, 15, EPOCH, 14), None),
}


@pytest.mark.parametrize(("of", "fetch", "completion"), FETCHES.values(), ids=FETCHES)
def test_fetch_completes_at_once_or_is_parked(
    of: dict[str, Any], fetch: Fetch, completion: Completion | None
) -> None:
    leader = leader_of(**of)
    found = [response.completion for response in leader.fetch(fetch)]
    assert found == ([] if completion is None else [completion])
    assert (fetch.token in leader.parked) == (completion is None)
    if completion is Completion.DIVERGING:  # its progress does not count
        assert leader.voter_offsets == {}


def test_replica_goes_on_where_the_leader_sends_it() -> None:
    leader = leader_of(**DIVERGED, **CUT, high_watermark=15)
    truncated, behind = ReplicaState(12, 3), ReplicaState(3, 3)
    for replica in (truncated, behind):
        fetch = replica.fetch(2, 500_000, 0, hwm_aware=True)
        [response] = leader.fetch(fetch)
        replica.receive(response, leader)
    # In the epoch of its last record, and knowing nothing beyond its log.
    assert (truncated, behind) == (ReplicaState(8, 3, 8), ReplicaState(4, EPOCH, 4))


def test_follower_that_lost_its_log_takes_nothing_back() -> None:
    """testNonMonotonicHighWatermarkUpdate; and a leader that does not vote commits nothing."""
    leader = leader_of(voters=frozenset({2}), voter_count=1)
    leader.append(20)
    assert leader.high_watermark == UNKNOWN_OFFSET
    for offset in (18, 12):
        leader.update_voter(2, offset)
        assert leader.high_watermark == 18


def test_replica_ahead_of_the_leader_waits_until_the_leader_has_reached_it() -> None:
    leader = leader_of()
    leader.fetch(Fetch(9, 17, EPOCH, NOT_SENT, token=1))
    assert leader.append(16) == []
    assert ends(leader.append(17)) == [(9, Completion.DRAIN, UNKNOWN_OFFSET)]


def test_expired_fetch_carries_what_was_known_when_it_was_parked() -> None:
    """As seen in 4.0; a move completes all who wait, also who claims to know it, before the voter.

    testUpdatedHighWatermarkCompleted.
    """
    parked, first = Fetch(9, 15, EPOCH, 15, token=1), Fetch(2, 15, EPOCH, 14, token=2)
    for hwm_aware in (False, True):
        leader = leader_of(hwm_aware=hwm_aware, high_watermark=14)
        leader.fetch(parked)
        found = ends(leader.fetch(first))
        assert leader.high_watermark == 15
        assert found == [(of, Completion.HIGH_WATERMARK, 15) for of in (9, 2)] * hwm_aware
        assert ends(leader.expire(token=1)) == [(9, Completion.TIMEOUT, 14)] * (not hwm_aware)
        assert ends(leader.expire(token=2)) == [(2, Completion.TIMEOUT, 15)] * (not hwm_aware)


def test_resigned_leader_sends_no_high_watermark() -> None:
    """To who is parked, then to who waits for the Raft thread."""
    leader = leader_of(high_watermark=15)
    parked, waiting = Fetch(9, 15, EPOCH, 15, token=1), Fetch(8, 12, EPOCH, 12, token=2)
    leader.fetch(parked)
    assert leader.resign([waiting]) == [
        Response(parked, Completion.ERROR, True, UNKNOWN_OFFSET, 15),
        Response(waiting, Completion.ERROR, False, UNKNOWN_OFFSET, 12),
    ]
    assert leader.expire(token=1) == []
