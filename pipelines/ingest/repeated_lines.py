"""Drops lines that were read before from files that are written but not yet committed.

Only where spans of time overlap (``overlaps``) are lines looked at: Spark compares their ids, in
this run and with what the warehouse holds, and tasks write the files anew that have repeated lines.
Of copies in one run the least (source_file, line_number) stays; one that an earlier run kept stays.

On a connection, a correlation id names one request. A line of this run that has connection, id and
time of another line, and differs all the same, is no copy: a log was altered, and both would count.
Such a run is refused.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.line_accounting import Counts, FileKey, Node
from kip_replay.pipelines.ingest.overlaps import Span
from kip_replay.pipelines.ingest.parse_task import Parsed
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import REJECTED_LINES, REQUESTS
from kip_replay.replay.table import INT, TEXT, Table
from kip_replay.replay.tables import TABLES

#: What names a request; not a forwarded one, whose id is one of many clients' on one connection.
_NAME = {
    "connection": "string",
    "correlation_id": "int",
    "api_key": "int",
    "completed_at": "timestamp",  # ids begin again when a node does
}
_OF_REQUESTS = {**_NAME, "is_forwarded": "boolean"}
#: A line: what it is, where it stands, and the file and task of this run that it is in.
_PLACE = ("source_file", "line_number")
_DROPPED = pa.schema([("recording", TEXT), ("task", INT), ("files", TEXT), ("counts", TEXT)])


def without_repeated(
    warehouse: Warehouse,
    parsed: Sequence[Parsed],
    spans: Mapping[Node, Sequence[Span]],
    file_name: str,
    done: Mapping[str, int],
) -> tuple[list[DataFile], list[dict[FileKey, Counts]]]:
    """The files to commit, and what that changes in line accounting.

    ``spans``: where requests of a node can be repeated; rejected lines, which have no time, can be
    anywhere. ``file_name`` begins the names of this run's files. Raises UserError where a log was
    altered.
    """
    files: dict[tuple[str, int], list[DataFile]] = {}
    for of in parsed:
        for file in of.files:
            files.setdefault((file.recording, of.task), []).append(file)
    candidates = _candidates(warehouse, parsed, spans, file_name, done)
    if not candidates:
        return [file for of in parsed for file in of.files], []
    lines = reduce(DataFrame.unionByName, candidates)
    _require_unaltered(lines)
    root = warehouse.path

    def drop(
        key: tuple[pa.Scalar, ...], lines: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        recording, task = (value.as_py() for value in key)
        copies = pa.Table.from_batches(lines)
        written = _written_anew(root, files[recording, task], copies, f"{file_name}-{task:05d}")
        of_files = json.dumps([asdict(file) for file in written])
        of_counts = json.dumps([[*file, *vars(c).values()] for file, c in _changed(copies).items()])
        yield pa.RecordBatch.from_pylist(
            [{"recording": recording, "task": task, "files": of_files, "counts": of_counts}],
            _DROPPED,
        )

    schema = from_arrow_schema(_DROPPED)
    dropped = _copies(lines).groupBy("recording", "task").applyInArrow(drop, schema).collect()
    for row in dropped:
        files[row["recording"], row["task"]] = [DataFile(**f) for f in json.loads(row["files"])]
    counts = [
        {(recording, node_id, source_file): Counts(*changed)}
        for row in dropped
        for recording, node_id, source_file, *changed in json.loads(row["counts"])
    ]
    return [file for of in files.values() for file in of], counts


def kept_files(
    warehouse: Warehouse, table: Table, done: Mapping[str, int]
) -> list[Mapping[str, Any]]:
    """The table's files but for those that a killed run has left: of epochs after ``done``."""
    return [
        file
        for file in warehouse.files(table, done)
        if not commits.of_epochs_after([file], done[file["partition.recording"]])
    ]


# --- which lines are repeated


