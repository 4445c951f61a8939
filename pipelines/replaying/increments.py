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
  anything but the moment is not as it was, or a state is not as it was saved (its checksum), the
  states of the increment before are taken, and outcomes of later epochs are taken out. Without any,
  everything is replayed from the typed tables, in place of what was there: slower, never wrong.
* A run writes outcomes first and states last. Files that are of a later epoch than the states are
  what a killed run has left; the next commit takes them out (``warehouse.commits``). A replay from
  the beginning drops the states before it touches an outcome.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kip_replay.pipelines.engines import NO_INPUTS, Engine, Feeding, Inputs, TableSlice
from kip_replay.pipelines.ingest.line_accounting import read_spans
from kip_replay.pipelines.replaying.basis import Basis
from kip_replay.pipelines.replaying.phases import phases_table
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.replaying.seam import Increment, replayed
from kip_replay.pipelines.replaying.states import Kept, packed, summed, write_states
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.lineage import fingerprint
from kip_replay.pipelines.warehouse.steps import Covered, last_ingest
from kip_replay.replay.log_tables import INGESTED_FILES
from kip_replay.replay.table import Table
from kip_replay.replay.tables import REPLAY_STATE

_US = 1_000_000
#: States of this many increments before the last stay: lines of their time may come late.
_OLDER_STATES = 2
#: No clock of a machine that writes to a warehouse is as far from another's.
_CLOCKS_APART_MS = 600_000


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


@dataclass(frozen=True)
class _Saved:
    """States that can be resumed: what they cover, and in which epoch they were saved.

    ``files``: theirs, and those of states before them. ``is_last``: nothing was replayed since.
    ``states_epoch``: the last epoch of any states. ``sums``: what the rule's texts are given, of
    all ingests until now.
    """

    covered: Covered
    epoch: int
    files: Sequence[TableSlice]
    is_last: bool
    states_epoch: int
    sums: Inputs

    def paths(self, most: int | None = None) -> list[str]:
        """Returns paths of the files with the last states of these."""
        return [file["path"] for states in self.files[:most] for file in states.files]


