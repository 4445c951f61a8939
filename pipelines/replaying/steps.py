"""The steps of a run between ingest and report: replay and summarize, each idempotent.

A step writes each table in one transaction, which says of every recording in it what its rows
follow from (a fingerprint). Where the fingerprints are today's, nothing is done; a run that was
killed between two tables is completed by the next one. A recording that grows is replayed piece by
piece (``pipelines.replaying.increments``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import permutations
from typing import NamedTuple

from kip_replay.pipelines.analysis.accuracy import judged, wanted_pairs
from kip_replay.pipelines.analysis.phases import steady_phases
from kip_replay.pipelines.analysis.summaries import Read, latency_summary
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying.increments import CarriedReplay, settled
from kip_replay.pipelines.replaying.seam import WHOLE_LOG
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.rules.registration import RuleSteps
from kip_replay.pipelines.warehouse.fingerprint import REPORT_MODULES, contents, fingerprint
from kip_replay.pipelines.warehouse.tables import WRITERS, Scope, Warehouse, Written
from kip_replay.replay.rules import Settings
from kip_replay.replay.schema import (
    BANDWIDTH_SUMMARY,
    BROKER_HEARTBEATS,
    LATENCY_SUMMARY,
    PREDICTION_ACCURACY,
    REQUESTS,
    Table,
)
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

Say = Callable[[str], object]
Pair = tuple[str, str]


@dataclass(frozen=True)
class ReplaySettings:
    """What replays are told by the configuration; tuples are the values of sweeps."""

    max_wait_ms: tuple[int, ...] = ()
    session_slots: tuple[int, ...] = ()
    min_insync_replicas: tuple[int, ...] = ()
    broker_heartbeat_interval_ms: tuple[int, ...] = ()
    draft_partition_id_is_string: bool = False
    lowest_acked_counts_stopping: bool = False


def voters_of(recording: Recording) -> tuple[int, ...]:
    """Voter ids: what the manifest says, else its controllers. Raises UserError if neither."""
    voters = recording.voters or recording.controller_ids
    if not voters:
        raise UserError(
            f"recording {recording.name!r} does not say who votes: add "
            '"voters": [controller ids] to its recording.json, or give --voters'
        )
    return tuple(sorted(voters))


def replay(
    recordings: Sequence[Recording],
    warehouse: Warehouse,
    settings: ReplaySettings,
    say: Say = print,
    rebuild: bool = False,
) -> None:
    """Replays each rule for the recordings whose outcomes are not today's, to the end of the logs.

    A recording that grew is gone on with from its saved states. ``rebuild``: everything is replayed
    anew from the typed tables.
    """
    names = [recording.name for recording in recordings]
    logs = contents(warehouse, names)
    told = _settings(recordings, settings)
    done = []
    for steps in RULES:
        wanted = {
            name: fingerprint(steps.name, logs.get(name), told.of(name, steps.rule.settings))
            for name in names
        }
        stale = names if rebuild else _stale(warehouse, steps.outcomes, wanted, steps.name)
        if not stale:
            done.append(steps.name)
            continue
        say(f"replay {steps.name}: {', '.join(stale)}")
        anew = stale if rebuild else _not_closed(steps, warehouse, stale, wanted, told)
        if anew:
            _replay_rule(steps, warehouse, {name: wanted[name] for name in anew}, told)
        for name in anew:
            CarriedReplay(steps, warehouse, name, told).forget()
    if done:
        say(f"replay {', '.join(done)}: outcomes are those of these logs and rules already")


def _not_closed(
    steps: RuleSteps,
    warehouse: Warehouse,
    recordings: Sequence[str],
    wanted: Mapping[str, str],
    told: Settings,
) -> list[str]:
    """Closes the recordings that have states to go on from; those that have none are left."""
    return [
        name
        for name in recordings
        if not CarriedReplay(steps, warehouse, name, told).close(wanted[name])
    ]


def replay_what_is_new(
    recordings: Sequence[Recording],
    warehouse: Warehouse,
    settings: ReplaySettings,
    late_after_s: float,
    say: Say = print,
    rebuild: bool = False,
) -> None:
    """Replays recordings that go on growing, as far as their logs are complete.

    ``late_after_s``: how long after an event its line may still be written. ``rebuild``: saved
    states are not used.
    """
    told = _settings(recordings, settings)
    for recording in recordings:
        name = recording.name
        complete = settled(warehouse.read(REQUESTS, {"recording": name}), late_after_s)
        if complete is None:
            say(f"replay {name}: nothing was logged yet")
            continue
        done = []
        for steps in RULES:
            late_us = round(late_after_s * 1_000_000) * steps.rules_before
            carried = CarriedReplay(steps, warehouse, name, told)
            if carried.advance(complete.until_us - late_us, rebuild):
                done.append(steps.name)
        waits = f", waits for more of node {', '.join(map(str, complete.waits_for))}"
        say(
            f"replay {name} until {datetime.fromtimestamp(complete.until_us / 1e6, UTC):%F %T} UTC"
            f"{waits if complete.waits_for else ''}: {', '.join(done) or 'nothing is new'}"
        )


def _replay_rule(
    steps: RuleSteps, warehouse: Warehouse, wanted: Mapping[str, str], told: Settings
) -> None:
    read = _reader(warehouse, list(wanted))
    replayed = steps.replayed(read, told, WHOLE_LOG).persist(StorageLevel.MEMORY_AND_DISK)
    phases = _phases(read).persist()
    try:
        rows = steps.rows(replayed, phases)
        scopes = [Written(_scope(name, steps.name), mark) for name, mark in wanted.items()]
        _write(warehouse, [Write(table, rows[table], scopes) for table in steps.outcomes])
    finally:
        replayed.unpersist()
        phases.unpersist()


def _settings(recordings: Sequence[Recording], settings: ReplaySettings) -> Settings:
    """What the rules are told: the configuration, and what manifests say that logs can't."""
    replicas = {r.name: r.min_insync_replicas for r in recordings}
    intervals = {r.name: r.broker_heartbeat_interval_ms for r in recordings}
    return Settings(
        voters={r.name: voters_of(r) for r in recordings},
        default_min_insync_replicas={n: v for n, v in replicas.items() if v is not None},
        recorded_heartbeat_interval_ms={n: v for n, v in intervals.items() if v is not None},
        **vars(settings),
    )


