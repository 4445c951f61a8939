"""Evidence by hand: what a log of metadata FETCHes shows that no rule explains."""

from collections.abc import Sequence
from typing import Any

import pytest
from notation.recorded import EPOCH, fetched, in_order, micros

from kip_replay.replay.hwm_parking.evidence import (
    STALL_US,
    Absence,
    Evidence,
    RangeBytes,
    RecordedMetadataFetch,
    ReplicaEvidence,
)
from kip_replay.replay.model.raft import Completion

FOREVER = micros(10**9)


def evidence_of(*rows: RecordedMetadataFetch) -> Evidence:
    evidence = Evidence(EPOCH)
    for row in in_order(rows):
        evidence.add(row)
    return evidence


def records(
    replica: int, dequeued: float, built: float, offset: int, **rest: Any
) -> RecordedMetadataFetch:
    return fetched(replica, dequeued, built, offset, **({"record_bytes": 90} | rest))


def carried(replica: int, built: float, start: int, end: int) -> list[RecordedMetadataFetch]:
    """A response with records, and the FETCH that shows where they end."""
    return [records(replica, 0, built, start), fetched(replica, built + 3, built + 500, end)]


APPENDS = {
    "at the first response that carried it": (
        [*carried(9, 100, 15, 17), *carried(8, 99, 15, 17)],
        [(99, 17)],
    ),
    "not known before the next FETCH shows how far": ([records(9, 0, 100, 15)], []),
    "who has the end has all before it": (
        [*carried(8, 100, 15, 17), *carried(9, 300, 15, 16)],
        [(100, 17)],
    ),
    "two ends at one time are one append": (
        [*carried(8, 100, 15, 17), *carried(9, 100, 15, 16)],
        [(100, 17)],
    ),
    "who lost a response FETCHes the same records again": (
        [records(8, 0, 90, 15), *carried(8, 110, 15, 17), *carried(9, 100, 15, 17)],
        [(90, 17)],
    ),
    "more records are another append": (
        [
            records(8, 0, 90, 15, record_bytes=45),
            *carried(8, 110, 15, 17),
            *carried(9, 100, 15, 16),
        ],
        [(100, 16), (110, 17)],
    ),
    "what was lost is an append, if more follows": (
        [
            records(8, 0, 90, 15, record_bytes=45),
            *carried(9, 100, 15, 16),
            *carried(8, 700, 15, 17),
        ],
        [(90, 16), (700, 17)],
    ),
    "empty responses append nothing": ([fetched(9, 0, 500, 15), fetched(9, 501, 900, 15)], []),
    "a restarted replica may have lost or gained log": (
        [records(9, 0, 500, 15, correlation_id=80), fetched(9, 900, 1200, 30, correlation_id=1)],
        [],
    ),
}


@pytest.mark.parametrize(("rows", "appends"), APPENDS.values(), ids=APPENDS)
def test_appends(rows: list[RecordedMetadataFetch], appends: list[tuple[int, int]]) -> None:
    evidence = evidence_of(*rows)
    assert evidence.take_appends(FOREVER) == [(micros(at), end) for at, end in appends]
    assert evidence.take_appends(FOREVER) == []


def rejected(replica: int, dequeued: float, offset: int) -> RecordedMetadataFetch:
    return fetched(replica, dequeued, dequeued + 97, offset, error_code=6)


#: What follows records from 15 at 100 ms, who is rejected, and where those records end.
LAST_RECORDS = {
    "after one record for all the log shows": ([], [], 16),
    "where a rejected FETCH shows it": ([], [rejected(9, 103, 18)], 18),
    "where the first one shows it": ([], [rejected(9, 103, 18), rejected(9, 203, 30)], 18),
    "a rejected stranger shows nothing": ([fetched(8, 0, 90, 15)], [rejected(7, 103, 18)], 16),
    "where another replica shows it": (carried(8, 101, 15, 18), [], 18),
}


@pytest.mark.parametrize(("rows", "rejections", "append"), LAST_RECORDS.values(), ids=LAST_RECORDS)
def test_last_records_end_somewhere_behind_their_offset(
    rows: Sequence[RecordedMetadataFetch], rejections: Sequence[RecordedMetadataFetch], append: int
) -> None:
    evidence = evidence_of(records(9, 0, 100, 15), *rows)
    for row in rejections:
        evidence.add_rejected(row)
    evidence.close()
    assert evidence.take_appends(FOREVER) == [(micros(100), append)]
    assert 7 not in evidence.replicas


