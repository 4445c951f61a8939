"""Verdicts: each branch of each rule, and that none is made where an interval reaches across."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_examples import (
    BLOCKS,
    CONFIG,
    ESTIMATED,
    LOWEST,
    MIN_ISR,
    acks,
    evenly,
    fetch,
    hwm,
    lowest,
    peak,
    plain,
    verdict,
)

from kip_replay.pipelines.analysis.intervals import Error, Interval
from kip_replay.pipelines.page import values
from kip_replay.pipelines.page.decisions import Advice, Decision
from kip_replay.pipelines.page.values import Percentiles, RuleFigures, Traffic
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.pipelines.rules.hwm_parking.section import decide as on_hwm
from kip_replay.pipelines.rules.incremental_fetch.section import decide as on_fetch
from kip_replay.pipelines.rules.incremental_fetch.section import slots_for
from kip_replay.pipelines.rules.lowest_acked_offset.section import decide as on_lowest
from kip_replay.pipelines.rules.min_isr_acks.section import decide as on_acks
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.outcomes import RECORDED

#: Of a percentile that is not known, and of one without enough data.
UNKNOWN, FEW = (
    Percentiles(10, 90, None, None, None, 400.0),
    Percentiles(9, 0, 70.0, 80.0, 90.0, 95.0),
)


@pytest.fixture(autouse=True, scope="module")
def exact() -> Iterator[None]:
    """Rates without systematic errors: even traffic then has an interval of one value."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(values, "errors", lambda rule: {})
        yield


def at(low: float, high: float | None = None) -> Percentiles:
    """All percentiles in the middle of one interval."""
    high = low if high is None else high
    value = (low + high) / 2
    within = dict.fromkeys(("p50", "p90", "p99"), Interval(low, high))
    return Percentiles(100, 0, value, value, value, value, within)


def metadata(
    lags: tuple[Percentiles, Percentiles],
    fetches: tuple[int, int] = (160, 320),
    size: tuple[int, int] = (1600, 3200),
    own: Protocol = Protocol.WITHOUT,
) -> Any:
    """hwm_parking without and with the KIP; FETCHes and bytes in 160 s, even over time."""
    spreads, traffic = {}, {}
    pairs = zip((WITHOUT_KIP, WITH_KIP), lags, fetches, size, strict=True)
    for variant, lag, n, bytes_ in pairs:
        for name in (variant, *([RECORDED] if own.value == variant else [])):
            spreads["high_watermark_lag", name, "replica_kind", "broker", None] = lag
            traffic[name, "broker", None] = Traffic(
                n, n, request_bytes=bytes_, span_s=160.0, per_block=evenly(n, bytes_)
            )
    return replace(hwm(own=own), spreads=spreads, traffic=traffic)


def sessions(
    full: int, few: int, *, uses: bool, refused: int = 0, evicted: int = 0, held: int = 3
) -> Any:
    """incremental_fetch: bytes in 160 s in full and with sessions, even over time."""
    traffic = {
        (variant, "follower", None): Traffic(
            160, 160, request_bytes=size, span_s=160.0, per_block=evenly(160, size)
        )
        for variant, size in (("full", full), ("incremental", few))
    }
    none = {"incremental": 0, "equal": 0, "compared": 0}
    rows = {
        "verdicts": [verdict(RECORDED, 160, **{**none, "incremental": 150 * uses})],
        "turned_away": [{"refused": refused, "evicted": evicted}],
        "peaks": [peak(held)],
        "events": [],
    }
    return replace(fetch(), traffic=traffic, rows=rows)


def uneven(one: Any) -> Any:
    """Sessions that save everything in one block of time, and nothing in the others."""
    traffic = {
        key: replace(of, per_block=(*of.per_block[:2], (of.request_bytes, *(0,) * (BLOCKS - 1))))
        for key, of in one.traffic.items()
    }
    return replace(one, traffic=traffic)


