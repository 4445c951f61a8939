"""The warehouse: a folder, or a prefix of an object store, with a Delta table in each folder of it.

What is small is read as Arrow (``rows``) or by DuckDB (``database``); what grows with a log, by an
engine. All is written through ``Writing``, which is what ``commits`` does to the tables of a step.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.log_tables import LOG_TABLES, OBSERVATIONS
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LINEAGE, PREDICTION_ACCURACY, REPLAY_STATE, TABLES


class Warehouse:
    """The Delta tables under ``path``, which the first write creates."""

    def __init__(self, path: str | Path) -> None:
        is_uri = "://" in str(path)
        self.path = str(path).rstrip("/") if is_uri else str(Path(path).absolute())
        self._checked: set[str] = set()

    def uri_of(self, table: Table) -> str:
        return f"{self.path}/{table.name}"

    # --- reading ----------------------------------------------------------------------------------

    def exists(self, table: Table) -> bool:
        return commits.exists(self.uri_of(table))

    def open(self, table: Table) -> DeltaTable:
        """The table's current version. Raises UserError if it is not there, or not this table."""
        if not self.exists(table):
            raise UserError(
                f"there is no table {table.name} in the warehouse {self.path}: run kip-replay "
                "ingest or kip-replay run with this --warehouse first"
            )
        delta = DeltaTable(self.uri_of(table))
        if table.name not in self._checked:
            _require_schema(delta, table, self.uri_of(table))
            self._checked.add(table.name)
        return delta

    def files(
        self, table: Table, recordings: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        return commits.live_files(self.uri_of(table), recordings)

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
        rows = commits.dataset(delta, self.uri_of(table)).to_table(filter=chosen)
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
            session.register(f"_{table.name}", self.dataset(table))
            names = ", ".join(sql_text(name) for name in recordings) or "NULL"
            session.execute(
                f"CREATE TEMP VIEW {table.name} AS FROM _{table.name} WHERE recording IN ({names})"
            )

    def dataset(self, table: Table, paths: Collection[str] | None = None) -> Any:
        """All rows of a table, or those of some of its files, for Arrow or DuckDB to read."""
        if not self.exists(table):
            return _no(table)
        return commits.dataset(self.open(table), self.uri_of(table), paths)

    # --- writing ----------------------------------------------------------------------------------

    def create_missing(self, tables: Iterable[Table]) -> None:
        """Makes the tables that are not there, empty. Raises UserError for one that is another."""
        for table in tables:
            if not self.exists(table):
                commits.create(self.uri_of(table), table)
            self.open(table)

    def writing(
        self, step: str, recordings: Collection[str], tables: Collection[Table]
    ) -> "Writing":
        self.create_missing([*tables, LINEAGE])
        last = [
            commits.epoch_of(self.uri_of(table), step, name)
            for table in (*tables, LINEAGE)
            for name in recordings
        ]
        return Writing(self, step, dict.fromkeys(recordings, max(last, default=0) + 1), tables)

    def replace(
        self, step: str, follows_from: Mapping[str, str], rows: Mapping[Table, pa.Table]
    ) -> None:
        writing = self.writing(step, follows_from, rows)
        files = writing.files()
        for table, of_table in rows.items():
            for batch in of_table.to_batches():
                files.write(table, batch)
        written = files.closed()
        writing.begin()
        for table in rows:
            writing.replace(table, written)
        writing.end(follows_from)

    # --- lineage ----------------------------------------------------------------------------------

    def lineage(self, recordings: Collection[str]) -> dict[tuple[str, str], str]:
        """What the rows of each (recording, step) follow from; no entry where that is not known."""
        rows = self.rows(LINEAGE, recordings).to_pylist()
        return {(row["recording"], row["step"]): row["follows_from"] for row in rows}


@dataclass(frozen=True)
class Writing:
    """One attempt to write ``tables`` of a step; ``epochs`` by recording (see ``commits``).

    ``begin`` takes the step's rows out of ``lineage``, ``end`` puts what they now follow from
    there: a crash in between leaves none.
    """

    warehouse: Warehouse
    step: str
    epochs: Mapping[str, int]
    tables: Collection[Table]

    def files(self) -> TableFiles:
        """Where to write rows, on the driver or in a task: a plain value."""
        return TableFiles(self.warehouse.path, commits.file_name(max(self.epochs.values())))

    def begin(self, since: Mapping[Table, Mapping[str, int]] | None = None) -> None:
        """Deletes the step's lineage row first, so a crash leaves no stale one.

        ``since``: epochs, by recording, of tables that the rows were made of. Raises
        WriteConflictError where another attempt has written one of them in a later epoch.
        """
        for table, epochs in (since or {}).items():
            commits.require_own(self.warehouse.uri_of(table), self.step, epochs)
        self._state({}, again=False)

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
        removed = commits.of_step(commits.files_of(delta, self.epochs), REPLAY_STATE, self.step)
        self._commit(REPLAY_STATE, delta, commits.Change(_of(REPLAY_STATE, added), removed), again)

    def replace_rows(
        self,
        table: Table,
        rows: pa.Table,
        where: Mapping[str, Collection[str]],
        again: bool = False,
    ) -> None:
        """Replaces the rows of a small table that ``where`` names, by column.

        All of the recordings' other rows stay, in a file of their own for each recording.
        """
        delta = self.warehouse.open(table)
        there = self.warehouse._rows(delta, table, self.epochs)
        named = [pc.is_in(there.column(name), pa.array([*of])) for name, of in where.items()]
        there = there.filter(pc.invert(reduce(pc.and_, named)))
        files = self.files()
        for name in self.epochs:
            for part in (there, rows.select(there.column_names).cast(there.schema)):
                mine = part.filter(pc.equal(part.column("recording"), name))
                for batch in mine.to_batches():
                    files.write(table, batch)
        removed = commits.files_of(delta, self.epochs)
        self._commit(table, delta, commits.Change(_of(table, files.closed()), removed), again)

    def end(self, follows_from: Mapping[str, str]) -> None:
        """The last write: what the step's rows follow from, by recording, and how many they are."""
        self._state(follows_from, again=True)

    def _rows_in(self, recording: str) -> list[dict[str, Any]]:
        """Rows of a recording in the step's tables, but those that others write too."""
        found = []
        for table in self.tables:
            if table is not PREDICTION_ACCURACY:
                files = self.warehouse.files(table, [recording])
                rows = commits.rows_of_step(files, table, self.step)
                found.append({"table_name": table.name, "rows": rows})
        return found

    def _state(self, follows_from: Mapping[str, str], again: bool) -> None:
        now = datetime.now(UTC)
        rows = pa.Table.from_pylist(
            [
                {
                    "recording": name,
                    "step": self.step,
                    "follows_from": text,
                    "committed_at": now,
                    "row_counts": self._rows_in(name),
                }
                for name, text in follows_from.items()
            ],
            schema=LINEAGE.arrow_schema,
        )
        self.replace_rows(LINEAGE, rows, {"step": [self.step]}, again)

    def _commit(
        self, table: Table, delta: DeltaTable, change: commits.Change, again: bool = False
    ) -> None:
        if table is not LINEAGE:
            lineage = self.warehouse.uri_of(LINEAGE)
            commits.require_own(lineage, self.step, self.epochs)
        commits.commit(delta, change, self.step, self.epochs, again)


def _no(table: Table) -> pa.Table:
    return table.arrow_schema.empty_table()


def _of(table: Table, files: Iterable[DataFile]) -> list[DataFile]:
    return [file for file in files if file.table == table.name]


def sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def made_anew(table: Table, path: str) -> str:
    """How a table whose rows cannot be used is made again, as the end of a sentence."""
    if table in (*LOG_TABLES, *OBSERVATIONS):
        return (
            "run kip-replay run on the recordings with another --warehouse, which reads the logs "
            "anew"
        )
    return (
        f"remove the folder {path} and run kip-replay run --rebuild on every recording in the "
        "warehouse, which writes it anew"
    )


def _require_schema(delta: DeltaTable, table: Table, uri: str) -> None:
    there, wanted = (
        {(field.name, str(field.type), field.nullable) for field in schema.fields}
        for schema in (delta.schema(), Schema.from_arrow(table.arrow_schema))
    )
    columns = sorted({name for name, _, _ in there ^ wanted})
    if columns or tuple(delta.metadata().partition_columns) != table.partitioned_by:
        differs = f"differs in {', '.join(columns)}" if columns else "is partitioned otherwise"
        raise UserError(
            f"another version of this program made the table {table.name}, which {differs}: "
            f"{made_anew(table, uri)}"
        )
