"""Evidence by hand: what a log of metadata FETCHes says that no rule explains."""

from __future__ import annotations

from typing import Any

import pytest
from notation.recorded import EPOCH, fetched, in_order, micros
from oracles.hwm_parking.metadata_log import (
    ABSENCE_US,
    NOT_SENT,
    WAKE_MEMBERS_MIN,
    WAKE_SPREAD_US,
    Absence,
    Evidence,
    RecordedFetch,
    Samples,
    Timeline,
)

FOREVER = micros(10**9)


def evidence_of(*rows: RecordedFetch) -> Evidence:
    evidence = Evidence()
    for row in in_order(rows):
        evidence.add(row)
    return evidence


# --- samples -------------------------------------------------------------------------------------


def samples(*measured: tuple[int, int]) -> Samples:
    gathered = Samples()
    for at, value in measured:
        gathered.add(at, value)
    return gathered


@pytest.mark.parametrize(
    ("at", "value"), [(0, 7), (10, 7), (14, 7), (15, 7), (16, 8), (20, 8), (99, 8)]
)
def test_nearest_sample_counts_and_of_two_as_near_the_earlier(at: int, value: int) -> None:
    assert samples((10, 7), (20, 8)).nearest(at) == value


def test_no_samples_no_value() -> None:
    assert samples().nearest(10) is None


def test_samples_may_come_out_of_order() -> None:
    assert samples((20, 8), (10, 7)).nearest(11) == 7


def test_of_samples_at_one_time_one_counts_whenever_asked() -> None:
    gathered = samples((10, 7), (10, 8))
    assert gathered.nearest(10) == gathered.nearest(11 - 1)


def test_samples_forget_all_but_the_last_before() -> None:
    gathered = samples((10, 7), (20, 8), (30, 9))
    gathered.forget(25)
    assert (gathered.nearest(0), gathered.nearest(30)) == (8, 9)


def test_samples_never_forget_the_last() -> None:
    gathered = samples((10, 7))
    gathered.forget(10**9)
    assert gathered.nearest(0) == 7


# --- timelines -----------------------------------------------------------------------------------

TIMES = [10, 20, 30]


def timeline() -> Timeline:
    return Timeline(list(TIMES), [5, 7, 9])


@pytest.mark.parametrize(("at", "value"), [(9, -1), (10, 5), (19, 5), (20, 7), (99, 9)])
def test_value_holds_from_its_time_on(at: int, value: int) -> None:
    assert timeline().value(at) == value


def test_default_holds_before_the_first_value() -> None:
    assert timeline().value(9, default=3) == 3


@pytest.mark.parametrize(
    ("value", "since", "at"), [(4, 0, 10), (5, 0, 20), (6, 0, 20), (5, 25, 25), (8, 25, 30)]
)
def test_first_above_is_when_it_rises_or_at_once(value: int, since: int, at: int) -> None:
    assert timeline().first_above(value, since) == at


def test_highest_value_is_never_exceeded() -> None:
    assert timeline().first_above(9, 0) is None


@pytest.mark.parametrize(("since", "at"), [(0, 10), (10, 20), (29, 30), (30, None)])
def test_next_change_is_strictly_later(since: int, at: int | None) -> None:
    assert timeline().next_change(since) == at


def test_timeline_forgets_all_but_the_value_that_holds() -> None:
    kept = timeline()
    kept.forget(25)
    assert (kept.value(25), kept.value(30), len(kept.at), len(kept.values)) == (7, 9, 2, 2)


# --- recorded FETCHes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "high_watermark", "is_aware"),
    [(17, NOT_SENT, False), (18, NOT_SENT, False), (18, -1, True), (18, 15, True)],
)
def test_fetch_is_aware_if_it_carries_a_high_watermark(
    version: int, high_watermark: int, is_aware: bool
) -> None:
    row = fetched(9, 0, 1, 15, api_version=version, high_watermark=high_watermark)
    assert row.hwm_aware == is_aware


def test_error_is_not_the_leaders_own_answer() -> None:
    assert fetched(9, 0, 1, 15).told
    assert not fetched(9, 0, 1, 15, error_code=6).told


# --- appends -------------------------------------------------------------------------------------


def records(replica: int, dequeued: float, built: float, offset: int, **rest: Any) -> RecordedFetch:
    """An answer with records."""
    return fetched(replica, dequeued, built, offset, **({"record_bytes": 90} | rest))