def produces(all_: Percentiles, min_isr: Percentiles, exposure: Percentiles | None) -> Any:
    one = acks("one", {RECORDED: all_, "acks_all": all_, MIN_ISR: min_isr})
    spreads = {k: of for k, of in one.spreads.items() if k[0] != "exposure"}
    if exposure is not None:
        spreads["exposure", MIN_ISR, "all", "all", None] = exposure
    return replace(one, spreads=spreads)


def writes(window: Percentiles | None, known_after: Percentiles | None = None) -> Any:
    found = {("stale_window", ESTIMATED): window, ("read_after_write", LOWEST): known_after}
    spreads = {(*key, "all", "all", None): of for key, of in found.items() if of is not None}
    return replace(lowest(), spreads=spreads)


def decided(one: RuleFigures, **limits: float) -> Decision:
    """What the rule decides under the delivered limits but for some."""
    rules = {"hwm_parking": on_hwm, "incremental_fetch": on_fetch}
    rules |= {"min_isr_acks": on_acks, "lowest_acked_offset": on_lowest}
    return rules[one.NAME](one, CONFIG[one.NAME] | limits)


FAST = at(1, 2)
#: Sessions in use with which nothing is wrong.
FINE = sessions(3_200_000, 320_000, uses=True)


@pytest.mark.parametrize(
    ("one", "limits", "advice", "phrases"),
    [
        # KIP-1166
        (metadata((at(300, 320), FAST)), {}, "DO", ["With Kafka 4.1 or later, brokers", "sooner"]),
        (metadata((at(30, 32), FAST)), {}, "DONT", ["too little"]),
        (metadata((at(40, 60), FAST)), {}, "NOT_ENOUGH", ["reaches across its limit"]),
        (metadata((FEW, FAST)), {}, "NOT_ENOUGH", ["too little data for an interval"]),
        (
            metadata((at(300), FAST), fetches=(160, 3200)),
            {"decide_more_fetches_per_second_max": 18.9},
            "DONT",
            ["too many FETCHes or bytes"],
        ),
        (
            metadata((at(300), FAST), size=(1600, 32_000)),
            {"decide_more_bytes_per_second_max": 189.0},
            "DONT",
            ["too many FETCHes or bytes"],
        ),
        (
            metadata((at(300), FAST), fetches=(160, 3200), size=(1600, 32_000)),
            {"decide_more_fetches_per_second_max": 19.0, "decide_more_bytes_per_second_max": 190.0},
            "DO",
            [],
        ),
        (metadata((at(300), FAST), own=Protocol.MIXED), {}, "DO", ["on every node"]),
        (metadata((at(300), FAST), own=Protocol.WITH), {}, "NOTHING", ["This cluster runs KIP"]),
        # What a cluster runs needs no decision, however little else is known.
        (metadata((UNKNOWN, FAST), own=Protocol.WITH), {}, "NOTHING", ["This cluster runs KIP"]),
        # KIP-227
        (sessions(3_200_000, 320_000, uses=False), {}, "DO", ["No session is in use here. Ses"]),
        (sessions(320_000, 160_016, uses=False), {}, "DONT", ["No session is in use here. Ses"]),
        (sessions(160_000, 160_000, uses=False), {}, "DONT", ["Sessions save nothing."]),
        (uneven(sessions(3_200_000, 320, uses=False)), {}, "NOT_ENOUGH", ["reaches across"]),
        (FINE, {}, "NOTHING", ["at most 3 sessions at once.", "Sessions save 18.0 kB/s."]),
        (
            sessions(3_200_000, 320_000, uses=True, evicted=7),
            {},
            "DO",
            ["0 FETCHes requested a session and got none, 7 lost theirs"],
        ),
        (
            sessions(3_200_000, 320_000, uses=False, refused=1517),
            {},
            "DO",
            ["No session is in use here: 1,517 FETCHes requested a session and got none."],
        ),
        # KIP-926
        (produces(at(200, 210), at(10), at(900)), {}, "NOTHING_YET", ["no Kafka release has it"]),
        (produces(at(14), at(10), at(900)), {}, "DONT", ["That is too little"]),
        (produces(at(200), at(10), at(1100)), {}, "DONT", ["exposed for too long"]),
        (produces(at(10, 20), at(8, 9), at(900)), {}, "NOT_ENOUGH", ["reaches across"]),
        (produces(at(200), at(10), at(900, 1100)), {}, "NOT_ENOUGH", ["reaches across"]),
        (produces(FEW, at(10), at(900)), {}, "NOT_ENOUGH", ["too little data"]),
        (produces(at(200), at(10), FEW), {}, "NOT_ENOUGH", ["too little data"]),
        (produces(at(200), UNKNOWN, at(900)), {}, "NOT_ENOUGH", ["not known"]),
        # The draft of LowestAcknowledgedOffset
        (writes(at(200), at(3000)), {}, "NOTHING_YET", ["no Kafka release has it"]),
        (writes(at(60, 80), at(3000)), {}, "DONT", ["That is too little"]),
        (writes(at(60, 180), at(3000)), {}, "NOT_ENOUGH", ["reaches across"]),
        (writes(FEW, at(3000)), {}, "NOT_ENOUGH", ["too little data"]),
        (writes(UNKNOWN, at(3000)), {}, "NOT_ENOUGH", ["not known"]),
        (writes(at(200)), {}, "NOTHING_YET", ["some broker shows the old state for 200 ms"]),
    ],
)
def test_every_branch(
    one: RuleFigures, limits: Mapping[str, float], advice: str, phrases: Sequence[str]
) -> None:
    found = decided(one, **limits)
    assert (found.advice.name, found.is_withdrawn) == (advice, False)
    assert [phrase for phrase in phrases if phrase not in plain(found.reason)] == []
    # What there is to paste is about what to do now.
    assert bool(found.paste) == (found.advice is Advice.DO)


