"""What the sections of all rules share: their frame, tables and pictures of figures, doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from markupsafe import Markup

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.report import accuracy, pictures, words
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.values import Curve, Percentiles, RuleFigures, known
from kip_replay.pipelines.report.view import (
    Beside,
    Detail,
    Figure,
    Head,
    KeyFigure,
    Prose,
    Row,
    Section,
    Table,
)
from kip_replay.replay.outcomes import Verdict

#: Fewer values than this are no ground for a headline where another recording has more.
LEAST_VALUES = 10
#: Shares of what is left that lie further apart are no one answer.
ONE_ANSWER = 0.25
#: With at least this share left, a change makes no difference worth a headline.
NO_DIFFERENCE = 0.9
#: Recordings with pictures and tables of their own, in each section.
MOST_DETAILS = 6
#: Rows of doubts in each section, and names of recordings in each of them.
MOST_DOUBTS, MOST_NAMES = 20, 3
#: Characters of a name inside a picture, where it cannot wrap.
NAME_CHARACTERS = 40

F = TypeVar("F", bound=RuleFigures)
#: A distribution by its name and CSS class.
Spread: TypeAlias = tuple[str, str, Percentiles | None]


def section(
    every: Sequence[F],
    checks: Sequence[Check],
    prose: Prose,
    answers: tuple[Markup, Markup | None],
    overview: tuple[str, Sequence[Head], Callable[[F], Sequence[str]]],
    detail: Callable[[F, int], Detail],
    reported: Callable[[F], tuple[object, object]],
    weight: Callable[[F], float],
) -> Section:
    """The section of a rule.

    ``answers``: what it does and its price. ``overview``: caption, columns and a recording's cells.
    ``reported``: a recording's requests and what is known of them; without either it has a sentence
    of ``prose.silent``. ``weight``: those of the largest have pictures and tables of their own.
    """
    found = {one.recording: [bool(part) for part in reported(one)] for one in every}
    reasons = {name: prose.silent[has.index(False)] for name, has in found.items() if not all(has)}
    telling = [one for one in every if one.recording not in reasons]
    ranked = sorted(telling, key=weight, reverse=True)
    caption, heads, cells = overview
    rows = [Row(one.recording, cells(one)) for one in telling]
    of_reason = {w: [name for name, why in reasons.items() if why == w] for w in reasons.values()}
    return Section(
        prose,
        *answers,
        Table(caption, heads, rows) if rows else None,
        of_reason,
        details=[detail(one, place) for place, one in enumerate(ranked[:MOST_DETAILS])],
        left_out=[one.recording for one in ranked[MOST_DETAILS:]],
        sure=_sure(prose.rule, checks),
        doubts_count=_doubts_count(every),
        doubts=_doubt_table(every, prose),
    )


def _sure(rule: str, checks: Sequence[Check]) -> Markup:
    if not checks:
        return Markup("None of its predictions was held against what real brokers did.")
    return Markup(
        "Held against what real brokers did: {} <a href='#accuracy-{}'>Each of them</a>."
    ).format(accuracy.sentence(checks), rule.replace("_", "-"))


def enough(telling: Sequence[F], values: Callable[[F], int]) -> list[F]:
    """The recordings with at least LEAST_VALUES values, or all where none has."""
    return [one for one in telling if values(one) >= LEAST_VALUES] or [*telling]


def answer(
    telling: Sequence[F],
    share_left: Callable[[F], float],
    little: Markup,
    text: Callable[[Sequence[F]], Markup],
    ends: Callable[[Sequence[F]], Sequence[str]],
) -> Markup:
    """The answer of all recordings, or of the one where most changes, and of the least beside it.

    ``share_left``: of what is without the change, how much is left with it. ``little``: the answer
    if nothing changes; ``text``: that of some recordings; ``ends``: what is with it, and without.
    """
    ranked = sorted(telling, key=share_left)
    if share_left(ranked[0]) >= NO_DIFFERENCE:
        return little
    if share_left(ranked[-1]) - share_left(ranked[0]) <= ONE_ANSWER:
        return text(telling)
    pair = ranked[0], ranked[-1]
    most, least = (Markup("<bdi>{}</bdi>").format(words.visible(one.recording)) for one in pair)
    return text(pair[:1]) + Markup(
        " That is {}, where it changes most; in {}, where it changes least, it is {} instead of {}."
    ).format(most, least, *ends(pair[1:]))


def steady(one: RuleFigures) -> str | None:
    """How long the steady phase was; None where there was none."""
    return f"{words.seconds(one.span_s)} of steady phase" if one.span_s else None


def before_after(before: str, after: str, note: str) -> Markup:
    """What stands under key figures: the two variants in their colours, then a note."""
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
    """Percentiles for a table in ms."""
    values = [getattr(spread, name) if spread else None for spread in spreads for name in of]
    return [words.number(value, 1) for value in values]


def unknown_cell(*spreads: Percentiles | None) -> str:
    """How many values are unknown, of several distributions the most."""
    return words.number(max((spread.unknown for spread in known(spreads)), default=None))


def variant_row(variant: str, cells: Sequence[str]) -> Row:
    """The row of a variant, in its colour."""
    return Row(words.variant_name(variant), cells, f"variant {words.variant_class(variant)}")


def variant_head(variant: str, columns: Sequence[str]) -> Head:
    """Columns under the name of a variant, in its colour."""
    return Head(columns, words.variant_name(variant), f"gap {words.variant_class(variant)}")


def spreads_of(one: RuleFigures, metric: str, variants: Iterable[str]) -> list[Spread]:
    """The distributions of a metric by variant."""
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


def sweep(
    one: RuleFigures,
    caption: str,
    heads: Sequence[Head],
    cells: Callable[[int | None], Sequence[str]],
    last: str | None,
    unit: str = "",
) -> Iterator[Table]:
    """A row for each value of the sweep and, named ``last``, one without; nothing without any."""
    rows = [Row(f"{words.number(at)}{unit}", cells(at)) for at in one.swept]
    if rows:
        yield Table(caption, heads, [*rows, *([Row(last, cells(None))] if last else [])])


def distributions(
    figures: RuleFigures,
    name: str,
    lines: Sequence[tuple[str, str, Curve | None, Percentiles | None]],
    axis_name: str,
    title: str,
    caption: tuple[str, str],
    tables: Sequence[Table],
) -> list[Beside | Table]:
    """A picture of distributions (class, label, curve and percentiles of each) beside its tables.

    Drawn last is on top. ``caption``: in bold, and softly after it.
    """
    found = [(style, label, line, of) for style, label, line, of in lines if of is not None]
    drawn = [pictures.Line(style, label, line, of.p50) for style, label, line, of in found if line]
    if not drawn:
        return [*tables]
    described = "; ".join(
        f"{label}: median {words.milliseconds(of.p50)}, "
        f"99th percentile {words.milliseconds(of.p99)}"
        for _, label, _, of in found
    )
    named = f"{title}, {words.shortened(figures.recording, NAME_CHARACTERS)}"
    picture = pictures.distribution(name, drawn, axis_name, named, f"{described}.")
    return [Beside([Figure(*caption, picture), *tables])]


def bars(
    figures: RuleFigures,
    name: str,
    parts: Mapping[str, Sequence[tuple[str, float]]],
    title: str,
    caption: tuple[str, str],
    *,
    of_bytes: bool,
) -> Figure:
    """A bar for each variant, of its parts: rates, or bytes a second in their best unit."""
    longest = max((sum(value for _, value in found) for found in parts.values()), default=0.0)
    scales = (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)) if of_bytes else ()
    smallest = ("B/s" if of_bytes else "/s", 1.0)
    unit, scale = next((one for one in scales if longest >= one[1]), smallest)
    rows = []
    for v, found in parts.items():
        scaled = tuple((part, value / scale) for part, value in found)
        rows.append(pictures.Bar(words.variant_class(v), words.variant_name(v), scaled))
    described = "; ".join(f"{bar.label}: {words.number(bar.total, 1)} {unit}" for bar in rows)
    named = f"{title}, {words.shortened(figures.recording, NAME_CHARACTERS)}"
    return Figure(*caption, pictures.bars(name, rows, unit, named, f"{described}."))


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
