"""The engine without Java: tasks in processes of this machine, texts in DuckDB."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

import duckdb
import pyarrow as pa

from kip_replay.pipelines import progress
from kip_replay.pipelines.engines import NO_INPUTS, In, Inputs, Out, ParquetFiles, Work
from kip_replay.pipelines.engines.text import MACROS, Text
from kip_replay.pipelines.warehouse.tables import Warehouse, sql_text
from kip_replay.replay.tables import TABLES

#: Rows of a batch that work is fed: a row may be a FETCH of 100,000 partitions.
_BATCH_ROWS = 2048


@dataclass(frozen=True)
class Local:
    """Runs on this machine alone."""

    warehouse: Warehouse
    name = "local"
    cores = os.cpu_count() or 1

    def run(self, work: Callable[[In], Out], parts: Sequence[In]) -> list[Out]:
        # For a single part, a process would take longer to start than to work.
        if len(parts) <= 1:
            return [work(part) for part in parts]
        # Spawned: threads of Arrow and DuckDB do not survive a fork.
        with ProcessPoolExecutor(min(self.cores, len(parts)), get_context("spawn")) as pool:
            results: list[Out] = []
            progress.watch(lambda: (len(results), len(parts)))
            results.extend(pool.map(work, parts))
            return results

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = NO_INPUTS) -> pa.Table:
        with _session(self.warehouse, text, recordings, inputs) as database:
            return database.sql(text.sql).to_arrow_table()

    def feed(
        self,
        work: Work[Out],
        text: Text,
        recordings: Collection[str],
        key: Sequence[str],
        order: Sequence[str] = (),
        inputs: Inputs = NO_INPUTS,
    ) -> list[Out]:
        with _session(self.warehouse, text, recordings, inputs) as database:
            ordered = f"SELECT * FROM ({text.sql}) ORDER BY {', '.join((*key, *order))}"
            return [work(iter(database.sql(ordered).to_arrow_reader(_BATCH_ROWS)))]


@contextmanager
def _session(
    warehouse: Warehouse, text: Text, recordings: Collection[str], inputs: Inputs
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB session with the macros of a text, and the tables and inputs that it reads."""
    tables = [TABLES[name] for name in sorted(text.names & TABLES.keys() - inputs.keys())]
    with warehouse.database(recordings, tables) as database:
        for name, given in inputs.items():
            if isinstance(given, pa.Table):
                database.register(name, given)
            elif given.paths:
                paths = ", ".join(map(sql_text, given.paths))
                database.execute(
                    f"CREATE VIEW {name} AS FROM read_parquet([{paths}], filename = true)"
                )
            else:
                database.register(name, _no_files(given))
        for macro in (*(f"CREATE TEMP MACRO {each}" for each in MACROS), *text.macros):
            database.execute(macro)
        yield database


def _no_files(given: ParquetFiles) -> pa.Table:
    return given.schema.append(pa.field("filename", pa.string())).empty_table()