def summarize(
    spark: SparkSession,
    recordings: Sequence[str],
    warehouse: Warehouse,
    pairs: Iterable[Pair],
    say: Say = print,
) -> None:
    """Summaries of recordings, and the accuracy of pairs (predicted_from, recorded_in).

    Both of a pair are among ``recordings``; a pair of one and the same is a self-check.
    """
    made_of = {name: _outcome_marks(warehouse, name) for name in recordings}
    wanted = {name: fingerprint(marks) for name, marks in made_of.items()}
    asked = {pair: fingerprint([made_of[name] for name in pair]) for pair in pairs}
    stale = _stale(warehouse, (LATENCY_SUMMARY, BANDWIDTH_SUMMARY), wanted)
    open_pairs = [
        pair
        for pair, mark in asked.items()
        if not warehouse.is_current(PREDICTION_ACCURACY, _pair_scope(pair), mark)
    ]
    if not stale and not open_pairs:
        say("summarize: summaries are those of these outcomes already")
        return
    say(f"summarize: {', '.join(recordings)}")
    read = _reader(warehouse, recordings)
    phases = _phases(read).persist()
    values = [steps.latencies(read, phases) for steps in RULES if steps.latencies]
    latencies = latency_summary(_union(values)).persist()
    fresh = F.col("recording").isin(stale)
    scopes = [Written(_scope(name), wanted[name]) for name in stale]
    writes = []
    if stale:
        ways = [steps.bandwidth(read, phases) for steps in RULES if steps.bandwidth]
        writes = [
            Write(LATENCY_SUMMARY, latencies.where(fresh), scopes),
            Write(BANDWIDTH_SUMMARY, _union(ways).where(fresh), scopes),
        ]
    if open_pairs:
        held = _predictions(spark, read, latencies, phases, open_pairs)
        of_pairs = [Written(_pair_scope(pair), asked[pair]) for pair in open_pairs]
        writes.append(Write(PREDICTION_ACCURACY, held, of_pairs))
    try:
        _write(warehouse, writes)
    finally:
        latencies.unpersist()
        phases.unpersist()


