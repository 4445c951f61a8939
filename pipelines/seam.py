"""The one seam between Spark and the rules: ordered Arrow batches in, outcome rows out.

A rule is fed Arrow batches in the order of events and hands out batches of its outcome tables.
Here a DataFrame is brought into that form: one group per replay key, sorted by Spark (on disk
where it is large) and fed batch by batch, so that a group of any size takes the memory of the
rule's state and of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from replay.rules import Rule, Settings


def replayed_by(rule: Rule, settings: Settings) -> Callable[[DataFrame], DataFrame]:
    """A transformation: events in the rule's input schema (with its key) -> outcome rows.

    An outcome row has one struct per outcome table, of which exactly one is set (``rows_of``).
    Spark promises no order within a group, but it keeps the one that is there: partitions are
    sorted by key and order before, and a rule refuses what is out of order.
    """

    def replayed(events: DataFrame) -> DataFrame:
        worker = _Worker(rule, settings)

        # Spark tells the iterator form from the others by a function's type hints.
        def replay_key(
            key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
        ) -> Iterator[pa.RecordBatch]:
            return worker.replay(key, batches)

        return (
            events.repartition(*rule.key)
            .sortWithinPartitions(*rule.key, *rule.order)
            .groupBy(*rule.key)
            .applyInArrow(replay_key, schema=from_arrow_schema(worker.wide))
        )

    return replayed


def rows_of(replayed: DataFrame, table: str) -> DataFrame:
    """The rows of one outcome table."""
    return replayed.where(F.col(table).isNotNull()).select(f"{table}.*")


_KEY_TYPES = {"recording": pa.string(), "node_id": pa.int32()}


class _Worker:
    """What runs in the Python workers, once per key."""

    def __init__(self, rule: Rule, settings: Settings) -> None:
        self._rule = rule
        self._settings = settings
        kept = [pa.field(name, _KEY_TYPES[name]) for name in rule.keep]
        self._tables = {
            name: pa.schema([*kept, *(f.remove_metadata() for f in schema)])
            for name, schema in rule.outputs.items()
        }
        self.wide = pa.schema(
            [(name, pa.struct(list(schema))) for name, schema in self._tables.items()]
        )

    def replay(
        self, key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        values = dict(zip(self._rule.key, (scalar.as_py() for scalar in key), strict=True))
        replay = self._rule.start(self._settings, values)
        schema = self._rule.input_schema
        for batch in batches:
            fed = batch.select(schema.names).cast(schema)
            yield from self._wide_batches(replay.feed(fed), values)
        yield from self._wide_batches(replay.finish(), values)

    def _wide_batches(
        self, handed_out: Iterable[pa.RecordBatch], key: Mapping[str, str | int]
    ) -> Iterator[pa.RecordBatch]:
        for (name, schema), batch in zip(self._tables.items(), handed_out, strict=True):
            if not batch.num_rows:
                continue
            kept = [
                pa.repeat(pa.scalar(key[column], _KEY_TYPES[column]), batch.num_rows)
                for column in self._rule.keep
            ]
            rows = pa.StructArray.from_arrays([*kept, *batch.columns], fields=list(schema))
            columns = [
                rows if field.name == name else pa.nulls(batch.num_rows, field.type)
                for field in self.wide
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.wide)
