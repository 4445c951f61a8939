"""The warehouse: a folder of Delta tables, and the only ways in which rows get there.

* ``create_missing_tables`` makes empty tables as ``replay.schema`` describes them, and gives those
  of an older version of this program the columns that they lack (``schema_evolution``).
* ``insert_new`` appends rows whose key is not in the table yet. Said twice, it is done once.
* ``append`` is for rows that are known to be new: three times as fast on small data.
* ``replace`` puts rows in the place of all rows of a scope, in one transaction.

Tables use no Delta feature beyond protocol versions (reader 1, writer 2), so that delta-rs, DuckDB
and whoever else reads Delta can read them: no deletion vectors, no column mapping.

Several jobs at once
--------------------
Delta lets one of several writers win and tells the others, but on a local disk its commit is a look
and then a rename: two processes could both look before either renames. So on a local warehouse
writers of a table queue up at a lock (``_locks/<table>``), also those in one process. Locks die
with their process. In an object store Delta's own arbitration is all there is, and is enough.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta.tables import DeltaTable
from kip_replay.pipelines.errors import UserError, WriteConflictError
from kip_replay.pipelines.warehouse import commits as delta_commits
from kip_replay.pipelines.warehouse.commit_history import (
    DELETED,
    Commit,
    ScopeValue,
    commits,
    current_marks,
    marks_text,
)
from kip_replay.pipelines.warehouse.commit_history import (
    Scope as Scope,  # users of a warehouse name it
)
from kip_replay.pipelines.warehouse.data_files import stats_columns
from kip_replay.pipelines.warehouse.locks import one_job, queued
from kip_replay.pipelines.warehouse.schema_evolution import (
    STATS_COLUMNS,
    Difference,
    as_today,
    difference,
    require_readable,
    require_writable,
    shape,
)
from kip_replay.replay.schema import TABLES, Table
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

_TABLE_PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    "delta.columnMapping.mode": "none",
    # Fingerprints stand in commits: jobs.maintain restates them long before, and a warehouse that
    # nobody maintains keeps them for a year.
    "delta.logRetentionDuration": "interval 365 days",
}
#: Starting a write costs more than writing a small table: so many at once.
WRITERS = 4
#: What Delta raises where another writer was first; they have no common class in Python.
CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
_ATTEMPTS = 4
_SECONDS_BETWEEN_ATTEMPTS = 0.5


class Written(NamedTuple):
    """A scope that a write replaces, and a fingerprint of what its rows follow from."""

    scope: Scope
    fingerprint: str | None = None


class SchemaError(Exception):
    """Rows do not fit their table: a mistake in this program, never in a recording."""


class Warehouse:
    """The Delta tables under ``path``: a folder, created by the first write."""

    def __init__(self, spark: SparkSession, path: str | Path) -> None:
        self.spark = spark
        # Delta takes a relative path for the name of a table; a URI is absolute as it is.
        is_uri = "://" in str(path)
        self.path = str(path).rstrip("/") if is_uri else str(Path(path).absolute())
        # Parquet's default for Spark, INT96, is deprecated and has no statistics.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        # That a rule has nothing to say of a recording is worth a commit too.
        spark.conf.set("spark.databricks.delta.skipRecordingEmptyCommits", "false")
        self._differences: dict[str, Difference] = {}
        self._is_writable = False

    def path_of(self, table: Table) -> str:
        """Where the table is: ``<warehouse>/<table>``."""
        return f"{self.path}/{table.name}"

    @property
    def _is_folder(self) -> bool:
        return "://" not in self.path or self.path.startswith("file://")

    @property
    def folder(self) -> str:
        """The local or shared folder. Raises UserError for a warehouse in an object store."""
        if not self._is_folder:
            raise UserError(
                f"the warehouse {self.path} is not a folder: name one that all workers can write to"
            )
        return self.path.removeprefix("file://")

    def exists(self, table: Table) -> bool:
        """Whether the table is there; its rows may be none."""
        if self._is_folder:  # a question of milliseconds
            return delta_commits.exists(self.path_of(table))
        return bool(DeltaTable.isDeltaTable(self.spark, self.path_of(table)))

    def create_missing_tables(self, tables: Collection[Table] = tuple(TABLES.values())) -> None:
        """Creates the tables that are not there yet, empty, and brings old ones to today's columns.

        Raises UserError for a table that cannot be written to as today's.
        """
        # Before the first write all tables, so that none is written where a later one is refused.
        looked_at = (
            *tables,
            *(TABLES.values() if self._is_folder and not self._is_writable else ()),
        )
        there = {table.name: table for table in looked_at if self.exists(table)}
        for table in there.values():
            require_writable(self._difference(table), table, self.path_of(table))
        self._is_writable = True
        missing = [table for table in tables if table.name not in there]
        old = [t for t in tables if t.name in there and self._difference(t).missing]
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(self._create, missing))
            list(pool.map(self._add_columns, old))

    def read(self, table: Table, where: Scope | None = None) -> DataFrame:
        """All rows of the table as of now, or those of a scope, with today's columns.

        Raises UserError if the table was never created, or cannot be read as today's.
        """
        if not self.exists(table):
            raise UserError(
                f"there is no table {table.name} in the warehouse {self.path}: run jobs.ingest or "
                "jobs.run with this --warehouse first"
            )
        found = self._difference(table)
        require_readable(found, table, self.path_of(table))
        rows = self.spark.read.format("delta").load(self.path_of(table))
        rows = as_today(rows, found, table)
        return rows.filter(_condition(where)) if where else rows

    @contextmanager
    def exclusively(self, what: str) -> Iterator[None]:
        """Lets one job at a time do ``what`` to a local warehouse; another one waits.

        Delta finds writers that are in each other's way only where they read what the other writes;
        plain appends are not. Raises WriteConflictError if the other one does not end.
        """
        if not self._is_folder:  # an object store knows no locks
            yield
            return
        with one_job(Path(self.folder) / f"_{what}.lock", what, self.path):
            yield

    @contextmanager
    def _alone(self, table: Table) -> Iterator[None]:
        """Lets one writer at a time, of all threads and processes, commit to a local table."""
        if not self._is_folder:
            yield
            return
        with queued(Path(self.folder) / "_locks" / table.name):
            yield

    def append(
        self,
        table: Table,
        rows: DataFrame,
        in_few_files: bool = False,
        written: Sequence[Written] = (),
    ) -> None:
        """Appends rows whose keys the caller knows not to be there; one transaction.

        ``in_few_files``: the rows come in few partitions already. ``written`` says with which
        fingerprints their scopes now are (``fingerprint_of``). Raises SchemaError.
        """
        self.create_missing_tables([table])
        checked = _as_table(rows, table)
        writer = _writer(
            checked if in_few_files else _in_few_files(checked, table), "append", written
        )
        with self._alone(table):
            _translated(lambda: writer.save(self.path_of(table)), table)

    def insert_new(
        self,
        table: Table,
        rows: DataFrame,
        where: Column | None = None,
        in_few_files: bool = False,
        written: Sequence[Written] = (),
    ) -> None:
        """Appends the rows whose key is not in the table; one transaction.

        ``rows`` are unique by key. ``where``, if given, holds for every row and prunes what is read
        of the table. ``in_few_files`` and ``written``: as in ``append``. Raises SchemaError,
        WriteConflictError.
        """
        self.create_missing_tables([table])
        checked = _as_table(rows, table)

        def append() -> None:
            # Read anew on each attempt, so that what made the last one fail is seen. Read inside
            # the transaction, so that Delta finds two jobs that insert the same keys.
            there = self.read(table)
            if where is not None:
                there = there.filter(where)
            keys = there.select(*table.key)
            new = checked.join(keys, on=list(table.key), how="left_anti").select(*checked.columns)
            new = new if in_few_files else _in_few_files(new, table)
            _writer(new, "append", written).save(self.path_of(table))

        with self._alone(table):
            _attempted(append, table)

    def replace(
        self, table: Table, rows: DataFrame, where: Scope, fingerprint: str | None = None
    ) -> None:
        """Puts ``rows`` in the place of all rows of the scope ``where``; one transaction.

        ``rows`` all belong to the scope; Delta refuses others. With a ``fingerprint`` of everything
        the rows follow from, ``is_current`` later tells whether they would come out the same.
        Raises SchemaError, WriteConflictError.
        """
        self.replace_all(table, rows, [Written(where, fingerprint)])

    def replace_all(self, table: Table, rows: DataFrame, written: Sequence[Written]) -> None:
        """The same for several scopes at once: all of them or none are there afterwards."""
        self.create_missing_tables([table])
        checked = _as_table(rows, table)

        def overwrite() -> None:
            writer = _writer(_in_few_files(checked, table), "overwrite", written)
            scopes = " OR ".join(f"({predicate(w.scope)})" for w in written)
            writer.option("replaceWhere", scopes).save(self.path_of(table))

        with self._alone(table):
            _attempted(overwrite, table)

    def is_current(self, table: Table, where: Scope, fingerprint: str) -> bool:
        """Whether the scope's rows are what ``replace`` last wrote there with this fingerprint."""
        return self.fingerprint_of(table, where) == fingerprint

    def fingerprint_of(self, table: Table, where: Scope) -> str | None:
        """The fingerprint with which ``replace`` last wrote this scope.

        Told from the table's history. None if the scope was never written, if anything else may
        have touched it since, or if the history no longer reaches back that far.
        """
        marks = current_marks(self.commits(table)) if self.exists(table) else ()
        found = next((mark.fingerprint for mark in marks if mark.scope == where), None)
        return None if found == DELETED else found

    def commits(self, table: Table) -> Iterator[Commit]:
        """The commits of a table that is there, as far back as they are kept, the last first."""
        return commits(self.path_of(table))

    def restate_fingerprints(self, table: Table) -> None:
        """A commit that says all current fingerprints again, so that old commits may go.

        It appends nothing, and so is in no other writer's way.
        """
        history = list(self.commits(table))
        marks = [(mark.scope, mark.fingerprint) for mark in current_marks(history)]
        writer = _writer(self._no_rows(table), "append")
        writer = writer.option("userMetadata", marks_text(marks, as_of=history[0].version))
        with self._alone(table):
            writer.save(self.path_of(table))

    def delete(self, table: Table, scopes: Sequence[Scope]) -> None:
        """Deletes all rows of some scopes; one transaction. Other scopes stay current."""
        self.replace_all(table, self._no_rows(table), [Written(scope, DELETED) for scope in scopes])

    def _no_rows(self, table: Table) -> DataFrame:
        return self.spark.createDataFrame([], from_arrow_schema(table.arrow_schema))

    def _difference(self, table: Table) -> Difference:
        """How the table on disk differs from today's, looked at once."""
        found = self._differences.get(table.name)
        if found is None:
            path = self.path_of(table)
            if self._is_folder:
                on_disk = deltalake.DeltaTable(path)
                schema = StructType.fromJson(json.loads(on_disk.schema().to_json()))
                partitioned_by: Sequence[str] = on_disk.metadata().partition_columns
            else:
                there = DeltaTable.forPath(self.spark, path)
                schema = there.toDF().schema
                partitioned_by = there.detail().select("partitionColumns").collect()[0][0]
            found = difference(schema, partitioned_by, table)
            self._differences[table.name] = found
        return found

    def _add_columns(self, table: Table) -> None:
        """Gives an older version's table the columns that it lacks: commits of metadata alone."""
        path, kept = self.path_of(table), ",".join(stats_columns(table))
        with self._alone(table):
            del self._differences[table.name]
            missing = self._difference(table).missing
            if not missing:
                return  # another job was first
            del self._differences[table.name]
            if self._is_folder:
                delta_commits.add_missing_columns(path, table)
                deltalake.DeltaTable(path).alter.set_table_properties({STATS_COLUMNS: kept})
                return
            fields = from_arrow_schema(table.arrow_schema)
            columns = ", ".join(
                f"`{column.name}` {fields[column.name].dataType.simpleString()} "
                f"COMMENT {_sql(column.comment)}"
                for column in table.columns
                if column.name in missing
            )
            properties = f"{_sql(STATS_COLUMNS)} = {_sql(kept)}"
            self.spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({columns})")
            self.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({properties})")

    def _create(self, table: Table) -> None:
        properties = {**_TABLE_PROPERTIES, STATS_COLUMNS: ",".join(stats_columns(table))}
        if self._is_folder:
            with self._alone(table):  # whoever comes second finds it there
                delta_commits.create_table(self.path_of(table), table, properties)
            return
        fields = from_arrow_schema(table.arrow_schema).fields
        builder = (
            DeltaTable.createIfNotExists(self.spark)
            .location(self.path_of(table))
            .comment(table.comment)
            .partitionedBy(*table.partitioned_by)
        )
        for name, value in properties.items():
            builder = builder.property(name, value)
        for field, column in zip(fields, table.columns, strict=True):
            builder = builder.addColumn(
                field.name, field.dataType, nullable=column.nullable, comment=column.comment
            )
        _attempted(builder.execute, table)


