"""The rows that fail, found by DuckDB for all recordings at once.

All conditions on one table share one reading of it, and all references one reading of ``requests``.
Fetched are a count for each expectation and recording, and a bounded number of rows to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import duckdb

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import Expectation
from kip_replay.pipelines.warehouse.tables import sql_text
from kip_replay.replay.schema import AT, REQUESTS, Table

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


def find(
    database: duckdb.DuckDBPyConnection,
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    kept_rows: int,
) -> list[Finding]:
    """A finding for every recording and expectation; ``database`` has a view of every table.

    Raises UserError where the SQL of a suite is wrong.
    """
    numbered = [*enumerate(expectations)]
    with TemporaryDirectory(prefix="kip-replay-quality-") as spill:
        database.execute(f"SET temp_directory = {sql_text(spill)}")
        sizes = _sizes(database, {each.table.name for each in expectations})
        found = {
            (number, recording): (int(rows), tuple(kept or ()))
            for number, recording, rows, kept in _found(database, numbered, kept_rows)
        }
    nothing: tuple[int, tuple[str, ...]] = (0, ())
    return [
        Finding(
            recording,
            each,
            sizes.get((each.table.name, recording), 0),
            *found.get((number, recording), nothing),
        )
        for recording in recordings
        for number, each in numbered
    ]


def _sizes(
    database: duckdb.DuckDBPyConnection, tables: Iterable[str]
) -> dict[tuple[str, str], int]:
    counts = [
        f"SELECT {sql_text(table)}, recording, count(*) FROM {table} GROUP BY ALL"
        for table in tables
    ]
    rows = database.execute(" UNION ALL ".join(counts)).fetchall() if counts else []
    return {(table, recording): count for table, recording, count in rows}


def _found(
    database: duckdb.DuckDBPyConnection, expectations: Sequence[Numbered], kept_rows: int
) -> Iterator[Found]:
    def counted(rows: str) -> list[Found]:
        first = f"min(row, {kept_rows})"
        statement = f"SELECT number, recording, sum(n), {first} FROM ({rows}) GROUP BY ALL"
        return database.execute(statement).fetchall()

    conditions: dict[str, list[Numbered]] = defaultdict(list)
    references = []
    for number, each in expectations:
        if each.fails_where is not None:
            conditions[each.table.name].append((number, each))
        elif each.in_requests is not None:
            references.append((number, each))
        elif each.key:
            yield from counted(_shared_keys(number, each.table))
        else:
            with _naming(each):
                yield from counted(_of_query(database, number, each))
    if references:
        yield from counted(_not_in_requests(references))
    for of_table in conditions.values():
        yield from _of_conditions(database, of_table, kept_rows)


def _shared_keys(number: int, table: Table) -> str:
    """The keys that several rows have."""
    key = ", ".join(f'"{name}"' for name in table.key)
    row = _json([*_columns(table, table.key), ("rows", False)])
    return (
        f"SELECT {number} AS number, recording, rows AS n, {row} AS row "
        f"FROM (SELECT {key}, count(*) AS rows FROM {table.name} GROUP BY ALL HAVING rows > 1)"
    )


def _not_in_requests(references: Iterable[Numbered]) -> str:
    """The ids that no row of ``requests`` has."""
    ids = " UNION ALL ".join(
        f'SELECT {number} AS number, recording, "{each.in_requests}" AS request_id, count(*) AS n '
        f"FROM {each.table.name} GROUP BY ALL"
        for number, each in references
    )
    return (
        f"SELECT number, recording, n, {_json([('request_id', False)])} AS row FROM ({ids}) "
        f"ANTI JOIN {REQUESTS.name} USING (recording, request_id) WHERE request_id IS NOT NULL"
    )


def _of_query(database: duckdb.DuckDBPyConnection, number: int, expectation: Expectation) -> str:
    """The rows that a query gives."""
    query = f"FROM (\n{expectation.query}\n)"
    given = database.sql(query)
    row = _json(
        (name, str(kind) == "TIMESTAMP WITH TIME ZONE")
        for name, kind in zip(given.columns, given.types, strict=True)
    )
    return f"SELECT {number} AS number, recording, 1 AS n, {row} AS row {query}"


def _of_conditions(
    database: duckdb.DuckDBPyConnection, expectations: Sequence[Numbered], kept_rows: int
) -> Iterator[Found]:
    """The rows of a table that fail its conditions: one reading, unless one of them is wrong."""
    first = expectations[0][1]
    rows = ", ".join(
        f"CASE WHEN ({each.fails_where}\n) THEN {_json(_columns(each.table, each.kept_columns))} "
        f"END AS row_{number}"
        for number, each in expectations
    )
    counts = ", ".join(
        f"count(row_{number}), min(row_{number}, {kept_rows})" for number, _ in expectations
    )
    statement = (
        f"SELECT recording, {counts} FROM (SELECT recording, {rows} FROM {first.table.name}) "
        "GROUP BY recording"
    )
    if len(expectations) == 1:
        with _naming(first):
            fetched = database.execute(statement).fetchall()
    else:
        try:
            fetched = database.execute(statement).fetchall()
        except duckdb.Error:
            for each in expectations:
                yield from _of_conditions(database, [each], kept_rows)
            return
    for recording, *values in fetched:
        for place, (number, _) in enumerate(expectations):
            yield number, recording, values[2 * place], values[2 * place + 1]


def _columns(table: Table, names: Iterable[str]) -> list[tuple[str, bool]]:
    """Columns, and whether each is a time."""
    return [(name, table.arrow_schema.field(name).type == AT) for name in names]


def _json(columns: Iterable[tuple[str, bool]]) -> str:
    """The columns but the recording's, as one JSON object; times in ISO 8601, without ICU."""
    values = []
    for name, is_time in columns:
        value = '"' + name.replace('"', '""') + '"'
        if is_time:
            value = f"strftime(make_timestamp(epoch_us({value})), '%Y-%m-%dT%H:%M:%S.%fZ')"
        if name != "recording":
            values.append(f"{sql_text(name)}, {value}")
    return f"CAST(json_object({', '.join(values)}) AS VARCHAR)"


@contextmanager
def _naming(expectation: Expectation) -> Iterator[None]:
    """Turns DuckDB's errors into a UserError that names the expectation."""
    try:
        yield
    except duckdb.Error as error:
        said = (str(error).strip().splitlines() or ["no message"])[0]
        raise UserError(
            f"the expectation {expectation.name!r} of the suite {expectation.suite!r} is not "
            f"DuckDB SQL over the columns of docs/tables.md ({said}): correct it"
        ) from error
