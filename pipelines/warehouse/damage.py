"""Tables that something other than this program has damaged, found before anything is read.

A Delta table is a folder of Parquet files and a log that says which of them belong to it. Delta
trusts both. A commit that was cut to nothing reads as a commit that did nothing, and a file that is
gone is missed only by a query that needs it: so rows would silently be missing, or a job would fail
in its middle. Hence each job first looks whether

* the log can be read;
* every file of the current version is there, as long as the log says;
* a recording has as many rows in each table as the step that wrote them left there (``lineage``):
  a log that lost its last commits, or a table that is gone, would otherwise be believed.

That takes milliseconds a table, without Spark. A warehouse in an object store is not looked at:
stores lose and cut no objects, and asking for each would take long. What the bytes of a file are
shows when they are read, by the checksums of its pages; where a job fails, ``require_readable``
finds the file that it failed at.
"""

from datetime import datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from kip_replay.pipelines.warehouse.commits import dataset, files_of, rows_of_step
from kip_replay.pipelines.warehouse.data_files import SchemaError, fitting
from kip_replay.pipelines.warehouse.tables import made_anew
from kip_replay.replay.log_tables import LOG_TABLES, OBSERVATIONS
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LINEAGE, TABLES


class DamagedTableError(Exception):
    """A table's files are not what its log says; the message is one sentence that says what to do.

    Nothing was written; jobs exit with 1.
    """


def require_whole(warehouse_path: str) -> None:
    """Raises DamagedTableError for the first damaged table of a local warehouse."""
    if "://" not in warehouse_path:
        _require_whole(Path(warehouse_path))


def require_readable(warehouse_path: str) -> None:
    """The same, and every file of a local warehouse is read from beginning to end."""
    if "://" in warehouse_path:
        return
    for name, files in _require_whole(Path(warehouse_path)).items():
        folder = Path(warehouse_path, name)
        for file in files:
            if found := _content_damage(folder / file["path"], TABLES[name]):
                raise _damaged(TABLES[name], folder, found)


def _require_whole(warehouse: Path) -> dict[str, list[dict[str, Any]]]:
    """The live files of each table. Raises DamagedTableError."""
    left = _rows_left(warehouse)
    files = {
        name: _live_files(warehouse / name, table) if _was_made(warehouse / name) else []
        for name, table in TABLES.items()
    }
    wrong = []
    for (recording, step), stated in left.items():
        for name, wanted in stated[1].items():
            table = TABLES[name]
            mine = [file for file in files[name] if file["partition.recording"] == recording]
            rows = rows_of_step(mine, table, step)
            if rows != wanted:
                there = f"{rows:,} rows" if rows >= 0 else "an unknown number of rows"
                found = f"recording {recording!r} has {there} in it where {wanted:,} were written"
                damage = _damaged(table, warehouse / name, found)
                wrong.append(((recording, step), stated, damage))
    if wrong:
        # Another job that writes a step has first taken its row out of lineage.
        now = _rows_left(warehouse)
        for key, stated, damage in wrong:
            if now.get(key) == stated:
                raise damage
    return files


def _rows_left(warehouse: Path) -> dict[tuple[str, str], tuple[datetime | None, dict[str, int]]]:
    """When each (recording, step) was done, and its rows by table. Raises DamagedTableError."""
    folder = warehouse / LINEAGE.name
    if not _was_made(folder):
        return {}
    _live_files(folder, LINEAGE)
    delta = deltalake.DeltaTable(str(folder))
    if "row_counts" not in {field.name for field in delta.schema().fields}:
        return {}  # of another version of this program: whoever opens the table says so
    try:
        rows = dataset(delta, str(folder)).to_table().to_pylist()
    except (pa.ArrowException, OSError, ValueError):
        rows = []
    found = {}
    for row in rows:
        stated = {of["table_name"]: of["rows"] for of in row["row_counts"] or ()}
        known = {name: count for name, count in stated.items() if name in TABLES}
        found[row["recording"], row["step"]] = row["committed_at"], known
    return found


def _was_made(folder: Path) -> bool:
    """Whether there is a table: a killed job may leave an empty log; files without one lost it."""
    log = folder / "_delta_log"
    if any(place.exists() and not place.is_dir() for place in (folder, log)):
        return True
    return log.is_dir() and (any(log.glob("*.json")) or any(folder.glob("recording=*/*.parquet")))


def _damaged(table: Table, folder: Path, found: str) -> DamagedTableError:
    way_on = made_anew(table, str(folder))
    if table in (*LOG_TABLES, *OBSERVATIONS):  # read from logs
        way_on = f"restore the warehouse from a copy, or {way_on}"
    return DamagedTableError(f"the table {table.name} is damaged, {found}: {way_on}")


def _live_files(folder: Path, table: Table) -> list[dict[str, Any]]:
    """The files of the current version (``commits.files_of``). Raises DamagedTableError."""
    log = folder / "_delta_log"
    for place in (folder, log):
        if place.exists() and not place.is_dir():
            raise _damaged(table, folder, f"{place} is no folder")
    try:
        files = files_of(deltalake.DeltaTable(str(folder)))
    except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].removeprefix("Kernel error: ").rstrip(".")
        raise _damaged(table, folder, f"its log cannot be read ({reason})") from None
    for file, size_bytes in ((folder / of_log["path"], of_log["size_bytes"]) for of_log in files):
        try:
            there = file.stat().st_size
        except OSError:
            raise _damaged(table, folder, f"its file {file} is not there") from None
        if there != size_bytes:
            found = f"its file {file} has {there:,} bytes where {size_bytes:,} were written"
            raise _damaged(table, folder, found)
    return files


def _content_damage(file: Path, table: Table) -> str | None:
    """What is the matter with the bytes of a file; None if all its rows can be read."""
    schema = table.without(*table.partitioned_by)
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            for rows in parquet.iter_batches():
                fitting(rows, table.name, schema)
    except (pa.ArrowException, OSError, SchemaError, KeyError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        return f"its file {file} cannot be read ({reason})"
    return None
