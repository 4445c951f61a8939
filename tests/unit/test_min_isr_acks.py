"""min_isr_acks by hand: who is answered when, with which error, and what the log leaves open.

Those named ``test_kafka_...`` reproduce the test of Kafka 4.3.0 whose name follows
(kafka-semantics.md, section 6). All histories here are synthetic.
"""

from __future__ import annotations

from typing import Any

import pytest
from notation.leader_log import REPLICAS, History, Row, ms

from kip_replay.replay.min_isr_acks import MinIsrAcks, variants
from kip_replay.replay.min_isr_acks.events import Partition, batch_of
from kip_replay.replay.min_isr_acks.responses import (
    ISR_NOT_IN_LOG,
    LEADER_LOST,
    LOG_ENDED,
    MIN_ISR_NOT_IN_LOG,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOTHING_APPENDED,
    OFFSET_NOT_IN_LOG,
    REFUSED_AS_RECORDED,
    REQUEST_TIMED_OUT,
)


def answered(row: Row) -> tuple[Any, ...]:
    """acks=all: when and with which error; then the same for acks=-2."""
    return (
        row["partition_acks_all_latency_ms"],
        row["acks_all_error"],
        row["partition_min_isr_latency_ms"],
        row["min_isr_error"],
    )


# --- Kafka's own tests ---------------------------------------------------------------------------


def test_kafka_high_watermark_should_not_advance_when_under_min_isr() -> None:
    """testHighWatermarkAdvanceShouldNotAdvanceWhenUnderMinISR: min 3, the third joins late."""
    history = History(isr=(11, 12), min_isr=3)
    late = history.produce(0, 0, acks=1)
    history.fetch(1, 12, 0)
    history.fetch(1, 13, 0)
    history.fetch(5, 12, 1)
    history.fetch(6, 13, 1)
    history.alter_partition(7, REPLICAS, 9)
    row = history.row(late, until_ms=9000)
    assert ms(row["visible_at"]) == 9
    assert answered(row) == (1, NOT_ENOUGH_REPLICAS, 1, NOT_ENOUGH_REPLICAS)
    assert row["all_isr_acked_at"] is None


@pytest.mark.parametrize(("standing", "visible"), [("unfenced", 40), ("fenced", 10), ("stops", 10)])
def test_kafka_high_watermark_increases_with_fenced_or_shutdown_follower(
    standing: str, visible: int
) -> None:
    """testHighWatermarkIncreasesWithFencedOrShutdownFollower: who may join holds it, else not."""
    history = History(isr=(11, 12), min_isr=1)
    history.heartbeat(-900, 13, fenced=standing == "fenced", stops=standing == "stops")
    history.fetch(-1, 12, 0)
    history.fetch(-1, 13, 0)
    produced = history.produce(0, 0)
    history.fetch(10, 12, 1)
    history.fetch(40, 13, 1)
    assert ms(history.row(produced, until_ms=9000)["visible_at"]) == visible


@pytest.mark.parametrize(("last_fetch_ms", "visible"), [(29_000, 40_000), (-29_000, 10_000)])
def test_kafka_previous_fetch_tells_when_a_follower_was_caught_up(
    last_fetch_ms: int, visible: int
) -> None:
    """testShouldNotShrinkIsrIfPreviousFetchIsCaughtUp: its session's fetches count, listed or not.

    The follower stands at the end of the log; a FETCH that omits the partition says so again.
    """
    history = History(isr=(11, 12), min_isr=1)
    history.fetch(-40_000, 12, 0)
    history.fetch(-40_000, 13, 0, session=3)
    history.fetch(min(last_fetch_ms, -1), 13, None, session=3)
    produced = history.produce(0, 0, timeout_ms=60_000)
    history.fetch(10_000, 12, 1)
    history.fetch(40_000, 13, 1, session=3)
    assert ms(history.row(produced, until_ms=90_000)["visible_at"]) == visible


def test_kafka_illegal_required_acks() -> None:
    """testIllegalRequiredAcks: a broker without the KIP answers INVALID_REQUIRED_ACKS."""
    history = History()
    history.produce(0, 0)
    assert history.row()["todays_min_isr_error"] == 21


# --- KIP-926 -------------------------------------------------------------------------------------


def near_and_far(min_isr: int = 2, **options: Any) -> tuple[History, str]:
    """Follower 12 has the batch after 4 ms, 13 after 60."""
    history = History(min_isr=min_isr)
    for replica in (12, 13):
        history.fetch(-10, replica, 0)
    produced = history.produce(0, 0, **options)
    history.fetch(4, 12, 1)
    history.fetch(60, 13, 1)
    return history, produced