@pytest.mark.parametrize(("correlation_id", "restarts"), [(1, True), (80, False), (81, False)])
def test_falling_correlation_id_is_a_restart_even_if_quick(
    correlation_id: int, restarts: bool
) -> None:
    """Which is not being away."""
    after = {"correlation_id": correlation_id, "last_fetched_epoch": 4}
    replica = evidence_of(
        fetched(9, 0, 500, 15, correlation_id=80), fetched(9, 900, 1_200, 12, **after)
    ).replicas[9]
    assert replica.absences == ([Absence(micros(500), replica.last, True)] if restarts else [])
    assert replica.delays.nearest(micros(500)) == (None if restarts else micros(400))
    assert not replica.is_away(micros(700))


def test_epoch_starts_where_replicas_that_continue_the_last_one_fetch() -> None:
    """Which only responses with records show."""
    before = {"last_fetched_epoch": EPOCH - 1}
    evidence = evidence_of(
        records(9, 0, 100, 15, **before),
        records(8, 0, 101, 12, **before),
        records(7, 0, 102, 18),
        fetched(6, 0, 103, 17, **before),
    )
    assert evidence.epoch_start_offset == 15
    assert evidence_of(fetched(6, 0, 103, 17, **before)).epoch_start_offset == -1


@pytest.mark.parametrize(("restarts", "epoch_ends"), [(False, {3: 12}), (True, {})])
def test_replica_that_goes_back_was_truncated_unless_it_restarted(
    restarts: bool, epoch_ends: dict[int, int]
) -> None:
    """Synthetic: in no recording."""
    evidence = evidence_of(
        fetched(9, 0, 1, 20, correlation_id=80, last_fetched_epoch=3),
        fetched(9, 5, 6, 12, correlation_id=1 if restarts else 81, last_fetched_epoch=2),
    )
    assert evidence.epoch_ends == epoch_ends


@pytest.mark.parametrize(("record_bytes", "found"), [(0, (12, 4)), (90, (None, 0))])
def test_replica_that_advances_without_records_got_a_snapshot(
    record_bytes: int, found: tuple[int | None, int]
) -> None:
    """Synthetic: in no recording."""
    evidence = evidence_of(fetched(9, 0, 1, 3, record_bytes=record_bytes), fetched(9, 50, 51, 12))
    assert (evidence.snapshot, evidence.log_start_offset) == found


def test_latest_snapshot_counts_however_late_it_shows() -> None:
    """Synthetic: 8 had asked for the older one before."""
    rows = [fetched(9, 0, 1, 3), fetched(8, 0, 2, 3), fetched(9, 50, 51, 12), fetched(8, 60, 61, 9)]
    assert evidence_of(*rows).snapshot == 12


@pytest.mark.parametrize("size", ["request_bytes", "response_bytes"])
def test_forwarded_fetch_has_no_envelope(size: str) -> None:
    row = fetched(9, 0, 1, 15, **({"request_bytes": 130, "response_bytes": 90} | {size: None}))
    assert evidence_of(row).replicas[9].envelopes.nearest(0) is None


def test_bytes_that_are_forgotten_are_not_known() -> None:
    log_bytes = RangeBytes()
    for start in range(15, 20):
        log_bytes.add(start, start + 1, 90, at=start)
    log_bytes.forget(18)
    assert [log_bytes.between(start, 20) for start in (17, 18)] == [None, 180]


def test_a_stall_holds_what_is_due_in_it_and_measures_nothing_else() -> None:
    row, due = fetched(9, 0, 500, 15), Completion.RECORDS
    replica = ReplicaEvidence(row, row, 0, 0)
    replica.handled(due, 0, 900)
    replica.handled(due, 1_000, 1_001 + STALL_US)
    at = (999, 1_000, 1_001, 1_000 + STALL_US, 1_001 + STALL_US)
    taken = [replica.handling_us(due, us) for us in at]
    assert taken == [900, 1 + STALL_US, STALL_US, 1, 900]
