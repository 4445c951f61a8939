"""The warehouse: a folder, or a prefix of an object store, with a Delta table in each folder of it.

What is small is read as Arrow (``rows``) or by DuckDB (``database``); what grows with a log, by an
engine. All is written through ``Writing``, which is what ``commits`` does to the tables of a step.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial, reduce
from operator import and_
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from warnings import catch_warnings

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError

from kip_replay.pipelines import progress
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.storage import filesystem_of, is_uri, place_of
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import (
    DataFile,
    TableFiles,
    merged,
    require_unchanged,
)
from kip_replay.replay.log_tables import LOG_TABLES
from kip_replay.replay.table import AT, Table
from kip_replay.replay.tables import TABLES, VERSION, Lineage, ReplayState

#: delta-rs takes a path for a URI: it decodes %41, reads \\ as / and takes no control character.
#: Spark takes one for a pattern.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f\ud800-\udfff]|[][{}*?]")
#: Files of a table of no more bytes than this are held by whoever reads them.
_SMALL_BYTES = 1 << 20
#: A disk that takes no more takes no file of this size: a block.
_PROBE_BYTES = 1 << 12
#: Ends of steps wait until the first began so long ago: what a killed job would repeat.
_ENDS_WAIT_MAX = timedelta(minutes=5)
#: Tables of what was logged or replayed, by arrival.
_ARRIVALS = ("received_at", "recorded_received_at")
_NOTHING_ADDED = {"files_written": 0, "rows_written": 0, "bytes_written": 0}
#: What a request led to is seen from so much later on than requests, or its own would be missing.
EDGE = timedelta(seconds=10)


class Snapshot(NamedTuple):
    """A version of a table: its files (``commits.files_of``), and what was read of it, by path."""

    version: int
    files: Sequence[dict[str, Any]]
    read: dict[tuple[str, ...], pa.Table]


class Warehouse:
    """The Delta tables under ``path``, each made with its first rows: until then it has none."""

    def __init__(
        self, path: str | Path, properties: commits.Properties = commits.NO_PROPERTIES
    ) -> None:
        self.path = str(place_of(path).absolute())
        #: Properties of Delta that its tables get where they have none.
        self.properties = {**properties}
        self._opened: dict[str, DeltaTable] = {}
        self._snapshots: dict[str, Snapshot] = {}
        #: Epochs of steps that were written here, and rows of lineage that are not committed yet.
        self.written: dict[tuple[str, str], int] = {}
        self._ended: dict[tuple[str, str], dict[str, Any]] = {}
        self._ends_wait = False
        #: What was added by steps that have not ended, by column of lineage.
        self._added: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        #: When the recent part of recordings begins, where no more than that is seen.
        self.recent: Mapping[str, datetime] = {}
        self._whole: Collection[Table] = ()

    def since(self, moments: Mapping[str, datetime], whole: Collection[Table] = ()) -> "Warehouse":
        """Restricts this warehouse to what is recent: of some recordings what is from a moment on.

        Tables without a time, such as sums, are seen whole, and so are those of ``whole``. Old
        files are not read, but rows are chosen by their own time, whatever file they are in.
        """
        restricted = copy(self)
        restricted.recent, restricted._whole = dict(moments), whole
        return restricted

    def seen_from(self, table: Table) -> dict[str, datetime]:
        """From which time on rows of a table are seen, by recording; of others all are."""
        if table.time is None or table in self._whole:
            return {}
        later = timedelta(0) if table.time in _ARRIVALS else EDGE
        return {name: moment + later for name, moment in self.recent.items()}

    def uri_of(self, table: Table) -> str:
        return f"{self.path}/{table.name}"

    # --- reading ----------------------------------------------------------------------------------

    def exists(self, table: Table) -> bool:
        return table.name in self._opened or commits.exists(self.uri_of(table))

    def open(self, table: Table) -> DeltaTable:
        """The table's current version. Raises UserError if it is not there, or not this table.

        Only commits made since are read. Of ``lineage`` it is without ends that wait.
        """
        if opened := self._opened.get(table.name):
            if commits.may_be_behind(opened, self.uri_of(table)):
                opened.update_incremental()
        elif not self.exists(table):
            raise UserError(
                f"there is no table {table.name} in the warehouse {self.path}: run kip-replay "
                "ingest or kip-replay run with this --warehouse first"
            )
        else:
            delta = DeltaTable(self.uri_of(table))
            _require_schema(delta, table, self.uri_of(table))
            self._opened[table.name] = delta
        return self._opened[table.name]

    def files(
        self, table: Table, recordings: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """The files that hold the rows that are seen (``commits.files_of``)."""
        if not self.exists(table):
            return []
        seen_from, last = self.seen_from(table), f"max.{table.time}"
        snapshot = self._snapshot(self.open(table), table)
        named = ((file, file["partition.recording"]) for file in snapshot.files)
        mine = (
            (file, seen_from.get(n)) for file, n in named if recordings is None or n in recordings
        )
        return [f for f, at in mine if at is None or f.get(last) is None or f[last] >= at]

    def _snapshot(self, delta: DeltaTable, table: Table) -> Snapshot:
        snapshot = self._snapshots.get(table.name)
        if snapshot is None or snapshot.version != delta.version():
            snapshot = Snapshot(delta.version(), commits.files_of(delta), {})
            self._snapshots[table.name] = snapshot
        return snapshot

    def epochs(self, table: Table, step: str, recordings: Collection[str]) -> dict[str, int]:
        """Returns a step's last epoch in a table, by recording; 0 where it has written nothing."""
        if not self.exists(table):
            return dict.fromkeys(recordings, 0)
        delta = self.open(table)
        return {name: commits.epoch_in(delta, step, name) for name in recordings}

    def rows(self, table: Table, recordings: Collection[str]) -> pa.Table:
        return self.rows_of(table, self.files(table, recordings))

    def rows_of(self, table: Table, files: Sequence[Mapping[str, Any]]) -> pa.Table:
        """The rows that are seen of files of the version that was opened last."""
        rows = self._of_files(table, files)
        if is_seen := self._is_seen(table):
            rows = rows.filter(reduce(and_, is_seen))
        table_rows: pa.Table = rows if isinstance(rows, pa.Table) else rows.to_table()
        return table_rows.select(table.arrow_schema.names)

    def database(
        self, recordings: Collection[str], tables: Iterable[Table] = TABLES.values()
    ) -> duckdb.DuckDBPyConnection:
        """A DuckDB session with tables, of which it has only the rows of ``recordings``."""
        connection = duckdb.connect(config={"temp_directory": str(run_folder() / "duckdb")})
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        self.register(connection, recordings, tables)
        return connection

    def register(
        self,
        session: duckdb.DuckDBPyConnection,
        recordings: Collection[str],
        tables: Iterable[Table],
    ) -> None:
        """Makes tables known to a DuckDB session: the rows of some recordings."""
        for table in tables:
            self.register_files(session, table.name, table, self.files(table, recordings))

    def register_files(
        self,
        session: duckdb.DuckDBPyConnection,
        name: str,
        table: Table,
        files: Sequence[Mapping[str, Any]],
    ) -> None:
        """Makes the rows that are seen of files known to a DuckDB session under a name.

        Raises OSError where bytes of a file have changed since they were written.
        """
        conditions = [
            f"(recording <> {sql_text(recording)} OR {table.time} >= TIMESTAMPTZ '{moment}')"
            for recording, moment in self.seen_from(table).items()
        ]
        if not files:
            conditions = ["false"]  # nor does DuckDB plan then what is joined with it
        source = f"_{name}" if conditions else name
        if are_small(files) or is_uri(self.path):
            session.register(source, self._of_files(table, files))
            if not conditions:
                return
        else:
            # Five times as fast as through Arrow. What files of an older version lack is null.
            paths = [f"{self.uri_of(table)}/{file['path']}" for file in files]
            for path in paths:
                require_unchanged(path)
            session.register(f"_{name}", _no(table))
            source = (
                f"(FROM read_parquet([{', '.join(map(sql_text, paths))}], union_by_name = true, "
                "hive_partitioning = true, hive_types = {'recording': VARCHAR}) "
                f"UNION ALL BY NAME (FROM _{name} LIMIT 0))"
            )
        columns = ", ".join(f'"{column}"' for column in table.arrow_schema.names)
        seen = " AND ".join(conditions or ["true"])
        session.execute(f"CREATE TEMP VIEW {name} AS SELECT {columns} FROM {source} WHERE {seen}")

    def dataset(
        self,
        table: Table,
        paths: Collection[str] | None = None,
        recordings: Collection[str] | None = None,
    ) -> Any:
        """All rows of a table, or those of some of its files or recordings, for Arrow or DuckDB."""
        files = self.files(table, recordings)
        return self._of_files(table, [f for f in files if paths is None or f["path"] in paths])

    def _of_files(self, table: Table, files: Sequence[Mapping[str, Any]]) -> Any:
        """The rows of files of the version that was opened last: small ones are read once."""
        if not files:
            return _no(table)
        delta = self._opened.get(table.name) or self.open(table)
        paths = tuple(file["path"] for file in files)
        if not are_small(files):
            return commits.dataset(delta, self.uri_of(table), table, paths)
        read = self._snapshot(delta, table).read
        if paths not in read:
            read[paths] = commits.rows(self.uri_of(table), table, files)
        return read[paths]

    def _is_seen(self, table: Table) -> list[pc.Expression]:
        return [
            (pc.field("recording") != name) | (pc.field(table.time) >= pa.scalar(moment, AT))
            for name, moment in self.seen_from(table).items()
        ]

    # --- writing ----------------------------------------------------------------------------------

    def delete_of_other_versions(self) -> None:
        """Deletes all tables but those of the logs if one of them is another version's."""
        derived = [t for t in TABLES.values() if t not in LOG_TABLES and self.exists(t)]
        if any(_difference(DeltaTable(self.uri_of(table)), table) for table in derived):
            for table in derived:
                filesystem, path = filesystem_of(self.uri_of(table))
                filesystem.delete_dir(path)

    def _target(self, table: Table) -> DeltaTable | commits.Absent:
        if self.exists(table):
            return self.open(table)
        return commits.Absent(self.uri_of(table), table, self.properties)

    def writing(
        self, step: str, recordings: Collection[str], tables: Collection[Table]
    ) -> "Writing":
        """Begins an attempt. Raises UserError for a table that is there, and is another.

        Tables of an older version get the columns of this one.
        """
        assert not self.recent, "rows that are not seen would be lost"
        for table in filter(self.exists, (*tables, Lineage)):
            try:
                commits.evolve(self.open(table), table, self.properties)
            except CommitFailedError as error:
                raise commits.conflict(step, min(recordings)) from error
        last = [self.epochs(table, step, recordings) for table in (*tables, Lineage)]
        epoch = max((number for epochs in last for number in epochs.values()), default=0) + 1
        return Writing(self, step, dict.fromkeys(recordings, epoch))

    def replace(
        self, step: str, follows_from: Mapping[str, str], rows: Mapping[Table, pa.Table]
    ) -> None:
        """Writes all rows of a step, unless its tables have them already."""
        if self._stays(step, follows_from, rows):
            return
        writing = self.writing(step, follows_from, rows)
        written = _written(writing.files(), rows)
        writing.begin()
        for table in rows:
            writing.replace(table, written)
        writing.end(follows_from)

    # --- lineage ----------------------------------------------------------------------------------

    def lineage(self, recordings: Collection[str]) -> dict[tuple[str, str], str]:
        """Returns what the rows of each (recording, step) follow from, where that is known."""
        rows = self._lineage_rows(recordings)
        return {(row["recording"], row["step"]): row["follows_from"] for row in rows}

    def lineage_table(self, recordings: Collection[str]) -> pa.Table:
        """The rows of ``lineage`` with those that wait."""
        return pa.Table.from_pylist(self._lineage_rows(recordings), Lineage.arrow_schema)

    def _lineage_rows(self, recordings: Collection[str]) -> list[dict[str, Any]]:
        waiting = [row for row in self._ended.values() if row["recording"] in recordings]
        rows = [*self.rows(Lineage, recordings).to_pylist(), *waiting]
        return [*{(row["recording"], row["step"]): row for row in rows}.values()]

    @contextmanager
    def ends_waiting(self) -> Iterator[None]:
        """Commits ends of steps together: at the end, or with the beginning of a later step.

        That is one that has rows in lineage, or that begins minutes after the first of these.
        """
        self._ends_wait = True
        try:
            yield
        finally:
            self._ends_wait = False
            self._commit_lineage({})

    def _stays(
        self, step: str, follows_from: Mapping[str, str], rows: Mapping[Table, pa.Table]
    ) -> bool:
        """Ends a step if its tables have these rows; whether they do.

        Lineage is read first: where it has the step, nobody has begun to write it.
        """
        epochs, there = self.epochs(Lineage, step, follows_from), self.lineage(follows_from)
        stays = all((name, step) in there for name in follows_from) and all(
            _ordered(table, self.rows(table, follows_from)).equals(_ordered(table, of_table))
            for table, of_table in rows.items()
        )
        if stays:
            Writing(self, step, epochs).end(follows_from)
        return stays

    def _commit_lineage(self, begun: commits.Epochs) -> None:
        """Deletes the rows of steps that begin from lineage, and adds those of steps that ended."""
        ended = {key: row for key, row in self._ended.items() if key not in begun}
        names = {recording for _, recording in (*begun, *ended)}
        if not self._ends_wait:  # a commit that fails is not tried again
            self._ended = {}
        if not names:
            return
        delta, there = self._target(Lineage), self.files(Lineage, names)
        rows = self.rows_of(Lineage, there).to_pylist()
        is_known = any((row["step"], row["recording"]) in begun for row in rows)
        late = datetime.now(UTC) - _ENDS_WAIT_MAX
        waits = begun and self._ends_wait and not is_known
        waiting = ended if waits and all(r["began_at"] > late for r in ended.values()) else {}
        epochs = {key: self.written[key] for key in ended if key not in waiting}
        change = commits.Change()
        if epochs or is_known:
            rows = [r for r in rows if (r["step"], r["recording"]) not in {**begun, **epochs}]
            rows += [ended[key] for key in epochs]
            files = TableFiles(self.path, commits.file_name(max({**begun, **epochs}.values())))
            added = _written(files, {Lineage: pa.Table.from_pylist(rows, Lineage.arrow_schema)})
            change = commits.Change(added, there)
        commits.commit(delta, change, begun, epochs)
        self._ended = dict(waiting)


