"""The warehouse as a database: tables and views by plain name, in DuckDB or a catalog of Spark.

In a session of DuckDB tables are registered snapshots, so that no statement can change them, and
external access is off: none reads or writes a file, attaches a database or loads an extension. Time
is limited.

In a catalog of Spark, for SQL of others, tables are external, by path: what a step commits is seen
at once, and dropping them deletes no file. Their comments are in their own logs; those of views,
which are there, are written each time.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, NamedTuple, TypeVar

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from kip_replay.pipelines.analysis.views import (
    View,
    as_configured,
    comments_of,
    create_views,
    in_order,
    named_in,
)
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

#: In this order: the last two close the session.
_SETTINGS = {
    "TimeZone": "'UTC'",
    "temp_directory": "''",
    "enable_external_access": "false",
    "lock_configuration": "true",
}
_DESCRIBE = re.compile(r"\s*(?:DESCRIBE|DESC)\s+(\w+)[\s;]*", re.IGNORECASE)
#: Where DuckDB's message turns to the statement's text, or to itself.
_REST = re.compile(r"\nLINE \d+:|\nStack Trace:")
_HINT = re.compile(r"Did you mean|Candidate ")
_T = TypeVar("_T")


class Rows(NamedTuple):
    """Holds the result of a statement; rows come as DuckDB makes them."""

    schema: pa.Schema
    rows: Iterator[tuple[Any, ...]]


class Catalog:
    """The session; ``seconds`` is what a statement may take."""

    def __init__(self, warehouse: str, views: Sequence[View], seconds: int = 600) -> None:
        tables, uris = TABLES.values(), {name: f"{warehouse}/{name}" for name in TABLES}
        made = {name for name, uri in uris.items() if commits.exists(uri)}
        if not made:
            raise UserError(
                f"there are no tables in the warehouse {warehouse}: name one with --warehouse, or "
                "make it with kip-replay run"
            )
        self._views = in_order(views, TABLES)
        #: What a row of each table and view says.
        named = {view.name: view.comment for view in self._views}
        mixed = "; for other values of settings, too: {} leaves these out"
        self.comments = {
            table.name: table.comment + (mixed.format(view) if view in named else "")
            for table in tables
            for view in [as_configured(table.name)]
        }
        self.comments |= named
        self._column_comments = {t.name: {c.name: c.comment for c in t.columns} for t in tables}
        self._session = duckdb.connect(config={"python_enable_replacements": False})
        for table in tables:
            rows = table.arrow_schema.empty_table()
            if table.name in made:
                rows = commits.dataset(DeltaTable(uris[table.name]), uris[table.name], table)
            self._session.register(table.name, rows)
        for name, value in {"max_execution_time": str(seconds * 1000), **_SETTINGS}.items():
            self._session.execute(f"SET {name} = {value}")

    def _create(self, statement: str) -> None:
        """Creates the views that a statement names; all where it names no table, as SHOW TABLES."""
        words = {*re.findall(r"\w+", statement.lower())}
        is_named = words & self.comments.keys()
        named = named_in(statement.lower(), self._views) if is_named else self._views
        if not named:
            return
        self._views = [view for view in self._views if view not in named]
        create_views(self._session, named)
        for view in named:
            names = self._session.view(view.name).columns
            comments = comments_of(view, names, self._column_comments)
            self._column_comments[view.name] = comments

    def query(self, statement: str) -> Rows:
        """Runs a statement that only reads. Raises UserError, also while rows are read."""
        reader = self._interruptible(lambda: self._reader(statement))
        return Rows(reader.schema, _rows(reader))

    def arrow(self, statement: str) -> pa.Table:
        """Runs a statement and returns all of its result. Raises UserError."""
        return self._interruptible(lambda: self._reader(statement).read_all())

    def _interruptible(self, work: Callable[[], _T]) -> _T:
        # In a thread of its own: DuckDB, which works in several, hears no Ctrl-C meanwhile.
        with _one_sentence(), ThreadPoolExecutor(1) as pool:
            try:
                return pool.submit(work).result()
            except KeyboardInterrupt:  # also before the statement is about to hear of it
                ended = pool.submit(bool)
                while not ended.done():
                    self._session.interrupt()
                    wait([ended], 0.1)
                raise

    def _reader(self, statement: str) -> pa.RecordBatchReader:
        self._create(statement)
        if (match := _DESCRIBE.fullmatch(statement)) and match[1].lower() in self.comments:
            view, comments = self._session.view(match[1]), self._column_comments[match[1].lower()]
            columns = {"column_name": view.columns, "column_type": [*map(str, view.types)]}
            columns["comment"] = [comments.get(name, "") for name in view.columns]
            return pa.table(columns).to_reader()
        types = []
        with suppress(ValueError):  # a type of statement that DuckDB's Python has no name for
            types = [parsed.type for parsed in self._session.extract_statements(statement)]
        if types != [duckdb.StatementType.SELECT]:  # SHOW and DESCRIBE are that to it
            raise UserError("this only reads: give one SELECT, WITH, VALUES, SHOW or DESCRIBE")
        try:
            return self._session.sql(statement).to_arrow_reader(2048)
        except duckdb.CatalogException:  # DuckDB's hint is one of all views
            self._create("")
            return self._session.sql(statement).to_arrow_reader(2048)


def _rows(reader: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    with _one_sentence(), reader:
        for batch in reader:
            columns = [column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns]
            yield from zip(*columns, strict=True)


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Makes a UserError of one line, with its hints, of what DuckDB says, also through Arrow."""
    try:
        yield
    except (duckdb.Error, OSError, pa.ArrowException, OverflowError) as error:
        lines = [line.strip() for line in _REST.split(str(error))[0].splitlines() if line.strip()]
        first = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", lines[0]) if lines else "no message"
        hints = dropwhile(lambda line: not _HINT.match(line), lines[1:])
        raise UserError(f"{first} {'; '.join(hints)}".replace(":; ", ": ").strip()) from None
    except RuntimeError:  # DuckDB's form of it
        raise KeyboardInterrupt from None


