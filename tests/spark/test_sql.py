"""SQL on a warehouse: it only reads, says what every column is, and the page's answers are true."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip_replay.jobs import run
from kip_replay.jobs.sql import Shell, main, statements
from kip_replay.pipelines.analysis.catalog import Catalog, require_reading
from kip_replay.pipelines.analysis.sql_page import answered, queries
from kip_replay.pipelines.analysis.views import DUCKDB, SPARK, read_view, read_views
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import TABLES

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "sql.md"
#: All that docs/sql.md asks about; its answers are those of `make run`, which has more.
SAMPLES = [
    REPOSITORY / "data" / "samples" / name for name in ("acks-slow-follower", "metadata-4.1")
]


@pytest.fixture(scope="module")
def catalog(finished: Warehouse) -> Catalog:
    return Catalog(finished, read_views())


def test_every_column_of_every_table_and_view_has_a_comment(catalog: Catalog) -> None:
    named = {table.name for table in catalog.tables} | {view.name for view in catalog.views}
    assert named >= {view.name for view in read_views()}
    for name in sorted(named):
        columns = catalog.query(f"DESCRIBE {name}").collect()
        for column in columns:
            if column["col_name"].startswith("#"):
                break  # from here on the partitioning is told
            assert column["comment"], (name, column["col_name"])
        assert columns, name


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM requests WHERE node_id IN (SELECT 1)",
        "WITH a AS (SELECT 1 AS x) SELECT * FROM a;",
        "FROM requests |> AGGREGATE count(*)",
        "VALUES (1), (2)",
        "TABLE books",
        "SHOW TABLES",
        "SHOW CREATE TABLE requests",
        "DESCRIBE requests",
        "DESCRIBE HISTORY requests",
        "EXPLAIN DELETE FROM requests",
        "SELECT * FROM requests TIMESTAMP AS OF '2026-11-20' r JOIN books b USING (recording)",
        "SELECT * FROM (SELECT 1 AS a) PIVOT (sum(a) FOR a IN (1, 2))",
        "SELECT stack(2, 1, 2), explode(array(1)), sum(1) OVER w WINDOW w AS (PARTITION BY 1)",
        "SELECT /*+ BROADCAST(b) */ DISTINCT * FROM books TABLESAMPLE (5 ROWS) b LIMIT 1 OFFSET 1",
        "SELECT a FROM VALUES (1) AS v(a) EXCEPT SELECT id FROM range(9) ORDER BY a",
        "SELECT node_id FROM requests GROUP BY ALL HAVING count(*) > 1 INTERSECT VALUES (1)",
        "SELECT * FROM books, LATERAL (SELECT recording AS r) LATERAL VIEW explode(array(1)) AS e",
        "SELECT * FROM books UNPIVOT (n FOR k IN (requests, rejected))",
        "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 3) TABLE r",
        "SELECT transform(array(1), x -> x + 1), 'DELETE FROM requests' -- DROP TABLE requests",
    ],
)
def test_what_reads_is_allowed(catalog: Catalog, statement: str) -> None:
    require_reading(catalog.spark, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM requests",
        "UPDATE requests SET node_id = 1",
        "MERGE INTO requests USING books ON false WHEN MATCHED THEN DELETE",
        "INSERT INTO requests SELECT * FROM requests",
        "WITH a AS (SELECT * FROM requests) INSERT INTO requests SELECT * FROM a",
        "FROM requests INSERT INTO requests SELECT * INSERT INTO requests SELECT *",
        "INSERT OVERWRITE DIRECTORY '/tmp/nowhere' USING csv SELECT 1",
        "CREATE TABLE x AS SELECT 1",
        "CREATE TEMP VIEW x AS SELECT 1",
        "DROP TABLE requests",
        "TRUNCATE TABLE requests",
        "RESTORE TABLE requests TO VERSION AS OF 0",
        "OPTIMIZE requests",
        "VACUUM requests",
        "ALTER TABLE requests ADD COLUMN x INT",
        "SET spark.databricks.delta.retentionDurationCheck.enabled = false",
        "ADD JAR '/tmp/x.jar'",
        "CALL system.procedure()",
        "BEGIN DELETE FROM requests; END",
        "EXECUTE IMMEDIATE 'DELETE FROM requests'",
        "SELECT java_method('java.lang.System', 'exit', 1)",
        "SELECT * FROM requests WHERE node_id = (SELECT reflect('java.lang.System', 'exit', 1))",
        "WITH a AS (SELECT try_reflect('java.lang.System', 'exit', 1)) SELECT * FROM a",
        "SELECT TRANSFORM (node_id) USING 'cat' FROM requests",
        "SELECT * FROM (SELECT TRANSFORM (node_id) USING 'cat' FROM requests)",
        "SELECT EXISTS (SELECT TRANSFORM (node_id) USING 'cat' FROM requests)",
    ],
)
def test_what_does_more_is_refused_before_it_runs(catalog: Catalog, statement: str) -> None:
    with pytest.raises(UserError, match="this only reads"):
        catalog.query(statement)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT nothing FROM requests", "`nothing` cannot be resolved"),
        ("SELECT * FROM nowhere", "`nowhere` cannot be found"),
        ("SELEKT 1", "Syntax error"),
        ("SELECT raise_error('no such luck')", "no such luck"),
        ("SELECT raise_error('no such luck') FROM requests", "no such luck"),
    ],
)
def test_a_mistake_is_one_sentence(catalog: Catalog, statement: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as raised:
        Shell(catalog, "json", 10).run(statement)
    assert "\n" not in str(raised.value)
    assert "SQLSTATE" not in str(raised.value)


def test_a_statement_that_is_refused_prints_nothing_on_stdout(
    finished: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--warehouse", finished.path, "DROP TABLE requests"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "this only reads" in printed.err


def test_a_place_without_a_warehouse_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--warehouse", str(tmp_path), "SELECT 1"]) == 2
    assert "jobs.run" in capsys.readouterr().err


HOSTILE = r"""
  SELECT 1.5D AS d, true AS b, CAST(NULL AS INT) AS n,
    timestamp'2026-11-20 20:36:00.000001' AS t, named_struct('a', array(1)) AS s,
    'x,"\n\u001b[31m' AS text, X'0aff' AS bin, 1 AS text"""


def test_csv_and_json_are_rows_and_nothing_else(
    catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    Shell(catalog, "csv", 10).run(HOSTILE)
    head, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == ["d", "b", "n", "t", "s", "text", "bin", "text"]
    at = "2026-11-20T20:36:00.000001Z"
    assert row == ["1.5", "true", "", at, '{"a":[1]}', 'x,"\n\x1b[31m', "0AFF", "1"]

    Shell(catalog, "json", 10).run(HOSTILE)
    (line,) = capsys.readouterr().out.splitlines()
    read = json.loads(line, object_pairs_hook=list)
    assert read[:4] == [("d", 1.5), ("b", True), ("n", None), ("t", at)]

    Shell(catalog, "table", 10).run(HOSTILE)
    assert "\x1b" not in capsys.readouterr().out  # a terminal would obey it


def test_the_shell_takes_statements_and_words(
    finished: Warehouse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = (
        "tables\nSELECT recording\nFROM books\nORDER BY 1;\nformat csv\nSELECT 1 AS one;\nquit\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert main(["--warehouse", finished.path]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("books ")]
    assert said[-3:] == ["freeze-4.1", "one", "1"]


def test_statements_end_with_a_semicolon_at_the_end_of_a_line() -> None:
    typed = ["-- a comment", "", "tables;", "SELECT ';'", "  , 2 ;", "describe x", "SELECT 3"]
    assert list(statements(typed)) == ["tables", "SELECT ';'\n  , 2 ", "describe x", "SELECT 3"]


def test_no_more_rows_than_asked_for(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(Shell(catalog, "table", 3).table("SELECT id FROM range(10)")) == 4
    assert "more than 3 rows" in capsys.readouterr().err


def test_a_view_says_its_columns_as_its_query_gives_them(catalog: Catalog) -> None:
    for view in read_views():
        given = catalog.spark.sql(view.query).columns
        assert given == [name for name, _ in view.columns], view.name
        assert set(view.reads) <= set(TABLES)
        assert SPARK in view.engines
        assert set(view.engines) <= {SPARK, DUCKDB}


def test_a_view_without_its_comments_is_refused(tmp_path: Path) -> None:
    for text in ("SELECT 1", "-- a\n-- engines: spark\n", "-- a\n-- no colon\nSELECT 1"):
        (tmp_path / "v.sql").write_text(text)
        with pytest.raises(UserError, match="must begin with"):
            read_view(tmp_path / "v.sql")


def test_a_view_whose_tables_are_not_there_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(spark, tmp_path / "w")
    with pytest.raises(UserError, match="no tables"):
        Catalog(warehouse, [])
    warehouse.create_missing_tables([TABLES["ingested_files"]])
    small = Catalog(warehouse, read_views())
    assert [view.name for view in small.views] == ["books"]
    assert small.query("SELECT * FROM books").isEmpty()


@pytest.mark.slow
def test_the_answers_of_the_page_are_true(spark: SparkSession, tmp_path: Path) -> None:
    """Run `python -m jobs.sql --answer docs/sql.md` after a change that is meant."""
    path = tmp_path / "samples"
    options = ["--warehouse", str(path), "--set", "quality.in_run=false"]
    assert run.main([*map(str, SAMPLES), *options]) == 0
    page = PAGE.read_text(encoding="utf-8")
    assert len(queries(page)) >= 12
    shell = Shell(Catalog(Warehouse(spark, path), read_views()), "table", 1000)
    assert answered(page, shell.table) == page
