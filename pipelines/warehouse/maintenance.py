"""What keeps a warehouse small and quick: OPTIMIZE and VACUUM, by delta-rs.

Every table is partitioned by recording. A recording that grows by the hour leaves files per table
and hour. ``optimize`` puts them together, sorted by what filters use (``sort_columns``), so that
the statistics of files and pages rule most of them out. It changes no row. Names of files carry
their epoch (``commits``), and merged files do not. So a recording is left as it is where the step
that writes the table is at work, or was killed, or where a later step has not seen what it wrote.
So are ``lineage`` and ``replay_state``, of which each write leaves as many files as before.

``vacuum`` deletes files that no version younger than the retention needs, and files of killed
tasks. Files that a job is just writing belong to no version yet: the retention must be longer than
the longest run, which seven days are.

``keep_bounded`` does both for a job that adds to recordings, so that neither files nor commits grow
with the number of runs. It merges only what the job has seen: once the table is opened, no other
may have begun to write the step.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from deltalake import DeltaTable, WriterProperties
from deltalake.exceptions import CommitFailedError
from pyarrow.fs import FileType

from kip_replay.pipelines.errors import WriteConflictError
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import filesystem_of
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LINEAGE, REPLAY_STATE

#: A table of a recording is put together if two files of it or more are smaller than this.
SMALL_FILE_BYTES = 8 << 20
#: A reader skips whole files: larger ones skip less, smaller ones cost a request each.
TARGET_FILE_BYTES = 32 << 20
#: More than this is not sorted anew each time: then only its small files are put together.
SORTED_BYTES_MAX = 1 << 30
#: Time columns, the one that queries select by first.
_TIMES = (
    "received_at",
    "leader_at",
    "appended_at",
    "built_at",
    "event_at",
    "responded_at",
    "requested_at",
)
#: Columns of outcomes that nearly every question fixes.
_FIXED = ("variant", "parameter_value")
#: Younger files may belong to a job that still runs.
SAFE_RETENTION_HOURS = 168
#: A job puts the table of a recording together that has more small files than this.
SMALL_FILES_MAX = 24
#: A job deletes old files of a table in each of so many epochs of the step that writes it.
_EPOCHS_PER_VACUUM = 24


class Size(NamedTuple):
    files: int = 0
    bytes: int = 0
    rows: int = 0


def sizes(warehouse_path: str, table: Table) -> dict[str, Size]:
    found: dict[str, list[Size]] = defaultdict(list)
    for file in commits.live_files(f"{warehouse_path}/{table.name}"):
        size = Size(1, file["size_bytes"], file["num_records"] or 0)
        found[file["partition.recording"]].append(size)
    return {name: total(of) for name, of in found.items()}


def total(parts: Iterable[Size]) -> Size:
    return Size(*map(sum, zip(*parts, strict=True)))


# --- OPTIMIZE -------------------------------------------------------------------------------------


class Optimized(NamedTuple):
    """A table before and after; ``in_the_way``: another writer was first, nothing was done."""

    table: Table
    before: Size
    after: Size
    in_the_way: bool = False


def sort_columns(table: Table) -> list[str]:
    """What ``optimize`` sorts a recording's rows by: what questions fix, then time; may be none."""
    names = {column.name for column in table.columns}
    if "metric" in names:
        return ["rule", "metric"]
    times = [name for name in _TIMES if name in names][:1]
    return [*(name for name in _FIXED if name in names and times), *times]


def needs_optimizing(
    warehouse_path: str, table: Table, left_alone: Collection[str] = ()
) -> dict[str, int]:
    """Recordings whose files in the table should be put together, with their bytes."""
    found = _fragmented(table, commits.live_files(f"{warehouse_path}/{table.name}"), 1)
    return {name: size for name, size in found.items() if name not in left_alone}


def _fragmented(
    table: Table, files: Iterable[Mapping[str, Any]], small_files_max: int
) -> dict[str, int]:
    """Recordings of which a table has more small files than so many, with all bytes of theirs."""
    of: dict[str, list[int]] = defaultdict(list)
    for file in files if table not in (LINEAGE, REPLAY_STATE) else ():
        of[file["partition.recording"]].append(file["size_bytes"])
    return {
        name: sum(found)
        for name, found in sorted(of.items())
        if sum(size < SMALL_FILE_BYTES for size in found) > small_files_max
    }


def optimize(
    warehouse_path: str, table: Table, left_alone: Collection[str] = ()
) -> Optimized | None:
    """Puts a table's small files together; None if there was nothing to do.

    ``left_alone``: recordings whose step that writes the table has no lineage.
    """
    needed = needs_optimizing(warehouse_path, table, left_alone)
    if not needed:
        return None
    before = total(sizes(warehouse_path, table).values())
    try:
        for name, found in needed.items():
            delta = DeltaTable(f"{warehouse_path}/{table.name}")
            _put_together(delta, table, name, is_sorted=found <= SORTED_BYTES_MAX)
    except CommitFailedError:
        return Optimized(table, before, before, in_the_way=True)
    return Optimized(table, before, total(sizes(warehouse_path, table).values()))


def _put_together(delta: DeltaTable, table: Table, recording: str, is_sorted: bool) -> None:
    """Merges a recording's small files; ``is_sorted``: all its files, into sorted ones."""
    columns = sort_columns(table)
    settings: dict[str, Any] = {
        "partition_filters": [("recording", "=", recording)],
        "target_size": TARGET_FILE_BYTES,
        "writer_properties": WriterProperties(compression="ZSTD"),
    }
    if columns and is_sorted:
        delta.optimize.z_order(columns, **settings)
    else:
        delta.optimize.compact(**settings)


def keep_bounded(warehouse: Warehouse, table: Table, epochs: commits.Epochs) -> None:
    """Merges and deletes files where steps, which this job wrote in ``epochs``, have left many."""
    for key, epoch in epochs.items():
        delta = warehouse.open(table)
        found = _fragmented(table, commits.files_of(delta, [key[1]]), SMALL_FILES_MAX)
        try:
            for name, size_bytes in found.items():
                commits.require_own(warehouse.open(LINEAGE), {key: epoch})
                # What is large is not written anew for some small files.
                _put_together(delta, table, name, is_sorted=size_bytes <= TARGET_FILE_BYTES)
        except (CommitFailedError, WriteConflictError):
            continue  # another job is at work, and has it next
    if any(epoch % _EPOCHS_PER_VACUUM == 0 for epoch in epochs.values()):
        vacuum(warehouse.path, table, SAFE_RETENTION_HOURS)


# --- VACUUM ---------------------------------------------------------------------------------------


def vacuum(warehouse_path: str, table: Table, hours: int, dry_run: bool = False) -> list[str]:
    """Deletes the table's files that no version of the last hours needs; which they are."""
    uri = f"{warehouse_path}/{table.name}"
    if not commits.exists(uri):
        return []
    # full: also files that were never committed, of tasks that were killed.
    delta = DeltaTable(uri)
    how: dict[str, Any] = {"enforce_retention_duration": False, "full": True}
    # delta-rs also names files that are gone already.
    filesystem, folder = filesystem_of(uri)
    unneeded = [
        path
        for path in delta.vacuum(hours, dry_run=True, **how)
        if filesystem.get_file_info(f"{folder}/{path}").type is FileType.File
    ]
    if unneeded and not dry_run:  # a vacuum of nothing would still be two commits
        delta.vacuum(hours, dry_run=False, **how)
    return unneeded