@dataclass(frozen=True)
class Writing:
    """One attempt to write the tables of a step; ``epochs`` by recording (see ``commits``).

    ``begin`` takes the step's rows out of ``lineage``, ``end`` puts what they now follow from
    there: a crash in between leaves none.
    """

    warehouse: Warehouse
    step: str
    epochs: Mapping[str, int]
    began_at: datetime = field(default_factory=partial(datetime.now, UTC))

    def files(self) -> TableFiles:
        """Returns the files to write rows to, on the driver or in a task: a plain value."""
        return TableFiles(self.warehouse.path, commits.file_name(max(self.epochs.values())))

    def begin(self, since: Mapping[Table, Mapping[str, int]] | None = None) -> None:
        """Deletes the step's lineage row first, so a crash leaves no stale one.

        ``since``: epochs, by recording, of tables that the rows were made of. Raises
        WriteConflictError where another attempt has written one of them in a later epoch.
        """
        for table, epochs in (since or {}).items():
            now = self.warehouse.epochs(table, self.step, epochs)
            for name in (name for name, epoch in epochs.items() if now[name] != epoch):
                raise commits.conflict(self.step, name)
        self.warehouse._commit_lineage(self._keyed(self.epochs))

    def replace(self, table: Table, added: Sequence[DataFile]) -> None:
        self._commit(table, added, self.warehouse.files(table, self.epochs))

    def append(self, table: Table, added: Sequence[DataFile], since: Mapping[str, int]) -> None:
        """Adds files, and takes out those of epochs after ``since``, by recording.

        Those a killed attempt has left, or one that this attempt has overtaken.
        """
        there = self.warehouse.files(table, since)
        left = [
            file
            for name, epoch in since.items()
            for file in commits.of_epochs_after(there, epoch)
            if file["partition.recording"] == name
        ]
        self._commit(table, added, left)

    def replace_states(self, added: Sequence[DataFile] = (), again: bool = False) -> None:
        """Replaces a rule's states; without any, it has none."""
        there = self.warehouse.files(ReplayState, self.epochs)
        removed = [file for file in there if file["min.rule"] == file["max.rule"] == self.step]
        self._commit(ReplayState, added, removed, again)

    def replace_rows(
        self, table: Table, rows: pa.Table, where: Mapping[str, Collection[str]]
    ) -> None:
        """Replaces the rows of a small table that ``where`` names, by column.

        All of the recordings' other rows stay, in a file of their own for each recording.
        """
        removed = self.warehouse.files(table, self.epochs)
        there = self.warehouse.rows_of(table, removed)
        named = [
            pc.is_in(there.column(name), pa.array([*values])) for name, values in where.items()
        ]
        kept = there.filter(pc.invert(reduce(pc.and_, named)))
        added = _written(self.files(), {table: pa.concat_tables([kept, rows])})
        self._commit(table, added, removed)

    def end(self, follows_from: Mapping[str, str]) -> None:
        """The last write: what the step's rows follow from, by recording."""
        to = self.warehouse
        for name, text in follows_from.items():
            to.written[self.step, name] = self.epochs[name]
            to._ended[self.step, name] = {
                "recording": name,
                "step": self.step,
                "follows_from": text,
                "began_at": self.began_at,
                "committed_at": datetime.now(UTC),
                **_NOTHING_ADDED,
                **to._added.pop((self.step, name), {}),
            }
        if not to._ends_wait:
            to._commit_lineage({})

    def _keyed(self, epochs: Mapping[str, int]) -> commits.Epochs:
        return {(self.step, name): epoch for name, epoch in epochs.items()}

    def _commit(
        self,
        table: Table,
        written: Sequence[DataFile],
        removed: Sequence[Mapping[str, Any]],
        again: bool = False,
    ) -> None:
        """Where there is nothing to do, nothing is committed, and no table made."""
        parts = [file for file in written if file.table == table.name]
        if not (parts or removed):
            return
        mine = self._keyed(self.epochs)
        commits.require_own(self.warehouse.open(Lineage), mine)
        change = commits.Change(merged(self.files(), table, parts), removed)
        # The version that the change was made of.
        delta = self.warehouse._opened.get(table.name) or self.warehouse._target(table)
        commits.commit(delta, change, *(({}, mine) if again else (mine, {})))
        progress.wrote(sum(file.rows for file in change.added))
        for file in change.added:
            self.warehouse._added[self.step, file.recording].update(
                files_written=1, rows_written=file.rows, bytes_written=file.size_bytes
            )


