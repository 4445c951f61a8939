"""Tables as Spark reads and writes them: names exactly, and only files of tasks that succeeded."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from put_rows import put, row
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

from kip_replay.pipelines.warehouse.data_files import TableFiles
from kip_replay.pipelines.warehouse.tables import Warehouse, Writing, written
from kip_replay.replay.log_tables import INGESTED_FILES

register_pickle_by_value(sys.modules[__name__])  # workers do not find modules of tests

NAMES = ["it's 100% \\ `odd`", "a/b=c?", "ü 水", "007", "2024-01", "%41", "{x}[1]*"]


@dataclass
class Task:
    """Writes a row per number; one that is 13 fails, after a file is on the disk."""

    files: TableFiles

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                row = {"recording": NAMES[number % len(NAMES)], "node_id": number}
                row |= {"source_file": "f", "content_hash": "0"}
                rows = pa.RecordBatch.from_pylist([row], schema=INGESTED_FILES.arrow_schema)
                self.files.write(INGESTED_FILES, rows)
                if number == 13:
                    self.files.closed()
                    raise RuntimeError("lost")


def attempt(warehouse: Warehouse) -> Writing:
    return warehouse.writing("ingest", NAMES, [INGESTED_FILES])


def test_rows_come_back_under_their_names(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "it's a ware-house 1.x")
    writing = attempt(warehouse)
    files = written(spark.range(13).repartition(3), Task(writing.files()))
    assert sum(file.rows for file in files) == 13
    writing.begin()
    writing.append(INGESTED_FILES, files, writing.epochs)
    writing.end(dict.fromkeys(NAMES, "x"))

    with pytest.raises(Exception, match="lost"):  # it commits nothing, but leaves files
        written(spark.range(20).repartition(3), Task(attempt(warehouse).files()))
    committed = {file["path"] for file in warehouse.files(INGESTED_FILES)}
    folder = Path(warehouse.uri_of(INGESTED_FILES))
    on_disk = {str(file.relative_to(folder)) for file in folder.glob("recording=*/*.parquet")}
    assert committed == {file.path for file in files} < on_disk

    expected = sorted((NAMES[number % len(NAMES)], number) for number in range(13))
    by_delta = spark.read.format("delta").load(warehouse.uri_of(INGESTED_FILES))
    for read in (warehouse.read(INGESTED_FILES, NAMES), by_delta):
        rows = [(each["recording"], each["node_id"]) for each in read.collect()]
        assert sorted(rows) == expected
    for name in ("ü 水", "%41"):
        mine = [number for other, number in expected if other == name]
        for read in (warehouse.read(INGESTED_FILES, [name]), by_delta):
            rows = read.where(read.recording == name).collect()
            assert sorted(each["node_id"] for each in rows) == mine


def test_no_rows_are_a_table_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.create_missing([INGESTED_FILES])
    read = warehouse.read(INGESTED_FILES, ["r"])
    assert read.columns == [column.name for column in INGESTED_FILES.columns]
    assert read.isEmpty()


def test_bytes_that_were_changed_become_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    put(warehouse, "ingest", {INGESTED_FILES: [row(INGESTED_FILES, "r", source_file="a" * 99)]})
    [file] = tmp_path.glob("ingested_files/recording=r/*.parquet")
    column = pq.read_metadata(file).row_group(0).column(2)
    end = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
    content = bytearray(file.read_bytes())
    content[end - 1] ^= 1
    file.write_bytes(content)
    with pytest.raises(Exception, match=r"page CRC|checksum|could not verify"):
        warehouse.read(INGESTED_FILES, ["r"]).collect()
