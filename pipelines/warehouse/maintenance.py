"""Keeps a warehouse small and quick: OPTIMIZE and VACUUM, by delta-rs.

Every table is partitioned by recording. A recording that grows by the hour leaves files per table
and hour. ``optimize`` puts them together, sorted by what filters use (``sort_columns``), so that
the statistics of files and pages rule most of them out. It changes no row. Names of files carry
their epoch (``commits``), and merged files do not. So a recording is left as it is where the step
that writes the table is at work, or was killed, or where a later step has not seen what it wrote.

``vacuum`` deletes files that no version younger than the retention needs, and files of killed
tasks. Files that a job is just writing belong to no version yet: the retention must be longer than
the longest run, which seven days are.

``keep_bounded`` does both for a job that has brought all steps up to date, so that neither files
nor commits grow with the number of runs. It merges nothing where another job has begun to write.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from deltalake import WriterProperties
from deltalake.exceptions import CommitFailedError
from pyarrow.fs import FileType

from kip_replay.pipelines.storage import filesystem_of
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LINEAGE, REPLAY_STATE

#: A table of a recording is put together if two files of it or more are smaller than this.
SMALL_FILE_BYTES = 8 << 20
#: A reader skips whole files: larger ones skip less, smaller ones cost a request each.
TARGET_FILE_BYTES = 32 << 20
#: More than this is not sorted anew each time: then only its small files are put together.
SORTED_BYTES_MAX = 1 << 30
#: Columns of outcomes that nearly every question fixes.
_FIXED = ("variant", "parameter_value")
#: Younger files may belong to a job that still runs.
SAFE_RETENTION_HOURS = 168
#: A job puts the table of a recording together that has more small files than this.
SMALL_FILES_MAX = 8
#: A job deletes old files of a table in each of this many epochs of the step that writes it.
_EPOCHS_PER_VACUUM = 24
#: Each write of these leaves as many files as before.
_LEFT_ALONE = (LINEAGE, REPLAY_STATE)


class Size(NamedTuple):
    files: int = 0
    bytes: int = 0
    rows: int = 0


def sizes(warehouse: Warehouse, table: Table) -> dict[str, Size]:
    found: dict[str, list[Size]] = defaultdict(list)
    for file in warehouse.files(table):
        size = Size(1, file["size_bytes"], file["num_records"] or 0)
        found[file["partition.recording"]].append(size)
    return {name: total(of) for name, of in found.items()}


def total(parts: Iterable[Size]) -> Size:
    return Size(*map(sum, zip(*parts, strict=True)))


# --- OPTIMIZE -------------------------------------------------------------------------------------


def sort_columns(table: Table) -> list[str]:
    """Returns the columns that ``optimize`` sorts by: what queries fix, then time; may be none."""
    if "metric" in table.names:
        return ["rule", "metric"]
    if table.time is None:
        return []
    return [*(name for name in _FIXED if name in table.names), table.time]


def optimize(
    warehouse: Warehouse,
    table: Table,
    is_complete: Callable[[str], bool],
    small_files_max: int = 1,
    sorted_bytes_max: int = SORTED_BYTES_MAX,
    is_dry: bool = False,
) -> list[str]:
    """Puts small files of a table together; of which recordings.

    ``is_complete``: whether nothing of a recording is left to be seen by a step, checked once its
    files are known. Raises CommitFailedError where another writer was first.
    """
    columns, done = sort_columns(table), []
    settings: dict[str, Any] = {
        "target_size": TARGET_FILE_BYTES,
        "writer_properties": WriterProperties(compression="ZSTD"),
    }
    for name in sorted(sizes(warehouse, table)) if table not in _LEFT_ALONE else ():
        optimizer, mine = warehouse.open(table).optimize, [("recording", "=", name)]
        found = [file["size_bytes"] for file in commits.files_of(optimizer.table, [name])]
        is_small = sum(size < SMALL_FILE_BYTES for size in found) > small_files_max
        if not (is_small and is_complete(name)):
            continue
        done.append(name)
        if not is_dry and columns and sum(found) <= sorted_bytes_max:
            optimizer.z_order(columns, partition_filters=mine, **settings)
        elif not is_dry:
            optimizer.compact(partition_filters=mine, **settings)
    return done


def keep_bounded(warehouse: Warehouse, tables_of_steps: Mapping[str, Collection[Table]]) -> None:
    """Merges and deletes files of tables where the steps that this job wrote have left many."""

    def is_own(step: str, recording: str) -> bool:
        mine, lineage = warehouse.written.get((step, recording)), warehouse.open(LINEAGE)
        return mine is not None and mine == commits.epoch_in(lineage, step, recording)

    for step, tables in tables_of_steps.items():
        epochs = [epoch for (of, _), epoch in warehouse.written.items() if of == step]
        for table in (*tables, LINEAGE) if epochs else ():
            # Another job that was first has it next. What is large is not sorted anew each time.
            with suppress(CommitFailedError):
                optimize(
                    warehouse, table, partial(is_own, step), SMALL_FILES_MAX, TARGET_FILE_BYTES
                )
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
