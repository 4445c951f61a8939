"""Delta tables of a local or shared folder, made and committed to without Spark.

A commit is a small file; for that a Spark job is a hundred times the work. delta-rs writes it, of
Parquet files that are there already (``table_files``).

Runs
----
Ingest writes several tables, which no transaction spans. So each commit carries the number of its
run (Delta's ``txn``), that to ``ingested_files`` last. A run that ``ingested_files`` does not know
was killed: ``undo`` takes its files out again, which their names tell, and it is as if it had never
been. No number is used twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
    Transaction,
)
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from kip_replay.pipelines.errors import WriteConflictError
from kip_replay.pipelines.warehouse.data_files import DataFile
from kip_replay.replay.schema import Table

_APP_ID = "ingest"
#: Old commits stay: fingerprints are told from a table's history (``warehouse``).
_HOOKS = PostCommitHookProperties(cleanup_expired_logs=False)


def exists(path: str) -> bool:
    """Whether a Delta table is there."""
    return bool(DeltaTable.is_deltatable(path))


def create_table(path: str, table: Table, properties: Mapping[str, str]) -> None:
    """Makes an empty table, unless it is there."""
    Path(path).mkdir(parents=True, exist_ok=True)
    DeltaTable.create(
        path,
        schema=table.arrow_schema,
        mode="ignore",
        partition_by=list(table.partitioned_by),
        description=table.comment,
        configuration=dict(properties),
    )


def add_missing_columns(path: str, table: Table) -> None:
    """Gives a table of an older version the columns that it lacks; they are null in its rows."""
    delta = DeltaTable(path)
    there = {field.name for field in delta.schema().fields}
    wanted = Schema.from_arrow(table.arrow_schema).fields
    missing = [field for field in wanted if field.name not in there]
    if missing:
        delta.alter.add_columns(missing)


def rows(path: str, recordings: Sequence[str]) -> pa.Table:
    """Rows of a small table, of some recordings."""
    chosen = pc.field("recording").isin(list(recordings))
    there: pa.Table = DeltaTable(path).to_pyarrow_dataset().to_table(filter=chosen)
    return there


def files(path: str) -> pa.Table:
    """The table's files: ``path`` within its folder, and statistics as ``min.*`` and ``max.*``."""
    return pa.table(DeltaTable(path).get_add_actions(flatten=True))


@dataclass(frozen=True)
class FileSpan:
    """The least and greatest node id of a file's rows, and ``completed_at`` in UTC microseconds."""

    recording: str
    node_ids: tuple[int, int]
    span_us: tuple[int, int]


def spans(path: str) -> list[FileSpan]:
    """Where in time the rows of the table's files are; files without rows are left out."""
    there = files(path)
    if "min.completed_at" not in there.column_names:
        return []
    times = [there.column(f"{end}.completed_at").cast(pa.int64()) for end in ("min", "max")]
    nodes = [there.column(f"{end}.node_id") for end in ("min", "max")]
    ends = zip(*(column.to_pylist() for column in (*nodes, *times)), strict=True)
    return [
        FileSpan(recording, (low, high), (first, last))
        for recording, (low, high, first, last) in zip(
            there.column("partition.recording").to_pylist(), ends, strict=True
        )
        if first is not None
    ]


def run_of(path: str) -> int:
    """The last run that committed to the table, 0 if none did."""
    return DeltaTable(path).transaction_version(_APP_ID) or 0


def commit(path: str, added: Sequence[DataFile], run: int) -> None:
    """Adds files to the table, all or none. Raises WriteConflictError."""
    now_ms = time.time_ns() // 1_000_000
    actions = [
        AddAction(
            path=file.path,
            size=file.size_bytes,
            partition_values={"recording": file.recording},
            modification_time=now_ms,
            data_change=True,
            stats=file.stats,
        )
        for file in added
    ]
    _commit(path, actions, CommitProperties(app_transactions=[Transaction(_APP_ID, run)]))


def undo(path: str, run: int) -> None:
    """Takes out what a run has added to the table; said twice, it is done once."""
    there = files(path)
    mark = f"/{file_name_of_run(run)}-"
    chosen = there.filter(pc.match_substring(there.column("path"), mark)).to_pylist()
    now_ms = time.time_ns() // 1_000_000
    actions = [
        RemoveAction(
            path=file["path"],
            data_change=True,
            deletion_timestamp=now_ms,
            size=file["size_bytes"],
            partition_values={"recording": file["partition.recording"]},
        )
        for file in chosen
    ]
    if actions:
        _commit(path, actions, CommitProperties())


def file_name_of_run(run: int) -> str:
    """How the names of a run's files begin."""
    return f"part-{run:06d}"


def _commit(
    path: str, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties
) -> None:
    delta = DeltaTable(path)
    try:
        delta.create_write_transaction(
            list(actions),
            mode="append",
            schema=delta.schema(),
            partition_by=delta.metadata().partition_columns,
            commit_properties=properties,
            post_commithook_properties=_HOOKS,
        )
    except CommitFailedError as conflict:
        raise WriteConflictError(
            f"another job wrote to {Path(path).name} at the same time: run this one again when it "
            "is done"
        ) from conflict
