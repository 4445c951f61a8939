"""Suites as data: what is expected of the tables, read from TOML files.

A suite is a file; its name is the file's. Each ``[[expectation]]`` in it says which rows fail, in
one of four ways (``Expectation``). ``tables`` instead of ``table`` says the same of several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.session import conf_dir
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES


class Severity(StrEnum):
    """What it means that rows fail; the words are Great Expectations'."""

    INFO = "info"
    """Worth knowing; nothing is wrong."""
    WARNING = "warning"
    """Figures may be off where the rows are."""
    CRITICAL = "critical"
    """What the tables say of that recording is not to be relied on: exit status 3."""


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One expectation of one table, ``says`` in words. Rows that fail are one of

    * ``fails_where``: those for which a condition in DuckDB SQL is true (null is not a failure);
    * ``query``: those that a SELECT over any tables gives, with ``recording`` among its columns;
      ``{table}`` in it is the table;
    * ``key``: rows of the table that share their key;
    * ``in_requests``: those whose value in this column, where not null, is the ``request_id`` of no
      row of ``requests``.

    ``shows``: columns that a failing row is kept with, beside the table's key and ``column``.
    """

    name: str
    severity: Severity
    says: str
    suite: str = ""
    table: str = ""
    tables: tuple[str, ...] = ()
    column: str | None = None
    fails_where: str | None = None
    query: str | None = None
    key: bool = False
    in_requests: str | None = None
    shows: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str, str]:
        """Suite, table and name, which no other expectation has."""
        return (self.suite, self.table, self.name)

    @property
    def schema(self) -> Table:
        return TABLES[self.table]

    @property
    def sql(self) -> str:
        """A query of the failing rows, or of their keys or references."""
        if self.query is not None:
            return self.query.replace("{table}", self.table).strip()
        if self.key:
            key = ", ".join(f'"{name}"' for name in self.schema.key)
            return f"SELECT {key}, count(*) AS rows\nFROM {self.table} GROUP BY ALL HAVING rows > 1"
        if self.in_requests:
            return (
                f"FROM {self.table} t ANTI JOIN requests r\n"
                f"ON t.recording = r.recording AND t.{self.in_requests} = r.request_id"
            )
        return f"FROM {self.table}\nWHERE {(self.fails_where or '').strip()}"

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """Columns that a failing row of ``fails_where`` is kept with."""
        column = (self.column,) if self.column else ()
        names = dict.fromkeys((*self.schema.key, *column, *self.shows))
        return tuple(name for name in names if name != "recording")


def load_suites(more: Sequence[Path] = ()) -> list[Expectation]:
    """The expectations of conf/quality and of more folders, in the order of files and their text.

    An expectation of a later folder replaces one with the same suite, name and table.
    Raises UserError.
    """
    found: dict[tuple[str, str, str], Expectation] = {}
    for folder in (conf_dir() / "quality", *more):
        files = sorted(folder.glob("*.toml"))
        if not files:
            raise UserError(
                f"there are no suites in {folder}: name a folder with *.toml files, such as "
                "conf/quality, in quality.more_suites"
            )
        for file in files:
            found |= _suite(file)
    return [*found.values()]


class _Suite(msgspec.Struct, forbid_unknown_fields=True):
    expectation: list[Expectation] = []


def _suite(file: Path) -> dict[tuple[str, str, str], Expectation]:
    try:
        suite = msgspec.toml.decode(file.read_bytes(), type=_Suite)
    except (OSError, ValueError) as error:
        said = str(error).replace("`", "'")
        raise UserError(f"the suite {file} cannot be read ({said}): see docs/quality.md") from None
    found: dict[tuple[str, str, str], Expectation] = {}
    for entry in suite.expectation:
        where = f"{file}: expectation {entry.name!r}"
        for each in _of_tables(where, msgspec.structs.replace(entry, suite=file.stem)):
            if each.place in found:
                raise UserError(f"{where} of {each.table} is there twice: give each its own name")
            found[each.place] = each
    return found


def _of_tables(where: str, entry: Expectation) -> Iterator[Expectation]:
    """The expectation of each of its tables. Raises UserError for what a type can't tell."""
    ways = (entry.fails_where, entry.query, entry.key or None, entry.in_requests)
    if sum(way is not None for way in ways) != 1:
        raise UserError(
            f"{where} needs exactly one of fails_where, query, key and in_requests: see "
            "docs/quality.md"
        )
    names = entry.tables or (entry.table,)
    if entry.tables and entry.table:
        raise UserError(f"{where} has a table and tables: take one of them away")
    for name in names:
        if name not in TABLES:
            raise UserError(f"{where}: there is no table {name!r}; docs/tables.md lists them")
        column = entry.column or entry.in_requests
        each = msgspec.structs.replace(entry, table=name, tables=(), column=column)
        strange = sorted({*each.kept_columns} - {column.name for column in each.schema.columns})
        if entry.query is None and strange:
            raise UserError(f"{where}: {name} has no column {', '.join(strange)}")
        yield each
