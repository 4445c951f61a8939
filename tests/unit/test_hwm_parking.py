"""hwm_parking by hand: the rule in histories, the open-loop check, the joins, and the blanking.

Histories are in the notation of ``tests/notation``; those named ``test_kafka_...`` reproduce the
test of Kafka 4.3.0 whose name follows (kafka-semantics.md, section 6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from golden.naive_log import recording
from notation import check
from notation.cluster import Cluster, Member, Silence, every
from notation.recorded import EPOCH, Replayed, fetched, in_order, micros, replay_of
from oracles.hwm_parking import (
    Answer,
    ClosedLoop,
    Completion,
    Fetch,
    Leader,
    Replica,
    explain,
    woke_everyone,
)
from oracles.hwm_parking.closed_loop import Advance, LagTracker
from oracles.hwm_parking.metadata_log import Absence, Evidence, Timeline

from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP, HwmParking, replayed, variants
from kip_replay.replay.hwm_parking.explain import HANDLING_SLACK_US
from kip_replay.replay.hwm_parking.handed_out import (
    AWAY,
    MIDDLE_OF_EPOCH,
    NEVER_LEARNED,
    NOT_IN_LOG,
    NOT_LEADER,
)
from kip_replay.replay.hwm_parking.metadata_log import (
    NO_ANSWER,
    NOT_SENT,
    UNKNOWN_OFFSET,
    RecordedFetch,
)
from kip_replay.replay.outcomes import RECORDED, Variant

# --- Kafka's own tests ---------------------------------------------------------------------------


def test_kafka_high_watermark_sent_in_fetch_request() -> None:
    """testHighWatermarkSentInFetchRequest: first -1, after the answer what it told."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 15, with KIP-1166
    9 fetches 10 knowing -1       -> records 10..15, high watermark 15
    9 then fetches 15 knowing 15  -> parked
    """)


def test_kafka_default_hwm_deferred() -> None:
    """testDefaultHwmDeferred: a FETCH without the field is never answered by the high watermark."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 15, with KIP-1166
    9 fetches 15  -> parked
    """)


def test_kafka_unknown_hwm_deferred_when_leader_does_not_know_hwm() -> None:
    """testUnknownHwmDeferredWhenLeaderDoesNotKnowHwm: nobody has news for the other."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, with KIP-1166
    9 fetches 15 knowing -1  -> parked; leader has high watermark -1
    """)


def test_kafka_outdated_hwm_completed_when_leader_knows_hwm() -> None:
    """testOutdatedHwmCompletedWhenLeaderKnowsHwm: unknown, then one less. 4.0 waits both times."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 15, without | with KIP-1166
    9 fetches 15 knowing -1  -> parked | high watermark 15
    8 fetches 15 knowing 14  -> parked | high watermark 15
    """)  # noqa: E501


def test_kafka_unchanged_high_watermark_deferred() -> None:
    """testUnchangedHighWatermarkDeferred: who knows as much as the leader waits."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 15, with KIP-1166
    9 fetches 15 knowing 15  -> parked
    """)


def test_kafka_updated_high_watermark_completed() -> None:
    """testUpdatedHighWatermarkCompleted: a move answers also who claimed to know it."""
    check("""
    voters 1 2, leader 1, epoch 5 starts at 2, log ends at 7, high watermark 3, without | with KIP-1166
    9 fetches 7 knowing 7     -> parked
    2 fetches 7 waiting 0 ms  -> timeout, high watermark 7 | 9: high watermark 7; timeout, high watermark 7
    """)  # noqa: E501


def test_kafka_purgatory_fetch_timeout() -> None:
    """testPurgatoryFetchTimeout: after 500 ms an empty answer."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    2 fetches 15 knowing 15  -> parked
    499 ms pass              -> nobody
    1 ms pass                -> 2: timeout, high watermark 15
    """)


def test_kafka_purgatory_fetch_satisfied_by_write() -> None:
    """testPurgatoryFetchSatisfiedByWrite: an append answers who waits, with the records."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    9 fetches 15 knowing -1  -> parked
    leader appends to 16     -> 9: records 15..16, high watermark -1
    """)


def test_kafka_purgatory_fetch_completed_by_follower_transition() -> None:
    """testPurgatoryFetchCompletedByFollowerTransition: all who wait are turned away."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    9 fetches 15 knowing -1  -> parked
    8 fetches 15 knowing -1  -> parked
    leader resigns           -> 9: error; 8: error
    500 ms pass              -> nobody
    """)


def test_kafka_leader_immediately_sends_diverging_epoch() -> None:
    """testLeaderImmediatelySendsDivergingEpoch. Synthetic: in no recording.

    The replica's progress does not count.
    """
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, epoch 3 ends at 8, log ends at 15, without | with KIP-1166
    2 fetches 12 of epoch 3  -> diverging; leader has high watermark -1
    3 fetches 8 of epoch 3   -> records 8..15, high watermark -1   # nothing beyond the epoch's end
    """)  # noqa: E501


def test_truncated_replica_goes_on_in_the_epoch_of_its_last_record() -> None:
    """Synthetic: in no recording."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, epoch 3 ends at 8, epoch 2 ends at 6, log ends at 15, without | with KIP-1166
    2 fetches 12 of epoch 3      -> diverging
    2 then fetches 8 of epoch 3  -> records 8..15, high watermark -1
    """)  # noqa: E501


def test_truncated_replica_goes_on_where_its_epoch_ended() -> None:
    """Synthetic: in no recording."""
    replica = Replica(12, last_fetched_epoch=3)
    told = an_answer(Completion.DIVERGING, high_watermark=UNKNOWN_OFFSET, log_end_offset=12)
    replica.take(told, EPOCH, a_leader(epoch_ends={3: 8}))
    assert replica.fetch_offset == 8


