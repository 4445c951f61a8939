"""What each rule's section says: sentences that hold for the figures, and none made up."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from report_examples import (
    ACKS,
    CONFIG,
    ESTIMATED,
    FINEST,
    MIN_ISR,
    acks,
    check,
    fetch,
    fetches,
    hwm,
    lag,
    lowest,
    plain,
    silent,
    spread,
)

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.page import sections, words
from kip_replay.pipelines.page.decisions import Advice
from kip_replay.pipelines.page.values import Percentiles, RuleFigures
from kip_replay.pipelines.page.view import Section, Table
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.pipelines.rules.lowest_acked_offset.words import SEEN
from kip_replay.replay.hwm_parking import WITH_KIP
from kip_replay.replay.outcomes import RECORDED

UNKNOWN = Percentiles(10, 90, None, None, None, 400.0)


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
    name = figures[0].NAME
    return {s.name: s for s in RULES}[name].section(figures, checks, CONFIG[name])


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
NO_DIFFERENCE = with_spreads(with_traffic(hwm(), fetches(WITH_KIP, 450)), lag(WITH_KIP, 328.2))
OF_VOTERS = without(hwm(), "spreads", lambda key: "voter" not in key)
WAIT_UNKNOWN = acks("one", {ACKS: spread(240.5), MIN_ISR: UNKNOWN})
BOUNDED = without(lowest(), "spreads", lambda key: key[1] == ESTIMATED)
COARSE = without(BOUNDED, "spreads", lambda key: key[1] == FINEST)


@pytest.mark.parametrize(
    ("one", "phrases"),
    [
        (
            hwm(),
            [
                "brokers would learn a committed metadata change in 1.2 ms instead of 328 ms",
                "It would cost 15.7 more FETCHes a second (30.7 instead of 15.0)",
                "and 5.6 kB a second more (11.0 kB instead of 5.4 kB)",
            ],
        ),
        (
            hwm(own=Protocol.WITH),
            [
                "Thanks to KIP-1166, which this cluster runs, brokers learn",
                "It costs 15.7 more FETCHes a second",
            ],
        ),
        (MEDIAN_UNKNOWN, ["The median lag is not known", "90 of 100 without KIP-1166"]),
        (NO_DIFFERENCE, ["KIP-1166 changes little here", "0.0 more FETCHes a second"]),
        (OF_VOTERS, ["With KIP-1166, controllers would learn"]),
        (
            fetch(),
            [
                "a follower’s FETCH lists 3.0 partitions instead of 64.0",
                "take 6.0 kB a second besides records instead of 80.0 kB",
            ],
        ),
        (
            acks(),
            [
                "get their responses in 13.5 ms instead of 240 ms (median)",
                "For 114 ms (median; 9 in 10: at most 227 ms)",
            ],
        ),
        (WAIT_UNKNOWN, ["The median wait is not known: of 90 of 100 responses"]),
        (
            lowest(),
            [
                "some broker showed the old state for 229 ms (median)",
                "heartbeats prove it after 1,417 ms",
                "would have known that it was over 3,213 ms after the request",
            ],
        ),
        # Without an estimate, evidence bounds the stale window.
        (BOUNDED, ["some broker may have shown the old state for up to 969 ms"]),
        (COARSE, ["for up to 1,417 ms (median)"]),
    ],
)
def test_summaries(one: RuleFigures, phrases: list[str]) -> None:
    text = summary(section(one))
    assert [phrase for phrase in phrases if phrase not in text] == []


def test_what_is_unknown_is_not_made_up() -> None:
    found = section(MEDIAN_UNKNOWN)
    assert "would learn" not in summary(found)
    assert found.decisions["one"].gain is None


def test_unknown_changes_stand_beside_the_headline() -> None:
    late = lag_of_brokers(WITH_KIP, spread(1.2, unknown=7))
    found = section(late, hwm("two"))
    note = str(found.details[0].keys_note)
    assert "Of 0 changes without and 7 with KIP-1166 it is unknown when" in note
    assert cells(found.table, "one")[-1] == "7"


def test_tables_of_fetch_sessions() -> None:
    found = section(fetch(), fetch("two"))
    kinds = ("64.0", "3.0", "4.0", "64.0", "3.0", "4.0")
    assert cells(found.table, "one")[1:] == [*kinds, "80,000", "6,000", "7,200", "5"]
    texts = plain(str([getattr(b, "text", "") for b in found.details[0].blocks]))
    assert "590 of 600 recorded incremental FETCHes" in texts


def test_tables_of_early_acks() -> None:
    found = section(acks(), acks("two"))
    assert cells(found.table, "one") == [
        *("241.0", "240.5", "481.0", "962.0", "13.5", "27.0", "54.0", "102", "2"),
        *("113.6", "227.2", "454.4", "0"),
    ]
    assert cells(block(found, "Errors"), "NOT_ENOUGH_REPLICAS (19)") == ["7", "7", "7"]


def test_produces_without_acks_all_are_not_silently_nothing() -> None:
    found = section(replace(acks(), spreads={})).decisions["one"]
    assert found.advice is Advice.NOT_ENOUGH
    assert found.reason.startswith("These logs hold no PRODUCE with acks=all")


def test_metadata_writes_and_the_interval_that_would_be_needed() -> None:
    found = section(lowest(), lowest("two"))
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
        "saw a new topic on every broker 38.2 ms after the response in one (median), where the "
        "estimate is 329 ms." in sure
    )
    assert "Clients that watched" not in str(section(lowest()).sure)


@pytest.mark.parametrize(("make", "place"), [(hwm, 0), (fetch, 1), (acks, 2), (lowest, 3)])
def test_a_silent_recording_has_a_verdict_and_no_row(make: Any, place: int) -> None:
    found = section(make(), silent("nothing")[place], make("two"))
    assert [*found.decisions] == ["one", "nothing", "two"]
    assert found.decisions["nothing"].advice is Advice.NOT_ENOUGH
    assert found.decisions["nothing"].reason.startswith("These logs hold no ")
    assert found.table is not None
    assert [row.name for row in found.table.rows] == ["one", "two"]
    assert found.doubts is not None
    assert section(make()).table is None


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
