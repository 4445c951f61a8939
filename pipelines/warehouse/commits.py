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
* Its last write, to ``lineage`` too, says what its rows follow from. In a job that writes many
  steps it goes in with a later step's first write: one commit ends some and begins another.
  Killed in between, a job leaves steps whose tables are complete and that ``lineage`` does not
  know; the next one completes or repeats them. A job that fails, or is interrupted, still ends it.
* A step whose rows come out as they are in its tables commits only its last write, in the epoch
  that ``lineage`` has, which is refused where another attempt has begun meanwhile.
* No later write of an attempt goes in once another has taken a later epoch, as no producer's does
  that was fenced.
* An attempt that was killed has committed some of its tables and not the last one. Its files are
  those whose epoch is beyond the last table's; the next attempt's commits remove them.

The first commit of a table makes it (``create``). Tables use no feature beyond protocol versions
(reader 1, writer 2), so that every Delta reader can read them: no deletion vectors, no column
mapping. A change data feed asks for writer 4, of which delta-rs is one, and for no other reader.

A table that an older version has made gets columns that it lacks, and properties, before it is
written (``evolve``); a newer version's columns are not read, and null in rows that are written.
"""

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from kip_replay.pipelines.errors import WriteConflictError
from kip_replay.pipelines.storage import filesystem_of, is_store, is_uri
from kip_replay.pipelines.warehouse.data_files import CHECKED, DataFile, stats_columns
from kip_replay.replay.table import Table
from kip_replay.replay.tables import VERSION

#: A reader reads the last checkpoint and as many commits as come between two. Of those before, none
#: is needed any longer once files of their versions may be gone (``maintenance``). What a user has
#: set, or has delta-rs keep (``delta`` in conf/defaults.toml), comes beside these.
_PROPERTIES = {
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 7 days",
}
_STATS = "delta.dataSkippingStatsColumns"
#: The name of a table begins with this, and ends with the version of this program that made it:
#: with its first files, delta-rs takes no property that is not Delta's.
MADE_BY = "kip-replay "

#: Epochs by step and recording.
Epochs: TypeAlias = Mapping[tuple[str, str], int]

#: Properties of tables beside those above.
Properties: TypeAlias = Mapping[str, str]
NO_PROPERTIES: Properties = MappingProxyType({})

#: The number of an epoch in a file's name (``file_name``).
_NAME = re.compile(r"part-(\d{6})(?:-|$)", re.ASCII)


def exists(uri: str) -> bool:
    # Most of what is looked for has no folder, which takes a tenth of the time to see.
    return (is_uri(uri) or Path(uri).exists()) and bool(DeltaTable.is_deltatable(uri))


def create(
    uri: str,
    table: Table,
    properties: Properties = NO_PROPERTIES,
    added: Sequence[DataFile] = (),
    epochs: Epochs = MappingProxyType({}),
) -> bool:
    """Makes a table with its first files; returns False where another job was first."""
    filesystem, path = filesystem_of(uri)
    if not is_store(uri):
        filesystem.create_dir(path, recursive=True)
    try:
        create_table_with_add_actions(
            uri,
            schema=Schema.from_arrow(table.arrow_schema),
            add_actions=_add_actions(added),
            partition_by=list(table.partitioned_by),
            name=f"{MADE_BY}{VERSION}",
            description=table.comment,
            configuration=_stated(table, properties),
            commit_properties=_carrying(epochs),
        )
    except DeltaError:
        if not exists(uri):
            raise
        return False
    return True


def _stated(table: Table, properties: Properties) -> dict[str, str]:
    return {**_PROPERTIES, _STATS: ",".join(stats_columns(table)), **properties}


def evolve(delta: DeltaTable, table: Table, properties: Properties = NO_PROPERTIES) -> None:
    """Adds the columns and properties that an opened table lacks; a property that it has stays.

    Jobs that do so at once add the same. Raises CommitFailedError where another job writes.
    """
    there = {field.name for field in delta.schema().fields}
    lacking = [f for f in Schema.from_arrow(table.arrow_schema).fields if f.name not in there]
    if lacking:
        delta.alter.add_columns(lacking)
    has, stated = delta.metadata().configuration, _stated(table, properties)
    missing = {name: value for name, value in stated.items() if name not in has}
    if lacking:
        missing[_STATS] = stated[_STATS]
    if missing:
        delta.alter.set_table_properties(missing)


def may_be_behind(delta: DeltaTable, uri: str) -> bool:
    """Returns whether a table may have commits after an opened version; of a URI always."""
    return is_uri(uri) or Path(uri, "_delta_log", f"{delta.version() + 1:020d}.json").exists()


def files_of(delta: DeltaTable) -> list[dict[str, Any]]:
    """The files of an opened version: path, size_bytes, num_records, ``min.*`` and ``max.*``.

    Paths are those on disk, within the table's folder.
    """
    files = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    # Delta's log has URIs, in which the escapes of a folder's name are escaped once more.
    return [file | {"path": unquote(file["path"])} for file in files]


def rows(uri: str, table: Table, files: Iterable[Mapping[str, Any]]) -> pa.Table:
    """All rows of small files. Bytes that have changed since they were written raise OSError."""
    filesystem, folder = filesystem_of(uri)
    read = [table.arrow_schema.empty_table()]
    for file in files:
        path = f"{folder}/{file['path']}"
        with pq.ParquetFile(path, filesystem=filesystem, **CHECKED) as parquet:
            rows = parquet.read(use_threads=False)
        names = pa.repeat(file["partition.recording"], len(rows))
        rows = rows.append_column("recording", names)
        columns = [name for name in table.arrow_schema.names if name in rows.column_names]
        schema = pa.schema([table.arrow_schema.field(name) for name in columns])
        read.append(rows.select(columns).cast(schema))
    # What files of an older version lack is null.
    return pa.concat_tables(read, promote_options="default")


def dataset(delta: DeltaTable, uri: str, table: Table, paths: Collection[str] | None = None) -> Any:
    """The columns of a table's current version, or of some of its files, as an Arrow dataset.

    Over Arrow's own file system: that of delta-rs is Python's, which threads of Arrow may still
    call when the interpreter is gone. Bytes that have changed since they were written raise
    OSError.
    """
    filesystem, path = filesystem_of(uri)
    whole = delta.to_pyarrow_dataset(filesystem=pafs.SubTreeFileSystem(path, filesystem))
    # delta-rs takes no such option; all files of the dataset share this format.
    whole.format.default_fragment_scan_options = ds.ParquetFragmentScanOptions(**CHECKED)
    fragments = whole.get_fragments()
    if paths is not None:
        named = {*paths}
        fragments = [fragment for fragment in fragments if fragment.path in named]
    schema = table.arrow_schema.remove_metadata()
    return ds.FileSystemDataset([*fragments], schema, whole.format, whole.filesystem)


def app_id(step: str, recording: str) -> str:
    return f"{step}/{recording}"


def epoch_in(delta: DeltaTable, step: str, recording: str) -> int:
    return delta.transaction_version(app_id(step, recording)) or 0


def file_name(epoch: int) -> str:
    return f"part-{epoch:06d}"


@dataclass(frozen=True)
class Change:
    added: Sequence[DataFile] = ()
    removed: Sequence[Mapping[str, Any]] = ()


class Absent(NamedTuple):
    """A table that is not there: its first commit makes it."""

    uri: str
    table: Table
    properties: Properties


def commit(
    delta: DeltaTable | Absent, change: Change, first: Epochs, again: Epochs = MappingProxyType({})
) -> None:
    """Commits a change of steps, all of it or nothing, in the table's first commit of an epoch.

    ``delta`` is the version that the change was made of. Of what others have committed since, a
    commit of the same step or a removal of the same files is a conflict, and nothing else: delta-rs
    would overlook files that were put together meanwhile, whose rows would be there twice.
    ``again``: another commit of an epoch is meant. Raises WriteConflictError.
    """
    epochs = {**first, **again}
    if isinstance(delta, Absent):
        if create(*delta, change.added, epochs):
            return
        delta = DeltaTable(delta.uri)
    made_of = {key: epoch_in(delta, *key) for key in epochs}
    late = [key for key, epoch in first.items() if made_of[key] >= epoch]
    late += [key for key, epoch in again.items() if made_of[key] > epoch]
    if late:
        raise conflict(*late[0])
    actions: list[AddAction | RemoveAction] = [*_remove_actions(change.removed)]
    actions += _add_actions(change.added)
    while True:
        try:
            delta.create_write_transaction(
                actions,
                mode="append",
                schema=delta.schema(),
                partition_by=delta.metadata().partition_columns,
                commit_properties=_carrying(epochs),
            )
        except CommitFailedError:
            version = delta.version()
            delta = DeltaTable(delta.table_uri)
            if delta.version() == version:
                raise
            _require_untouched(delta, change, made_of)
        else:
            return


def _add_actions(added: Iterable[DataFile]) -> list[AddAction]:
    now_ms = time.time_ns() // 1_000_000
    return [
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


def _remove_actions(removed: Iterable[Mapping[str, Any]]) -> list[RemoveAction]:
    now_ms = time.time_ns() // 1_000_000
    return [
        RemoveAction(
            path=file["path"],
            data_change=True,
            deletion_timestamp=now_ms,
            size=file["size_bytes"],
            partition_values={"recording": file["partition.recording"]},
        )
        for file in removed
    ]


def _carrying(epochs: Epochs) -> CommitProperties:
    transactions = [Transaction(app_id(*key), epoch) for key, epoch in epochs.items()]
    return CommitProperties(app_transactions=transactions, max_commit_retries=0)


def _require_untouched(delta: DeltaTable, change: Change, made_of: Epochs) -> None:
    there = {file["path"] for file in files_of(delta)}
    is_gone = any(file["path"] not in there for file in change.removed)
    for key, epoch in made_of.items():
        if is_gone or epoch_in(delta, *key) != epoch:
            raise conflict(*key)


def require_own(delta: DeltaTable, epochs: Epochs) -> None:
    """Raises WriteConflictError where another driver has taken a later epoch of a step."""
    for key, epoch in epochs.items():
        if epoch_in(delta, *key) != epoch:
            raise conflict(*key)


def conflict(step: str, recording: str) -> WriteConflictError:
    return WriteConflictError(
        f"another job has written {step} of recording {recording!r} meanwhile: this one has "
        "stopped, run it again when the other is done"
    )


def of_epochs_after(files: Iterable[Mapping[str, Any]], epoch: int) -> list[Mapping[str, Any]]:
    """The files that were written in epochs after one."""
    return [file for file in files if epoch_in_name(str(file["path"])) > epoch]


def last_epoch(files: Iterable[Mapping[str, Any]]) -> int:
    """The last epoch in which one of the files was written."""
    return max((epoch_in_name(str(file["path"])) for file in files), default=0)


def epoch_in_name(path: str) -> int:
    """The epoch that a file's name begins with; 0 where something else has named it."""
    name = _NAME.match(path.rpartition("/")[2])
    return int(name[1]) if name else 0