def test_kafka_fetch_request_offset_at_zero() -> None:
    """testFetchRequestOffsetAtZero. Synthetic: in no recording.

    With a snapshot, offset 0 and offsets before the log's start are sent to it.
    """
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log starts at 4, snapshot ends at 4, log ends at 15, without | with KIP-1166
    9 fetches 0       -> snapshot
    9 then fetches 4  -> records 4..15, high watermark -1
    8 fetches 3       -> snapshot
    2 fetches 0       -> snapshot; leader has high watermark -1
    """)  # noqa: E501


def test_kafka_fetch_at_zero_is_sent_to_a_snapshot_though_the_log_is_whole() -> None:
    """The case of testFetchRequestOffsetAtZero itself. Synthetic: in no recording."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log starts at 0, snapshot ends at 4, log ends at 15, without | with KIP-1166
    9 fetches 0  -> snapshot
    8 fetches 1  -> records 1..15, high watermark -1
    """)  # noqa: E501


def test_kafka_fetch_at_zero_without_a_snapshot_gets_records() -> None:
    """The other side of testFetchRequestOffsetAtZero."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    9 fetches 0  -> records 0..15, high watermark -1
    """)


def test_kafka_update_high_watermark_quorum_size_three() -> None:
    """testUpdateHighWatermarkQuorumSizeThree: one follower and the leader are a majority."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    2 fetches 10          -> records 10..15, high watermark -1; leader has high watermark -1
    3 fetches 10          -> records 10..15, high watermark -1; leader has high watermark -1
    3 fetches 15          -> parked; leader has high watermark 15
    leader appends to 20  -> 3: records 15..20, high watermark 15
    2 fetches 20          -> parked; leader has high watermark 20
    3 fetches 20          -> parked; leader has high watermark 20
    """)


def test_kafka_update_high_watermark_metadata() -> None:
    """testUpdateHighWatermarkMetadata: the same offset in a new segment counts as a move."""
    check("""
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
    """)


def test_kafka_non_monotonic_high_watermark_update() -> None:
    """testNonMonotonicHighWatermarkUpdate: a follower that lost its log takes nothing back."""
    check("""
    voters 1 2, leader 1, epoch 5 starts at 0, log ends at 10, without | with KIP-1166
    2 fetches 10 knowing 10  -> parked; leader has high watermark 10
    500 ms pass              -> 2: timeout, high watermark 10
    2 fetches 5 knowing 10   -> records 5..10, high watermark 10; leader has high watermark 10
    """)


# --- the rule, beyond Kafka's tests --------------------------------------------------------------


def test_example_of_the_kip() -> None:
    """The KIP's motivation: the second voter's FETCH moves the high watermark that 3 waits for."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    3 fetches 15 knowing -1   -> parked                               | high watermark 15
    2 fetches 15 knowing -1   -> parked                               | high watermark 15
    500 ms pass               -> 3: timeout, high watermark 15; 2: timeout, high watermark 15 | nobody
    """)  # noqa: E501


def test_expired_fetch_tells_what_was_known_when_it_was_parked() -> None:
    """Seen in 4.0: FETCH at 41, told 40 after 511 ms (kafka-semantics.md, section 2)."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 41, high watermark 40, without KIP-1166
    9 fetches 41  -> parked
    2 fetches 41  -> parked; leader has high watermark 41
    500 ms pass   -> 9: timeout, high watermark 40; 2: timeout, high watermark 41
    """)  # noqa: E501


def test_woken_fetch_tells_what_is_known_when_it_is_woken() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 41, high watermark 40, without KIP-1166
    9 fetches 41          -> parked
    2 fetches 41          -> parked
    leader appends to 42  -> 9: records 41..42, high watermark 41; 2: records 41..42, high watermark 41
    """)  # noqa: E501


def test_answer_shows_the_move_that_its_own_fetch_caused() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 20, high watermark 12, without | with KIP-1166
    2 fetches 15 knowing 12  -> records 15..20, high watermark 15
    """)  # noqa: E501


def test_those_who_wait_are_answered_before_the_voter_that_moved_it() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 20, high watermark 12, with KIP-1166
    8 fetches 20 knowing 12  -> parked
    9 fetches 20 knowing 12  -> parked
    2 fetches 20 knowing 12  -> 8: high watermark 20; 9: high watermark 20; high watermark 20
    """)


def test_old_replica_is_woken_by_a_move_like_all_who_are_parked() -> None:
    """The largest int64 keeps it from an immediate answer; ``completeAll`` asks nobody."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 12, with KIP-1166
    9 fetches 15             -> parked
    2 fetches 15 knowing 15  -> 9: high watermark 15; parked
    9 then fetches 15        -> parked
    """)


def test_replica_ahead_of_a_new_leaders_high_watermark_waits() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 15, log ends at 16, with KIP-1166
    9 fetches 16 knowing 15  -> parked
    """)


def test_high_watermark_of_earlier_epochs_is_not_told_before_a_record_of_this_one_commits() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 15, log ends at 16, with KIP-1166
    2 fetches 15 of epoch 4 knowing 12  -> records 15..16, high watermark -1
    2 then fetches 16 knowing 12        -> high watermark 16
    """)


def test_replica_ahead_of_the_leader_waits_until_the_leader_has_reached_it() -> None:
    """Synthetic: ``maybeComplete(LEO)`` wakes whoever waits at or below the log end offset."""
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    9 fetches 17          -> parked
    leader appends to 16  -> nobody
    leader appends to 17  -> 9: records 17..17, high watermark -1
    """)


def test_appends_that_change_nothing_take_nothing_back() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    leader appends to 12  -> nobody
    9 fetches 10          -> records 10..15, high watermark -1
    """)


def test_max_wait_zero_is_never_parked() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without | with KIP-1166
    9 fetches 15 knowing -1 waiting 0 ms  -> timeout, high watermark -1
    """)


def test_max_wait_is_each_fetchs_own() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    8 fetches 15 waiting 1000 ms  -> parked
    9 fetches 15 waiting 300 ms   -> parked
    300 ms pass                   -> 9: timeout, high watermark -1
    700 ms pass                   -> 8: timeout, high watermark -1
    """)


