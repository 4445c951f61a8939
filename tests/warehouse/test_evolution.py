"""Tables whose columns another version has declared, and what a reader of changes sees of them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from small_logs import folder_of

from kip_replay.jobs import run
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import stats_columns
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles
from kip_replay.replay.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADDED = "timezone"
_STATS = "delta.dataSkippingStatsColumns"


@contextmanager
def older_version() -> Iterator[None]:
    """Declares ``ingested_files`` as before a column was added."""
    columns = tuple(column for column in IngestedFiles.columns if column.name != _ADDED)
    with pytest.MonkeyPatch.context() as version:
        version.setattr(IngestedFiles, "arrow_schema", IngestedFiles.without(_ADDED))
        version.setattr(IngestedFiles, "columns", columns)
        yield


def written(path: Path, recording: str, step: str = "ingest", **values: object) -> None:
    """Writes a row, as a run of the declared version does."""
    row = {"recording": recording, "node_id": 1, "content_hash": "0", "source_file": "a", **values}
    rows = pa.Table.from_pylist([row], IngestedFiles.arrow_schema)
    Warehouse(path).replace(step, {recording: "text"}, {IngestedFiles: rows})


def seen(engine: Engine, columns: str) -> list[tuple[Any, ...]]:
    text = Text(f"SELECT {columns} FROM ingested_files ORDER BY recording")
    rows = engine.rows(text, ["new", "old", "older"]).to_pylist()
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("is_small", [True, False])
def test_a_column_is_added_and_read_by_both_versions(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    """``is_small``: files are read once and kept, or scanned."""
    from kip_replay.pipelines.engines.spark import Spark

    if not is_small:
        monkeypatch.setattr("kip_replay.pipelines.warehouse.tables._SMALL_BYTES", 0)

    def engines() -> list[Engine]:
        return [Local(Warehouse(tmp_path)), Spark(Warehouse(tmp_path), duckdb_bytes_max=0)]

    with older_version():
        written(tmp_path, "old")
    uri = Warehouse(tmp_path).uri_of(IngestedFiles)
    before = deltalake.DeltaTable(uri)
    for engine in engines():
        assert seen(engine, f"recording, {_ADDED}") == [("old", None)]
    assert deltalake.DeltaTable(uri).version() == before.version()  # who reads changes nothing
    written(tmp_path, "new", timezone="UTC")
    after = deltalake.DeltaTable(uri)
    assert {f.name for f in after.schema().fields} - {f.name for f in before.schema().fields} == {
        _ADDED
    }
    assert after.metadata().configuration[_STATS] == ",".join(stats_columns(IngestedFiles))
    rows = [("new", "UTC"), ("old", None)]
    for engine in engines():
        assert seen(engine, f"recording, {_ADDED}") == rows
    query = f"SELECT recording, {_ADDED} FROM ingested_files ORDER BY recording"
    assert [*Catalog(str(tmp_path), []).query(query).rows] == rows
    by_path = spark.read.format("delta").load(uri).select("recording", _ADDED).orderBy("recording")
    assert [tuple(row) for row in by_path.collect()] == rows
    with older_version():  # goes on reading, and writing
        written(tmp_path, "older")
        for engine in engines():
            assert seen(engine, "*")[0][0] == "new"
            assert len(seen(engine, "*")[0]) == len(IngestedFiles.columns)
    for engine in engines():
        assert seen(engine, f"recording, {_ADDED}") == [*rows, ("older", None)]
    # Nothing is left to add.
    version = deltalake.DeltaTable(uri).version()
    written(tmp_path, "new", timezone="CET")
    assert deltalake.DeltaTable(uri).version() == version + 1


def test_properties_are_stated_where_a_table_has_none(tmp_path: Path) -> None:
    written(tmp_path, "old")
    uri = Warehouse(tmp_path).uri_of(IngestedFiles)
    deltalake.DeltaTable(uri).alter.set_table_properties({"delta.checkpointInterval": "7"})
    feed = {"delta.enableChangeDataFeed": "true"}
    Warehouse(tmp_path, feed).writing("ingest", ["old"], [IngestedFiles])
    table = deltalake.DeltaTable(uri)
    stated = {**commits._PROPERTIES, **feed, "delta.checkpointInterval": "7"}
    assert stated.items() <= table.metadata().configuration.items()
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 4)
    assert protocol.writer_features is protocol.reader_features is None


@pytest.mark.slow
def test_a_change_feed_has_the_recording_that_is_replayed_anew(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """A step replaces the rows of a recording by one commit: removed and added files."""
    names = ["failover-4.0", "freeze-4.1"]
    where = ["--warehouse", str(tmp_path), "--engine", "local", "--quiet"]
    where += ["--set", "delta.enableChangeDataFeed=true", "--set", "quality.data_docs=false"]
    assert run.main([*(str(folder_of(name)) for name in names), *where]) == 0
    table = next(t for t in TABLES.values() if t.name == "fetch_parking_outcomes")
    uri = Warehouse(tmp_path).uri_of(table)
    before = deltalake.DeltaTable(uri).version()
    rows_before = Warehouse(tmp_path).rows(table, names[:1]).num_rows
    anew = ["--set", "hwm_parking.max_wait_ms=[200]"]
    assert run.main([str(folder_of(names[0])), *where, *anew]) == 0
    log = Path(uri, "_delta_log", f"{before + 1:020}.json").read_text().splitlines()
    actions = [kind for line in log for kind in json.loads(line)]
    assert deltalake.DeltaTable(uri).version() == before + 1
    assert {"add", "remove"} <= {*actions}
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    changes = feed.option("startingVersion", before + 1).load(uri)
    counted = changes.groupBy("recording", "_change_type").count().collect()
    rows_after = Warehouse(tmp_path).rows(table, names[:1]).num_rows
    assert {tuple(row) for row in counted} == {
        (names[0], "delete", rows_before),
        (names[0], "insert", rows_after),
    }
