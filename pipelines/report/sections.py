"""What the sections of all rules share: facts on recordings, doubts, and pictures from values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from markupsafe import Markup

from kip_replay.pipelines.report import accuracy, pictures, words
from kip_replay.pipelines.report.data import RecordingReport, Report
from kip_replay.pipelines.report.values import Curve, Doubt, Percentiles
from kip_replay.pipelines.report.view import Column, Detail, Row, Silent, Table
from kip_replay.replay.outcomes import Verdict

#: Fewer values than this are no ground for a headline where another recording has more.
LEAST_VALUES = 10
#: Shares of what is left that lie further apart are no one answer.
ONE_ANSWER = 0.25
#: Recordings with pictures and tables of their own, in each section.
MOST_DETAILS = 6
#: Rows of doubts in each section, and names of recordings in each of them.
MOST_DOUBTS, MOST_NAMES = 20, 3
#: Characters of a name inside a picture, where it cannot wrap.
NAME_CHARACTERS = 40


def bold(text: str) -> Markup:
    """The text as something to be seen first."""
    return Markup("<strong>{}</strong>").format(text)


def facts(recording: RecordingReport, *more: str | None) -> list[str]:
    """What is known of a recording: its Kafka version, and more; what is None is left out."""
    return [fact for fact in (version(recording), *more) if fact]


def version(recording: RecordingReport) -> str | None:
    """The Kafka version, as the manifest states it and as the logs show it."""
    logged = ", ".join(recording.logs.logged_versions)
    stated = recording.logs.stated_version
    if stated is None:
        return f"Kafka {logged}" if logged else None
    if not logged or recording.logs.logged_versions == (stated,):
        return f"Kafka {stated}"
    return f"Kafka {stated} as stated, {logged} in the logs"


def steady(span_s: float) -> str | None:
    """How long the steady phase was; None where there was none."""
    return f"{words.seconds(span_s)} of steady phase" if span_s else None


def enough(
    told: Sequence[RecordingReport], values: Callable[[RecordingReport], int]
) -> list[RecordingReport]:
    """The recordings with at least LEAST_VALUES values, or all where none has."""
    found = [recording for recording in told if values(recording) >= LEAST_VALUES]
    return found or [*told]


def most_and_least(
    told: Sequence[RecordingReport], share_left: Callable[[RecordingReport], float]
) -> tuple[RecordingReport, RecordingReport] | None:
    """The recordings where most and least changes; None where all give about the same answer.

    ``share_left``: of what is without the change, how much is left with it.
    """
    ranked = sorted(told, key=share_left)
    if not ranked or share_left(ranked[-1]) - share_left(ranked[0]) <= ONE_ANSWER:
        return None
    return ranked[0], ranked[-1]


def whereabouts(both: tuple[RecordingReport, RecordingReport], after: str, before: str) -> Markup:
    """Which recording an answer is about, and what it is in the one where least changes."""
    most, least = (Markup("<bdi>{}</bdi>").format(words.visible(one.name)) for one in both)
    return Markup(
        " That is {}, where it changes most; in {}, where it changes least, it is {} instead of {}."
    ).format(most, least, after, before)


def most_telling(
    told: Sequence[RecordingReport], weight: Callable[[RecordingReport], float]
) -> list[RecordingReport]:
    """Those with the most to tell first."""
    return sorted(told, key=weight, reverse=True)


def shown(details: Iterable[Callable[[], Detail]]) -> list[Detail]:
    """The first MOST_DETAILS; the others are not even made."""
    return [make() for make, _ in zip(details, range(MOST_DETAILS), strict=False)]


def silent(reasons: Iterable[tuple[RecordingReport, str | None]]) -> list[Silent]:
    """Recordings by the reason why they have nothing to say; None: they have something."""
    found: dict[str, list[str]] = {}
    for recording, reason in reasons:
        if reason is not None:
            found.setdefault(reason, []).append(recording.name)
    return [Silent(reason, names) for reason, names in found.items()]


def sure(report: Report, rule: str) -> Markup:
    """How the rule's predictions did against real brokers."""
    found = [check for check in report.checks if check.rule == rule]
    if not found:
        return Markup("None of its predictions was held against what real brokers did.")
    return Markup(
        "Held against what real brokers did: {} <a href='#accuracy-{}'>Each of them</a>."
    ).format(accuracy.sentence(found), rule.replace("_", "-"))


def ms_cells(found: Percentiles | None, *names: str) -> list[str]:
    """Percentiles for a table in ms."""
    return [words.number(getattr(found, name) if found else None, 1) for name in names]


def unknown_cell(*found: Percentiles | None) -> str:
    """How many values are unknown, of several distributions the most."""
    known = [one.unknown for one in found if one]
    return words.number(max(known)) if known else words.NOT_KNOWN