# --- paths ----------------------------------------------------------------------------------------


def require_named(warehouse_path: str) -> None:
    """Raises UserError for a path or URI that would be read as another one."""
    place = place_of(warehouse_path)
    # Links stay.
    whole = os.path.abspath(place) if isinstance(place, Path) else str(place)  # noqa: PTH100
    misread = _MISREAD.search(whole)
    if misread:
        raise UserError(
            f"the warehouse {warehouse_path!r} has {misread[0]!r} in its path, which Delta "
            "Lake or Spark reads as something else: name another folder with --warehouse"
        )


def require_writable(warehouse_path: str) -> None:
    """Raises UserError unless a local warehouse, which may not be there yet, can be written to."""
    require_named(warehouse_path)
    place = place_of(warehouse_path)
    if not isinstance(place, Path):
        if not place_of(place.anchor).exists():
            raise UserError(f"there is no {place.anchor} for the warehouse: correct it, or make it")
        return
    try:
        there = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
        with TemporaryFile(dir=there) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
    except OSError as error:
        raise UserError(
            f"the warehouse {warehouse_path} cannot be written to ({error.strerror}): correct its "
            "rights, or name another folder with --warehouse"
        ) from error
    for folder in (place / name / inner for name in TABLES for inner in ("", "_delta_log")):
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise UserError(
                f"{folder} of the warehouse cannot be written to: correct its rights, or name "
                "another folder with --warehouse"
            )


