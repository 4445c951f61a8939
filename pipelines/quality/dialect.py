"""Recordings of a warehouse as a database of SQLAlchemy, which Great Expectations reads.

URLs are ``duckdb+warehouse:///?warehouse=PATH&recording=NAME&recording=...``; an entry point in
setup.cfg registers them. Whoever connects sees the tables as they are then.

duckdb-engine does not serve here: Great Expectations fetches rows after it has released the
connection, SQLAlchemy rolls back what is released, and DuckDB then has no rows left.
"""

from collections.abc import Sequence
from typing import Any, Self

import duckdb
import pyarrow as pa
from sqlalchemy import URL, types
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.pool import StaticPool

from kip_replay.pipelines.warehouse.tables import Warehouse, sql_text
from kip_replay.replay.tables import TABLES

#: Types of columns; Great Expectations does not tell nested ones apart.
_TYPES = {
    "VARCHAR": types.String,
    "INTEGER": types.Integer,
    "BIGINT": types.BigInteger,
    "DOUBLE": types.Double,
    "BOOLEAN": types.Boolean,
    "TIMESTAMP": types.DateTime,
}


def url(warehouse: str, recordings: Sequence[str]) -> str:
    query = {"warehouse": warehouse, "recording": tuple(recordings)}
    return URL.create("duckdb+warehouse", query=query).render_as_string()


class _Connection:
    """A connection and its only cursor: nothing is written, so there are no transactions."""

    rowcount = -1

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self.fetchone, self.fetchall = database.fetchone, database.fetchall
        self.fetchmany = database.fetchmany

    def cursor(self) -> Self:
        return self

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        self._database.execute(statement, list(parameters))

    @property
    def description(self) -> list[tuple[Any, ...]]:
        return [(name, str(kind), *more) for name, kind, *more in self._database.description]

    def commit(self) -> None:
        """Nothing."""

    rollback = close = commit


class Dialect(DefaultDialect):
    name, driver = "duckdb", "warehouse"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        return duckdb

    @classmethod
    def get_pool_class(cls, url: URL) -> type[StaticPool]:
        return StaticPool

    def create_connect_args(self, url: URL) -> Any:
        recordings = url.normalized_query.get("recording", ())
        return (url.query["warehouse"], recordings), {}

    def connect(self, *names: Any, **_: Any) -> Any:
        warehouse, recordings = names
        return _Connection(_database(Warehouse(warehouse), recordings))

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        found = connection.exec_driver_sql(f'DESCRIBE "{table_name}"').fetchall()
        return [
            {"name": name, "type": _TYPES.get(kind, types.NullType)(), "nullable": True}
            for name, kind, *_ in found
        ]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return [*TABLES]

    def has_table(self, connection: Any, table_name: str, *_: Any, **__: Any) -> bool:
        return table_name in TABLES


def _database(warehouse: Warehouse, recordings: Sequence[str]) -> duckdb.DuckDBPyConnection:
    """Views of the tables, with times in UTC: to fetch those with a zone takes another package.

    DuckDB reads files twice as fast by itself as through Arrow.
    """
    database = warehouse.database(recordings)
    names = ", ".join(map(sql_text, recordings)) or "NULL"
    for table in TABLES.values():
        uri, source = warehouse.uri_of(table), f"_{table.name} WHERE recording IN ({names})"
        paths = [f"{uri}/{file['path']}" for file in warehouse.files(table, recordings)]
        if paths and "://" not in uri:
            files = ", ".join(map(sql_text, paths))
            source = f"read_parquet([{files}], hive_types = {{'recording': VARCHAR}})"
        times = ", ".join(
            f'make_timestamp(epoch_us("{field.name}")) AS "{field.name}"'
            for field in table.arrow_schema
            if pa.types.is_timestamp(field.type)
        )
        columns = f"* REPLACE ({times})" if times else "*"
        database.execute(f"CREATE OR REPLACE VIEW {table.name} AS SELECT {columns} FROM {source}")
    return database
