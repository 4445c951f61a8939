"""The one seam between Spark and the rules: ordered Arrow batches in, outcome rows out.

A rule is fed Arrow batches in the order of events and hands out batches of its outcome tables.
Here a DataFrame is brought into that form: one group per replay key, sorted by Spark (on disk
where it is large) and fed batch by batch, so that a group of any size takes the memory of the
rule's state and of one batch.

A log may be replayed in pieces: a ``Piece`` says which events are fed, and brings what each key's
replay had saved at the end of the piece before. A state goes through Spark as the first row of its
group, and the state after the piece comes out beside the outcome rows (``states_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from kip_replay.pipelines.analysis.summaries import Read
from kip_replay.replay.rules import Replay, Rule, Settings
from kip_replay.replay.schema import Table
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

_KEY_TYPES = {"recording": pa.string(), "node_id": pa.int32()}
#: The state of a key among the rows of its group, and where it comes out.
_STATE = "replay_state"
#: Rows at this time or before are true at all times (names of topic ids): every piece begins with
#: them.
_AT_ALL_TIMES_US = 0


@dataclass(frozen=True)
class Piece:
    """Events after ``since_us`` until ``until_us`` (inclusive, UTC microseconds, by rule.order[0]).

    None is from the beginning, and to the end with the log closed. ``states``: a row per key with
    the columns of the rule's key and ``state``, as ``states_of`` gave them for ``since_us``.
    """

    since_us: int | None = None
    until_us: int | None = None
    states: DataFrame | None = None

    def recent(self, read: Read) -> Read:
        """Reads only rows of requests that this piece may have events of.

        A request's events lie between its receipt and its completion.
        """

        def reading(table: Table) -> DataFrame:
            rows = read(table)
            if self.since_us is not None:
                rows = rows.where(F.col("completed_at") > _timestamp(self.since_us))
            if self.until_us is not None:
                rows = rows.where(F.col("received_at") <= _timestamp(self.until_us))
            return rows

        return reading

    def has(self, at_us: Column) -> Column:
        """The event is one of this piece."""
        bounds = [F.lit(True)]
        if self.since_us is not None:
            bounds.append(at_us > self.since_us)
        if self.until_us is not None:
            bounds.append(at_us <= self.until_us)
        return reduce(Column.__and__, bounds) | (at_us <= _AT_ALL_TIMES_US)


#: The log from beginning to end.
WHOLE_LOG = Piece()


def replayed_by(
    rule: Rule, settings: Settings, piece: Piece = WHOLE_LOG
) -> Callable[[DataFrame], DataFrame]:
    """A transformation: events in the rule's input schema (with its key) -> outcome rows.

    An outcome row has one struct per outcome table, of which exactly one is set (``rows_of``).
    Spark promises no order within a group, but it keeps the one that is there: partitions are
    sorted by key and order before, and a rule refuses what is out of order.
    """

    def replayed(events: DataFrame) -> DataFrame:
        worker = _Worker(rule, settings, is_closed=piece.until_us is None)

        # Spark tells the iterator form from the others by a function's type hints.
        def replay_key(
            key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
        ) -> Iterator[pa.RecordBatch]:
            return worker.replay(key, batches)

        return (
            _with_states(events.where(piece.has(F.col(rule.order[0]))), piece.states)
            .repartition(*rule.key)
            .sortWithinPartitions(*rule.key, F.col(_STATE).isNull(), *rule.order)
            .groupBy(*rule.key)
            .applyInArrow(replay_key, schema=from_arrow_schema(worker.wide))
        )

    return replayed


def _with_states(events: DataFrame, states: DataFrame | None) -> DataFrame:
    """Events, and for each key that has one a row with nothing but its state."""
    without = events.withColumn(_STATE, F.lit(None).cast("binary"))
    if states is None:
        return without
    named = states.withColumnRenamed("state", _STATE)
    return without.unionByName(named, allowMissingColumns=True)


def rows_of(replayed: DataFrame, table: str) -> DataFrame:
    """The rows of one outcome table."""
    return replayed.where(F.col(table).isNotNull()).select(f"{table}.*")


def states_of(replayed: DataFrame) -> DataFrame:
    """The columns of the rule's key, and ``state``: what each key carries after a piece."""
    return rows_of(replayed, _STATE)


def _timestamp(at_us: int) -> Column:
    return F.timestamp_micros(F.lit(at_us))


class _Worker:
    """What runs in the Python workers, once per key."""

    def __init__(self, rule: Rule, settings: Settings, is_closed: bool) -> None:
        self._rule = rule
        self._settings = settings
        self._is_closed = is_closed
        kept = [pa.field(name, _KEY_TYPES[name]) for name in rule.keep]
        self._tables = {
            name: pa.schema([*kept, *(f.remove_metadata() for f in schema)])
            for name, schema in rule.outputs.items()
        }
        key = [pa.field(name, _KEY_TYPES[name]) for name in rule.key]
        state = pa.schema([*key, pa.field("state", pa.binary())])
        self.wide = pa.schema(
            [
                (name, pa.struct(list(schema)))
                for name, schema in (self._tables | {_STATE: state}).items()
            ]
        )

    def replay(
        self, key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        values = dict(zip(self._rule.key, (scalar.as_py() for scalar in key), strict=True))
        schema = self._rule.input_schema
        replay: Replay | None = None
        for batch in batches:
            if replay is None:  # only the first row of a group can be its state
                saved = batch.column(_STATE)[0].as_py()
                replay = self._rule.start(self._settings, values, saved)
                batch = batch.slice(0 if saved is None else 1)
            fed = batch.select(schema.names).cast(schema)
            yield from self._wide_batches(replay.feed(fed), values)
        if replay is None:
            return
        if self._is_closed:
            yield from self._wide_batches(replay.finish(), values)
        else:
            yield self._wide_state(replay.saved(), values)

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
            yield self._wide(name, rows)

    def _wide_state(self, saved: bytes, key: Mapping[str, str | int]) -> pa.RecordBatch:
        state = pa.array([{**key, "state": saved}], type=self.wide.field(_STATE).type)
        return self._wide(_STATE, state)

    def _wide(self, name: str, rows: pa.StructArray) -> pa.RecordBatch:
        columns = [
            rows if field.name == name else pa.nulls(len(rows), field.type) for field in self.wide
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.wide)
