"""Outcomes to summaries, and predictions beside what brokers did: what is not current, as lineage
tells. One Spark job for latencies, one for bandwidth; DuckDB judges the predictions.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import permutations

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from kip_replay.pipelines.analysis.accuracy import prediction_accuracy
from kip_replay.pipelines.analysis.phases import Phases, log_spans, steady_phases
from kip_replay.pipelines.analysis.summaries import (
    LatencySummaries,
    latency_histogram,
    outside_holes,
    per_second,
)
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying.log_gaps import log_gaps
from kip_replay.pipelines.replaying.replay import require_replayed
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.lineage import code_of, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse, written
from kip_replay.replay.tables import (
    BANDWIDTH_SUMMARY,
    LATENCY_CURVES,
    LATENCY_SUMMARY,
    PREDICTION_ACCURACY,
)

Say = Callable[[str], object]
Pair = tuple[str, str]
#: The step of ``lineage`` that sums up a recording.
SUMMARIES = "summaries"
_TABLES = (LATENCY_SUMMARY, LATENCY_CURVES, BANDWIDTH_SUMMARY)


def accuracy_step(recorded_in: str) -> str:
    """The step of ``lineage`` that judges predictions of one recording by another."""
    return f"accuracy/{recorded_in}"


def summarize(
    recordings: Sequence[str], warehouse: Warehouse, pairs: Iterable[Pair], say: Say = print
) -> None:
    """Summaries of recordings, and the accuracy of pairs (predicted_from, recorded_in).

    Both of a pair are among ``recordings``; a pair of one and the same is a self-check.
    """
    made_of = require_replayed(warehouse, recordings)
    modules = [
        f"{s.package}.{name}" for s in RULES for name in ("measures", "judgement", "figures")
    ]
    code = code_of((__name__, *modules))
    lineage = warehouse.lineage(recordings)
    summed = {name: fingerprint(code, made_of[name]) for name in recordings}
    held = {pair: fingerprint(code, [made_of[name] for name in pair]) for pair in pairs}
    stale = [name for name in recordings if lineage.get((name, SUMMARIES)) != summed[name]]
    unjudged = [
        (before, after)
        for (before, after), text in held.items()
        if lineage.get((before, accuracy_step(after))) != text
    ]
    if not stale and not unjudged:
        say("summarize: summaries are those of these outcomes already")
        return
    say(f"summarize: {', '.join(recordings)}")
    phases = steady_phases(warehouse, recordings)
    if stale:
        _summarize(warehouse, {name: summed[name] for name in stale}, phases)
    if unjudged:
        _judge(warehouse, {pair: held[pair] for pair in unjudged}, phases)


def _summarize(warehouse: Warehouse, wanted: dict[str, str], phases: Phases) -> None:
    read = warehouse.reader(wanted)
    warehouse.prepare([table for steps in RULES for table in steps.outcomes], wanted)
    writing = warehouse.writing(SUMMARIES, wanted, _TABLES)
    values = _union(steps.latencies(read, phases) for steps in RULES if steps.latencies)
    gaps = log_gaps(warehouse, wanted)
    known = outside_holes(read, gaps, warehouse.spark)
    ways = _union(steps.bandwidth(known, phases) for steps in RULES if steps.bandwidth)
    rates = per_second(ways, gaps, phases)
    drawn, headlines = (
        frozenset(pair for steps in RULES for pair in getattr(steps.figures, name))
        for name in ("CURVES", "HEADLINES")
    )
    spans = log_spans(warehouse, wanted)
    task = LatencySummaries(writing.files(), drawn, headlines, spans)
    files = [
        *written(latency_histogram(values, spans, headlines), task),
        *writing.write(BANDWIDTH_SUMMARY, rates),
    ]
    writing.begin()
    for table in _TABLES:
        writing.replace(table, files)
    writing.end(wanted)


def _judge(warehouse: Warehouse, wanted: dict[Pair, str], phases: Phases) -> None:
    judgements = {steps.name: steps.judgement for steps in RULES}
    with warehouse.database({name for pair in wanted for name in pair}) as database:
        found = prediction_accuracy(database, judgements, phases, wanted)
    for after in dict.fromkeys(after for _, after in wanted):
        of_pairs = {before: text for (before, of), text in wanted.items() if of == after}
        writing = warehouse.writing(accuracy_step(after), of_pairs, [PREDICTION_ACCURACY])
        writing.begin()
        mine = found.filter(pc.equal(found.column("recorded_in"), after))
        writing.replace_rows(PREDICTION_ACCURACY, mine, {"recorded_in": [after]})
        writing.end(of_pairs)


def comparable_pairs(recordings: Sequence[Recording]) -> list[Pair]:
    """Self-checks, and pairs of recordings of one workload, both ways.

    A manifest names the workload by ``scenario`` and ``seed``: two recordings that share both show
    the same operations on two clusters, so a prediction from one can be judged by the other.
    """
    workloads = {r.name: (r.extra.get("scenario"), r.extra.get("seed")) for r in recordings}
    crossed = [
        (one, other)
        for one, other in permutations(workloads, 2)
        if None not in workloads[one] and workloads[one] == workloads[other]
    ]
    return [*((name, name) for name in workloads), *crossed]


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
