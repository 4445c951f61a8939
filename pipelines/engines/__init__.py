"""Engines: what runs tasks, and texts of SQL on the tables of a warehouse.

Two engines give the same rows. ``local`` runs tasks in processes of this machine and texts in
DuckDB: no Java. ``spark`` runs both on Spark, so that the driver never holds what grows with a log.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import pyarrow as pa

from kip_replay.pipelines import progress
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

In = TypeVar("In")
Out = TypeVar("Out")

#: What takes the rows of a text where they are, and returns a value that can be pickled.
Work: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Out]


@dataclass(frozen=True)
class ParquetFiles:
    """Files that no table names (yet), as something that a text reads; ``size_bytes`` in all.

    Its rows have the columns of ``schema``, and ``filename``.
    """

    paths: Sequence[str]
    schema: pa.Schema
    size_bytes: int

    @property
    def row_schema(self) -> pa.Schema:
        return self.schema.append(pa.field("filename", pa.string()))


@dataclass(frozen=True)
class TableSlice:
    """Some files of a table, as ``Warehouse.files`` names them, for a text to read in its place."""

    table: Table
    files: Sequence[Mapping[str, Any]]

    @property
    def size_bytes(self) -> int:
        return sum(file["size_bytes"] for file in self.files)


#: What a text reads beside the tables of the warehouse, or in place of one, by name.
Inputs: TypeAlias = Mapping[str, "pa.Table | ParquetFiles | TableSlice"]
NO_INPUTS: Inputs = MappingProxyType({})


def tables_of(text: Text, inputs: Inputs) -> list[Table]:
    """The tables of the warehouse that a text reads, by name: not those that are given instead."""
    return [TABLES[name] for name in sorted(text.names & TABLES.keys() - inputs.keys())]


@dataclass(frozen=True, kw_only=True)
class Feed(Generic[Out]):
    """A text whose rows go to work, each key's together and in order; a result a partition.

    ``spread``: a number in SQL, of columns of the key: rows for which it is the same modulo any
    number are one partition's. Empty: all are. ``is_light``: of a small text the driver may do the
    work.
    """

    work: Work[Out]
    text: Text
    recordings: Collection[str]
    key: Sequence[str]
    order: Sequence[str] = ()
    inputs: Inputs = field(default_factory=dict)
    spread: str = ""
    is_light: bool = False


#: A step that yields its feeds, and goes on with their results.
Feeding: TypeAlias = Generator[Feed[Any], Any, Out]


class Steps(NamedTuple):
    """Steps by name, and about how many log lines they read (``requests``).

    ``after``: of some, the names of those that they follow.
    """

    by_name: Mapping[str, Feeding[Any]]
    requests: int
    after: Mapping[str, Collection[str]] = MappingProxyType({})


def bytes_of(warehouse: Warehouse, text: Text, recordings: Collection[str], inputs: Inputs) -> int:
    """Sums the bytes of the files that a text reads."""
    sized = (part for part in inputs.values() if not isinstance(part, pa.Table))
    size = sum(part.size_bytes for part in sized)
    for table in tables_of(text, inputs):
        size += sum(file["size_bytes"] for file in warehouse.files(table, recordings))
    return size


class Engine(Protocol):
    """Three verbs on a warehouse: run tasks, fetch what a text gives, or feed it to work."""

    @property
    def warehouse(self) -> Warehouse:
        """Returns the warehouse whose tables texts read."""

    @property
    def cores(self) -> int:
        """Counts the tasks that run at once."""

    def on(self, warehouse: Warehouse) -> Self:
        """Returns this engine on another warehouse, or on what is recent in its own."""

    def run(self, work: Callable[[In], Out], parts: Sequence[In]) -> list[Out]:
        """Calls ``work`` on each part, where there is room; results in the order of the parts."""

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = NO_INPUTS) -> pa.Table:
        """The rows of a text on the tables of some recordings: no more than the driver can hold."""

    def feed(self, feed: Feed[Out]) -> list[Out]:
        """Feeds a text's rows to work; a result a partition."""

    def beside(self, steps: Steps) -> dict[str, Any]:
        """Runs steps beside each other where that is worth it; what each returns, by name."""


def in_turn(engine: Engine, steps: Steps) -> dict[str, Any]:
    """Runs steps one after the other; what each returns, by name."""
    progress.tasks(len(steps.by_name))
    returned = {name: _run(engine, name, step) for name, step in steps.by_name.items()}
    progress.running("")
    return returned


def _run(engine: Engine, name: str, step: Feeding[Out]) -> Out:
    progress.running(name)
    results: Any = None  # as the first that a generator is sent
    while True:
        try:
            feed = step.send(results)
        except StopIteration as ended:
            progress.done()
            returned: Out = ended.value
            return returned
        results = engine.feed(feed)