def _as_table(rows: DataFrame, table: Table) -> DataFrame:
    """The columns in the table's order. Raises SchemaError unless names and types are the table's.

    Whether a key is null only the rows tell: Delta's NOT NULL constraints do while writing.
    """
    wanted = from_arrow_schema(table.arrow_schema)
    missing = set(wanted.names) - set(rows.columns)
    unknown = set(rows.columns) - set(wanted.names)
    if missing or unknown or len(rows.columns) != len(wanted.names):
        raise SchemaError(
            f"rows for {table.name} do not have its columns: missing {sorted(missing)}, "
            f"not in the table {sorted(unknown)}"
        )
    for field in wanted.fields:
        given = rows.schema[field.name].dataType
        if shape(given) != shape(field.dataType):
            raise SchemaError(
                f"rows for {table.name} have {field.name} as {given.simpleString()}, "
                f"the table has {field.dataType.simpleString()}"
            )
    return rows.select(*wanted.names)


def _in_few_files(rows: DataFrame, table: Table) -> DataFrame:
    """One file for small data, several of a good size for large, sorted as they came.

    The rebalance leaves both decisions to adaptive execution, which knows the bytes by then.
    """
    return rows.hint("rebalance", *[F.col(name) for name in table.partitioned_by])


def _writer(rows: DataFrame, mode: str, written: Sequence[Written] = ()) -> Any:
    writer = rows.write.format("delta").mode(mode)
    marks = [(w.scope, w.fingerprint) for w in written if w.fingerprint is not None]
    return writer.option("userMetadata", marks_text(marks)) if marks else writer


