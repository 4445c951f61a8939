"""Replays the rules on recordings: what is not of today's code, settings and logs, and only that.

``lineage`` has for each recording and rule what its outcomes follow from. A recording that is
complete is replayed from beginning to end, all such recordings at once. One that grows is replayed
by increments (``increments``).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kip_replay.pipelines import progress
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying.clock_words import sentences
from kip_replay.pipelines.replaying.clocks import find_clock_bounds, nodes_apart
from kip_replay.pipelines.replaying.gap_words import gap_sentences
from kip_replay.pipelines.replaying.held import find_what_held
from kip_replay.pipelines.replaying.increments import GrowingReplay, finalized, write_outcomes
from kip_replay.pipelines.replaying.log_gaps import find_log_gaps, log_gaps
from kip_replay.pipelines.replaying.phases import steady_phases
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.warehouse.lineage import contents, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import INGESTED_FILES, LOG_GAPS
from kip_replay.replay.rule import Settings
from kip_replay.replay.tables import CLOCK_BOUNDS

Say = Callable[[str], object]
Options = Mapping[str, Mapping[str, Any]]
#: ``replay.evidence_s`` of conf/defaults.toml.
EVIDENCE_S = 120.0


def voters_of(recording: Recording) -> tuple[int, ...]:
    """Voter ids: what the manifest states, else its controllers. Raises UserError if neither."""
    voters = recording.voters or recording.controller_ids
    if not voters:
        raise UserError(
            f"recording {recording.name!r} does not say who votes: add "
            '"voters": [controller ids] to its recording.json, or give --voters'
        )
    return tuple(sorted(voters))


def replay(
    recordings: Sequence[Recording],
    engine: Engine,
    steps_of_rules: Sequence[RuleTexts],
    options: Options,
    say: Say = print,
    rebuild: bool = False,
    evidence_s: float = EVIDENCE_S,
) -> None:
    """Replays each rule for the recordings whose outcomes are not today's, to the end of the logs.

    A recording that grew is resumed from its saved states. ``rebuild``: everything is replayed
    anew from the typed tables. ``evidence_s``: how long after the beginning of its log a line may
    still tell what held then.
    """
    names = [recording.name for recording in recordings]
    look_into(recordings, engine, evidence_s, say)
    rules = Rules(recordings, engine, steps_of_rules, options)
    lineage = engine.warehouse.lineage(names)
    current = []
    for steps in steps_of_rules:
        wanted = {name: rules.follows_from(steps, name) for name in names}
        stale = [n for n in names if rebuild or lineage.get((n, steps.name)) != wanted[n]]
        if not stale:
            current.append(steps.name)
            continue
        say(f"replay {steps.name}: {', '.join(stale)}")
        progress.stage(f"replay {steps.name}")
        growing = {n: GrowingReplay(steps, engine, n, rules) for n in stale}
        anew = [n for n in stale if rebuild or not growing[n].close(wanted[n])]
        if anew:
            write_outcomes(steps, engine, rules, {name: wanted[name] for name in anew})
    if current:
        say(f"replay {', '.join(current)}: outcomes are those of these logs and rules already")


def replay_what_is_new(
    recordings: Sequence[Recording],
    engine: Engine,
    steps_of_rules: Sequence[RuleTexts],
    options: Options,
    late_after_s: float,
    say: Say = print,
    rebuild: bool = False,
    evidence_s: float = EVIDENCE_S,
) -> None:
    """Replays recordings that go on growing, as far as their logs are complete.

    ``late_after_s``: how long after an event its line may still be written. ``rebuild``: saved
    states are not used. ``evidence_s``: as in ``replay``; nothing is replayed before.
    """
    ingested = engine.warehouse.rows(INGESTED_FILES, [r.name for r in recordings]).to_pylist()
    of = {r.name: [row for row in ingested if row["recording"] == r.name] for r in recordings}
    until = {name: finalized(files, late_after_s, evidence_s) for name, files in of.items()}
    complete_until = {n: each.until_us for n, each in until.items() if each}
    look_into(recordings, engine, evidence_s, say, complete_until)
    rules = Rules(recordings, engine, steps_of_rules, options)
    for recording in recordings:
        name = recording.name
        complete = until[name]
        if complete is None:
            say(f"replay {name}: nothing was logged yet")
            continue
        done = []
        for steps in steps_of_rules:
            behind_us = sum(rule.behind_us for rule in rules.followed(steps))
            growing = GrowingReplay(steps, engine, name, rules)
            progress.stage(f"replay {steps.name}")
            if growing.advance(complete.until_us - behind_us, rebuild):
                done.append(steps.name)
        waits = f", waits for more of node {', '.join(map(str, complete.waits_for))}"
        say(
            f"replay {name} until {datetime.fromtimestamp(complete.until_us / 1e6, UTC):%F %T} UTC"
            f"{waits if complete.waits_for else ''}: {', '.join(done) or 'nothing is new'}"
        )


def look_into(
    recordings: Sequence[Recording],
    engine: Engine,
    evidence_s: float,
    say: Say,
    complete: Mapping[str, int] | None = None,
) -> None:
    """Finds gaps in logs, and clocks that are apart, and says what to know of them.

    ``complete``: of recordings that grow, until when their logs are complete; UTC microseconds.
    """
    warehouse = engine.warehouse
    names, voters = [r.name for r in recordings], {r.name: voters_of(r) for r in recordings}
    find_log_gaps(engine, voters, complete is None)
    find_clock_bounds(engine, voters, complete)
    find_what_held(engine, voters, round(evidence_s * 1e6))
    bounds = warehouse.rows(CLOCK_BOUNDS, names).sort_by("node_id").to_pylist()
    gaps = warehouse.rows(LOG_GAPS, names).to_pylist()
    for sentence in (*gap_sentences(gaps), *sentences(bounds)):
        say(f"warning: {sentence}")


class Rules:
    def __init__(
        self,
        recordings: Sequence[Recording],
        engine: Engine,
        rules: Sequence[RuleTexts],
        options: Options,
    ) -> None:
        warehouse, self._rules = engine.warehouse, rules
        names = [r.name for r in recordings]
        self._ingested = warehouse.rows(INGESTED_FILES, names).to_pylist()
        self._contents = contents(self._ingested, names)
        self.settings = Settings(
            voters={r.name: voters_of(r) for r in recordings},
            facts={r.name: r.facts for r in recordings},
            steady_phases=steady_phases(engine, names),
            log_gaps=log_gaps(warehouse, names),
            clocks_apart=nodes_apart(warehouse.rows(CLOCK_BOUNDS, names).to_pylist()),
            options=options,
        )

    def files_of(self, recording: str) -> list[dict[str, Any]]:
        return [row for row in self._ingested if row["recording"] == recording]

    def followed(self, steps: RuleTexts) -> list[RuleTexts]:
        return [rule for rule in self._rules if rule.name in steps.follows]

    def identity(self, steps: RuleTexts, recording: str) -> str:
        parts = [
            (each.name, each.code(), self.settings.identity(each.rule, recording))
            for each in (steps, *self.followed(steps))
        ]
        return fingerprint(*parts)

    def follows_from(self, steps: RuleTexts, recording: str) -> str:
        gaps = self.settings.log_gaps.get(recording, ())
        return fingerprint(self.identity(steps, recording), self._contents[recording], gaps)


def require_replayed(
    warehouse: Warehouse, recordings: Collection[str], rules: Sequence[RuleTexts]
) -> dict[str, list[str]]:
    lineage = warehouse.lineage(recordings)
    found = {name: [lineage.get((name, steps.name)) for steps in rules] for name in recordings}
    for name, of_rules in found.items():
        if None in of_rules:
            raise UserError(
                f"the warehouse {warehouse.path} has no outcomes of a recording {name!r}: run "
                "kip-replay run (or kip-replay replay) on it with this --warehouse first"
            )
    return {name: [text for text in of_rules if text] for name, of_rules in found.items()}