def _candidates(
    warehouse: Warehouse,
    parsed: Sequence[Parsed],
    spans: Mapping[Node, Sequence[Span]],
    file_name: str,
    done: Mapping[str, int],
) -> list[DataFrame]:
    """Lines of this run, and of earlier ones, that can be copies of one another."""
    spark = warehouse.spark  # it may not have been started yet, and makes every column
    found: list[DataFrame] = []
    files = [file for of in parsed for file in of.files]
    for table, of_table in ((REQUESTS, _in_spans), (REJECTED_LINES, _any_time)):
        for recording in sorted({file.recording for file in files if file.table == table.name}):
            condition = of_table(recording, spans)
            if condition is None:
                continue
            paths = [
                f"{warehouse.path}/{table.name}/{file.path}"
                for file in files
                if (file.table, file.recording) == (table.name, recording)
            ]
            here = _read(spark, table, paths).filter(condition)
            task = F.regexp_extract("_metadata.file_name", rf"{file_name}-(\d+)-", 1).cast("int")
            found.append(_lines(here, table, recording, task, run=1))
            kept = kept_files(warehouse, table, {recording: done[recording]})
            earlier = [f"{warehouse.uri_of(table)}/{file['path']}" for file in kept]
            if earlier:
                before = _read(spark, table, earlier).filter(condition)
                found.append(_lines(before, table, recording, F.lit(None).cast("int"), run=0))
    return found


def _in_spans(recording: str, spans: Mapping[Node, Sequence[Span]]) -> Column | None:
    """What holds for requests within the spans; None without any."""
    conditions = [
        (F.col("node_id") == node_id)
        & F.col("completed_at").between(*(F.timestamp_micros(F.lit(us)) for us in span))
        for (of, node_id), of_node in spans.items()
        if of == recording
        for span in of_node
    ]
    return reduce(Column.__or__, conditions) if conditions else None


def _any_time(recording: str, spans: Mapping[Node, Sequence[Span]]) -> Column | None:
    return F.lit(True)


def _read(spark: SparkSession, table: Table, paths: Sequence[str]) -> DataFrame:
    schema = from_arrow_schema(table.without(*table.partitioned_by))
    return spark.read.schema(schema).parquet(*paths)


def _lines(rows: DataFrame, table: Table, recording: str, task: Column, run: int) -> DataFrame:
    return rows.select(
        F.lit(recording).alias("recording"),
        F.col("request_id" if table is REQUESTS else "line_id").alias("line_id"),
        "node_id",
        *_PLACE,
        F.lit(table is REJECTED_LINES).alias("is_rejected"),
        *(
            (F.col(name) if table is REQUESTS else F.lit(None)).cast(kind).alias(name)
            for name, kind in _OF_REQUESTS.items()
        ),
        task.alias("task"),
        F.lit(run).alias("run"),
    )


def _copies(lines: DataFrame) -> DataFrame:
    """Lines of tasks that have to drop some: which are repeated, and of those the first ones.

    Of a line that a task has to drop once and to keep once, both are there.
    """
    of_line = Window.partitionBy("recording", "line_id")
    in_task = Window.partitionBy("recording", "line_id", "task")
    return (
        lines.withColumn("copy", F.row_number().over(of_line.orderBy("run", *_PLACE)))
        .withColumn("dropped", F.col("copy") > 1)
        .filter("run = 1")
        .withColumn("stays", F.min("copy").over(in_task) == 1)
        .filter("dropped")
        .drop("copy", "run", "dropped", *_OF_REQUESTS)
    )


