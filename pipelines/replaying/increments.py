"""Recordings that grow: each run replays what is new and carries the rest over.

Theory of operation
-------------------
A line is written when its request completes, so the newest lines of a log are not all of their
time yet. A growing recording is replayed up to a moment that lies ``late_after_s`` before the end
of what its nodes have logged; by then everything is there that happened until then. Requests after
it wait in the typed tables. What a rule carries at that moment (sessions, offsets, ISR, parked
requests) is saved in ``replay_state``, a row per replay key, and the next run resumes from there.
Rows are emitted once nothing still to come can change them, so they are only ever appended. When
the recording is closed, the rest of the log is replayed and the states are dropped.

What makes it safe:

* States are beside what they cover (``steps.Covered``): the moment, the epochs that they have seen,
  the rule with its settings, and a hash of its ``dependencies``. Whether data came late shows in
  what later ingests state of themselves in ``ingested_files``; no line is read again for it. If
  anything but the moment is not as it was, everything is replayed from the typed tables, in place
  of what was there: slower, never wrong.
* A run writes outcomes first and states last. Files that are of a later epoch than the states are
  what a killed run has left; the next commit takes them out (``warehouse.commits``). A replay from
  the beginning drops the states before it touches an outcome.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from kip_replay.pipelines.engines import NO_INPUTS, Engine, Feeding, Inputs, TableSlice
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.line_accounting import read_spans
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying.clocks import nodes_apart
from kip_replay.pipelines.replaying.log_gaps import log_gaps
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.replaying.seam import Increment, replayed
from kip_replay.pipelines.replaying.states import (
    Kept,
    packed,
    phases_table,
    steady_phases,
    summed,
    write_states,
)
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    contents_of,
    fingerprint,
    last_ingest,
    readings_of,
)
from kip_replay.replay.log_tables import IngestedFiles
from kip_replay.replay.rule import Settings
from kip_replay.replay.table import Table
from kip_replay.replay.tables import ClockBounds, ReplayState

_US = 1_000_000
Say = Callable[[str], object]
Options = Mapping[str, Mapping[str, Any]]


def voters_of(recording: Recording) -> tuple[int, ...]:
    """Voter ids: what the manifest states, else its controllers. Raises UserError if neither."""
    voters = recording.controller_ids if recording.voters is None else recording.voters
    if not voters and recording.voters is None:
        raise UserError(
            f"recording {recording.name!r} does not say who votes: add "
            '"voters": [controller ids] to its recording.json, [] if they are not known or there '
            "are none, or give --voters"
        )
    return tuple(sorted(voters))


class Basis:
    """Reads, of some recordings, what outcomes follow from."""

    def __init__(
        self,
        recordings: Sequence[Recording],
        engine: Engine,
        rules: Sequence[RuleTexts],
        options: Options,
    ) -> None:
        warehouse, self._rules, self._engine = engine.warehouse, rules, engine
        names = [r.name for r in recordings]
        self.readings = readings_of(warehouse, names)
        self.settings = Settings(
            voters={r.name: voters_of(r) for r in recordings},
            facts={r.name: r.facts for r in recordings},
            log_gaps=log_gaps(warehouse, names),
            clocks_apart=nodes_apart(warehouse.rows(ClockBounds, names).to_pylist()),
            options=options,
        )

    @cached_property
    def of_replays(self) -> Settings:
        """Returns the settings with the steady phases, which identify no rows."""
        return replace(self.settings, steady_phases=steady_phases(self._engine, self.readings))

    def followed(self, steps: RuleTexts) -> list[RuleTexts]:
        return [rule for rule in self._rules if rule.name in steps.file.follows]

    def identity(self, steps: RuleTexts, recording: str) -> str:
        parts = [
            (rule.name, rule.step.code(), self.settings.identity(rule.rule, recording))
            for rule in (steps, *self.followed(steps))
        ]
        return fingerprint(*parts)

    def covered(self, steps: RuleTexts, recording: str) -> Covered:
        """States what the outcomes of the whole log follow from."""
        logs = contents_of(self.readings[recording]), self.settings.log_gaps.get(recording, ())
        return Covered(identity=self.identity(steps, recording), inputs=fingerprint(*logs))


class Finalized(NamedTuple):
    """Until when the logs of a recording are complete, and the nodes that this waits for."""

    until_us: int
    waits_for: tuple[int, ...]


def finalized(
    files: Sequence[Mapping[str, Any]], late_after_s: float, evidence_s: float = 0
) -> Finalized | None:
    """Until when one recording's logs are complete, by its rows of ingested_files; None: no log.

    A node that logs less than one line in ``late_after_s`` is quiet, not late: it is not waited
    for. A line of it that comes late all the same makes the rules start again. Nothing is complete
    before the log is ``evidence_s`` long: until then lines may tell what held when it began.
    """
    late_us = round(late_after_s * _US)
    lines: Counter[int] = Counter()
    for file in files:
        lines[file["node_id"]] += file["requests"]
    nodes = read_spans(files)
    if not nodes:
        return None
    end_us = max(last_us for _, last_us in nodes.values())
    waited = [
        node for node, (first_us, _) in nodes.items() if lines[node] * late_us >= end_us - first_us
    ]
    last_us = {node: nodes[node][1] for node in waited or nodes}
    behind = sorted(node for node, at in last_us.items() if at < end_us - late_us)
    until_us = min(last_us.values()) - late_us
    begins_us = min(first_us for first_us, _ in nodes.values())
    if until_us < begins_us + evidence_s * _US:
        until_us = min(until_us, begins_us - 1)
    return Finalized(until_us, tuple(behind))


class _Saved(NamedTuple):
    """States that can be resumed: what they cover, and in which epoch they were saved.

    ``sums``: what the rule's texts are given, of all ingests until now.
    """

    covered: Covered
    epoch: int
    sums: Inputs


@dataclass(frozen=True)
class GrowingReplay:
    """Replays a rule on a recording by increments."""

    steps: RuleTexts
    engine: Engine
    recording: str
    basis: Basis

    def advance(self, until_us: int) -> Feeding[str | None]:
        """Replays up to a time and saves the states; returns what it resumed from, in words.

        None: there was nothing to do.
        """
        saved = self._saved()
        stated = self.steps.step.covered(self.engine.warehouse, [self.recording])
        before = stated.get(self.recording)
        if saved:
            until_us = max(until_us, saved.covered.until_us)
            if before is not None and saved.covered.until_us == until_us:
                return None
        sums = saved.sums if saved else self._sums()
        wanted = self._covered(until_us, sums)
        # Closed, and nothing is new; or nothing in the log is for this rule, so that there are no
        # states.
        if not saved and before in (self.basis.covered(self.steps, self.recording), wanted):
            return None
        yield from self._replay(saved, wanted, sums)
        return " from the beginning" if before and not saved else ""

    def close(self, wanted: Covered) -> Feeding[bool]:
        """Replays what is left from saved states on; False where there are none to resume from."""
        saved = self._saved()
        if saved is None:
            return False
        yield from self._replay(saved, wanted, saved.sums)
        return True

    def _saved(self) -> _Saved | None:
        """Returns the saved states; None where what they follow from has changed since."""
        warehouse, step = self.engine.warehouse, self.steps.name
        epoch = warehouse.epochs(ReplayState, step, [self.recording])[self.recording]
        if not epoch:
            return None
        kept = Kept.read(self.engine, self.recording, step, self.steps.file.sums)
        if kept is None or kept.covered.identity != self.basis.identity(self.steps, self.recording):
            return None
        if kept.covered.is_late(self.basis.readings[self.recording]):
            return None
        covered, sums = kept.covered, self._sums(kept)
        now = self._covered(covered.until_us, sums, covered)
        return _Saved(covered, epoch, sums) if now == covered else None

    def _sums(self, kept: Kept | None = None) -> Inputs:
        """Returns the inputs of the rule's texts: what was kept and what later ingests add."""
        return {
            name: summed(self.engine, self.steps.text(name), self.recording, name, kept)
            for name in self.steps.file.sums
        }

    def _covered(self, until_us: int, sums: Inputs, seen: Covered | None = None) -> Covered:
        """States what rows up to a time follow from: the ingests seen, the rule, its dependencies.

        Of ``seen``, what the states have seen already; else all that is there now.
        """
        settings, warehouse = self.basis.settings, self.engine.warehouse
        gaps = [g for g in settings.log_gaps.get(self.recording, ()) if g.after_us <= until_us]
        followed: dict[Table, Sequence[Mapping[str, Any]]] = {
            table: warehouse.files(table, [self.recording])
            for rule in self.basis.followed(self.steps)
            for table in rule.outcomes
        }
        epochs = (
            seen.epochs if seen else {t.name: commits.last_epoch(f) for t, f in followed.items()}
        )
        if seen is None:
            epochs[IngestedFiles.name] = last_ingest(self.basis.readings[self.recording])
        later = {
            table.name: TableSlice(table, commits.of_epochs_after(files, epochs[table.name]))
            for table, files in followed.items()
        }
        phases = phases_table({self.recording: self.basis.of_replays.steady_phases[self.recording]})
        text = self.steps.text("dependencies", beside=sums, until_us=until_us)
        inputs = {"phases": phases, **sums, **later}
        depends = self.engine.rows(text, [self.recording], inputs).to_pylist()
        return Covered(
            identity=self.basis.identity(self.steps, self.recording),
            part=fingerprint(depends, gaps),
            until_us=until_us,
            epochs=epochs,
            is_growing=True,
        )

    def _replay(self, saved: _Saved | None, wanted: Covered, sums: Inputs) -> Feeding[None]:
        of_recording = {self.recording: wanted}
        yield from write_outcomes(self.steps, self.engine, self.basis, of_recording, saved, sums)


