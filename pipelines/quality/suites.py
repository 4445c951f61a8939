"""Suites as data: what is expected of the tables, read from TOML files.

A suite is a file of conf/quality, what a rule's ``rule.toml`` expects, or a file of the user's
(docs/quality.md). What a table's declaration says, that no two rows have the same key, is stated in
no file: that is the suite ``keys``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kip_replay.pipelines import rule_files
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rule_files import RuleFile, Severity, Suite, conf_dir, of_rules, read_toml
from kip_replay.pipelines.rules import RULES
from kip_replay.replay.table import Table
from kip_replay.replay.tables import (
    TABLES,
    Decisions,
    Headlines,
    LatencyCurves,
    LatencyHistograms,
    Lineage,
    QualityFailures,
    QualityResult,
    ReplayState,
)

#: Written behind the check, or for bookkeeping; points of curves.
_KEYS_NOT_CHECKED = {
    *(Headlines, Decisions, Lineage, QualityFailures, QualityResult, ReplayState),
    *(LatencyCurves, LatencyHistograms),
}

#: Recordings that a rule has not replayed to their end, as lineage has it.
_GROWING = (
    "SELECT recording FROM lineage WHERE step = '{suite}' AND follows_from LIKE '%is_growing%'"
)
#: Columns that say where in the logs a row is from.
_WHERE = ("node_id", "source_file", "line_number")


@dataclass(frozen=True)
class Expectation:
    """One expectation of one table: ``query`` selects the rows that fail.

    ``recording`` is among their columns. ``condition``: on one row of the table, where that is
    enough to say that it fails. ``columns``: of the table, that a condition names.
    """

    suite: str
    table: str
    name: str
    query: str
    condition: str | None = None
    columns: tuple[str, ...] = ()
    severity: Severity = Severity.CRITICAL
    description: str | None = None
    of_all: bool = False

    @property
    def place(self) -> tuple[str, str, str]:
        return (self.suite, self.table, self.name)

    @property
    def says(self) -> str:
        return self.description or self.name

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
    files: list[tuple[str, Path, type[Suite]]] = [
        *((file.stem, file, Suite) for file in sorted((conf_dir() / "quality").glob("*.toml"))),
        *((file.parent.name, file, RuleFile) for file in of_rules("rule.toml")),
    ]
    for folder in more:
        theirs = sorted(folder.glob("*.toml"))
        if not theirs:
            raise UserError(
                f"there are no suites in {folder}: name a folder with *.toml files, such as "
                "conf/quality, in quality.more_suites"
            )
        files += [(file.stem, file, Suite) for file in theirs]
    expectations = [_unique(table) for table in TABLES.values() if table not in _KEYS_NOT_CHECKED]
    for name, file, schema in files:
        for entry in read_toml(file, schema).expectation:
            try:
                expectations += _of_tables(name, entry)
            except (KeyError, ValueError, IndexError) as error:
                raise UserError(f"{file} cannot be read: {error}: see docs/quality.md") from None
    return [*{expectation.place: expectation for expectation in expectations}.values()]


def _unique(table: Table) -> Expectation:
    key = _names(table.key)
    query = f"SELECT {key}, count(*) AS copies FROM {table.name} GROUP BY {key} HAVING count(*) > 1"
    says = "no two rows have the same key"
    return Expectation("keys", table.name, "key_is_unique", query, description=says)


def _of_tables(suite: str, entry: rule_files.StatedExpectation) -> Iterator[Expectation]:
    """An expectation for each table, of each condition."""
    expectation = partial(
        Expectation,
        suite,
        severity=entry.severity,
        description=entry.description,
        of_all=entry.of_all,
    )
    for table in _tables(entry):
        if entry.name and entry.unexpected_rows_query:
            growing = _GROWING.format(suite=suite)
            query = entry.unexpected_rows_query.format(batch=table.name, growing=growing)
            yield expectation(table.name, entry.name, query)
        for holds in entry.holds:
            condition = f"NOT ({holds})" + (f" AND ({entry.where})" if entry.where else "")
            columns = tuple(word for word in re.findall(r"\w+", holds) if word in table.names)
            where_it_is = [name for name in _WHERE if name in table.names]
            selected = _names(dict.fromkeys((*table.key, *where_it_is, *columns)))
            query = f"SELECT {selected} FROM {table.name} WHERE {condition}"
            name = entry.name or " ".join(holds.split())
            yield expectation(table.name, name, query, condition, columns)


def _tables(entry: rule_files.StatedExpectation) -> Iterator[Table]:
    for name in entry.tables or ():
        if name not in TABLES:
            raise ValueError(f"there is no table {name!r}; docs/tables.md lists them")
        yield TABLES[name]
    if entry.outcomes_with is not None:
        outcomes = (table for rule in RULES for table in rule.outcomes)
        yield from (table for table in outcomes if {*entry.outcomes_with} <= table.names)


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)