def _require_unaltered(lines: DataFrame) -> None:
    """Raises UserError for a line of this run that contradicts another of the same request."""
    own = lines.where("NOT is_forwarded")  # which rejected lines are neither
    here, other = own.where("run = 1").alias("here"), own.alias("other")
    condition = F.col("here.line_id") != F.col("other.line_id")
    for name in ("recording", "node_id", *_NAME):
        condition &= F.col(f"here.{name}") == F.col(f"other.{name}")
    places = [f"{side}.{name}" for side in ("here", "other") for name in _PLACE]
    pair = F.struct("here.recording", "here.node_id", *(F.col(p).alias(p) for p in places))
    found = here.join(other, condition).agg(F.min(pair).alias("pair"), F.count("*").alias("n"))
    ((first, count),) = found.collect()
    if first is not None:
        recording, node_id, file, line, other_file, other_line = first
        raise UserError(
            f"line {line:,} of {file} and line {other_line:,} of {other_file} are of one request "
            f"to node {node_id} of recording {recording!r} and differ (such pairs: {count:,}): "
            "a log was altered, give its recording another name, or take what was read out of the "
            "warehouse with kip-replay recordings delete"
        )


# --- files without them


def _changed(copies: pa.Table) -> dict[FileKey, Counts]:
    """What dropping them changes in the counts of their files."""
    changed: Counter[tuple[FileKey, bool]] = Counter()
    keys = ("recording", "node_id", "source_file")
    for row in copies.group_by([*keys, "is_rejected"]).aggregate([([], "count_all")]).to_pylist():
        file = (row["recording"], row["node_id"], row["source_file"])
        changed[file, row["is_rejected"]] += row["count_all"]
    return {
        file: Counts(
            requests=-changed[file, False],
            rejected=-changed[file, True],
            repeated=changed[file, False] + changed[file, True],
        )
        for file, _ in changed
    }


def _written_anew(
    root: str, files: Sequence[DataFile], copies: pa.Table, name: str
) -> list[DataFile]:
    """The files of a task without the lines; those that have none of them stay as they are."""
    stays = copies.column("stays")
    gone = copies.column("line_id").filter(pc.invert(stays)).unique()
    once = copies.column("line_id").filter(stays).unique()
    left: list[DataFile] = []
    tables: dict[str, list[DataFile]] = {}
    for file in files:
        tables.setdefault(file.table, []).append(file)
    for table_name, of_table in tables.items():
        left += _table_anew(root, TABLES[table_name], of_table, gone, once, name)
    return left


def _table_anew(
    root: str, table: Table, files: Sequence[DataFile], gone: pa.Array, once: pa.Array, name: str
) -> list[DataFile]:
    line_id = next(column for column in table.key if column in ("request_id", "line_id"))
    left: list[DataFile] = []
    seen: set[tuple[object, ...]] = set()
    for file in files:
        path = f"{root}/{table.name}/{file.path}"
        parquet = pq.ParquetFile(path, page_checksum_verification=True)
        ids = parquet.read([line_id]).column(line_id)
        if not pc.any(pc.or_(pc.is_in(ids, gone), pc.is_in(ids, once))).as_py():
            left.append(file)
            continue
        written = TableFiles(root, name)
        for batch in parquet.iter_batches():
            recording = pa.repeat(pa.scalar(file.recording, TEXT), batch.num_rows)
            rows = batch.append_column("recording", recording)
            kept = rows.filter(_kept(rows, table, rows.column(line_id), gone, once, seen))
            if kept.num_rows:
                written.write(table, kept)
        left += written.closed()
    return left


def _kept(
    rows: pa.RecordBatch,
    table: Table,
    ids: pa.Array,
    gone: pa.Array,
    once: pa.Array,
    seen: set[tuple[object, ...]],
) -> pa.BooleanArray:
    """All rows but those of lines that are ``gone``, and of those there ``once`` the first ones."""
    kept = pc.invert(pc.is_in(ids, gone)).to_numpy(zero_copy_only=False).copy()
    for row in pc.indices_nonzero(pc.is_in(ids, once)).to_pylist():
        key = tuple(rows.column(name)[row].as_py() for name in table.key)
        kept[row] = key not in seen
        seen.add(key)
    return pa.array(kept)