def test_append_is_when_the_first_answer_carried_it() -> None:
    evidence = evidence_of(
        *(records(9, 0, 100, 15), fetched(9, 103, 600, 17)),
        *(records(8, 0, 99, 15), fetched(8, 103, 600, 17)),
    )
    assert evidence.appends(FOREVER) == [(micros(99), 17)]


def test_append_is_known_only_when_the_next_fetch_says_how_far() -> None:
    assert evidence_of(records(9, 0, 100, 15)).appends(FOREVER) == []


def test_each_append_is_asked_for_once() -> None:
    evidence = evidence_of(records(9, 0, 100, 15), fetched(9, 103, 600, 17))
    evidence.appends(FOREVER)
    assert evidence.appends(FOREVER) == []


def test_appends_are_handed_out_up_to_a_time() -> None:
    evidence = evidence_of(
        records(9, 0, 100, 15), records(9, 103, 200, 16), fetched(9, 203, 700, 17)
    )
    assert evidence.appends(micros(150)) == [(micros(100), 16)]
    assert evidence.appends(FOREVER) == [(micros(200), 17)]


def test_who_has_the_end_has_all_before_it() -> None:
    """9 is told of 16 late, but 8 had 17 by then: 16 was no append of its own."""
    evidence = evidence_of(
        *(records(8, 0, 100, 15), fetched(8, 103, 600, 17)),
        *(records(9, 0, 300, 15), fetched(9, 303, 800, 16)),
    )
    assert evidence.appends(FOREVER) == [(micros(100), 17)]


def test_empty_answers_append_nothing() -> None:
    assert evidence_of(fetched(9, 0, 500, 15), fetched(9, 501, 900, 15)).appends(FOREVER) == []


def test_last_records_end_somewhere_behind_their_offset() -> None:
    evidence = evidence_of(records(9, 0, 100, 15))
    evidence.close()
    assert evidence.appends(FOREVER) == [(micros(100), 16)]


def test_fetch_that_was_turned_away_still_says_how_far() -> None:
    evidence = evidence_of(records(9, 0, 100, 15))
    evidence.turned_away(fetched(9, 103, 200, 18, error_code=6))
    assert evidence.appends(FOREVER) == [(micros(100), 18)]


def test_only_the_first_fetch_that_was_turned_away_counts() -> None:
    evidence = evidence_of(records(9, 0, 100, 15))
    evidence.turned_away(fetched(9, 103, 200, 18, error_code=6))
    evidence.turned_away(fetched(9, 203, 300, 30, error_code=6))
    assert evidence.appends(FOREVER) == [(micros(100), 18)]


def test_turned_away_stranger_says_nothing() -> None:
    evidence = evidence_of(records(9, 0, 100, 15))
    evidence.turned_away(fetched(8, 103, 200, 18, error_code=6))
    assert set(evidence.replicas) == {9}


def test_end_that_is_known_is_not_invented() -> None:
    evidence = evidence_of(records(9, 0, 100, 15))
    evidence.turned_away(fetched(9, 103, 200, 18, error_code=6))
    evidence.close()
    assert evidence.appends(FOREVER) == [(micros(100), 18)]


def test_end_that_another_replica_told_is_not_invented() -> None:
    evidence = evidence_of(
        *(records(9, 0, 100, 15), fetched(9, 103, 600, 18)),
        records(8, 0, 101, 15),
    )
    evidence.close()
    assert evidence.appends(FOREVER) == [(micros(100), 18)]


def test_append_is_handed_out_once_however_late_a_replica_tells_of_it() -> None:
    """9 had the records in time, froze for a minute, and only then says how far it had got."""
    evidence = evidence_of(
        *(records(8, 0, 100, 15), fetched(8, 103, 600, 16)),
        records(9, 0, 101, 15),
    )
    assert evidence.appends(micros(1_000)) == [(micros(100), 16)]
    evidence.add(fetched(9, 60_000, 60_500, 16))
    assert evidence.appends(FOREVER) == []


def test_replica_that_catches_up_in_pieces_appends_nothing() -> None:
    """A new broker reads the log in pieces of fetch.max.bytes (1 MiB in 4.3)."""
    evidence = evidence_of(records(8, 0, 100, 15), fetched(8, 103, 600, 16))
    assert evidence.appends(micros(1_000)) == [(micros(100), 16)]
    for row in (records(9, 40_000, 40_001, 0), fetched(9, 40_005, 40_006, 8)):
        evidence.add(row)
    assert evidence.appends(FOREVER) == []


# --- gaps and absences ---------------------------------------------------------------------------