@pytest.mark.parametrize(("min_isr", "early", "copies"), [(1, 1, 1), (2, 5, 2), (3, 61, 3)])
def test_fastest_followers_answer(min_isr: int, early: float, copies: int) -> None:
    """The KIP's picture: min.insync.replicas 2 waits for the fastest follower, all for the last."""
    history, _ = near_and_far(min_isr)
    row = history.row(until_ms=9000)
    assert answered(row) == (61, NONE, early, NONE)
    assert row["replicas_at_min_isr_ack"] == copies
    assert row["exposure_ms"] == 61 - early
    assert (row["isr"], row["min_insync_replicas"]) == ([11, 12, 13], min_isr)


def test_sweep_takes_each_value_for_all_topics() -> None:
    history, _ = near_and_far()
    rows = {r["parameter_value"]: r for r in history.rows(sweep=(1, 2, 3, 5), until_ms=9000)}
    early = {value: row["partition_min_isr_latency_ms"] for value, row in rows.items()}
    # 5 of three replicas is all three: effectiveMinIsr.
    assert early == {"none": 5, "1": 1, "2": 5, "3": 61, "5": 61}
    assert {r["parameter"] for r in rows.values()} == {"none", "min_insync_replicas"}


def test_follower_outside_the_isr_does_not_count() -> None:
    history = History(isr=(11, 13))
    history.fetch(-10, 13, 0)
    history.produce(0, 0)
    history.fetch(4, 12, 1)
    history.fetch(60, 13, 1)
    assert answered(history.row(until_ms=9000)) == (61, NONE, 61, NONE)


def test_small_isr_is_refused_before_the_append_by_both() -> None:
    history = History(isr=(11,))
    history.produce(0, -1, error=19)
    row = history.row(sweep=())
    assert answered(row) == (1, NOT_ENOUGH_REPLICAS, 1, NOT_ENOUGH_REPLICAS)
    assert (row["base_offset"], row["appended_at"]) == (None, None)


def test_what_was_refused_would_be_taken_with_a_smaller_minimum_and_nobody_knows_when() -> None:
    history = History(isr=(11,))
    history.produce(0, -1, error=19)
    swept = {r["parameter_value"]: r for r in history.rows(sweep=(1,))}
    assert (swept["1"]["verdict"], swept["1"]["reason"]) == ("unknown", REFUSED_AS_RECORDED)


def test_nothing_appended_with_a_large_isr_is_not_explained() -> None:
    history = History()
    history.produce(0, -1, error=87)
    row = history.row()
    assert (row["verdict"], row["reason"]) == ("unknown", NOTHING_APPENDED)
    assert answered(row) == (None, None, None, None)


def test_timeout_stays_a_timeout() -> None:
    history, produced = near_and_far(timeout_ms=30)
    row = history.row(produced, until_ms=9000)
    assert answered(row) == (31, REQUEST_TIMED_OUT, 5, NONE)
    # The records are kept: the high watermark passes them all the same.
    assert ms(row["visible_at"]) == 60
    assert row["exposure_ms"] == 56


def test_early_answer_times_out_too_if_nobody_fetches() -> None:
    history = History()
    history.produce(0, 0, timeout_ms=30)
    assert answered(history.row(until_ms=200_000)) == (
        31,
        REQUEST_TIMED_OUT,
        31,
        REQUEST_TIMED_OUT,
    )


def test_high_watermark_does_not_pass_under_a_minimum_that_rose() -> None:
    """So never NOT_ENOUGH_REPLICAS_AFTER_APPEND: who waits times out."""
    history = History(isr=(11, 12))
    history.fetch(-10, 12, 0)
    produced = history.produce(0, 0, timeout_ms=100)
    history.config(2, 3)
    history.fetch(4, 12, 1)
    row = history.row(produced, until_ms=9000)
    assert answered(row)[1::2] == (REQUEST_TIMED_OUT, REQUEST_TIMED_OUT)
    assert row["visible_at"] is None


def test_request_waits_for_its_slowest_partition() -> None:
    history = History()
    told = Partition("t", None, 1, leader_epoch=0, leader_id=11, isr=[11], replicas=[11])
    history.events[0] = history.events[0]._replace(
        partitions=[*(history.events[0].partitions or []), told]
    )
    history.request(
        0, [Partition("t", None, 0, 10, 0, 0), Partition("t", None, 1, 10, 0, 0)], recorded_ms=60
    )
    history.fetch(4, 12, 1)
    history.fetch(60, 13, 1)
    rows = {row["partition"]: row for row in history.rows(until_ms=9000)}
    assert answered(rows[0])[::2] == (61, 5)
    assert answered(rows[1])[::2] == (1, 1)
    for row in rows.values():
        assert row["request_acks_all_latency_ms"] == 61
        assert row["request_min_isr_latency_ms"] == 5
        assert row["request_recorded_latency_ms"] == 61
        assert row["partition_recorded_latency_ms"] is None


