"""KIP-1166's rule by hand: histories in the notation of ``tests/notation``, and what a replica keeps.

Histories named ``test...`` reproduce that test of Kafka 4.3.0; those that are synthetic are in no
recording.
"""

# ruff: noqa: E501 (a line of a history is an event)

import pytest
from notation.player import check
from notation.recorded import EPOCH

from kip_replay.replay.model.raft import (
    NOT_SENT,
    UNKNOWN_OFFSET,
    Completion,
    Fetch,
    Leader,
    Response,
)

HISTORIES = {
    "testHighWatermarkSentInFetchRequest: first -1, after the response what it carried": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 15, with KIP-1166
    9 fetches 10 knowing -1       -> records 10..15, high watermark 15
    9 then fetches 15 knowing 15  -> parked
    """,
    "testDefaultHwmDeferred: a FETCH without the field never completes by the high watermark": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 15, with KIP-1166
    9 fetches 15  -> parked
    """,
    "testUnknownHwmDeferredWhenLeaderDoesNotKnowHwm: neither has anything new for the other": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, with KIP-1166
    9 fetches 15 knowing -1  -> parked; leader has high watermark -1
    """,
    "testOutdatedHwmCompletedWhenLeaderKnowsHwm: unknown, then one less. 4.0 waits both times": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 15, without | with KIP-1166
    9 fetches 15 knowing -1  -> parked | high watermark 15
    8 fetches 15 knowing 14  -> parked | high watermark 15
    """,
    "testUpdatedHighWatermarkCompleted: a move completes also the FETCH that claims to know it": """
    voters 1 2, leader 1, epoch 5 starts at 2, log ends at 7, high watermark 3, without | with KIP-1166
    9 fetches 7 knowing 7     -> parked
    2 fetches 7 waiting 0 ms  -> timeout, high watermark 7 | 9: high watermark 7; timeout, high watermark 7
    """,
    "testPurgatoryFetchTimeout: after 500 ms an empty response": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    2 fetches 15 knowing 15  -> parked
    499 ms pass              -> nobody
    1 ms pass                -> 2: timeout, high watermark 15
    """,
    "testPurgatoryFetchSatisfiedByWrite: an append completes who waits, with the records": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    9 fetches 15 knowing -1  -> parked
    leader appends to 16     -> 9: records 15..16, high watermark -1
    """,
    "testPurgatoryFetchCompletedByFollowerTransition: all who wait are rejected": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    9 fetches 15 knowing -1  -> parked
    8 fetches 15 knowing -1  -> parked
    leader resigns           -> 9: error; 8: error
    500 ms pass              -> nobody
    """,
    "testLeaderImmediatelySendsDivergingEpoch: its progress does not count (synthetic)": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, epoch 3 ends at 8, log ends at 15, without | with KIP-1166
    2 fetches 12 of epoch 3  -> diverging; leader has high watermark -1
    3 fetches 8 of epoch 3   -> records 8..15, high watermark -1   # nothing beyond the epoch's end
    8 fetches 7 of epoch 3   -> records 7..15, high watermark -1
    """,
    # Synthetic: in no recording.
    "truncated replica goes on in the epoch of its last record, and knows nothing beyond its log": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, epoch 3 ends at 8, epoch 2 ends at 6, log ends at 15, high watermark 15, without | with KIP-1166
    2 fetches 12 of epoch 3 knowing -1     -> diverging
    2 then fetches 8 of epoch 3 knowing 8  -> records 8..15, high watermark 15
    """,
    # Synthetic. With a snapshot, offset 0 and offsets before the log's start are sent to it.
    "a fetch before the start of the log is sent to the snapshot, and goes on in the leader's epoch": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log starts at 4, snapshot ends at 4, log ends at 15, without | with KIP-1166
    9 fetches 0 of epoch 3  -> snapshot
    9 then fetches 4        -> records 4..15, high watermark -1
    8 fetches 3       -> snapshot
    2 fetches 0       -> snapshot; leader has high watermark -1
    """,
    "testFetchRequestOffsetAtZero: to the snapshot, though the log is whole (synthetic)": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log starts at 0, snapshot ends at 4, log ends at 15, without | with KIP-1166
    9 fetches 0  -> snapshot
    8 fetches 1  -> records 1..15, high watermark -1
    """,
    "testUpdateHighWatermarkMetadata: the same offset in a new segment counts as a move": """
    voters 1 2, leader 1, epoch 5 starts at 10, log ends at 15, with KIP-1166
    2 fetches 15 knowing 15     -> parked; leader has high watermark 15
    9 fetches 15 knowing 15     -> parked
    500 ms pass                 -> 2: timeout, high watermark 15; 9: timeout, high watermark 15
    9 fetches 15 knowing 15     -> parked
    2 fetches 15 knowing 15     -> parked
    500 ms pass                 -> 9: timeout, high watermark 15; 2: timeout, high watermark 15
    9 fetches 15 knowing 15     -> parked
    leader rolls its segment    -> nobody
    2 fetches 15 knowing 15     -> 9: high watermark 15; parked; leader has high watermark 15
    500 ms pass                 -> 2: timeout, high watermark 15
    9 fetches 15 knowing 15     -> parked
    2 fetches 15 knowing 15     -> parked   # news once a segment
    """,
    "testNonMonotonicHighWatermarkUpdate: a follower that lost its log takes nothing back": """
    voters 1 2, leader 1, epoch 5 starts at 0, log ends at 10, without | with KIP-1166
    2 fetches 10 knowing 10  -> parked; leader has high watermark 10
    500 ms pass              -> 2: timeout, high watermark 10
    2 fetches 5 knowing 10   -> records 5..10, high watermark 10; leader has high watermark 10
    """,
    # The KIP's motivation: the second voter's FETCH moves the high watermark that 3 waits for.
    "example of the kip": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    3 fetches 15 knowing -1   -> parked                               | high watermark 15
    2 fetches 15 knowing -1   -> parked                               | high watermark 15
    500 ms pass               -> 3: timeout, high watermark 15; 2: timeout, high watermark 15 | nobody
    """,
    # Seen in 4.0: FETCH at 41, response with 40 after 511 ms (kafka-semantics.md, section 2).
    "expired fetch carries what was known when it was parked": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 41, high watermark 40, without KIP-1166
    9 fetches 41  -> parked
    2 fetches 41  -> parked; leader has high watermark 41
    500 ms pass   -> 9: timeout, high watermark 40; 2: timeout, high watermark 41
    """,
    "those who wait complete before the voter that moved it": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 20, high watermark 12, with KIP-1166
    8 fetches 20 knowing 12  -> parked
    9 fetches 20 knowing 12  -> parked
    2 fetches 20 knowing 12  -> 8: high watermark 20; 9: high watermark 20; high watermark 20
    """,
    "high watermark of earlier epochs is not sent before a record of this one commits": """
    voters 1 2 3, leader 1, epoch 5 starts at 15, log ends at 16, with KIP-1166
    2 fetches 15 of epoch 4 knowing 12  -> records 15..16, high watermark -1
    2 then fetches 16 knowing 12        -> high watermark 16
    """,
    # Synthetic: ``maybeComplete(LEO)`` wakes whoever waits at or below the log end offset.
    "replica ahead of the leader waits until the leader has reached it": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    9 fetches 17          -> parked
    leader appends to 16  -> nobody
    leader appends to 17  -> 9: drain, high watermark -1
    """,
    "drain without a batch completes who is parked at the log's end, with what is known by then": """
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    9 fetches 15 knowing 15 -> parked
    8 fetches 20 knowing 15 -> parked
    2 fetches 15 knowing 15 -> parked | 9: high watermark 15; 8: high watermark 15; parked
    leader drains no batch  -> 9: drain, high watermark 15; 2: drain, high watermark 15 | 2: drain, high watermark 15
    leader drains no batch  -> nobody
    """,
    "append of a leader that does not vote commits nothing": """
    voters 2, leader 1, epoch 5 starts at 10, log ends at 10, without KIP-1166
    leader appends to 15  -> nobody; leader has high watermark -1
    2 fetches 12          -> records 12..15, high watermark 12
    """,
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_history(history: str) -> None:
    check(history)


def test_values_of_the_kip_and_of_kafka() -> None:
    """FetchRequest.json: the high watermark's default; KafkaRaftClient: maxWaitMs."""
    assert (UNKNOWN_OFFSET, NOT_SENT) == (-1, 9_223_372_036_854_775_807)
    assert Fetch(9, 15, EPOCH, 12) == Fetch(9, 15, EPOCH, 12, max_wait_us=500_000, token=0)


def test_resigned_leader_sends_no_high_watermark() -> None:
    """To who is parked, then to who waits for the Raft thread."""
    leader = Leader(True, EPOCH, frozenset({2, 3}), 3, log_end_offset=15, high_watermark=15)
    parked, waiting = Fetch(9, 15, EPOCH, 15, token=1), Fetch(8, 12, EPOCH, 12, token=2)
    leader.fetch(parked)
    assert leader.resign([waiting]) == [
        Response(parked, Completion.ERROR, True, UNKNOWN_OFFSET, 15),
        Response(waiting, Completion.ERROR, False, UNKNOWN_OFFSET, 12),
    ]
    assert leader.expire(token=1) == []
