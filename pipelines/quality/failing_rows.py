"""The rows that fail, found by DuckDB for all recordings at once.

All conditions on one table share one reading of it, and all references one reading of ``requests``.
Fetched are a count for each expectation and recording, and a bounded number of rows to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import duckdb

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import Expectation
from kip_replay.pipelines.warehouse.tables import sql_text

#: An expectation with its number, which stands for it in SQL.
Numbered = tuple[int, Expectation]
#: Number of an expectation, recording, failing rows, the first of them as JSON.
Found = tuple[int, str, int, Sequence[str] | None]


@dataclass(frozen=True)
class Finding:
    """What was found of one expectation in one recording.

    ``rows_checked``: rows of the recording in the expectation's table. ``kept``: the first failing
    rows as JSON, in the order of their text.
    """

    recording: str
    expectation: Expectation
    rows_checked: int = 0
    failing_rows: int = 0
    kept: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Recording, suite, table and name, which no other finding has."""
        return (self.recording, *self.expectation.place)


@dataclass(frozen=True)
class Result:
    """Whether an expectation is met in a recording."""

    finding: Finding
    success: bool


def find(
    database: duckdb.DuckDBPyConnection,
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    kept_rows: int,
) -> list[Finding]:
    """A finding for every recording and expectation; ``database`` has a view of every table.

    Raises UserError where the SQL of a suite is wrong.
    """
    if not recordings:
        return []
    numbered = [*enumerate(expectations)]
    counts = [
        f"SELECT {sql_text(table)}, recording, count(*) FROM {table} GROUP BY ALL"
        for table in {each.table for each in expectations}
    ]
    with TemporaryDirectory(prefix="kip-replay-quality-") as spill:
        database.execute(f"SET temp_directory = {sql_text(spill)}")
        sizes = {
            (table, recording): count
            for table, recording, count in database.execute(" UNION ALL ".join(counts)).fetchall()
        }
        found = {
            (number, recording): (int(rows), tuple(kept or ()))
            for number, recording, rows, kept in _found(database, numbered, kept_rows)
        }
    nothing: tuple[int, tuple[str, ...]] = (0, ())
    return [
        Finding(
            recording,
            each,
            sizes.get((each.table, recording), 0),
            *found.get((number, recording), nothing),
        )
        for recording in recordings
        for number, each in numbered
    ]


def _found(
    database: duckdb.DuckDBPyConnection, expectations: Sequence[Numbered], kept_rows: int
) -> Iterator[Found]:
    def counted(query: str, number: str, rows: str) -> list[Found]:
        given = database.sql(query)
        ours = ("recording", "_number", "_rows")
        row = _json(given, [name for name in given.columns if name not in ours])
        return database.execute(
            f"SELECT {number}, recording, sum({rows}), min({row}, {kept_rows}) FROM ({query}) "
            "GROUP BY ALL"
        ).fetchall()

    conditions: dict[str, list[Numbered]] = defaultdict(list)
    references = []
    for number, each in expectations:
        if each.fails_where is not None:
            conditions[each.table].append((number, each))
        elif each.in_requests is not None:
            references.append(
                f"SELECT {number} AS _number, recording, {each.in_requests} AS request_id, "
                f"count(*) AS _rows FROM {each.table} GROUP BY ALL"
            )
        else:
            rows = "rows" if each.key else "1"
            with _naming(each):
                yield from counted(f"FROM (\n{each.sql}\n)", str(number), rows)
    if references:
        unknown = (
            f"FROM ({' UNION ALL '.join(references)}) ANTI JOIN requests "
            "USING (recording, request_id) WHERE request_id IS NOT NULL"
        )
        yield from counted(unknown, "_number", "_rows")
    for of_table in conditions.values():
        yield from _of_conditions(database, of_table, kept_rows)


def _of_conditions(
    database: duckdb.DuckDBPyConnection, expectations: Sequence[Numbered], kept_rows: int
) -> Iterator[Found]:
    """The rows of a table that fail its conditions: one reading."""
    table = expectations[0][1].table
    columns, cases, counts = database.sql(f"FROM {table}"), [], []
    for number, each in expectations:
        row = _json(columns, each.kept_columns)
        cases.append(f"CASE WHEN ({each.fails_where}\n) THEN {row} END AS row_{number}")
        counts.append(f"count(row_{number}), min(row_{number}, {kept_rows})")
    try:
        fetched = database.execute(
            f"SELECT recording, {', '.join(counts)} "
            f"FROM (SELECT recording, {', '.join(cases)} FROM {table}) GROUP BY recording"
        ).fetchall()
    except duckdb.Error:
        for _, each in expectations:
            with _naming(each):
                database.execute(f"SELECT count(*) FROM {table} WHERE ({each.fails_where}\n)")
        raise
    for recording, *values in fetched:
        for place, (number, _) in enumerate(expectations):
            yield number, recording, values[2 * place], values[2 * place + 1]


def _json(rows: duckdb.DuckDBPyRelation, names: Sequence[str]) -> str:
    """Some columns as one JSON object; times without ICU."""
    types = dict(zip(rows.columns, rows.types, strict=True))
    values = []
    for name in names:
        value = '"' + name.replace('"', '""') + '"'
        if str(types[name]) == "TIMESTAMP WITH TIME ZONE":
            value = f"strftime(make_timestamp(epoch_us({value})), '%Y-%m-%dT%H:%M:%S.%fZ')"
        values.append(f"{sql_text(name)}, {value}")
    return f"CAST(json_object({', '.join(values)}) AS VARCHAR)"


@contextmanager
def _naming(expectation: Expectation) -> Iterator[None]:
    """Turns mistakes in its SQL into a UserError that names the expectation."""
    try:
        yield
    except (duckdb.ProgrammingError, duckdb.DataError) as error:
        first_line = (str(error).strip().splitlines() or ["no message"])[0]
        raise UserError(
            f"the expectation {expectation.name!r} of the suite {expectation.suite!r} is not "
            f"DuckDB SQL over the columns of docs/tables.md ({first_line}): correct it"
        ) from error
