"""min_isr_acks by hand: who gets a response when, with which error, and what the log leaves open.

Those named ``test_kafka_...`` reproduce the test of Kafka 4.3.0 whose name follows
(kafka-semantics.md, section 6). All histories here are synthetic (notation: ``History.then``).
"""

from typing import Any

import pytest
from notation.leader_log import REPLICAS, History, Row, batch_of, ms

from kip_replay.replay.min_isr_acks import responses as reasons
from kip_replay.replay.min_isr_acks.events import ListedPartition
from kip_replay.replay.min_isr_acks.isr import Loss
from kip_replay.replay.min_isr_acks.outcomes import variants
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks
from kip_replay.replay.model.partition import Errors


def responses(row: Row) -> tuple[Any, ...]:
    """acks=all: after how long and with which error; then the same for acks=-2."""
    return (
        row["partition_acks_all_latency_ms"],
        row["acks_all_error"],
        row["partition_min_isr_latency_ms"],
        row["min_isr_error"],
    )


def first(history: History, until_ms: float | None = 9000) -> Row:
    return history.row(history.produced[0], until_ms=until_ms)


def test_kafka_high_watermark_should_not_advance_when_under_min_isr() -> None:
    """testHighWatermarkAdvanceShouldNotAdvanceWhenUnderMinISR: min 3, the third joins late."""
    history = History(isr=(11, 12), min_isr=3).then("p0/acks=1@0 12:0@1 13:0@1 12:1@5 13:1@6")
    row = first(history.then("isr=11,12,13@7-9"))
    assert ms(row["visible_at"]) == 9
    assert responses(row) == (1, Errors.NOT_ENOUGH_REPLICAS, 1, Errors.NOT_ENOUGH_REPLICAS)
    assert row["all_isr_acked_at"] is None


@pytest.mark.parametrize(("standing", "visible"), [("beats", 40), ("fenced", 10), ("stops", 10)])
def test_kafka_high_watermark_increases_with_fenced_or_shutdown_follower(
    standing: str, visible: int
) -> None:
    """testHighWatermarkIncreasesWithFencedOrShutdownFollower: who may join holds it, else not."""
    history = History(isr=(11, 12), min_isr=1).then(f"13={standing}@-900 12:0@-1 13:0@-1 p0@0")
    assert ms(first(history.then("12:1@10 13:1@40"))["visible_at"]) == visible


@pytest.mark.parametrize(("last_fetch_ms", "visible"), [(29_000, 40_000), (-29_000, 10_000)])
def test_kafka_previous_fetch_shows_when_a_follower_was_caught_up(
    last_fetch_ms: int, visible: int
) -> None:
    """testShouldNotShrinkIsrIfPreviousFetchIsCaughtUp: its session's fetches count, listed or not.

    The follower stands at the end of the log; a FETCH that omits the partition confirms that.
    """
    history = History(isr=(11, 12), min_isr=1).then("12:0@-40000")
    history.fetch(-40_000, 13, 0, session=3)
    history.fetch(min(last_fetch_ms, -1), 13, None, session=3)
    history.produce(0, 0, timeout_ms=60_000)
    history.fetch(10_000, 12, 1)
    history.fetch(40_000, 13, 1, session=3)
    assert ms(first(history, 90_000)["visible_at"]) == visible


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (History(isr=None).then("p0@0"), reasons.ISR_NOT_IN_LOG),
        (History(min_isr=None).then("p0@0"), reasons.MIN_ISR_NOT_IN_LOG),
        # The ISR was large enough: why is not explained.
        (History().then("12:0@-1 13:0@-1 p-@0"), reasons.NOTHING_APPENDED),
    ],
)
def test_what_the_log_does_not_have_is_unknown(history: History, reason: str) -> None:
    row = history.row()
    assert (row["verdict"], row["reason"]) == ("unknown", reason)
    assert responses(row) == (None, None, None, None)
    assert (row["isr"] is None) == (reason == reasons.ISR_NOT_IN_LOG)
    assert row["visible_at"] is None


@pytest.mark.parametrize("known", [{}, {"isr": None, "min_isr": None}, {"isr": (11,)}])
@pytest.mark.parametrize("error", [-1, 3, 6, 10, 29, 45, 47, 87, 100])
def test_error_before_the_append_is_the_same_with_whatever_acks(error: int, known: Any) -> None:
    """Whether the ISR is known, large enough, or of another size than min.insync.replicas needs."""
    history = History(**known)
    history.produce(0, -1, error=error)
    for row in history.rows(sweep=(1, 3)):
        assert (row["verdict"], row["reason"]) == ("replayed", None)
        assert responses(row) == (1, error, 1, error)
        assert (row["appended_at"], row["visible_at"], row["exposure_ms"]) == (None, None, None)


def test_what_was_refused_would_be_taken_with_a_smaller_minimum_and_nobody_knows_when() -> None:
    history = History(isr=(11,)).then("p-@0")
    swept = {r["parameter_value"]: r for r in history.rows(sweep=(1,))}
    assert (swept[1]["verdict"], swept[1]["reason"]) == ("unknown", reasons.REFUSED_AS_RECORDED)


@pytest.mark.parametrize(
    ("passed_ms", "error"), [(30, Errors.NONE), (31, Errors.REQUEST_TIMED_OUT)]
)
def test_at_the_deadline_itself_it_is_in_time(passed_ms: int, error: int) -> None:
    row = first(History(isr=(11, 12)).then(f"12:0@-10 p0/30ms@0 12:1@{passed_ms}"))
    assert responses(row) == (31, error, 31, error)


