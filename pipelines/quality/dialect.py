"""Recordings of a warehouse as a database of SQLAlchemy, which Great Expectations reads.

URLs are ``duckdb+warehouse:///?recording=NAME&recording=...`` (an entry point in setup.cfg), with
``warehouse=PATH``, or else of the folder that the open Great Expectations project lies in, so that
a copy of a warehouse reads its own tables. Whoever connects sees the tables as they are then.

duckdb-engine does not serve here: Great Expectations fetches rows after it has released the
connection, SQLAlchemy rolls back what is released, and DuckDB then has no rows left.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

import duckdb
from sqlalchemy import URL, types
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.pool import StaticPool

from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

#: Types of columns; Great Expectations does not tell nested ones apart.
_TYPES = {
    "VARCHAR": types.String,
    "INTEGER": types.Integer,
    "BIGINT": types.BigInteger,
    "DOUBLE": types.Double,
    "BOOLEAN": types.Boolean,
    "TIMESTAMP WITH TIME ZONE": types.DateTime,
}


def url(recordings: Sequence[str], warehouse: str | None = None) -> str:
    query: dict[str, Any] = {"recording": tuple(recordings)}
    if warehouse is not None:
        query["warehouse"] = warehouse
    return URL.create("duckdb+warehouse", query=query).render_as_string()


class _Connection:
    """A connection and its only cursor: nothing is written, so there are no transactions."""

    rowcount = -1

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self.description: list[tuple[Any, ...]] = []

    def cursor(self) -> Self:
        return self

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        found = self._database.sql(statement, params=list(parameters))
        self.description = [(name, str(kind), *more) for name, kind, *more in found.description]
        # By Arrow: to fetch times with a zone otherwise, DuckDB needs another package.
        columns = (column.to_pylist() for column in found.to_arrow_table().columns)
        self._rows = zip(*columns, strict=True)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        return [*islice(self._rows, size)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [*self._rows]

    def commit(self) -> None:
        """Does nothing."""

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
        return (url.query.get("warehouse"), url.normalized_query.get("recording", ())), {}

    def connect(self, *names: Any, **_: Any) -> Any:
        warehouse, recordings = names
        return _Connection(Warehouse(warehouse or _place_of_project()).database(recordings))

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


def _place_of_project() -> Path:
    """The folder in which the project lies that was opened last, as Great Expectations has it."""
    from great_expectations.data_context.data_context.context_factory import project_manager

    return Path(str(project_manager.get_current_project().root_directory)).parent