def test_parked_are_woken_in_the_order_in_which_they_came() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    9 fetches 15          -> parked
    8 fetches 15          -> parked
    leader appends to 16  -> 9: records 15..16, high watermark -1; 8: records 15..16, high watermark -1
    """)  # noqa: E501


def test_observers_never_move_the_high_watermark() -> None:
    check("""
    voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, with KIP-1166
    11 fetches 15 knowing -1  -> parked; leader has high watermark -1
    12 fetches 15 knowing -1  -> parked; leader has high watermark -1
    13 fetches 14 knowing -1  -> records 14..15, high watermark -1; leader has high watermark -1
    """)


def test_two_voters_need_the_other_one() -> None:
    check("""
    voters 1 2, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    2 fetches 12  -> records 12..15, high watermark 12
    2 fetches 15  -> parked; leader has high watermark 15
    """)


def test_four_voters_need_two_others() -> None:
    """N=4: the 2nd largest follower, so that three of four have it."""
    check("""
    voters 1 2 3 4, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    2 fetches 15  -> parked; leader has high watermark -1
    3 fetches 12  -> records 12..15, high watermark 12
    4 fetches 14  -> records 14..15, high watermark 14
    """)


def test_five_voters_need_two_others() -> None:
    check("""
    voters 1 2 3 4 5, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    2 fetches 15  -> parked; leader has high watermark -1
    3 fetches 12  -> records 12..15, high watermark 12
    4 fetches 11  -> records 11..15, high watermark 12
    5 fetches 14  -> records 14..15, high watermark 14
    """)


def test_leader_that_does_not_vote_needs_a_majority_of_the_others() -> None:
    check("""
    voters 2 3 4, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    2 fetches 15  -> parked; leader has high watermark -1
    3 fetches 12  -> records 12..15, high watermark 12
    4 fetches 13  -> records 13..15, high watermark 13
    """)


def test_leader_that_does_not_vote_with_two_voters_needs_both() -> None:
    check("""
    voters 2 3, leader 1, epoch 5 starts at 10, log ends at 15, without KIP-1166
    2 fetches 15  -> parked; leader has high watermark -1
    3 fetches 12  -> records 12..15, high watermark 12
    """)


def test_single_voter_commits_what_it_appends() -> None:
    check("""
    voters 1, leader 1, epoch 5 starts at 10, log ends at 10, without | with KIP-1166
    leader appends to 15     -> nobody; leader has high watermark 15
    9 fetches 15 knowing 15  -> parked
    """)


def test_single_voter_tells_the_high_watermark_with_the_records() -> None:
    check("""
    voters 1, leader 1, epoch 5 starts at 10, log ends at 15, high watermark 15, without KIP-1166
    9 fetches 15          -> parked
    leader appends to 16  -> 9: records 15..16, high watermark 16
    """)


def test_append_of_a_leader_that_does_not_vote_commits_nothing() -> None:
    check("""
    voters 2, leader 1, epoch 5 starts at 10, log ends at 10, without KIP-1166
    leader appends to 15  -> nobody; leader has high watermark -1
    2 fetches 12          -> records 12..15, high watermark 12
    """)


def test_turned_away_answers_tell_no_high_watermark() -> None:
    leader = a_leader(high_watermark=15)
    fetch = Fetch(9, 15, EPOCH, 15, token=1)
    leader.fetch(fetch)
    assert leader.resign() == [Answer(fetch, Completion.ERROR, True, UNKNOWN_OFFSET, 15)]


def test_fetch_that_is_not_parked_does_not_expire() -> None:
    assert a_leader().expire(token=7) == []


def a_leader(**others: Any) -> Leader:
    leader = Leader(
        hwm_aware=True,
        voters=frozenset({2, 3}),
        voter_count=3,
        epoch_start_offset=10,
        log_end_offset=15,
    )
    return replace(leader, **others)


# --- what a replica takes from an answer ---------------------------------------------------------


def an_answer(completion: Completion, *, high_watermark: int, log_end_offset: int) -> Answer:
    fetch = Fetch(9, 10, 3, UNKNOWN_OFFSET)
    return Answer(fetch, completion, False, high_watermark, log_end_offset)


def test_replica_knows_no_high_watermark_beyond_its_log() -> None:
    replica = Replica(fetch_offset=10, last_fetched_epoch=3)
    told = an_answer(Completion.TIMEOUT, high_watermark=15, log_end_offset=10)
    replica.take(told, EPOCH, a_leader())
    assert (replica.fetch_offset, replica.high_watermark) == (10, 10)


def test_records_bring_the_leaders_epoch() -> None:
    replica = Replica(fetch_offset=10, last_fetched_epoch=3)
    told = an_answer(Completion.RECORDS, high_watermark=12, log_end_offset=15)
    replica.take(told, EPOCH, a_leader())
    assert replica == Replica(15, EPOCH, 12)


def test_answers_without_a_high_watermark_take_none_away() -> None:
    replica = Replica(10, EPOCH, high_watermark=9)
    told = an_answer(Completion.TIMEOUT, high_watermark=UNKNOWN_OFFSET, log_end_offset=10)
    replica.take(told, EPOCH, a_leader())
    assert replica.high_watermark == 9


def test_snapshot_brings_its_end_and_the_leaders_epoch() -> None:
    """Synthetic: in no recording."""
    replica = Replica(fetch_offset=0, last_fetched_epoch=0)
    told = an_answer(Completion.SNAPSHOT, high_watermark=15, log_end_offset=0)
    replica.take(told, EPOCH, a_leader(snapshot=12))
    assert replica == Replica(12, EPOCH, 12)


def test_frozen_replica_comes_back_knowing_what_it_knew() -> None:
    replica = Replica(15, EPOCH, high_watermark=12)
    replica.returns(Absence(0, 1, fetch_offset=15, restarted=False, last_fetched_epoch=EPOCH))
    assert replica == Replica(15, EPOCH, 12)


def test_restarted_replica_comes_back_without_a_high_watermark_and_maybe_without_log() -> None:
    replica = Replica(15, EPOCH, high_watermark=12)
    replica.returns(Absence(0, 1, fetch_offset=8, restarted=True, last_fetched_epoch=4))
    assert replica == Replica(8, 4, UNKNOWN_OFFSET)


def test_restarted_replica_has_no_more_log_than_the_loop_gave_it() -> None:
    replica = Replica(15, EPOCH, high_watermark=12)
    replica.returns(Absence(0, 1, fetch_offset=20, restarted=True, last_fetched_epoch=EPOCH))
    assert replica.fetch_offset == 15


# --- explain -------------------------------------------------------------------------------------

#: The leader appends to 16 at 1,000 ms, a voter's FETCH moves the high watermark there at 1,010.
LOG_END = Timeline([0, micros(1_000)], [15, 16])
HIGH_WATERMARK = Timeline([0, micros(1_010)], [15, 16])

KNOWS_16 = {"high_watermark": 16, "response_high_watermark": 16}
KNOWS_15 = {"high_watermark": 15, "response_high_watermark": 15}
LEARNS_16 = {"high_watermark": 15, "response_high_watermark": 16}
#: A replica of 4.0, told what the leader has before or after the advance.
TOLD_15 = {"response_high_watermark": 15}
TOLD_16 = {"response_high_watermark": 16}


def explained(row: Any) -> tuple[Completion, bool]:
    return explain(row, LOG_END, HIGH_WATERMARK)


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        (fetched(9, 900, 1_001, 15, record_bytes=9, **TOLD_15), (Completion.RECORDS, True)),
        (fetched(9, 1_005, 1_006, 15, record_bytes=9, **TOLD_15), (Completion.RECORDS, False)),
        (fetched(9, 300, 800, 15, **TOLD_15), (Completion.TIMEOUT, True)),
        (fetched(9, 1_005, 1_505, 16, **TOLD_15), (Completion.TIMEOUT, True)),
        (fetched(9, 1_005, 1_011, 16, **LEARNS_16), (Completion.HIGH_WATERMARK, True)),
        (fetched(9, 1_020, 1_021, 16, **LEARNS_16), (Completion.HIGH_WATERMARK, False)),
        (fetched(9, 1_005, 1_012, 16, **KNOWS_16), (Completion.HIGH_WATERMARK, True)),
        (fetched(9, 1_100, 1_600, 16, **KNOWS_16), (Completion.TIMEOUT, True)),
    ],
    ids=[
        "append wakes",
        "records wait",
        "500 ms",
        "expiry tells what was known when it was parked",
        "move wakes",
        "replica knows less",
        "move wakes also who claims to know it",
        "replica knows as much",
    ],
)
def test_rule_explains(row: Any, answer: tuple[Completion, bool]) -> None:
    assert explained(row) == answer


@pytest.mark.parametrize(
    "row",
    [
        fetched(9, 800, 900, 15, record_bytes=9, **TOLD_15),
        fetched(9, 300, 600, 15, **TOLD_15),
        fetched(9, 1_005, 1_011, 16, **TOLD_16),
        fetched(9, 1_020, 1_300, 16, **LEARNS_16),
        fetched(9, 900, 1_200, 15, record_bytes=9, **TOLD_15),
        fetched(9, 100, 800, 15, **TOLD_15),
        fetched(9, 900, 1_001, 15, record_bytes=9, **TOLD_16),
        fetched(9, 1_100, 1_600, 16, high_watermark=16, response_high_watermark=15),
    ],
    ids=[
        "records before the append",
        "empty and early",
        "4.0 is not woken by the high watermark",
        "news kept back",
        "records kept back",
        "parked too long",
        "a high watermark from the future",
        "a high watermark from the past",
    ],
)
def test_rule_does_not_explain(row: Any) -> None:
    assert explained(row)[0] is Completion.UNEXPLAINED


@pytest.mark.parametrize(("late_us", "is_explained"), [(0, True), (1, False)])
def test_answer_may_be_built_this_late(late_us: int, is_explained: bool) -> None:
    built_ms = (micros(1_000) + HANDLING_SLACK_US + late_us) / 1000
    completion, _ = explained(fetched(9, 900, built_ms, 15, record_bytes=9, **TOLD_15))
    assert (completion is Completion.RECORDS) == is_explained


@pytest.mark.parametrize(("early_ms", "is_explained"), [(2, True), (2.001, False)])
def test_stamps_may_put_an_answer_this_much_before_its_cause(
    early_ms: float, is_explained: bool
) -> None:
    row = fetched(9, 900, 1_000 - early_ms, 15, record_bytes=9, **TOLD_15)
    assert (explained(row)[0] is Completion.RECORDS) == is_explained


def test_leader_without_a_high_watermark_may_be_busy_for_longer() -> None:
    row = fetched(9, 900, 2_500, 15, record_bytes=9, response_high_watermark=UNKNOWN_OFFSET)
    assert explain(row, LOG_END, Timeline()) == (Completion.RECORDS, True)


@pytest.mark.parametrize(
    ("what", "completion"),
    [("is_diverging", Completion.DIVERGING), ("is_snapshot", Completion.SNAPSHOT)],
)
def test_diverging_and_snapshot_answers_explain_themselves(
    what: str, completion: Completion
) -> None:
    """Synthetic: in no recording."""
    assert explained(fetched(9, 900, 901, 15, **{what: True})) == (completion, False)


def test_move_that_the_fetch_knows_does_not_make_its_answer_due() -> None:
    """A quick replica: told at 1,010.5, asks again at 1,011 knowing it, waits till an append."""
    log_end = Timeline([0, micros(1_300)], [16, 17])
    row = fetched(9, 1_011, 1_300, 16, record_bytes=9, **KNOWS_16)
    assert explain(row, log_end, HIGH_WATERMARK) == (Completion.RECORDS, True)


def test_wake_without_news_is_the_leaders_if_nobody_stayed_parked() -> None:
    woken = fetched(9, 100, 300, 15)
    with_it = fetched(8, 110, 310, 15)
    later = fetched(7, 320, 500, 15)
    assert woke_everyone(woken, [woken, with_it, later])


def test_wake_that_leaves_somebody_parked_is_not_the_leaders() -> None:
    woken = fetched(9, 100, 300, 15)
    assert not woke_everyone(woken, [woken, fetched(8, 110, 500, 15)])


@pytest.mark.parametrize(
    "answer",
    [
        fetched(9, 100, 300, 15, record_bytes=9),
        fetched(9, 100, 600, 15),
        fetched(9, 100, 300, 15, error_code=6),
        fetched(9, 100, 300, 15, high_watermark=14, response_high_watermark=15),
    ],
    ids=["records", "timeout", "error", "news"],
)
def test_answer_with_a_cause_of_its_own_is_no_wake(answer: RecordedFetch) -> None:
    assert not woke_everyone(answer, [answer])


# --- lags ----------------------------------------------------------------------------------------


def tracker(*rows: Any) -> LagTracker:
    """Who has FETCHed, and nothing else; by default replica 9 from the beginning on."""
    evidence = Evidence()
    for row in rows or (fetched(9, 0, 1, 15), fetched(9, 900, 2_000, 15)):
        evidence.add(row)
    return LagTracker(evidence)


def test_advance_is_learned_with_the_first_answer_that_tells_as_much() -> None:
    lags = tracker()
    lags.advanced(Advance(100, 14, 15))
    lags.told(9, 150, 14)
    lags.told(9, 200, 15)
    lags.told(9, 300, 15)
    assert [(lag.learned_us, lag.away) for lag in lags.take()] == [(200, False)]


def test_one_answer_may_tell_several_advances() -> None:
    lags = tracker()
    lags.advanced(Advance(100, 14, 15))
    lags.advanced(Advance(110, 15, 17))
    lags.told(9, 200, 17)
    assert [lag.learned_us for lag in lags.take()] == [200, 200]


def test_answer_that_tells_less_settles_only_what_it_tells() -> None:
    lags = tracker()
    lags.advanced(Advance(100, 14, 15))
    lags.advanced(Advance(110, 15, 17))
    lags.told(9, 200, 16)
    assert [lag.advance.high_watermark for lag in lags.take()] == [15]


def test_answer_built_just_before_the_advance_has_no_negative_lag() -> None:
    lags = tracker()
    lags.told(9, 99, 15)
    lags.advanced(Advance(100, 14, 15))
    assert [lag.learned_us for lag in lags.take()] == [100]


def test_of_answers_told_before_the_first_that_tells_enough_counts() -> None:
    lags = tracker()
    for at, high_watermark in [(101, 14), (102, 15), (103, 16)]:
        lags.told(9, at, high_watermark)
    lags.advanced(Advance(100, 14, 15))
    assert [lag.learned_us for lag in lags.take()] == [102]


def test_answers_that_tell_nothing_new_do_not_push_out_the_first_that_did() -> None:
    lags = tracker()
    for at in range(101, 150):
        lags.told(9, at, 15)
    lags.advanced(Advance(100, 14, 15))
    assert [lag.learned_us for lag in lags.take()] == [101]


def test_replica_that_comes_later_has_no_lag() -> None:
    lags = tracker(fetched(9, 0, 1, 15), fetched(8, 5, 6, 15))
    lags.advanced(Advance(micros(4), 14, 15))
    lags.close()
    assert [lag.replica_id for lag in lags.take()] == [9]


def test_what_is_never_learned_is_said_at_the_end() -> None:
    lags = tracker()
    lags.advanced(Advance(100, 14, 15))
    assert lags.take() == []
    lags.close()
    assert [lag.learned_us for lag in lags.take()] == [None]


def test_lags_are_handed_out_once() -> None:
    lags = tracker()
    lags.advanced(Advance(100, 14, 15))
    lags.told(9, 200, 15)
    assert (len(lags.take()), len(lags.take())) == (1, 0)


def test_replica_that_was_silent_when_it_moved_was_away() -> None:
    lags = tracker(fetched(9, 0, 1, 15), fetched(9, 3_000, 3_001, 15))
    lags.advanced(Advance(micros(2_000), 14, 15))
    lags.advanced(Advance(micros(3_000), 15, 16))
    lags.told(9, micros(3_001), 16)
    assert [lag.away for lag in lags.take()] == [True, False]


# --- the closed loop -----------------------------------------------------------------------------


def loop_over(*rows: Any, hwm_aware: bool = False, max_wait_us: int | None = None) -> ClosedLoop:
    evidence = Evidence()
    for row in in_order(rows):
        evidence.add(row)
    leader = a_leader(hwm_aware=hwm_aware, high_watermark=UNKNOWN_OFFSET)
    return ClosedLoop(evidence, leader, EPOCH, max_wait_us)


def test_fetch_is_parked_for_its_max_wait() -> None:
    loop = loop_over(fetched(9, 0, 500, 15, max_wait_us=200_000))
    row, *_ = loop.advance(micros(1_000))
    assert (row.dequeued_us, row.built_us) == (0, micros(200))


def test_sweep_replaces_the_recorded_max_wait() -> None:
    loop = loop_over(fetched(9, 0, 500, 15), max_wait_us=50_000)
    row, *_ = loop.advance(micros(1_000))
    assert row.built_us == micros(50)


def test_next_fetch_comes_after_the_replicas_own_gap() -> None:
    loop = loop_over(fetched(9, 0, 500, 15), fetched(9, 507, 1_007, 15))
    first, second = loop.advance(micros(2_000))
    assert second.dequeued_us - first.built_us == micros(7)


def test_raft_thread_answers_one_after_the_other() -> None:
    """One append wakes three, 4 ms from first to last: 2 ms an answer."""
    woken = [fetched(r, r, 100 + 2 * i, 15, record_bytes=9) for i, r in enumerate((7, 8, 9))]
    loop = loop_over(*woken, fetched(7, 200, 300, 16))
    loop.append(micros(100), 16)
    assert [row.built_us for row in loop.advance(micros(150))] == [
        micros(100),
        micros(102),
        micros(104),
    ]


def test_fetch_waits_for_the_raft_thread() -> None:
    """Both arrive at 1 ms with 2 ms an answer: the second is processed at 5 ms."""
    woken = [fetched(r, 1, 100 + 2 * i, 14, record_bytes=9) for i, r in enumerate((7, 8, 9))]
    loop = loop_over(*woken, fetched(7, 200, 300, 16))
    built = [row.built_us for row in loop.advance(micros(50))]
    assert built == [micros(3), micros(5), micros(7)]


def test_expired_fetch_is_answered_one_answers_time_later() -> None:
    """2 ms an answer: processed at 302, over at 802, answered at 804."""
    woken = [fetched(r, 1, 100 + 2 * i, 14, record_bytes=9) for i, r in enumerate((7, 8, 9))]
    loop = loop_over(*woken, fetched(7, 200, 300, 16), fetched(6, 300, 800, 15))
    (row,) = (row for row in loop.advance(micros(900)) if row.replica_id == 6)
    assert (row.dequeued_us, row.built_us) == (micros(300), micros(804))


def test_append_at_the_moment_of_expiry_comes_first() -> None:
    loop = loop_over(fetched(9, 0, 500, 15))
    loop.append(micros(500), 16)
    row, *_ = loop.advance(micros(600))
    assert row.answer.completion is Completion.RECORDS


def test_fetch_at_the_moment_of_an_append_is_answered_at_once() -> None:
    loop = loop_over(fetched(9, 100, 500, 15))
    loop.append(micros(100), 16)
    row, *_ = loop.advance(micros(600))
    assert (row.answer.completion, row.answer.parked) == (Completion.RECORDS, False)


def test_resignation_turns_away_who_is_parked_and_ends_the_loop() -> None:
    loop = loop_over(fetched(9, 0, 500, 15), fetched(9, 501, 1_001, 15))
    (row,) = loop.resign(micros(300))
    assert (row.built_us, row.answer.completion) == (micros(300), Completion.ERROR)
    assert loop.advance(micros(5_000)) == []


def test_resignation_turns_away_also_who_waits_for_the_raft_thread() -> None:
    """2 ms an answer: the FETCH that arrives at 300 ms would be processed at 302."""
    woken = [fetched(r, 1, 100 + 2 * i, 14, record_bytes=9) for i, r in enumerate((7, 8, 9))]
    loop = loop_over(*woken, fetched(7, 200, 300, 16), fetched(6, 300, 400, 15))
    answered = loop.resign(micros(301))
    assert [row.answer.completion for row in answered if row.replica_id == 6] == ["error"]


def test_loop_without_the_kip_sends_no_high_watermark() -> None:
    row, *_ = loop_over(fetched(9, 0, 500, 15, high_watermark=-1)).advance(micros(1_000))
    assert row.fetch.high_watermark == NOT_SENT


def test_loop_with_the_kip_begins_with_what_a_replica_said_it_knows() -> None:
    loop = loop_over(fetched(9, 0, 500, 15, high_watermark=12), hwm_aware=True)
    row, *_ = loop.advance(micros(1_000))
    assert row.fetch.high_watermark == 12


def test_loop_with_the_kip_begins_without_a_high_watermark_for_an_old_replica() -> None:
    row, *_ = loop_over(fetched(9, 0, 500, 15), hwm_aware=True).advance(micros(1_000))
    assert row.fetch.high_watermark == UNKNOWN_OFFSET


# --- variants ------------------------------------------------------------------------------------


def test_variants_are_both_rules() -> None:
    assert variants() == [Variant(WITHOUT_KIP), Variant(WITH_KIP)]


def test_sweep_adds_both_rules_for_each_value() -> None:
    assert variants([100, 250])[2:] == [
        Variant(WITHOUT_KIP, "max_wait_ms", "100"),
        Variant(WITH_KIP, "max_wait_ms", "100"),
        Variant(WITHOUT_KIP, "max_wait_ms", "250"),
        Variant(WITH_KIP, "max_wait_ms", "250"),
    ]


def test_swept_rows_say_their_parameter() -> None:
    rows = replay_of(1, [1, 2, 3], variants([100])[2:], [SMALL.log()]).parking
    swept = {(r["parameter"], r["parameter_value"]) for r in rows if r["variant"] != RECORDED}
    assert swept == {("max_wait_ms", "100")}


def test_shorter_max_wait_is_kept() -> None:
    rows = replay_of(1, [1, 2, 3], variants([100])[2:], [SMALL.log()]).variant(WITHOUT_KIP)
    parked = [r["parked_ms"] for r in rows.parking]
    assert 100 <= max(parked) <= 101


# --- the whole replay ----------------------------------------------------------------------------

SMALL = Cluster(
    (Member(2, gaps_ms=(3, 5)), Member(3, 20, (4, 3)), Member(11, 40, (6, 2))),
    appends=every(430, 10_000, records=2),
)


def small_replay(cluster: Cluster = SMALL) -> Replayed:
    return replay_of(1, cluster.voters, variants(), [cluster.log()])


@pytest.mark.parametrize("hwm_aware", [False, True])
def test_loop_under_the_recorded_rule_writes_the_recorded_log(hwm_aware: bool) -> None:
    """Even gaps and times: nothing is left to chance, so nothing may differ by more than stamps."""
    members = tuple(Member(r, 10 * r, (5.0,)) for r in (2, 3, 11))
    cluster = replace(SMALL, members=members, hwm_aware=hwm_aware)
    rows = small_replay(cluster)
    own = rows.variant(WITH_KIP if hwm_aware else WITHOUT_KIP).parking
    recorded = rows.variant(RECORDED).parking

    def what(row: dict[str, Any]) -> tuple[Any, ...]:
        told = (row["fetch_offset"], row["response_high_watermark"], row["record_bytes"])
        return row["replica_id"], row["sequence"], row["completion"], *told

    assert sorted(map(what, own)) == sorted(map(what, recorded))


def test_own_rule_explains_every_answer_of_the_small_log() -> None:
    recorded = small_replay().variant(RECORDED).parking
    assert {r["completion"] for r in recorded} <= {"records", "timeout"}


def test_sizes_on_the_wire_follow_records_and_version() -> None:
    """The cluster's 4.0 envelopes: 120 and 80 bytes; records of 100; v18 adds 10 to a request."""
    rows = small_replay()
    without = {r["request_bytes"] for r in rows.variant(WITHOUT_KIP).parking}
    with_kip = {r["request_bytes"] for r in rows.variant(WITH_KIP).parking}
    assert (without, with_kip) == ({120}, {130})
    empty = {r["response_bytes"] for r in rows.variant(WITH_KIP).parking if not r["record_bytes"]}
    assert empty == {80}


