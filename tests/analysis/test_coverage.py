"""How often the intervals of headlines hold what another span shows: prints docs/coverage.md.

PYTHONPATH=tests:. python -m analysis.test_coverage WAREHOUSE RECORDING...
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, groupby, product
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from small_logs import REPOSITORY
from truth import all_judged

from kip_replay.jobs import run
from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.intervals import (
    Drawn,
    Error,
    Figure,
    Histogram,
    Interval,
    Used,
    error_of,
)
from kip_replay.pipelines.analysis.summaries import (
    KEY,
    added_up,
    headline_figures,
    histograms,
    latency_histogram,
    traffic_figures,
)
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.ingest.recording import Recording, load_recordings
from kip_replay.pipelines.replaying.phases import log_spans, steady_phases
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.tables import BANDWIDTH_SUMMARY
from tools.accuracy import largest
from tools.docs import DOCS, fill

_STEPS = {steps.name: steps for steps in RULES}
#: Neither producers nor delays between brokers change their figures.
_OF_CONTROLLERS = ("hwm_parking", "lowest_acked_offset")


class Name(NamedTuple):
    """Of a headline: ``metric`` is the metric of its errors, if any."""

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
    order = [(name, "ascending") for name in (*KEY, "block")]
    ordered = engine.rows(plain, names, inputs).sort_by(order).combine_chunks()
    found: dict[tuple[str, Name], Variants] = defaultdict(dict)
    for group, rows in histograms(map(added_up, ordered.to_batches()), spans):
        recording, metric = group["recording"], group["metric"]
        if (metric, group["group_kind"]) in pairs:
            own = {group["variant"]: Histogram(rows)}
            value = "" if group["group_value"] == "all" else f" {group['group_value']}"
            for _, name, figures in headline_figures(metric, own, spans[recording]):
                found[recording, Name(group["rule"], name, f"{name}{value}")] |= figures
    return found


def traffic(warehouse: Warehouse, names: Collection[str]) -> Found:
    """The headlines of bandwidth_summary: of all clients, partitions of followers."""
    found = {}
    rows = warehouse.rows(BANDWIDTH_SUMMARY, names).to_pylist()
    plain = sorted((row for row in rows if row["parameter"] == "none"), key=_RECORDING)
    for (recording, rule), of in groupby(plain, _RECORDING):
        metrics = _STEPS[rule].traffic_errors
        for group, figures in traffic_figures([*of], _STEPS[rule].ratios):
            amount = group["metric"]
            wanted = "follower" if amount == "partitions" else "all"
            if amount in metrics and group["group_value"] == wanted:
                found[recording, Name(rule, metrics[amount], amount)] = figures
    return found


_RECORDING = itemgetter("recording", "rule")
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
        elif name.rule in _OF_CONTROLLERS and _kind(one) == _kind(other):
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
            change = other_after.change_from(other, one.figures[0])
            yield "differences", interval, float(change[0])


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
    columns = [*product(_WHATS, _HOWS)]
    lines = [f"| rule | figure | {' | '.join(map(', '.join, columns))} | width |"]
    lines.append(f"|---|---|{'--:|' * (len(columns) + 1)}")
    groups: dict[tuple[int, str, str], list[Held]] = defaultdict(list)
    for one in held:
        rule, name = one.name.rule, one.name.name
        for group in ((0, rule, name), (1, rule, "all"), (2, "all", "all")):
            groups[group].append(one)
    for (_, rule, name), of in sorted(groups.items(), key=itemgetter(0)):
        parts = [[one.holds for one in of if (one.what, one.how) == each] for each in columns]
        cells = [f"{sum(part)} of {len(part)}" if part else "" for part in parts]
        width = median(one.width for one in of if one.what == "figures")
        lines.append(f"| {' | '.join((rule, name, *cells))} | {width:.0%} |")
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

    first = sorted({*map(workload, recordings)})[::2]
    return (
        [one for one in recordings if workload(one) in first],
        [one for one in recordings if workload(one) not in first],
    )


def measured(warehouse: Warehouse, recordings: Sequence[Recording]) -> list[Held]:
    names = [one.name for one in recordings]
    found = {**latencies(warehouse, names), **traffic(warehouse, names)}
    kinds = (Kind.OTHER_CLUSTER, Kind.SELF_CHECK)
    rows = [row for row in all_judged(warehouse, recordings) if row["kind"] in kinds]
    one, other = halves(recordings)
    return [
        each
        for judged, fitted in ((one, other), (other, one))
        for each in coverage(found, rows, judged, [of.name for of in fitted])
    ]


@pytest.mark.slow
def test_intervals_hold_in_nine_cases_of_ten(tmp_path: Path) -> None:
    folders = [*REPOSITORY.glob("data/samples/*"), *REPOSITORY.glob("tests/recordings/*")]
    where = ["--warehouse", str(tmp_path), "--engine", "local", "--quiet"]
    assert run.main([*map(str, folders), *where]) == 0
    held = measured(Warehouse(tmp_path), load_recordings(folders))
    for what in _WHATS:
        holds = [one.holds for one in held if one.what == what]
        assert sum(holds) > 0.89 * len(holds) > 1000, what
    assert page(held) in (DOCS / "coverage.md").read_text("utf-8"), "print it: make docs"


if __name__ == "__main__":
    fill(
        DOCS / "coverage.md", page(measured(Warehouse(sys.argv[1]), load_recordings(sys.argv[2:])))
    )
