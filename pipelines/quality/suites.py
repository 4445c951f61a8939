"""Suites as data: what is expected of the tables, read from TOML files.

A suite is a file; its name is the file's. Each ``[[expectation]]`` in it says which rows fail, in
one of four ways:

* ``fails_where``: a condition on one row of ``table``, in DuckDB SQL; null is not a failure.
* ``query``: a SELECT of failing rows over any tables, with ``recording`` among its columns.
  ``{table}`` in it is the table named.
* ``key = true``: rows of ``table`` that share their key.
* ``in_requests = "request_id"``: rows of ``table`` whose value in that column, where not null, is
  the ``request_id`` of no row of ``requests``.

``tables`` instead of ``table`` says the same of several. Columns are those of ``replay.schema``.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.session import conf_dir
from kip_replay.replay.schema import TABLES, Table


class Severity(StrEnum):
    """What it means that rows fail; the words are Great Expectations'."""

    INFO = "info"
    """Worth knowing; nothing is wrong."""
    WARNING = "warning"
    """Figures may be off where the rows are."""
    CRITICAL = "critical"
    """What the tables say of that recording is not to be relied on: exit status 3."""


@dataclass(frozen=True)
class Expectation:
    """One expectation of one table.

    One of ``fails_where``, ``query``, ``key`` and ``in_requests`` is set. ``shows`` are columns
    that a failing row is kept with, beside the table's key and ``column``.
    """

    suite: str
    name: str
    table: Table
    severity: Severity
    says: str
    column: str | None = None
    fails_where: str | None = None
    query: str | None = None
    key: bool = False
    in_requests: str | None = None
    shows: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str, str]:
        """Suite, table and name, which no other expectation has."""
        return (self.suite, self.table.name, self.name)

    @property
    def sql(self) -> str:
        """What finds the failing rows, for people to read."""
        table, columns = self.table.name, ", ".join(self.table.key)
        if self.query is not None:
            return self.query.strip()
        if self.key:
            return f"SELECT {columns} FROM {table}\nGROUP BY ALL HAVING count(*) > 1"
        if self.in_requests:
            ids = "SELECT recording, request_id FROM requests"
            return f"FROM {table}\nWHERE (recording, {self.in_requests}) NOT IN ({ids})"
        return f"FROM {table}\nWHERE {(self.fails_where or '').strip()}"

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """Columns that a failing row of ``fails_where`` is kept with."""
        column = (self.column,) if self.column else ()
        names = dict.fromkeys((*self.table.key, *column, *self.shows))
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
            found |= {each.place: each for each in _suite(file)}
    return [*found.values()]


def _suite(file: Path) -> list[Expectation]:
    try:
        suite = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"the suite {file} cannot be read ({error}): correct it") from None
    entries = suite.pop("expectation", [])
    if suite or not isinstance(entries, list):
        raise UserError(f"the suite {file} may hold [[expectation]] and nothing else: correct it")
    made = [each for entry in entries for each in _expectations(file, entry)]
    counts = Counter(f"{each.name} of {each.table.name}" for each in made)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise UserError(f"{file} has {', '.join(repeated)} twice: give each its own name")
    return made


_WAYS = ("fails_where", "query", "key", "in_requests")
_KNOWN = {"name", "table", "tables", "severity", "says", "column", "shows", *_WAYS}


def _expectations(file: Path, entry: Mapping[str, Any]) -> Iterable[Expectation]:
    where = f"{file}: expectation {entry.get('name', '(without a name)')!r}"
    unknown = set(entry) - _KNOWN
    if unknown:
        raise UserError(f"{where} has {sorted(unknown)}: there are {', '.join(sorted(_KNOWN))}")
    missing = [key for key in ("name", "severity", "says") if not isinstance(entry.get(key), str)]
    if missing:
        raise UserError(f"{where} lacks {', '.join(missing)}: add it, as text")
    if sum(key in entry for key in _WAYS) != 1:
        raise UserError(f"{where} needs exactly one of {', '.join(_WAYS)}: see docs/quality.md")
    if entry["severity"] not in [*Severity]:
        raise UserError(f"{where}: severity is one of {', '.join(Severity)}, lower case")
    names = entry.get("tables", [entry["table"]] if "table" in entry else [])
    if not names or not isinstance(names, list) or {"table", "tables"} <= set(entry):
        raise UserError(f"{where} needs a table (or tables, a list) that it speaks of: add it")
    for name in names:
        if name not in [*TABLES]:
            raise UserError(f"{where}: there is no table {name!r}; docs/tables.md lists them")
        yield _expectation(file.stem, where, entry, TABLES[name])


def _expectation(suite: str, where: str, entry: Mapping[str, Any], table: Table) -> Expectation:
    query = entry.get("query")
    shows = tuple(entry.get("shows", ()))
    columns = {column.name for column in table.columns}
    kept = [*shows, *(entry[key] for key in ("column", "in_requests") if key in entry)]
    strange = [str(name) for name in kept if name not in columns] if query is None else []
    if strange:
        raise UserError(f"{where}: {table.name} has no column {', '.join(strange)}")
    return Expectation(
        suite=suite,
        name=entry["name"],
        table=table,
        severity=Severity(entry["severity"]),
        says=entry["says"],
        column=entry.get("column", entry.get("in_requests")),
        fails_where=entry.get("fails_where"),
        query=query and query.replace("{table}", table.name),
        key="key" in entry,
        in_requests=entry.get("in_requests"),
        shows=shows,
    )
