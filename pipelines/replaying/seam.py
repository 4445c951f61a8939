"""The one seam between Spark and the rules: ordered Arrow batches in, Parquet files out.

A rule is fed Arrow batches in the order of events and emits batches of its outcome tables. Here a
DataFrame is brought into that form: partitioned by replay key, sorted by Spark (on disk where it is
large) and fed batch by batch, so that a key of any size takes the memory of the rule's state and of
one batch. Outcomes are written where they are made; what comes back to the driver is what a commit
adds. So the replay of a rule is one Spark job.

A log may be replayed in increments: an ``Increment`` says which events are fed, and brings what
each key's replay had saved at the end of the one before. A state goes through Spark as the first
row of its key, and the state afterwards is written to ``replay_state`` beside the outcomes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.replaying.states import checksum
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles, by_key
from kip_replay.pipelines.warehouse.tables import Read, written
from kip_replay.replay.rule import Replay, Rule, Settings
from kip_replay.replay.table import Table
from kip_replay.replay.tables import REPLAY_STATE

#: The state of a key, among its rows.
_STATE = "replay_state"
#: State key of a rule that is replayed for a whole cluster at once.
_CLUSTER = "cluster"
#: Rows at this time or before are true at all times (names of topic ids): every increment begins
#: with them.
_AT_ALL_TIMES_US = 0


@dataclass(frozen=True)
class Increment:
    """Events after ``since_us`` until ``until_us`` (inclusive, UTC microseconds, by rule.order[0]).

    None is from the beginning, and to the end with the log closed. ``states``: the rows of
    ``replay_state`` that were saved at ``since_us``. ``follows_from``: what the states saved at
    ``until_us`` follow from.
    """

    since_us: int | None = None
    until_us: int | None = None
    states: DataFrame | None = None
    follows_from: str = ""

    def recent(self, read: Read, back_us: int = 0, ahead_us: int = 0) -> Read:
        """Reads only rows of requests that this increment may have events of.

        A request's events lie between its receipt and its completion. ``back_us`` and ``ahead_us``:
        so much further back and ahead.
        """

        def reading(table: Table) -> DataFrame:
            rows = read(table)
            if self.since_us is not None:
                rows = rows.where(F.col("completed_at") > _timestamp(self.since_us - back_us))
            if self.until_us is not None:
                rows = rows.where(F.col("received_at") <= _timestamp(self.until_us + ahead_us))
            return rows

        return reading

    def of_time(
        self, rows: DataFrame, at: str, back_us: int = 0, begins_at: str | None = None
    ) -> DataFrame:
        """Rows whose timestamp ``at`` lies in this increment, or ``back_us`` before it.

        ``begins_at``: of rows with more than one event, the timestamp of the first; ``at`` is the
        last.
        """
        if self.since_us is not None:
            rows = rows.where(F.col(at) > _timestamp(self.since_us - back_us))
        if self.until_us is not None:
            rows = rows.where(F.col(begins_at or at) <= _timestamp(self.until_us))
        return rows

    def has(self, at_us: Column) -> Column:
        bounds = [F.lit(True)]
        if self.since_us is not None:
            bounds.append(at_us > self.since_us)
        if self.until_us is not None:
            bounds.append(at_us <= self.until_us)
        return reduce(Column.__and__, bounds) | (at_us <= _AT_ALL_TIMES_US)


#: The log from beginning to end.
WHOLE_LOG = Increment()


def replayed(
    rule: Rule,
    settings: Settings,
    events: DataFrame,
    files: TableFiles,
    increment: Increment = WHOLE_LOG,
) -> list[DataFile]:
    """Replays events (the rule's key and input schema); the files of its outcomes and states.

    One Spark job. Partitions are sorted by key and order, and a rule refuses what is out of order.
    """
    states = None if increment.states is None else _keyed(increment.states, rule)
    ordered = (
        _with_states(events.where(increment.has(F.col(rule.order[0]))), states)
        .repartition(*rule.key)
        .sortWithinPartitions(*rule.key, F.col(_STATE).isNull(), *rule.order)
    )
    task = _Task(rule, settings, files, increment.until_us, increment.follows_from)
    return written(ordered, task)


def _keyed(states: DataFrame, rule: Rule) -> DataFrame:
    key = {"recording": F.col("recording"), "node_id": F.col("state_key").cast("int")}
    return states.select(*(key[name].alias(name) for name in rule.key), "state")


def _with_states(events: DataFrame, states: DataFrame | None) -> DataFrame:
    """Events, and for each key that has one a row with nothing but its state."""
    without = events.withColumn(_STATE, F.lit(None).cast("binary"))
    if states is None:
        return without
    named = states.withColumnRenamed("state", _STATE)
    return without.unionByName(named, allowMissingColumns=True)


def _timestamp(at_us: int) -> Column:
    return F.timestamp_micros(F.lit(at_us))


Key = tuple[Any, ...]


@dataclass
class _Task:
    """What runs in a Python worker, for all keys of a partition one after another."""

    rule: Rule
    settings: Settings
    files: TableFiles
    until_us: int | None
    follows_from: str

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        schema = self.rule.input_schema
        key: Key | None = None
        replay: Replay | None = None
        for each, rows in by_key(batches, self.rule.key):
            if replay is None or each != key:
                self._end(key, replay)
                key, saved = each, rows.column(_STATE)[0].as_py()
                replay = self.rule.started(self.settings, self._named(key), saved)
                # Only the first row of a key can be its state.
                rows = rows.slice(0 if saved is None else 1)
            self._write(key, replay.feed(rows.select(schema.names).cast(schema)))
        self._end(key, replay)

    def _named(self, key: Key) -> dict[str, Any]:
        return dict(zip(self.rule.key, key, strict=True))

    def _end(self, key: Key | None, replay: Replay | None) -> None:
        if key is None or replay is None:
            return
        if self.until_us is None:
            self._write(key, replay.finish())
            return
        row = {
            "rule": self.rule.name,
            "state_key": str(self._named(key).get("node_id", _CLUSTER)),
            "as_of": self.until_us,
            "state": replay.saved(),
            "fingerprint": self.follows_from,
        }
        row["checksum"] = checksum(row)
        schema = REPLAY_STATE.without("recording")
        self.files.write(REPLAY_STATE, pa.RecordBatch.from_pylist([row], schema), str(key[0]))

    def _write(self, key: Key, emitted: Sequence[pa.RecordBatch]) -> None:
        for table, rows in zip(self.rule.tables, emitted, strict=True):
            self.files.write(table, rows, str(key[0]))
