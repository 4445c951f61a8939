"""Maintenance: small files put together, old ones deleted, no row changed. No Spark."""

import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.table import TableOptimizer
from put_rows import put, row, rows_of, versions

from kip_replay.jobs import maintain, recordings
from kip_replay.jobs._steps import TABLES_OF_STEPS
from kip_replay.pipelines.warehouse import commits, maintenance
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles, Requests
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES, ClockBounds, LatencySummary, Lineage, ReplayState

Capsys = pytest.CaptureFixture[str]

ODD_NAME = "it's 100% ü `odd`"
NOW = datetime.now(UTC).replace(microsecond=0)
SHORT = ["--retention-hours", "0", "--allow-short-retention"]


def request(recording: str, number: int, at: datetime) -> dict[str, Any]:
    times: dict[str, Any] = {"received_at": at, "completed_at": at}
    return row(Requests, recording, request_id=f"{number:032}", **times)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A recording fed by the hour, one that ended long ago, and one whose ingest was killed."""
    warehouse = Warehouse(tmp_path_factory.mktemp("maintained"))
    for hour in (2, 0, 1):
        at = NOW - timedelta(hours=3 - hour)
        lines = [
            request(name, 1000 * hour + n, at + timedelta(minutes=n * 7 % 60))
            for n in range(9)
            for name in (ODD_NAME, "killed")
        ]
        put(warehouse, "ingest", {Requests: lines, IngestedFiles: [row(IngestedFiles, ODD_NAME)]})
        state = row(ReplayState, ODD_NAME, rule="hwm_parking", as_of=at)
        put(warehouse, "hwm_parking", {ReplayState: [state]})
        summary = row(LatencySummary, ODD_NAME, metric=str(hour), max_ms=1.0)
        put(warehouse, "summaries", {LatencySummary: [summary]})
    at = NOW - timedelta(days=40)
    file = row(IngestedFiles, "old", first_received_at=at, last_completed_at=at)
    put(warehouse, "ingest", {Requests: [request("old", 0, at)], IngestedFiles: [file]})
    warehouse.writing("ingest", ["killed"], [Requests]).begin()
    return warehouse


@pytest.fixture
def warehouse(made: Warehouse, tmp_path: Path) -> Warehouse:
    return Warehouse(shutil.copytree(made.path, tmp_path / "warehouse"))


def rows(warehouse: Warehouse) -> dict[str, list[str]]:
    return {t.name: rows_of(warehouse, t) for t in TABLES.values() if warehouse.exists(t)}


def files(warehouse: Warehouse, table: Table, recording: str = ODD_NAME) -> int:
    return len(warehouse.files(table, [recording]))


def test_what_cannot_be_safe_is_refused(made: Warehouse, capsys: Capsys) -> None:
    for wrong, message in (
        (["--retention-hours", "24"], "--allow-short-retention"),
        (["--retention-hours", "-1"], "0 or more"),
        (["--keep-days", "0"], "above 0"),
        (["--warehouse", made.path + "/nowhere"], "No warehouse"),
    ):
        assert maintain.main(["--warehouse", made.path, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_a_dry_run_says_and_does_nothing(made: Warehouse, capsys: Capsys) -> None:
    before = versions(made)
    assert maintain.main(["--warehouse", made.path, "--keep-days", "30", "--dry-run"]) == 0
    would = ["would drop old", "would delete 0 files older than 168 hours"]
    assert capsys.readouterr().out.splitlines()[:2] == would
    assert versions(made) == before


def test_files_are_put_together_and_rows_stay(warehouse: Warehouse, capsys: Capsys) -> None:
    before, version = rows(warehouse), versions(warehouse)[Lineage.name]
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    assert "optimize: 9 small files put together into 3" in capsys.readouterr().out
    assert rows(warehouse) == before
    assert [files(warehouse, t) for t in (Requests, IngestedFiles, LatencySummary)] == [1] * 3
    table = deltalake.DeltaTable(warehouse.uri_of(Requests))
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    # Names of files tell the epoch, which these need.
    assert files(warehouse, Requests, "killed") == 3
    assert files(warehouse, ReplayState) == 3
    assert versions(warehouse)[Lineage.name] == version

    done = versions(warehouse)
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    assert "optimize: 0 small files" in capsys.readouterr().out
    assert versions(warehouse) == done

    # What is put together can be put in the place of, and grow.
    put(warehouse, "ingest", {Requests: [request(ODD_NAME, 7777, NOW)]})
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    assert files(warehouse, Requests) == 2  # what looks for new files has not seen it
    assert len(rows(warehouse)[Requests.name]) == len(before[Requests.name]) + 1
    assert recordings.main(["delete", ODD_NAME, "--yes", "--warehouse", warehouse.path]) == 0
    assert not any(ODD_NAME in line for of in rows(warehouse).values() for line in of)


def test_vacuum_deletes_what_nobody_needs_and_is_old_enough(
    warehouse: Warehouse, capsys: Capsys
) -> None:
    folder = Path(warehouse.uri_of(Requests))
    old, new = (folder / orphan(warehouse) for _ in range(2))  # of tasks that were killed
    week_ago = time.time() - 8 * 86_400
    os.utime(old, (week_ago, week_ago))
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    assert "vacuum: deleted 1 files older than 168 hours" in capsys.readouterr().out
    assert not old.exists()
    assert new.exists()

    before = rows(warehouse)
    gone = len([*Path(warehouse.path).glob("*/recording=*/*")])
    gone -= sum(len(warehouse.files(t)) for t in TABLES.values())
    assert maintain.main(["--warehouse", warehouse.path, *SHORT]) == 0
    assert f"vacuum: deleted {gone} files" in capsys.readouterr().out
    on_disk = {str(file.relative_to(folder)) for file in folder.glob("recording=*/*.parquet")}
    assert on_disk == {file["path"] for file in warehouse.files(Requests)}
    assert rows(warehouse) == before
    done = versions(warehouse)
    assert maintain.main(["--warehouse", warehouse.path, *SHORT]) == 0
    assert versions(warehouse) == done


def orphan(warehouse: Warehouse) -> str:
    """A file that no commit names; its path."""
    files = warehouse.writing("ingest", [ODD_NAME], [Requests]).files()
    line = request(ODD_NAME, 1, NOW)
    files.write(Requests, pa.RecordBatch.from_pylist([line], schema=Requests.arrow_schema))
    (file,) = files.closed()
    return file.path


def hourly_run(warehouse: Warehouse, hour: int) -> None:
    with warehouse.ends_waiting():
        line = request("r", hour, NOW + timedelta(hours=hour))
        put(warehouse, "ingest", {Requests: [line], IngestedFiles: [row(IngestedFiles, "r")]})
        bounds = [row(ClockBounds, "r", node_id=hour)]
        rows = {ClockBounds: pa.Table.from_pylist(bounds, ClockBounds.arrow_schema)}
        warehouse.replace("clocks", {"r": str(hour)}, rows)
    maintenance.keep_bounded(warehouse, TABLES_OF_STEPS)


def test_a_warehouse_that_is_fed_by_the_hour_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days that take no time: what would be kept for it may go at once."""
    monkeypatch.setattr(maintenance, "SAFE_RETENTION_HOURS", 0)
    monkeypatch.setitem(commits._PROPERTIES, "delta.logRetentionDuration", "interval 0 seconds")
    for hour in range(72):
        warehouse = Warehouse(tmp_path)
        hourly_run(warehouse, hour)
        for table, of in product((Requests, ClockBounds, Lineage), ("rec*/*", "_delta_log/*")):
            assert len([*(tmp_path / table.name).glob(of)]) < 72, (hour, table.name, of)
    assert len(warehouse.rows(Requests, ["r"])) == 72
    assert warehouse.lineage(["r"]) == {("r", "ingest"): "epoch 72", ("r", "clocks"): "71"}

    monkeypatch.setattr(maintenance, "SMALL_FILES_MAX", 1)
    there = files(warehouse, Requests, "r")
    for left in (there, 1):  # another job is at work; this one has seen what it wrote
        if left == there:
            Warehouse(tmp_path).writing("ingest", ["r"], [Requests]).begin()
        else:
            hourly_run(warehouse, 72)
        maintenance.keep_bounded(warehouse, TABLES_OF_STEPS)
        assert files(warehouse, Requests, "r") == left < 25


