"""A warehouse whose tables were never written: for tests of what reads, since Delta has its own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kip_replay.pipelines.warehouse.tables import Scope, Warehouse
from kip_replay.replay.schema import TABLES, Table

#: Rows by name of their table; columns that are not named are null.
Rows = Mapping[str, list[dict[str, Any]]]


class InMemory(Warehouse):
    """Tables of rows in an order and a number of partitions that nothing may depend on."""

    def __init__(
        self, spark: SparkSession, rows: Rows, shuffle: int = 1, partitions: int = 2
    ) -> None:
        super().__init__(spark, "in memory")
        self._tables = {
            name: self._table(table, rows.get(name, []), shuffle, partitions)
            for name, table in TABLES.items()
        }

    def _table(
        self, table: Table, rows: list[dict[str, Any]], shuffle: int, partitions: int
    ) -> DataFrame:
        shuffled = random.Random(shuffle).sample(rows, len(rows))
        filled = [{name: row.get(name) for name in table.arrow_schema.names} for row in shuffled]
        loose = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
        frame = self.spark.createDataFrame(pa.Table.from_pylist(filled, schema=loose))
        return frame.repartition(partitions)

    def read(self, table: Table, where: Scope | None = None) -> DataFrame:
        assert where is None
        return self._tables[table.name]


def what_if(
    recording: str, rule: str, variant: str, parameter: str = "none", value: str = "none"
) -> dict[str, Any]:
    """The columns that say what a row belongs to."""
    return {
        "recording": recording,
        "rule": rule,
        "variant": variant,
        "parameter": parameter,
        "parameter_value": value,
    }
