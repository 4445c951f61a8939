"""The steps of a run between ingest and report: replay and summarize, each idempotent.

A step writes each table of each recording in one transaction that carries a fingerprint of what
the rows follow from. Where the fingerprints are today's, nothing is done; a run that was killed
between two tables is completed by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines import accuracy, hwm_parking, summaries
from pipelines.errors import UserError
from pipelines.fingerprint import REPORT_MODULES, contents, fingerprint
from pipelines.phases import steady_phases
from pipelines.recording import Recording
from pipelines.warehouse import WRITERS, Warehouse
from replay.rules import HWM_PARKING, Settings
from replay.schema import (
    BANDWIDTH_SUMMARY,
    BROKER_HEARTBEATS,
    FETCH_PARKING_OUTCOMES,
    FETCHES,
    HIGH_WATERMARK_LAG,
    LATENCY_SUMMARY,
    PREDICTION_ACCURACY,
    REQUESTS,
    Table,
)

Say = Callable[[str], object]
Pair = tuple[str, str]
RULE = HWM_PARKING.name
_OUTCOMES = (FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG)


@dataclass(frozen=True)
class ReplaySettings:
    """What replays are told by the configuration. ``max_wait_ms``: values of a sweep."""

    max_wait_ms: tuple[int, ...] = ()


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
) -> None:
    """Replays hwm_parking for recordings whose outcomes are not today's."""
    logs = contents(warehouse, [r.name for r in recordings])
    wanted = {
        r.name: fingerprint(RULE, logs.get(r.name), voters_of(r), settings.max_wait_ms)
        for r in recordings
    }
    stale = _stale(warehouse, _OUTCOMES, wanted)
    if not stale:
        say("replay hwm_parking: outcomes are those of these logs and rules already")
        return
    say(f"replay hwm_parking: {', '.join(stale)}")
    told = Settings({r.name: voters_of(r) for r in recordings}, settings.max_wait_ms)
    fetches = warehouse.read(FETCHES).where(F.col("recording").isin(stale))
    replayed = hwm_parking.replayed_hwm_parking(fetches, told).persist(StorageLevel.MEMORY_AND_DISK)
    phases = _phases(warehouse, stale).persist()
    try:
        rows = {
            FETCH_PARKING_OUTCOMES: hwm_parking.fetch_parking_outcomes(replayed),
            HIGH_WATERMARK_LAG: hwm_parking.high_watermark_lag(replayed, phases),
        }
        _write(warehouse, _per_recording(rows, {name: wanted[name] for name in stale}))
    finally:
        replayed.unpersist()
        phases.unpersist()


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
    outcomes = warehouse.read(FETCH_PARKING_OUTCOMES).where(F.col("recording").isin([*recordings]))
    lags = warehouse.read(HIGH_WATERMARK_LAG).where(F.col("recording").isin([*recordings]))
    own = accuracy.own_variants(outcomes)
    made_of = {
        name: [warehouse.fingerprint_of(table, _scope(name)) for table in _OUTCOMES]
        for name in recordings
    }
    for name, marks in made_of.items():
        if None in marks:
            raise UserError(
                f"the warehouse {warehouse.path} has no outcomes of a recording {name!r}: "
                "run jobs.run (or jobs.replay) on it with this --warehouse first"
            )
    wanted = {name: fingerprint(RULE, made_of[name]) for name in recordings}
    asked = {pair: fingerprint(RULE, [made_of[name] for name in pair]) for pair in pairs}
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
    phases = _phases(warehouse, recordings).persist()
    latencies = summaries.latency_summary(
        summaries.hwm_parking_latencies(outcomes, lags, phases)
    ).persist()
    try:
        sums = {
            LATENCY_SUMMARY: latencies,
            BANDWIDTH_SUMMARY: summaries.hwm_parking_bandwidth(outcomes, phases),
        }
        measures = accuracy.hwm_parking_measures(outcomes, lags, latencies, phases).persist()
        explained = accuracy.answers_explained(outcomes)
        predicted = accuracy.predictions(spark, measures, explained, own, open_pairs).persist()
        held = [
            Write(PREDICTION_ACCURACY, _of_pair(predicted, pair), _pair_scope(pair), asked[pair])
            for pair in open_pairs
        ]
        _write(warehouse, [*_per_recording(sums, {name: wanted[name] for name in stale}), *held])
        predicted.unpersist()
        measures.unpersist()
    finally:
        latencies.unpersist()
        phases.unpersist()


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


def _phases(warehouse: Warehouse, recordings: Sequence[str]) -> DataFrame:
    chosen = F.col("recording").isin([*recordings])
    return steady_phases(
        warehouse.read(REQUESTS).where(chosen), warehouse.read(BROKER_HEARTBEATS).where(chosen)
    )


def _stale(warehouse: Warehouse, tables: Sequence[Table], wanted: Mapping[str, str]) -> list[str]:
    """Recordings of which some table is not what ``wanted`` says it should be."""
    return [
        name
        for name, mark in wanted.items()
        if not all(warehouse.is_current(table, _scope(name), mark) for table in tables)
    ]


class Write(NamedTuple):
    """One transaction: these rows in the place of all rows of a scope."""

    table: Table
    rows: DataFrame
    scope: Mapping[str, str]
    fingerprint: str


def _per_recording(rows: Mapping[Table, DataFrame], wanted: Mapping[str, str]) -> Iterator[Write]:
    """Each table of each recording."""
    for table, of_all in rows.items():
        for name, mark in wanted.items():
            yield Write(table, of_all.where(F.col("recording") == name), _scope(name), mark)


def _write(warehouse: Warehouse, writes: Iterable[Write]) -> None:
    """Several at a time: starting a write costs more than a small write."""
    at_once = list(writes)
    warehouse.create_missing_tables({write.table for write in at_once})
    with ThreadPoolExecutor(WRITERS) as pool:
        for written in [pool.submit(warehouse.replace, *write) for write in at_once]:
            written.result()


def _scope(recording: str) -> dict[str, str]:
    return {"recording": recording, "rule": RULE}


def _of_pair(predicted: DataFrame, pair: Pair) -> DataFrame:
    return predicted.where((F.col("predicted_from") == pair[0]) & (F.col("recorded_in") == pair[1]))


def _pair_scope(pair: Pair) -> dict[str, str]:
    return {"recording": pair[0], "rule": RULE, "recorded_in": pair[1]}
