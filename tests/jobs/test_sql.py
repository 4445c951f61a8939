"""SQL on a warehouse: it only reads, says what every column is, and prints rows as they are."""

import csv
import gc
import io
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from made_rows import made_rows

from kip_replay.jobs.sql import Printer, main, with_answers
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import View, read_view, read_views
from kip_replay.pipelines.errors import UserError
from kip_replay.replay.tables import TABLES

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    for table in TABLES.values():
        rows = made_rows(table, 500)
        write_deltalake(str(folder / table.name), rows, partition_by=[*table.partitioned_by])
    return folder


@pytest.fixture(scope="module")
def catalog(warehouse: Path) -> Catalog:
    return Catalog(str(warehouse), read_views(), seconds=20)


def rows_of(catalog: Catalog, statement: str) -> list[tuple[Any, ...]]:
    return list(catalog.query(statement).rows)


# --- only reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM requests", "this only reads"),
        ("DROP TABLE requests", "this only reads"),
        ("COPY (SELECT 1) TO '{folder}/written.csv'", "this only reads"),
        ("ATTACH '{folder}/other.db'", "this only reads"),
        ("SET enable_external_access = true", "this only reads"),
        ("SELECT 1; DROP VIEW requests", "this only reads"),
        ("FROM read_text('{folder}/secret')", "disabled"),
        ("FROM '{folder}/secret.csv'", "disabled"),
        ("SELECT * FROM local", "does not exist"),
    ],
)
def test_nothing_is_written_and_no_file_is_read(
    catalog: Catalog, tmp_path: Path, statement: str, message: str
) -> None:
    local = pa.table({"word": ["a variable of Python"]})
    (tmp_path / "secret").write_text("secret")
    before = rows_of(catalog, "SELECT count(*), sum(node_id) FROM requests")
    with pytest.raises(UserError, match=message):
        rows_of(catalog, statement.replace("{folder}", str(tmp_path)))
    assert local.num_rows == 1  # it was in sight
    assert [*tmp_path.iterdir()] == [tmp_path / "secret"]
    assert rows_of(catalog, "SELECT count(*), sum(node_id) FROM requests") == before


ENDLESS = [f"SELECT {figure} FROM range(1000000000000)" for figure in ("count(*)", "range")]


def test_a_statement_that_takes_too_long_ends(warehouse: Path) -> None:
    short = Catalog(str(warehouse), [], seconds=1)
    for statement in ENDLESS:
        with pytest.raises(UserError, match="maximum execution time"):
            for _ in short.query(statement).rows:
                pass
    assert rows_of(short, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("statement", ENDLESS)
def test_ctrl_c_ends_a_statement(catalog: Catalog, statement: str) -> None:
    """Before its time is over, which would be a UserError."""

    def interrupted() -> list[tuple[Any, ...]]:
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
        return rows_of(catalog, statement)

    gc.disable()  # raised in one of its callbacks, KeyboardInterrupt would be lost
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
        gc.enable()
    assert rows_of(catalog, "SELECT 1") == [(1,)]


# --- what is printed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT nothing FROM requests", '"nothing" not found'),
        (
            "SELECT recordin FROM topics",
            'not found in FROM clause! Candidate bindings: "recording"',
        ),
        ("SELECT * FROM requestz", 'requestz does not exist! Did you mean "requests"'),
        ("SELECT sum('a', 'b')", r"Candidate functions: sum\(arg DECIMAL\) -> DECIMAL; sum"),
        ("SELEKT 1", "syntax error"),
        ("SELECT error('no such luck')", "^no such luck$"),
        ("SELECT error('no such luck') FROM requests", "^no such luck$"),
        ("SELECT if(range < 99999, 1, error('late')) FROM range(100000)", "^late$"),
        ("SELECT timestamp 'infinity'", "out of range"),
        ("", "this only reads"),
    ],
)
@pytest.mark.parametrize("output", ["table", "csv", "json"])
def test_a_mistake_is_one_sentence(
    catalog: Catalog, statement: str, message: str, output: str
) -> None:
    with pytest.raises(UserError, match=message) as raised:
        Printer(catalog, output, 10**6).run(statement)
    assert "\n" not in str(raised.value)
    assert " Error: " not in str(raised.value)


