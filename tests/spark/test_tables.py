"""The warehouse: tables as the schema says, rows once, scopes replaced whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from delta.exceptions import ConcurrentAppendException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import kip_replay.pipelines.warehouse.tables
from kip_replay.pipelines.errors import UserError, WriteConflictError
from kip_replay.pipelines.warehouse.tables import SchemaError, Warehouse
from kip_replay.replay.schema import INGESTED_FILES, LATENCY_SUMMARY, REPLAY_STATE, TABLES

ODD_NAME = "it's 100% \\ `odd`"


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def files(spark: SparkSession, names: str, lines: int = 1, recording: str = "r") -> DataFrame:
    """Rows of ingested_files, one per letter of ``names``."""
    rows = [
        {
            "recording": recording,
            "node_id": 1,
            "source_file": name,
            "content_hash": "0",
            "lines_read": lines,
        }
        for name in names
    ]
    return spark.createDataFrame(
        pa.Table.from_pylist(rows, schema=_nullable(INGESTED_FILES.arrow_schema))
    )


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def lines_by_name(warehouse: Warehouse) -> dict[str, int]:
    table = deltalake.DeltaTable(warehouse.uri_of(INGESTED_FILES)).to_pyarrow_table()
    return {row["source_file"]: row["lines_read"] for row in table.to_pylist()}


def test_tables_on_disk_are_what_the_schema_says(warehouse: Warehouse) -> None:
    tables = (INGESTED_FILES, LATENCY_SUMMARY, REPLAY_STATE)
    warehouse.create_missing_tables(tables)
    warehouse.create_missing_tables(tables)
    for table in tables:
        on_disk = deltalake.DeltaTable(warehouse.uri_of(table))
        assert on_disk.version() == 0
        assert on_disk.metadata().description == table.comment
        assert on_disk.metadata().partition_columns == list(table.partitioned_by)
        protocol = on_disk.protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
        for field, column in zip(on_disk.schema().fields, table.columns, strict=True):
            assert (field.name, field.nullable) == (column.name, column.nullable)
            assert field.metadata["comment"] == column.comment
        assert warehouse.read(table).isEmpty()


def test_a_table_that_was_never_made_is_asked_for_by_name(warehouse: Warehouse) -> None:
    assert not warehouse.exists(INGESTED_FILES)
    with pytest.raises(UserError, match=r"no table ingested_files .* run jobs\.ingest"):
        warehouse.read(INGESTED_FILES)


def test_insert_new_adds_only_keys_that_are_not_there(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    warehouse.insert_new(INGESTED_FILES, files(spark, "ab"))
    warehouse.insert_new(INGESTED_FILES, files(spark, "bc", lines=2))
    assert lines_by_name(warehouse) == {"a": 1, "b": 1, "c": 2}
    version = deltalake.DeltaTable(warehouse.uri_of(INGESTED_FILES)).version()
    assert version == 2  # one transaction each


def test_replace_puts_rows_in_the_place_of_a_scope(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    both = files(spark, "ab").union(files(spark, "x", recording=ODD_NAME))
    warehouse.append(INGESTED_FILES, both)
    warehouse.replace(INGESTED_FILES, files(spark, "c"), {"recording": "r"})
    assert lines_by_name(warehouse) == {"c": 1, "x": 1}
    scope = {"recording": ODD_NAME, "source_file": "x"}
    warehouse.replace(INGESTED_FILES, files(spark, "x", 7, ODD_NAME), scope)
    assert lines_by_name(warehouse) == {"c": 1, "x": 7}
    warehouse.replace(INGESTED_FILES, files(spark, ""), {"recording": "r"})
    assert lines_by_name(warehouse) == {"x": 7}
    assert len(warehouse.read(INGESTED_FILES).inputFiles()) == 1


def test_replace_refuses_rows_outside_of_its_scope(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    with pytest.raises(Exception, match="DELTA_REPLACE_WHERE_MISMATCH"):
        warehouse.replace(INGESTED_FILES, files(spark, "a"), {"recording": "another"})
    assert warehouse.read(INGESTED_FILES).isEmpty()


def test_rows_that_do_not_fit_are_refused_by_name(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    rows, scope = files(spark, "a"), {"recording": "r"}
    with pytest.raises(SchemaError, match=r"missing \['node_id'\], not in the table \['more'\]"):
        warehouse.replace(INGESTED_FILES, rows.withColumnRenamed("node_id", "more"), scope)
    texts = rows.withColumn("lines_read", F.col("lines_read").cast("string"))
    with pytest.raises(SchemaError, match="lines_read as string, the table has bigint"):
        warehouse.append(INGESTED_FILES, texts)
    nulls = rows.withColumn("content_hash", F.nullif(F.col("content_hash"), F.lit("0")))
    with pytest.raises(SchemaError, match=r"ingested_files has null .* content_hash"):
        warehouse.insert_new(INGESTED_FILES, nulls)


@pytest.fixture
def written(spark: SparkSession, warehouse: Warehouse) -> Warehouse:
    for name in "ab":
        scope = {"recording": "r", "source_file": name}
        warehouse.replace(INGESTED_FILES, files(spark, name), scope, f"fingerprint {name}")
    return warehouse


def test_a_scope_is_current_until_anything_touches_it(
    spark: SparkSession, written: Warehouse
) -> None:
    a, b = ({"recording": "r", "source_file": name} for name in "ab")

    def current() -> tuple[bool, bool]:
        return (
            written.is_current(INGESTED_FILES, a, "fingerprint a"),
            written.is_current(INGESTED_FILES, b, "fingerprint b"),
        )

    assert current() == (True, True)
    assert not written.is_current(INGESTED_FILES, a, "fingerprint b")
    assert not written.is_current(INGESTED_FILES, {"recording": "r"}, "fingerprint a")
    assert not written.is_current(REPLAY_STATE, a, "fingerprint a")
    written.replace(INGESTED_FILES, files(spark, "a"), a)  # it does not say what the rows are
    assert current() == (False, False)  # nor which scope it had
    written.replace(INGESTED_FILES, files(spark, "a"), a, "fingerprint a")
    written.replace(INGESTED_FILES, files(spark, "b"), b, "fingerprint b")
    assert current() == (True, True)
    spark.sql(f"OPTIMIZE delta.`{written.uri_of(INGESTED_FILES)}`")
    assert current() == (True, True)
    written.replace(INGESTED_FILES, files(spark, "b"), {"recording": "r"}, "fingerprint r")
    assert current() == (False, False)


def test_the_history_as_delta_tells_it_is_the_history_in_the_log(
    spark: SparkSession, written: Warehouse
) -> None:
    elsewhere = Warehouse(f"file://{written.path}")
    by_delta, by_log = (
        [(commit.version, commit.operation, commit.user_metadata) for commit in commits]
        for commits in (elsewhere.commits(INGESTED_FILES), written.commits(INGESTED_FILES))
    )
    assert by_delta == by_log


def test_a_write_that_was_in_the_way_of_another_is_said_again(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kip_replay.pipelines.warehouse.tables, "_SECONDS_BETWEEN_ATTEMPTS", 0)
    warehouse.create_missing_tables([INGESTED_FILES])
    translated, conflicts = kip_replay.pipelines.warehouse.tables._translated, [2]

    def in_the_way(*args: Any) -> None:
        if conflicts[0]:
            conflicts[0] -= 1
            raise ConcurrentAppendException("another was first")
        translated(*args)

    monkeypatch.setattr(kip_replay.pipelines.warehouse.tables, "_translated", in_the_way)
    warehouse.insert_new(INGESTED_FILES, files(spark, "a"))
    assert lines_by_name(warehouse) == {"a": 1}
    conflicts[0] = 99
    with pytest.raises(WriteConflictError, match="rows of ingested_files: run this one again"):
        warehouse.insert_new(INGESTED_FILES, files(spark, "b"))


def test_two_inserts_of_the_same_keys_at_once_leave_each_key_once(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    warehouse.insert_new(INGESTED_FILES, files(spark, "x"))
    with ThreadPoolExecutor(2) as pool:
        inserts = [
            pool.submit(warehouse.insert_new, INGESTED_FILES, files(spark, "abc")) for _ in range(2)
        ]
        for insert in inserts:
            insert.result()
    rows = deltalake.DeltaTable(warehouse.uri_of(INGESTED_FILES)).to_pyarrow_table()
    assert sorted(rows.column("source_file").to_pylist()) == ["a", "b", "c", "x"]


def test_every_table_has_a_key_and_lies_in_a_folder_of_its_name(warehouse: Warehouse) -> None:
    for name, table in TABLES.items():
        columns = {column.name: column for column in table.columns}
        assert warehouse.uri_of(table).endswith(f"/{name}")
        assert not any(columns[key].nullable for key in table.key)
        assert set(table.partitioned_by) <= set(table.key)


@pytest.mark.parametrize("name", ["ware-house", "ware house 1.x", "it's"])
def test_a_warehouse_may_have_any_relative_path(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    warehouse = Warehouse(name)
    warehouse.create_missing_tables([INGESTED_FILES])
    assert warehouse.read(INGESTED_FILES).count() == 0
    assert (tmp_path / name / INGESTED_FILES.name / "_delta_log").is_dir()
