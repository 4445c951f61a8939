"""What each rule's section says: sentences that hold for the figures, and none made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from report_examples import (
    ACKS,
    ESTIMATED,
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
    plain,
    sessions,
    silent,
    spread,
)

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.values import Percentiles, RuleFigures
from kip_replay.pipelines.report.view import Section, Table
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.pipelines.rules.lowest_acked_offset.words import SEEN
from kip_replay.replay.hwm_parking import WITH_KIP
from kip_replay.replay.outcomes import RECORDED

UNKNOWN = Percentiles(10, 90, None, None, None, 400.0)


def answer(section: Section) -> str:
    return plain(section.answer.striptags())


def price(section: Section) -> str:
    return plain((section.price or section.answer).striptags())


def summary(section: Section) -> str:
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


def lag_of_brokers(variant: str, lag_ms: Percentiles) -> Any:
    return with_spreads(
        hwm(), {("high_watermark_lag", variant, "replica_kind", "broker", None): lag_ms}
    )


def without(figures: Any, name: str, is_dropped: Callable[[Any], bool]) -> Any:
    """Figures whose spreads or traffic lack some keys."""
    kept = {key: of for key, of in getattr(figures, name).items() if not is_dropped(key)}
    return replace(figures, **{name: kept})


def with_traffic(figures: Any, traffic: dict[Any, Any]) -> Any:
    return replace(figures, traffic={**figures.traffic, **traffic})


MEDIAN_UNKNOWN = lag_of_brokers(RECORDED, UNKNOWN)
FASTER = with_spreads(with_traffic(hwm("two"), fetches(WITH_KIP, 960)), lag(WITH_KIP, 1.7))
NO_DIFFERENCE = with_spreads(with_traffic(hwm(), fetches(WITH_KIP, 450)), lag(WITH_KIP, 328.2))
OF_VOTERS = without(hwm(), "spreads", lambda key: "voter" not in key)
FEW_SLOTS = replace(
    without(fetch(), "traffic", lambda key: key[-1] == 16),
    rows={**fetch().rows, "events": [event("created", 12), event("refused", 3, 8)]},
)
#: A follower whose FETCHes are as small without sessions as with them.
SMALL = {(v, "follower", None): sessions(2, 150) for v in (RECORDED, "full", "incremental")}
BUSY = replace(fetch("busy"), traffic=SMALL)
WAIT_UNKNOWN = acks("one", {ACKS: spread(240.5), MIN_ISR: UNKNOWN})
BOUNDED = without(lowest(), "spreads", lambda key: key[1] == ESTIMATED)
COARSE = without(BOUNDED, "spreads", lambda key: key[1] == FINEST)
FEW_RESPONSES = acks("few", dict.fromkeys((RECORDED, ACKS, MIN_ISR), spread(1.0, count=3)))


@pytest.mark.parametrize(
    ("figures", "part", "phrases"),
    [
        (
            [hwm()],
            summary,
            [
                "brokers would learn a committed metadata change in 1.2 ms instead of 328 ms",
                "It would cost 15.7 more FETCHes a second (30.7 instead of 15.0)",
                "and 5.6 kB a second more (11.0 kB instead of 5.4 kB)",
            ],
        ),
        (
            [hwm(own=Protocol.WITH)],
            summary,
            [
                "Thanks to KIP-1166, which this cluster runs, brokers learn",
                "It costs 15.7 more FETCHes a second",
            ],
        ),
        ([hwm(), FASTER], answer, ["Brokers learn", "in 1.2 to 1.7 ms instead of 328 ms"]),
        ([hwm(), FASTER], price, ["The price: 15.7 to 17.0 more FETCHes a second"]),
        (
            [MEDIAN_UNKNOWN],
            summary,
            ["The median lag cannot be told", "90 of 100 without KIP-1166"],
        ),
        ([NO_DIFFERENCE], answer, ["changes little here"]),
        (
            [NO_DIFFERENCE],
            summary,
            ["KIP-1166 changes little here", "0.0 more FETCHes a second"],
        ),
        ([OF_VOTERS], summary, ["With KIP-1166, controllers would learn"]),
        (
            [fetch()],
            answer,
            [
                "a follower’s FETCH lists 3.0 partitions instead of 64.0",
                "take 6.0 kB a second besides records instead of 80.0 kB",
            ],
        ),
        ([fetch()], price, ["of the numbers tried, 16 is the least"]),
        ([FEW_SLOTS], price, ["even 8 slots were too few here"]),
        (
            [fetch("idle"), BUSY],
            answer,
            ["That is idle, where it changes most; in busy, where it changes least"],
        ),
        ([BUSY], answer, ["Fetch sessions save little here"]),
        ([acks()], answer, ["answered in 13.5 ms instead of 240 ms (median)"]),
        ([acks()], price, ["takes up to 227 ms (9 in 10 times)"]),
        ([acks()], summary, ["For 114 ms (median; 9 in 10: at most 227 ms)"]),
        ([WAIT_UNKNOWN], summary, ["The median wait cannot be told: of 90 of 100 answers"]),
        ([WAIT_UNKNOWN], answer, ["do not tell how much sooner"]),
        ([acks(), FEW_RESPONSES], answer, ["answered in 13.5 ms instead of 240 ms"]),
        (
            [lowest()],
            answer,
            [
                "some broker shows the old state for 229 ms (median)",
                "heartbeats prove that it is over after 1,417 ms",
                "the broker that forwarded it would know 3,213 ms after the request",
            ],
        ),
        (
            [lowest()],
            summary,
            [
                "some broker showed the old state for 229 ms (median)",
                "heartbeats prove it after 1,417 ms",
            ],
        ),
        ([BOUNDED], summary, ["some broker may have shown the old state for up to 969 ms"]),
        (
            [lowest()],
            price,
            ["8 bytes more in each response to a heartbeat (71 instead of 63)"],
        ),
        # Without an estimate, evidence bounds the stale window.
        ([BOUNDED], answer, ["up to 969 ms (median). With"]),
        ([COARSE], answer, ["up to 1,417 ms (median)"]),
    ],
)
def test_sentences(
    figures: list[RuleFigures], part: Callable[[Section], str], phrases: list[str]
) -> None:
    text = part(section(*figures))
    assert [phrase for phrase in phrases if phrase not in text] == []


def test_what_is_unknown_or_of_few_is_not_made_up() -> None:
    found = section(MEDIAN_UNKNOWN)
    assert "would learn" not in summary(found)
    assert answer(found) == "These logs do not tell how soon a metadata change is known."
    assert "1.0 ms" not in answer(section(acks(), FEW_RESPONSES))


def test_unknown_changes_stand_beside_the_headline() -> None:
    found = section(lag_of_brokers(WITH_KIP, spread(1.2, unknown=7)))
    note = str(found.details[0].keys_note)
    assert "Of 0 changes without and 7 with KIP-1166 it is unknown when" in note
    assert cells(found.table, "one")[-1] == "7"


def test_waits_of_a_sweep_are_there_only_where_one_was_run() -> None:
    waits = block(section(hwm()), "Waiting less or more")
    assert [row.name for row in waits.rows] == ["100 ms", "500 ms, as recorded"]

    def is_swept(key: tuple[Any, ...]) -> bool:
        return key[-1] is not None

    unswept = section(without(without(hwm(), "spreads", is_swept), "traffic", is_swept))
    captions = [str(getattr(part, "caption", "")) for part in unswept.details[0].blocks]
    assert not any("Waiting" in caption for caption in captions)


def test_tables_of_fetch_sessions() -> None:
    found = section(fetch())
    kinds = ("64.0", "3.0", "4.0", "64.0", "3.0", "4.0")
    assert cells(found.table, "one")[1:] == [*kinds, "80,000", "6,000", "7,200", "5"]
    texts = plain(str([getattr(b, "text", "") for b in found.details[0].blocks]))
    assert "590 of 600 recorded incremental FETCHes" in texts
    slots = block(found, "So many slots")
    assert cells(slots, "8") == ["3.0", "64.0", "20.0", "43,000", "12", "0", "2", "0"]
    assert [row.name for row in slots.rows] == ["0", "8", "16", "enough for all"]


def test_the_recording_that_changes_most_has_its_picture_first() -> None:
    assert [d.name for d in section(BUSY, fetch("idle")).details] == ["idle", "busy"]


def test_tables_of_early_acks() -> None:
    found = section(acks())
    assert cells(found.table, "one") == [
        *("241.0", "240.5", "481.0", "962.0", "13.5", "27.0", "54.0", "102", "2"),
        *("113.6", "227.2", "454.4", "0"),
    ]
    assert cells(block(found, "Errors"), "NOT_ENOUGH_REPLICAS (19)") == ["7", "7", "7"]


def test_produces_without_acks_all_are_not_silently_nothing() -> None:
    ((reason, names),) = section(replace(acks(), spreads={})).silent.items()
    assert names == ["one"]
    assert reason.startswith("hold no PRODUCE with acks=all")


def test_metadata_writes_and_the_interval_that_would_be_needed() -> None:
    found = section(lowest())
    row = ["229.0", "458.0", "1,417.0", "2,834.0", "281.0", "562.0", "3,213.0", "6,426.0"]
    row += ["120", "1"]
    assert cells(found.table, "one") == row
    needed = (
        "9 in 10 reads after writes: below 500 ms with a heartbeat every 100 ms (with KIP-1166); "
        "below 100 ms with none of the intervals tried."
    )
    assert needed in [plain(str(getattr(b, "text", ""))) for b in found.details[0].blocks]


def test_what_clients_saw_stands_beside_the_estimate() -> None:
    seen = replace(check(passed=None), rule="lowest_acked_offset", metric=SEEN, recorded=38.2)
    sure = plain(str(section(lowest(), checks=(seen,)).sure))
    assert (
        "saw a new topic on every broker 38.2 ms after the response (median of 1 recording), where "
        "the estimate is 329 ms." in sure
    )
    assert "Clients that watched" not in str(section(lowest()).sure)


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
    doubt = ["unknown", "the session began before the log", "one, two"]
    assert cells(found.doubts, "FETCHes")[:3] == doubt


def test_key_figures_have_the_intervals_of_both() -> None:
    slow = replace(spread(250.0), intervals={"p50": Interval(240.0, 262.0)})
    fast = replace(spread(14.0), intervals={"p50": Interval(12.0, 15.6), "p99": None})

    assert sections.ms_key("Wait", "p50", slow, fast) == (
        "Wait",
        "250",
        "14.0",
        "ms",
        "240 to 262 → 12.0 to 15.6",
    )
    assert sections.ms_key("Wait", "p50", fast)[1:] == (None, "14.0", "ms", "12.0 to 15.6")
    assert sections.ms_key("Wait", "p99", slow, fast).within == "not enough data"
    only_after = sections.within([None, Interval(1.0, 2.0)], words.short_ms)
    assert only_after == "not enough data → 1.0 to 2.0"
