"""Tables that something other than this program has damaged, found before anything is read.

Delta trusts its log and its files: a commit that was cut to nothing reads as one that did nothing,
and a file that is gone is missed only by a query that needs it. Hence each job first looks whether

* the log can be read;
* every file of the current version is there, as long as the log says;
* a recording has as many rows in each table as the step that wrote them left there (``lineage``):
  a log that lost its last commits, or a table that is gone, would otherwise be taken as whole.

That takes milliseconds a table: names and sizes come of one listing. What the bytes of a file are
shows when they are read, by the checksums of its pages; where a job fails, ``require_readable``
finds the file of a disk that it failed at.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from kip_replay.pipelines.storage import filesystem_of, is_uri, place_of
from kip_replay.pipelines.warehouse.commits import dataset, files_of, rows_of_step
from kip_replay.pipelines.warehouse.data_files import SchemaError, fitting
from kip_replay.pipelines.warehouse.tables import made_anew
from kip_replay.replay.log_tables import LOG_TABLES
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LINEAGE, TABLES


class DamagedTableError(Exception):
    """A table's files are not what its log says; the message is one sentence that says what to do.

    Nothing was written; jobs exit with 1.
    """


def require_whole(warehouse_path: str) -> dict[str, list[dict[str, Any]]]:
    """The live files of each table. Raises DamagedTableError for the first that is damaged."""
    warehouse = str(place_of(warehouse_path))
    left = _rows_left(warehouse)
    # After what was left in them: so whatever that names can be in the listing.
    listed = _listed(warehouse)
    files = {name: _live_files(warehouse, table, listed) for name, table in TABLES.items()}
    wrong = []
    for (recording, step), stated in left.items():
        for name, wanted in stated[1].items():
            table = TABLES[name]
            mine = [file for file in files[name] if file["partition.recording"] == recording]
            rows = rows_of_step(mine, table, step)
            if rows != wanted:
                there = f"{rows:,} rows" if rows >= 0 else "an unknown number of rows"
                found = f"recording {recording!r} has {there} in it where {wanted:,} were written"
                damage = _damaged(table, f"{warehouse}/{name}", found)
                wrong.append(((recording, step), stated, damage))
    if wrong:
        # Another job that writes a step has first taken its row out of lineage.
        now = _rows_left(warehouse)
        for key, stated, damage in wrong:
            if now.get(key) == stated:
                raise damage
    return files


def require_readable(warehouse_path: str) -> None:
    """Checks the tables, and reads every file of a local warehouse from beginning to end."""
    warehouse = str(place_of(warehouse_path))
    for name, files in require_whole(warehouse).items():
        folder = f"{warehouse}/{name}"
        for file in () if is_uri(warehouse) else files:
            if found := _content_damage(f"{folder}/{file['path']}", TABLES[name]):
                raise _damaged(TABLES[name], folder, found)


def _rows_left(warehouse: str) -> dict[tuple[str, str], tuple[datetime | None, dict[str, int]]]:
    """Reads when each (recording, step) was done, its rows by table. Raises DamagedTableError."""
    if not _live_files(warehouse, LINEAGE, _listed(warehouse, LINEAGE.name)):
        return {}
    uri = f"{warehouse}/{LINEAGE.name}"
    delta = deltalake.DeltaTable(uri)
    if "row_counts" not in {field.name for field in delta.schema().fields}:
        return {}  # of another version of this program: whoever opens the table says so
    try:
        rows = dataset(delta, uri).to_table().to_pylist()
    except (pa.ArrowException, OSError, ValueError):
        rows = []
    found = {}
    for row in rows:
        stated = {of["table_name"]: of["rows"] for of in row["row_counts"] or ()}
        known = {name: count for name, count in stated.items() if name in TABLES}
        found[row["recording"], row["step"]] = row["committed_at"], known
    return found


def _listed(warehouse: str, name: str = "") -> dict[str, int | None]:
    """Bytes of the files in a folder and below, None of folders, by path within the warehouse."""
    filesystem, path = filesystem_of(warehouse)
    folder = f"{path}/{name}".rstrip("/")
    if filesystem.get_file_info(folder).type is not pafs.FileType.Directory:
        return {}
    found = filesystem.get_file_info(pafs.FileSelector(folder, recursive=True))
    return {each.path[len(path) + 1 :]: each.size for each in found}


def _was_made(name: str, listed: Mapping[str, int | None]) -> bool:
    """Returns whether a table exists: a killed job may leave an empty log; files lost theirs."""
    log, rows = f"{name}/_delta_log/", f"{name}/recording="
    return any(
        (path.startswith(log) and path.endswith(".json"))
        or (path.startswith(rows) and path.endswith(".parquet"))
        or (size is not None and path in (name, log[:-1]))
        for path, size in listed.items()
    )


def _damaged(table: Table, folder: str, found: str) -> DamagedTableError:
    way_on = made_anew(table, folder)
    if table in LOG_TABLES:  # read from logs
        way_on = f"restore the warehouse from a copy, or {way_on}"
    return DamagedTableError(f"the table {table.name} is damaged, {found}: {way_on}")


def _live_files(
    warehouse: str, table: Table, listed: Mapping[str, int | None]
) -> list[dict[str, Any]]:
    """The files of the current version (``commits.files_of``). Raises DamagedTableError."""
    uri = f"{warehouse}/{table.name}"
    if not _was_made(table.name, listed):
        return []
    for name in (table.name, f"{table.name}/_delta_log"):
        if listed.get(name) is not None:
            raise _damaged(table, uri, f"{warehouse}/{name} is no folder")
    try:
        files = files_of(deltalake.DeltaTable(uri))
    except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].removeprefix("Kernel error: ").rstrip(".")
        raise _damaged(table, uri, f"its log cannot be read ({reason})") from None
    filesystem, folder = filesystem_of(uri)
    for path, size_bytes in ((file["path"], file["size_bytes"]) for file in files):
        there = listed.get(f"{table.name}/{path}")
        if there != size_bytes:  # since the listing, another job may have written it
            there = filesystem.get_file_info(f"{folder}/{path}").size
        if there is None:
            raise _damaged(table, uri, f"its file {uri}/{path} is not there")
        if there != size_bytes:
            found = f"its file {uri}/{path} has {there:,} bytes where {size_bytes:,} were written"
            raise _damaged(table, uri, found)
    return files


def _content_damage(file: str, table: Table) -> str | None:
    """Finds damage in the bytes of a file; None if all its rows can be read."""
    schema = table.without(*table.partitioned_by)
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            for rows in parquet.iter_batches():
                fitting(rows, table.name, schema)
    except (pa.ArrowException, OSError, SchemaError, KeyError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        return f"its file {file} cannot be read ({reason})"
    return None