def test_feed_in_the_wrong_order_is_refused() -> None:
    first, second, *_ = SMALL.log()
    with pytest.raises(ValueError, match="in order of built_us, request_id"):
        replay_of(1, [1, 2, 3], variants(), [[second, first]])


def test_feed_in_the_wrong_order_is_refused_also_between_pieces() -> None:
    first, second, *_ = SMALL.log()
    with pytest.raises(ValueError, match="in order of built_us, request_id"):
        replay_of(1, [1, 2, 3], variants(), [[second], [first]])


def test_equal_times_are_ordered_by_request_id() -> None:
    a, b = (fetched(r, 0, 5, 15, request_id=name) for r, name in ((9, "a"), (8, "b")))
    with pytest.raises(ValueError, match="in order of built_us, request_id"):
        replay_of(1, [1, 2, 3], variants(), [[b, a]])
    rows = replay_of(1, [1, 2, 3], variants(), [[a, b]]).variant(RECORDED).parking
    assert [row["recorded_request_id"] for row in rows] == ["a", "b"]


def test_log_that_is_empty_has_no_rows() -> None:
    assert replay_of(1, [1, 2, 3], variants(), []) == Replayed([], [])
    assert replay_of(1, [1, 2, 3], variants(), [[]]) == Replayed([], [])


