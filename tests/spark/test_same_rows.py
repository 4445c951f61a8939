"""Both engines write the same rows, to the last digit, with every text run by Spark."""

from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession
from recorded_logs import folder_of

from kip_replay.jobs import run
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

#: Columns that say when a file was written, and which engine's state they are.
VOLATILE = {"committed_at", "state", "checksum", "fingerprint"}
#: Every rule, both protocols of FETCH, a leader that changes.
SOME = ("acks-slow-follower", "sessions-on", "failover-4.0")


def run_on(engine: str, path: Path, names: tuple[str, ...]) -> Warehouse:
    folders = [str(folder_of(name)) for name in names]
    # Texts of checks are translated in tests/engines, and their rows compared in the slow test.
    checks = f"quality.in_run={str(len(names) > len(SOME)).lower()}"
    settings = ["--engine", engine, "--set", "spark.duckdb_bytes_max=0", "--set", checks, "--quiet"]
    assert run.main([*folders, "--warehouse", str(path), *settings]) == 0
    return Warehouse(path)


def assert_same(one: Warehouse, other: Warehouse, names: tuple[str, ...]) -> None:
    for table in TABLES.values():
        columns = [name for name in table.arrow_schema.names if name not in VOLATILE]
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            for name, of in (("one", one), ("other", other)):
                database.register(name, of.rows(table, names).select(columns))
            for left, right in (("one", "other"), ("other", "one")):
                found = database.sql(f"FROM {left} EXCEPT ALL FROM {right} LIMIT 1").fetchall()
                assert not found, (table.name, left, found)


@pytest.mark.usefixtures("spark")
def test_engines_write_the_same_rows(tmp_path: Path) -> None:
    local, spark = (run_on(name, tmp_path / name, SOME) for name in ("local", "spark"))
    assert_same(local, spark, SOME)


@pytest.mark.slow
def test_engines_write_the_same_rows_of_all_recordings(spark: SparkSession, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    folders = [*(root / "data" / "samples").iterdir(), *(root / "tests" / "recordings").iterdir()]
    names = tuple(sorted(folder.name for folder in folders if folder.is_dir()))
    assert len(names) > 10
    local, on_spark = (run_on(name, tmp_path / name, names) for name in ("local", "spark"))
    assert_same(local, on_spark, names)
