"""Counts the rows that fail expectations: one text a table, which both engines run.

What is expected of each row by itself is counted in one pass over its table; keys, and
expectations in SQL, take a query each. Both are parts of one text.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.printable import json_object
from kip_replay.pipelines.quality.results import Result
from kip_replay.pipelines.quality.suites import Expectation
from kip_replay.pipelines.warehouse.tables import sql_text


def validated(
    engine: Engine, recordings: Sequence[str], expectations: Sequence[Expectation], kept_rows: int
) -> list[Result]:
    """A result for each recording and expectation. Raises UserError for a wrong expectation."""
    of_tables: dict[str, list[Expectation]] = defaultdict(list)
    for expectation in sorted(expectations, key=lambda expectation: not expectation.condition):
        of_tables[expectation.table].append(expectation)
    results = []
    for of_table in of_tables.values():
        counts = _counted(engine, recordings, of_table)
        for name in recordings:
            for number, expectation in enumerate(of_table):
                failing = counts[name, number]
                first = _first_rows(engine, name, expectation, kept_rows) if failing else ()
                results.append(_result(name, expectation, counts[name, -1], failing, first))
    return results


def _counted(
    engine: Engine, recordings: Sequence[str], expectations: Sequence[Expectation]
) -> Counter[tuple[str, int]]:
    """Counts the rows of each recording that fail an expectation, by its number; -1: all rows.

    Raises UserError that names an expectation whose SQL is wrong.
    """
    counts: Counter[tuple[str, int]] = Counter()
    try:
        parts = engine.rows(Text(_counting(expectations)), recordings).to_pylist()
    except (duckdb.Error, ValueError) as error:
        if len(expectations) == 1:
            raise expectations[0].error(error) from None
        for expectation in expectations:
            _counted(engine, recordings, [expectation])
        raise
    for part in parts:
        for number, count in enumerate(part["counts"], start=part["first"]):
            counts[part["recording"], number] = count
    return counts


def _counting(expectations: Sequence[Expectation]) -> str:
    """Counts the rows of a table that fail: rows of (recording, first, counts).

    ``counts`` are of the expectations from number ``first`` on, which begin with those that have
    conditions. Before them, at -1, is the number of the table's rows.
    """
    conditions = [each.condition for each in expectations if each.condition]
    counts = ["count(*)", *(f"count(CASE WHEN {each} THEN 1 END)" for each in conditions)]
    table = expectations[0].table
    parts = [f"SELECT recording, -1 AS first, [{', '.join(counts)}] AS counts FROM {table}"]
    parts += [
        f"SELECT recording, {number} AS first, [count(*)] AS counts FROM ({each.query}) AS failing"
        for number, each in enumerate(expectations)
        if not each.condition
    ]
    return "\nUNION ALL ".join(f"{part} GROUP BY recording" for part in parts)


def _first_rows(
    engine: Engine, recording: str, expectation: Expectation, rows_max: int
) -> list[Mapping[str, Any]]:
    """The first failing rows of a recording, by their columns from left to right."""
    query = (
        f"SELECT * FROM ({expectation.query}) AS failing WHERE recording = {sql_text(recording)} "
        f"ORDER BY ALL NULLS FIRST LIMIT {rows_max}"
    )
    try:
        rows: list[Mapping[str, Any]] = engine.rows(Text(query), [recording]).to_pylist()
    except (duckdb.Error, ValueError) as error:
        raise expectation.error(error) from None
    return rows


def _result(
    recording: str,
    expectation: Expectation,
    rows_checked: int,
    failing_rows: int,
    first: Sequence[Mapping[str, Any]],
) -> Result:
    return Result(
        recording=recording,
        suite=expectation.suite,
        table_name=expectation.table,
        expectation=expectation.name,
        column_name=next(iter(expectation.columns), None),
        severity=expectation.severity.value,
        success=failing_rows == 0,
        observed=f"{failing_rows} failing, {rows_checked} in the table",
        failing_rows=failing_rows,
        rows_checked=rows_checked,
        says=expectation.says,
        kept=tuple(sorted(map(_text, first))),
    )


def _text(row: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in row.items() if name != "recording"}
    return json_object([*shown], [*shown.values()])
