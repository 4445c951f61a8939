"""The engine without Java: tasks in processes of this machine, texts in DuckDB."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import get_context
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from kip_replay.pipelines import progress
from kip_replay.pipelines.engines import (
    NO_INPUTS,
    In,
    Inputs,
    Out,
    ParquetFiles,
    TableSlice,
    Work,
    tables_of,
)
from kip_replay.pipelines.engines.text import MACROS, Text
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.storage import filesystem_of, is_uri
from kip_replay.pipelines.warehouse.commits import CHECKED
from kip_replay.pipelines.warehouse.tables import Warehouse, sql_text

#: Rows of a batch that work is fed: a row may be a FETCH of 100,000 partitions.
BATCH_ROWS = 2048


@dataclass(frozen=True)
class Local:
    warehouse: Warehouse
    cores = os.cpu_count() or 1

    def of(self, warehouse: Warehouse) -> Self:
        return replace(self, warehouse=warehouse)

    def run(self, work: Callable[[In], Out], parts: Sequence[In]) -> list[Out]:
        # For a single part, a process would take longer to start than to work.
        if len(parts) <= 1:
            return [work(part) for part in parts]
        # Spawned: threads of Arrow and DuckDB do not survive a fork.
        with ProcessPoolExecutor(min(self.cores, len(parts)), get_context("spawn")) as pool:
            results: list[Out] = []
            progress.watch(lambda: (len(results), len(parts)))
            results.extend(pool.map(work, parts))
            progress.watch(None)
            return results

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = NO_INPUTS) -> pa.Table:
        with self._session(text, recordings, inputs) as session:
            return session.sql(text.sql).to_arrow_table()

    def feed(
        self,
        work: Work[Out],
        text: Text,
        recordings: Collection[str],
        key: Sequence[str],
        order: Sequence[str] = (),
        inputs: Inputs = NO_INPUTS,
        is_light: bool = False,
    ) -> list[Out]:
        with self._session(text, recordings, inputs) as session:
            ordered = f"SELECT * FROM ({text.sql}) ORDER BY {', '.join((*key, *order))}"
            return [work(iter(session.sql(ordered).to_arrow_reader(BATCH_ROWS)))]

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        """Nothing but macros: what a text reads is known to its session alone."""
        database = duckdb.connect(config={"temp_directory": str(run_folder() / "duckdb")})
        database.execute("SET GLOBAL TimeZone = 'UTC'")
        for macro in MACROS:
            database.execute(f"CREATE MACRO {macro}")
        return database

    @contextmanager
    def _session(
        self, text: Text, recordings: Collection[str], inputs: Inputs
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A session with the macros of a text, and the tables and inputs that it reads."""
        with self._database.cursor() as session:
            self.warehouse.register(session, recordings, tables_of(text, inputs))
            for name, given in inputs.items():
                if isinstance(given, ParquetFiles) and given.paths and not is_uri(given.paths[0]):
                    paths = ", ".join(map(sql_text, given.paths))
                    files = f"read_parquet([{paths}], filename = true)"
                    session.execute(f"CREATE TEMP VIEW {name} AS FROM {files}")
                    continue
                if isinstance(given, ParquetFiles):
                    given = _of_store(given)
                if isinstance(given, TableSlice):
                    named = {file["path"] for file in given.files}
                    given = self.warehouse.dataset(given.table, named)
                session.register(name, given)
            for macro in text.macros.values():
                session.execute(macro[0])
            yield session


def _of_store(given: ParquetFiles) -> "pa.Table | ds.Scanner":
    """Files of a store, which DuckDB would need an extension for; no rows without any."""
    if not given.paths:
        return given.row_schema.empty_table()
    filesystem = filesystem_of(given.paths[0])[0]
    paths = [filesystem_of(path)[1] for path in given.paths]
    files = ds.dataset(paths, given.schema, ds.ParquetFileFormat(CHECKED), filesystem)
    columns = {name: ds.field(name) for name in given.schema.names}
    return files.scanner(columns | {"filename": ds.field("__filename")})