def _attempted(write: Callable[[], object], table: Table) -> None:
    """Writes, again if another writer was in the way: for writes that can be said twice."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _translated(write, table)
            return
        except CONFLICTS as conflict:
            if attempt == _ATTEMPTS:
                raise WriteConflictError(
                    f"another job keeps writing to the same rows of {table.name}: run this one "
                    "again when it is done"
                ) from conflict
            time.sleep(_SECONDS_BETWEEN_ATTEMPTS * attempt)


def _translated(write: Callable[[], object], table: Table) -> None:
    """Writes; what Delta says of a null in a key becomes a SchemaError."""
    try:
        write()
    except (PySparkException, Py4JJavaError) as error:
        if "NOT NULL constraint violated" not in str(error):
            raise
        said = str(error).partition("NOT NULL constraint violated")[2].split("\n")[0]
        raise SchemaError(f"a row for {table.name} has null where none may be{said}") from error


def _condition(where: Scope) -> Column:
    condition = F.lit(True)
    for name, value in where.items():
        condition = condition & (F.col(name) == F.lit(value))
    return condition


def predicate(where: Scope) -> str:
    """The scope as a condition of Spark SQL."""
    return " AND ".join(f"`{name}` = {_sql(value)}" for name, value in where.items())


def _sql(value: ScopeValue) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return str(value).lower()