def _predictions(
    spark: SparkSession,
    read: Read,
    latencies: DataFrame,
    phases: DataFrame,
    pairs: Sequence[Pair],
) -> DataFrame:
    """Rows of prediction_accuracy of all rules."""
    wanted = wanted_pairs(spark, pairs)
    return _union(
        judged(
            spark,
            steps.predictions(read, latencies.where(F.col("rule") == steps.name), phases, wanted),
            steps.tolerances,
        )
        for steps in RULES
    )


def _outcome_marks(warehouse: Warehouse, recording: str) -> list[str | None]:
    """Fingerprints of a recording's outcomes. Raises UserError where it was not replayed."""
    marks = [
        warehouse.fingerprint_of(table, _scope(recording, steps.name))
        for steps in RULES
        for table in steps.outcomes
    ]
    if None in marks:
        raise UserError(
            f"the warehouse {warehouse.path} has no outcomes of a recording {recording!r}: "
            "run jobs.run (or jobs.replay) on it with this --warehouse first"
        )
    return marks


def report_mark(
    recordings: Sequence[str], warehouse: Warehouse, kafka_versions: Mapping[str, str]
) -> str | None:
    """Fingerprint of a report on recordings; None where a table was not written by ``summarize``.

    A page with this mark would come out the same.
    """
    summed = [
        warehouse.fingerprint_of(table, _scope(name))
        for table in (LATENCY_SUMMARY, BANDWIDTH_SUMMARY)
        for name in recordings
    ]
    held = [
        warehouse.fingerprint_of(PREDICTION_ACCURACY, _pair_scope((one, other)))
        for one in recordings
        for other in recordings
    ]
    if None in summed:
        return None
    told = (list(recordings), dict(kafka_versions))
    return fingerprint(told, summed, held, modules=REPORT_MODULES)


def comparable_pairs(recordings: Sequence[Recording]) -> list[Pair]:
    """Self-checks, and pairs of recordings of one workload, both ways.

    A manifest names the workload by ``scenario`` and ``seed``: two recordings that share both show
    the same operations on two clusters, so a prediction from one can be held against the other.
    """
    workloads = {r.name: (r.extra.get("scenario"), r.extra.get("seed")) for r in recordings}
    crossed = [
        (one, other)
        for one, other in permutations(workloads, 2)
        if None not in workloads[one] and workloads[one] == workloads[other]
    ]
    return [*((name, name) for name in workloads), *crossed]


def _reader(warehouse: Warehouse, recordings: Sequence[str]) -> Read:
    chosen = F.col("recording").isin([*recordings])
    return lambda table: warehouse.read(table).where(chosen)


def _phases(read: Read) -> DataFrame:
    return steady_phases(read(REQUESTS), read(BROKER_HEARTBEATS))


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _stale(
    warehouse: Warehouse,
    tables: Sequence[Table],
    wanted: Mapping[str, str],
    rule: str | None = None,
) -> list[str]:
    """Recordings of which some table is not what ``wanted`` says it should be."""
    return [
        name
        for name, mark in wanted.items()
        if not all(warehouse.is_current(table, _scope(name, rule), mark) for table in tables)
    ]


class Write(NamedTuple):
    """One transaction: these rows in the place of all rows of some scopes."""

    table: Table
    rows: DataFrame
    written: Sequence[Written]


def _write(warehouse: Warehouse, writes: Sequence[Write]) -> None:
    """Several at a time: starting a write costs more than a small write."""
    warehouse.create_missing_tables({write.table for write in writes})
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(warehouse.replace_all, *write) for write in writes]:
            done.result()


def _scope(recording: str, rule: str | None = None) -> Scope:
    return {"recording": recording} | ({"rule": rule} if rule else {})


def _pair_scope(pair: Pair) -> Scope:
    return {"recording": pair[0], "recorded_in": pair[1]}
