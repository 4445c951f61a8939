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

* States are beside what they follow from: the moment, the ingest that they have seen, the rule
  with its settings, and a hash of its ``dependencies``. Whether data came late shows in what
  later ingests state of themselves in ``ingested_files``; no line is read again for it. If
  anything but the moment is not as it was, or a state is not as it was saved (its checksum), the
  states of the increment before are taken, and outcomes of later epochs are taken out. Without any,
  everything is replayed from the typed tables, in place of what was there: slower, never wrong.
* A run writes outcomes first and states last. Files that are of a later epoch than the states are
  what a killed run has left; the next commit takes them out (``warehouse.commits``). A replay from
  the beginning drops the states before it touches an outcome.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kip_replay.pipelines.engines import NO_INPUTS, Engine, Inputs, TableSlice
from kip_replay.pipelines.ingest.line_accounting import read_spans
from kip_replay.pipelines.replaying.kept import Kept, packed, summed, write_states
from kip_replay.pipelines.replaying.phases import phases_table
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.replaying.seam import WHOLE_LOG, Increment, replayed
from kip_replay.pipelines.replaying.states import FollowsFrom, is_late
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.lineage import fingerprint
from kip_replay.replay.tables import REPLAY_STATE

if TYPE_CHECKING:
    from kip_replay.pipelines.replaying.replay import Rules

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
    """States that can be resumed: until when, what they follow from, and in which epoch.

    ``files``: theirs, and those of states before them. ``is_last``: nothing was replayed since.
    ``states_epoch``: the last epoch of any states. ``sums``: what the rule's texts are given, of
    all ingests until now.
    """

    until_us: int
    follows_from: str
    epoch: int
    files: Sequence[TableSlice]
    is_last: bool
    states_epoch: int
    sums: Inputs

    def paths(self, most: int | None = None) -> list[str]:
        """Returns paths of the files with the last states of these."""
        return [file["path"] for states in self.files[:most] for file in states.files]