def write_outcomes(
    steps: RuleTexts,
    engine: Engine,
    basis: Basis,
    wanted: Mapping[str, Covered],
    saved: _Saved | None = None,
    sums: Inputs = NO_INPUTS,
) -> Feeding[None]:
    """Replays recordings; outcomes replace what was there, or go on from saved states.

    ``wanted``: what they will cover; one that grows comes alone. A whole log leaves no states.
    ``sums``: what the rule's texts are given, and what is kept beside the states.
    """
    growing = next((covered for covered in wanted.values() if covered.is_growing), None)
    increment = Increment(saved.covered.until_us if saved else None, growing)
    writing = engine.warehouse.writing(steps.name, wanted, steps.step.writes)
    how = writing.files(), increment, sums
    files = yield from replayed(engine.warehouse, steps, basis.of_replays, wanted, *how)
    if growing and any(file.table == ReplayState.name for file in files):
        of_sums, (recording,) = writing.files(), wanted
        write_states(of_sums, recording, steps.name, growing, packed(sums))
        files += of_sums.closed()
    since = dict.fromkeys(wanted, saved.epoch) if saved else {}
    writing.begin({ReplayState: since})
    if not saved:
        writing.replace_states()
    for table in steps.outcomes:
        if saved:
            writing.append(table, files, since)
        else:
            writing.replace(table, files)
    if saved or growing:
        writing.replace_states(files, again=not saved)
    writing.end({name: str(covered) for name, covered in wanted.items()})
