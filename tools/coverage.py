"""Prints docs/coverage.md: how often the intervals of headlines hold what another span shows.

python -m tools.coverage WAREHOUSE RECORDING...
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, groupby, permutations, product
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow.compute as pc

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.intervals import (
    BLOCKS,
    Error,
    Histogram,
    Integers,
    Interval,
    interval,
)
from kip_replay.pipelines.analysis.predictions import accuracy_rows
from kip_replay.pipelines.analysis.summaries import latency_histogram
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.ingest.recording import Recording, load_recordings
from kip_replay.pipelines.page.values import Traffic
from kip_replay.pipelines.replaying.phases import log_spans, steady_phases
from kip_replay.pipelines.report.data import read_report
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.outcomes import RECORDED
from tools.accuracy import largest
from tools.printed import DOCS

_PERCENTILES = {"p50": 500, "p90": 900, "p99": 990}


@dataclass(frozen=True)
class Latencies:
    """Rows of ``latency_histogram``, and the percentile in thousandths."""

    values: Integers
    block: Integers
    occurs: Integers
    unknown: Integers
    thousandths: int
    block_s: float

    def half(self, second: bool) -> "Latencies | None":
        used = np.flatnonzero(np.bincount(self.block, minlength=BLOCKS) + self.unknown)
        middle = used[len(used) // 2]
        mine, elsewhere = (self.block >= middle) == second, (np.arange(BLOCKS) >= middle) != second
        unknown = np.where(elsewhere, 0, self.unknown)
        found = (self.values[mine], self.block[mine], self.occurs[mine], unknown)
        return Latencies(*found, self.thousandths, self.block_s) if mine.any() else None

    @property
    def _histogram(self) -> Histogram:
        return Histogram(self.values, self.block, self.occurs, self.unknown)

    @property
    def value(self) -> float:
        histogram = self._histogram
        every = np.ones((1, histogram.blocks), np.int64)
        return float(histogram.percentile(self.thousandths, every)[0])

    @property
    def sampling(self) -> Interval | None:
        return self._histogram.interval(self.thousandths, self.block_s)


@dataclass(frozen=True)
class Amount:
    """An amount of traffic, as ``Traffic.sampling`` names it."""

    traffic: Traffic
    name: str

    def half(self, second: bool) -> "Amount":
        part = slice(BLOCKS // 2, None) if second else slice(BLOCKS // 2)
        blocks = tuple(of[part] for of in self.traffic.per_block)
        fetches, span_s = sum(blocks[0]), self.traffic.span_s / 2
        halved = replace(self.traffic, per_block=blocks, fetches=fetches, span_s=span_s)
        return Amount(halved, self.name)

    @property
    def value(self) -> float:
        fetches, partitions, size = map(sum, self.traffic.per_block)
        if self.name == "partitions":
            return partitions / fetches if fetches else 0.0
        return (fetches if self.name == "fetches" else size) / self.traffic.span_s

    @property
    def sampling(self) -> Interval | None:
        return self.traffic.sampling(self.name)


class Figure(NamedTuple):
    """A headline: ``metric`` is what its errors stand under, if anything does."""

    rule: str
    metric: str
    name: str
    is_traffic: bool = False


#: What a figure of a recording is made of, in blocks of time.
Series: TypeAlias = Latencies | Amount
#: By recording, variant and figure.
Found: TypeAlias = dict[tuple[str, str, Figure], Series]


def latencies(warehouse: Warehouse, names: Collection[str]) -> Found:
    """The headlines of latency_summary."""
    engine = Local(warehouse)
    spans, phases = log_spans(engine, names), steady_phases(engine, names)
    pairs = {pair for steps in RULES for pair in steps.figures.HEADLINES}
    texts = [steps.text("latencies") for steps in RULES if steps.file("latencies").is_file()]
    counted, inputs = latency_histogram(texts, pairs, phases, spans)
    plain = Text("SELECT * FROM counted WHERE parameter = 'none'", {"counted": counted})
    rows = engine.rows(plain, names, inputs)
    key = ("recording", "rule", "variant", "metric", "group_kind", "group_value")
    found: Found = {}
    for group in rows.select(key).group_by(key).aggregate([]).to_pylist():
        if (group["metric"], group["group_kind"]) not in pairs:
            continue
        same = (pc.equal(rows.column(name), group[name]) for name in key)
        mine = rows.filter(reduce(pc.and_, same)).sort_by("value_us")
        known = len(mine) - mine.column("value_us").null_count
        block, occurs = (mine.column(name).to_numpy() for name in ("block", "occurs"))
        unknown = np.bincount(block[known:], occurs[known:], BLOCKS).astype(np.int64)
        arrays = mine.column("value_us").drop_null().to_numpy(), block[:known], occurs[:known]
        for name, thousandths in _PERCENTILES.items():
            metric = f"{group['metric']}_{name}"
            of = "" if group["group_value"] == "all" else f" {group['group_value']}"
            figure = Figure(group["rule"], metric, f"{metric}{of}")
            series = Latencies(
                *arrays, unknown, thousandths, spans[group["recording"]].span_s / BLOCKS
            )
            found[group["recording"], group["variant"], figure] = series
    return found


def traffic(warehouse: Warehouse, names: Sequence[str]) -> Found:
    """The headlines of bandwidth_summary."""
    found: Found = {}
    for one in chain(*read_report(warehouse, names).figures.values()):
        for variant, amount in product({key[0] for key in one.traffic}, one.TRAFFIC_ERRORS):
            total = one.total(variant, "follower" if amount == "partitions" else None)
            if total is not None:
                figure = Figure(one.NAME, one.TRAFFIC_ERRORS[amount], amount, True)
                found[one.recording, variant, figure] = Amount(total, amount)
    return found


_PAGE = DOCS / "coverage.md"
_HEAD = """# How often intervals hold

