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
from functools import partial, reduce
from operator import and_
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable, Schema

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.storage import filesystem_of, place_of
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.log_tables import LOG_TABLES
from kip_replay.replay.table import AT, Table
from kip_replay.replay.tables import LINEAGE, REPLAY_STATE, TABLES, VERSION

#: delta-rs takes a path for a URI: it decodes %41, reads \\ as / and takes no control character.
#: Spark takes one for a pattern.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f\ud800-\udfff]|[][{}*?]")
#: A disk that takes no more takes no file of this size: a block.
_PROBE_BYTES = 1 << 12
#: Tables of what was logged or replayed, by arrival.
_ARRIVALS = ("received_at", "recorded_received_at")
_NOTHING_ADDED = {"files_written": 0, "rows_written": 0, "bytes_written": 0}
#: What a request led to is seen from so much later on than requests, or its own would be missing.
EDGE = timedelta(seconds=10)


class Warehouse:
    """The Delta tables under ``path``, which the first write creates."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(place_of(path).absolute())
        self._opened: dict[str, DeltaTable] = {}
        #: Versions of tables that were read last, as Arrow datasets.
        self._datasets: dict[str, tuple[int, ds.FileSystemDataset]] = {}
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
        found = copy(self)
        found.recent, found._whole = dict(moments), whole
        return found

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
        """The table's current version. Raises UserError if it is not there, or not this table."""
        if table is LINEAGE:
            self._commit_lineage({})
        return self._current(table)

    def _current(self, table: Table) -> DeltaTable:
        """As ``open``; of ``lineage``, without what waits. Only commits made since are read."""
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
        seen_from, last = self.seen_from(table), f"max.{table.time}"
        files = commits.files_of(self.open(table), recordings) if self.exists(table) else []
        of = ((file, seen_from.get(file["partition.recording"])) for file in files)
        return [file for file, at in of if at is None or file.get(last) is None or file[last] >= at]

    def rows(self, table: Table, recordings: Collection[str]) -> pa.Table:
        return self._rows(self.open(table), table, recordings) if self.exists(table) else _no(table)

    def rows_and_epochs(
        self, table: Table, recordings: Collection[str], step: str
    ) -> tuple[pa.Table, dict[str, int]]:
        if not self.exists(table):
            return _no(table), dict.fromkeys(recordings, 0)
        delta = self.open(table)
        epochs = {name: commits.epoch_in(delta, step, name) for name in recordings}
        return self._rows(delta, table, recordings), epochs

    def _rows(self, delta: DeltaTable, table: Table, recordings: Collection[str]) -> pa.Table:
        chosen = pc.field("recording").isin(pa.array([*recordings], pa.string()))
        chosen = reduce(and_, self._is_seen(table), chosen)
        rows = self._dataset(delta, table).to_table(filter=chosen)
        return rows.select(table.arrow_schema.names)

    def database(self, recordings: Collection[str]) -> duckdb.DuckDBPyConnection:
        """A DuckDB session with each table, of which it has only the rows of ``recordings``."""
        connection = duckdb.connect(config={"temp_directory": str(run_folder() / "duckdb")})
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        self.register(connection, recordings, TABLES.values())
        return connection

    def register(
        self,
        session: duckdb.DuckDBPyConnection,
        recordings: Collection[str],
        tables: Iterable[Table],
    ) -> None:
        """Makes tables known to a DuckDB session: the rows of some recordings."""
        for table in tables:
            of_recordings = self.dataset(table, recordings=recordings)
            if not (seen_from := self.seen_from(table)):
                session.register(table.name, of_recordings)
                continue
            session.register(f"_{table.name}", of_recordings)
            seen = " AND ".join(
                f"(recording <> {sql_text(name)} OR {table.time} >= TIMESTAMPTZ '{moment}')"
                for name, moment in seen_from.items()
            )
            session.execute(f"CREATE TEMP VIEW {table.name} AS FROM _{table.name} WHERE {seen}")

    def dataset(
        self,
        table: Table,
        paths: Collection[str] | None = None,
        recordings: Collection[str] | None = None,
    ) -> Any:
        """All rows of a table, or those of some of its files or recordings, for Arrow or DuckDB."""
        if not self.exists(table):
            return _no(table)
        found = self._dataset(self.open(table), table)
        conditions = self._is_seen(table)
        if recordings is not None:
            conditions.append(pc.field("recording").isin(pa.array([*recordings], pa.string())))
        chosen = reduce(and_, conditions) if conditions else None
        files = [
            file for file in found.get_fragments(chosen) if paths is None or file.path in paths
        ]
        return ds.FileSystemDataset(files, found.schema, found.format, found.filesystem)

    def _dataset(self, delta: DeltaTable, table: Table) -> ds.FileSystemDataset:
        version, found = self._datasets.get(table.name, (-1, None))
        if version != delta.version():
            found = commits.dataset(delta, self.uri_of(table))
            self._datasets[table.name] = delta.version(), found
        return found

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

    def create_missing(self, tables: Iterable[Table]) -> None:
        """Makes the tables that are not there, empty. Raises UserError for one that is another."""
        for table in tables:
            if self.exists(table):
                self._current(table)
            else:
                self._opened[table.name] = commits.create(self.uri_of(table), table)

    def writing(
        self, step: str, recordings: Collection[str], tables: Collection[Table]
    ) -> "Writing":
        assert not self.recent, "rows that are not seen would be lost"
        self.create_missing([*tables, LINEAGE])
        last = [
            commits.epoch_in(delta, step, name)
            for delta in map(self._current, (*tables, LINEAGE))
            for name in recordings
        ]
        return Writing(self, step, dict.fromkeys(recordings, max(last, default=0) + 1))

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
        rows = [row for row in self._ended.values() if row["recording"] in recordings]
        if self.exists(LINEAGE):
            rows = [*self._rows(self._current(LINEAGE), LINEAGE, recordings).to_pylist(), *rows]
        return {(row["recording"], row["step"]): row["follows_from"] for row in rows}

    @contextmanager
    def ends_waiting(self, wait: bool = True) -> Iterator[None]:
        """Commits the end of a step with the beginning of the next, and the last one at the end."""
        self._ends_wait = wait
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
        self.create_missing([*rows, LINEAGE])
        delta = self._current(LINEAGE)
        epochs = {name: commits.epoch_in(delta, step, name) for name in follows_from}
        there = self._rows(delta, LINEAGE, follows_from).filter(pc.field("step") == step)
        stays = len(there) == len(follows_from) and all(
            _ordered(table, self.rows(table, follows_from)).equals(_ordered(table, of_table))
            for table, of_table in rows.items()
        )
        if stays:
            Writing(self, step, epochs).end(follows_from)
        return stays

    def _commit_lineage(self, begun: commits.Epochs) -> None:
        """Takes rows of steps that begin out of lineage, and puts those that have ended there."""
        ended = {key: row for key, row in self._ended.items() if key not in begun}
        if not self._ends_wait:  # a commit that fails is not tried again
            self._ended.clear()
        epochs = {**begun, **{key: self.written[key] for key in ended}}
        if epochs:
            delta, names = self._current(LINEAGE), {recording for _, recording in epochs}
            there = self._rows(delta, LINEAGE, names).to_pylist()
            rows = [row for row in there if (row["step"], row["recording"]) not in epochs]
            rows += ended.values()
            files = TableFiles(self.path, commits.file_name(max(epochs.values())))
            added = _written(files, {LINEAGE: pa.Table.from_pylist(rows, LINEAGE.arrow_schema)})
            change = commits.Change(added, commits.files_of(delta, names))
            commits.commit(delta, change, begun, {key: epochs[key] for key in ended})
        self._ended.clear()


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
            commits.require_own(self.warehouse._current(table), self._keyed(epochs))
        self.warehouse._commit_lineage(self._keyed(self.epochs))

    def replace(self, table: Table, added: Sequence[DataFile]) -> None:
        delta = self.warehouse.open(table)
        removed = commits.files_of(delta, self.epochs)
        self._commit(table, delta, commits.Change(_of(table, added), removed))

    def append(self, table: Table, added: Sequence[DataFile], since: Mapping[str, int]) -> None:
        """Adds files, and takes out those of epochs after ``since``, by recording.

        Those a killed attempt has left, or one that this attempt has overtaken. Where there is
        nothing to do, nothing is committed.
        """
        delta = self.warehouse.open(table)
        there = commits.files_of(delta, since)
        left = [
            file
            for name, epoch in since.items()
            for file in commits.of_epochs_after(there, epoch)
            if file["partition.recording"] == name
        ]
        change = commits.Change(_of(table, added), left)
        if change.added or change.removed:
            self._commit(table, delta, change)

    def replace_states(self, added: Sequence[DataFile] = (), again: bool = False) -> None:
        """Replaces a rule's states; without any, it has none."""
        delta = self.warehouse.open(REPLAY_STATE)
        there = commits.files_of(delta, self.epochs)
        removed = [file for file in there if file["min.rule"] == file["max.rule"] == self.step]
        self._commit(REPLAY_STATE, delta, commits.Change(_of(REPLAY_STATE, added), removed), again)

    def replace_rows(
        self, table: Table, rows: pa.Table, where: Mapping[str, Collection[str]]
    ) -> None:
        """Replaces the rows of a small table that ``where`` names, by column.

        All of the recordings' other rows stay, in a file of their own for each recording.
        """
        delta = self.warehouse.open(table)
        named = reduce(and_, (pc.field(name).isin([*of]) for name, of in where.items()))
        kept = self.warehouse._rows(delta, table, self.epochs).filter(~named)
        added = _written(self.files(), {table: pa.concat_tables([kept, rows])})
        self._commit(table, delta, commits.Change(added, commits.files_of(delta, self.epochs)))

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
        self, table: Table, delta: DeltaTable, change: commits.Change, again: bool = False
    ) -> None:
        mine = self._keyed(self.epochs)
        commits.require_own(self.warehouse._current(LINEAGE), mine)
        commits.commit(delta, change, *(({}, mine) if again else (mine, {})))
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


def _of(table: Table, files: Iterable[DataFile]) -> list[DataFile]:
    return [file for file in files if file.table == table.name]


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
    there, wanted = (
        {(field.name, str(field.type), field.nullable) for field in schema.fields}
        for schema in (delta.schema(), Schema.from_arrow(table.arrow_schema))
    )
    if columns := sorted({name for name, _, _ in there ^ wanted}):
        return f"differs in {', '.join(columns[:3])}{', ...' if columns[3:] else ''}"
    is_same = tuple(delta.metadata().partition_columns) == table.partitioned_by
    return None if is_same else "is partitioned otherwise"


def _require_schema(delta: DeltaTable, table: Table, uri: str) -> None:
    if difference := _difference(delta, table):
        other = delta.metadata().configuration.get(commits.MADE_BY, "before 0.2.0")
        raise UserError(
            f"kip-replay {other} made the table {table.name}, and that of {VERSION} {difference}: "
            f"{made_anew(table, uri, is_sound=True)}"
        )
