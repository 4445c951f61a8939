"""Prints docs/coverage.md: how often the intervals of headlines hold what another span shows.

python -m tools.coverage WAREHOUSE RECORDING...
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, groupby, product
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.intervals import (
    Drawn,
    Error,
    Figure,
    Histogram,
    Interval,
    Used,
    block_us,
    error_of,
)
from kip_replay.pipelines.analysis.predictions import accuracy_rows
from kip_replay.pipelines.analysis.summaries import (
    PERCENTILES,
    latency_histogram,
    traffic_figures,
)
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.ingest.recording import Recording, load_recordings
from kip_replay.pipelines.replaying.phases import log_spans, steady_phases
from kip_replay.pipelines.replaying.seam import by_key
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.tables import BANDWIDTH_SUMMARY
from tools.accuracy import largest
from tools.printed import DOCS

_STEPS = {steps.name: steps for steps in RULES}


class Name(NamedTuple):
    """Of a headline: ``metric`` is what its errors stand under, if anything does."""

    rule: str
    metric: str
    name: str


#: Figures of a recording by variant.
Variants: TypeAlias = dict[str, Figure]
#: By recording and headline.
Found: TypeAlias = Mapping[tuple[str, Name], Variants]
Rows: TypeAlias = Sequence[Mapping[str, Any]]


def latencies(warehouse: Warehouse, names: Collection[str]) -> Found:
    """The headlines of latency_summary."""
    engine = Local(warehouse)
    spans, phases = log_spans(engine, names), steady_phases(engine, names)
    pairs = {pair for steps in RULES for pair in steps.latencies}
    texts = [steps.text("latencies") for steps in RULES if steps.file("latencies").is_file()]
    counted, inputs = latency_histogram(texts, pairs, phases, spans)
    plain = Text("SELECT * FROM counted WHERE parameter = 'none'", {"counted": counted})
    key = ("recording", "rule", "metric", "group_kind", "group_value", "variant")
    rows = engine.rows(plain, names, inputs)
    ordered = rows.sort_by([(name, "ascending") for name in (*key, "value_us")]).combine_chunks()
    found: dict[tuple[str, Name], Variants] = defaultdict(dict)
    for (recording, rule, metric, kind, group, variant), of in by_key(
        iter(ordered.to_batches()), key
    ):
        if (metric, kind) in pairs:
            histogram, block_s = Histogram(of), block_us(*spans[recording]) / 1e6
            for percentile in ("p50", "p90", "p99"):
                name = f"{metric}_{percentile}"
                named = Name(rule, name, name if group == "all" else f"{name} {group}")
                figure = histogram.figure(PERCENTILES[percentile], block_s)
                found[recording, named][variant] = figure
    return found


def traffic(warehouse: Warehouse, names: Collection[str]) -> Found:
    """The headlines of bandwidth_summary: of all clients, partitions of followers."""
    found = {}
    rows = warehouse.rows(BANDWIDTH_SUMMARY, names).to_pylist()
    plain = sorted((row for row in rows if row["parameter"] == "none"), key=_RECORDING)
    for (recording, rule), of in groupby(plain, _RECORDING):
        metrics = _STEPS[rule].traffic_errors
        for group, figures in traffic_figures([*of]):
            amount = group["metric"]
            wanted = "follower" if amount == "partitions" else "all"
            if amount in metrics and group["group_value"] == wanted:
                found[recording, Name(rule, metrics[amount], amount)] = figures
    return found


_RECORDING = itemgetter("recording", "rule")
_PAGE = DOCS / "coverage.md"
_HEAD = """# How often intervals hold

Printed by `make docs`; do not edit. An interval is to hold what such a cluster shows over another
span as long, in nine cases of ten. Held against what came, of headlines (*figures*) and of what
becomes of them from one variant to another (*differences*):

* *halves*: the first half of each recording predicts its second, under each variant;
* *one workload*: recordings of one `scenario` and `seed` predict each other, under the rule that
  the predicted one's brokers ran; a difference is held against that of both recorded figures;
* *one kind*: so do recordings of one `scenario` and Kafka's minor version, of what controllers do.