Printed by `make docs`; do not edit. The interval of a headline is to hold what such a cluster shows
over another span as long, in nine cases of ten. Held against what came: the first half of each
recording predicts its second (*halves*); recordings of one workload (one `scenario` and `seed`)
predict each other, under the rule that the predicted one's brokers ran; so do, of what controllers
do, recordings of one kind (one `scenario` and Kafka's minor version). What no request log records
(when a write was everywhere, exposure) is held against what the replay gives of the other span.
The systematic error is that of predictions that have nothing to do with the recordings at hand.
*Width*: of the interval, relative to the figure, median.
"""
_STEPS = {steps.name: steps for steps in RULES}
#: Where nothing was judged.
_NO_ERROR = (Kind.SELF_CHECK, 0.0, 0.0, 0)

Pair = tuple[str, str]
Rows = Sequence[Mapping[str, Any]]


class Held(NamedTuple):
    how: str
    figure: Figure
    pair: Pair
    holds: bool
    width: float


def coverage(found: Found, rows: Rows, kinds: Collection[Pair]) -> Iterator[Held]:
    """All intervals held; ``kinds``: pairs of recordings of one kind."""
    ran = {(row["rule"], row["predicted_from"], row["recorded_in"]): row["variant"] for row in rows}
    judged = {(before, after) for _, before, after in ran}
    for figure, pair in product(sorted({key[2] for key in found}), sorted(judged | {*kinds})):
        before, after = pair
        is_of_kind = pair in kinds and _STEPS[figure.rule].judgement.of_controllers
        own = ran.get((figure.rule, *pair))
        if is_of_kind and not own:
            own = ran.get((figure.rule, after, after))
        recorded = found.get((after, RECORDED, figure))
        if own is None or not (recorded or is_of_kind or before == after):
            continue
        of_after = {variant for name, variant, of in found if (name, of) == (after, figure)}
        for variant in sorted({own} if recorded else of_after):
            one = found.get((before, variant, figure))
            other = recorded or found.get((after, variant, figure))
            if not (one and other):
                continue
            error = _error(rows, figure, variant, {*pair})
            if before == after:
                yield from _held("halves", figure, pair, one.half(False), other.half(True), error)
            else:
                how = "one kind" if is_of_kind else "one workload"
                yield from _held(how, figure, pair, one, other, error)


def _held(
    how: str, figure: Figure, pair: Pair, one: Series | None, other: Series | None, error: Error
) -> Iterator[Held]:
    if one and other and other.sampling and (bounds := interval(one.value, one.sampling, error)):
        width = (bounds.high - bounds.low) / one.value if one.value else 0.0
        yield Held(how, figure, pair, bounds.low <= other.value <= bounds.high, width)


def _error(rows: Rows, figure: Figure, variant: str, hidden: set[str]) -> Error:
    """The error of predictions that have nothing to do with the recordings at hand."""
    others = [row for row in rows if not {row["predicted_from"], row["recorded_in"]} & hidden]
    _, absolute, relative, _ = largest(others, _STEPS[figure.rule]).get(
        (variant, figure.metric), _NO_ERROR
    )
    return Error(relative=relative) if figure.is_traffic else Error(absolute, relative)


def page(held: Sequence[Held]) -> str:
    """A table of rules and figures, and the totals."""
    hows = ("halves", "one workload", "one kind")
    lines = [_HEAD, "| rule | figure | halves | one workload | one kind | all | width |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")

    def row(rule: str, name: str, of: Sequence[Held]) -> str:
        parts = [[one for one in of if one.how == how] for how in hows]
        cells = [f"{sum(one.holds for one in part)} of {len(part)}" for part in (*parts, of)]
        return f"| {' | '.join((rule, name, *cells))} | {median(one.width for one in of):.0%} |"

    def key(one: Held) -> tuple[str, str]:
        return one.figure.rule, one.figure.name

    ordered = sorted(held, key=key)
    lines += [row(*names, list(of)) for names, of in groupby(ordered, key)]
    for rule, of in groupby(ordered, lambda one: one.figure.rule):
        lines.append(row(rule, "all", list(of)))
    lines.append(row("all", "all", ordered))
    share = sum(one.holds for one in held) / len(held)
    lines.append(f"\nOf all {len(held)} intervals, {share:.1%} hold what they are held against.\n")
    return "\n".join(lines)


def of_one_kind(recordings: Sequence[Recording]) -> set[Pair]:
    """Pairs of one scenario and one minor version of Kafka."""

    def kind(one: Recording) -> tuple[object, ...]:
        return one.extra.get("scenario"), (one.kafka_version or "").split(".")[:2]

    return {(a.name, b.name) for a, b in permutations(recordings, 2) if kind(a) == kind(b)}


def main(warehouse: Warehouse, recordings: Sequence[Recording]) -> None:
    names = [one.name for one in recordings]
    found = latencies(warehouse, names) | traffic(warehouse, names)
    rows = [row for row in accuracy_rows(warehouse, names) if row["kind"] != Kind.BOUND]
    held = list(coverage(found, rows, of_one_kind(recordings)))
    _PAGE.write_text(page(held), encoding="utf-8")


if __name__ == "__main__":
    main(Warehouse(sys.argv[1]), load_recordings(sys.argv[2:]))
