"""The engine without Java: tasks in processes of this machine, texts in DuckDB."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

import duckdb
import pyarrow as pa

from kip_replay.pipelines.engines import Inputs, Task
from kip_replay.pipelines.engines.text import MACROS, Text
from kip_replay.pipelines.warehouse.data_files import DataFile
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

_In = TypeVar("_In")
_Out = TypeVar("_Out")
#: Rows of a batch that a task is fed: a row may be a FETCH of 100,000 partitions.
_BATCH_ROWS = 2048


class Local:
    """Runs on this machine alone."""

    name = "local"

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def run(self, work: Callable[[_In], _Out], parts: Sequence[_In]) -> list[_Out]:
        # For a single part, a process would take longer to start than to work.
        if len(parts) <= 1:
            return [work(part) for part in parts]
        workers = min(os.cpu_count() or 1, len(parts))
        # Spawned: threads of Arrow and DuckDB do not survive a fork.
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            return [*pool.map(work, parts)]

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = {}) -> pa.Table:
        with session(self.warehouse, text, recordings, inputs) as database:
            return database.sql(text.sql).to_arrow_table()

    def written(
        self,
        text: Text,
        recordings: Collection[str],
        task: Task,
        key: Sequence[str],
        order: Sequence[str] = (),
        inputs: Inputs = {},
    ) -> list[DataFile]:
        with session(self.warehouse, text, recordings, inputs) as database:
            ordered = f"SELECT * FROM ({text.sql}) ORDER BY {', '.join([*key, *order])}"
            task.take(iter(database.sql(ordered).to_arrow_reader(_BATCH_ROWS)))
        return task.files.closed()


@contextmanager
def session(
    warehouse: Warehouse, text: Text, recordings: Collection[str], inputs: Inputs
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB session with the macros of a text, and the tables and inputs that it reads."""
    tables = [TABLES[name] for name in sorted(text.names & TABLES.keys() - inputs.keys())]
    with warehouse.database(recordings, tables) as database:
        for name, table in inputs.items():
            database.register(name, table)
        for macro in (*(f"CREATE TEMP MACRO {each}" for each in MACROS), *text.macros):
            database.execute(macro)
        yield database