def test_bounds_are_those_of_the_handler() -> None:
    history, _ = near_and_far()
    row = history.row(until_ms=9000)
    assert row["request_acks_all_latency_earliest_ms"] == 60.5
    assert row["request_acks_all_latency_latest_ms"] == 61.5
    assert row["request_min_isr_latency_earliest_ms"] == 4.5
    assert row["request_min_isr_latency_latest_ms"] == 5.5


# --- followers -----------------------------------------------------------------------------------


def test_refused_fetch_says_nothing() -> None:
    """A partition error or a diverging epoch: the leader takes no note of the offset."""
    history = History(isr=(11, 12))
    history.produce(0, 0)
    history.fetch(4, 12, 1, refused=True)
    history.fetch(9, 12, 1)
    assert answered(history.row(until_ms=9000))[0] == 10


def test_retry_of_an_idempotent_producer_waits_for_the_first_copy() -> None:
    history, _ = near_and_far()
    again = history.produce(30, 0)
    done = history.produce(100, 0)
    assert answered(history.row(again, until_ms=9000)) == (31, NONE, 1, NONE)
    assert answered(history.row(done, until_ms=None)) == (1, NONE, 1, NONE)


def test_last_offset_is_one_below_the_next_base_offset() -> None:
    history, first = near_and_far()
    second = history.produce(100, 7)
    for replica in (12, 13):
        history.fetch(110, replica, 9)
    assert history.row(first, until_ms=200_000)["last_offset"] == 6
    assert history.row(second)["last_offset"] is None


def test_transaction_markers_and_acks_0_leave_the_last_offset_open() -> None:
    history = History(isr=(11,), min_isr=1)
    first = history.produce(0, 0)
    history.produce(1, None, acks=0, error=None)
    third = history.produce(2, 5)
    history.produce(3, 6)
    assert history.row(first, until_ms=200_000)["last_offset"] is None
    assert history.row(third)["last_offset"] == 5
    history.request(4, [Partition("t", None, 0, 10, 7, 0)], transactional=True)
    assert history.row(third)["last_offset"] is None


# --- acks=0 --------------------------------------------------------------------------------------


def test_acks_0_of_one_record_each_is_exact() -> None:
    history = History()
    history.produce(0, 0)
    blind = history.produce(20, None, acks=0, error=None)
    history.produce(40, 2)
    for step, offset in ((44, 1), (48, 2), (52, 3)):
        history.fetch(step, 12, offset)
        history.fetch(step + 1, 13, offset)
    row = history.row(blind, until_ms=200_000)
    assert row["base_offset"] == 1
    assert answered(row) == (30, NONE, 29, NONE)


def test_acks_0_beside_another_may_come_before_or_after_it() -> None:
    """The same history within milliseconds: which of them was appended first is not in the log."""
    history = History()
    history.produce(0, 0)
    blind = history.produce(1, None, acks=0, error=None)
    history.produce(2, 2)
    for step, offset in ((4, 1), (8, 2), (12, 3)):
        history.fetch(step, 12, offset)
        history.fetch(step + 1, 13, offset)
    assert history.row(blind, until_ms=200_000)["reason"] == OFFSET_NOT_IN_LOG


@pytest.mark.parametrize(("between", "reason"), [(2, OFFSET_NOT_IN_LOG), (None, None)])
def test_acks_0_is_unknown_only_where_a_follower_stood_between(
    between: int | None, reason: str | None
) -> None:
    history = History(isr=(11, 12))
    history.produce(0, 0)
    blind = history.produce(1, None, acks=0, error=None)
    history.produce(2, 5)
    if between is not None:
        history.fetch(4, 12, between)
    history.fetch(8, 12, 6)
    row = history.row(blind, until_ms=200_000)
    assert row["reason"] == reason
    assert answered(row)[0] == (None if reason else 8)


# --- ISR and minimum over time -------------------------------------------------------------------


def test_newcomer_counts_from_when_the_leader_asks() -> None:
    """Maximal ISR: a pending expansion includes the newcomer."""
    history = History(isr=(11, 12), min_isr=1)
    history.fetch(-10, 12, 0)
    history.fetch(-10, 13, 0, epoch=9)
    history.heartbeat(-900, 13, epoch=8)  # another epoch than it fetches with: may not join yet
    produced = history.produce(0, 0)
    history.alter_partition(2, REPLICAS, 20)
    history.fetch(4, 12, 1)
    history.fetch(60, 13, 1, epoch=9)
    assert ms(history.row(produced, until_ms=9000)["visible_at"]) == 60