def test_a_follower_that_stands_at_the_base_offset_does_not_have_the_batch() -> None:
    row = first(History().then("12:0@-10 13:0@-10 p0@0 12:1@5"), until_ms=90_000)
    assert (row["replicas_at_min_isr_ack"], row["missing_followers"]) == (2, [13])


def test_refused_fetch_shows_nothing() -> None:
    """A partition error or a diverging epoch: the leader takes no note of the offset."""
    history = History(isr=(11, 12)).then("p0@0")
    history.fetch(4, 12, 1, refused=True)
    assert responses(first(history.then("12:1@9")))[0] == 10


def test_retry_of_an_idempotent_producer_waits_for_the_first_copy() -> None:
    history = History().then("12:0@-10 13:0@-10 p0@0 12:1@4 13:1@60 p0@30 p0@100")
    _, again, done = history.produced
    assert responses(history.row(again, until_ms=9000)) == (31, Errors.NONE, 1, Errors.NONE)
    assert responses(history.row(done)) == (1, Errors.NONE, 1, Errors.NONE)


def test_last_offset_is_known_where_handlers_end_in_another_order_than_they_append() -> None:
    """7 and 9 are taken within a millisecond, and 9 first; a retry that comes late is none."""
    history = History(isr=(11,), min_isr=1).then("p0@0 p9@9.4 p7@9.8 p12@20 p3@6000 p14@6001")
    rows = sorted(history.rows(until_ms=200_000), key=lambda row: row["request_id"])
    assert [row["last_offset"] for row in rows[:4]] == [6, 11, 8, 13]


def test_transaction_markers_and_acks_0_leave_the_last_offset_open() -> None:
    history = History(isr=(11,), min_isr=1).then("p0@0 p?@1 p5@2 p6@3")
    third = history.produced[2]
    assert first(history, 200_000)["last_offset"] is None
    assert history.row(third)["last_offset"] == 5
    history.request(4, [ListedPartition("t", None, 0, 10, 7, 0)], transactional=True)
    assert history.row(third)["last_offset"] is None


@pytest.mark.parametrize(("committed_ms", "visible"), [(20, 60), (None, 4)])
def test_newcomer_counts_from_when_the_leader_requests_it_until_that_is_refused(
    committed_ms: float | None, visible: int
) -> None:
    """Maximal ISR: a pending expansion includes the newcomer."""
    history = History(isr=(11, 12), min_isr=1).then("12:0@-10")
    history.fetch(-10, 13, 0, epoch=9)
    history.heartbeat(-900, 13, epoch=8)  # another epoch than it fetches with: may not join yet
    history.then("p0@0 12:1@4").alter_partition(2, REPLICAS, committed_ms)
    history.fetch(60, 13, 1, epoch=9)
    assert ms(first(history)["visible_at"]) == visible


def test_altered_minimum_counts_once_the_leader_has_learned_of_it() -> None:
    """The change was committed at 0; the leader's response at 300 has a newer high watermark."""
    history = History(isr=(11,), min_isr=1)
    for fetched_ms, offset, built_ms in (
        (-20, 50, -10),
        (-9, 50, 300),
        (301, 52, 400),
        (401, 52, 500),
    ):
        history.metadata_fetch(fetched_ms, offset, offset, built_ms=built_ms)
    history.config(0, 2, applies=True)
    before, after = history.then("p0@299 p-@450").produced
    assert history.row(before)["acks_all_error"] == Errors.NONE
    assert history.row(after)["acks_all_error"] == Errors.NOT_ENOUGH_REPLICAS


def test_log_that_ends_leaves_the_response_open() -> None:
    row = History().then("p0@0 12:1@4").row()
    assert (row["verdict"], row["reason"]) == ("unknown", reasons.LOG_ENDED)
    assert responses(row) == (None, None, 5, Errors.NONE)


def test_log_that_ends_at_the_deadline_shows_the_timeout() -> None:
    assert first(History().then("p0/30ms@0"), 30)["acks_all_error"] == Errors.REQUEST_TIMED_OUT


def test_leader_that_is_lost_who_knows_when() -> None:
    history = History().then("12:0@-1 p0@5000")
    history.metadata(8000, (12, 13), leader=12, epoch=1, node=12)
    row = first(history, 200_000)
    assert (row["verdict"], row["reason"]) == ("unknown", Loss.LEADER_BEFORE)


def test_old_metadata_is_not_believed() -> None:
    history = History().then("isr=11,12@0-1")
    history.metadata(100, REPLICAS, node=13)
    assert history.then("p0@200").row()["isr"] == [11, 12]


def test_events_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="order"):
        MinIsrAcks(11, variants()).feed(batch_of(History().in_order()[::-1]))


def test_offsets_that_contradict_each_other_leave_open_who_rests_on_them() -> None:
    """Follower 12 cannot have 50 at 4 ms and stand at 1 again: what either completes is unknown."""
    history = History().then("12:0@-10 13:0@-10 p0@0 12:50@4 13:1@5 p1@6 12:1@8 12:2@12 13:2@13")
    history.then("p2@30 12:3@34 13:3@35")
    rows = [history.row(one, until_ms=200_000) for one in history.produced]
    assert [row["reason"] for row in rows] == [Loss.CONTRADICTED, Loss.CONTRADICTED, None]
    assert responses(rows[2]) == (6, Errors.NONE, 5, Errors.NONE)
