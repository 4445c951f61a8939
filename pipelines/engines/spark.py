"""The engine for logs of any size: tasks and texts on Spark."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import ceil
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kip_replay.pipelines.engines import Inputs, Task
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.session import spark_session
from kip_replay.pipelines.engines.text import Text, spark_sql
from kip_replay.pipelines.warehouse.data_files import DATA_FILE, DataFile
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

_In = TypeVar("_In")
_Out = TypeVar("_Out")
#: Bytes of Parquet that a task sorts and holds, about.
_TASK_BYTES = 32 << 20
#: The result of a text on tables of less than this (compressed) is small: DuckDB on the driver has
#: it before Spark has planned its jobs.
DUCKDB_BYTES_MAX = 64 << 20


@dataclass
class Spark:
    """Runs on Spark; ``duckdb_bytes_max``: below it ``rows`` are fetched by DuckDB on the driver."""

    warehouse: Warehouse
    duckdb_bytes_max: int = DUCKDB_BYTES_MAX
    name = "spark"

    @cached_property
    def session(self) -> SparkSession:
        """The Spark session: starts in seconds, so only used where there is work for it."""
        return spark_session("kafka protocol replay", warehouse=self.warehouse.path)

    def run(self, work: Callable[[_In], _Out], parts: Sequence[_In]) -> list[_Out]:
        if len(parts) <= 1:
            return [work(part) for part in parts]
        return self.session.sparkContext.parallelize(parts, len(parts)).map(work).collect()

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = {}) -> pa.Table:
        if self._bytes_of(text, recordings) < self.duckdb_bytes_max:
            return Local(self.warehouse).rows(text, recordings, inputs)
        return self._frame(text, recordings, inputs).toArrow()

    def written(
        self,
        text: Text,
        recordings: Collection[str],
        task: Task,
        key: Sequence[str],
        order: Sequence[str] = (),
        inputs: Inputs = {},
    ) -> list[DataFile]:
        """One Spark job: partitions are sorted by key and order, and written where they are."""
        frame = self._frame(text, recordings, inputs)
        frame = frame.repartition(*key) if key else frame.repartition(1)
        if ordered := [*map(F.expr, (*key, *order))]:
            frame = frame.sortWithinPartitions(*ordered)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            task.take(iter(batches))
            files = [vars(file) for file in task.files.closed()]
            yield pa.RecordBatch.from_pylist(files, schema=DATA_FILE)

        found = frame.mapInArrow(run, from_arrow_schema(DATA_FILE)).collect()
        return [DataFile(**row.asDict()) for row in found]

    def _frame(self, text: Text, recordings: Collection[str], inputs: Inputs) -> DataFrame:
        """A text's rows; what it reads is known to the session as temporary views."""
        tasks = max(
            self.session.sparkContext.defaultParallelism,
            ceil(self._bytes_of(text, recordings) / _TASK_BYTES),
        )
        self.session.conf.set("spark.sql.shuffle.partitions", tasks)
        for name in text.names & TABLES.keys() - inputs.keys():
            self._read(TABLES[name], recordings).createOrReplaceTempView(name)
        for name, table in inputs.items():
            self._local(table).createOrReplaceTempView(name)
        return self.session.sql(spark_sql(text))

    def _bytes_of(self, text: Text, recordings: Collection[str]) -> int:
        tables = (TABLES[name] for name in text.names & TABLES.keys())
        files = (file for table in tables for file in self.warehouse.files(table, recordings))
        return sum(file["size_bytes"] for file in files)

    def _read(self, table: Table, recordings: Collection[str]) -> DataFrame:
        """The rows of some recordings: the Parquet files that the table's snapshot names.

        Opening a Delta table in Spark takes three jobs, and listing its files by delta-rs none.
        """
        uri, schema = self.warehouse.uri_of(table), table.arrow_schema
        paths: dict[str, list[str]] = {}
        for file in self.warehouse.files(table, recordings):
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

    def _local(self, table: pa.Table) -> DataFrame:
        """A small table as a relation that Spark can fold away where it is empty."""
        frame = self.session.createDataFrame(table, from_arrow_schema(table.schema))
        return frame if table.num_rows else frame.where(F.lit(False))
