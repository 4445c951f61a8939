"""What the template prints: sections, tables and figures as plain values.

Text is escaped by the template, only ``Markup`` is taken as it is. ``style`` is a list of CSS
classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

from markupsafe import Markup

from kip_replay.pipelines.page.decisions import Decision
from kip_replay.pipelines.page.words import texts


class Head(NamedTuple):
    """Neighbouring columns (``name|style``, the style that of their cells), a heading over them."""

    columns: Sequence[str]
    name: str = ""
    style: str = "gap"


class Row(NamedTuple):
    name: str
    cells: Sequence[str]
    style: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first column is that of the rows' names."""

    caption: str
    heads: Sequence[Head]
    rows: Sequence[Row]
    style: str = ""
    #: Rows that are not shown, and the table that has them.
    left_out: int = 0
    left_out_in: str = ""

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        split = [column.rpartition("|") for head in self.heads for column in head.columns]
        return [(name, style) if bar else (style, "") for name, bar, style in split]


@dataclass(frozen=True)
class Beside:  # where there is room; else one below the other, as one part of another
    parts: Sequence["Block"]
    side_by_side: bool = True


@dataclass(frozen=True)
class Note:  # a small paragraph
    text: str


class Line(NamedTuple):
    """A line of a chart; ``style`` is a CSS class such as ``with``. A y of None is a gap."""

    name: str
    style: str
    x: Sequence[float]
    y: Sequence[float | None]


class Mark(NamedTuple):
    """Something at an x of a chart: an event of the cluster, the knee of a curve."""

    x: float
    kind: str
    text: str


@dataclass(frozen=True)
class Chart:
    """A picture of lines, drawn in the browser; ``described`` says what it shows in words.

    ``x_scale``: ``number``, ``log`` or ``time`` (x is seconds since 1970). ``y_scale``: ``number``,
    ``log`` or ``share`` (0 to 1). ``is_stepped``: an empirical distribution. ``has_points``: x is
    what was tried, and nothing is known between two of them. ``lists_marks``: else another chart of
    its group does.
    """

    name: str
    note: str
    described: str
    x_name: str
    y_name: str
    lines: Sequence[Line]
    marks: Sequence[Mark] = ()
    x_scale: str = "number"
    y_scale: str = "number"
    is_stepped: bool = False
    has_points: bool = False
    lists_marks: bool = True


#: Figures of latencies. Of fewer values, the 99th percentile says what the median does.
PERCENTILES = {"median": "max(p50_ms)", "99 %": "if(max(outcomes) >= 5, max(p99_ms), NULL)"}


@dataclass(frozen=True)
class Timeline:
    """A chart with a line for each variant and figure of the rows of a view that meet ``where``.

    ``figures``: by name, SQL that sums up the rows of a variant and a bucket. ``is_rate``: nothing
    in a bucket is zero; of latencies it is no point.
    """

    name: str
    note: str
    view: str
    where: str = "true"
    figures: Mapping[str, str] = field(default_factory=lambda: PERCENTILES)
    is_rate: bool = False

    @classmethod
    def of(cls, rule: str) -> list[Self]:
        """Those that the rule's ``page.toml`` states."""
        return [cls(**stated) for stated in texts()[rule].get("timelines", ())]


class Bar(NamedTuple):
    """A bar of parts that are stacked, (name, value) from the left; ``style`` is a CSS class."""

    name: str
    style: str
    parts: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Bars:
    """Bars beside each other; values are in ``unit``, as in ``B/s``."""

    name: str
    note: str
    described: str
    unit: str
    bars: Sequence[Bar]


class Slow(NamedTuple):
    """A slow request (or write, or change): how long it took, and why in a sentence.

    ``source``: file and line in the log. ``topic`` is empty where it is about no topic.
    """

    ms: float
    node: str
    client: str
    topic: str
    sentence: str
    source: str


@dataclass(frozen=True)
class Slowest:
    """The slowest of something, sortable and filterable by node, client and topic."""

    name: str
    note: str
    rows: Sequence[Slow]


Block: TypeAlias = Table | Beside | Note | Chart | Bars | Slowest


class KeyFigure(NamedTuple):
    """A figure before and after; ``before`` is None where there is nothing to compare with.

    ``within``: the intervals of both.
    """

    name: str
    before: str | None
    after: str
    unit: str
    within: str = ""


class Detail(NamedTuple):
    name: str
    facts: Sequence[str]
    summary: Markup
    keys: Sequence[KeyFigure]
    keys_note: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Prose:
    """What a section says whatever the logs.

    ``short``: for the list of sections. ``proposal``: the KIP, and whether it is released.
    ``about``: what it changes. ``note``: printed if any recording has figures. ``outcomes``: what
    outcomes are of, in words; ``outcomes_in``: the tables that have them. ``silent``: that logs
    have none of its requests, that nothing is known of them. ``words``: a glossary.
    ``sources``: figures, each with the table and columns (between backticks) it comes from.
    """

    rule: str
    short: str
    question: str
    proposal: str
    about: str
    note: str
    outcomes: Mapping[str, str]
    outcomes_in: str
    silent: Sequence[str]
    method: Sequence[str]
    words: Sequence[Sequence[str]]
    sources: Sequence[Sequence[str]]

    @classmethod
    def of(cls, rule: str) -> Self:
        """What the rule's ``page.toml`` says: a line an item, one that is indented continues it."""
        found = dict(texts()[rule])
        for name in ("silent", "method", "words", "sources"):
            found[name] = found[name].replace("\n  ", " ").splitlines()
        for name in ("words", "sources"):
            found[name] = [line.split(" | ") for line in found[name]]
        return cls(rule, **{each.name: found[each.name] for each in fields(cls)[1:]})


@dataclass(frozen=True)
class Section:
    """What is reported of one rule in the recordings of a page.

    ``decisions``: by recording, in the order of the page; ``limits``: what they rest on, each with
    its setting. ``details``: of those with figures.
    """

    prose: Prose
    decisions: Mapping[str, Decision]
    limits: Sequence[str]
    table: Table | None
    details: Sequence[Detail]
    sure: str
    #: What the logs cannot decide: how much of it there is, and why.
    doubts_count: str
    doubts: Table | None
    #: The page's; ids of its parts begin with it.
    page: str = ""

    @property
    def id(self) -> str:
        return f"{self.page}{self.prose.rule.replace('_', '-')}"

    def shows(self, recording: str) -> bool:
        """Whether there is more on a recording than its verdict."""
        return any(one.name == recording for one in self.details)


class Alert(NamedTuple):
    """What is the matter with logs, or what a verdict was withdrawn for."""

    text: str
    is_critical: bool = True


@dataclass(frozen=True)
class Page:
    """A cluster as recorded: one recording, or those that are compared with each other.

    ``cluster``: its id as in the FETCHes of the metadata log, with versions of Kafka. ``traffic``:
    who sends what, by recording.
    """

    id: str
    recordings: Sequence[str]
    cluster: str
    alerts: Sequence[Alert]
    sections: Sequence[Section]
    accuracy: Mapping[str, Any]
    logs: Mapping[str, Any]
    traffic: Sequence[tuple[str, Sequence[Block]]] = ()

    @property
    def name(self) -> str:
        return " beside ".join(self.recordings)