def test_gap_is_from_the_answer_to_the_next_fetch() -> None:
    evidence = evidence_of(fetched(9, 0, 500, 15), fetched(9, 507, 1_000, 15))
    assert evidence.replicas[9].next_fetch(micros(500)) == (micros(507), None)


def test_gap_nearest_in_time_is_taken() -> None:
    times = [(0, 500), (507, 1_000), (1_003, 1_500)]
    replica = evidence_of(*(fetched(9, *time, 15) for time in times)).replicas[9]
    assert replica.next_fetch(micros(700)) == (micros(707), None)
    assert replica.next_fetch(micros(800)) == (micros(803), None)


def test_next_fetch_is_not_known_beyond_the_log() -> None:
    replica = evidence_of(fetched(9, 0, 500, 15), fetched(9, 507, 1_000, 15)).replicas[9]
    assert replica.next_fetch(micros(993)) == (micros(1_000), None)
    assert replica.next_fetch(micros(993.001)) is None


def test_fetch_that_seems_to_come_before_the_answer_tells_no_gap() -> None:
    """Stamps are cut to milliseconds."""
    replica = evidence_of(fetched(9, 0, 500, 15), fetched(9, 499.5, 1_000, 15)).replicas[9]
    assert replica.gaps.nearest(micros(500)) is None


def test_each_replica_has_its_own_gaps() -> None:
    evidence = evidence_of(
        *(fetched(9, 0, 500, 15), fetched(9, 507, 1_000, 15)),
        *(fetched(8, 0, 500, 15), fetched(8, 502, 1_000, 15)),
    )
    assert evidence.replicas[8].next_fetch(micros(500)) == (micros(502), None)


@pytest.mark.parametrize(("over_us", "is_away"), [(0, False), (1, True)])
def test_silence_of_over_a_second_is_an_absence(over_us: int, is_away: bool) -> None:
    returns_ms = 500 + (ABSENCE_US + over_us) / 1000
    replica = evidence_of(fetched(9, 0, 500, 15), fetched(9, returns_ms, 2_000, 15)).replicas[9]
    assert bool(replica.absences) == is_away


def away() -> Evidence:
    """Silent from 500 ms to 4,000 ms; otherwise 5 ms between answer and FETCH."""
    return evidence_of(
        fetched(9, 0, 200, 15),
        fetched(9, 205, 500, 15),
        fetched(9, 4_000, 4_300, 15),
        fetched(9, 4_305, 4_600, 15),
    )


def test_answer_in_an_absence_is_followed_when_it_ends() -> None:
    at, absence = away().replicas[9].next_fetch(micros(600)) or (0, None)
    assert at == micros(4_000)
    assert absence == Absence(micros(500), micros(4_000), 15, False, EPOCH)


def test_fetch_that_would_fall_into_an_absence_waits_for_its_end() -> None:
    assert away().replicas[9].next_fetch(micros(496))[0] == micros(4_000)  # type: ignore[index]


def test_fetch_right_before_an_absence_is_sent() -> None:
    assert away().replicas[9].next_fetch(micros(494)) == (micros(499), None)


def test_fetch_right_after_an_absence_is_sent() -> None:
    assert away().replicas[9].next_fetch(micros(4_000)) == (micros(4_005), None)


def test_absence_is_not_a_gap() -> None:
    """Else every FETCH near it would come seconds later."""
    assert away().replicas[9].gaps.nearest(micros(500)) == micros(5)


@pytest.mark.parametrize(
    ("at", "is_away"), [(499, False), (501, True), (3_999, True), (4_001, False)]
)
def test_replica_is_away_within_its_absence(at: float, is_away: bool) -> None:
    assert away().replicas[9].is_away(micros(at)) == is_away


@pytest.mark.parametrize(("at", "is_away"), [(5_600, False), (5_601, True)])
def test_replica_is_away_a_second_after_it_was_last_heard_of(at: float, is_away: bool) -> None:
    assert away().replicas[9].is_away(micros(at)) == is_away


def test_falling_correlation_id_is_a_restart_even_if_quick() -> None:
    replica = evidence_of(
        fetched(9, 0, 500, 15, correlation_id=80),
        fetched(9, 900, 1_200, 12, correlation_id=1, last_fetched_epoch=4),
    ).replicas[9]
    assert replica.absences == [Absence(micros(500), micros(900), 12, True, 4)]
    assert replica.gaps.nearest(micros(500)) is None