def test_epochs_of_one_controller_are_replayed_apart() -> None:
    log = SMALL.log()
    later = [
        row._replace(
            leader_epoch=EPOCH + 1,
            request_id=f"~{row.request_id}",
            **{t: getattr(row, t) + 20_000_000 for t in ("dequeued_us", "built_us")},
        )
        for row in log
    ]
    rows = replay_of(1, [1, 2, 3], variants(), [[*log, *later]]).variant(WITHOUT_KIP).parking
    sequences = [(r["leader_epoch"], r["sequence"]) for r in rows if r["replica_id"] == 2]
    assert (EPOCH, 0) in sequences
    assert (EPOCH + 1, 0) in sequences


def test_controller_that_did_not_lead_is_not_replayed() -> None:
    rows = [fetched(9, 0, 1, 15, error_code=6), fetched(9, 5, 6, 15, error_code=74)]
    out = replay_of(1, [1, 2, 3], variants(), [rows])
    said = [(r["completion"], r["verdict"], r["reason"]) for r in out.parking]
    assert said == [("error", "not_applicable", NOT_LEADER)] * 2
    assert out.lag == []


def test_fetch_parked_when_the_leader_stops_was_turned_away() -> None:
    rows = [*ENDED.log(), TURNED_AWAY]
    recorded = replay_of(1, [1, 2, 3], variants(), [rows]).variant(RECORDED).parking
    last = recorded[-1]
    said = (last["completion"], last["decision"], last["verdict"])
    assert said == ("error", "parked", "replayed")


