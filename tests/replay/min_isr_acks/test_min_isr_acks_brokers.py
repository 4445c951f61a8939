"""Brokers that stop, are fenced and come back, as a leader sees them. Synthetic histories."""

import pytest
from notation.leader_log import History, Row, ms

from kip_replay.replay.min_isr_acks.isr import APPLY_US_MAX, Loss
from kip_replay.replay.model.brokers import SCAN_INTERVAL_US, SESSION_TIMEOUT_US
from kip_replay.replay.model.partition import Errors

#: When the session of a broker that was last heard of at 0 is over, milliseconds.
DUE_MS = SESSION_TIMEOUT_US / 1000


def waiting(then: str) -> History:
    """A batch at 5000 that follower 12 has and 13 never gets; 13 was last heard of at 0."""
    return History().then(f"12:0@-10 13:0@-10 p0@5000 12:1@5004 {then}")


def first(history: History) -> Row:
    return history.row(history.produced[0], until_ms=90_000)


def metadata_log(history: History, *appends: tuple[float, int], until_ms: float = 12_000) -> None:
    """The leader's FETCHes of the metadata log: a record every 500 ms, and what is appended more.

    An append comes without a high watermark above it, then 10 ms later with it, and the leader's
    next FETCH follows a millisecond after each response.
    """
    due = [*((500.0 * n, 1) for n in range(round(until_ms / 500))), *appends]
    end, fetched = 100, -1001.0
    for at, records in sorted(due):
        history.metadata_fetch(fetched, end, end, built_ms=at)
        end += records
        history.metadata_fetch(at + 1, end, end, built_ms=at + 10)
        fetched = at + 11
    history.metadata_fetch(fetched, end, end, built_ms=until_ms)


def test_without_a_metadata_log_a_stop_counts_when_it_was_answered() -> None:
    assert ms(first(waiting("13=stops@5100"))["all_isr_acked_at"]) == 5101


def test_with_a_metadata_log_a_stop_counts_when_the_leader_has_its_commit() -> None:
    history = waiting("13=stops@5100")
    metadata_log(history)
    # The response of 5500 has the high watermark of before the stop, that of 5510 a higher one.
    assert ms(first(history)["all_isr_acked_at"]) == 5511


def test_silent_broker_is_fenced_by_the_append_after_its_session() -> None:
    history = waiting("13=silence@0")
    metadata_log(history, (8000, 4), (9700, 3))
    # The append at 8000 is too early; 9700 is in the window of the scan.
    assert ms(first(history)["all_isr_acked_at"]) == 9711


def test_fencing_has_a_record_for_each_partition() -> None:
    history = waiting("13=silence@0")
    history.events[0] = history.events[0]._replace(
        partitions=[
            partition._replace(partition=index)
            for partition in history.events[0].partitions or ()
            for index in range(4)
        ]
    )
    metadata_log(history, (9200, 3), (9700, 5))
    assert ms(first(history)["all_isr_acked_at"]) == 9711


def test_two_appends_that_could_be_the_fencing_leave_it_open() -> None:
    history = waiting("13=silence@0")
    metadata_log(history, (9200, 3), (9700, 3))
    row = first(history)
    assert (row["verdict"], row["reason"]) == ("unknown", Loss.FENCED_WHEN)
    assert row["min_isr_error"] == Errors.NONE


@pytest.mark.parametrize("beyond_ms", [0, 2_000])
def test_broker_that_is_heard_again_without_such_an_append_was_not_fenced(beyond_ms: int) -> None:
    scanned_ms = DUE_MS + SCAN_INTERVAL_US / 1000
    history = waiting(f"13=silence@0 13=beats@{scanned_ms - 100} 13:1@15000")
    # An append after the window of the scan is somebody else's.
    others = [(scanned_ms + beyond_ms, 5)] if beyond_ms else []
    metadata_log(history, *others, until_ms=14_000 if beyond_ms else 12_000)
    assert ms(first(history)["all_isr_acked_at"]) == 15_000


def test_frozen_leader_learns_of_its_fencing_when_it_goes_on() -> None:
    history = History().then("12:0@-10 13:0@-10 11=silence@0 11=beats@13990")
    history.metadata_fetch(-500, 100, 100, built_ms=-490)
    history.metadata_fetch(-489, 100, 100, built_ms=10)
    # Frozen: the next FETCH comes at 14000 and brings the fencing and all that followed.
    history.metadata_fetch(14_000, 101, 130, built_ms=14_010)
    history.metadata_fetch(14_020, 130, 130, built_ms=14_030)
    waits = history.produce(13_995, 0)
    refused = history.produce(14_100, -1, error=6)
    rows = {row["request_id"]: row for row in history.rows(until_ms=90_000)}
    assert rows[waits]["acks_all_error"] == Errors.NOT_LEADER_OR_FOLLOWER
    assert ms(rows[waits]["appended_at"]) == 13_995
    assert rows[waits]["partition_acks_all_latency_ms"] >= 0
    assert rows[refused]["min_isr_error"] == Errors.NOT_LEADER_OR_FOLLOWER


def test_last_of_the_isr_stays_in_it() -> None:
    row = History(isr=(11, 12)).then("12=stops@0 11=stops@10 p-@100").row()
    assert (row["isr"], row["acks_all_error"]) == ([11], Errors.NOT_ENOUGH_REPLICAS)


def test_leader_that_stops_hands_over_and_who_waits_is_told() -> None:
    row = first(History().then("12:0@-10 p0@50 11=stops@99"))
    assert row["acks_all_error"] == Errors.NOT_LEADER_OR_FOLLOWER
    assert row["partition_acks_all_latency_ms"] == 51
    bounds = [row[f"request_acks_all_latency_{bound}_ms"] for bound in ("earliest", "latest")]
    assert bounds == [49, 53 + APPLY_US_MAX / 1000]
    assert row["reason"] is None


def test_node_that_gained_the_lead_looks_at_the_isr() -> None:
    """Partition led by 12 until 12 stops: node 11 refuses for the ISR, not for the lead."""
    history = History(isr=None)
    history.metadata(-1000, (11, 12), leader=12, node=13)
    assert history.then("12=stops@0 p-@10").row()["acks_all_error"] == Errors.NOT_ENOUGH_REPLICAS


def test_batch_taken_before_the_leader_followed_a_smaller_isr_was_not_refused() -> None:
    """acks=all and a base offset: the leader's ISR was large enough, whatever was committed."""
    history = History(isr=(11, 12)).then("12:0@-10 12=stops@0 p0@20 isr=11,12,13@5000-5001")
    row = first(history.then("12:1@5002 13:1@5003"))
    assert (row["isr"], row["acks_all_error"]) == ([11, 12], Errors.NONE)
    assert ms(row["all_isr_acked_at"]) == 5003