def test_quick_restart_is_not_being_away() -> None:
    replica = evidence_of(
        fetched(9, 0, 500, 15, correlation_id=80), fetched(9, 900, 1_200, 15, correlation_id=1)
    ).replicas[9]
    assert not replica.is_away(micros(700))


def test_rising_correlation_id_is_no_restart() -> None:
    replica = evidence_of(
        fetched(9, 0, 500, 15, correlation_id=80), fetched(9, 900, 1_200, 15, correlation_id=81)
    ).replicas[9]
    assert replica.absences == []


def test_records_before_a_restart_carried_nothing_that_is_known() -> None:
    """The replica may have lost or gained log while it was down."""
    evidence = evidence_of(
        records(9, 0, 500, 15, correlation_id=80), fetched(9, 900, 1_200, 30, correlation_id=1)
    )
    assert evidence.appends(FOREVER) == []


# --- where the epoch starts, truncation, snapshots -----------------------------------------------


def test_epoch_starts_where_those_who_continue_the_last_one_ask() -> None:
    evidence = evidence_of(
        records(9, 0, 100, 12, last_fetched_epoch=EPOCH - 1),
        records(8, 0, 101, 15, last_fetched_epoch=EPOCH - 1),
        records(7, 0, 102, 18),
    )
    assert evidence.epoch_start_offset == 15


def test_empty_answers_do_not_tell_where_the_epoch_starts() -> None:
    evidence = evidence_of(fetched(9, 0, 100, 12, last_fetched_epoch=EPOCH - 1))
    assert evidence.epoch_start_offset == -1


def test_replica_that_goes_back_was_truncated() -> None:
    """Synthetic: in no recording."""
    evidence = evidence_of(
        fetched(9, 0, 1, 20, last_fetched_epoch=3), fetched(9, 5, 6, 12, last_fetched_epoch=3)
    )
    assert evidence.epoch_ends == {3: 12}


def test_restarted_replica_that_goes_back_lost_its_log() -> None:
    evidence = evidence_of(
        fetched(9, 0, 1, 20, correlation_id=80, last_fetched_epoch=3),
        fetched(9, 5, 6, 12, correlation_id=1, last_fetched_epoch=3),
    )
    assert evidence.epoch_ends == {}


def test_replica_that_goes_on_without_records_was_sent_to_a_snapshot() -> None:
    """Synthetic: in no recording."""
    evidence = evidence_of(fetched(9, 0, 1, 3), fetched(9, 50, 51, 12))
    assert (evidence.snapshot, evidence.log_start_offset) == (12, 4)


def test_records_are_no_snapshot() -> None:
    evidence = evidence_of(records(9, 0, 1, 3), fetched(9, 50, 51, 12))
    assert (evidence.snapshot, evidence.log_start_offset) == (None, 0)


# --- how long an answer takes --------------------------------------------------------------------


def woken(*built: float, dequeued: float = 0) -> list[RecordedFetch]:
    """Replicas 7, 8, ... parked at 15 and woken by one append; and a FETCH much later."""
    rows = [records(7 + i, dequeued, at, 15) for i, at in enumerate(built)]
    return [*rows, fetched(7, 400, 900, 16)]


def test_service_time_is_the_mean_step_between_answers_of_one_append() -> None:
    assert evidence_of(*woken(100, 101, 104)).service_us(micros(100)) == 2_000


def test_one_answer_tells_no_service_time() -> None:
    assert evidence_of(*woken(100)).service_us(micros(100)) == 0


@pytest.mark.parametrize(("together", "service_us"), [(3, 0), (WAKE_MEMBERS_MIN, 2_000)])
def test_few_of_many_replicas_tell_no_service_time(together: int, service_us: int) -> None:
    """Six replicas; one stall among few answers would look like a slow thread."""
    rows = woken(*(100 + 2 * i for i in range(together)))
    others = [fetched(r, 0, 99, 15) for r in range(20, 26 - together)]
    assert evidence_of(*rows, *others).service_us(micros(100)) == service_us


def test_service_time_is_told_after_all_answers_may_have_come() -> None:
    evidence = evidence_of(*woken(100, 104)[:-1])
    assert evidence.service_us(micros(100)) == 0
    evidence.add(fetched(7, 110, 100 + 2 * WAKE_SPREAD_US / 1000, 16))
    assert evidence.service_us(micros(100)) == 0
    evidence.add(fetched(8, 110, 100.001 + 2 * WAKE_SPREAD_US / 1000, 16))
    assert evidence.service_us(micros(100)) == micros(4)


