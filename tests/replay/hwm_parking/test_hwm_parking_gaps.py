"""hwm_parking where the leader's log has a gap, or begins within its epoch."""

import pytest
from notation.cluster import Cluster, Member, every
from notation.recorded import Replayed, fetched, in_order, micros, replay_of

from kip_replay.replay.hwm_parking.evidence import ABSENCE_US, RecordedMetadataFetch
from kip_replay.replay.hwm_parking.outcomes import MIDDLE_OF_EPOCH, variants
from kip_replay.replay.log_gaps import LOG_GAP, Gaps, LogGap

VOTERS = (1, 2, 3)
MEMBERS = (Member(2, 0, (3.0,)), Member(3, 100, (5.0,)), Member(11, 50, (4.0,)))
NINE = {"record_bytes": 9}
GAP = LogGap(1, micros(2_000), micros(8_990))
CLUSTER = Cluster(MEMBERS, VOTERS, appends=every(300, 12_000), length_ms=12_000)


def replayed(log: list[RecordedMetadataFetch], *gaps: LogGap, cut: int = 0) -> Replayed:
    increments = [log[:cut], log[cut:]] if cut else [log]
    return replay_of(1, VOTERS, variants(), increments, gaps, resumed=True)


def gap_of(since_ms: float, until_ms: float) -> LogGap:
    begins_us = CLUSTER.epoch_us
    return LogGap(1, begins_us + micros(since_ms), begins_us + micros(until_ms))


def without(gap: LogGap) -> list[RecordedMetadataFetch]:
    return [row for row in CLUSTER.log() if not gap.after_us < row.completed_us < gap.before_us]


def around_a_gap(before: dict[str, int]) -> list[RecordedMetadataFetch]:
    """All stand at offset 20 before a gap and at 90 behind it."""
    steps = [(1_000, 1_300, 20, before), (9_000, 9_300, 90, NINE), (9_310, 9_600, 91, NINE)]
    return in_order(
        fetched(replica, at + replica, built + replica, offset, **others)
        for replica in (2, 3, 11)
        for at, built, offset, others in (*steps, (9_610, 9_900, 92, {}))
    )


def test_replica_that_advanced_in_a_gap_loaded_no_snapshot() -> None:
    log = around_a_gap({})
    assert "snapshot" in {row["completion"] for row in replayed(log).parking}
    assert "snapshot" not in {row["completion"] for row in replayed(log, GAP).parking}


@pytest.mark.parametrize("gap", [gap_of(4_010, 6_020), gap_of(4_010, 4_200), gap_of(-9e9, 5_000)])
def test_rows_beyond_a_gap_are_those_of_the_whole_log(gap: LogGap) -> None:
    whole, rows = replayed(CLUSTER.log()), replayed(without(gap), gap)
    what = ("variant", "replica_id", "dequeued_at", "built_at", "completion", "fetch_offset")
    of_whole = {tuple(row[name] for name in what) for row in whole.parking}
    known = [row for row in rows.parking if row["verdict"] == "replayed"]
    assert {tuple(row[name] for name in what) for row in known} <= of_whole
    behind = [row for row in known if row["dequeued_at"] >= gap.before_us + ABSENCE_US]
    before = [row for row in known if row["built_at"] <= gap.after_us - ABSENCE_US]
    assert len(before) + len(behind) == len(known)
    assert min(row["dequeued_at"] for row in behind) < gap.before_us + 1.3 * ABSENCE_US
    assert {row["reason"] for row in rows.parking if row["verdict"] == "unknown"} == {LOG_GAP}


def test_line_in_a_gap_is_unknown_and_no_evidence() -> None:
    gap = gap_of(4_000, 6_000)
    rows = replayed(CLUSTER.log(), gap).variant("recorded").parking
    inside = [row for row in rows if gap.after_us < row["built_at"] < gap.before_us]
    assert {row["reason"] for row in inside} == {LOG_GAP}
    assert len(inside) > 10


@pytest.mark.parametrize("cut", [10, 60, 100])
def test_log_with_a_gap_cut_anywhere_gives_the_same_rows(cut: int) -> None:
    gap = gap_of(4_010, 6_020)
    assert replayed(without(gap), gap, cut=cut) == replayed(without(gap), gap)


def test_log_that_begins_within_an_epoch_is_unknown_until_its_leader_is_warm() -> None:
    begins_us = CLUSTER.epoch_us + micros(5_000)
    log = [row for row in CLUSTER.log() if row.received_us > begins_us]
    rows = replayed(log)
    unknown = [row for row in rows.parking if row["reason"] == MIDDLE_OF_EPOCH]
    assert {row["parked_ms"] for row in unknown} == {None, 0}
    assert max(row["dequeued_at"] for row in unknown) < begins_us + 1_100_000
    of_whole = {row["leader_at"] for row in replayed(CLUSTER.log()).variant("recorded").lag}
    known = [row for row in rows.variant("recorded").lag if row["verdict"] == "replayed"]
    assert {row["leader_at"] for row in known} <= of_whole


def test_gaps_that_overlap_are_one_and_other_nodes_do_not_count() -> None:
    gaps = Gaps([LogGap(1, 50, 60), LogGap(2, 0, 99), LogGap(1, 10, 20), LogGap(1, 15, 30)])
    first, second = LogGap(1, 10, 30), LogGap(1, 50, 60)
    ends = {10: None, 11: first, 50: first, 70: second}
    assert {at: gaps.last(1, 0, at) for at in ends} == ends
    assert [gaps.last(1, since_us, 50) for since_us in (29, 30)] == [first, None]