def test_refused_wish_counts_no_more() -> None:
    history = History(isr=(11, 12), min_isr=1)
    history.heartbeat(-900, 13, epoch=8)
    history.fetch(-10, 12, 0)
    history.fetch(-10, 13, 0, epoch=9)
    produced = history.produce(0, 0)
    history.alter_partition(2, REPLICAS, None)
    history.fetch(4, 12, 1)
    assert ms(history.row(produced, until_ms=9000)["visible_at"]) == 4


def test_isr_that_shrinks_answers_who_waits() -> None:
    history = History()
    history.fetch(-10, 12, 0)
    produced = history.produce(0, 0)
    history.fetch(4, 12, 1)
    history.alter_partition(20, (11, 12), 25)
    row = history.row(produced, until_ms=9000)
    assert answered(row)[0] == 26
    assert row["isr"] == [11, 12, 13]


def test_altered_minimum_counts_once_the_leader_has_learned_of_it() -> None:
    """The change was committed at 0; the leader is told a newer high watermark at 300."""
    history = History(isr=(11,), min_isr=1)
    history.metadata_fetch(-20, 50, 50, built_ms=-10)
    history.metadata_fetch(-9, 50, 50, built_ms=300)
    history.metadata_fetch(301, 52, 52, built_ms=400)
    history.metadata_fetch(401, 52, 52, built_ms=500)
    history.config(0, 2, applies=True)
    before = history.produce(299, 0)
    after = history.produce(450, -1, error=19)
    assert history.row(before)["acks_all_error"] == NONE
    assert history.row(after)["acks_all_error"] == NOT_ENOUGH_REPLICAS


def test_deleted_config_falls_back_to_the_default() -> None:
    history = History(isr=(11,), min_isr=None)
    history.config(-900, 1, topic="", operation="describe")
    history.config(-800, 2)
    first = history.produce(0, -1, error=19)
    history.config(5, None, operation="delete")
    second = history.produce(10, 0)
    assert history.row(first)["min_insync_replicas"] == 2
    assert history.row(second)["min_insync_replicas"] == 1


def test_description_never_undoes_what_was_set() -> None:
    history = History(isr=(11,), min_isr=None)
    history.config(-900, 1)
    history.config(-800, 3, operation="describe")
    history.produce(0, 0)
    assert history.row()["min_insync_replicas"] == 1


# --- what the log can't decide -------------------------------------------------------------------


def test_unknown_isr_is_said() -> None:
    history = History(isr=None)
    history.produce(0, 0)
    row = history.row()
    assert (row["verdict"], row["reason"], row["isr"]) == ("unknown", ISR_NOT_IN_LOG, None)


def test_unknown_minimum_is_said() -> None:
    history = History(min_isr=None)
    history.produce(0, 0)
    row = history.row()
    assert (row["verdict"], row["reason"]) == ("unknown", MIN_ISR_NOT_IN_LOG)


def test_log_that_ends_leaves_the_answer_open() -> None:
    history = History()
    history.produce(0, 0)
    history.fetch(4, 12, 1)
    row = history.row()
    assert (row["verdict"], row["reason"]) == ("unknown", LOG_ENDED)
    assert answered(row) == (None, None, 5, NONE)


def test_leader_that_is_lost_who_knows_when() -> None:
    history = History()
    history.fetch(-1, 12, 0)
    history.produce(5000, 0)
    history.metadata(8000, (12, 13), leader=12, epoch=1, node=12)
    row = history.row(until_ms=200_000)
    assert (row["verdict"], row["reason"]) == ("unknown", LEADER_LOST)


def test_old_metadata_is_not_believed() -> None:
    history = History()
    history.alter_partition(0, (11, 12), 1)
    history.metadata(100, REPLICAS, node=13)
    history.produce(200, 0)
    assert history.row()["isr"] == [11, 12]


def test_events_out_of_order_are_refused() -> None:
    history = History()
    with pytest.raises(ValueError, match="order"):
        MinIsrAcks(11, variants()).feed(batch_of(history.in_order()[::-1]))


# --- what is read of a response ------------------------------------------------------------------


def test_nothing_depends_on_what_the_answer_was_or_when() -> None:
    history, _ = near_and_far(recorded_ms=60)
    history.produce(100, -1, error=19, recorded_ms=101)
    history.produce(200, 1, timeout_ms=50, error=7, recorded_ms=250)
    blanked = History(events=[])
    blanked.events = [
        event
        if event.kind != "produce"
        else event._replace(
            built_us=None,
            partitions=[p._replace(error_code=None) for p in event.partitions or ()],
        )
        for event in history.events
    ]
    recorded = {
        "built_at",
        "recorded_error",
        "partition_recorded_latency_ms",
        "request_recorded_latency_ms",
    }
    with_answers, without = (
        [{k: v for k, v in row.items() if k not in recorded} for row in h.rows(until_ms=90_000)]
        for h in (history, blanked)
    )
    assert with_answers == without
    assert len(without) == 3
