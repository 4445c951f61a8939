"""What the headlines of a warehouse are made of, block by block, so that halves can be compared."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, product
from typing import NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from kip_replay.pipelines.analysis.intervals import BLOCKS, Histogram, Integers, Interval
from kip_replay.pipelines.analysis.phases import log_spans, steady_phases
from kip_replay.pipelines.analysis.summaries import latency_histogram
from kip_replay.pipelines.page.values import Traffic
from kip_replay.pipelines.report.data import read_report
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse

_PERCENTILES = {"p50": 500, "p90": 900, "p99": 990}


class Series(Protocol):
    """What a figure of a recording is made of, in blocks of time."""

    def half(self, second: bool) -> Self | None:
        """The first or second half of the blocks."""

    @property
    def value(self) -> float:
        """The figure."""

    @property
    def sampling(self) -> Interval | None:
        """None where there is not enough data."""


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


#: By recording, variant and figure.
Found: TypeAlias = dict[tuple[str, str, Figure], Series]


def latencies(warehouse: Warehouse, names: Collection[str]) -> Found:
    """The headlines of latency_summary."""
    spans, phases = log_spans(warehouse, names), steady_phases(warehouse, names)
    pairs = {pair for steps in RULES for pair in steps.figures.HEADLINES}
    read, _ = warehouse.reader(names), warehouse.spark  # columns need a session
    values = [steps.latencies(read, phases) for steps in RULES if steps.latencies]
    counted = latency_histogram(reduce(DataFrame.unionByName, values), spans, pairs)
    rows = counted.where("parameter = 'none'").toArrow()
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