class GrowingReplay:
    def __init__(self, steps: RuleTexts, engine: Engine, recording: str, rules: Rules) -> None:
        self._steps, self._engine, self._recording = steps, engine, recording
        self._warehouse = engine.warehouse
        self._rules = rules
        self._identity = rules.identity(steps, recording)
        self._files = rules.files_of(recording)

    def advance(self, until_us: int, rebuild: bool = False) -> bool:
        """Replays up to a time and saves the states; whether there was anything to do."""
        saved = None if rebuild else self._saved()
        lineage = self._warehouse.lineage([self._recording])
        stated = lineage.get((self._recording, self._steps.name))
        if saved:
            until_us = max(until_us, saved.until_us)
        if saved and saved.is_last and saved.until_us == until_us:
            if stated is None:
                self._complete(saved)
            return stated is None
        sums = saved.sums if saved else self._sums()
        follows_from = self._follows_from(until_us, sums)
        if not (saved or rebuild):
            # Closed, and nothing is new; or nothing in the log is for this rule, so that there are
            # no states.
            closed = self._rules.follows_from(self._steps, self._recording)
            if stated in (closed, follows_from):
                return False
        self._replay(saved, until_us, follows_from, sums)
        return True

    def close(self, follows_from: str) -> bool:
        """Replays what is left from saved states on; False where there are none to resume from."""
        saved = self._saved()
        if saved is None:
            return False
        self._replay(saved, None, follows_from, saved.sums)
        return True

    def _saved(self) -> _Saved | None:
        """The last states that can be resumed: what comes late leaves those of before it."""
        if not self._warehouse.exists(REPLAY_STATE):
            return None
        delta, name = self._warehouse.open(REPLAY_STATE), self._steps.name
        last, of_epochs = commits.epoch_in(delta, name, self._recording), defaultdict(list)
        there = commits.files_of(delta, [self._recording])
        for file in commits.of_step(there, REPLAY_STATE, name):
            of_epochs[commits.epoch_in_name(file["path"])].append(file)
        epochs = sorted(of_epochs, reverse=True)
        files = [TableSlice(REPLAY_STATE, of_epochs[epoch]) for epoch in epochs]
        for place, epoch in enumerate(epochs):
            is_usable = epoch and (place == 0 or not self._is_merged_since(files[place]))
            if found := is_usable and self._resumable(files[place]):
                saved, sums = found
                how = (epoch, files[place:], place == 0, last, sums)
                return _Saved(saved.until_us, str(saved), *how)
        return None

    def _is_merged_since(self, states: TableSlice) -> bool:
        """Returns whether maintenance has put outcomes together that may be of later epochs."""
        saved_ms = min(file["modification_time"] for file in states.files)
        return any(
            not commits.epoch_in_name(file["path"])
            and file["modification_time"] > saved_ms - _CLOCKS_APART_MS
            for table in self._steps.outcomes
            for file in self._warehouse.files(table, [self._recording])
        )

    def _resumable(self, states: TableSlice) -> tuple[FollowsFrom, Inputs] | None:
        """Returns what states follow from, if unchanged, and the inputs of the rule's texts."""
        of, given = (self._steps.name, self._steps.sums), {REPLAY_STATE.name: states}
        kept = Kept.of(self._engine, self._recording, *of, given)
        if kept is None or is_late(self._files, kept.saved):
            return None
        saved, sums = kept.saved, self._sums(kept)
        is_as_it_was = self._follows_from(saved.until_us, sums, saved) == str(saved)
        return (saved, sums) if is_as_it_was else None

    def _sums(self, kept: Kept | None = None) -> Inputs:
        """Returns the inputs of the rule's texts: what was kept and what later ingests add."""
        return {
            name: summed(self._engine, self._steps.sum(name), self._recording, name, kept)
            for name in self._steps.sums
        }

    def _follows_from(self, until_us: int, sums: Inputs, seen: FollowsFrom | None = None) -> str:
        """States what rows up to a time follow from: the ingests seen, the rule, its dependencies.

        Of ``seen``, what the states have seen already; else all that is there now.
        """
        settings = self._rules.settings
        phase = settings.steady_phases[self._recording]
        gaps = [g for g in settings.log_gaps.get(self._recording, ()) if g.after_us <= until_us]
        text = self._steps.text("dependencies", given=sums, until_us=until_us)
        followed = {
            table: self._warehouse.files(table, [self._recording])
            for rule in self._rules.followed(self._steps)
            for table in rule.outcomes
        }
        last = max(map(commits.last_epoch, followed.values()), default=0)
        followed_epoch = seen.followed_epoch if seen else last
        later = {
            table.name: TableSlice(table, commits.of_epochs_after(files, followed_epoch))
            for table, files in followed.items()
        }
        phases = phases_table({self._recording: phase})
        inputs = {"phases": phases, **sums, **later}
        depends = self._engine.rows(text, [self._recording], inputs).to_pylist()
        ingest_epoch = seen.ingest_epoch if seen else self._ingest_epoch
        found = fingerprint(depends, gaps)
        return str(FollowsFrom(until_us, ingest_epoch, followed_epoch, self._identity, found))

    @property
    def _ingest_epoch(self) -> int:
        return int(max(file["ingest_epoch"] for file in self._files))

    def _complete(self, saved: _Saved) -> None:
        """The last write of a run that was killed right before it."""
        since, tables = {self._recording: saved.epoch}, (*self._steps.outcomes, REPLAY_STATE)
        writing = self._warehouse.writing(self._steps.name, since, tables)
        writing.begin({REPLAY_STATE: {self._recording: saved.states_epoch}})
        for table in self._steps.outcomes:
            writing.append(table, (), since)
        writing.end({self._recording: saved.follows_from})

    def _replay(
        self, saved: _Saved | None, until_us: int | None, follows_from: str, sums: Inputs
    ) -> None:
        increment = Increment(saved.until_us if saved else None, until_us, follows_from)
        wanted = {self._recording: follows_from}
        write_outcomes(self._steps, self._engine, self._rules, wanted, increment, saved, sums)


def write_outcomes(
    steps: RuleTexts,
    engine: Engine,
    rules: Rules,
    wanted: Mapping[str, str],
    increment: Increment = WHOLE_LOG,
    saved: _Saved | None = None,
    sums: Inputs = NO_INPUTS,
) -> None:
    """Replays recordings; outcomes replace what was there, or go on from saved states.

    ``wanted``: what they follow from. A whole log leaves no states. ``sums``: what the rule's texts
    are given, and what is kept beside the states.
    """
    writing = engine.warehouse.writing(steps.name, wanted, (*steps.outcomes, REPLAY_STATE))
    inputs = {**sums, REPLAY_STATE.name: saved.files[0]} if saved else sums
    files = replayed(engine, steps, rules.settings, wanted, writing.files(), increment, inputs)
    is_growing = increment.until_us is not None
    if increment.until_us is not None and any(file.table == REPLAY_STATE.name for file in files):
        of_sums, (recording,) = writing.files(), wanted
        as_of = increment.follows_from, increment.until_us
        write_states(of_sums, recording, steps.name, *as_of, packed(sums))
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
    if saved or is_growing:
        stay = saved.paths(_OLDER_STATES) if saved and is_growing else ()
        writing.replace_states(files, is_anew, stay)
    writing.end(wanted)
