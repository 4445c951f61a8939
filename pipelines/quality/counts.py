"""Counts the rows that fail expectations: one text of all small tables, and one a large table.

What is expected of each row by itself is counted in one pass over its table; keys, and
expectations in SQL, take a query each. Both are parts of one text, which both engines run.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, product, starmap
from typing import Any

import duckdb

from kip_replay.pipelines.engines import NO_INPUTS, Engine, Inputs
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.printable import json_object
from kip_replay.pipelines.quality.results import Result
from kip_replay.pipelines.quality.suites import Expectation
from kip_replay.pipelines.warehouse.tables import sql_text
from kip_replay.replay.tables import TABLES, Lineage

#: Tables of less are counted together.
_SMALL_BYTES = 1 << 20


def validated(
    engine: Engine, recordings: Sequence[str], expectations: Sequence[Expectation], kept_rows: int
) -> list[Result]:
    """A result for each recording and expectation. Raises UserError for a wrong expectation."""
    of_tables: dict[str, list[Expectation]] = defaultdict(list)
    for expectation in sorted(expectations, key=lambda expectation: not expectation.condition):
        of_tables[expectation.table].append(expectation)
    texts: list[dict[str, list[Expectation]]] = [{}]
    for table, of_table in of_tables.items():
        files = engine.warehouse.files(TABLES[table], recordings)
        if sum(file["size_bytes"] for file in files) < _SMALL_BYTES:
            texts[0][table] = of_table
        else:
            texts.append({table: of_table})
    results = []
    for of_text in filter(None, texts):
        counts = _counted(engine, recordings, of_text)
        for name, (table, of_table) in product(recordings, of_text.items()):
            for number, expectation in enumerate(of_table):
                rows, failing = counts[name, table, -1], counts[name, table, number]
                first = _first_rows(engine, name, expectation, kept_rows) if failing else ()
                results.append(_result(name, expectation, rows, failing, first))
    return results


def _counted(
    engine: Engine, recordings: Sequence[str], of_tables: Mapping[str, Sequence[Expectation]]
) -> Counter[tuple[str, str, int]]:
    """Counts the rows of each recording and table that fail an expectation, by its number.

    -1: all rows. Raises UserError that names an expectation whose SQL is wrong.
    """
    counts: Counter[tuple[str, str, int]] = Counter()
    text = Text("\nUNION ALL ".join(starmap(_counting, of_tables.items())))
    try:
        parts = engine.rows(text, recordings, _inputs(engine, text, recordings)).to_pylist()
    except (duckdb.Error, ValueError) as error:
        expectations = [*chain(*of_tables.values())]
        if len(expectations) == 1:
            raise expectations[0].error(error) from None
        for expectation in expectations:
            _counted(engine, recordings, {expectation.table: [expectation]})
        raise
    for part in parts:
        for number, count in enumerate(part["counts"], start=part["first"]):
            counts[part["recording"], part["table_name"], number] = count
    return counts


def _inputs(engine: Engine, text: Text, recordings: Sequence[str]) -> Inputs:
    if Lineage.name not in text.names:
        return NO_INPUTS
    return {Lineage.name: engine.warehouse.lineage_table(recordings)}


def _counting(table: str, expectations: Sequence[Expectation]) -> str:
    """Counts the rows of a table that fail: rows of (recording, table_name, first, counts).

    ``counts`` are of the expectations from number ``first`` on, which begin with those that have
    conditions. Before them, at -1, is the number of the table's rows.
    """
    conditions = [it.condition for it in expectations if it.condition]
    counts = ["count(*)", *(f"count(CASE WHEN {condition} THEN 1 END)" for condition in conditions)]
    numbered = {f"({e.query}) AS failing": n for n, e in enumerate(expectations) if not e.condition}
    parts = [
        f"SELECT recording, '{table}' AS table_name, {first} AS first, [{counted}] AS counts "
        f"FROM {rows}"
        for rows, first, counted in (
            (table, -1, ", ".join(counts)),
            *((query, number, "count(*)") for query, number in numbered.items()),
        )
    ]
    return "\nUNION ALL ".join(f"{part} GROUP BY recording" for part in parts)


def _first_rows(
    engine: Engine, recording: str, expectation: Expectation, rows_max: int
) -> list[Mapping[str, Any]]:
    """The first failing rows of a recording, by their columns from left to right."""
    text = Text(
        f"SELECT * FROM ({expectation.query}) AS failing WHERE recording = {sql_text(recording)} "
        f"ORDER BY ALL NULLS FIRST LIMIT {rows_max}"
    )
    inputs = _inputs(engine, text, [recording])
    try:
        rows: list[Mapping[str, Any]] = engine.rows(text, [recording], inputs).to_pylist()
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
    values = {name: value for name, value in row.items() if name != "recording"}
    return json_object([*values], [*values.values()])
