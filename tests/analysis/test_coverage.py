"""How often the intervals of headlines hold what another span shows: prints docs/coverage.md.

PYTHONPATH=tests:. python -m analysis.test_coverage WAREHOUSE RECORDING...
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations, groupby, product
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow.compute as pc
import pytest
from small_logs import PLACES
from truth import all_judged

from kip_replay.pipelines.analysis.intervals import (
    Error,
    Figure,
    Histogram,
    Interval,
    Used,
    error_of,
)
from kip_replay.pipelines.analysis.summaries import (
    KEY,
    headline_figures,
    histograms,
    traffic_figures,
)
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import Recording, load_recordings
from kip_replay.pipelines.replaying.states import log_spans
from kip_replay.pipelines.rule_files import Kind
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.records import RECORDED
from kip_replay.replay.tables import BandwidthSummary, LatencyHistograms
from tools.accuracy import largest
from tools.docs import DOCS, fill

_STEPS = {steps.name: steps for steps in RULES}
#: Neither producers nor delays between brokers change their figures.
_OF_CONTROLLERS = ("hwm_parking", "lowest_acked_offset")
#: The rule of a headline, the metric of its errors, and its name.
Name: TypeAlias = tuple[str, str, str]
#: Figures of headlines by recording and variant.
Found: TypeAlias = Mapping[Name, dict[str, dict[str, Figure]]]
_RECORDING = itemgetter("recording", "rule")
_HOWS = ("halves", "one workload", "one kind")
_WHATS = ("figures", "differences")


def headlines(warehouse: Warehouse, names: Collection[str]) -> Found:
    """Those of latencies, and of traffic: of all clients, partitions of followers."""
    found: dict[Name, dict[str, dict[str, Figure]]] = defaultdict(lambda: defaultdict(dict))
    spans = log_spans(Local(warehouse), names)
    counted = warehouse.rows(LatencyHistograms, names).filter(pc.field("block_us") > 0)
    counted = counted.sort_by([(name, "ascending") for name in (*KEY, "block")]).combine_chunks()
    for group, rows in histograms(counted.to_batches(), spans):
        if (group["metric"], group["group_kind"]) not in _STEPS[group["rule"]].latencies:
            continue
        recording, own = group["recording"], {group["variant"]: Histogram(rows)}
        value = "" if group["group_value"] == "all" else f" {group['group_value']}"
        for _, name, figures in headline_figures(group["metric"], own, spans[recording]):
            found[group["rule"], name, f"{name}{value}"][recording] |= figures
    traffic = warehouse.rows(BandwidthSummary, names).to_pylist()
    plain = sorted((row for row in traffic if row["parameter"] == "none"), key=_RECORDING)
    for (recording, rule), of in groupby(plain, _RECORDING):
        metrics = _STEPS[rule].traffic_errors
        for group, figures in traffic_figures([*of], _STEPS[rule].ratios):
            amount = group["metric"]
            wanted = "follower" if amount == "partitions" else "all"
            if amount in metrics and group["group_value"] == wanted:
                found[rule, metrics[amount], amount][recording] = figures
    return found


class Held(NamedTuple):
    what: str
    how: str
    rule: str
    name: str
    holds: bool
    width: float


def coverage(
    found: Found,
    rows: Sequence[Mapping[str, Any]],
    recordings: Sequence[Recording],
    fitted: Collection[str],
) -> Iterator[Held]:
    """The intervals of recordings, held; how far predictions are off, those of ``fitted`` say."""
    ran = {(row["rule"], row["predicted_from"], row["recorded_in"]): row["variant"] for row in rows}
    known = [row for row in rows if {row["predicted_from"], row["recorded_in"]} <= {*fitted}]
    errors = {
        rule: {key: Error(*off) for key, (_, *off, _) in largest(known, steps).items()}
        for rule, steps in _STEPS.items()
    }
    for ((rule, metric, name), of), one, other in product(found.items(), recordings, recordings):
        if not {one.name, other.name} <= of.keys():
            continue
        before, after = of[one.name], of[other.name]
        blocks, later_blocks = _used(before), _used(after)
        own, runs = (ran.get((rule, one.name, ran_in.name)) for ran_in in (other, one))
        pairs = [(before[v], after[v], Error()) for v in before if v in after]
        if one is other:
            how, used = "halves", blocks
            blocks = used & (np.cumsum(used) <= used.sum() // 2)
            later_blocks = used & ~blocks
        elif own in before and RECORDED in after:
            how = "one workload"
            pairs = [(before[own], after[RECORDED], error_of(errors[rule], own, metric))]
            # What it saves, where these brokers ran another.
            if own != runs and RECORDED in before and runs in after:
                pairs.append((before[RECORDED], after[runs], Error()))
        elif rule in _OF_CONTROLLERS and _kind(one) == _kind(other):
            how = "one kind"
        else:
            continue
        for what, interval, value in _compared(pairs, blocks, later_blocks):
            width = (interval.high - interval.low) / abs(value) if value else 0.0
            holds = interval.low <= value <= interval.high
            yield Held(what, how, rule, name, holds, width)


def _compared(
    pairs: Sequence[tuple[Figure, Figure, Error]], blocks: Used, later_blocks: Used
) -> Iterator[tuple[str, Interval, float]]:
    """Intervals of some blocks, and what the others show."""
    drawn = [(a.drawn(blocks, error), b.drawn(later_blocks, Error())) for a, b, error in pairs]
    both = [(one, other) for one, other in drawn if one and other]
    for one, other in both:
        if interval := one.interval:
            yield "figures", interval, float(other.figures[0])
    for (one, other), (one_after, other_after) in combinations(both, 2):
        if interval := one_after.less(one):
            change = other_after.change_from(other, one.figures[0])
            yield "differences", interval, float(change[0])


def _used(figures: Mapping[str, Figure]) -> Used:
    used: Used = np.any([of.used for of in figures.values()], axis=0)
    return used


def _kind(one: Recording) -> tuple[object, ...]:
    return one.extra.get("scenario"), (one.kafka_version or "").split(".")[:2]


def _workload(one: Recording) -> tuple[str, ...]:
    return tuple(str(one.extra.get(name, one.name)) for name in ("scenario", "seed"))


def page(held: Sequence[Held]) -> str:
    """A table of rules and figures, and the totals."""
    columns = [*product(_WHATS, _HOWS)]
    lines = [f"| rule | figure | {' | '.join(map(', '.join, columns))} | width |"]
    lines.append(f"|---|---|{'--:|' * (len(columns) + 1)}")
    groups: dict[tuple[int, str, str], list[Held]] = defaultdict(list)
    for one in held:
        for group in ((0, one.rule, one.name), (1, one.rule, "all"), (2, "all", "all")):
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


def measured(warehouse: Warehouse, recordings: Sequence[Recording]) -> list[Held]:
    """Fitted on every other workload, and held against the others; and the other way round."""
    found = headlines(warehouse, [one.name for one in recordings])
    kinds = (Kind.OTHER_CLUSTER, Kind.SELF_CHECK)
    rows = [row for row in all_judged(warehouse, recordings) if row["kind"] in kinds]
    works = [[*of] for _, of in groupby(sorted(recordings, key=_workload), _workload)]
    one, other = ([*chain(*works[first::2])] for first in (0, 1))
    return [
        each
        for judged, fitted in ((one, other), (other, one))
        for each in coverage(found, rows, judged, [of.name for of in fitted])
    ]


@pytest.mark.slow
def test_intervals_hold_in_nine_cases_of_ten(every_recording: Warehouse) -> None:
    folders = [path for place in PLACES for path in place.iterdir()]
    held = measured(every_recording, load_recordings(folders))
    for what in _WHATS:
        holds = [one.holds for one in held if one.what == what]
        assert sum(holds) > 0.89 * len(holds) > 1000, what
    assert page(held) in (DOCS / "coverage.md").read_text("utf-8"), "print it: make docs"


if __name__ == "__main__":
    recordings = load_recordings(sys.argv[2:])
    fill(DOCS / "coverage.md", page(measured(Warehouse(sys.argv[1]), recordings)))
