"""Outcomes to summaries, and predictions beside what brokers did: what is not current, as lineage
tells.

What files of outcomes give adds up. So sums of a log that grows go on from latency_histograms and
bandwidth_summary, and count the files of later epochs; those that maintenance has merged are old.
Where anything that they have counted may be another now, they begin anew: slower, never wrong.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, permutations
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.analysis.accuracy import Judgement, prediction_accuracy
from kip_replay.pipelines.analysis.intervals import block_us, errors
from kip_replay.pipelines.analysis.summaries import (
    BandwidthSummaries,
    LatencySummaries,
    bandwidth_summaries,
    latency_summaries,
)
from kip_replay.pipelines.engines import Engine, Steps, TableSlice
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying.log_gaps import log_gaps
from kip_replay.pipelines.replaying.replay import require_replayed
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.replaying.states import Phases, log_spans, steady_phases
from kip_replay.pipelines.rule_files import RULES_ERRORS, of_rules, rule_headlines
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    Step,
    StepKind,
    fingerprint,
    inputs_of,
    readings_of,
    requests_in,
)
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.records import SteadyPhase
from kip_replay.replay.table import Table
from kip_replay.replay.tables import (
    BandwidthSummary,
    LatencyCurves,
    LatencyHistograms,
    LatencySummary,
    PairedDifferences,
    PredictionAccuracy,
)

Files: TypeAlias = Mapping[Table, Sequence[Mapping[str, Any]]]


class Counted(Covered, frozen=True, omit_defaults=True, kw_only=True):
    """States what sums cover, and how long the blocks of time are that they are of."""

    block_us: int = 0


@dataclass(frozen=True)
class OutcomeFiles:
    """Files of a recording's outcomes, with the last epoch of each table."""

    files: Files
    epochs: dict[str, int]

    @classmethod
    def read(cls, warehouse: Warehouse, tables: Iterable[Table], recording: str) -> Self:
        files = {table: warehouse.files(table, [recording]) for table in tables}
        return cls(files, {table.name: commits.last_epoch(its) for table, its in files.items()})

    def new_to(self, counted: Counted) -> Files:
        epochs = counted.epochs
        return {t: commits.of_epochs_after(its, epochs[t.name]) for t, its in self.files.items()}

    @property
    def last_us(self) -> int:
        """Bounds the times of the rows from above, by the statistics of their files."""
        times = (
            file.get(f"max.{column.name}")
            for table, files in self.files.items()
            for column in table.columns
            if pa.types.is_timestamp(column.type)
            for file in files
        )
        return max((microseconds(at) for at in times if at is not None), default=0)

    def counted(
        self, now: Covered, block_us: int, phase: SteadyPhase, gaps: Collection[LogGap]
    ) -> Counted:
        """States what sums of all these outcomes cover."""
        counted = Counted(
            identity=now.identity,
            inputs=now.inputs,
            until_us=self.last_us,
            epochs=self.epochs,
            block_us=block_us,
        )
        return msgspec.structs.replace(counted, part=self.part(counted, phase, gaps))

    def goes_on_from(
        self, before: Counted | None, now: Counted, phase: SteadyPhase, gaps: Collection[LogGap]
    ) -> Counted | None:
        """Returns what is counted, if sums of these can go on from it; None: they begin anew."""
        if before is None or before.identity != now.identity:
            return None
        is_same = before.part == self.part(before, phase, gaps)
        return before if is_same and now.block_us % before.block_us == 0 else None

    def part(self, counted: Counted, phase: SteadyPhase, gaps: Collection[LogGap]) -> str:
        """Fingerprints what those of the outcomes that are counted depend on, as it is now."""
        until_us = min(phase.until_us, counted.until_us + 1)
        begun = sorted(gap for gap in gaps if gap.after_us < counted.until_us)
        new = self.new_to(counted)
        rows = {table.name: _rows(files) - _rows(new[table]) for table, files in self.files.items()}
        return fingerprint(phase.from_us, until_us, begun, rows)


def _rows(files: Iterable[Mapping[str, Any]]) -> int:
    return sum(file["num_records"] for file in files)


# --- the steps

