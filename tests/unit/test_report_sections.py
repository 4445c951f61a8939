"""What each rule's section says: sentences that hold for the figures, and none made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from report_examples import (
    ACKS,
    FINEST,
    MIN_ISR,
    acks,
    check,
    event,
    fetch,
    fetches,
    hwm,
    lag,
    lowest,
    sessions,
    silent,
    spread,
)

from kip_replay.pipelines.report.values import Percentiles, RuleFigures
from kip_replay.pipelines.report.view import Section, Table
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.pipelines.rules.lowest_acked_offset.words import SEEN
from kip_replay.replay.hwm_parking import WITH_KIP
from kip_replay.replay.outcomes import RECORDED

UNKNOWN = Percentiles(10, 90, None, None, None, 400.0)


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def answer(section: Section) -> str:
    return plain(section.answer.striptags())


def price(section: Section) -> str:
    return plain((section.price or section.answer).striptags())


def said(section: Section) -> str:
    return plain(section.details[0].summary.striptags())


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


def section(*figures: RuleFigures, checks: tuple[Any, ...] = ()) -> Section:
    made: Section = {s.name: s for s in RULES}[figures[0].NAME].section(figures, checks)
    return made


def with_spreads(one: RuleFigures, spreads: dict[Any, Percentiles]) -> Any:
    return replace(one, spreads={**one.spreads, **spreads})


# --- hwm_parking ---------------------------------------------------------------------------------


def test_a_cluster_without_the_kip() -> None:
    told = said(section(hwm()))

    assert "brokers would learn a committed metadata change in 1.2 ms instead of 328 ms" in told
    assert "It would cost 15.7 more FETCHes a second (30.7 instead of 15.0)" in told
    assert "and 5.6 kB a second more (11.0 kB instead of 5.4 kB)" in told


def test_a_cluster_with_the_kip() -> None:
    told = said(section(hwm(own=Protocol.WITH)))

    assert "Thanks to KIP-1166, which this cluster runs, brokers learn" in told
    assert "It costs 15.7 more FETCHes a second" in told


def test_several_recordings_give_ranges_and_the_price() -> None:
    two = hwm("two")
    faster = replace(two, traffic={**two.traffic, **fetches(WITH_KIP, 960)})
    found = section(hwm(), with_spreads(faster, lag(WITH_KIP, 1.7)))

    assert "Brokers learn" in answer(found)
    assert "in 1.2 to 1.7 ms instead of 328 ms" in answer(found)
    assert "The price: 15.7 to 17.0 more FETCHes a second" in price(found)


LAG_OF_BROKERS = ("replica_kind", "broker", None)


def test_a_median_that_is_unknown_is_not_made_up() -> None:
    unknown = {("high_watermark_lag", RECORDED, *LAG_OF_BROKERS): UNKNOWN}
    found = section(with_spreads(hwm(), unknown))

    assert "The median lag cannot be told" in said(found)
    assert "90 of 100 without KIP-1166" in said(found)
    assert "would learn" not in said(found)
    assert answer(found) == "These logs do not tell how soon a metadata change is known."


def test_unknown_changes_stand_beside_the_headline() -> None:
    some = {("high_watermark_lag", WITH_KIP, *LAG_OF_BROKERS): spread(1.2, unknown=7)}
    found = section(with_spreads(hwm(), some))

    assert "Of 0 changes without and 7 with KIP-1166 it is unknown when" in str(
        found.details[0].keys_note
    )
    assert cells(found.table, "one")[-1] == "7"


def test_no_difference_is_not_sold_as_one() -> None:
    one = hwm()
    same = replace(one, traffic={**one.traffic, **fetches(WITH_KIP, 450)})
    found = section(with_spreads(same, lag(WITH_KIP, 328.2)))

    assert "changes little here" in answer(found)
    assert "KIP-1166 changes little here" in said(found)
    assert "0.0 more FETCHes a second" in said(found)


def test_a_cluster_whose_brokers_are_its_voters_is_told_of_controllers() -> None:
    one = hwm()
    voters = {key: of for key, of in one.spreads.items() if "voter" in key}

    assert "With KIP-1166, controllers would learn" in said(section(replace(one, spreads=voters)))


def test_waits_of_a_sweep_are_there_only_where_one_was_run() -> None:
    waits = block(section(hwm()), "Waiting less or more")
    assert [row.name for row in waits.rows] == ["100 ms", "500 ms, as recorded"]

    one = hwm()
    spreads = {key: of for key, of in one.spreads.items() if key[-1] is None}
    traffic = {key: of for key, of in one.traffic.items() if key[-1] is None}
    without = section(replace(one, spreads=spreads, traffic=traffic))
    captions = [str(getattr(part, "caption", "")) for part in without.details[0].blocks]
    assert not any("Waiting" in caption for caption in captions)


# --- incremental_fetch ---------------------------------------------------------------------------


def test_what_sessions_save() -> None:
    found = section(fetch())

    assert "a follower’s FETCH lists 3.0 partitions instead of 64.0" in answer(found)
    assert "take 6.0 kB a second besides records instead of 80.0 kB" in answer(found)
    assert cells(found.table, "one")[1:] == [
        *("64.0", "3.0", "4.0", "64.0", "3.0", "4.0", "80,000", "6,000", "7,200"),
        "5",
    ]
    assert "590 of 600 recorded incremental FETCHes" in plain(
        str([getattr(b, "text", "") for b in found.details[0].blocks])
    )


def test_slots_say_which_number_is_enough() -> None:
    found = section(fetch())

    assert "of the numbers tried, 16 is the least" in price(found)
    slots = block(found, "So many slots")
    assert cells(slots, "8") == ["3.0", "64.0", "20.0", "43,000", "12", "0", "2", "0"]
    assert [row.name for row in slots.rows] == ["0", "8", "16", "enough for all"]


def test_too_few_slots_are_not_called_enough() -> None:
    one = fetch()
    rows = {**one.rows, "events": [event("created", 12), event("refused", 3, 8)]}
    traffic = {key: of for key, of in one.traffic.items() if key[-1] != 16}
    found = section(replace(one, traffic=traffic, rows=rows))

    assert "even 8 slots were too few here" in price(found)


def test_recordings_that_differ_are_told_of_as_most_and_least() -> None:
    same = {
        (variant, "follower", None): sessions(2, 150)
        for variant in (RECORDED, "full", "incremental")
    }
    busy = replace(fetch("busy"), traffic=same)
    found = section(fetch("idle"), busy)

    assert "That is idle, where it changes most; in busy, where it changes least" in answer(found)
    assert "Fetch sessions save little here" in answer(section(busy))
    # The one that tells most has its picture first.
    assert [d.name for d in section(busy, fetch("idle")).details] == ["idle", "busy"]


# --- min_isr_acks --------------------------------------------------------------------------------


def test_how_much_sooner_producers_are_answered() -> None:
    found = section(acks())

    assert "answered in 13.5 ms instead of 240 ms (median)" in answer(found)
    assert "takes up to 227 ms (9 in 10 times)" in price(found)
    assert "For 114 ms (median; 9 in 10: at most 227 ms)" in said(found)
    row = cells(found.table, "one")
    assert row == [
        *("241.0", "240.5", "481.0", "962.0", "13.5", "27.0", "54.0", "102", "2"),
        *("113.6", "227.2", "454.4", "0"),
    ]


def test_a_wait_that_is_unknown_is_not_made_up() -> None:
    found = section(acks("one", {ACKS: spread(240.5), MIN_ISR: UNKNOWN}))

    assert "The median wait cannot be told: of 90 of 100 answers" in said(found)
    assert "do not tell how much sooner" in answer(found)


def test_recordings_with_few_answers_are_no_ground_for_a_headline() -> None:
    few = dict.fromkeys((RECORDED, ACKS, MIN_ISR), spread(1.0, count=3))
    found = section(acks(), acks("few", few))

    assert "answered in 13.5 ms instead of 240 ms" in answer(found)
    assert "1.0 ms" not in answer(found)


def test_errors_have_kafkas_names() -> None:
    found = section(acks())

    assert cells(block(found, "Errors"), "NOT_ENOUGH_REPLICAS (19)") == ["7", "7", "7"]


def test_produces_without_acks_all_are_not_silently_nothing() -> None:
    ((reason, names),) = section(replace(acks(), spreads={})).silent.items()

    assert names == ["one"]
    assert reason.startswith("hold no PRODUCE with acks=all")


# --- lowest_acked_offset -------------------------------------------------------------------------


def test_how_late_writes_are_everywhere() -> None:
    found = section(lowest())

    assert "may show the old state for up to 229 ms (median)" in answer(found)
    assert "the broker that was asked would know 3,213 ms after the request" in answer(found)
    assert "8 bytes more in each answer to a heartbeat (71 instead of 63)" in price(found)
    assert cells(found.table, "one") == [
        *("229.0", "458.0", "1,417.0", "2,834.0", "3,213.0", "6,426.0", "120", "1")
    ]


def test_the_interval_that_would_be_needed() -> None:
    notes = [plain(str(getattr(b, "text", ""))) for b in section(lowest()).details[0].blocks]

    assert (
        "9 in 10 reads after writes: below 500 ms with a heartbeat every 100 ms (with KIP-1166); "
        "below 100 ms with none of the intervals tried."
    ) in notes


def test_what_clients_saw_stands_beside_what_the_log_proves() -> None:
    seen = replace(check(passed=None), rule="lowest_acked_offset", metric=SEEN, recorded=38.2)
    found = section(lowest(), checks=(seen,))

    assert "saw a new topic on every broker 38.2 ms after the answer (median of 1 recording)" in (
        plain(str(found.sure))
    )
    assert "Clients that watched" not in str(section(lowest()).sure)


def test_without_finer_evidence_heartbeats_bound_the_stale_window() -> None:
    one = lowest()
    coarse = {key: of for key, of in one.spreads.items() if key[1] != FINEST}
    found = section(replace(one, spreads=coarse))

    assert "up to 1,417 ms (median)" in answer(found)


@pytest.mark.parametrize(("make", "place"), [(hwm, 0), (fetch, 1), (acks, 2), (lowest, 3)])
def test_a_silent_recording_is_named_with_its_reason(make: Any, place: int) -> None:
    found = section(make(), silent("nothing")[place])

    assert [*found.silent.values()] == [["nothing"]]
    assert found.table is not None
    assert [row.name for row in found.table.rows] == ["one"]
    assert found.doubts is not None


def test_unknown_outcomes_are_counted_where_they_are_seen() -> None:
    found = section(fetch(), fetch("two"))

    assert found.doubts_count == "10 outcomes unknown, 2 to which the rule does not apply"
    assert cells(found.doubts, "FETCHes")[:3] == [
        "unknown",
        "the session began before the log",
        "one, two",
    ]
