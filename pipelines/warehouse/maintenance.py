"""What keeps a warehouse small and quick: OPTIMIZE, VACUUM, and fingerprints that outlive commits.

Every table is partitioned by recording. A recording that grows by the hour leaves a file per table
and hour. ``optimize`` puts them together, sorted by what filters use (``sort_columns``), so that
the statistics of files and pages rule most of them out. It changes no row, so a replay or an ingest
that runs beside it is never in its way; where it is in theirs, it leaves the table for next time.

``vacuum`` deletes files that no version younger than the retention needs. Files that an ingest is
just writing belong to no version yet: with seven days of retention they are too young, with less
there must be no ingest running (the lock of ``Warehouse.exclusively`` sees to that).

File sizes and counts come from the Delta log, read by delta-rs: no Spark job, no listing.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import deltalake
import pyarrow as pa
from delta.tables import DeltaTable

from kip_replay.pipelines.warehouse.commit_history import current_marks
from kip_replay.pipelines.warehouse.tables import CONFLICTS, Warehouse, predicate
from kip_replay.replay.schema import Table

#: A table of a recording is put together if two files of it or more are smaller than this.
SMALL_FILE_BYTES = 8 << 20
#: A reader skips whole files: larger ones skip less, smaller ones cost a request each.
TARGET_FILE_BYTES = 32 << 20
#: More than this is not sorted anew each time: then only its small files are put together.
SORTED_BYTES_MAX = 1 << 30
#: Time columns, the one that a table's rows are asked for by first.
_TIMES = ("received_at", "leader_at", "appended_at", "at", "responded_at", "requested_at")
#: Columns of outcomes that nearly every question fixes.
_FIXED = ("variant", "parameter_value")
#: Delta's own bound: younger files may belong to a job that still runs.
SAFE_RETENTION_HOURS = 168
#: Marks said longer ago than this are said again, long before their commits may be deleted.
RESTATE_AFTER_MS = 7 * 86_400_000


class Size(NamedTuple):
    """How much there is: files of the current version, their bytes, and rows."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def plus(self, other: Size) -> Size:
        """Both together."""
        return Size(*(mine + others for mine, others in zip(self, other, strict=True)))


def sort_columns(table: Table) -> tuple[str, ...]:
    """What ``optimize`` sorts a recording's rows by: what questions fix, then time; may be none."""
    names = {column.name for column in table.columns}
    if "metric" in names:
        return ("rule", "metric")
    times = [name for name in _TIMES if name in names][:1]
    return tuple(name for name in _FIXED if name in names and times) + tuple(times)


def live_files(warehouse_path: str, table: Table) -> list[dict[str, Any]]:
    """The files of the table's current version, as the Delta log says them; none if no table.

    Keys: ``path``, ``size_bytes``, ``num_records``, ``partition.recording``, and statistics as
    ``min.<column>`` and ``max.<column>``.
    """
    uri = f"{warehouse_path}/{table.name}"
    if not deltalake.DeltaTable.is_deltatable(uri):
        return []
    actions = deltalake.DeltaTable(uri).get_add_actions(flatten=True)
    rows: list[dict[str, Any]] = pa.table(actions).to_pylist()
    return rows


def sizes(warehouse_path: str, table: Table) -> dict[str, Size]:
    """What each recording has in the table."""
    found: dict[str, Size] = defaultdict(Size)
    for file in live_files(warehouse_path, table):
        name = file["partition.recording"]
        size = Size(1, file["size_bytes"], file["num_records"] or 0)
        found[name] = found[name].plus(size)
    return dict(found)


def total(parts: Iterable[Size]) -> Size:
    """All of them together."""
    whole = Size()
    for part in parts:
        whole = whole.plus(part)
    return whole


# --- OPTIMIZE -------------------------------------------------------------------------------------


class Optimized(NamedTuple):
    """A table before and after; ``in_the_way``: another writer was first, nothing was done."""

    table: Table
    before: Size
    after: Size
    in_the_way: bool = False


