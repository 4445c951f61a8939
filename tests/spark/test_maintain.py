"""Maintenance: small files put together and sorted, old ones deleted, fingerprints kept."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from delta.exceptions import ConcurrentDeleteReadException
from pyspark.sql import DataFrame, SparkSession

import kip_replay.pipelines.warehouse.maintenance
from kip_replay.jobs import maintain, recordings
from kip_replay.pipelines.warehouse.maintenance import (
    needs_optimizing,
    optimize,
    restate_old_marks,
    sort_columns,
)
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import INGESTED_FILES, LATENCY_SUMMARY, REQUESTS, TABLES, Table

ODD_NAME = "it's 100% `odd`"
NOW = datetime.now(UTC).replace(microsecond=0)
DAY_S = 86_400
#: A replay's mark, as a mark of old commits stands for all others.
MARKED = {"recording": ODD_NAME, "rule": "hwm_parking"}


def frame(spark: SparkSession, table: Table, *rows: dict[str, Any]) -> DataFrame:
    loose = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
    filled = [{name: row.get(name) for name in loose.names} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(filled, schema=loose))


def request(recording: str, number: int, at: datetime) -> dict[str, Any]:
    return {
        "recording": recording,
        "request_id": f"{number:032}",
        "node_id": 1 + number % 3,
        "received_at": at,
        "completed_at": at,
        "api_name": "BROKER_HEARTBEAT",
        "software_version": "4.1.1",
    }


def summary(recording: str, value: float) -> dict[str, Any]:
    key = {"rule": "hwm_parking", "variant": "recorded", "parameter": "none"}
    group = {"parameter_value": "none", "metric": "m", "group_kind": "all", "group_value": "all"}
    return {"recording": recording, **key, **group, "max_ms": value}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two recordings: one fed by the hour, one that ended long ago; and a year-old mark."""
    made = Warehouse(tmp_path_factory.mktemp("maintained"))
    for hour in (2, 0, 1):
        at = NOW - timedelta(hours=3 - hour)
        lines = [
            request(ODD_NAME, 1000 * hour + n, at + timedelta(minutes=n * 7 % 60)) for n in range(9)
        ]
        if hour == 0:
            lines.append(request("old", 0, NOW - timedelta(days=40)))
        made.append(REQUESTS, frame(spark, REQUESTS, *lines))
    file = {"node_id": 1, "source_file": "x.log", "content_hash": "0", "lines_read": 27}
    both = [{"recording": name, **file} for name in (ODD_NAME, "old")]
    made.append(INGESTED_FILES, frame(spark, INGESTED_FILES, *both))
    made.replace(
        LATENCY_SUMMARY, frame(spark, LATENCY_SUMMARY, summary(ODD_NAME, 1.0)), MARKED, "f"
    )
    scope = {"recording": "old", "rule": "hwm_parking"}
    made.replace(LATENCY_SUMMARY, frame(spark, LATENCY_SUMMARY, summary("old", 2.0)), scope, "g")
    return made


def rows(warehouse: Warehouse, table: Table) -> list[str]:
    read = deltalake.DeltaTable(warehouse.uri_of(table)).to_pyarrow_table()
    return sorted(map(repr, read.to_pylist()))


def versions(warehouse: Warehouse) -> dict[str, int]:
    return {
        table.name: deltalake.DeltaTable(warehouse.uri_of(table)).version()
        for table in TABLES.values()
        if warehouse.exists(table)
    }