def test_a_mistake_ends_with_status_2_and_nothing_on_stdout(
    warehouse: Path, capsys: Capsys
) -> None:
    zero_rows, no_page = ["--rows", "0", "SELECT 1"], ["--answer", "/nowhere/page.md"]
    wrong = (["DROP VIEW requests"], ["SELECT nothing FROM requests"])
    for mistake in ([], *wrong, zero_rows, no_page):
        assert main(["--warehouse", str(warehouse), *mistake]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1


def test_a_folder_without_a_warehouse_is_named(tmp_path: Path, capsys: Capsys) -> None:
    assert main(["--warehouse", str(tmp_path), "SELECT 1"]) == 2
    assert f"No warehouse in {tmp_path}" in capsys.readouterr().err


HOSTILE = """
  SELECT 1.5::DOUBLE AS d, true AS b, CAST(NULL AS INT) AS n, sum(1) AS h,
    TIMESTAMP '2026-11-20 20:36:00.000001' AS t, TIMESTAMPTZ '2026-11-20 22:36:00+02' AS z,
    {'a': [1], 't': TIMESTAMPTZ '2026-11-20 20:36:00Z'} AS s, MAP {1: DATE '2026-11-20'} AS m,
    'x,"' || chr(10) || chr(27) || '[31m' AS text, '\\x0a\\xff'::BLOB AS bin, 1.50 AS text,
    INTERVAL 90 SECONDS AS i, 'nan'::DOUBLE AS nan"""


def test_csv_and_json_are_rows_and_nothing_else(catalog: Catalog, capsys: Capsys) -> None:
    Printer(catalog, "csv", 10).run(HOSTILE)
    head, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == ["d", "b", "n", "h", "t", "z", "s", "m", "text", "bin", "text", "i", "nan"]
    times = ["2026-11-20T20:36:00.000001Z", "2026-11-20T20:36:00.000000Z"]
    nested = ['{"a":[1],"t":"2026-11-20T20:36:00.000000Z"}', '{"1":"2026-11-20"}']
    tail = ['x,"\n\x1b[31m', "0AFF", "1.50", "P0M0DT90.000000S", "nan"]
    assert row == ["1.5", "true", "", "1", *times, *nested, *tail]

    Printer(catalog, "json", 10).run(HOSTILE)
    (line,) = capsys.readouterr().out.splitlines()
    read = json.loads(line, object_pairs_hook=list)
    assert read[:4] == [("d", 1.5), ("b", True), ("n", None), ("h", 1)]
    assert read[4:6] == [("t", times[0]), ("z", times[1])]
    assert read[7:9] == [("m", [("1", "2026-11-20")]), ("text", 'x,"\n\x1b[31m')]
    assert [name for name, _ in read] == head


#: ESC, a C1 command, a bidi override and a new line, in a value and in the name of its column.
NAMED_TO_HARM = "x\x1b[31m\x9b2J\u202ey\nz"


def test_nothing_that_a_terminal_obeys_reaches_it(
    catalog: Catalog, warehouse: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = f"SELECT '{NAMED_TO_HARM}' AS \"{NAMED_TO_HARM}\""
    shown = r"x\x1b[31m\x9b2J\u202ey\nz"
    Printer(catalog, "table", 10).run(statement)
    assert capsys.readouterr().out.splitlines() == [shown] * 2
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        Printer(catalog, "csv", 10).run(statement)
    assert capsys.readouterr().out.splitlines() == [shown] * 2
    Printer(catalog, "csv", 10).run(statement)  # a file gets what is there
    assert [*csv.reader(io.StringIO(capsys.readouterr().out))] == [[NAMED_TO_HARM]] * 2
    Printer(catalog, "json", 10).run(statement)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert json.loads(line) == {NAMED_TO_HARM: NAMED_TO_HARM}
    assert main(["--warehouse", str(warehouse), "--answer", f"/nowhere/{NAMED_TO_HARM}"]) == 2
    assert shown in (printed := capsys.readouterr().err)
    assert printed.removesuffix("\n").isprintable()


def test_no_cell_of_csv_is_a_formula(catalog: Catalog, capsys: Capsys) -> None:
    Printer(catalog, "csv", 10).run(
        """SELECT '=cmd|''/c calc''!A0' AS "=1+1", '+1+1' AS "-1", '@x' AS "@", chr(9) || '=1' AS t,
        -1 AS i, -1.5 AS d, '-1' AS s, '-1e3' AS e, '-' AS m, -2.5::DOUBLE AS f, 'a=b' AS n"""
    )
    head, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == ["'=1+1", "-1", "'@", *"tidsemfn"]
    numbers = ["-1", "-1.5", "-1", "-1e3"]
    assert row == ["'=cmd|'/c calc'!A0", "'+1+1", "'@x", "'\t=1", *numbers, "'-", "-2.5", "a=b"]


def test_no_more_rows_than_requested(catalog: Catalog, capsys: Capsys) -> None:
    assert len(Printer(catalog, "table", 3).table("SELECT * FROM range(10000000000)")) == 4
    assert "more than 3 rows" in capsys.readouterr().err


def test_a_page_is_answered(warehouse: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```sql\nSELECT 1 AS a\n```\n\n```text\nold\n```\n\nend\n")
    assert main(["--warehouse", str(warehouse), "--answer", str(page)]) == 0
    answer = "# A\n\n```sql\nSELECT 1 AS a\n```\n\n```text\na\n1\n```\n\nend\n"
    assert page.read_text() == answer
    assert with_answers(answer, lambda query: ["a", "1"]) == answer
    empty = "```sql\nSELECT 1\n```\n\n```text\n```\n\nBetween.\n\n```text\nkept\n```\n"
    assert "Between." in with_answers(empty, lambda query: ["a", "1"])


# --- tables and views -----------------------------------------------------------------------------

VIEWS = read_views()


def test_every_column_of_every_table_and_view_has_a_comment(catalog: Catalog) -> None:
    assert set(catalog.comments) == {*TABLES, *(view.name for view in VIEWS)}
    for name in catalog.comments:
        for column, kind, comment in rows_of(catalog, f"DESCRIBE {name}"):
            assert kind
            assert comment, (name, column)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_gives_rows_with_the_columns_it_names(catalog: Catalog, view: View) -> None:
    schema, rows = catalog.query(f"SELECT * FROM {view.name}")
    assert {*view.columns} <= {*schema.names}
    # Of metrics or sums that no row here is of.
    without_rows = {"steady_lag", "reads_by_client", "cross_zone_traffic"}
    without_rows |= {"findings", "unused_topics"}
    assert next(rows, None) or view.name in without_rows


def test_who_reads_rows_of_several_settings_at_once_is_warned(
    catalog: Catalog, capsys: Capsys
) -> None:
    for statement, noted in {
        "SELECT count(*) FROM fetch_parking_outcomes": True,
        "SELECT parameter, count(*) FROM fetch_parking_outcomes GROUP BY ALL": False,
        "SELECT count(*) FROM fetch_parking_outcomes_as_configured": False,
        "DESCRIBE fetch_parking_outcomes": False,
    }.items():
        Printer(catalog, "csv", 10).run(statement)
        note = "note: fetch_parking_outcomes also has rows for other values"
        assert (note in capsys.readouterr().err) == noted
    [[rows]] = rows_of(catalog, "SELECT count(*) FROM latency_summary WHERE parameter = 'none'")
    assert [(rows,)] == rows_of(catalog, "SELECT count(*) FROM latency_summary_as_configured")


def test_a_view_without_its_comments_is_refused() -> None:
    for text in ("SELECT 1", "-- a\n-- b: c\n", "-- a\n-- no colon\nSELECT 1"):
        with pytest.raises(UserError, match="the view v must begin with"):
            read_view("v", text)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 100, 101, 1000, 1001, 2001])
@pytest.mark.parametrize("thousandths", [0, 500, 900, 950, 990, 999, 1000])
def test_a_percentile_is_at_its_rank_from_below(
    catalog: Catalog, count: int, thousandths: int
) -> None:
    q = thousandths / 1000
    ((found,),) = rows_of(catalog, f"SELECT percentile_lower(range, {q}) FROM range({count})")
    assert found == thousandths * (count - 1) // 1000


def test_an_unknown_value_ranks_last(catalog: Catalog) -> None:
    statement = "SELECT percentile_lower(a, 0.5), percentile_lower(a, 0.9) FROM (VALUES {}) v(a)"
    assert rows_of(catalog, statement.format("(2), (NULL), (1)")) == [(2, 2)]
    assert rows_of(catalog, statement.format("(2), (NULL), (NULL)")) == [(None, None)]