def test_gain_and_price_are_in_absolute_terms_with_their_intervals() -> None:
    found = decided(metadata((at(300, 320), at(1, 3)), fetches=(160, 320), size=(1600, 3200)))
    assert found.gain is not None
    assert (found.gain.before, found.gain.after) == (310.0, 2.0)
    assert found.gain.less_within == (297.0, 319.0)
    rates = [(price.unit, price.before, price.after, price.more_within) for price in found.price]
    assert rates == [("FETCHes/s", 1.0, 2.0, (1.0, 1.0)), ("B/s", 10.0, 20.0, (10.0, 10.0))]


@pytest.mark.parametrize(
    ("enough", "headroom", "slots"),
    [(0, 2.0, 1000), (496, 2.0, 1000), (504, 2.0, 1008), (5000, 1.5, 7504), (8, 1000.1, 8008)],
)
def test_slots_to_paste(enough: int, headroom: float, slots: int) -> None:
    """As many in each of a broker's eight shards (KIP-1086), never fewer than Kafka's default."""
    assert slots_for(enough, headroom) == slots
    one = sessions(3_200_000, 0, uses=True, refused=1, held=enough)
    paste = decided(one, decide_slots_headroom=headroom).paste
    assert paste.endswith(f"\nmax.incremental.fetch.session.cache.slots={slots}")


def test_slots_to_paste_are_never_fewer_than_there_are_and_count_what_the_log_does_not_show() -> (
    None
):
    one = sessions(3_200_000, 0, uses=True, evicted=1)
    began = replace(one, rows={**one.rows, "not_counted": [{"n": 2000}]})
    assert decided(began).paste.endswith("=4016")
    assert "and some of 2,000 that began before the log" in decided(began).reason
    there = replace(one, rows={**one.rows, "in_force": [{"in_force": 5000}]})
    assert decided(there).paste.endswith("=5000")