def needs_optimizing(warehouse_path: str, table: Table) -> dict[str, int]:
    """Recordings whose files in the table should be put together, with their bytes."""
    of: dict[str, list[int]] = defaultdict(list)
    for file in live_files(warehouse_path, table):
        of[file["partition.recording"]].append(file["size_bytes"])
    return {
        name: sum(found)
        for name, found in sorted(of.items())
        if sum(size < SMALL_FILE_BYTES for size in found) > 1
    }


def optimize(warehouse: Warehouse, table: Table) -> Optimized | None:
    """Puts a table's small files together; None if there was nothing to do."""
    needed = needs_optimizing(warehouse.path, table)
    if not needed:
        return None
    before = total(sizes(warehouse.path, table).values())
    columns = sort_columns(table)
    small = [name for name, found in needed.items() if columns and found <= SORTED_BYTES_MAX]
    large = [name for name in needed if name not in small]
    try:
        if small:
            _optimize(warehouse, table, small, columns)
        if large:
            _optimize(warehouse, table, large, ())
    except CONFLICTS:
        return Optimized(table, before, before, in_the_way=True)
    return Optimized(table, before, total(sizes(warehouse.path, table).values()))


def _optimize(
    warehouse: Warehouse, table: Table, recordings: Sequence[str], columns: Sequence[str]
) -> None:
    # A session of its own: settings are the session's, and other threads write with theirs.
    spark = warehouse.spark.newSession()
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", TARGET_FILE_BYTES)
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", SMALL_FILE_BYTES)
    # Sorted files have pages of narrow ranges, and those are skipped too.
    spark.conf.set("spark.databricks.io.skipping.mdc.sortWithinFiles", "true")
    chosen = DeltaTable.forPath(spark, warehouse.path_of(table)).optimize()
    chosen = chosen.where(" OR ".join(predicate({"recording": name}) for name in recordings))
    if columns:
        chosen.executeZOrderBy(*columns).collect()
    else:
        chosen.executeCompaction().collect()


# --- VACUUM and old commits -----------------------------------------------------------------------


def unneeded_files(warehouse_path: str, table: Table, retention_hours: int) -> list[str]:
    """The table's files that no version of the last hours needs; none if there is no table."""
    uri = f"{warehouse_path}/{table.name}"
    if not deltalake.DeltaTable.is_deltatable(uri):
        return []
    return _vacuum(uri, retention_hours, dry_run=True)


def vacuum(warehouse: Warehouse, table: Table, retention_hours: int) -> list[str]:
    """Deletes the table's files that no version of the last hours needs; says which.

    Less than ``SAFE_RETENTION_HOURS`` keeps ingests out meanwhile: raises WriteConflictError if one
    is running.
    """
    is_short = retention_hours < SAFE_RETENTION_HOURS
    with warehouse.exclusively("ingest") if is_short else nullcontext():
        if not unneeded_files(warehouse.path, table, retention_hours):
            return []  # a vacuum of nothing would still be two commits
        return _vacuum(warehouse.path_of(table), retention_hours, dry_run=False)


def _vacuum(uri: str, retention_hours: int, dry_run: bool) -> list[str]:
    # full: also files that were never committed, of jobs that were killed.
    return deltalake.DeltaTable(uri).vacuum(
        retention_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
    )


def restate_old_marks(warehouse: Warehouse, table: Table, now_ms: int | None = None) -> bool:
    """Says fingerprints again whose commits may soon be deleted; whether there were any.

    ``now_ms``: milliseconds since the epoch, if not now.
    """
    if not warehouse.exists(table):
        return False
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    marks = current_marks(warehouse.commits(table))
    is_old = any(now_ms - mark.at_ms > RESTATE_AFTER_MS for mark in marks)
    if is_old:
        warehouse.restate_fingerprints(table)
    return is_old