@dataclass(frozen=True)
class Metastore:
    """A ``schema`` of the catalog of a Spark session, which may be in another catalog by name."""

    session: Any
    schema: str
    warehouse: Warehouse

    def register(self, views: Sequence[View]) -> tuple[int, int]:
        """Registers all, also what has no rows; how many tables and views. Raises UserError.

        Nothing is registered over a table of another place.
        """
        self.session.sql(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
        with self._used():
            own, other = self._tables()
            if other:
                raise UserError(
                    f"the schema {self.schema} has a table {other[0]} of another place than the "
                    f"warehouse {self.warehouse.path}: drop it, or name another schema"
                )
            tables = [*TABLES.values()]
            for table in tables:
                if not self.warehouse.exists(table):  # a statement that names it would fail
                    commits.create(self.warehouse.uri_of(table), table, self.warehouse.properties)
                commits.evolve(self.warehouse.open(table), table)
                if table.name not in own:
                    uri = _text(self.warehouse.uri_of(table))
                    self.session.sql(f"CREATE TABLE {table.name} USING delta LOCATION {uri}")
            known = {table.name: {c.name: c.comment for c in table.columns} for table in tables}
            views = in_order(views, known)
            for view in views:
                self._create(view, known)
            return len(tables), len(views)

    def drop(self, views: Sequence[View]) -> int:
        """Removes the tables of this warehouse, and its views from the catalog; counts these."""
        with self._used():
            own, _ = self._tables()
            for view in views if own else ():
                self.session.sql(f"DROP VIEW IF EXISTS {view.name}")
            for name in own:
                self.session.sql(f"DROP TABLE {name}")
            return len(own)

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Lets plain names be those of the schema, not of views that texts have read last."""
        [before] = self.session.sql("SELECT current_catalog(), current_schema()").collect()
        self.session.sql(f"USE {self.schema}")
        for view in self.session.sql("SHOW VIEWS").collect():
            if view["isTemporary"]:
                self.session.catalog.dropTempView(view["viewName"])
        try:
            yield
        finally:
            self.session.sql("USE `{}`.`{}`".format(*before))

    def _tables(self) -> tuple[list[str], list[str]]:
        """Names of tables that are this warehouse's, and of those of other places."""
        there = {row["tableName"] for row in self.session.sql("SHOW TABLES").collect()}
        tables = [table for table in TABLES.values() if table.name in there]
        own = [table.name for table in tables if self._is_own(table)]
        return own, sorted({table.name for table in tables} - {*own})

    def _is_own(self, table: Table) -> bool:
        rows = self.session.sql(f"DESCRIBE TABLE EXTENDED {table.name}").collect()
        places = (row["data_type"] for row in rows if row["col_name"] == "Location")
        uri = self.warehouse.uri_of(table)
        return any(re.sub("^file:(//)?", "", place) == uri for place in places)

    def _create(self, view: View, known: dict[str, dict[str, str]]) -> None:
        names = self.session.sql(view.query).columns
        known[view.name] = comments_of(view, names, known)
        columns = (f"`{name}` COMMENT {_text(text)}" for name, text in known[view.name].items())
        self.session.sql(
            f"CREATE OR REPLACE VIEW {view.name} ({', '.join(columns)}) "
            f"COMMENT {_text(view.comment)} AS {view.query}"
        )


def _text(text: str) -> str:
    """A literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