Say = Callable[[str], object]
Pair = tuple[str, str]
#: The step of ``lineage`` that sums up a recording.
SUMMARIES = "summaries"
#: What the steps' names begin with that judge predictions.
ACCURACY = "accuracy"
SUMMARY_TABLES = (
    LatencyHistograms,
    LatencySummary,
    LatencyCurves,
    BandwidthSummary,
    PairedDifferences,
)
#: Kinds of groups that headlines have bounds of too: a row for each broker.
_OF_NODES = ("node_id", "replica_id")


@dataclass(frozen=True, kw_only=True)
class SummedRule(RuleTexts):
    """A rule whose outcomes are summed up, and whose predictions are judged (``judgement``)."""

    @property
    def latencies(self) -> list[Pair]:
        """Metrics of these with their kind of group: they have curves and bounds."""
        pairs = [(row["metric"], row["group_kind"]) for row in rule_headlines(self.name)]
        return [pair for pair in pairs if pair[0] not in self.traffic_errors]

    @property
    def traffic_errors(self) -> dict[str, str]:
        """The metric of prediction_accuracy that shows the error of an amount of traffic."""
        amounts = ("fetches", "bytes", "partitions")
        stated = [row for row in rule_headlines(self.name) if row["metric"] in amounts]
        return {row["metric"]: row["self_check"] for row in stated}

    @property
    def ratios(self) -> list[str]:
        """Amounts of traffic that the change makes a share of what the same requests took."""
        return [row["metric"] for row in rule_headlines(self.name) if row.get("is_ratio")]

    @cached_property
    def judgement(self) -> Judgement:
        return Judgement.read(self.texts, self.file.tolerances, self.constants)


def accuracy_step(recorded_in: str) -> str:
    """Names the step of ``lineage`` that judges predictions of one recording by another."""
    return f"{ACCURACY}/{recorded_in}"


def steps_of(rules: Sequence[SummedRule]) -> tuple[Step, Step]:
    """Declares the step that sums up outcomes, and the one that judges predictions."""
    stated = (*of_rules("*.sql"), *of_rules("rule.toml"), RULES_ERRORS)
    sums = Step(
        name=SUMMARIES,
        kind=StepKind.SUMS,
        reads=tuple(table for rule in rules for table in rule.outcomes),
        writes=SUMMARY_TABLES,
        modules=(__name__,),
        files=(*Path(__file__).parent.glob("*.sql"), *stated),
    )
    judged = replace(sums, name=ACCURACY, kind=StepKind.WHOLE, writes=(PredictionAccuracy,))
    return sums, judged


def summarize(
    recordings: Sequence[str],
    engine: Engine,
    rules: Sequence[SummedRule],
    pairs: Iterable[Pair],
    say: Say = print,
    recent: Warehouse | None = None,
) -> None:
    """Summaries of recordings, and the accuracy of pairs (predicted_from, recorded_in).

    Both of a pair are among ``recordings``; a pair of one and the same is a self-check. Accuracy is
    of ``recent``, the recent part of those that grow.
    """
    warehouse = engine.warehouse
    require_replayed(warehouse, recordings, rules)
    sums, _ = steps_of(rules)
    stated = [(rule.latencies, rule.traffic_errors, rule.ratios) for rule in rules]
    identity, lineage = fingerprint(sums.code(), stated), warehouse.lineage(recordings)
    recent, replays = recent or warehouse, [rule.name for rule in rules]
    replayed = {name: inputs_of(lineage, name, replays) for name in recordings}
    since = {name: str(recent.recent.get(name)) for name in recordings}
    wanted = {n: Covered(identity=identity, inputs=text) for n, text in replayed.items()}
    unsummed = {name: wanted[name] for name in sums.due(warehouse, wanted)}
    unjudged = {}
    for before, after in pairs:
        inputs = fingerprint([(replayed[name], since[name]) for name in (before, after)])
        judged = Covered(identity=identity, inputs=inputs)
        if judged.is_due(Covered.stated(lineage.get((before, accuracy_step(after))))):
            unjudged[before, after] = str(judged)
    if not unsummed and not unjudged:
        say("summarize: summaries are those of these outcomes already")
        return
    say(f"summarize: {', '.join(recordings)}")
    phases = steady_phases(engine, recordings)
    if unsummed:
        counted = {n: Counted.stated(lineage.get((n, SUMMARIES))) for n in unsummed}
        _summarize(engine, rules, unsummed, phases, counted)
    if unjudged:
        _judge(engine, rules, unjudged, phases, recent)