def test_an_optimize_that_another_writer_beats_is_left_for_next_time(
    warehouse: Warehouse, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TableOptimizer.compact

    def beaten(self: TableOptimizer, *args: Any, **options: Any) -> Any:
        if not self.table.table_uri.rstrip("/").endswith(Requests.name):
            return real(self, *args, **options)
        attempt = warehouse.writing("ingest", [ODD_NAME], [Requests])
        attempt.begin()
        attempt.replace(Requests, ())
        attempt.end({ODD_NAME: "again"})
        put(warehouse, "ingest", {Requests: [request(ODD_NAME, 1, NOW)]})
        put(warehouse, "ingest", {Requests: [request(ODD_NAME, 2, NOW)]})
        return real(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(TableOptimizer, "compact", beaten)
        assert maintain.main(["--warehouse", warehouse.path]) == 0
    assert "optimize: another job writes to requests, left" in capsys.readouterr().out
    assert files(warehouse, Requests) == len(rows_of(warehouse, Requests, ODD_NAME)) == 2


def test_a_recording_that_ended_long_ago_is_dropped(warehouse: Warehouse, capsys: Capsys) -> None:
    kept = {t: [line for line in of if "'old'" not in line] for t, of in rows(warehouse).items()}
    assert maintain.main(["--warehouse", warehouse.path, "--keep-days", "30"]) == 0
    assert "dropped old: it ended more than 30 days ago" in capsys.readouterr().out
    assert rows(warehouse) == kept
    assert recordings.main(["delete", "old", "--warehouse", warehouse.path]) == 2