def are_small(files: Iterable[Mapping[str, Any]]) -> bool:
    """Says whether files of a table have few bytes: they are read once and held by their reader."""
    return bool(sum(file["size_bytes"] for file in files) <= _SMALL_BYTES)


@cache
def _no(table: Table) -> pa.Table:
    return table.arrow_schema.empty_table()


def _ordered(table: Table, rows: pa.Table) -> pa.Table:
    rows = rows.select(table.arrow_schema.names).cast(table.arrow_schema)
    return rows.sort_by([(name, "ascending") for name in table.key])


def _written(files: TableFiles, rows: Mapping[Table, pa.Table]) -> list[DataFile]:
    """Writes rows to files, which no table knows of yet."""
    for table, of_table in rows.items():
        for batch in of_table.to_batches():
            files.write(table, batch)
    return files.closed()


def fetched(
    session: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, Any] | None = None
) -> pa.Table:
    """The few rows of a query: to bind it first, as relations do, takes longer than a copy."""
    with catch_warnings(action="ignore", category=UserWarning):
        return session.execute(query, values).to_arrow_table()


def sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def made_anew(table: Table, path: str, is_sound: bool = False) -> str:
    """Ends a sentence with how a table whose rows cannot be used is made again."""
    if table in LOG_TABLES:
        return (
            f"delete the folder of this warehouse, {path.rpartition('/')[0]}, or name another with "
            "--warehouse, and run kip-replay run on the recordings, which reads the logs anew"
        )
    removed = "" if is_sound else f"remove the folder {path} and "
    return (
        f"{removed}run kip-replay run --rebuild on every recording in the warehouse, which writes "
        "it anew"
    )


def _difference(delta: DeltaTable, table: Table) -> str | None:
    """Names what keeps a table from being read: no column that one side lacks and may be null."""
    there, wanted = (
        {(field.name, str(field.type), field.nullable) for field in schema.fields}
        for schema in (delta.schema(), Schema.from_arrow(table.arrow_schema))
    )
    names = Counter(name for name, _, _ in there ^ wanted)
    may_lack = {name for name, _, nullable in there ^ wanted if nullable and names[name] == 1}
    if columns := sorted(names.keys() - may_lack):
        return f"differs in {', '.join(columns[:3])}{', ...' if columns[3:] else ''}"
    is_same = tuple(delta.metadata().partition_columns) == table.partitioned_by
    return None if is_same else "is partitioned otherwise"


def _require_schema(delta: DeltaTable, table: Table, uri: str) -> None:
    if difference := _difference(delta, table):
        made_by = (delta.metadata().name or "").removeprefix(commits.MADE_BY) or "before 0.4.0"
        raise UserError(
            f"kip-replay {made_by} made the table {table.name}, and that of {VERSION} {difference}"
            f": {made_anew(table, uri, is_sound=True)}"
        )
