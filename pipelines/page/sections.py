"""What the sections of all rules share: their frame, tables and pictures of figures, doubts."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from markupsafe import Markup

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.page import accuracy, view, words
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.decisions import Advice, Decision
from kip_replay.pipelines.page.values import Curve, Percentiles, RuleFigures, known
from kip_replay.pipelines.page.view import (
    Block,
    Detail,
    Head,
    KeyFigure,
    Prose,
    Row,
    Section,
    Table,
)
from kip_replay.replay.outcomes import Verdict

#: With at least this share left, a change makes no difference worth a headline.
NO_DIFFERENCE = 0.9
#: Rows of doubts in each section, and names of recordings in each of them.
MOST_DOUBTS, MOST_NAMES = 20, 3

F = TypeVar("F", bound=RuleFigures)
#: A distribution by its name and CSS class.
Spread: TypeAlias = tuple[str, str, Percentiles | None]


def section(
    every: Sequence[F],
    checks: Sequence[Check],
    prose: Prose,
    overview: tuple[str, Sequence[Head], Callable[[F], Sequence[str]]],
    detail: Callable[[F], Detail],
    reported: Callable[[F], tuple[object, object]],
    decide: Callable[[F], Decision],
    limits: Sequence[str] = (),
) -> Section:
    """The section of a rule on a page.

    ``overview``: caption, columns and a recording's cells. ``reported``: a recording's requests and
    what is known of them; without either, the decision is a sentence of ``prose.silent``.
    ``limits``: what decisions rest on.
    """
    found = {one.recording: [bool(part) for part in reported(one)] for one in every}
    silent = {name: prose.silent[has.index(False)] for name, has in found.items() if not all(has)}
    telling = [one for one in every if one.recording not in silent]
    caption, heads, cells = overview
    rows = [Row(one.recording, cells(one)) for one in telling]
    return Section(
        prose,
        {
            one.recording: Decision(Advice.NOT_ENOUGH, f"These logs {silent[one.recording]}")
            if one.recording in silent
            else decide(one)
            for one in every
        },
        limits,
        Table(caption, heads, rows) if len(rows) > 1 else None,
        details=[detail(one) for one in telling],
        sure=f"Held against what real brokers did: {accuracy.sentence(checks)}"
        if any(check.tolerance is not None for check in checks)
        else "None of its predictions was held against what real brokers did.",
        doubts_count=_doubts_count(every),
        doubts=_doubt_table(every, prose),
    )


def steady(one: RuleFigures) -> str | None:
    """How long the steady phase was; None where there was none."""
    return f"{words.seconds(one.span_s)} of steady phase" if one.span_s else None


def before_after(before: str, after: str, note: str) -> Markup:
    spans = "<span class='without'>{}</span> → <span class='with'>{}</span>{}"
    return Markup(spans).format(before, after, note)


def ms_key(name: str, percentile: str, *spreads: Percentiles) -> KeyFigure:
    """A percentile in ms of one distribution, or of two: before and after."""
    figures = [words.short_ms(getattr(spread, percentile)) for spread in spreads]
    intervals = [spread.intervals.get(percentile) for spread in spreads]
    before = figures[0] if len(figures) > 1 else None
    return KeyFigure(name, before, figures[-1], "ms", within(intervals, words.short_ms))


def within(intervals: Sequence[Interval | None], wording: Callable[[float], str]) -> str:
    """Intervals for reading, in the order of their figures."""
    found = [of and f"{wording(of.low)} to {wording(of.high)}" for of in intervals]
    return " → ".join(of or "not enough data" for of in found) if any(found) else "not enough data"


def ms_cells(*spreads: Percentiles | None, of: Sequence[str]) -> list[str]:
    values = [getattr(spread, name) if spread else None for spread in spreads for name in of]
    return [words.number(value, 1) for value in values]


def unknown_cell(*spreads: Percentiles | None) -> str:
    """How many values are unknown, of several distributions the most."""
    return words.number(max((spread.unknown for spread in known(spreads)), default=None))


def spreads_of(one: RuleFigures, metric: str, variants: Iterable[str]) -> list[Spread]:
    of = ((v, one.spread(metric, v)) for v in variants)
    return [(words.variant_name(v), words.variant_class(v), spread) for v, spread in of]


def spread_table(caption: str, values: str, spreads: Iterable[Spread]) -> Table:
    """Distributions, those that are None left out; ``values``: what is counted."""
    head = ["", "median", "90 %", "99 %", "longest", f"{values}|soft", "unknown|soft"]
    rows = []
    for name, style, spread in spreads:
        if spread is not None:
            cells = ms_cells(spread, of=("p50", "p90", "p99", "max"))
            cells += [words.number(spread.count), words.number(spread.unknown)]
            rows.append(Row(name, cells, f"variant {style}"))
    return Table(caption, [Head(head)], rows)


def distributions(
    lines: Sequence[tuple[str, str, Curve | None, Percentiles | None]],
    axis_name: str,
    caption: tuple[str, str],
    tables: Sequence[Table],
) -> list[Block]:
    """A picture of distributions (class, label, curve and percentiles of each), then its tables.

    Drawn last is on top. ``caption``: in bold, and softly after it.
    """
    found = [(style, label, line, of) for style, label, line, of in lines if of is not None]
    drawn = []
    for style, label, line, _ in found:
        if line is not None:
            x, y = zip((line.start_ms, 0.0), *line.points, strict=True)
            drawn.append(view.Line(label, style, x, y))
    if not drawn:
        return [*tables]
    ms = words.milliseconds
    figures = (
        f"{name}: median {ms(of.p50)}, 99th percentile {ms(of.p99)}" for _, name, _, of in found
    )
    described = f"{'; '.join(figures)}."
    chart = view.Chart(
        *caption, described, axis_name, "share", drawn, (), "log", "share", is_stepped=True
    )
    return [view.Beside([chart, view.Beside(tables, side_by_side=False)])]


def bars(
    parts: Mapping[str, Sequence[tuple[str, float]]], caption: tuple[str, str], *, of_bytes: bool
) -> view.Bars:
    """A bar for each variant, of its parts: rates, or bytes a second in their best unit."""
    longest = max((sum(value for _, value in found) for found in parts.values()), default=0.0)
    scales = (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)) if of_bytes else ()
    smallest = ("B/s" if of_bytes else "/s", 1.0)
    unit, scale = next((one for one in scales if longest >= one[1]), smallest)
    rows = []
    for v, found in parts.items():
        scaled = [(part, value / scale) for part, value in found]
        rows.append(view.Bar(words.variant_name(v), words.variant_class(v), scaled))
    totals = ((bar.name, sum(value for _, value in bar.parts)) for bar in rows)
    described = "; ".join(f"{name}: {words.number(total, 1)} {unit}" for name, total in totals)
    return view.Bars(*caption, f"{described}.", unit, rows)


def _doubts_count(every: Iterable[RuleFigures]) -> str:
    """How many outcomes are unknown and how many do not apply, each counted under one variant."""
    counts = {Verdict.UNKNOWN.value: 0, Verdict.NOT_APPLICABLE.value: 0}
    for doubt in (doubt for one in every for doubt in one.doubts):
        counts[doubt.verdict] += max(doubt.counts.values(), default=0)
    unknown, elsewhere = (words.number(amount) for amount in counts.values())
    return f"{unknown} outcomes unknown, {elsewhere} to which the rule does not apply"


def _doubt_table(every: Sequence[RuleFigures], prose: Prose) -> Table | None:
    """Doubts of all recordings, what is unknown first, each reason once; None without any."""
    merged: dict[tuple[str, str, str], tuple[list[str], Counter[str]]] = {}
    for one in every:
        for doubt in one.doubts:
            key = doubt.what, doubt.verdict, doubt.reason
            recordings, counts = merged.setdefault(key, ([], Counter()))
            recordings.append(one.recording)
            counts.update(doubt.counts)
    if not merged:
        return None
    variants = words.in_order(variant for _, counts in merged.values() for variant in counts)

    def rank(key: tuple[str, str, str]) -> tuple[object, ...]:
        return key[1] != Verdict.UNKNOWN.value, -merged[key][1].total(), key

    rows = []
    for key in sorted(merged, key=rank)[:MOST_DOUBTS]:
        (what, verdict, reason), (recordings, counts) = key, merged[key]
        more = len(recordings) - MOST_NAMES
        others = f" and {words.number(more)} more" if more > 0 else ""
        named = ", ".join(recordings[:MOST_NAMES]) + others
        cells = [verdict.replace("_", " "), reason, named]
        cells += [words.number(counts.get(v)) for v in variants]
        rows.append(Row(prose.outcomes.get(what, what), cells))
    head = ["of", "verdict|left", "reason|left words", "recordings|left words"]
    head += [f"{words.variant_name(variant)}|number" for variant in variants]
    left_out = len(merged) - len(rows)
    caption = "What could not be judged, and why"
    return Table(caption, [Head(head)], rows, "wrap", left_out, prose.outcomes_in)