def test_loops_end_when_the_leader_stops() -> None:
    rows = replay_of(1, [1, 2, 3], variants(), [[*ENDED.log(), TURNED_AWAY]])
    for variant in (WITHOUT_KIP, WITH_KIP):
        assert max(r["built_at"] for r in rows.variant(variant).parking) <= TURNED_AWAY.built_us


def test_loop_turns_away_who_is_parked_when_the_leader_stops() -> None:
    """Under 4.0; with the KIP its FETCH was answered at once, it moves the high watermark."""
    rows = replay_of(1, [1, 2, 3], variants(), [[*ENDED.log(), TURNED_AWAY]])
    turned_away = [r for r in rows.variant(WITHOUT_KIP).parking if r["completion"] == "error"]
    assert [(r["replica_id"], r["built_at"]) for r in turned_away] == [(2, TURNED_AWAY.built_us)]


def test_leader_that_refuses_at_once_had_stopped_when_the_fetch_came() -> None:
    """Nobody knows since when; the FETCHes that the loops have parked then are turned away."""
    at_ms = ENDED.epoch_us / 1000 + 10_000
    refused = fetched(3, at_ms, at_ms + 5, TURNED_AWAY.fetch_offset, error_code=6)
    earlier = [row for row in ENDED.log() if row.replica_id != 3]
    others = [fetched(3, at_ms - 108, at_ms - 107, TURNED_AWAY.fetch_offset - 1, record_bytes=9)]
    rows = in_order([*earlier, *others, refused])
    parking = replay_of(1, [1, 2, 3], variants(), [rows]).parking
    assert max(r["built_at"] for r in parking if r["variant"] != RECORDED) <= refused.dequeued_us


