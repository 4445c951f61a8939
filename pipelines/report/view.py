"""What the template prints: sections, tables and figures as plain values.

Text is escaped by the template, only ``Markup`` is taken as it is. ``style`` is a list of CSS
classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeAlias

from markupsafe import Markup

Text: TypeAlias = str | Markup


class Column(NamedTuple):
    """A column; ``style`` is that of its cells."""

    name: str
    style: str = ""


class Head(NamedTuple):
    """Neighbouring columns and the heading over them, if any; a str is ``name|style``."""

    columns: Sequence[Column | str]
    name: str = ""
    style: str = "gap"


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
    caption: str
    heads: Sequence[Head]
    rows: Sequence[Row]
    style: str = ""
    #: Rows that are not shown, and the table that has them.
    left_out: int = 0
    left_out_in: str = ""

    @cached_property
    def columns(self) -> list[Column]:
        """The columns under all headings."""
        return [
            Column(*column.split("|")) if isinstance(column, str) else column
            for head in self.heads
            for column in head.columns
        ]

    @property
    def groups(self) -> Sequence[Head]:
        """The headings; none if no columns have one."""
        return self.heads if any(head.name for head in self.heads) else ()


@dataclass(frozen=True)
class Figure:
    """A picture with its caption: what is printed bold, and what softly after it."""

    kind: ClassVar[str] = "figure"
    name: str
    note: str
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
    summary: Markup
    keys: Sequence[KeyFigure]
    keys_note: Text
    blocks: Sequence[Block]


class Source(NamedTuple):
    """Where a figure comes from: a table, and its columns between backticks."""

    figure: str
    table: str
    columns: str


@dataclass(frozen=True)
class Prose:
    """What a section says whatever the logs."""

    rule: str
    #: For the list of sections.
    short: str
    question: str
    #: The proposal, and whether it is released.
    proposal: str
    #: Printed if any recording has figures.
    note: str
    #: What outcomes are of, in words, and the tables that have them.
    outcomes: Mapping[str, str]
    outcomes_in: str
    method: Sequence[str]
    words: Mapping[str, str]
    sources: Sequence[Source]


@dataclass(frozen=True)
class Section:
    """What is reported of one rule. ``silent``: recordings without figures, by the reason."""

    prose: Prose
    answer: Markup
    price: Markup | None
    about: Text
    table: Table | None
    silent: Mapping[str, Sequence[str]]
    details: Sequence[Detail]
    left_out: Sequence[str]
    sure: Markup
    #: What the logs cannot decide: how much of it there is, and why.
    doubts_count: str
    doubts: Table | None

    @property
    def id(self) -> str:
        """The section's anchor."""
        return self.prose.rule.replace("_", "-")
