"""Texts: how they are bound and put together, and what they become for Spark."""

import re
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from kip_replay.pipelines.engines.text import _MACRO, Text, bound, read_texts, tables_in
from kip_replay.pipelines.engines.translation import spark_sql
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rule_files import ROOT

#: Names of tables in a query's syntax tree, and those of its WITH.
NAMES = """
    SELECT json_extract_string(tree, '$..table_name'),
        json_extract_string(tree, '$..cte_map.map[*].key')
    FROM (SELECT json_serialize_sql(
        ?, skip_null := true, skip_empty := true, skip_default := true) AS tree)"""
#: Queries of what a page shows.
QUERY = re.compile(r'^query = ("""|")(.+?)\1$', re.MULTILINE | re.DOTALL)


def test_values_become_literals() -> None:
    at = datetime(2026, 11, 23, 6, tzinfo=UTC)
    values = {"name": "o'clock", "at": at, "numbers": [1, 2], "text": "$name"}
    assert bound("$name $at $numbers $text $later", values) == (
        "'o''clock' CAST('2026-11-23T06:00:00+00:00' AS TIMESTAMPTZ) [1, 2] '$name' $later"
    )


def test_parts_and_macros_are_read_with_a_text_once() -> None:
    macro = "CREATE TEMP MACRO twice(x) AS x + x;\n"
    ids = Text(f"{macro}SELECT twice(node_id) AS n FROM requests")
    least = Text(f"{macro}-- FROM produces\nSELECT twice(min(n)) AS n FROM ids", {"ids": ids})
    text = Text(
        "WITH topics AS (SELECT n FROM least, ids) SELECT n FROM topics JOIN fetches ON TRUE",
        {"least": least, "ids": ids, "brokers": Text("SELECT 1")},
    )
    assert text.names == {"fetches", "requests"}
    assert [*text.macros] == ["twice"]
    assert spark_sql(text).startswith(
        "WITH ids AS (SELECT node_id + node_id AS n FROM requests), "
        "least AS (SELECT MIN(n) + MIN(n) AS n FROM ids) SELECT * FROM (WITH topics"
    )


def test_two_texts_of_one_name_are_refused() -> None:
    one, other = (Text("SELECT * FROM ids", {"ids": Text(f"SELECT {n} AS n")}) for n in (1, 2))
    with pytest.raises(AssertionError, match="two texts ids"):
        spark_sql(Text("FROM one JOIN other ON TRUE", {"one": one, "other": other}))


def test_names_are_those_of_the_parser_of_duckdb() -> None:
    texts = [text for file in ROOT.glob("[pc]*/**/*.sql") for text in read_texts(file).values()]
    texts += [
        match[2]
        for each in ROOT.glob("pipelines/**/*.toml")
        for match in QUERY.finditer(each.read_text("utf-8"))
    ]
    assert len(texts) > 150
    with duckdb.connect() as parser:
        for text in texts:
            [(tables, of_with)] = parser.execute(NAMES, [_MACRO.sub("", text)]).fetchall()
            assert tables_in(text) == {*tables} - {*(of_with or ())}, text


def test_a_file_has_one_text_or_several_by_name(tmp_path: Path) -> None:
    file, other = tmp_path / "one.sql", tmp_path / "more.sql"
    file.write_text("SELECT 1\n")
    other.write_text("-- name: two\n-- A text.\nSELECT 2\n-- name: three\nSELECT 3\n")
    texts = {"two": "-- A text.\nSELECT 2\n", "three": "SELECT 3\n"}
    assert read_texts(file, other) == {"one": "SELECT 1\n", **texts}
    for more, message in {
        "SELECT 0\n-- name: two\nSELECT 2": "its first text needs a line `-- name: NAME`",
        "-- name: two\nSELECT 2\n-- name: two\nSELECT 3": "there is another text two",
        "-- name: one\nSELECT 2": "there is another text one",
    }.items():
        other.write_text(more)
        with pytest.raises(UserError, match=f"{other} cannot be read: {message}"):
            read_texts(file, other)


@pytest.mark.parametrize(
    ("query", "translated"),
    [
        (
            "SELECT 1 AS a, 2 AS b UNION ALL BY NAME SELECT 3 AS c, 4 AS a",
            "SELECT 1 AS a, 2 AS b, NULL AS c UNION ALL SELECT 4 AS a, NULL AS b, 3 AS c",
        ),
        (
            "WITH w AS (SELECT 1 AS a UNION ALL BY NAME SELECT 2 AS b) "
            "SELECT a FROM w UNION ALL BY NAME SELECT 3 AS c",
            "WITH w AS (SELECT 1 AS a, NULL AS b UNION ALL SELECT NULL AS a, 2 AS b) "
            "SELECT a, NULL AS c FROM w UNION ALL SELECT NULL AS a, 3 AS c",
        ),
        ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a NULLS LAST"),
        ("SELECT a // 2 AS b FROM t", "SELECT a DIV 2 AS b FROM t"),
        ("SELECT 'a\\d''' AS b", "SELECT 'a\\\\d\\'' AS b"),
        (
            "SELECT list_transform(l, lambda e: {'x': e.y}) AS m FROM t",
            "SELECT TRANSFORM(l, e -> STRUCT(e.y AS x)) AS m FROM t",
        ),
        (
            "SELECT list_sum(list_transform(l, lambda e: e.y)) AS m FROM t",
            "SELECT AGGREGATE(TRANSFORM(l, e -> e.y), CAST(0 AS BIGINT), (n, each) -> n + each)"
            " AS m FROM t",
        ),
    ],
)
def test_means_the_same_in_spark(query: str, translated: str) -> None:
    assert spark_sql(Text(query)) == translated


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("SELECT 1 FROM a ASOF JOIN b ON a.x >= b.x", "ASOF"),
        ("SELECT * FROM a UNION ALL BY NAME SELECT 1 AS b", "BY NAME of"),
        ("SELECT * EXCLUDE (x) FROM a", "EXCLUDE"),
        ("SELECT * REPLACE (1 AS x) FROM a", "REPLACE"),
        ("SELECT x FROM a QUALIFY row_number() OVER (ORDER BY x) = 1", "QUALIFY"),
        ("SELECT x + 1 AS y, y + 1 AS z FROM a", "the alias y"),
        ("SELECT round(x, 2) AS y FROM a", "round to decimals"),
        ("SELECT x / 2.0 AS y FROM a", "the decimal 2.0"),
        ("SELECT list(x ORDER BY y) AS l FROM a", "list"),
        ("SELECT $later AS x FROM a", "unbound"),
        (
            "SELECT sum(x) OVER (ORDER BY y ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
            " EXCLUDE CURRENT ROW) AS z FROM a",
            "EXCLUDE CURRENT ROW",
        ),
    ],
)
def test_what_spark_takes_for_something_else_is_refused(query: str, refused: str) -> None:
    with pytest.raises(ValueError, match=refused):
        spark_sql(Text(query))