The systematic error is out of sample: fitted on one half of the workloads, the intervals are of the
other, and the other way round. Halves need none. *Width*: of the interval, relative to the figure,
median.
"""
_HOWS = ("halves", "one workload", "one kind")
_WHATS = ("figures", "differences")


class Held(NamedTuple):
    what: str
    how: str
    name: Name
    pair: tuple[str, str]
    holds: bool
    width: float


#: A figure by variant; None without enough data.
Spans: TypeAlias = Mapping[str, Drawn | None]


def coverage(
    found: Found, rows: Rows, recordings: Sequence[Recording], fitted: Collection[str]
) -> Iterator[Held]:
    """The intervals of recordings, held; how far predictions are off, those of ``fitted`` say."""
    ran = {(row["rule"], row["predicted_from"], row["recorded_in"]): row["variant"] for row in rows}
    known = [row for row in rows if {row["predicted_from"], row["recorded_in"]} <= {*fitted}]
    errors = {
        rule: {key: Error(*off) for key, (_, *off, _) in largest(known, steps).items()}
        for rule, steps in _STEPS.items()
    }
    names = sorted({name for _, name in found})
    for name, one, other in product(names, recordings, recordings):
        before, after = (found.get((of.name, name), {}) for of in (one, other))
        own = ran.get((name.rule, one.name, other.name))
        if one is other:
            how, spans = "halves", _halves(before)
        elif own in before and RECORDED in after:
            error = error_of(errors[name.rule], own, name.metric)
            runs = ran[name.rule, one.name, one.name]
            how, spans = "one workload", _recorded(before, after, runs, own, error)
        elif _STEPS[name.rule].judgement.of_controllers and _kind(one) == _kind(other):
            how, spans = "one kind", (_whole(before), _whole(after))
        else:
            continue
        for what, interval, value in _compared(*spans):
            width = (interval.high - interval.low) / abs(value) if value else 0.0
            holds = interval.low <= value <= interval.high
            yield Held(what, how, name, (one.name, other.name), holds, width)


def _compared(before: Spans, after: Spans) -> Iterator[tuple[str, Interval, float]]:
    """Intervals of one span, and what the other shows."""
    both = [(of, other) for v, of in before.items() if of and (other := after.get(v))]
    for one, other in both:
        if interval := one.interval:
            yield "figures", interval, float(other.figures[0])
    for (one, other), (one_after, other_after) in combinations(both, 2):
        if interval := one_after.less(one):
            yield "differences", interval, float(other_after.figures[0] - other.figures[0])


def _whole(figures: Variants) -> Spans:
    return {v: of.drawn(_used(figures), Error()) for v, of in figures.items()}


def _halves(figures: Variants) -> tuple[Spans, Spans]:
    used = _used(figures)
    first = used & (np.cumsum(used) <= used.sum() // 2)
    early, late = (
        {v: of.drawn(half, Error()) for v, of in figures.items()} for half in (first, used & ~first)
    )
    return early, late


def _recorded(
    before: Variants, after: Variants, runs: str, own: str, error: Error
) -> tuple[Spans, Spans]:
    """What ``own``, which the other recording's brokers ran, is to show there; and what it saves,
    where these ran another, ``runs``."""
    blocks, predicted = _used(before), {own: before[own].drawn(_used(before), error)}
    recorded = after[RECORDED].drawn(_used(after), Error())
    if own == runs or not {RECORDED} <= before.keys() or runs not in after:
        return predicted, {own: recorded}
    predicted[runs] = before[RECORDED].drawn(blocks, Error())
    return predicted, {own: recorded, runs: after[runs].drawn(_used(after), Error())}


def _used(figures: Variants) -> Used:
    used: Used = np.any([of.used for of in figures.values()], axis=0)
    return used


def page(held: Sequence[Held]) -> str:
    """A table of rules and figures, and the totals."""
    heads = [f"{what}, {how}" for what in _WHATS for how in _HOWS]
    lines = [_HEAD, f"| rule | figure | {' | '.join(heads)} | width |"]
    lines.append(f"|---|---|{'--:|' * (len(heads) + 1)}")

    def row(rule: str, name: str, of: Sequence[Held]) -> str:
        parts = [
            [x.holds for x in of if (x.what, x.how) == each] for each in product(_WHATS, _HOWS)
        ]
        cells = [f"{sum(part)} of {len(part)}" if part else "" for part in parts]
        width = median(one.width for one in of if one.what == "figures")
        return f"| {' | '.join((rule, name, *cells))} | {width:.0%} |"

    def key(one: Held) -> tuple[str, str]:
        return one.name.rule, one.name.name

    ordered = sorted(held, key=key)
    lines += [row(*names, list(of)) for names, of in groupby(ordered, key)]
    for rule, of in groupby(ordered, lambda one: one.name.rule):
        lines.append(row(rule, "all", list(of)))
    lines.append(row("all", "all", ordered))
    for what in _WHATS:
        holds = [one.holds for one in held if one.what == what]
        share = f"{sum(holds)} of {len(holds)} hold, {sum(holds) / len(holds):.1%}"
        lines.append(f"\nOf the intervals of {what}, {share}.")
    return "\n".join(lines) + "\n"


def _kind(one: Recording) -> tuple[object, ...]:
    return one.extra.get("scenario"), (one.kafka_version or "").split(".")[:2]


def halves(recordings: Sequence[Recording]) -> tuple[list[Recording], list[Recording]]:
    """Every other workload, in the order of their names."""

    def workload(one: Recording) -> tuple[str, ...]:
        return tuple(str(one.extra.get(name, one.name)) for name in ("scenario", "seed"))

    workloads = sorted({*map(workload, recordings)})
    first = {*workloads[::2]}
    found: tuple[list[Recording], list[Recording]] = [], []
    for one in recordings:
        found[workload(one) not in first].append(one)
    return found


def main(warehouse: Warehouse, recordings: Sequence[Recording]) -> None:
    names = [one.name for one in recordings]
    found = {**latencies(warehouse, names), **traffic(warehouse, names)}
    told = (Kind.OTHER_CLUSTER, Kind.SELF_CHECK)
    rows = [row for row in accuracy_rows(warehouse, names) if row["kind"] in told]
    one, other = halves(recordings)
    held = [
        each
        for judged, fitted in ((one, other), (other, one))
        for each in coverage(found, rows, judged, [of.name for of in fitted])
    ]
    _PAGE.write_text(page(held), encoding="utf-8")


if __name__ == "__main__":
    main(Warehouse(sys.argv[1]), load_recordings(sys.argv[2:]))
