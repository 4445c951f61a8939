"""Tables of the warehouse in DuckDB, made of rows; with the views on slow requests."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from kip_replay.pipelines.analysis.views import View, create_views, in_order, read_views
from kip_replay.replay.table import AT, Table
from kip_replay.replay.tables import TABLES

Row = Mapping[str, Any]
_VIEWS = (
    *("slowest_requests", "slow_produces", "slow_high_watermarks", "slow_metadata_writes"),
    *("costly_fetchers", "topic_names"),
)


def database_of(filled: Mapping[Table, pa.Table]) -> DuckDBPyConnection:
    """A session with all tables, the others empty."""
    connection = duckdb.connect()
    for table in TABLES.values():
        rows = filled.get(table, rows_in(table, ()))
        connection.register(table.name, rows)
    create_views(connection, _views())
    return connection


@cache
def _views() -> list[View]:
    return [view for view in in_order(read_views(), TABLES) if view.name in _VIEWS]


def rows_in(table: Table, rows: Iterable[Row]) -> pa.Table:
    """Rows as a table, what they do not have as null; times may be microseconds."""
    every = list(rows)
    columns = []
    for column in table.columns:
        values = [row.get(column.name) for row in every]
        is_micros = column.type == AT and any(isinstance(value, int) for value in values)
        columns.append(pa.array(values, pa.int64() if is_micros else column.type).cast(column.type))
    return pa.Table.from_arrays(columns, names=[column.name for column in table.columns])
