"""Declares how a rule is run: by which key, in which order, on what, into which tables."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from .log_gaps import Gaps, LogGap
from .records import ALWAYS_STEADY, SteadyPhase, Verdict
from .table import Table

#: Reason of outcomes that compare times by clocks that differ.
CLOCKS_DIFFER = "clocks of nodes whose times it compares differ"


class Comparison(NamedTuple):
    """Describes how a rule compares times of several nodes.

    All outcomes of a key rest on the clocks of its own node and of the controllers: where one of
    these is apart (``Settings.clocks_apart``), all are ``unknown``. Where only another node's is,
    that node's events are left out, as if its log were not there.

    ``node``: the column with the node by whose clock an event's times are. ``kinds`` of events for
    which this column is read; empty: all. ``clears``: by name of a table, the columns that are null
    where an outcome rests on clocks that are apart.
    """

    node: str
    clears: Mapping[str, Sequence[str]]
    kinds: Collection[str] = ()

    def without_times_of(self, nodes: Collection[int], events: pa.RecordBatch) -> pa.RecordBatch:
        """Leaves out the events whose times are by the clocks of these nodes."""
        column = events.column(self.node)
        is_excluded = pc.is_in(column, pa.array(nodes, column.type))
        if self.kinds:
            kinds = pa.array(map(str, self.kinds), pa.string())
            is_excluded = pc.and_(is_excluded, pc.is_in(events.column("kind"), kinds))
        return events.filter(pc.invert(is_excluded))

    def unknown(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Makes all rows of a table unknown; those that were unknown keep their reason."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        was_unknown = pc.equal(columns["verdict"], Verdict.UNKNOWN.value)
        columns["reason"] = pc.if_else(was_unknown, columns["reason"], CLOCKS_DIFFER)
        columns["verdict"] = pa.repeat(Verdict.UNKNOWN.value, rows.num_rows)
        for name in self.clears.get(table, ()):
            columns[name] = pa.nulls(rows.num_rows, columns[name].type)
        return pa.RecordBatch.from_arrays([*columns.values()], schema=rows.schema)


class Replay(Protocol):
    """The replay of one key: at every call a batch for each of the rule's outcome tables.

    A class that derives from it without more than ``feed`` decides each row by itself.
    """

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Replays the next rows; raises ValueError if they are not in the rule's order."""

    def finish(self) -> Sequence[pa.RecordBatch]:
        """Emits what is left, if anything is: the log is over."""
        return ()

    def saved(self) -> bytes:
        """Returns all that it carries, to resume from with the next increment."""
        return b""


@dataclass(frozen=True)
class Settings:
    """Holds what the replays of all rules get besides the log.

    By recording: ``voters`` (ids), ``facts`` (by rule, what the manifest states under the keys that
    the rule's folder declares; they only fill what logs leave open), ``steady_phases`` (a log alone
    does not state its phases), ``log_gaps`` (a replay knows of a gap before it comes to it), and
    ``clocks_apart`` (ids of nodes whose clock certainly differs from the active controller's).
    By rule: ``options``, its section of the configuration.
    """

    voters: Mapping[str, Sequence[int]]
    facts: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    steady_phases: Mapping[str, SteadyPhase] = field(default_factory=dict)
    log_gaps: Mapping[str, Sequence[LogGap]] = field(default_factory=dict)
    clocks_apart: Mapping[str, Sequence[int]] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of_key(self, rule: str, key: Mapping[str, str | int]) -> "KeySettings":
        recording = str(key["recording"])
        return KeySettings(
            int(key.get("node_id", -1)),
            self.voters[recording],
            self.facts.get(recording, {}).get(rule, {}),
            self.steady_phases.get(recording, ALWAYS_STEADY),
            Gaps(self.log_gaps.get(recording, ())),
            self.clocks_apart.get(recording, ()),
            self.options.get(rule, {}),
        )

    def identity(self, rule: "Rule", recording: str) -> list[object]:
        """Returns what a rule's rows follow from besides code and log, for a fingerprint."""
        facts = {name: getattr(self, name).get(recording) for name in rule.facts}
        own = self.facts.get(recording, {}).get(rule.name, {})
        return [facts, own, self.options.get(rule.name, {})]


class KeySettings(NamedTuple):
    """Holds what the replay of one key gets besides the log: of ``Settings``, its own.

    ``node_id``: -1 where a key is a whole recording.
    """

    node_id: int
    voters: Sequence[int]
    facts: Mapping[str, Any]
    steady_phase: SteadyPhase
    gaps: Gaps
    clocks_apart: Sequence[int]
    options: Mapping[str, Any]

    def option(self, name: str, default: Any = ()) -> Any:
        """Returns an option of the rule; ``default`` where it is not configured."""
        return self.options.get(name, default)


@dataclass(frozen=True)
class Rule:
    """A rule as the seam (``pipelines.replaying.seam``) runs it.

    ``tables``: those that it fills, which have its name; every call emits a batch for each, without
    the recording. ``start``: makes the replay of a key, given what it has saved, if anything.
    ``facts``: names of those fields of ``Settings`` that its rows follow from. ``sweeps``:
    options that are lists of whole numbers, each with the least that makes sense; ``switches``:
    options that are true or false; ``numbers``: whole numbers, each with the least that makes
    sense. ``comparison``: how it compares times of several nodes; None: it does not.
    ``needs``: the table without whose rows there are no events. ``behind_us``: how far behind a
    growing log its rows may be emitted. ``constants``: values of ``$names`` in its texts of SQL.
    """

    order: tuple[str, ...]
    input_schema: pa.Schema
    tables: tuple[Table, ...]
    start: Callable[[KeySettings, bytes | None], Replay]
    key: tuple[str, ...] = ("recording", "node_id")
    facts: tuple[str, ...] = ()
    sweeps: Mapping[str, int] = field(default_factory=dict)
    switches: tuple[str, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    comparison: Comparison | None = None
    needs: Table | None = None
    behind_us: int = 0
    constants: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.tables[0].rule

    def started(
        self, settings: Settings, key: Mapping[str, str | int], saved: bytes | None
    ) -> Replay:
        """Starts the replay of a key; where its own clocks are apart all is ``unknown``."""
        own = settings.of_key(self.name, key)
        replay, apart = self.start(own, saved), own.clocks_apart
        if self.comparison and apart:
            if {*own.voters, own.node_id}.isdisjoint(apart):
                fed = partial(self.comparison.without_times_of, apart)
                return Through(replay, self.tables, fed=fed)
            return Through(replay, self.tables, self.comparison.unknown)
        return replay


@dataclass(frozen=True)
class Through:
    """A replay whose rows go through ``emitted`` (table, rows), its input through ``fed``."""

    replay: Replay
    tables: Sequence[Table]
    emitted: Callable[[str, pa.RecordBatch], pa.RecordBatch] = lambda _, rows: rows
    fed: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        return self._through(self.replay.feed(self.fed(batch)))

    def finish(self) -> Sequence[pa.RecordBatch]:
        return self._through(self.replay.finish())

    def saved(self) -> bytes:
        return self.replay.saved()

    def _through(self, emitted: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        batches = zip(self.tables, emitted, strict=False)
        return [self.emitted(table.name, rows) for table, rows in batches]