def _summarize(
    engine: Engine,
    rules: Sequence[SummedRule],
    wanted: Mapping[str, Covered],
    phases: Phases,
    before: Mapping[str, Counted | None],
) -> None:
    """Sums up recordings; ``wanted``: what their sums follow from, ``before``: what is counted."""
    warehouse = engine.warehouse
    writing = warehouse.writing(SUMMARIES, wanted, SUMMARY_TABLES)
    drawn = frozenset(pair for rule in rules for pair in rule.latencies)
    headlines = drawn | {(metric, kind) for metric, _ in drawn for kind in _OF_NODES}
    phases, spans = {name: phases[name] for name in wanted}, log_spans(engine, wanted)
    known = {steps.name: errors(steps.name) for steps in rules}
    of_latencies = LatencySummaries(writing.files(), drawn, headlines, spans, known)
    metrics = {steps.name: steps.traffic_errors for steps in rules}
    ratios = {steps.name: steps.ratios for steps in rules}
    of_bandwidth = BandwidthSummaries(writing.files(), spans, known, metrics, ratios)
    latencies, bandwidth = (
        [steps.text(name) for steps in rules if name in steps.texts]
        for name in ("latencies", "bandwidth")
    )
    gaps = log_gaps(warehouse, wanted)
    read = {name for text in (*latencies, *bandwidth) for name in text.names}
    tables = [table for steps in rules for table in steps.outcomes if table.name in read]
    slices: dict[Table, list[Mapping[str, Any]]] = defaultdict(list)
    covered, blocks = {}, {}
    for name, now in wanted.items():
        outcomes = OutcomeFiles.read(warehouse, tables, name)
        of_time = phases[name], gaps.get(name, ())
        counted = outcomes.counted(now, block_us(*spans[name]), *of_time)
        if gone_on := outcomes.goes_on_from(before[name], counted, *of_time):
            blocks[name] = gone_on.block_us
        for table, files in (outcomes.new_to(gone_on) if gone_on else outcomes.files).items():
            slices[table] += files
        covered[name] = str(counted)
    for table in (LatencyHistograms, BandwidthSummary):
        slices[table] = [*warehouse.files(table, blocks)]
    inputs = {table.name: TableSlice(table, files) for table, files in slices.items()}
    sums = {
        "latencies": latency_summaries(latencies, phases, of_latencies, inputs),
        "bandwidth": bandwidth_summaries(bandwidth, phases, gaps, of_bandwidth, inputs, blocks),
    }
    # Of what their replays take, sums take a tenth.
    requests = requests_in(readings_of(warehouse, wanted), newest=bool(blocks)) // 10
    written = [*chain(*engine.beside(Steps(sums, requests)).values())]
    writing.begin()
    for table in SUMMARY_TABLES:
        writing.replace(table, written)
    writing.end(covered)


def _judge(
    engine: Engine,
    rules: Sequence[SummedRule],
    wanted: dict[Pair, str],
    phases: Phases,
    recent: Warehouse,
) -> None:
    warehouse = engine.warehouse
    judgements = {steps.name: steps.judgement for steps in rules}
    begins = {name: microseconds(moment) for name, moment in recent.recent.items()}
    parts = {
        name: phase._replace(from_us=min(max(phase.from_us, begins.get(name, 0)), phase.until_us))
        for name, phase in phases.items()
    }
    judged = prediction_accuracy(engine.on(recent), judgements, parts, wanted)
    for after in dict.fromkeys(after for _, after in wanted):
        of_pairs = {pair[0]: text for pair, text in wanted.items() if pair[1] == after}
        writing = warehouse.writing(accuracy_step(after), of_pairs, [PredictionAccuracy])
        writing.begin()
        mine = judged.filter(pc.equal(judged.column("recorded_in"), after))
        writing.replace_rows(PredictionAccuracy, mine, {"recorded_in": [after]})
        writing.end(of_pairs)


def comparable_pairs(recordings: Sequence[Recording]) -> list[Pair]:
    """Self-checks, and pairs of recordings of one workload both ways: their manifests have the same
    ``scenario`` and ``seed``, so the prediction from one can be judged by the other."""
    workloads = {r.name: (r.extra.get("scenario"), r.extra.get("seed")) for r in recordings}
    crossed = [
        (first, other)
        for first, other in permutations(workloads, 2)
        if None not in workloads[first] and workloads[first] == workloads[other]
    ]
    return [*((name, name) for name in workloads), *crossed]
