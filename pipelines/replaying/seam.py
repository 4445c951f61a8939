"""The one seam between engines and rules: rows of a text in, Parquet files out.

A rule is fed Arrow batches in the order of events and emits batches of its outcome tables. Here
the rows of its text ``events`` are brought into that form: each replay key's together, in order,
batch by batch, so that a key of any size takes the memory of the rule's state and of one batch.
Outcomes are written where they are made; what comes back to the driver is what a commit adds.

A log may be replayed in increments: an ``Increment`` says which events are fed. What each key's
replay saved at the end of the one before goes in as the first row of its key, and the state
afterwards is written to ``replay_state`` beside the outcomes.
"""

import gc
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.engines import NO_INPUTS, Feed, Feeding, Inputs
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.replaying.states import write_states
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles, moment
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse, sql_text
from kip_replay.replay.rule import Replay, Rule, Settings

_STATE = "replay_state"
#: State key of a rule that is replayed for a whole cluster at once.
_CLUSTER = "cluster"
_BEGINNING, _END = datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Increment:
    """Events after ``since_us`` until ``until_us`` (inclusive, UTC microseconds, by rule.order[0]).

    None is from the beginning, and to the end with the log closed; a replay that does not begin
    with the log resumes from the states that were saved at ``since_us``. ``covered``: what the
    states that are saved at ``until_us`` cover.
    """

    since_us: int | None = None
    covered: Covered | None = None

    @property
    def until_us(self) -> int | None:
        return self.covered.until_us if self.covered else None

    @property
    def values(self) -> dict[str, datetime]:
        """Returns ``$since_at`` and ``$until_at`` of texts: a request's events lie between its
        receipt and its completion."""
        return {
            "since_at": _BEGINNING if self.since_us is None else moment(self.since_us),
            "until_at": _END if self.until_us is None else moment(self.until_us),
        }

    def events(self, rule: Rule, events: Text, sums: Collection[str] = ()) -> Text:
        """A rule's events in this increment, and for each key that has a state a row with it.

        Rows at 0 or before are true at all times: every increment begins with them. ``sums``: what
        is beside the states.
        """
        names = [name for name in rule.input_schema.names if name not in rule.key]
        at, columns = rule.order[0], ", ".join(f'"{name}"' for name in names)
        within = [f"{at} > {self.since_us}"] if self.since_us is not None else []
        within += [f"{at} <= {self.until_us}"] if self.until_us is not None else []
        where = f" WHERE ({' AND '.join(within)}) OR {at} <= 0" if within else ""
        # A node is a column of the key, and may be one of the events too.
        key = ", ".join(rule.key)
        query = f"SELECT {key}, {columns}, CAST(NULL AS BLOB) AS {_STATE} FROM events{where}"
        if self.since_us is not None:
            of_state = {"recording": "recording", "node_id": "CAST(state_key AS INT)"}
            saved = [*(of_state[name] for name in rule.key), *("NULL" for _ in names), "state"]
            query += (
                f" UNION ALL SELECT {', '.join(saved)} FROM replay_state"
                f" WHERE rule = {sql_text(rule.name)}"
            )
            query += "".join(f" AND state_key <> {sql_text(name)}" for name in sums)
        return Text(query, {"events": events})


WHOLE_LOG = Increment()


def replayed(
    warehouse: Warehouse,
    steps: RuleTexts,
    settings: Settings,
    recordings: Collection[str],
    files: TableFiles,
    increment: Increment = WHOLE_LOG,
    sums: Inputs = NO_INPUTS,
) -> Feeding[list[DataFile]]:
    """Replays a rule on recordings; the files of its outcomes and states."""
    rule, is_new = steps.rule, increment.since_us is None
    if is_new and rule.needs and not warehouse.files(rule.needs, recordings):
        return []
    text = increment.events(
        rule, steps.text("events", beside=sums, **increment.values), steps.file.sums
    )
    written = yield Feed(
        work=_Fed(rule, settings, files, increment),
        text=text,
        recordings=recordings,
        key=rule.key,
        order=(f"{_STATE} IS NULL", *rule.order),
        inputs={**sums},  # what can be pickled
        # Nodes have numbers one after the other: in turns, all tasks get as many.
        spread="node_id" if "node_id" in rule.key else "",
    )
    return [*chain(*written)]


Key = tuple[Any, ...]


@dataclass
class _Fed:
    """Runs where the rows are, for all keys of a partition one after another."""

    rule: Rule
    settings: Settings
    files: TableFiles
    increment: Increment

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        # Rules make many objects and no cycles, and looking for them takes a third of the time.
        gc.disable()
        try:
            return self._fed(batches)
        finally:
            gc.enable()

    def _fed(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        schema = self.rule.input_schema
        key: Key | None = None
        replay: Replay | None = None
        for its_key, rows in by_key(batches, self.rule.key):
            if replay is None or its_key != key:
                self._end(key, replay)
                key, saved = its_key, rows.column(_STATE)[0].as_py()
                replay = self.rule.started(self.settings, self._named(key), saved)
                # Only the first row of a key can be its state.
                rows = rows.slice(0 if saved is None else 1)
            self._write(key, replay.feed(rows.select(schema.names).cast(schema)))
        self._end(key, replay)
        return self.files.closed()

    def _named(self, key: Key) -> dict[str, Any]:
        return dict(zip(self.rule.key, key, strict=True))

    def _end(self, key: Key | None, replay: Replay | None) -> None:
        if key is None or replay is None:
            return
        covered = self.increment.covered
        if covered is None:
            self._write(key, replay.finish())
            return
        place = str(self._named(key).get("node_id", _CLUSTER))
        states = {place: replay.saved()}
        write_states(self.files, str(key[0]), self.rule.name, covered, states)

    def _write(self, key: Key, emitted: Sequence[pa.RecordBatch]) -> None:
        for table, rows in zip(self.rule.tables, emitted, strict=bool(emitted)):
            self.files.write(table, rows, str(key[0]))


def by_key(
    batches: Iterator[pa.RecordBatch], names: Sequence[str]
) -> Iterator[tuple[Key, pa.RecordBatch]]:
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = [batch.column(name) for name in names]
        differs = [pc.not_equal(column[1:], column[:-1]).to_numpy(False) for column in columns]
        borders = np.flatnonzero(reduce(np.logical_or, differs)) + 1
        starts = [0, *borders.tolist()]
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            yield (
                tuple(column[start].as_py() for column in columns),
                batch.slice(start, end - start),
            )
