"""The engine without Java: tasks in processes of this machine, texts in DuckDB."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED as _FIRST
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing import active_children, get_context
from typing import Any, Self

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from kip_replay.pipelines import progress, ready_worker
from kip_replay.pipelines.engines import (
    NO_INPUTS,
    Feed,
    Feeding,
    In,
    Inputs,
    Out,
    ParquetFiles,
    Steps,
    TableSlice,
    bytes_of,
    in_turn,
    tables_of,
)
from kip_replay.pipelines.engines.text import MACROS, Text
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.storage import filesystem_of, is_uri
from kip_replay.pipelines.warehouse.data_files import CHECKED
from kip_replay.pipelines.warehouse.tables import Warehouse, fetched, sql_text

#: Rows of a batch that work is fed: a row may be a FETCH of 100,000 partitions.
BATCH_ROWS = 2048
#: Steps on fewer log lines take less than processes take to start (about 40 MB of log).
_REQUESTS_MIN = 30_000
#: Of a process, what it takes before DuckDB holds anything.
_PROCESS_MB = 400
_MB = 1_000_000


def _cores() -> int:
    # macOS does not say which cores a process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory_mb() -> int:
    """Returns three quarters of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // (4 * _MB)


@dataclass(frozen=True)
class Local:
    """Runs on this machine, in as many processes as it has cores (``cores``) and ``memory_mb`` for.

    The memory is divided among them and the driver. It bounds what DuckDB holds, which then goes to
    disk; what a rule carries is bounded by its own window.
    """

    warehouse: Warehouse
    cores: int = field(default_factory=_cores)
    memory_mb: int = field(default_factory=_memory_mb)
    #: Where DuckDB spills rows to; empty: the folder of the run.
    folder: str = ""

    @property
    def processes(self) -> int:
        return max(1, min(self.cores, self.memory_mb // (2 * _PROCESS_MB) - 1))

    def on(self, warehouse: Warehouse) -> Self:
        return replace(self, warehouse=warehouse)

    def run(self, work: Callable[[In], Out], parts: Sequence[In]) -> list[Out]:
        # For a single part, a process would take longer to start than to work.
        if len(parts) <= 1 or self.processes == 1:
            return [work(part) for part in parts]
        tasks = [_pool(self.processes).submit(work, part) for part in parts]
        progress.tasks(len(tasks))
        for task in tasks:
            task.add_done_callback(lambda _: progress.done())
        with _ended_on_failure():
            return [task.result() for task in tasks]

    def beside(self, steps: Steps) -> dict[str, Any]:
        if self.processes == 1 or steps.requests < _REQUESTS_MIN:
            return in_turn(self, steps)
        _database.cache_clear()  # the memory that it keeps is that of the processes now
        with _ended_on_failure():
            returned = _Beside(self, dict(steps.by_name), steps.after).run()
        # They keep more than it takes to start others.
        _pool(self.processes).shutdown()
        _pool.cache_clear()
        return returned

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = NO_INPUTS) -> pa.Table:
        with self._session(text, recordings, inputs) as session:
            return fetched(session, text.sql)

    def feed(self, feed: Feed[Out]) -> list[Out]:
        return [self.fed(feed)]

    def fed(self, feed: Feed[Out], where: str = "true") -> Out:
        """Feeds rows of which a condition holds."""
        with self._session(feed.text, feed.recordings, feed.inputs) as session:
            order = ", ".join((*feed.key, *feed.order))
            ordered = f"SELECT * FROM ({feed.text.sql}) WHERE {where} ORDER BY {order}"
            return feed.work(iter(session.sql(ordered).to_arrow_reader(BATCH_ROWS)))

    @contextmanager
    def _session(
        self, text: Text, recordings: Collection[str], inputs: Inputs
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A session with the macros of a text, and the tables and inputs that it reads."""
        share_mb = max(self.memory_mb // (self.processes + 1) - _PROCESS_MB, _PROCESS_MB)
        folder = f"{self.folder or run_folder()}/duckdb-{os.getpid()}"
        with _database(folder, share_mb, self.cores).cursor() as session:
            self.warehouse.register(session, recordings, tables_of(text, inputs))
            for name, source in inputs.items():
                if (
                    isinstance(source, ParquetFiles)
                    and source.paths
                    and not is_uri(source.paths[0])
                ):
                    paths = ", ".join(map(sql_text, source.paths))
                    files = f"read_parquet([{paths}], filename = true)"
                    session.execute(f"CREATE TEMP VIEW {name} AS FROM {files}")
                    continue
                if isinstance(source, ParquetFiles):
                    source = _of_store(source)
                if isinstance(source, TableSlice):
                    self.warehouse.register_files(session, name, source.table, source.files)
                    continue
                session.register(name, source)
            for macro in text.macros.values():
                session.execute(macro[0])
            yield session


@cache
def _database(folder: str, memory_mb: int, threads: int) -> duckdb.DuckDBPyConnection:
    """Nothing but macros: what a text reads is known to its session alone."""
    database = duckdb.connect(config={"temp_directory": folder})
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    database.execute(f"SET memory_limit = '{memory_mb}MB'")
    database.execute(f"SET threads = {threads}")
    for macro in MACROS:
        database.execute(f"CREATE MACRO {macro}")
    return database


# --- tasks in processes --------------------------------------------------------------------------


@cache
def _pool(processes: int) -> ProcessPoolExecutor:
    """Processes that stay for all of a command, so that they start once.

    Spawned: threads of Arrow and DuckDB do not survive a fork.
    """
    return ProcessPoolExecutor(processes, get_context("spawn"), ready_worker)


@contextmanager
def _ended_on_failure() -> Iterator[None]:
    """Ends all processes where one has failed, or the driver is interrupted."""
    try:
        yield
    except BaseException:
        for process in active_children():
            process.terminate()
        _pool.cache_clear()
        raise


@dataclass
class _Beside:
    """Runs the feeds of steps in processes: first those that others follow, then the widest."""

    engine: Local
    waiting: dict[str, Feeding[Any]]
    after: Mapping[str, Collection[str]]
    running: dict[str, tuple[Feeding[Any], list[Future[Any]]]] = field(default_factory=dict)
    returned: dict[str, Any] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        progress.tasks(len(self.waiting))
        while self.waiting or self.running:
            ended = [
                name for name, (_, tasks) in self.running.items() if all(t.done() for t in tasks)
            ]
            ready = [(name, *self.running.pop(name)) for name in ended]
            ready += [
                (name, self.waiting.pop(name), [])
                for name in [*self.waiting]
                if {*self.after.get(name, ())} <= self.returned.keys()
            ]
            if ready:
                self._go_on(ready)
                progress.running(", ".join(self.running))
                continue  # what follows these may be ready now
            wait(
                [t for _, tasks in self.running.values() for t in tasks if not t.done()],
                None,
                _FIRST,
            )
        return self.returned

    def _go_on(self, ready: Sequence[tuple[str, Feeding[Any], list[Future[Any]]]]) -> None:
        """Gives steps the results of their feeds, if any, and starts their next ones."""
        feeds = []
        for name, step, tasks in ready:
            try:
                feeds.append((name, step, step.send([task.result() for task in tasks] or None)))
            except StopIteration as ended:
                self.returned[name] = ended.value
                progress.done()
        warehouse, processes = self.engine.warehouse, self.engine.processes
        sizes = {
            name: bytes_of(warehouse, feed.text, feed.recordings, feed.inputs)
            for name, _, feed in feeds
        }
        followed = {name for names in self.after.values() for name in names}
        feeds.sort(key=lambda feed: (feed[0] in followed, sizes[feed[0]]), reverse=True)
        # A warehouse that was opened can't be sent.
        there = Warehouse(warehouse.path)
        engine = replace(self.engine, warehouse=there, folder=str(run_folder()))
        for name, step, feed in feeds:
            count = processes if feed.spread else 1
            wheres = [f"({feed.spread}) % {count} = {n}" for n in range(count)]
            tasks = [
                _pool(processes).submit(engine.fed, feed, where)
                for where in (wheres if count > 1 else ["true"])
            ]
            self.running[name] = step, tasks


def _of_store(parquet: ParquetFiles) -> Any:
    """Files of a store, which DuckDB would need an extension for; no rows without any."""
    if not parquet.paths:
        return parquet.row_schema.empty_table()
    filesystem = filesystem_of(parquet.paths[0])[0]
    paths = [filesystem_of(path)[1] for path in parquet.paths]
    checked = ds.ParquetFileFormat(ds.ParquetFragmentScanOptions(**CHECKED))
    files = ds.dataset(paths, parquet.schema, checked, filesystem)
    columns = {name: ds.field(name) for name in parquet.schema.names}
    return files.scanner(columns | {"filename": ds.field("__filename")})
