"""Replays the rules on recordings: what is not of today's code, settings and logs, and only that.

A recording that is complete is replayed from beginning to end, all such recordings at once. One
that grows is replayed by increments (``increments``).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from kip_replay.pipelines import progress
from kip_replay.pipelines.engines import Engine, Feeding, Out, Steps
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying.clocks import clock_sentences, find_clock_bounds
from kip_replay.pipelines.replaying.increments import (
    Basis,
    Finalized,
    GrowingReplay,
    Options,
    Say,
    finalized,
    voters_of,
    write_outcomes,
)
from kip_replay.pipelines.replaying.log_gaps import find_log_gaps, find_what_held, gap_sentences
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.warehouse.steps import Covered, readings_of, requests_in
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import LogGaps
from kip_replay.replay.tables import ClockBounds

#: ``replay.evidence_s`` of conf/defaults.toml.
EVIDENCE_S = 120.0


def replay(
    recordings: Sequence[Recording],
    engine: Engine,
    steps_of_rules: Sequence[RuleTexts],
    options: Options,
    say: Say = print,
    evidence_s: float = EVIDENCE_S,
    late_after_s: float | None = None,
) -> None:
    """Replays each rule for the recordings whose outcomes are not today's.

    A recording that grew is resumed from its saved states. ``evidence_s``: how long after the
    beginning of its log a line may still tell what held then. ``late_after_s``: recordings go on
    growing, and are replayed as far as their logs are complete; so long after an event its line may
    still be written. None: they are closed, and replayed to the end.
    """
    if late_after_s is None:
        look_into(recordings, engine, evidence_s, say)
        _close(Basis(recordings, engine, steps_of_rules, options), engine, steps_of_rules, say)
        return
    readings = readings_of(engine.warehouse, [recording.name for recording in recordings])
    until = {n: finalized(files, late_after_s, evidence_s) for n, files in readings.items()}
    complete = {name: moment for name, moment in until.items() if moment}
    complete_us = {name: covered.until_us for name, covered in complete.items()}
    look_into(recordings, engine, evidence_s, say, complete_us)
    basis = Basis(recordings, engine, steps_of_rules, options)
    for name in until:
        if name not in complete:
            say(f"replay {name}: nothing was logged yet")
            continue
        _advance(basis, engine, name, complete[name], steps_of_rules, say)


def _close(basis: Basis, engine: Engine, rules: Sequence[RuleTexts], say: Say) -> None:
    steps, current = dict[str, Feeding[None]](), []
    for rule in rules:
        wanted = {name: basis.covered(rule, name) for name in basis.readings}
        due = rule.step.due(engine.warehouse, wanted)
        if not due:
            current.append(rule.name)
            continue
        of_due = {name: wanted[name] for name in due}
        steps[rule.name] = _closed(rule, engine, basis, of_due, say)
    _beside(engine, basis, steps, rules, is_growing=False)
    if current:
        say(f"replay {', '.join(current)}: outcomes are those of these logs and rules already")


def _closed(
    rule: RuleTexts,
    engine: Engine,
    basis: Basis,
    wanted: Mapping[str, Covered],
    say: Say,
) -> Feeding[None]:
    """Replays recordings to the end, from saved states on where there are any."""
    say(f"replay {rule.name}: {', '.join(wanted)}")
    anew = {}
    for name, covered in wanted.items():
        growing = GrowingReplay(rule, engine, name, basis)
        if not (yield from growing.close(covered)):
            anew[name] = covered
    if anew:
        yield from write_outcomes(rule, engine, basis, anew)


def _beside(
    engine: Engine,
    basis: Basis,
    steps: Mapping[str, Feeding[Out]],
    rules: Sequence[RuleTexts],
    *,
    is_growing: bool,
) -> dict[str, Out]:
    after = {rule.name: [name for name in rule.file.follows if name in steps] for rule in rules}
    requests = requests_in(basis.readings, newest=is_growing)
    return engine.beside(Steps(steps, requests, after))


def _advance(
    basis: Basis,
    engine: Engine,
    recording: str,
    complete: Finalized,
    rules: Sequence[RuleTexts],
    say: Say,
) -> None:
    steps = {}
    for rule in rules:
        behind_us = sum(followed.rule.behind_us for followed in basis.followed(rule))
        growing = GrowingReplay(rule, engine, recording, basis)
        steps[rule.name] = growing.advance(complete.until_us - behind_us)
    returned = _beside(engine, basis, steps, rules, is_growing=True)
    done = [name + how for name in steps if (how := returned[name]) is not None]
    waits = f", waits for more of node {', '.join(map(str, complete.waits_for))}"
    say(
        f"replay {recording} until {datetime.fromtimestamp(complete.until_us / 1e6, UTC):%F %T} UTC"
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
    progress.running("(log gaps, clocks)")
    warehouse = engine.warehouse
    names, voters = [r.name for r in recordings], {r.name: voters_of(r) for r in recordings}
    find_log_gaps(engine, voters, complete is None)
    find_clock_bounds(engine, voters, complete)
    find_what_held(engine, voters, round(evidence_s * 1e6))
    bounds = warehouse.rows(ClockBounds, names).sort_by("node_id").to_pylist()
    gaps = warehouse.rows(LogGaps, names).to_pylist()
    for sentence in (*gap_sentences(gaps), *clock_sentences(bounds)):
        say(f"warning: {sentence}")


def require_replayed(
    warehouse: Warehouse, recordings: Collection[str], rules: Sequence[RuleTexts]
) -> None:
    """Raises UserError where a rule has not replayed one of the recordings."""
    lineage = warehouse.lineage(recordings)
    for name in recordings:
        if any((name, rule.name) not in lineage for rule in rules):
            raise UserError(
                f"the warehouse {warehouse.path} has no outcomes of a recording {name!r}: run "
                "kip-replay run (or kip-replay replay) on it with this --warehouse first"
            )
