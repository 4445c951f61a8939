"""Engines: what runs tasks, and texts of SQL on the tables of a warehouse.

Two engines give the same rows. ``local`` runs tasks in processes of this machine and texts in
DuckDB: no Java. ``spark`` runs both on Spark, so that the driver never holds what grows with a log.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import pyarrow as pa

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


class Engine(Protocol):
    """Three verbs on a warehouse: run tasks, fetch what a text gives, or feed it to work."""

    @property
    def warehouse(self) -> Warehouse:
        """Returns the warehouse whose tables texts read."""

    @property
    def cores(self) -> int:
        """Counts the tasks that run at once."""

    def of(self, warehouse: Warehouse) -> Self:
        """Returns this engine on another warehouse, or on what is recent in its own."""

    def run(self, work: Callable[[In], Out], parts: Sequence[In]) -> list[Out]:
        """Calls ``work`` on each part, where there is room; results in the order of the parts."""

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = NO_INPUTS) -> pa.Table:
        """The rows of a text on the tables of some recordings: no more than the driver can hold."""

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
        """Feeds a text's rows to work, each key's together and in order; a result a partition.

        ``is_light``: of a small text the driver may do the work.
        """