@pytest.mark.parametrize(("late_us", "service_us"), [(0, WAKE_SPREAD_US), (1, 0)])
def test_answers_far_apart_are_not_of_one_wake(late_us: int, service_us: int) -> None:
    rows = woken(100, 100 + (WAKE_SPREAD_US + late_us) / 1000)
    assert evidence_of(*rows).service_us(micros(100)) == service_us


def test_fetch_that_came_after_the_append_was_not_woken() -> None:
    rows = [records(7, 0, 100, 15), records(8, 102, 104, 15), fetched(7, 400, 900, 16)]
    assert evidence_of(*rows).service_us(micros(100)) == 0


# --- bytes ---------------------------------------------------------------------------------------


def linked() -> Evidence:
    """15..16 are 90 bytes, 16..18 are 150."""
    return evidence_of(
        records(9, 0, 100, 15, record_bytes=90),
        records(9, 103, 200, 16, record_bytes=150),
        fetched(9, 203, 700, 18),
    )


@pytest.mark.parametrize(
    ("start", "end", "size"), [(15, 16, 90), (16, 18, 150), (15, 18, 240), (16, 16, 0)]
)
def test_bytes_between_offsets_add_up(start: int, end: int, size: int) -> None:
    assert linked().record_bytes(start, end) == size


@pytest.mark.parametrize(("start", "end"), [(15, 17), (17, 18), (14, 18)])
def test_bytes_at_offsets_that_no_answer_told_are_not_known(start: int, end: int) -> None:
    assert linked().record_bytes(start, end) is None


def test_piece_without_a_neighbour_waits_for_one() -> None:
    """18..20 comes first; 16..18, told by a slower replica, links it when more comes in."""
    evidence = evidence_of(
        *(records(9, 0, 100, 15, record_bytes=90), fetched(9, 103, 104, 16)),
        *(records(8, 150, 200, 18, record_bytes=60), records(8, 203, 204, 20)),
    )
    assert evidence.record_bytes(15, 20) is None
    for row in (records(9, 250, 300, 16, record_bytes=150), fetched(9, 303, 304, 18)):
        evidence.add(row)
    evidence.add(fetched(8, 400, 401, 21))
    assert evidence.record_bytes(15, 20) == 300


def test_bytes_are_told_backwards_as_well() -> None:
    evidence = evidence_of(
        *(records(9, 0, 100, 15, record_bytes=90), fetched(9, 103, 104, 16)),
        *(records(8, 150, 200, 12, record_bytes=200), fetched(8, 203, 204, 15)),
    )
    assert evidence.record_bytes(12, 16) == 290


def test_envelope_is_what_stands_around_the_records() -> None:
    """A records field of 90 bytes takes 91, an empty one 1; the high watermark takes 10."""
    row = records(9, 0, 1, 15, request_bytes=130, response_bytes=171, high_watermark=15)
    replica = evidence_of(row).replicas[9]
    assert replica.request_envelopes.nearest(0) == 120
    assert replica.response_envelopes.nearest(0) == 80


def test_forwarded_fetch_has_no_envelope() -> None:
    replica = evidence_of(fetched(9, 0, 1, 15, request_bytes=None, response_bytes=None)).replicas[9]
    assert replica.request_envelopes.nearest(0) is None


# --- forgetting ----------------------------------------------------------------------------------


def test_absences_are_forgotten_when_they_are_over() -> None:
    evidence = away()
    evidence.forget(micros(4_000))
    assert len(evidence.replicas[9].absences) == 1
    evidence.forget(micros(4_000) + 1)
    assert evidence.replicas[9].absences == []


def many_appends(count: int) -> Evidence:
    """One replica that gets one record every 10 ms."""
    steps = [records(9, 10 * i, 10 * i + 9, i, record_bytes=90) for i in range(count)]
    return evidence_of(*steps, fetched(9, 10 * count, 10 * count + 9, count))


def test_bytes_that_the_loops_have_yet_to_reach_are_kept() -> None:
    evidence = many_appends(5_000)
    evidence.forget(before=micros(10 * 4_000))
    assert evidence.record_bytes(4_500, 4_501) == 90


def test_replica_that_left_does_not_keep_all_bytes() -> None:
    evidence = many_appends(5_000)
    evidence.replicas[8] = evidence_of(fetched(8, 0, 1, 0)).replicas[8]
    evidence.forget(before=micros(10 * 5_000))
    assert len(evidence._bytes_below) < 4_096
