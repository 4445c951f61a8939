"""What each rule's section says: sentences that hold for the figures, and none made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from report_examples import check, figures, recording, sessions, silent, spread

from kip_replay.pipelines.report.data import RecordingReport, Report
from kip_replay.pipelines.report.values import Percentiles
from kip_replay.pipelines.report.view import Section, Table
from kip_replay.pipelines.rules.hwm_parking import section as hwm_parking_section
from kip_replay.pipelines.rules.hwm_parking.figures import Figures, Protocol
from kip_replay.pipelines.rules.incremental_fetch import section as incremental_fetch_section
from kip_replay.pipelines.rules.incremental_fetch.figures import SlotsPoint
from kip_replay.pipelines.rules.lowest_acked_offset import section as lowest_acked_offset_section
from kip_replay.pipelines.rules.lowest_acked_offset import words as lowest_acked_offset_words
from kip_replay.pipelines.rules.lowest_acked_offset.figures import Visibility
from kip_replay.pipelines.rules.min_isr_acks import section as min_isr_acks_section
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import WITH_KIP, WITHOUT_KIP

UNKNOWN = Percentiles(10, 90, None, None, None, None, None, 400.0)


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def answer(section: Section) -> str:
    return plain(section.answer.striptags())


def price(section: Section) -> str:
    return plain((section.price or section.answer).striptags())


def said(section: Section) -> str:
    return plain(section.details[0].said.striptags())


def cells(table: object, row: str) -> list[str]:
    assert isinstance(table, Table)
    return [str(cell) for cell in next(r.cells for r in table.rows if r.name == row)]


def block(section: Section, caption: str) -> Table:
    found = [
        part
        for outer in section.details[0].blocks
        for part in getattr(outer, "parts", [outer])
        if isinstance(part, Table) and str(part.caption).startswith(caption)
    ]
    assert len(found) == 1
    return found[0]


def with_part(one: RecordingReport, part: str, **values: Any) -> RecordingReport:
    return replace(one, **{part: replace(getattr(one, part), **values)})


# --- hwm_parking ---------------------------------------------------------------------------------


def hwm(*recordings: RecordingReport) -> Section:
    return hwm_parking_section.section(Report(recordings))


def test_a_cluster_without_the_kip() -> None:
    told = said(hwm(recording()))

    assert "brokers would learn a committed metadata change in 1.2 ms instead of 328 ms" in told
    assert "It would cost 15.7 more FETCHes a second (30.7 instead of 15.0)" in told
    assert "and 5.6 kB a second more (11.0 kB instead of 5.4 kB)" in told


def test_a_cluster_with_the_kip() -> None:
    told = said(hwm(recording(own=Protocol.WITH)))

    assert "Thanks to KIP-1166, which this cluster runs, brokers learn" in told
    assert "It costs 15.7 more FETCHes a second" in told


def test_several_recordings_give_ranges_and_the_price() -> None:
    one = recording()
    faster = {**one.hwm_parking.figures, WITH_KIP: figures(1.7, 960)}
    section = hwm(one, with_part(recording("two"), "hwm_parking", figures=faster))

    assert "Brokers learn" in answer(section)
    assert "in 1.2 to 1.7 ms instead of 328 ms" in answer(section)
    assert "The price: 15.7 to 17.0 more FETCHes a second" in price(section)


def test_a_median_that_is_unknown_is_not_made_up() -> None:
    one = recording()
    slow = replace(one.hwm_parking.of(RECORDED), lag={"broker": UNKNOWN})
    section = hwm(
        with_part(one, "hwm_parking", figures={**one.hwm_parking.figures, RECORDED: slow})
    )

    assert "The median lag cannot be told" in said(section)
    assert "90 of 100 without KIP-1166" in said(section)
    assert "would learn" not in said(section)
    assert answer(section) == "These logs do not tell how soon a metadata change is known."


def test_unknown_changes_stand_beside_the_headline() -> None:
    one = recording()
    some = replace(one.hwm_parking.of(WITH_KIP), lag={"broker": spread(1.2, unknown=7)})
    section = hwm(
        with_part(one, "hwm_parking", figures={**one.hwm_parking.figures, WITH_KIP: some})
    )

    assert "Of 0 changes without and 7 with KIP-1166 it is unknown when" in str(
        section.details[0].keys_note
    )
    assert cells(section.table, "one")[-1] == "7"


def test_no_difference_is_not_sold_as_one() -> None:
    one = recording()
    same = {**one.hwm_parking.figures, WITH_KIP: one.hwm_parking.of(WITHOUT_KIP)}
    section = hwm(with_part(one, "hwm_parking", figures=same))

    assert "changes little here" in answer(section)
    assert "KIP-1166 changes little here" in said(section)
    assert "0.0 more FETCHes a second" in said(section)


def test_a_cluster_whose_brokers_are_its_voters_is_told_of_controllers() -> None:
    one = recording()
    voters = {
        variant: Figures(
            lag={"voter": found.lag["voter"]},
            curve={"voter": found.curve["voter"]},
            traffic={"voter": found.traffic["voter"]},
        )
        for variant, found in one.hwm_parking.figures.items()
    }
    section = hwm(with_part(one, "hwm_parking", figures=voters))

    assert "With KIP-1166, controllers would learn" in said(section)


def test_waits_of_a_sweep_are_there_only_where_one_was_run() -> None:
    assert block(hwm(recording()), "Waiting less or more").rows[0].name == "100 ms"

    without = hwm(with_part(recording(), "hwm_parking", sweep=()))
    captions = [str(getattr(part, "caption", "")) for part in without.details[0].blocks]
    assert not any("Waiting" in caption for caption in captions)


# --- incremental_fetch ---------------------------------------------------------------------------


def fetch(*recordings: RecordingReport) -> Section:
    return incremental_fetch_section.section(Report(recordings))


def test_what_sessions_save() -> None:
    section = fetch(recording())

    assert "a follower’s FETCH lists 3.0 partitions instead of 64.0" in answer(section)
    assert "take 6.0 kB a second besides records instead of 80.0 kB" in answer(section)
    assert cells(section.table, "one")[1:] == [
        *("64.0", "3.0", "4.0", "64.0", "3.0", "4.0", "80,000", "6,000", "7,200"),
        "5",
    ]
    assert "590 of 600 recorded incremental FETCHes" in plain(
        str([getattr(b, "text", "") for b in section.details[0].blocks])
    )


def test_slots_say_which_number_is_enough() -> None:
    section = fetch(recording())

    assert "of the numbers tried, 16 is the least" in price(section)
    slots = block(section, "So many slots")
    assert cells(slots, "8") == ["3.0", "64.0", "20.0", "43,000", "12", "0", "2", "0"]
    assert [row.name for row in slots.rows] == ["0", "8", "16", "enough for all"]


def test_too_few_slots_are_not_called_enough() -> None:
    full = {"follower": sessions(64, 2000)}
    points = (SlotsPoint(0, full, {}), SlotsPoint(8, full, {"refused": 3}))
    section = fetch(with_part(recording(), "incremental_fetch", sweep=points))

    assert "even 8 slots were too few here" in price(section)


def test_recordings_that_differ_are_told_of_as_most_and_least() -> None:
    full = {"follower": sessions(2, 150)}
    same = dict.fromkeys((RECORDED, "full", "incremental"), full)
    busy = with_part(recording("busy"), "incremental_fetch", figures=same, sweep=())
    section = fetch(recording("idle"), busy)

    assert "That is idle, where it changes most; in busy, where it changes least" in answer(section)
    assert "Fetch sessions save little here" in answer(fetch(busy))
    # The one that tells most has its picture first.
    assert [detail.name for detail in fetch(busy, recording("idle")).details] == ["idle", "busy"]


# --- min_isr_acks --------------------------------------------------------------------------------


def acks(*recordings: RecordingReport) -> Section:
    return min_isr_acks_section.section(Report(recordings))


def test_how_much_sooner_producers_are_answered() -> None:
    section = acks(recording())

    assert "answered in 13.5 ms instead of 240 ms (median)" in answer(section)
    assert "takes up to 227 ms (9 in 10 times)" in price(section)
    assert "For 114 ms (median; 9 in 10: at most 227 ms)" in said(section)
    row = cells(section.table, "one")
    assert row == [
        *("241.0", "240.5", "481.0", "962.0", "13.5", "27.0", "54.0", "102", "2"),
        *("113.6", "227.2", "454.4", "0"),
    ]


def test_a_wait_that_is_unknown_is_not_made_up() -> None:
    latency = {**recording().min_isr_acks.latency, "acks_min_insync_replicas": UNKNOWN}
    section = acks(with_part(recording(), "min_isr_acks", latency=latency))

    assert "The median wait cannot be told: of 90 of 100 answers" in said(section)
    assert "do not tell how much sooner" in answer(section)


def test_recordings_with_few_answers_are_no_ground_for_a_headline() -> None:
    few = {v: replace(s, count=3, p50=1.0) for v, s in recording().min_isr_acks.latency.items()}
    section = acks(recording(), with_part(recording("few"), "min_isr_acks", latency=few))

    assert "answered in 13.5 ms instead of 240 ms" in answer(section)
    assert "1.0 ms" not in answer(section)


def test_errors_have_kafkas_names() -> None:
    section = acks(recording())

    assert cells(block(section, "Errors"), "NOT_ENOUGH_REPLICAS (19)") == ["7", "7", "7"]


def test_produces_without_acks_all_are_not_silently_nothing() -> None:
    section = acks(with_part(recording(), "min_isr_acks", latency={}))

    assert section.silent[0].recordings == ["one"]
    assert section.silent[0].reason.startswith("hold no PRODUCE with acks=all")


# --- lowest_acked_offset -------------------------------------------------------------------------


def lowest(*recordings: RecordingReport, checks: tuple[Any, ...] = ()) -> Section:
    return lowest_acked_offset_section.section(Report(recordings, checks))


def test_how_late_writes_are_everywhere() -> None:
    section = lowest(recording())

    assert "may show the old state for up to 229 ms (median)" in answer(section)
    assert "the broker that was asked would know 3,213 ms after the request" in answer(section)
    assert "8 bytes more in each answer to a heartbeat (71 instead of 63)" in price(section)
    assert cells(section.table, "one") == [
        *("229.0", "458.0", "1,417.0", "2,834.0", "3,213.0", "6,426.0", "120", "1"),
    ]


def test_the_interval_that_would_be_needed() -> None:
    notes = [plain(str(getattr(b, "text", ""))) for b in lowest(recording()).details[0].blocks]

    assert (
        "9 in 10 reads after writes: below 500 ms with a heartbeat every 100 ms (with KIP-1166); "
        "below 100 ms with none of the intervals tried."
    ) in notes


def test_what_clients_saw_stands_beside_what_the_log_proves() -> None:
    seen = replace(
        check(passed=None),
        rule="lowest_acked_offset",
        metric=lowest_acked_offset_words.SEEN,
        recorded=38.2,
    )
    section = lowest(recording(), checks=(seen,))

    assert "saw a new topic on every broker 38.2 ms after the answer (median of 1 recording)" in (
        plain(str(section.sure))
    )
    assert "Clients that watched" not in str(lowest(recording()).sure)


def test_without_finer_evidence_heartbeats_bound_the_stale_window() -> None:
    told = {"lowest_acked_offset": Visibility(spread(1417.0), spread(3213.0))}
    section = lowest(with_part(recording(), "lowest_acked_offset", by_variant=told))

    assert "up to 1,417 ms (median)" in answer(section)


@pytest.mark.parametrize("make", [hwm, fetch, acks, lowest])
def test_a_silent_recording_is_named_with_its_reason(make: Any) -> None:
    section = make(recording(), silent("nothing"))

    assert [one.recordings for one in section.silent] == [["nothing"]]
    assert [row.name for row in section.table.rows] == ["one"]
    assert section.doubts is not None


def test_unknown_outcomes_are_counted_where_they_are_seen() -> None:
    section = fetch(recording(), recording("two"))

    assert section.doubts_said == "10 outcomes unknown, 2 to which the rule does not apply"
    assert cells(section.doubts, "FETCHes")[:3] == [
        "unknown",
        "the session began before the log",
        "one, two",
    ]
