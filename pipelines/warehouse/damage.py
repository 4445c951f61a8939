"""Tables that something other than this program has damaged, found before anything is read.

A Delta table is a folder of Parquet files and a log that says which of them belong to it. Delta
trusts both. A commit that was cut to nothing reads as a commit that did nothing, and a file that is
gone is missed only by a query that needs it: so rows would silently be missing, or a job would fail
in its middle. Hence each job first looks whether

* the log's newest checkpoint and every commit after it can be read, and is complete;
* every file of the current version is there, as long as the log says.

That takes milliseconds a table, without Spark. A warehouse in an object store is not looked at:
stores lose and cut no objects, and asking for each would take long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from kip_replay.pipelines.warehouse.commits import ACTIONS
from kip_replay.pipelines.warehouse.tables import made_anew
from kip_replay.replay.log_tables import LOG_TABLES, OBSERVATIONS
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\b.*\.parquet")
_COMMIT = re.compile(r"(\d{20})\.json")


class DamagedTableError(Exception):
    """A table's files are not what its log says; the message is one sentence that says what to do.

    Nothing was written; jobs exit with 1.
    """


def require_whole(warehouse_path: str, tables: Iterable[Table] = tuple(TABLES.values())) -> None:
    """Raises DamagedTableError for the first damaged table of a local warehouse."""
    if "://" in warehouse_path:
        return
    for table in tables:
        folder = Path(warehouse_path, table.name)
        if _was_made(folder):
            _require_whole(folder, table)


def _was_made(folder: Path) -> bool:
    """Whether there is a table: a job that is killed while making one leaves an empty log.

    Files are only written once the log has begun. So files without any log have lost it.
    """
    log = folder / "_delta_log"
    return log.is_dir() and (any(log.glob("*.json")) or any(folder.glob("recording=*/*.parquet")))


def _require_whole(folder: Path, table: Table) -> None:
    found = _checkpoint_damage(folder, table) or _commit_damage(folder, table)
    if found is None:
        try:
            actions = pa.table(deltalake.DeltaTable(str(folder)).get_add_actions())
        except DeltaError as error:
            reason = str(error).partition("\n")[0].removeprefix("Kernel error: ").rstrip(".")
            found = f"its log cannot be read ({reason}): {_way_on(folder, table)}"
        else:
            found = _file_damage(folder, table, actions)
    if found is not None:
        raise DamagedTableError(f"the table {table.name} is damaged, {found}")


def _checkpoint_damage(folder: Path, table: Table) -> str | None:
    """What is the matter with the newest checkpoint, and what to do; None if it can be read."""
    log = folder / "_delta_log"
    for file in _newest_checkpoint(log):
        try:
            pq.read_table(file, columns=["add.path", "protocol.minReaderVersion"])
        except (pa.ArrowException, OSError):
            if (log / f"{0:020}.json").exists():  # none was cleaned up: they hold all that it holds
                return (
                    f"its checkpoint {file} cannot be read: remove this file and "
                    f"{log / '_last_checkpoint'}, and run again, which reads the commits instead"
                )
            return f"its checkpoint {file} cannot be read: {_way_on(folder, table)}"
    return None


def _newest_checkpoint(log: Path) -> list[Path]:
    """The checkpoint's file, or files where it has several parts; none if there is none."""
    of_version: dict[str, list[Path]] = {}
    for file in log.iterdir():
        if match := _CHECKPOINT.fullmatch(file.name):
            of_version.setdefault(match[1], []).append(file)
    return sorted(of_version[max(of_version)]) if of_version else []


def _commit_damage(folder: Path, table: Table) -> str | None:
    """Which commit after the newest checkpoint is not complete, and what to do."""
    log = folder / "_delta_log"
    checkpoint = _newest_checkpoint(log)
    since = checkpoint[0].name[:20] if checkpoint else ""
    for commit in sorted(log.iterdir()):
        match = _COMMIT.fullmatch(commit.name)
        if match and match[1] > since and not _is_complete(commit):
            return f"its commit {commit} is cut short: {_way_on(folder, table)}"
    return None


def _is_complete(commit: Path) -> bool:
    """Whether every line is an action, and there are as many as the commit says of itself."""
    try:
        actions = [dict(json.loads(line)) for line in commit.read_bytes().splitlines()]
    except (ValueError, TypeError):
        return False
    info: dict[str, Any] = {}
    for action in actions:
        info = action.get("commitInfo", info)
    found = sum("add" in action or "remove" in action for action in actions)
    return bool(actions) and int(info.get(ACTIONS, found)) == found


def _file_damage(folder: Path, table: Table, actions: pa.Table) -> str | None:
    """Which file of the current version is not there as it was written, and what to do."""
    paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    for path, size_bytes in zip(paths, sizes, strict=True):
        file = folder / unquote(path)
        try:
            there = file.stat().st_size
        except OSError:
            return f"its file {file} is not there: {_way_on(folder, table)}"
        if there != size_bytes:
            return (
                f"its file {file} has {there:,} bytes where {size_bytes:,} were written: "
                f"{_way_on(folder, table)}"
            )
    return None


def _way_on(folder: Path, table: Table) -> str:
    way = made_anew(table, str(folder))
    is_read_from_logs = table in (*LOG_TABLES, *OBSERVATIONS)
    return f"restore the warehouse from a copy, or {way}" if is_read_from_logs else way