@dataclass(frozen=True)
class GrowingReplay:
    """Replays a rule on a recording by increments."""

    steps: RuleTexts
    engine: Engine
    recording: str
    basis: Basis

    def advance(self, until_us: int, rebuild: bool = False) -> Feeding[bool]:
        """Replays up to a time and saves the states; whether there was anything to do."""
        saved = None if rebuild else self._saved()
        stated = self.steps.step.covered(self.engine.warehouse, [self.recording])
        before = stated.get(self.recording)
        if saved:
            until_us = max(until_us, saved.covered.until_us)
        if saved and saved.is_last and saved.covered.until_us == until_us:
            if before is None:
                self._complete(saved)
            return before is None
        sums = saved.sums if saved else self._sums()
        parts = self.basis.parts(self.steps, [self.recording])
        wanted = self._covered(until_us, sums, saved.covered.replayed_apart if saved else parts)
        # Closed, and nothing is new; or nothing in the log is for this rule, so that there are no
        # states.
        current = (self.basis.covered(self.steps, self.recording), wanted)
        if before in current and not (saved or rebuild):
            return False
        yield from self._replay(saved, wanted, sums)
        return True

    def close(self, wanted: Covered) -> Feeding[bool]:
        """Replays what is left from saved states on; False where there are none to resume from."""
        saved = self._saved()
        if saved is None:
            return False
        yield from self._replay(saved, wanted, saved.sums)
        return True

    def _saved(self) -> _Saved | None:
        """Finds the last states that can be resumed: what comes late leaves those of before it."""
        warehouse, name = self.engine.warehouse, self.steps.name
        if not warehouse.exists(REPLAY_STATE):
            return None
        delta = warehouse.open(REPLAY_STATE)
        last, of_epochs = commits.epoch_in(delta, name, self.recording), defaultdict(list)
        there = commits.files_of(delta, [self.recording])
        for file in commits.of_step(there, REPLAY_STATE, name):
            of_epochs[commits.epoch_in_name(file["path"])].append(file)
        epochs = sorted(of_epochs, reverse=True)
        files = [TableSlice(REPLAY_STATE, of_epochs[epoch]) for epoch in epochs]
        for place, epoch in enumerate(epochs):
            is_usable = epoch and (place == 0 or not self._is_merged_since(files[place]))
            if found := is_usable and self._resumable(files[place]):
                covered, sums = found
                return _Saved(covered, epoch, files[place:], place == 0, last, sums)
        return None

    def _is_merged_since(self, states: TableSlice) -> bool:
        """Returns whether maintenance has put outcomes together that may be of later epochs."""
        saved_ms = min(file["modification_time"] for file in states.files)
        return any(
            not commits.epoch_in_name(file["path"])
            and file["modification_time"] > saved_ms - _CLOCKS_APART_MS
            for table in self.steps.outcomes
            for file in self.engine.warehouse.files(table, [self.recording])
        )

    def _resumable(self, states: TableSlice) -> tuple[Covered, Inputs] | None:
        """Returns what states cover, if that is unchanged, and the inputs of the rule's texts."""
        inputs = {REPLAY_STATE.name: states}
        kept = Kept.of(self.engine, self.recording, self.steps.name, self.steps.sums, inputs)
        if kept is None or kept.covered.is_late(self.basis.readings[self.recording]):
            return None
        covered, sums = kept.covered, self._sums(kept)
        now = self._covered(covered.until_us, sums, covered.replayed_apart, covered)
        return (covered, sums) if now == covered else None

    def _sums(self, kept: Kept | None = None) -> Inputs:
        """Returns the inputs of the rule's texts: what was kept and what later ingests add."""
        return {
            name: summed(self.engine, self.steps.sum(name), self.recording, name, kept)
            for name in self.steps.sums
        }

    def _covered(
        self, until_us: int, sums: Inputs, apart: tuple[str, ...], seen: Covered | None = None
    ) -> Covered:
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
            epochs[INGESTED_FILES.name] = last_ingest(self.basis.readings[self.recording])
        later = {
            table.name: TableSlice(table, commits.of_epochs_after(files, epochs[table.name]))
            for table, files in followed.items()
        }
        phases = phases_table({self.recording: settings.steady_phases[self.recording]})
        text = self.steps.text("dependencies", given=sums, until_us=until_us)
        inputs = {"phases": phases, **sums, **later}
        depends = self.engine.rows(text, [self.recording], inputs).to_pylist()
        return Covered(
            identity=self.basis.identity(self.steps, self.recording),
            part=fingerprint(depends, gaps),
            until_us=until_us,
            epochs=epochs,
            is_growing=True,
            replayed_apart=apart,
        )

    def _complete(self, saved: _Saved) -> None:
        """Repeats the last write of a run that was killed right before it."""
        since, step = {self.recording: saved.epoch}, self.steps.step
        writing = self.engine.warehouse.writing(step.name, since, step.writes)
        writing.begin({REPLAY_STATE: {self.recording: saved.states_epoch}})
        for table in self.steps.outcomes:
            writing.append(table, (), since)
        writing.end({self.recording: str(saved.covered)})

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
    resumed = saved.covered if saved else growing
    apart = resumed.replayed_apart if resumed else basis.parts(steps, wanted)
    if apart and not resumed:
        # Without states to go on from, those of a task have the leader that they follow in common.
        tasks = min(engine.cores, len(apart))
        apart = tuple(",".join(apart[first::tasks]) for first in range(tasks))
    increment = Increment(saved.covered.until_us if saved else None, growing, apart or ("",))
    writing = engine.warehouse.writing(steps.name, wanted, steps.step.writes)
    inputs = {**sums, REPLAY_STATE.name: saved.files[0]} if saved else sums
    how = writing.files(), increment, inputs
    files = yield from replayed(engine.warehouse, steps, basis.settings, wanted, *how)
    if growing and any(file.table == REPLAY_STATE.name for file in files):
        of_sums, (recording,) = writing.files(), wanted
        write_states(of_sums, recording, steps.name, growing, packed(sums))
        files += of_sums.closed()
    writing.begin({REPLAY_STATE: dict.fromkeys(wanted, saved.states_epoch)} if saved else {})
    is_anew = saved is None or not saved.is_last
    if is_anew:
        writing.replace_states(stay=saved.paths() if saved else ())
    for table in steps.outcomes:
        if saved:
            writing.append(table, files, dict.fromkeys(wanted, saved.epoch))
        else:
            writing.replace(table, files)
    if saved or growing:
        stay = saved.paths(_OLDER_STATES) if saved and growing else ()
        writing.replace_states(files, is_anew, stay)
    writing.end({name: str(covered) for name, covered in wanted.items()})
