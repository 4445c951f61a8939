"""Suites as data: what is expected of the tables, read from TOML files.

A suite is a file of conf/quality, a rule's ``quality.toml``, or a file of the user's. Its entries
are Great Expectations' own expectations, by type and arguments (docs/quality.md).
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.folders import conf_dir, of_rules
from kip_replay.pipelines.rules import RULES
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

SQL = "unexpected_rows_expectation"
UNIQUE = "expect_compound_columns_to_be_unique"


class Severity(StrEnum):
    """Grades rows that fail; the words are Great Expectations'."""

    INFO = "info"
    """Worth knowing; nothing is wrong."""
    WARNING = "warning"
    """Figures may be off where the rows are."""
    CRITICAL = "critical"
    """What the tables say of that recording is not to be relied on: exit status 3."""


@dataclass(frozen=True)
class Expectation:
    """One expectation of one table: Great Expectations' ``type`` with its ``arguments``.

    ``of_all``: it compares what only the whole of a recording has, such as sums with rows.
    """

    suite: str
    table: str
    name: str
    type: str
    severity: Severity
    arguments: Mapping[str, Any] = field(hash=False)
    description: str | None = None
    of_all: bool = False

    @property
    def place(self) -> tuple[str, str, str]:
        return (self.suite, self.table, self.name)

    @property
    def says(self) -> str:
        return self.description or self.name.replace("_", " ")

    @property
    def columns(self) -> list[str]:
        return _columns(self.arguments)

    def error(self, message: object) -> UserError:
        """That it cannot be validated, with the first line of why."""
        return UserError(
            f"the expectation {self.name!r} of {self.table} in the suite {self.suite!r} cannot be "
            f"validated ({' '.join(str(message).split())[:300]}): see docs/quality.md"
        )


def load_suites(more: Sequence[Path] = ()) -> list[Expectation]:
    """The expectations that ship, and of the files ``*.toml`` in more folders.

    One of a later file replaces one with the same suite, table and name. Raises UserError.
    """
    suites = {file.stem: file for file in sorted((conf_dir() / "quality").glob("*.toml"))}
    suites |= {file.parent.name: file for file in of_rules("quality.toml")}
    found = {each.place: each for name, file in suites.items() for each in _suite(name, file)}
    for folder in more:
        theirs = sorted(folder.glob("*.toml"))
        if not theirs:
            raise UserError(
                f"there are no suites in {folder}: name a folder with *.toml files, such as "
                "conf/quality, in quality.more_suites"
            )
        found |= {each.place: each for file in theirs for each in _suite(file.stem, file)}
    return [*found.values()]


def _suite(name: str, file: Path) -> list[Expectation]:
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8")).get("expectation", [])
    except (OSError, ValueError) as error:
        raise UserError(f"the suite {file} cannot be read ({error}): see docs/quality.md") from None
    found: list[Expectation] = []
    for number, entry in enumerate(entries, start=1):
        try:
            found += _of_tables(name, entry)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"expectation {number} of {file} is wrong ({error}): see docs/quality.md"
            ) from None
    return found


def _of_tables(suite: str, entry: dict[str, Any]) -> Iterator[Expectation]:
    """An expectation for each column, or pair of columns, of each table that has them."""
    arguments = dict(entry)
    kind = arguments.pop("type", SQL)
    name, description = arguments.pop("name", ""), arguments.pop("description", None)
    severity = Severity(arguments.pop("severity", Severity.CRITICAL))
    of_all = arguments.pop("of_all", False)
    domains: list[dict[str, Any]] = [{"column": name} for name in arguments.pop("columns", [])]
    domains += [
        {"column_A": a, "column_B": b, "ignore_row_if": "either_value_is_missing"}
        for a, b in arguments.pop("pairs", [])
    ]
    tables = [*_tables(arguments.pop("tables", None), arguments.pop("outcomes_with", None))]
    for domain in domains or [{}]:
        given = arguments | domain
        named = _columns(given)
        having = [table for table in tables if {*named} <= table.names]
        if tables and not having:
            of = " or ".join(table.name for table in tables)
            raise ValueError(f"{of} has no column {' or '.join(named)}")
        words = name or " ".join([kind.removeprefix("expect_"), *named])
        for table in having:
            its = {"column_list": [*table.key]} | given if kind == UNIQUE else given
            yield Expectation(suite, table.name, words, kind, severity, its, description, of_all)


def _columns(arguments: Mapping[str, Any]) -> list[str]:
    names = ("column", "column_A", "column_B")
    return [arguments[name] for name in names if name in arguments]


def _tables(names: Sequence[str] | None, columns: Sequence[str] | None) -> Iterator[Table]:
    """Tables by name, or every rule's outcome tables that have some columns."""
    if (names is None) == (columns is None):
        raise ValueError("it needs one of tables and outcomes_with")
    for name in names or ():
        if name not in TABLES:
            raise ValueError(f"there is no table {name!r}; docs/tables.md lists them")
        yield TABLES[name]
    if columns is not None:
        outcomes = (table for rule in RULES for table in rule.outcomes)
        yield from (each for each in outcomes if {*columns} <= {*each.arrow_schema.names})