def test_what_cannot_be_safe_is_refused(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong, said in (
        (["--retention-hours", "24"], "--allow-short-retention"),
        (["--retention-hours", "-1"], "0 or more"),
        (["--keep-days", "0"], "above 0"),
        (["--warehouse", warehouse.path + "/nowhere"], "there is no warehouse"),
    ):
        assert maintain.main(["--warehouse", warehouse.path, *wrong]) == 2
        assert said in capsys.readouterr().err


def test_a_dry_run_says_and_does_nothing(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    before = versions(warehouse)
    arguments = ["--warehouse", warehouse.path, "--keep-days", "30", "--dry-run"]
    assert maintain.main(arguments) == 0
    said = capsys.readouterr().out
    assert "would drop old" in said
    assert f"would optimize requests: {ODD_NAME}" in said
    assert "would delete 0 files" in said
    assert versions(warehouse) == before


def test_files_are_put_together_sorted_and_rows_stay(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {table: rows(warehouse, table) for table in (REQUESTS, LATENCY_SUMMARY)}
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    assert "optimize requests: 4 files" in capsys.readouterr().out
    table = deltalake.DeltaTable(warehouse.uri_of(REQUESTS))
    assert len(table.file_uris()) == 2
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    read = table.to_pyarrow_table(filters=pc.field("recording") == ODD_NAME)
    arrivals = read["received_at"].to_pylist()
    assert arrivals == sorted(arrivals)
    assert {table: rows(warehouse, table) for table in before} == before
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, MARKED) == "f"

    done = versions(warehouse)
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    said = capsys.readouterr().out
    assert "no table has small files" in said
    assert versions(warehouse) == done


def test_old_files_go_only_where_nobody_needs_them(warehouse: Warehouse) -> None:
    folder = Path(warehouse.uri_of(REQUESTS))
    before = rows(warehouse, REQUESTS)
    needed = {Path(uri).name for uri in deltalake.DeltaTable(str(folder)).file_uris()}
    assert {file.name for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts} > (
        needed
    )
    arguments = ["--warehouse", warehouse.path, "--retention-hours", "0", "--allow-short-retention"]
    with warehouse.exclusively("ingest"):
        assert maintain.main(arguments) == 1  # its files are in no version yet
    assert maintain.main(arguments) == 0
    left = {file.name for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts}
    assert left == needed
    assert rows(warehouse, REQUESTS) == before
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, MARKED) == "f"


def test_fingerprints_outlive_the_commits_that_said_them(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    """Delta deletes commits older than the log retention when it writes a checkpoint."""
    assert not restate_old_marks(warehouse, LATENCY_SUMMARY)  # nothing is old yet
    later_ms = time.time_ns() // 1_000_000 + 8 * DAY_S * 1000
    assert restate_old_marks(warehouse, LATENCY_SUMMARY, later_ms)
    restated = deltalake.DeltaTable(warehouse.uri_of(LATENCY_SUMMARY)).version()
    log = Path(warehouse.uri_of(LATENCY_SUMMARY), "_delta_log")
    for commit in log.glob("*.json"):
        if int(commit.stem) < restated:
            os.utime(commit, (time.time() - 500 * DAY_S,) * 2)
    deltalake.DeltaTable(warehouse.uri_of(LATENCY_SUMMARY)).create_checkpoint()
    deltalake.DeltaTable(warehouse.uri_of(LATENCY_SUMMARY)).cleanup_metadata()
    assert not (log / f"{0:020}.json").exists()
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, MARKED) == "f"
    old = {"recording": "old", "rule": "hwm_parking"}
    warehouse.replace(LATENCY_SUMMARY, frame(spark, LATENCY_SUMMARY, summary("old", 3.0)), old, "h")
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, old) == "h"
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, MARKED) == "f"


def test_an_optimize_that_another_writer_beats_is_left_for_next_time(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (7, 8):
        line = request(ODD_NAME, 5000 + number, NOW)
        warehouse.append(REQUESTS, frame(spark, REQUESTS, line))

    def beaten(*_: Any) -> None:
        raise ConcurrentDeleteReadException("its files were replaced meanwhile")

    monkeypatch.setattr(kip_replay.pipelines.warehouse.maintenance, "_optimize", beaten)
    optimized = optimize(warehouse, REQUESTS)
    assert optimized is not None
    assert optimized.in_the_way
    assert optimized.before == optimized.after
    assert list(needs_optimizing(warehouse.path, REQUESTS)) == [ODD_NAME]


def test_a_recording_that_ended_long_ago_is_dropped(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [row for row in rows(warehouse, REQUESTS) if "'old'" not in row]
    assert maintain.main(["--warehouse", warehouse.path, "--keep-days", "30"]) == 0
    assert "dropped old" in capsys.readouterr().out
    for table in (REQUESTS, INGESTED_FILES, LATENCY_SUMMARY):
        assert not [row for row in rows(warehouse, table) if "'old'" in row]
    assert rows(warehouse, REQUESTS) == kept
    # What was said of other recordings still holds, and nothing of this one.
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, MARKED) == "f"
    old = {"recording": "old", "rule": "hwm_parking"}
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, old) is None
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, {"recording": "old"}) is None
    assert recordings.main(["show", "old", "--warehouse", warehouse.path]) == 2


def test_rows_are_sorted_by_what_questions_fix_and_time() -> None:
    said = {name: sort_columns(table) for name, table in TABLES.items()}
    assert said["requests"] == ("received_at",)
    assert said["fetch_session_outcomes"] == ("variant", "parameter_value", "received_at")
    assert said["isr_changes"] == ("at",)
    assert said["ingested_files"] == ()
    for name, columns in said.items():
        there = {column.name: column for column in TABLES[name].columns}
        assert set(columns) <= set(there)
        assert "recording" not in columns