def test_what_sessions_save_is_not_made_up_of_the_few_that_are_known() -> None:
    """As where a log begins on a running cluster: sessions are there, and what they hold is not."""
    none = {"incremental": 0, "equal": 0, "compared": 0}
    rows = [verdict(RECORDED, 160, **{**none, "incremental": 150})]
    began = "the session began before the log"
    rows += [verdict(variant, 17, began, **none) for variant in ("full", "incremental")]
    one = sessions(3_200_000, 320_000, uses=True)
    found = decided(replace(one, rows={**one.rows, "verdicts": rows}))
    assert (found.advice, found.gain) == (Advice.NOTHING, None)
    assert (
        "What they save is not known of 17 of 160 FETCHes, most often since the session began "
        "before the log." in found.reason
    )
    rows[1:] = [row | {"n": 16} for row in rows[1:]]
    assert decided(replace(one, rows={**one.rows, "verdicts": rows})).gain is not None


def test_a_window_that_is_only_bounded_is_not_known_to_be_long() -> None:
    """Heartbeats prove late that a write is applied: it may have been any time before."""
    bound = {("stale_window", LOWEST, "all", "all", None): at(900, 1000)}
    assert decided(replace(lowest(), spreads=bound)).advice is Advice.NOT_ENOUGH
    short = {("stale_window", LOWEST, "all", "all", None): at(60, 80)}
    assert decided(replace(lowest(), spreads=short)).advice is Advice.DONT


#: Bounds of a percentile, in ms.
BOUNDS = st.tuples(*[st.integers(0, 400)] * 2).map(lambda ends: at(*sorted(ends)))
LIMITS = st.integers(0, 400).map(float)
#: From what is refused to what is advised, whether or not it can be had yet.
RANK = {"DONT": 0, "NOT_ENOUGH": 1, "DO": 2, "NOTHING_YET": 2}


def gain_limits(before: Percentiles, after: Percentiles) -> list[tuple[RuleFigures, str]]:
    """Figures of each rule that weighs percentiles, with the setting of their gain."""
    window = at(*(before.intervals["p50"] or ()))
    return [
        (metadata((before, after)), "decide_saved_ms_min"),
        (produces(before, after, at(0)), "decide_saved_ms_min"),
        (writes(window), "decide_stale_window_ms_min"),
    ]


@given(BOUNDS, LIMITS, LIMITS)
def test_more_affordable_never_advises_less(
    exposure: Percentiles, one_ms: float, other_ms: float
) -> None:
    figures = produces(at(300), at(1), exposure)
    less, more = (
        RANK[decided(figures, decide_exposure_ms_max=limit).advice.name]
        for limit in sorted((one_ms, other_ms))
    )
    assert less <= more


@given(BOUNDS, BOUNDS, LIMITS)
def test_a_verdict_has_its_whole_interval_on_one_side(
    before: Percentiles, after: Percentiles, limit: float
) -> None:
    for figures, setting in gain_limits(before, after):
        found = decided(figures, **{setting: limit})
        assert found.gain is not None
        within = found.gain.less_within
        assert within is not None
        assert within.low <= found.gain.less <= within.high
        expected = 2 if within.low >= limit else 0 if within.high < limit else 1
        assert RANK[found.advice.name] == expected


def test_what_never_rises_is_not_taken_to_rise() -> None:
    one = sessions(3_200_000, 320, uses=False)
    for few in (uneven(one), one):
        gain = decided(few).gain
        assert gain is not None
        assert gain.less_within is not None
        assert gain.less_within.low >= 0.0
    full, less = (one.traffic[variant, "follower", None] for variant in ("full", "incremental"))
    # Now and then sessions take more.
    some = (*less.per_block[:2], (full.request_bytes // 8, *less.per_block[2][1:]))
    spread = replace(less, per_block=some)
    two = uneven(one).traffic | {("incremental", "follower", None): spread}
    gain = decided(replace(one, traffic=two)).gain
    assert gain is not None
    assert gain.less_within is not None
    assert gain.less_within.low < 0.0


def test_an_error_of_predictions_widens_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was replayed may be off by as much as predictions were; what was recorded is not."""
    off = {(WITH_KIP, "fetches_per_second"): Error(relative=0.25)}
    monkeypatch.setattr(values, "errors", lambda rule: off)
    found = decided(metadata((at(300), FAST), fetches=(160, 320)))
    assert found.price[0].more_within == (0.5, 1.5)
