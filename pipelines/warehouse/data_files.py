"""Parquet files of Delta tables, written where they will stay, before any table knows of them.

A file that no commit of its table names is invisible to every reader. So tasks write files where
they run and return what Delta's Add action says of them (``DataFile``); the driver commits those
that are to be seen (``commits``). What is never committed, VACUUM removes.

The writer holds rows to the table's schema: delta-rs would commit a null in a NOT NULL column and a
column of another type without a word.
"""

import json
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kip_replay.pipelines.storage import filesystem_of, is_store, is_uri
from kip_replay.replay.table import Table

#: Rows of a row group, held back until it is full.
_ROW_GROUP_ROWS = 1 << 17
_ROW_GROUP_BYTES = 64 << 20
FILE_BYTES_MAX = 256 << 20
#: Of larger files, a recording may have any number.
SMALL_FILE_BYTES = 4 << 20
#: How Arrow reads data files: pages are held against their checksums.
CHECKED = {"pre_buffer": True, "page_checksum_verification": True}
#: In a file's footer: how many bytes of row groups are before it, and their CRC-32.
_CHECKSUM = b"kip-replay.crc32"
_COMPRESSION = "zstd"
#: Characters that Delta keeps of a text in statistics.
_STATS_CHARACTERS = 32
_LAST_CHARACTER = "\U0010ffff"
#: Nested and free text columns are never filtered by: their statistics only make commits long.
_NAMES_WITHOUT_STATS = frozenset({"reason", "line", "value", "connection"})
#: Texts of which a row has its own. Others are in dictionaries: all files take 6 % less, a count by
#: client id in DuckDB a quarter of the time, writing 2 % more (office-4.1, racks-leader).
_IDS = frozenset({"request_id", "recorded_request_id", "min_isr_fetch_id", "acks_all_fetch_id"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SchemaError(Exception):
    """Rows do not fit their table: a mistake in this program, never in a recording."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file as Delta's log names it; ``path`` is within the table's folder."""

    table: str
    recording: str
    path: str
    size_bytes: int
    rows: int
    stats: str


def partition_folder(recording: str) -> str:
    return f"recording={quote(recording, safe='')}"


def stats_columns(table: Table) -> list[str]:
    """Columns whose least and greatest value each file states."""
    return [
        column.name
        for column in table.columns
        if not pa.types.is_nested(column.type)
        and not pa.types.is_boolean(column.type)
        and not pa.types.is_binary(column.type)
        and column.name not in _NAMES_WITHOUT_STATS
        and column.name not in table.partitioned_by
    ]


@dataclass
class TableFiles:
    """Writes rows of many tables and recordings, each to files of its own, below the URI ``root``.

    Names begin with ``name``; each attempt to write the same rows has others.
    """

    root: str
    name: str
    _open: dict[tuple[str, str], "_OpenFile"] = field(default_factory=dict, init=False)
    _closed: list[DataFile] = field(default_factory=list, init=False)

    def write(self, table: Table, rows: pa.RecordBatch, recording: str | None = None) -> None:
        """Adds rows of a table, of a recording or of those that they name. Raises SchemaError."""
        if recording is None:
            of_rows = rows.column("recording")
            names = of_rows.unique().to_pylist()
            for name in names:
                its = rows if len(names) == 1 else rows.filter(pc.equal(of_rows, name))
                self.write(table, its, name)
            return
        if not rows.num_rows:
            return
        file = self._open.get((table.name, recording))
        if file is None:
            file = _OpenFile(f"{self.root}/{table.name}", table, recording, self.name)
            self._open[table.name, recording] = file
        file.write(rows)
        if file.size_bytes >= FILE_BYTES_MAX:
            self._closed.append(file.closed())
            del self._open[table.name, recording]

    def closed(self) -> list[DataFile]:
        """Closes all files; what a commit adds."""
        self._closed += [file.closed() for file in self._open.values()]
        self._open.clear()
        return self._closed


def merged(files: TableFiles, table: Table, parts: Sequence[DataFile]) -> list[DataFile]:
    """Puts files that no commit names together where those of a recording are small in all.

    Tasks write a file each. No more than a row group is held.
    """
    of_recordings: dict[str, list[DataFile]] = defaultdict(list)
    for part in parts:
        of_recordings[part.recording].append(part)
    stay: list[DataFile] = []
    for recording, its in of_recordings.items():
        if len(its) == 1 or sum(part.size_bytes for part in its) > SMALL_FILE_BYTES:
            stay += its
            continue
        for part in its:
            filesystem, path = filesystem_of(f"{files.root}/{table.name}/{part.path}")
            with pq.ParquetFile(path, filesystem=filesystem, **CHECKED) as parquet:
                for rows in parquet.iter_batches(use_threads=False):
                    files.write(table, rows, recording)
            filesystem.delete_file(path)
    return [*stay, *files.closed()]


def fitting(rows: pa.RecordBatch, table: str, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a table's schema. Raises SchemaError, or KeyError where one is not there."""
    kept = rows.select(schema.names)
    for column, wanted, values in zip(kept.schema, schema, kept.columns, strict=True):
        if column.type != wanted.type and not column.type.equals(wanted.type):
            raise SchemaError(
                f"rows of {table} have {column.name} as {column.type}, not {wanted.type}"
            )
        if values.null_count and not wanted.nullable:
            raise SchemaError(f"rows of {table} have null in {column.name}, which is never null")
    return kept


@cache
def require_unchanged(path: str) -> None:
    """Raises OSError where row groups of a file here are not the bytes that were written.

    DuckDB, unlike Arrow and Spark, holds no page against its checksum. A file is read once a
    process; one without a checksum, of an older version, is taken as it is.
    """
    stated = (pq.read_metadata(path).metadata or {}).get(_CHECKSUM, b"").decode()
    if stated and stated != _checksum(path, int(stated.partition(":")[0])):
        raise OSError(f"{path} has other bytes than were written: its checksum differs")


def _checksum(path: str, size_bytes: int) -> str:
    row_groups: Any = np.memmap(path, mode="r", shape=size_bytes)
    return f"{size_bytes}:{zlib.crc32(row_groups)}"


class _OpenFile:
    def __init__(self, folder: str, table: Table, recording: str, name: str) -> None:
        self._table, self._recording = table, recording
        self._path = f"{partition_folder(recording)}/{name}-{uuid.uuid4()}.{_COMPRESSION}.parquet"
        filesystem, place = filesystem_of(f"{folder}/{self._path}")
        if not is_store(folder):
            filesystem.create_dir(str(Path(place).parent), recursive=True)
        self._schema = table.without(*table.partitioned_by).remove_metadata()
        self._metadata: list[pq.FileMetaData] = []
        self._place = None if is_uri(folder) else place
        self._sink = filesystem.open_output_stream(place)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=_COMPRESSION,
            use_dictionary=[
                field.name
                for field in self._schema
                if pa.types.is_string(field.type) and field.name not in _IDS
            ],
            write_statistics=stats_columns(table),
            metadata_collector=self._metadata,
            store_schema=False,
            write_page_checksum=True,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.RecordBatch) -> None:
        kept = fitting(rows, self._table.name, self._schema)
        self._waiting.append(pa.RecordBatch.from_arrays(kept.columns, schema=self._schema))
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= _ROW_GROUP_ROWS or self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            rows = pa.Table.from_batches(self._waiting)
            with self._failing_once():
                self._writer.write_table(rows, row_group_size=self._waiting_rows)
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    @contextmanager
    def _failing_once(self) -> Iterator[None]:
        """Or the writer would close itself when freed, fail again, and print a stack trace."""
        try:
            yield
        except OSError:
            self._writer.is_open = False
            raise

    def closed(self) -> DataFile:
        self._flush()
        with self._failing_once():
            if self._place:
                checksum = _checksum(self._place, self.size_bytes)
                self._writer.add_key_value_metadata({_CHECKSUM.decode(): checksum})
            self._writer.close()
        size_bytes = self.size_bytes
        self._sink.close()
        (metadata,) = self._metadata
        return DataFile(
            table=self._table.name,
            recording=self._recording,
            path=self._path,
            size_bytes=size_bytes,
            rows=metadata.num_rows,
            stats=_stats(metadata, stats_columns(self._table)),
        )


def _stats(metadata: pq.FileMetaData, names: Iterable[str]) -> str:
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    columns = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    least, greatest, nulls = {}, {}, {}
    for name in names:
        of_groups = [group.column(columns[name]).statistics for group in groups]
        nulls[name] = sum(statistics.null_count for statistics in of_groups)
        valued = [statistics for statistics in of_groups if statistics.num_values]
        if valued and all(statistics.has_min_max for statistics in valued):
            least[name] = _least(min(statistics.min for statistics in valued))
            greatest[name] = _greatest(max(statistics.max for statistics in valued))
    stats: dict[str, Any] = {
        "numRecords": metadata.num_rows,
        "minValues": {name: value for name, value in least.items() if value is not None},
        "maxValues": {name: value for name, value in greatest.items() if value is not None},
        "nullCount": nulls,
    }
    return json.dumps(stats)


def _least(value: Any) -> Any:
    """As Delta writes it: a time to the millisecond before, a text cut."""
    if isinstance(value, datetime):
        return _milliseconds(value, 0)
    return value[:_STATS_CHARACTERS] if isinstance(value, str) else value


def _greatest(value: Any) -> Any:
    """A time to the millisecond after; of a long text its beginning, and what nothing is above.

    Without any, delta-rs compares with null, and readers skip the file.
    """
    if isinstance(value, datetime):
        return _milliseconds(value, 999)
    if isinstance(value, str) and len(value) > _STATS_CHARACTERS:
        return value[:_STATS_CHARACTERS] + _LAST_CHARACTER
    return value


def _milliseconds(time: datetime, plus_us: int) -> str:
    time = time.astimezone(UTC) + timedelta(microseconds=plus_us)
    return time.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def microseconds(time: datetime) -> int:
    """Since 1970, exactly."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def moment(us: int) -> datetime:
    """Converts microseconds since 1970 to a time in UTC."""
    return _EPOCH + timedelta(microseconds=us)
