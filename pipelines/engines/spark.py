"""The engine for logs of any size: tasks and texts on Spark."""

import pickle
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from math import ceil
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kip_replay.pipelines import progress
from kip_replay.pipelines.engines import (
    NO_INPUTS,
    Feed,
    In,
    Inputs,
    Out,
    ParquetFiles,
    Steps,
    TableSlice,
    bytes_of,
    in_turn,
    tables_of,
)
from kip_replay.pipelines.engines.local import BATCH_ROWS, Local
from kip_replay.pipelines.engines.session import configure, describe, is_connect, spark_session
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.engines.translation import spark_sql
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.storage import filesystem_of, is_store
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table

#: Bytes of Parquet that a task sorts and holds, about.
_TASK_BYTES = 32 << 20
#: More tasks than these for each core are merged by adaptive execution where keys are few.
_TASKS_PER_CORE_MAX = 16
#: The result of a text on tables of less than this (compressed) is small: DuckDB on the driver has
#: it before Spark has planned its jobs.
DUCKDB_BYTES_MAX = 64 << 20
#: Work on rows of tables of less than this takes the driver about as long (a second for each MB) as
#: Spark takes to plan its job and start its tasks.
REPLAY_BYTES_MIN = 4 << 20
#: A result comes in rows of at most this many bytes: Spark Connect has no message above 128 MB.
_RESULT_BYTES = 16 << 20
_RESULT = pa.schema([("task", pa.int32()), ("result", pa.binary())])
_PARTS = pa.schema(
    [("uri", pa.string()), ("name", pa.string()), ("part", pa.int32()), ("parts", pa.int32())]
)


