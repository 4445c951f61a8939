"""What the template prints: sections, tables and figures as plain values.

A rule's section module makes them; the template knows no rule. Text is escaped by the template,
only ``Markup`` is taken as it is. ``style`` is a list of CSS classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

from markupsafe import Markup

Text: TypeAlias = str | Markup


class Column(NamedTuple):
    """A column; ``style`` is that of its cells."""

    name: str
    style: str = ""


class Group(NamedTuple):
    """A heading over several columns."""

    name: str
    span: int
    style: str = ""


class Row(NamedTuple):
    """A row: its name and a cell for each further column."""

    name: str
    cells: Sequence[Text]
    style: str = ""
    row_style: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first column is that of the rows' names."""

    kind: ClassVar[str] = "table"
    caption: Text
    columns: Sequence[Column]
    rows: Sequence[Row]
    groups: Sequence[Group] = ()
    style: str = ""
    #: Rows that are not shown, and where they are.
    left_out: int = 0
    left_out_in: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture with its caption: what is printed bold, and what softly after it."""

    kind: ClassVar[str] = "figure"
    name: Text
    note: Text
    drawing: Markup


@dataclass(frozen=True)
class Beside:
    """Things that stand beside each other where there is room."""

    kind: ClassVar[str] = "beside"
    parts: Sequence[Figure | Table]


@dataclass(frozen=True)
class Note:
    """A small paragraph."""

    kind: ClassVar[str] = "note"
    text: Text


Block: TypeAlias = Table | Figure | Beside | Note


class KeyFigure(NamedTuple):
    """A figure before and after; ``before`` is None where there is nothing to compare with."""

    name: str
    before: str | None
    after: str
    unit: str


@dataclass(frozen=True)
class Detail:
    """One recording under one rule."""

    name: str
    facts: Sequence[str]
    said: Markup
    keys: Sequence[KeyFigure] = ()
    keys_note: Text = ""
    blocks: Sequence[Block] = ()


class Silent(NamedTuple):
    """Recordings that have nothing to say on a rule, and why."""

    reason: str
    recordings: Sequence[str]


class Source(NamedTuple):
    """Where a figure comes from: table, and columns."""

    figure: str
    table: str
    columns: Markup


@dataclass(frozen=True)
class Section:
    """All that is said of one rule."""

    rule: str
    #: For the list of sections.
    short: str
    question: str
    #: The proposal, and whether it is released.
    proposal: str
    answer: Markup
    price: Markup | None
    about: Markup
    table: Table | None = None
    notes: Sequence[Text] = ()
    silent: Sequence[Silent] = ()
    details: Sequence[Detail] = ()
    left_out: Sequence[str] = ()
    sure: Text = ""
    #: What the logs cannot decide: how much of it there is, and why.
    doubts_said: str = ""
    doubts: Table | None = None
    method: Sequence[Markup] = ()
    words: Sequence[tuple[str, str]] = field(default_factory=tuple)
    sources: Sequence[Source] = ()

    @property
    def id(self) -> str:
        """The section's anchor."""
        return self.rule.replace("_", "-")
