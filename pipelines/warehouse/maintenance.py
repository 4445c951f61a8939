"""Keeps a warehouse small and quick: OPTIMIZE and VACUUM, by delta-rs.

Every table is partitioned by recording. A recording that grows by the hour leaves files per table
and hour. ``optimize`` has delta-rs put small ones together that were written one after another. It
changes no row. Names of files carry their epoch (``commits``), and merged files do not. So a
recording is left as it is where the step that writes the table is at work, or was killed, or where
a later step has not seen what it wrote.

``vacuum`` deletes files that no version younger than the retention needs, and files of killed
tasks. Files that a job is just writing belong to no version yet: the retention must be longer than
the longest run, which seven days are.

``keep_bounded`` does both for a job that has brought all steps up to date, so that neither files
nor commits grow with the number of runs. It merges nothing where another job has begun to write.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from deltalake import WriterProperties
from deltalake.exceptions import CommitFailedError
from pyarrow.fs import FileType

from kip_replay.pipelines.storage import filesystem_of
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import SMALL_FILE_BYTES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import Lineage, ReplayState

#: A reader skips whole files: larger ones skip less, smaller ones cost a request each.
TARGET_FILE_BYTES = 32 << 20
#: Younger files may belong to a job that still runs.
SAFE_RETENTION_HOURS = 168
#: A job puts the table of a recording together that has more small files than this.
SMALL_FILES_MAX = 8
#: A job deletes old files of a table in each of this many epochs of the step that writes it.
_EPOCHS_PER_VACUUM = 24
#: Each write of these leaves as many files as before.
_LEFT_ALONE = (Lineage, ReplayState)


class Size(NamedTuple):
    files: int = 0
    bytes: int = 0
    rows: int = 0


def sizes(warehouse: Warehouse, table: Table) -> dict[str, Size]:
    parts: dict[str, list[Size]] = defaultdict(list)
    for file in warehouse.files(table):
        size = Size(1, file["size_bytes"], file["num_records"] or 0)
        parts[file["partition.recording"]].append(size)
    return {name: total(small) for name, small in parts.items()}


def total(parts: Iterable[Size]) -> Size:
    return Size(*map(sum, zip(*parts, strict=True)))


# --- OPTIMIZE -------------------------------------------------------------------------------------


def optimize(
    warehouse: Warehouse, table: Table, is_complete: Callable[[str], bool], small_files_max: int = 1
) -> tuple[int, int]:
    """Puts small files of a table together; counts those files, and the files they are now.

    ``is_complete``: whether nothing of a recording is left to be seen by a step, checked once its
    files are known. Raises CommitFailedError where another writer was first.
    """
    if table in _LEFT_ALONE or not warehouse.exists(table):
        return 0, 0
    delta, before, after = warehouse.open(table), 0, 0
    files = commits.files_of(delta)
    small = Counter(f["partition.recording"] for f in files if f["size_bytes"] < SMALL_FILE_BYTES)
    for name, count in sorted(small.items()):
        if count > small_files_max and is_complete(name):
            done = delta.optimize.compact(
                partition_filters=[("recording", "=", name)],
                target_size=TARGET_FILE_BYTES,
                writer_properties=WriterProperties(compression="ZSTD"),
            )
            before += done["numFilesRemoved"]
            after += done["numFilesAdded"]
    return before, after


def keep_bounded(warehouse: Warehouse, tables_of_steps: Mapping[str, Collection[Table]]) -> None:
    """Merges and deletes files of tables where the steps that this job wrote have left many."""

    def is_own(step: str, recording: str) -> bool:
        mine, lineage = warehouse.written.get((step, recording)), warehouse.open(Lineage)
        return mine is not None and mine == commits.epoch_in(lineage, step, recording)

    for step, tables in tables_of_steps.items():
        epochs = [epoch for (name, _), epoch in warehouse.written.items() if name == step]
        for table in (*tables, Lineage) if epochs else ():
            with suppress(CommitFailedError):  # another job that was first has it next
                optimize(warehouse, table, partial(is_own, step), SMALL_FILES_MAX)
            if any(epoch % _EPOCHS_PER_VACUUM == 0 for epoch in epochs):
                vacuum(warehouse, table, SAFE_RETENTION_HOURS)


# --- VACUUM ---------------------------------------------------------------------------------------


def vacuum(warehouse: Warehouse, table: Table, hours: int, dry_run: bool = False) -> list[str]:
    """Deletes the table's files that no version of the last hours needs; which they are."""
    if not warehouse.exists(table):
        return []
    # full: also files that were never committed, of tasks that were killed.
    delta = warehouse.open(table)
    how: dict[str, Any] = {"enforce_retention_duration": False, "full": True}
    # delta-rs also names files that are gone already.
    filesystem, folder = filesystem_of(warehouse.uri_of(table))
    unneeded = [
        path
        for path in delta.vacuum(hours, dry_run=True, **how)
        if filesystem.get_file_info(f"{folder}/{path}").type is FileType.File
    ]
    if unneeded and not dry_run:  # a vacuum of nothing would still be two commits
        delta.vacuum(hours, dry_run=False, **how)
    return unneeded