def distribution(
    name: str,
    recording: str,
    lines: Sequence[tuple[str, str, Curve | None, Percentiles | None]],
    axis_name: str,
    title: str,
) -> Markup | None:
    """A picture of several distributions: class, label, curve and percentiles of each line.

    Drawn last is on top. None where there is no line to draw.
    """
    drawn = [
        pictures.Line(style, label, curve, spread.p50)
        for style, label, curve, spread in lines
        if curve is not None and spread is not None
    ]
    if not drawn:
        return None
    described = "; ".join(
        f"{label}: median {words.milliseconds(spread.p50)}, "
        f"99th percentile {words.milliseconds(spread.p99)}"
        for _, label, _, spread in lines
        if spread is not None
    )
    named = words.shortened(recording, NAME_CHARACTERS)
    return pictures.distribution(name, drawn, axis_name, f"{title}, {named}", f"{described}.")


def size_scale(longest: float) -> tuple[str, float]:
    """Unit and divisor for bars of bytes a second."""
    for unit, scale in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if longest >= scale:
            return unit, scale
    return "B/s", 1.0


def bars(
    name: str,
    recording: str,
    parts: Mapping[str, Sequence[tuple[str, float]]],
    of_bytes: bool,
    title: str,
) -> Markup:
    """A bar for each variant, of its parts: rates, or bytes a second in their best unit."""
    longest = max((sum(value for _, value in found) for found in parts.values()), default=0.0)
    unit, scale = size_scale(longest) if of_bytes else ("/s", 1.0)
    rows = [
        pictures.Bar(
            words.variant_class(variant),
            words.variant_name(variant),
            tuple((part, value / scale) for part, value in found),
        )
        for variant, found in parts.items()
    ]
    described = "; ".join(f"{bar.label}: {words.number(bar.total, 1)} {unit}" for bar in rows)
    named = words.shortened(recording, NAME_CHARACTERS)
    return pictures.bars(name, rows, unit, f"{title}, {named}", f"{described}.")


def doubts_said(found: Iterable[tuple[str, Sequence[Doubt]]]) -> str:
    """How many outcomes are unknown and how many do not apply, each counted under one variant."""
    counts = {Verdict.UNKNOWN.value: 0, Verdict.NOT_APPLICABLE.value: 0}
    for _, doubts in found:
        for doubt in doubts:
            counts[doubt.verdict] += max(doubt.counts.values(), default=0)
    unknown, elsewhere = (words.number(amount) for amount in counts.values())
    return f"{unknown} outcomes unknown, {elsewhere} to which the rule does not apply"


def doubt_table(
    found: Sequence[tuple[str, Sequence[Doubt]]],
    names: Mapping[str, str],
    source: str,
    caption: str = "What could not be judged, and why",
) -> Table | None:
    """Doubts of all recordings, what is unknown first, each reason once; None without any.

    ``found``: name of a recording, its doubts. ``names``: what a doubt is of, in words.
    """
    merged: dict[tuple[str, str, str], tuple[list[str], dict[str, int]]] = {}
    for recording, doubts in found:
        for doubt in doubts:
            of_all = merged.setdefault((doubt.what, doubt.verdict, doubt.reason), ([], {}))
            of_all[0].append(recording)
            for variant, amount in doubt.counts.items():
                of_all[1][variant] = of_all[1].get(variant, 0) + amount
    if not merged:
        return None
    variants = words.in_order(variant for _, counts in merged.values() for variant in counts)
    ranked = sorted(
        merged.items(),
        key=lambda one: (
            one[0][1] != Verdict.UNKNOWN.value,
            -sum(one[1][1].values()),
            one[0],
        ),
    )
    rows = [
        Row(
            names.get(what, what),
            [
                verdict.replace("_", " "),
                reason,
                _names(recordings),
                *(words.number(counts.get(variant)) for variant in variants),
            ],
        )
        for (what, verdict, reason), (recordings, counts) in ranked[:MOST_DOUBTS]
    ]
    columns = [
        Column("of"),
        Column("verdict", "left"),
        Column("reason", "left words"),
        Column("recordings", "left words"),
        *(Column(words.variant_name(variant), "number") for variant in variants),
    ]
    left_out = len(ranked) - len(rows)
    return Table(caption, columns, rows, style="wrap", left_out=left_out, left_out_in=source)


def _names(recordings: Sequence[str]) -> str:
    if len(recordings) <= MOST_NAMES:
        return ", ".join(recordings)
    more = words.number(len(recordings) - MOST_NAMES)
    return f"{', '.join(recordings[:MOST_NAMES])} and {more} more"
