"""Recordings in a warehouse: listed, shown, deleted whole, and then read again."""

from __future__ import annotations

import io
from pathlib import Path

import deltalake
import pytest
from pyspark.sql import SparkSession
from small_logs import BROKER, CONTROLLER, lines_of, plain

from kip_replay.jobs import ingest
from kip_replay.jobs.recordings import main
from kip_replay.pipelines.warehouse.recordings import stored_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import LOG_TABLES, PREDICTION_ACCURACY, REQUESTS, Table

LINES = len(lines_of(CONTROLLER)) + len(lines_of(BROKER))
CROSSED = {"predicted_from": "other", "recorded_in": "plain"}


def rows(warehouse: Warehouse, table: Table) -> list[str]:
    read = deltalake.DeltaTable(warehouse.uri_of(table)).to_pyarrow_table()
    return sorted(map(repr, read.to_pylist()))


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """One recording of small logs, and another's prediction that was held against it."""
    made = Warehouse(tmp_path_factory.mktemp("recordings") / "warehouse")
    plain(Path(made.path).parent / "plain")
    assert ingest.main([str(Path(made.path).parent / "plain"), "--warehouse", made.path]) == 0
    made.create_missing_tables([PREDICTION_ACCURACY])
    key = dict.fromkeys(PREDICTION_ACCURACY.key, "x") | {"recording": "other"} | CROSSED
    typed = ", ".join(
        f"CAST({key.get(c.name)!r} AS STRING) AS {c.name}"
        for c in PREDICTION_ACCURACY.columns
        if c.name in key
    )
    line = spark.sql(f"SELECT {typed}")
    for column in PREDICTION_ACCURACY.columns:
        if column.name not in key:
            kind = made.read(PREDICTION_ACCURACY).schema[column.name].dataType.simpleString()
            line = line.selectExpr("*", f"CAST(NULL AS {kind}) AS {column.name}")
    made.replace(PREDICTION_ACCURACY, line, {"recording": "other"}, "f")
    return made


def run(warehouse: Warehouse, *arguments: str) -> int:
    return main([*arguments, "--warehouse", warehouse.path])


def test_list_and_show_say_what_is_there(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(warehouse) == 0
    head, line = (
        line for line in capsys.readouterr().out.splitlines() if not line.startswith("other")
    )
    assert head.split()[:2] == ["recording", "kafka"]
    assert line.split()[0] == "plain"
    assert run(warehouse, "show", "plain") == 0
    said = capsys.readouterr().out
    assert f"lines          {LINES:,}" in said
    assert "nodes          2, 11" in said
    assert "replayed       no rule" in said
    (one,) = (r for r in stored_recordings(warehouse.path, {}) if r.name == "plain")
    assert one.logs.lines == one.logs.requests + one.logs.rejected == LINES
    assert one.sizes["requests"].rows == one.logs.requests
    assert one.first_at is not None
    assert one.last_at is not None
    assert one.first_at < one.last_at


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nowhere"], "there are: other, plain"),
        (["delete"], "needs the name"),
        (["list", "plain"], "takes no name"),
        (["delete", "plain"], "--yes"),
    ],
)
def test_mistakes_are_one_sentence(
    warehouse: Warehouse,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))  # a pipe is nobody to ask
    assert run(warehouse, *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_asks_before_it_deletes(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("no\n"))
    before = rows(warehouse, REQUESTS)
    assert run(warehouse, "delete", "plain") == 0
    assert "nothing was deleted" in capsys.readouterr().out
    assert rows(warehouse, REQUESTS) == before


def test_a_killed_delete_is_completed_and_the_logs_can_be_read_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {table.name: rows(warehouse, table) for table in LOG_TABLES}
    real = Warehouse.delete

    def dies(self: Warehouse, table: Table, *rest: object) -> None:
        if table is REQUESTS:
            raise RuntimeError("killed")
        real(self, table, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Warehouse, "delete", dies)
    assert run(warehouse, "delete", "plain", "--yes") == 1
    monkeypatch.setattr(Warehouse, "delete", real)
    assert "plain" in [r.name for r in stored_recordings(warehouse.path, {})]  # half of it
    assert run(warehouse, "delete", "plain", "--yes") == 0
    assert "plain" not in [r.name for r in stored_recordings(warehouse.path, {})]
    assert not any(rows(warehouse, table) for table in LOG_TABLES)
    # A prediction that was held against it is gone; what else its writer said is not called true.
    assert rows(warehouse, PREDICTION_ACCURACY) == []

    folder = Path(warehouse.path).parent / "plain"
    assert ingest.main([str(folder), "--warehouse", warehouse.path]) == 0
    assert {table.name: rows(warehouse, table) for table in LOG_TABLES} == before
