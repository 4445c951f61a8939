"""The one door: every commit of every table goes through here, by delta-rs.

Theory of operation
-------------------
A *step* of a *recording* (its ingest, a rule's replay, its summaries) writes one or several tables,
which no transaction of Delta spans. So each step and recording has an *epoch*, a number that grows
with every attempt to write, as a producer's epoch does in Kafka. Every commit carries it as Delta's
``txn`` action ``<step>/<recording>``, and names of files begin with it.

* Its first write, to ``lineage``, takes the next epoch. It is refused where that epoch was taken
  since the attempt read the tables: another driver writes the same step. Two that commit at the
  same moment conflict in Delta, since both carry the same ``txn`` id. The one that was too late
  stops with one sentence; steps of other recordings never meet.
* No later write of an attempt goes in once another has taken a later epoch, as no producer's does
  that was fenced.
* An attempt that was killed has committed some of its tables and not the last one. Its files are
  those whose epoch is beyond the last table's; the next attempt's commits remove them.

``create`` makes a table. Tables use no feature beyond protocol versions (reader 1, writer 2), so
that every Delta reader can read them: no deletion vectors, no column mapping.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from kip_replay.pipelines.errors import WriteConflictError
from kip_replay.pipelines.warehouse.data_files import (
    DataFile,
    filesystem_of,
    partition_folder,
    stats_columns,
)
from kip_replay.replay.schema import Table

_PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    "delta.columnMapping.mode": "none",
}


def exists(uri: str) -> bool:
    """Whether a Delta table is there."""
    return bool(DeltaTable.is_deltatable(uri))


def create(uri: str, table: Table) -> None:
    """Makes an empty table, unless it is there."""
    filesystem, path = filesystem_of(uri)
    filesystem.create_dir(path, recursive=True)
    try:
        DeltaTable.create(
            uri,
            schema=table.arrow_schema,
            mode="ignore",
            partition_by=list(table.partitioned_by),
            description=table.comment,
            configuration={
                **_PROPERTIES,
                "delta.dataSkippingStatsColumns": ",".join(stats_columns(table)),
            },
        )
    except DeltaError:
        if not exists(uri):  # another job was first
            raise


def live_files(uri: str, recordings: Collection[str] | None = None) -> list[dict[str, Any]]:
    """The files of the current version: path, size_bytes, num_records, ``min.*`` and ``max.*``.

    ``recordings``: only theirs. Paths are those on disk, within the table's folder.
    """
    if not exists(uri):
        return []
    files = pa.table(DeltaTable(uri).get_add_actions(flatten=True))
    if recordings is not None:
        mine = pc.is_in(files.column("partition.recording"), pa.array([*recordings], pa.string()))
        files = files.filter(mine)
    rows: list[dict[str, Any]] = files.to_pylist()
    return rows


def dataset(delta: DeltaTable, uri: str) -> Any:
    """A table's current version as an Arrow dataset.

    Over Arrow's own file system: that of delta-rs is Python's, which threads of Arrow may still
    call when the interpreter is gone.
    """
    filesystem, path = filesystem_of(uri)
    return delta.to_pyarrow_dataset(filesystem=pafs.SubTreeFileSystem(path, filesystem))


def app_id(step: str, recording: str) -> str:
    """The ``txn`` id of a step of a recording."""
    return f"{step}/{recording}"


def epoch_of(uri: str, step: str, recording: str) -> int:
    """The last epoch that a table was written in by a step of a recording, 0 if it never was."""
    if not exists(uri):
        return 0
    return DeltaTable(uri).transaction_version(app_id(step, recording)) or 0


def file_name(epoch: int) -> str:
    """How the names of an epoch's files begin."""
    return f"part-{epoch:06d}"


@dataclass(frozen=True)
class Change:
    """What a commit does to a table: files that it adds and removes (rows of ``live_files``)."""

    added: Sequence[DataFile] = ()
    removed: Sequence[Mapping[str, Any]] = ()


def commit(
    uri: str,
    change: Change,
    step: str,
    epochs: Mapping[str, int],
    again: bool = False,
) -> None:
    """Commits a change of a step, all of it or nothing; ``epochs`` by recording.

    ``again``: a second commit of the same epoch is meant. Raises WriteConflictError.
    """
    delta = DeltaTable(uri)
    for recording, epoch in epochs.items():
        there = delta.transaction_version(app_id(step, recording)) or 0
        if there > epoch or (there == epoch and not again):
            raise _conflict(step, recording)
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        RemoveAction(
            path=file["path"],
            data_change=True,
            deletion_timestamp=now_ms,
            size=file["size_bytes"],
            partition_values={"recording": file["partition.recording"]},
        )
        for file in change.removed
    ]
    actions += [
        AddAction(
            path=file.path,
            size=file.size_bytes,
            partition_values={"recording": file.recording},
            modification_time=now_ms,
            data_change=True,
            stats=file.stats,
        )
        for file in change.added
    ]
    transactions = [Transaction(app_id(step, name), epoch) for name, epoch in epochs.items()]
    try:
        delta.create_write_transaction(
            actions,
            mode="append",
            schema=delta.schema(),
            partition_by=delta.metadata().partition_columns,
            commit_properties=CommitProperties(app_transactions=transactions),
        )
    except CommitFailedError as conflict:
        raise _conflict(step, ", ".join(epochs)) from conflict


def require_own(lineage_uri: str, step: str, epochs: Mapping[str, int]) -> None:
    """Raises WriteConflictError where another driver has taken a later epoch of the step."""
    for recording, epoch in epochs.items():
        if epoch_of(lineage_uri, step, recording) != epoch:
            raise _conflict(step, recording)


def _conflict(step: str, recording: str) -> WriteConflictError:
    return WriteConflictError(
        f"another job has written {step} of recording {recording!r} meanwhile: this one has "
        "stopped, run it again when the other is done"
    )


def of_epochs_after(files: Iterable[Mapping[str, Any]], epoch: int) -> list[Mapping[str, Any]]:
    """The files that were written in epochs after one."""
    return [file for file in files if (_epoch_in(str(file["path"])) or 0) > epoch]


def _epoch_in(path: str) -> int | None:
    """The epoch that a file's name begins with; None where something else has named it."""
    name = path.rpartition("/")[2]
    prefix, _, rest = name.partition("-")
    number = rest.partition("-")[0]
    return int(number) if prefix == "part" and len(number) == 6 and number.isdecimal() else None


def is_in_partition(path: str, recording: str) -> bool:
    """Whether a file's path lies in the folder of a recording."""
    return path.startswith(f"{partition_folder(recording)}/")
