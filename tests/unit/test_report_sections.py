"""What each rule's section says where figures are unknown or equal: nothing is made up.

What it says of usual figures is in ``tests/report/page.txt``.
"""

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
    fetches,
    hwm,
    lag,
    lowest,
    plain,
    spread,
)

from kip_replay.pipelines.page.decisions import Advice
from kip_replay.pipelines.page.values import Percentiles, RuleFigures
from kip_replay.pipelines.page.view import Section
from kip_replay.pipelines.rules import RULES
from kip_replay.replay.hwm_parking import WITH_KIP
from kip_replay.replay.outcomes import RECORDED

UNKNOWN = Percentiles(10, 90, None, None, None, 400.0)


def section(one: RuleFigures) -> Section:
    return {s.name: s for s in RULES}[one.NAME].section([one], (), CONFIG[one.NAME])


def summary(one: RuleFigures) -> str:
    return plain(section(one).details[0].summary.striptags())


def with_spreads(one: RuleFigures, spreads: dict[Any, Percentiles]) -> Any:
    return replace(one, spreads={**one.spreads, **spreads})


def without(one: RuleFigures, *dropped: str) -> Any:
    """Figures without the spreads of a variant or a kind of replica."""
    return replace(
        one, spreads={key: of for key, of in one.spreads.items() if not {*dropped} & {*key}}
    )


BROKERS = ("high_watermark_lag", RECORDED, "replica_kind", "broker", None)
MEDIAN_UNKNOWN = with_spreads(hwm(), {BROKERS: UNKNOWN})
SAME_TRAFFIC = replace(hwm(), traffic={**hwm().traffic, **fetches(WITH_KIP, 450)})


@pytest.mark.parametrize(
    ("one", "phrases"),
    [
        (MEDIAN_UNKNOWN, ["The median lag is not known", "90 of 100 without KIP-1166"]),
        (
            with_spreads(SAME_TRAFFIC, lag(WITH_KIP, 328.2)),
            ["KIP-1166 changes little here", "0.0 more FETCHes a second"],
        ),
        (without(hwm(), "broker"), ["With KIP-1166, controllers would learn"]),
        (
            acks("one", {ACKS: spread(240.5), MIN_ISR: UNKNOWN}),
            ["The median wait is not known: of 90 of 100 responses"],
        ),
        # Without an estimate, evidence bounds the stale window.
        (
            without(lowest(), ESTIMATED),
            ["some broker may have shown the old state for up to 969 ms"],
        ),
        (without(lowest(), ESTIMATED, FINEST), ["for up to 1,417 ms (median)"]),
    ],
)
def test_summaries(one: RuleFigures, phrases: list[str]) -> None:
    text = summary(one)
    assert [phrase for phrase in phrases if phrase not in text] == []


def test_what_is_unknown_is_not_made_up() -> None:
    assert "would learn" not in summary(MEDIAN_UNKNOWN)
    assert section(MEDIAN_UNKNOWN).decisions["one"].gain is None


def test_produces_without_acks_all_are_not_silently_nothing() -> None:
    found = section(replace(acks(), spreads={})).decisions["one"]
    assert found.advice is Advice.NOT_ENOUGH
    assert found.reason.startswith("These logs hold no PRODUCE with acks=all")
