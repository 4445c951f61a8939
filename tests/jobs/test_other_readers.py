"""Every table is read alike by Spark's Delta reader, delta-rs and DuckDB; views by two of them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from growing import ArrivingLogs

from kip_replay.jobs import run
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import as_configured, in_order, read_views
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


READ = [*TABLES.values()]
NAMES = ("acks-not-enough", "sessions-on")
#: Those without sweeps are tables less some rows.
VIEWS = [v for v in in_order(read_views(), TABLES) if not v.name.endswith(as_configured(""))]


def opened(spark: "SparkSession", warehouse: Warehouse) -> Warehouse:
    """The tables by name, through delta-spark, as any user of Spark opens them, and the views."""
    from pyspark.sql.pandas.types import from_arrow_schema  # Spark may not be there

    # Delta would reconstruct the state of each small log in 50 tasks.
    spark.conf.set("spark.databricks.delta.snapshotPartitions", 1)
    for table in READ:
        rows = spark.createDataFrame([], from_arrow_schema(table.arrow_schema))
        if warehouse.exists(table):
            rows = spark.read.format("delta").load(warehouse.uri_of(table))
        rows.createOrReplaceTempView(table.name)
    for view in VIEWS:  # which may read each other; Spark refuses here what it can't run
        spark.sql(view.query).createOrReplaceTempView(view.name)
    return warehouse


@pytest.fixture(scope="module")
def produced(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Beginnings of logs with PRODUCEs and consumers, so that every view has rows, by Spark."""
    folder = tmp_path_factory.mktemp("produced")
    logs = [str(ArrivingLogs(name, folder, [0.6]).arrive(0).path) for name in NAMES]
    path = str(folder / "warehouse")
    assert run.main([*logs, "--warehouse", path, "--engine", "local"]) == 0
    return opened(spark, Warehouse(path))


@pytest.mark.slow
def test_every_table_has_the_same_rows_for_every_reader(
    spark: "SparkSession", produced: Warehouse
) -> None:
    filled = set()
    with produced.database(NAMES) as database:
        database.execute("SET timezone = 'UTC'")
        for table in READ:
            loose = pa.schema([pa.field(c.name, c.type) for c in table.columns])
            read = [spark.table(table.name).toArrow(), database.table(table.name).to_arrow_table()]
            if produced.exists(table):
                read.append(deltalake.DeltaTable(produced.uri_of(table)).to_pyarrow_table())
            by = [(name, "ascending") for name in table.key]
            first, *others = (rows.select(loose.names).cast(loose).sort_by(by) for rows in read)
            assert all(first.equals(rows) for rows in others), table.name
            if first.num_rows:
                filled.add(table.name)
    assert {table.name for table in READ} - filled == {
        # These logs begin with the cluster, and have no gap; no check of theirs fails.
        *("replay_state", "rejected_lines", "log_gaps", "uncertainties", "held_sessions"),
        "quality_failures",
    }


@pytest.mark.slow  # in DuckDB they are run by tests of the catalog
def test_views_have_the_same_rows_in_duckdb_and_spark(
    spark: "SparkSession", produced: Warehouse
) -> None:
    catalog = Catalog(produced.path, VIEWS)
    for view in VIEWS:
        _, rows = catalog.query(f"SELECT * FROM {view.name}")
        assert (by_duckdb := canonical(rows)), view.name
        found = [column.to_pylist() for column in spark.table(view.name).toArrow().columns]
        assert by_duckdb == canonical(zip(*found, strict=True)), view.name


def canonical(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Rows as every engine has them: times in UTC, and sums of doubles, added in any order."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        if isinstance(value, dict | list | tuple):
            return [*map(plain, value.values() if isinstance(value, dict) else value)]
        if isinstance(value, float | Decimal):
            return int(value) if value == value // 1 else float(f"{value:.9g}")
        return value

    return sorted(repr(plain(row)) for row in rows)


def test_the_slowest_requests_come_first(finished: Warehouse) -> None:
    catalog = Catalog(finished.path, read_views())
    times = [ms for (ms,) in catalog.query("SELECT slow_ms FROM slowest_requests LIMIT 20").rows]
    [[most]] = catalog.query("SELECT max(total_ms) FROM requests WHERE api_name <> 'FETCH'").rows
    assert times == sorted(times, reverse=True)
    assert times[0] >= most