ENDED = replace(SMALL, appends=every(430, 10_000))
#: Replica 2 had the last record, asked again, and was told after 200 ms: not the leader.
TURNED_AWAY = fetched(
    2,
    ENDED.epoch_us / 1000 + 9_894,
    ENDED.epoch_us / 1000 + 10_094,
    ENDED.log()[-1].fetch_offset + 1,
    error_code=6,
)


def test_other_errors_are_said_as_they_are() -> None:
    """CORRUPT_MESSAGE (2) is no answer of the rule and bounds no epoch."""
    rows = in_order([*SMALL.log(), fetched(11, 0, 1, 15, error_code=2)])
    recorded = replay_of(1, [1, 2, 3], variants(), [rows]).variant(RECORDED).parking
    said = [(r["decision"], r["verdict"]) for r in recorded if r["completion"] == "error"]
    assert said == [("immediate", "replayed")]


def test_replica_that_only_got_errors_is_in_no_loop() -> None:
    rows = in_order([*SMALL.log(), fetched(99, 0, 1, 15, error_code=2)])
    parking = replay_of(1, [1, 2, 3], variants(), [rows]).parking
    assert {r["variant"] for r in parking if r["replica_id"] == 99} == {RECORDED}


def test_fetch_without_an_answer_in_the_log_is_unknown_and_tells_the_loops_nothing() -> None:
    """The logger's level was switched while it waited."""
    at_ms = SMALL.epoch_us / 1000 + 5_000
    rows = in_order([*SMALL.log(), fetched(99, at_ms, at_ms + 1, 900, error_code=NO_ANSWER)])
    replayed_rows = replay_of(1, [1, 2, 3], variants(), [rows])
    (row,) = (row for row in replayed_rows.parking if row["replica_id"] == 99)
    said = (row["variant"], row["completion"], row["verdict"], row["reason"])
    assert said == (RECORDED, "unexplained", "unknown", NOT_IN_LOG)
    assert replayed_rows.variant(WITH_KIP) == small_replay().variant(WITH_KIP)


