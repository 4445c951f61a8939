"""Recordings that grow: each run replays what is new and carries the rest over.

Theory of operation
-------------------
A line is written when its request completes, so the newest lines of a log are not all of their
time yet. A growing recording is replayed up to a moment that lies ``late_after_s`` before the end
of what its nodes have logged; by then everything is there that happened until then. Requests after
it wait in the typed tables. What a rule carries at that moment (sessions, offsets, ISR, parked
requests) is saved in ``replay_state``, a row per replay key, and the next run goes on from there.
Rows are handed out once nothing still to come can change them, so they are only ever appended.
When the recording is closed, the rest of the log is replayed and the states are dropped.

What makes it safe:

* A run writes outcome tables first and states last. Each commit says which rule, configuration and
  moment it is of. Killed between two of them, the next run starts from the old states and adds only
  the keys that are not there: the same rows, since rows that are out do not change.
* A state is used only if rule and configuration are those that it was saved under, if every outcome
  table was written by them, and if the facts that it follows from (``dependencies``) are still
  the same. Otherwise (a file that came late, a rule that was upgraded) everything is replayed from
  the typed tables, in the place of what was there: slower, never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from kip_replay.pipelines.analysis.phases import steady_phases
from kip_replay.pipelines.analysis.summaries import Read
from kip_replay.pipelines.replaying.dependencies import told
from kip_replay.pipelines.replaying.seam import Piece, states_of
from kip_replay.pipelines.rules.registration import RuleSteps
from kip_replay.pipelines.warehouse.commit_history import DELETED
from kip_replay.pipelines.warehouse.fingerprint import fingerprint
from kip_replay.pipelines.warehouse.tables import WRITERS, Scope, Warehouse, Written
from kip_replay.replay.rules import Settings
from kip_replay.replay.schema import BROKER_HEARTBEATS, REPLAY_STATE, REQUESTS, Table
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_US = 1_000_000
#: State key of a rule that is replayed for a whole cluster at once.
_CLUSTER = "cluster"


class Settled(NamedTuple):
    """Until when the logs of a recording are complete, and the nodes that this waits for."""

    until_us: int
    waits_for: tuple[int, ...]


def settled(requests: DataFrame, late_after_s: float) -> Settled | None:
    """Until when one recording's logs are complete; None where nothing was logged.

    A node that logs less than one line in ``late_after_s`` is quiet, not late: it is not waited
    for. A line of it that comes late all the same makes the rules start again.
    """
    late_us = round(late_after_s * _US)
    nodes = (
        requests.groupBy("node_id")
        .agg(
            F.count("*").alias("lines"),
            F.unix_micros(F.min("received_at")).alias("first_us"),
            F.unix_micros(F.max("completed_at")).alias("last_us"),
        )
        .collect()
    )
    if not nodes:
        return None
    end_us = max(node["last_us"] for node in nodes)
    waited = [n for n in nodes if n["lines"] * late_us >= end_us - n["first_us"]] or nodes
    last_us = min(node["last_us"] for node in waited)
    behind = tuple(sorted(n["node_id"] for n in waited if n["last_us"] < end_us - late_us))
    return Settled(last_us - late_us, behind)


@dataclass(frozen=True)
class _Saved:
    """States that can be gone on from: until when, and the mark of each outcome table."""

    until_us: int
    mark: str
    marks: Mapping[Table, str]


class CarriedReplay:
    """One rule's replay of one recording, from piece to piece."""

    def __init__(
        self, steps: RuleSteps, warehouse: Warehouse, recording: str, settings: Settings
    ) -> None:
        self._steps = steps
        self._warehouse = warehouse
        self._settings = settings
        self._scope: Scope = {"recording": recording, "rule": steps.name}
        self._rule_mark = fingerprint(steps.name, settings.of(recording, steps.rule.settings))
        mine = F.col("recording") == recording
        self._read: Read = lambda table: warehouse.read(table).where(mine)

    def advance(self, until_us: int, rebuild: bool = False) -> bool:
        """Replays up to a time and saves the states; whether there was anything to do.

        ``rebuild``: from the beginning, whatever was saved.
        """
        saved = None if rebuild else self._saved()
        if saved and saved.until_us >= until_us:
            return False
        piece = Piece(None, until_us) if saved is None else self._after(saved, until_us)
        # The facts before the rows: a line that comes in between is missed by both, and found.
        self._replay(piece, self._mark(until_us), saved)
        return True

    def close(self, mark: str) -> bool:
        """Replays what is left from saved states on; False where there are none to go on from."""
        saved = self._saved(closed_mark=mark)
        if saved is None:
            return False
        self._replay(self._after(saved, None), mark, saved)
        return True

    def forget(self) -> None:
        """Drops states that nothing goes on from, after everything was replayed without them."""
        said = self._warehouse.fingerprint_of(REPLAY_STATE, self._scope)
        if said not in (None, DELETED):
            self._warehouse.delete(REPLAY_STATE, [self._scope])

    def _after(self, saved: _Saved, until_us: int | None) -> Piece:
        states = self._warehouse.read(REPLAY_STATE, self._scope)
        key = {"recording": F.col("recording"), "node_id": F.col("state_key").cast("int")}
        columns = [key[name].alias(name) for name in self._steps.rule.key]
        return Piece(saved.until_us, until_us, states.select(*columns, "state"))

    def _saved(self, closed_mark: str | None = None) -> _Saved | None:
        """The states, if they still hold. ``closed_mark``: tables may have been closed with it."""
        mark = self._warehouse.fingerprint_of(REPLAY_STATE, self._scope)
        until_us = self._until_us(mark)
        if mark is None or until_us is None:
            return None
        marks = {
            table: self._warehouse.fingerprint_of(table, self._scope) or ""
            for table in self._steps.outcomes
        }
        for moment in {mark, *marks.values()} - {closed_mark}:
            if (at_us := self._until_us(moment)) is None or self._mark(at_us) != moment:
                return None
        return _Saved(until_us, mark, marks)

    def _mark(self, until_us: int) -> str:
        """What rows up to a time follow from: the rule, how it is configured, and the facts."""
        facts = fingerprint(told(self._steps.facts(self._read, until_us)))
        return f"{until_us} {self._rule_mark} {facts}"

    def _until_us(self, mark: str | None) -> int | None:
        """The time of a mark of today's rule and configuration."""
        until_us, _, rest = (mark or "").partition(" ")
        return int(until_us) if rest.startswith(f"{self._rule_mark} ") else None

    def _replay(self, piece: Piece, mark: str, saved: _Saved | None) -> None:
        read = self._read
        replayed = self._steps.replayed(read, self._settings, piece)
        replayed = replayed.persist(StorageLevel.MEMORY_AND_DISK)
        phases = steady_phases(read(REQUESTS), read(BROKER_HEARTBEATS)).persist()
        try:
            rows = self._steps.rows(replayed, phases)
            self._warehouse.create_missing_tables({*self._steps.outcomes, REPLAY_STATE})
            with ThreadPoolExecutor(WRITERS) as pool:
                writes = [
                    pool.submit(self._write, table, rows[table], mark, saved)
                    for table in self._steps.outcomes
                ]
                for written in writes:
                    written.result()
            self._save(states_of(replayed), piece.until_us, mark)
        finally:
            replayed.unpersist()
            phases.unpersist()

    def _write(self, table: Table, rows: DataFrame, mark: str, saved: _Saved | None) -> None:
        written = [Written(self._scope, mark)]
        if saved is None:
            self._warehouse.replace_all(table, rows, written)
        elif saved.marks[table] == saved.mark:
            self._warehouse.append(table, rows, written=written)
        elif saved.marks[table] != mark:
            # A run was killed after it had written this table: some of the rows are there.
            self._warehouse.insert_new(table, rows, self._where(), written=written)

    def _where(self) -> Column:
        return (F.col("recording") == self._scope["recording"]) & (
            F.col("rule") == self._scope["rule"]
        )

    def _save(self, states: DataFrame, until_us: int | None, mark: str) -> None:
        """States in the place of those before; a closed recording has none."""
        by_node = "node_id" in self._steps.rule.key
        rows = states.select(
            "recording",
            F.lit(self._steps.name).alias("rule"),
            (F.col("node_id").cast("string") if by_node else F.lit(_CLUSTER)).alias("state_key"),
            F.timestamp_micros(F.lit(until_us or 0)).alias("as_of"),
            "state",
            F.lit(mark).alias("fingerprint"),
        )
        self._warehouse.replace_all(REPLAY_STATE, rows, [Written(self._scope, mark)])
