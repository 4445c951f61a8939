"""DuckDB and delta-rs read the tables as Spark does: counts, sums, nested columns and times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import DUCKDB, View, read_views
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import TABLES

Rows = list[tuple[Any, ...]]
VIEWS = [view for view in read_views() if DUCKDB in view.engines]


@pytest.fixture(scope="module")
def by_spark(finished: Warehouse) -> Catalog:
    return Catalog(finished, read_views())


@pytest.fixture(scope="module")
def by_duckdb(finished: Warehouse) -> Iterable[duckdb.DuckDBPyConnection]:
    """The tables through delta-rs and Arrow: DuckDB's own Delta reader is a download."""
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        for name, table in TABLES.items():
            if finished.exists(table):
                files = deltalake.DeltaTable(finished.uri_of(table))
                connection.register(name, files.to_pyarrow_dataset())
        yield connection


def plain(value: Any) -> Any:
    """A value as every engine has it: times in UTC, wide integers and floats as numbers."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return tuple(plain(each) for each in value.values())
    if isinstance(value, list):
        return tuple(plain(each) for each in value)
    return value


def sorted_rows(rows: Iterable[tuple[Any, ...]]) -> Rows:
    found = [tuple(plain(value) for value in row) for row in rows]
    # Sums of doubles differ in the last digits with their order, so not by those.
    return sorted(found, key=lambda row: [repr(v) for v in row if not isinstance(v, float)])


def arrow_rows(table: pa.Table) -> Rows:
    return sorted_rows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def same(one: Rows, other: Rows) -> bool:
    if len(one) != len(other):
        return False
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        if isinstance(a, float) and isinstance(b, int | float)
        else a == b
        for left, right in zip(one, other, strict=True)
        for a, b in zip(left, right, strict=True)
    )


QUERIES = {
    "counts and sums": """
        SELECT recording, node_id, api_name, count(*), CAST(sum(request_bytes) AS BIGINT),
          min(correlation_id), max(total_ms) FROM requests GROUP BY ALL""",
    "times": """
        SELECT recording, node_id, min(received_at), max(completed_at),
          count(*) FILTER (WHERE completed_at >= TIMESTAMP '2026-11-20 20:46:00') FROM requests
        GROUP BY ALL""",
    "time buckets": """
        SELECT date_trunc('second', received_at) AS second, count(*) FROM requests
        WHERE recording = 'failover-4.0' GROUP BY ALL""",
    "nulls and text": """
        SELECT client_id, count(*), count(client_id), count(DISTINCT connection) FROM requests
        WHERE client_id IS NULL OR client_id LIKE '%broker%' GROUP BY ALL""",
    "nested columns": """
        SELECT recording, node_id, CAST(sum(cardinality(request_partitions)) AS BIGINT),
          CAST(sum(cardinality(response_partitions)) AS BIGINT), count(request_partitions)
        FROM fetches GROUP BY ALL""",
    "lists of integers": """
        SELECT topic, partition, said.at, replicas, isr, cardinality(isr)
        FROM isr_changes AS said""",
    "joins": """
        SELECT o.variant, o.client_kind, count(*), CAST(sum(r.request_bytes) AS BIGINT)
        FROM fetch_session_outcomes o JOIN requests r
          ON r.recording = o.recording AND r.request_id = o.request_id
        WHERE o.parameter = 'none' GROUP BY ALL""",
    "percentiles": """
        SELECT recording, variant, is_voter, median(lag_ms),
          percentile_cont(0.99) WITHIN GROUP (ORDER BY lag_ms) FROM high_watermark_lag
        WHERE phase = 'steady' GROUP BY ALL""",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_duckdb_gives_the_same_answers(
    by_spark: Catalog, by_duckdb: duckdb.DuckDBPyConnection, query: str
) -> None:
    spark = arrow_rows(by_spark.query(query).toArrow())
    assert spark
    assert same(spark, arrow_rows(by_duckdb.sql(query).to_arrow_table()))


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_that_says_duckdb_runs_there_with_the_same_rows(
    by_spark: Catalog, by_duckdb: duckdb.DuckDBPyConnection, view: View
) -> None:
    spark = arrow_rows(by_spark.query(f"SELECT * FROM {view.name}").toArrow())
    assert same(spark, arrow_rows(by_duckdb.sql(view.query).to_arrow_table()))


def test_partitions_are_taken_apart_alike(
    by_spark: Catalog, by_duckdb: duckdb.DuckDBPyConnection
) -> None:
    """Each engine has its own word for a row per element."""
    columns = (
        "node_id, p.partition, count(*), CAST(sum(p.record_bytes) AS BIGINT), max(p.high_watermark)"
    )
    spark = f"""SELECT {columns} FROM fetches LATERAL VIEW explode(response_partitions) AS p
        GROUP BY ALL"""
    duck = f"""SELECT {columns} FROM (SELECT node_id, unnest(response_partitions) AS p FROM fetches)
        GROUP BY ALL"""
    rows = arrow_rows(by_spark.query(spark).toArrow())
    assert len(rows) > 10
    assert same(rows, arrow_rows(by_duckdb.sql(duck).to_arrow_table()))


def test_delta_rs_and_arrow_give_the_same_answers(by_spark: Catalog, finished: Warehouse) -> None:
    requests = deltalake.DeltaTable(finished.uri_of(TABLES["requests"])).to_pyarrow_dataset()
    late = pc.field("received_at") >= pa.scalar(
        datetime(2026, 11, 20, 20, 46, tzinfo=UTC), pa.timestamp("us", tz="UTC")
    )
    chosen = requests.to_table(filter=late & (pc.field("node_id") == 1))
    grouped = chosen.group_by("api_name").aggregate(
        [([], "count_all"), ("response_bytes", "sum"), ("received_at", "max")]
    )
    spark = by_spark.query(
        "SELECT api_name, count(*), sum(response_bytes), max(received_at) FROM requests "
        "WHERE node_id = 1 AND received_at >= '2026-11-20 20:46:00' GROUP BY ALL"
    )
    columns = ["api_name", "count_all", "response_bytes_sum", "received_at_max"]
    rows = arrow_rows(grouped.select(columns))
    assert len(rows) > 3
    assert rows == arrow_rows(spark.toArrow())


def test_types_are_what_the_schema_says(finished: Warehouse) -> None:
    for table in TABLES.values():
        if finished.exists(table):
            read = deltalake.DeltaTable(finished.uri_of(table)).to_pyarrow_dataset().schema
            for field in table.arrow_schema:
                if not pa.types.is_nested(field.type):
                    assert read.field(field.name).type in (
                        field.type,
                        pa.large_string() if field.type == pa.string() else field.type,
                    ), (table.name, field.name)
