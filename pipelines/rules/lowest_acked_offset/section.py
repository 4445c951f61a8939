"""lowest_acked_offset in tables and pictures: when metadata writes are everywhere, who knows it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.page import decisions, sections, view, words
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.decisions import Advice, Decision, Effect, Limits, at_least
from kip_replay.pipelines.page.values import known
from kip_replay.pipelines.page.view import Detail, Head, Note, Prose, Row, Section, Table
from kip_replay.pipelines.rules.lowest_acked_offset import words as text
from kip_replay.pipelines.rules.lowest_acked_offset.figures import READ_AFTER_WRITE, STALE, Figures
from kip_replay.replay.lowest_acked_offset import ESTIMATED, LOWEST_ACKED

_SPREAD, _COLUMNS = ("p50", "p90"), ("median|gap", "90 %")
_OVERVIEW = (
    Head(["recording"]),
    Head(_COLUMNS, "stale window, estimated", "gap without"),
    Head(_COLUMNS, "at most, by heartbeats", "gap without"),
    Head(_COLUMNS, "readable everywhere, estimated", "gap without"),
    Head(["median|gap with", "90 %| with"], "known by the draft", "gap with"),
    Head(["writes|soft gap", "unknown|soft"]),
)
_APIS = (
    Head(["request"]),
    *_OVERVIEW[1:3],
    Head(_COLUMNS, "read-after-write by the draft", "gap with"),
    _OVERVIEW[-1],
)


def section(every: Sequence[Figures], checks: Sequence[Check], limits: Limits) -> Section:
    caption = "How late a metadata write is applied everywhere, and known to be, ms"
    overview = caption, _OVERVIEW, _overview
    prose, weighed = Prose.of(Figures.NAME), (partial(decide, limits=limits), rests_on(limits))
    made = sections.section(every, checks, prose, overview, _detail, _reported, *weighed)
    return replace(made, sure=made.sure + text.as_clients_saw(checks))


def _reported(one: Figures) -> tuple[object, object]:
    return (one.writes, one.window or one.read_after_write)


def _overview(one: Figures) -> list[str]:
    spreads = [one.estimated, one.stale, one.readable, one.read_after_write]
    cells = sections.ms_cells(*spreads, of=_SPREAD)
    return [*cells, words.number(one.writes), sections.unknown_cell(*spreads)]


def _detail(one: Figures) -> Detail:
    facts = known([one.version, words.count(one.writes, "metadata write")])
    name = "Stale window" if one.is_estimated else "Stale window at most"
    windows = (name, one.window), ("Read-after-write", one.read_after_write)
    keys = [
        sections.ms_key(f"{name}, {which}", p, spread)
        for name, spread in windows
        if spread is not None
        for which, p in (("median", "p50"), ("90 %", "p90"))
    ]
    note = (
        "The stale window begins with the response and ends when the last broker shows the write, "
        "as estimated; read-after-write begins with the request and ends when the broker "
        "that forwarded it knows that."
    )
    blocks = [*_visibility(one), *_by_api(one)]
    blocks += [Note(sentence) for sentence in known([text.interval_sentence(one)])]
    return Detail(one.recording, facts, text.summary(one), keys, note, blocks)


def _visibility(one: Figures) -> Sequence[view.Block]:
    variants = words.in_order(one.variants(swept=False))
    stale, known_after = (sections.spreads_of(one, m, variants) for m in (STALE, READ_AFTER_WRITE))
    tables = [
        sections.spread_table("Stale window, from the response, ms", "writes", stale),
        sections.spread_table("Read-after-write, from the request, ms", "writes", known_after),
    ]
    lines = [
        (style, label, one.curves.get((metric, variant, "all")), one.spread(metric, variant))
        for style, label, metric, variant in (
            ("without", "stale window", STALE, ESTIMATED),
            ("other", "at most, by heartbeats", STALE, LOWEST_ACKED),
            ("with", "read-after-write", READ_AFTER_WRITE, LOWEST_ACKED),
        )
    ]
    axis = "ms after the response (stale window) or the request (read-after-write)"
    return sections.distributions(lines, axis, ("Metadata writes", "share after so long"), tables)


def _by_api(one: Figures) -> Iterator[Table]:
    rows = []
    for api in one.apis:
        spreads = one.of_api(api)
        writes = words.number(max(spread.values for spread in known(spreads)))
        cells = sections.ms_cells(*spreads, of=_SPREAD)
        rows.append(Row(api, [*cells, writes, sections.unknown_cell(*spreads)]))
    if len(rows) > 1:
        yield Table("By kind of write, ms", _APIS, rows)


_GAIN = "decide_stale_window_ms_min"


def rests_on(limits: Limits) -> list[str]:
    least = words.milliseconds(limits[_GAIN])
    return [f"gain: a stale window of at least {least} (lowest_acked_offset.{_GAIN})"]


def decide(one: Figures, limits: Limits) -> Decision:
    """Worth having where some broker shows the old state for long enough after the response."""
    window, known_after = one.window, one.read_after_write
    if window is None or window.p50 is None:
        why = decisions.mostly(one)
        reason = f"Of most metadata writes it is not known when every broker had them{why}."
        return Decision(Advice.NOT_ENOUGH, reason)
    within = window.intervals.get("p50")
    if within and not one.is_estimated:
        within = Interval(0.0, within.high)  # a bound: it may be over any time before
    name = "how long clients may read old metadata, if they wait for that to end (median)"
    gain = Effect(name, "ms", window.p50, 0.0, within)
    price = []
    if known_after is not None and known_after.p50 is not None:
        within = known_after.intervals.get("p50")
        price = [decisions.from_none("how long they then wait (median)", known_after.p50, within)]
    up_to = "" if one.is_estimated else "up to "
    reason = (
        f"After the response to a metadata write, some broker shows the old state for {up_to}"
        f"{words.milliseconds(window.p50)} (median)."
    )
    advice = decisions.weighed(at_least(gain.less_within, limits[_GAIN]))
    if advice is Advice.DO:
        advice = Advice.NOTHING_YET
        reason += " A client could wait for its end with the draft; no Kafka release has it."
    elif advice is Advice.DONT:
        reason += " That is too little to wait for."
    else:
        reason += f" {decisions.unsure(gain.less_within)}"
    return Decision(advice, reason, gain, price)
