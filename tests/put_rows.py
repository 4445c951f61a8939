"""Rows made by hand, committed as a step commits its own; without Spark."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES, Lineage

Row = dict[str, Any]
#: When something was written, and under which number.
VOLATILE = ("ingest_epoch", "modified_at", "disk_bytes", "state", "fingerprint")


def row(table: Table, recording: str, **values: object) -> Row:
    """A row with something in every column that is never null."""
    required = [column for column in table.columns if not column.nullable]
    filled = {c.name: "x" if pa.types.is_string(c.type) else 1 for c in required}
    return {**filled, "recording": recording, **values}


def put(warehouse: Warehouse, step: str, rows: Mapping[Table, Sequence[Row]]) -> None:
    """Adds rows; columns that are not named are null."""
    batches = {
        table: pa.RecordBatch.from_pylist([*of_table], schema=table.arrow_schema)
        for table, of_table in rows.items()
    }
    names = {row["recording"] for of_table in rows.values() for row in of_table}
    writing = warehouse.writing(step, names, rows)
    files = writing.files()
    for table, batch in batches.items():
        files.write(table, batch)
    closed = files.closed()
    writing.begin()
    for table in rows:
        writing.append(table, closed, writing.epochs)
    writing.end(dict.fromkeys(names, f"epoch {max(writing.epochs.values())}"))


def rows_of(
    warehouse: Warehouse, table: Table, recording: str | None = None, without: Sequence[str] = ()
) -> list[str]:
    """Rows by delta-rs, sorted; of one recording, without its name and other columns."""
    if not warehouse.exists(table):  # until it has rows
        return []
    rows = deltalake.DeltaTable(warehouse.uri_of(table)).to_pyarrow_table()
    if recording is not None:
        rows = rows.filter(pc.field("recording") == recording).drop_columns("recording")
    left = rows.drop_columns([*(set(without) & set(rows.column_names))])
    return sorted(map(repr, left.to_pylist()))


def contents(warehouse: str | Path) -> dict[str, str]:
    """Every file of the tables with a hash of its bytes: what tells whether anything changed."""
    return {
        str(file.relative_to(warehouse)): hashlib.blake2b(file.read_bytes()).hexdigest()
        for table in Path(warehouse).glob("[a-z]*")
        if table.is_dir()
        for file in table.rglob("*")
        if file.is_file()
    }


def assert_same(one: str | Path, other: str | Path, without: Sequence[str] = VOLATILE) -> None:
    """Two warehouses have the same tables, with the same rows but for some columns."""
    left, right = Warehouse(one), Warehouse(other)
    for table in TABLES.values():
        if table is not Lineage:
            mine, theirs = (rows_of(each, table, None, without) for each in (left, right))
            assert mine == theirs, table.name


def versions(warehouse: Warehouse) -> dict[str, int]:
    """The last version of each table, by the names of its commits."""
    logs = {log.parent.name: log for log in Path(warehouse.path).glob("*/_delta_log")}
    return {name: max(int(f.stem) for f in log.glob("0*[0-9].json")) for name, log in logs.items()}


def without_texts(value: object) -> object:
    """A value in which every text is the same."""
    if isinstance(value, dict):
        return {name: without_texts(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_texts(each) for each in value]
    return "text" if isinstance(value, str) else value
