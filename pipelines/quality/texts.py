"""SQL of the rows that fail an expectation, and one text a table that counts them.

What an expectation says of each row by itself is counted in one pass over its table; keys, and
expectations in SQL, take a query each. Both are parts of one text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from kip_replay.pipelines.quality.suites import SQL, UNIQUE, Expectation
from kip_replay.pipelines.warehouse.tables import sql_text
from kip_replay.replay.tables import TABLES


@dataclass(frozen=True)
class Failing:
    """The rows that fail an expectation.

    ``query`` selects them, ``recording`` among their columns; ``count`` is how many rows one of
    the query's groups stands for. ``condition``: on one row of the table, where that is enough.
    """

    expectation: Expectation
    query: str
    count: str = "count(*)"
    condition: str | None = None


def failing(expectation: Expectation) -> Failing | None:
    """The failing rows as SQL; None for types and arguments that only Great Expectations has.

    Raises UserError for a query whose braces are not paired.
    """
    table, arguments = TABLES[expectation.table], dict(expectation.arguments)
    if expectation.type == SQL and {*arguments} == {"unexpected_rows_query"}:
        try:
            query = arguments["unexpected_rows_query"].format(batch=table.name)
        except (KeyError, ValueError, IndexError) as error:
            raise expectation.error(f"braces: {error!r}") from None
        return Failing(expectation, query)
    if expectation.type == UNIQUE and {*arguments} == {"column_list"}:
        columns = _names(dict.fromkeys(("recording", *arguments["column_list"])))
        query = (
            f"SELECT {columns}, count(*) AS copies FROM {table.name} "
            f"GROUP BY {columns} HAVING count(*) > 1"
        )
        return Failing(expectation, query, count="CAST(sum(copies) AS BIGINT)")
    condition = _condition(expectation.type, arguments)
    if condition is None:
        return None
    shown = dict.fromkeys(("recording", *table.key, *expectation.columns))
    query = f"SELECT {_names(shown)} FROM {table.name} WHERE {condition}"
    return Failing(expectation, query, condition=condition)


def counting(table: str, expected: Sequence[Failing]) -> str:
    """Counts the rows of each recording that fail: rows of (recording, first, counts).

    ``counts`` are of the expectations from number ``first`` on, the first of which are those with
    conditions. Before them, at -1, is the number of the table's rows.
    """
    conditions = [each.condition for each in expected if each.condition]
    counts = ["count(*)", *(f"count(CASE WHEN {each} THEN 1 END)" for each in conditions)]
    parts = [f"SELECT recording, -1 AS first, [{', '.join(counts)}] AS counts FROM {table}"]
    parts += [
        f"SELECT recording, {number} AS first, [{each.count}] AS counts FROM ({each.query}) AS f"
        for number, each in enumerate(expected)
        if not each.condition
    ]
    return "\nUNION ALL ".join(f"{part} GROUP BY recording" for part in parts)


def first_rows(expected: Failing, recording: str, rows_max: int) -> str:
    """The first failing rows of a recording, by their columns from left to right."""
    return (
        f"SELECT * FROM ({expected.query}) AS failing WHERE recording = {sql_text(recording)} "
        f"ORDER BY ALL NULLS FIRST LIMIT {rows_max}"
    )


def _condition(kind: str, arguments: Mapping[str, Any]) -> str | None:
    rows_of = dict(arguments)
    when = _when(rows_of.pop("row_condition", None))
    make = _CONDITIONS.get(kind)
    if make is None or when is None or not {*rows_of} <= {*signature(make).parameters}:
        return None
    return f"{when}({make(**rows_of)})"


def _when(condition: Mapping[str, Any] | None) -> str | None:
    """A plain comparison of a column with a value, in Great Expectations' form, as the beginning of
    a condition; None of others."""
    match condition:
        case None:
            return ""
        case {
            "type": "comparison",
            "column": {"name": str(column)},
            "operator": "==" | "!=" | "<" | "<=" | ">" | ">=" as operator,
            "parameter": value,
        }:
            compared = {"==": "=", "!=": "<>"}.get(operator, operator)
            return f'"{column}" {compared} {_literal(value)} AND '
    return None


def _is_outside(
    column: str,
    min_value: Any = None,
    max_value: Any = None,
    strict_min: bool = False,
    strict_max: bool = False,
) -> str:
    below = f'"{column}" {"<=" if strict_min else "<"} {_literal(min_value)}'
    above = f'"{column}" {">=" if strict_max else ">"} {_literal(max_value)}'
    bounds = ((min_value, below), (max_value, above))
    return " OR ".join(text for bound, text in bounds if bound is not None) or "FALSE"


#: By type: the condition on a row that fails, of an expectation's arguments.
_CONDITIONS: Mapping[str, Any] = {
    "expect_column_values_to_not_be_null": lambda column: f'"{column}" IS NULL',
    "expect_column_values_to_be_between": _is_outside,
    "expect_column_values_to_be_in_set": lambda column, value_set: (
        f'"{column}" NOT IN ({", ".join(map(_literal, value_set))})'
    ),
    # Neither Great Expectations nor SQL counts a pair of which one is missing.
    "expect_column_pair_values_a_to_be_greater_than_b": (
        lambda column_A, column_B, or_equal=False, ignore_row_if="": (
            f'"{column_A}" {"<" if or_equal else "<="} "{column_B}"'
        )
    ),
}


def _literal(value: Any) -> str:
    """A number or truth as it is, anything else, such as a time, as text."""
    return str(value) if isinstance(value, int | float) else sql_text(str(value))


def _names(columns: Any) -> str:
    return ", ".join(f'"{column}"' for column in columns)
