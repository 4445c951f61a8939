"""Engines: what runs tasks, and texts of SQL on the tables of a warehouse.

Two engines give the same rows. ``local`` runs tasks in processes of this machine and texts in
DuckDB: no Java. ``spark`` runs both on Spark, so that the driver never holds what grows with a log.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.pipelines.warehouse.tables import Warehouse

_In = TypeVar("_In")
_Out = TypeVar("_Out")

#: Small tables that a text reads beside those of the warehouse, by name.
Inputs = Mapping[str, pa.Table]


class Task(Protocol):
    """Writes the rows that it takes, or what follows from them, where it runs."""

    files: TableFiles

    def take(self, batches: Iterator[pa.RecordBatch]) -> None: ...


class Engine(Protocol):
    """Three verbs on a warehouse: run tasks, fetch a small result of a text, feed one to a task."""

    name: str
    warehouse: Warehouse

    def run(self, work: Callable[[_In], _Out], parts: Sequence[_In]) -> list[_Out]:
        """Calls ``work`` on each part, where there is room; results in the order of the parts."""

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = {}) -> pa.Table:
        """The rows of a text on the tables of some recordings: as many as the driver can hold."""

    def written(
        self,
        text: Text,
        recordings: Collection[str],
        task: Task,
        key: Sequence[str],
        order: Sequence[str] = (),
        inputs: Inputs = {},
    ) -> list[DataFile]:
        """Feeds a text's rows to a task, each key's together and in order; the files it wrote."""


class Rows:
    """A task that writes the rows of a text as they are, to one table."""

    def __init__(self, files: TableFiles, table: Any) -> None:
        self.files, self._table = files, table

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        schema = self._table.arrow_schema
        for batch in batches:
            self.files.write(self._table, batch.select(schema.names).cast(schema))