@dataclass
class Spark:
    """Runs on Spark; below ``duckdb_bytes_max`` DuckDB on the driver fetches ``rows``.

    The driver also does work on what is below ``replay_bytes_min``.
    """

    warehouse: Warehouse
    duckdb_bytes_max: int = DUCKDB_BYTES_MAX
    #: How many tasks run at once; 0: what Spark says.
    cores_given: int = 0
    has_metastore: bool = False
    replay_bytes_min: int = REPLAY_BYTES_MIN

    def on(self, warehouse: Warehouse) -> Self:
        return replace(self, warehouse=warehouse)

    @cached_property
    def _driver(self) -> Local:
        """Returns the engine that runs small texts."""
        return Local(self.warehouse)

    @cached_property
    def session(self) -> SparkSession:
        """The Spark session: starts in seconds, so only used where there is work for it."""
        name, path = "kafka protocol replay", self.warehouse.path
        return spark_session(name, warehouse=path, has_metastore=self.has_metastore)

    @property
    def cores(self) -> int:
        """Counts by what Spark cuts rows of no size in, which Connect too can say: as a plan."""
        if self.cores_given or not is_connect():
            return self.cores_given or int(self.session.sparkContext.defaultParallelism)
        plan = str(self.session.sql("EXPLAIN SELECT * FROM range(1)").collect())
        if match := re.search(r"splits=(\d+)", plan):
            return int(match[1])
        raise UserError("Spark does not say how many tasks run at once: add --set spark.cores=8")

    def run(self, work: Callable[[In], Out], parts: Sequence[In]) -> list[Out]:
        # For a single part, a Python worker would take longer to start than to work.
        if len(parts) <= 1:
            return [work(part) for part in parts]
        describe(self.session, progress.at())
        numbers = self.session.range(0, len(parts), 1, len(parts))
        return self._called(partial(_on_part, work, [*map(pickle.dumps, parts)]), numbers)

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = NO_INPUTS) -> pa.Table:
        if bytes_of(self.warehouse, text, recordings, inputs) < self.duckdb_bytes_max:
            return self._driver.rows(text, recordings, inputs)
        try:
            return self._frame(text, recordings, inputs).toArrow()
        except AnalysisException as error:  # a text of a user's, which DuckDB might refuse as well
            raise ValueError(str(error)) from error

    def feed(self, feed: Feed[Out]) -> list[Out]:
        """One Spark job, unless it is small; a key's large rows are sorted on disk."""
        read, work = (feed.text, feed.recordings, feed.inputs), feed.work
        bytes_max = self.duckdb_bytes_max
        if not feed.is_light:
            bytes_max = min(bytes_max, self.replay_bytes_min)
        if bytes_of(self.warehouse, *read) < bytes_max:
            return self._driver.feed(feed)
        frame = self._frame(*read)
        frame = frame.repartition(*feed.key) if feed.key else frame.repartition(1)
        frame = frame.sortWithinPartitions(*map(F.expr, (*feed.key, *feed.order)))
        return self._called(work, frame)

    def _called(self, work: Callable[[Iterator[pa.RecordBatch]], Out], on: DataFrame) -> list[Out]:
        """Calls work on the rows of each partition; results in the order of partitions."""
        rows = on.mapInArrow(partial(_results, work), from_arrow_schema(_RESULT)).collect()
        pickled: dict[int, list[bytes]] = {}
        for row in rows:
            pickled.setdefault(row["task"], []).append(row["result"])
        results = [pickle.loads(b"".join(pickled[task])) for task in sorted(pickled)]
        for result in results:
            if isinstance(result, UserError):
                raise result
        return results

    def beside(self, steps: Steps) -> dict[str, Any]:
        """One after the other: a job's tasks are beside each other."""
        return in_turn(self, steps)

    def _frame(self, text: Text, recordings: Collection[str], inputs: Inputs) -> DataFrame:
        """A text's rows; what it reads is known to the session as temporary views."""
        tasks = max(
            self.cores, ceil(bytes_of(self.warehouse, text, recordings, inputs) / _TASK_BYTES)
        )
        many = tasks > _TASKS_PER_CORE_MAX * self.cores
        settings = {"spark.sql.shuffle.partitions": tasks, "spark.sql.adaptive.enabled": many}
        configure(self.session, settings)
        describe(self.session, f"{progress.at()}: {', '.join(sorted(recordings))}"[:200])
        for table in tables_of(text, inputs):
            self.read(table, recordings).createOrReplaceTempView(table.name)
        for name, source in inputs.items():
            self._input(source).createOrReplaceTempView(name)
        return self.session.sql(spark_sql(text))

    def read(self, table: Table, recordings: Collection[str]) -> DataFrame:
        """The rows of some recordings: the Parquet files that the table's snapshot names.

        Opening a Delta table in Spark takes three jobs, and listing its files by delta-rs none.
        """
        return self._slice(TableSlice(table, self.warehouse.files(table, recordings)))

    def _input(self, source: pa.Table | ParquetFiles | TableSlice) -> DataFrame:
        if isinstance(source, pa.Table):
            return self._local(source)
        return self._slice(source) if isinstance(source, TableSlice) else self._files(source)

    def _slice(self, part: TableSlice) -> DataFrame:
        rows = self._of_files(part)
        for name, moment in self.warehouse.seen_from(part.table).items():
            is_seen = F.col(str(part.table.time)) >= moment
            rows = rows.where((F.col("recording") != name) | is_seen)
        return rows

    def _of_files(self, part: TableSlice) -> DataFrame:
        uri, schema = self.warehouse.uri_of(part.table), part.table.arrow_schema
        if is_store(uri):
            return self._of_store(
                [
                    (f"{uri}/{f['path']}", f["size_bytes"], f["partition.recording"])
                    for f in part.files
                ],
                schema,
                "recording",
            )
        paths: dict[str, list[str]] = {}
        for file in part.files:
            name = file["partition.recording"]
            # Spark reads the escapes in a folder's name as Latin-1: such a name it is given.
            paths.setdefault("" if name.isascii() else name, []).append(f"{uri}/{file['path']}")
        reader = self.session.read.schema(from_arrow_schema(schema)).option("basePath", uri)
        frames = [
            rows.withColumn("recording", F.lit(name)) if name else rows
            for name, of_name in paths.items()
            for rows in [reader.parquet(*of_name)]
        ]
        if not frames:
            return self._local(schema.empty_table())
        return reduce(DataFrame.unionByName, frames).select(*schema.names)

    def _files(self, parquet: ParquetFiles) -> DataFrame:
        if not parquet.paths:
            return self._local(parquet.row_schema.empty_table())
        if is_store(parquet.paths[0]):
            mean_bytes = parquet.size_bytes // len(parquet.paths)
            files = [(path, mean_bytes, path) for path in parquet.paths]
            return self._of_store(files, parquet.row_schema, "filename")
        rows = self.session.read.schema(from_arrow_schema(parquet.schema)).parquet(*parquet.paths)
        return rows.select("*", F.col("_metadata.file_path").alias("filename"))

    def _of_store(
        self, files: Iterable[tuple[str, int, str]], schema: pa.Schema, named: str
    ) -> DataFrame:
        """Parquet files of a store (URI, bytes, what the column ``named`` is), read by Arrow.

        Spark has no client of stores, and the tasks, which write there, have one.
        """
        parts = [
            {"uri": uri, "name": name, "part": part, "parts": parts}
            for uri, size, name in files
            for parts in [ceil(size / _TASK_BYTES)]
            for part in range(parts)
        ]
        numbered = self._local(pa.Table.from_pylist(parts, _PARTS))
        return numbered.mapInArrow(partial(_scanned, schema, named), from_arrow_schema(schema))

    def _local(self, table: pa.Table) -> DataFrame:
        """A small table as a relation that Spark can fold away where it is empty."""
        # Spark takes no rows of a table whose first chunk is empty.
        whole = table.combine_chunks()
        frame = self.session.createDataFrame(whole, from_arrow_schema(table.schema))
        return frame if table.num_rows else frame.where(F.lit(False))


def _scanned(
    schema: pa.Schema, named: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of parts of files: every this many row groups."""
    for part in (part for batch in batches for part in batch.to_pylist()):
        filesystem, path = filesystem_of(part["uri"])
        with pq.ParquetFile(
            path, filesystem=filesystem, pre_buffer=True, page_checksum_verification=True
        ) as file:
            groups = range(part["part"], file.num_row_groups, part["parts"])
            columns = [name for name in schema.names if name != named]
            for batch in file.iter_batches(BATCH_ROWS, [*groups], columns):
                names = pa.repeat(part["name"], batch.num_rows)
                arrays = [names if n == named else batch.column(n) for n in schema.names]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _on_part(work: Callable[[In], Out], parts: Sequence[bytes], rows: Iterator[Any]) -> Out:
    """Calls work on the part of this task, whose number is its only row."""
    [number] = (number for batch in rows for number in batch.column("id").to_pylist())
    part: In = pickle.loads(parts[number])
    return work(part)


def _results(
    work: Callable[[Iterator[pa.RecordBatch]], Out], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    result: Out | UserError
    try:
        result = work(iter(batches))
    except UserError as error:  # it would come as a trace of the JVM
        result = error
    pickled, context = pickle.dumps(result), TaskContext.get()
    assert context is not None, "tasks alone call this"
    for begin in range(0, len(pickled), _RESULT_BYTES):
        row = {"task": context.partitionId(), "result": pickled[begin : begin + _RESULT_BYTES]}
        yield pa.RecordBatch.from_pylist([row], schema=_RESULT)