def test_diverging_voter_moves_nothing() -> None:
    """Synthetic: the voter's FETCH at 900 is told to truncate, so nobody has 900."""
    at_ms = SMALL.epoch_us / 1000 + 5_000
    rows = in_order([*SMALL.log(), fetched(3, at_ms, at_ms + 1, 900, is_diverging=True)])
    recorded = replay_of(1, [1, 2, 3], variants(), [rows]).variant(RECORDED)
    assert max(lag["high_watermark"] for lag in recorded.lag) < 900


def test_answers_that_need_the_past_of_a_log_that_begins_late_are_unknown() -> None:
    """No voter has FETCHed yet, and nobody saw the epoch begin."""
    rows = [fetched(11, 0, 1, 100, record_bytes=9, response_high_watermark=99)]
    (row,) = replay_of(1, [1, 2, 3], variants(), [rows]).variant(RECORDED).parking
    said = (row["completion"], row["verdict"], row["reason"])
    assert said == ("unexplained", "unknown", MIDDLE_OF_EPOCH)


def test_absent_replicas_lag_is_not_applicable() -> None:
    members = (*SMALL.members[:2], Member(11, silences=(Silence(2_000, 3_000),)))
    lags = small_replay(replace(SMALL, members=members)).lag
    away = [r for r in lags if r["verdict"] == "not_applicable"]
    assert {(r["replica_id"], r["reason"]) for r in away} == {(11, AWAY)}
    start = SMALL.epoch_us
    assert all(start + micros(2_000) < r["leader_at"] < start + micros(5_000) for r in away)


def test_advance_that_is_never_learned_is_unknown() -> None:
    members = (*SMALL.members[:2], Member(11, silences=(Silence(9_200, 5_000),)))
    lags = small_replay(replace(SMALL, members=members)).lag
    reasons = {r["reason"] for r in lags if r["verdict"] == "unknown"}
    assert reasons == {NEVER_LEARNED}
    assert all(r["lag_ms"] is None for r in lags if r["verdict"] == "unknown")


def test_replay_yields_once_a_batch_and_once_at_the_end() -> None:
    replay = HwmParking(1, [1, 2, 3], variants())
    assert len(list(replayed(replay, []))) == 1


def test_single_voter_has_lags_and_explained_answers() -> None:
    """A cluster of one controller (development): the leader alone commits."""
    rows = small_replay(replace(SMALL, voters=(1,), members=SMALL.members[2:]))
    # Of the very last records no later FETCH says where they end.
    recorded = rows.variant(RECORDED).parking[:-1]
    assert {r["completion"] for r in recorded} <= {"records", "timeout"}
    assert {r["variant"] for r in rows.lag} == {RECORDED, WITHOUT_KIP, WITH_KIP}


def test_no_answer_carries_less_than_nothing() -> None:
    """The log begins within the epoch: 9 waits at 100, and later 8 comes from 98."""
    rows = in_order(
        [
            *(fetched(9, 0, 500, 100), fetched(9, 505, 1_005, 100)),
            *(fetched(8, 550, 551, 98, record_bytes=200), fetched(8, 555, 1_055, 100)),
        ]
    )
    parking = replay_of(1, [1, 2, 3], variants(), [rows]).parking
    assert min(row["record_bytes"] or 0 for row in parking) >= 0


# --- what the closed loop does not read ----------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "leader"),
    [
        ("metadata-4.0", 2),
        ("metadata-4.1", 2),
        ("freeze-4.1", 2),
        ("failover-4.0", 1),
        ("failover-4.0", 2),
    ],
)
def test_loops_do_not_read_what_the_rule_explains(name: str, leader: int) -> None:
    """Blank what the rule explains in every recorded FETCH: the closed-loop rows stay the same.

    Blanked: the high watermark told, whether the answer was diverging or a snapshot, and when the
    answer was sent (moved by a minute). What stays, since the loop takes it as input: ``built_us``
    (only as the begin of a gap and as the time of an append), ``record_bytes`` (which appends an
    answer carried), the sizes on the wire, and whether an error says "not the leader" (it ends
    the leader's epoch).
    """
    log = recording(name)
    recorded = log.fetches[leader]
    blanked = [
        row._replace(
            response_high_watermark=-7,
            is_diverging=not row.is_diverging,
            is_snapshot=not row.is_snapshot,
            completed_us=row.completed_us + 60_000_000,
        )
        for row in recorded
    ]
    before = replay_of(leader, log.voters, variants(), [recorded])
    after = replay_of(leader, log.voters, variants(), [blanked])
    for variant in (WITHOUT_KIP, WITH_KIP):
        assert before.variant(variant).parking
        assert before.variant(variant).lag
        assert after.variant(variant) == before.variant(variant)


def test_loops_read_when_answers_were_built() -> None:
    """The other side: what is said to be an input is one."""
    rows = SMALL.log()
    late = in_order(row._replace(dequeued_us=row.dequeued_us + 1_000) for row in rows)
    moved = replay_of(1, [1, 2, 3], variants(), [late]).variant(WITHOUT_KIP)
    assert moved != small_replay().variant(WITHOUT_KIP)
