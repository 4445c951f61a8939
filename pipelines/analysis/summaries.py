"""The summaries: latency_summary, latency_curves, bandwidth_summary and paired_differences.

They are the same to the last digit whatever the engine and its partitions, and whether outcomes are
counted at once, or those that are new added to what latency_histograms and bandwidth_summary have.
A text counts how often each duration, in integer microseconds, occurs in its group: of this come
percentiles and curves, exact, and by block of time the bounds of headlines (``intervals``).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, pairwise, permutations, product
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from kip_replay.pipelines.analysis.intervals import (
    Drawn,
    Errors,
    Figure,
    Figures,
    Histogram,
    block_us,
    error_of,
    rates,
)
from kip_replay.pipelines.engines import NO_INPUTS, Feed, Feeding, Inputs, TableSlice
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.seam import by_key
from kip_replay.pipelines.replaying.states import Phases, phases_table
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.records import SteadyPhase
from kip_replay.replay.table import INT, LONG, TEXT, Table
from kip_replay.replay.tables import (
    BandwidthSummary,
    LatencyCurves,
    LatencyHistograms,
    LatencySummary,
    PairedDifferences,
)

_WHAT_IF = ("recording", "rule", "parameter", "parameter_value")
#: The variants of a group, last, are fed together.
_GROUP = (*_WHAT_IF, "metric", "group_kind", "group_value")
KEY = (*_GROUP, "variant")
#: Percentiles in thousandths, so that ranks are computed in integers.
PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}
#: Points of a distribution: one for each half per cent of the values.
CURVE_POINTS = 200
#: Amounts of traffic: the figure and its unit.
_RATES = {
    "fetches": ("per_second", "/s"),
    "bytes": ("per_second", "B/s"),
    "partitions": ("mean", "partitions"),
}
#: Stands for a value that is not known: the last in order.
_UNKNOWN_US = (1 << 63) - 1
#: Length of the blocks of recordings that are counted in part; microseconds.
BlockLengths: TypeAlias = Mapping[str, int]
NO_BLOCKS: BlockLengths = MappingProxyType({})
#: A metric and a kind of group.
Pair = tuple[str, str]
Row = dict[str, Any]


def latency_histogram(
    texts: Collection[Text], headlines: Collection[Pair], phases: Phases, spans: Phases
) -> tuple[Text, Inputs]:
    """Counts how often each value of the texts ``latencies`` occurs, and returns their inputs.

    Of ``headlines`` in each block of clock time. Added to nothing, if no other inputs are given.
    """
    values = _union(texts, (*_WHAT_IF, "variant", "metric", "value_us", "at_us", "of_group"))
    text = Text.read(
        Path(__file__).with_name("latency_histogram.sql"),
        {"latencies": values},
        headlines=[*map("/".join, sorted(headlines))],
    )
    inputs = {"phases": phases_table(phases), "spans": _in_blocks(spans, spans)}
    return text, {**inputs, LatencyHistograms.name: TableSlice(LatencyHistograms, ())}


def _in_blocks(phases: Phases, spans: Phases, counted: BlockLengths = NO_BLOCKS) -> pa.Table:
    """Rows of phases, with the length of the blocks of the recording's span, and of ``counted``."""
    rows = phases_table(phases)
    names = rows.column("recording").to_pylist()
    lengths = pa.array([block_us(*spans[name]) for name in names], LONG)
    rows = rows.append_column("block_us", lengths)
    return rows.append_column("counted_block_us", pa.array([*map(counted.get, names)], LONG))


def latency_summaries(
    texts: Collection[Text],
    phases: Phases,
    task: "LatencySummaries",
    slices: Inputs = NO_INPUTS,
) -> Feeding[list[DataFile]]:
    """Sums up what the rules' texts ``latencies`` select.

    ``slices``: of the tables that they read, and of the histograms that they are added to.
    """
    text, inputs = latency_histogram(texts, task.headlines, phases, task.spans)
    inputs, order = {**inputs, **slices}, ("variant", "block")
    written = yield Feed(
        work=task,
        text=text,
        recordings=[*task.spans],
        key=_GROUP,
        order=order,
        inputs=inputs,
        is_light=True,
    )
    return [*chain(*written)]


def bandwidth_summaries(
    texts: Collection[Text],
    phases: Phases,
    gaps: Mapping[str, Sequence[LogGap]],
    task: "BandwidthSummaries",
    slices: Inputs = NO_INPUTS,
    counted: BlockLengths = NO_BLOCKS,
) -> Feeding[list[DataFile]]:
    """bandwidth_summary of what the rules' texts ``bandwidth`` give, less the logs' gaps.

    ``slices``: as of latencies; ``counted``: blocks of the summary that they are added to.
    """
    sides = [f"{way}_{what}" for what in ("partitions", "bytes") for way in ("request", "response")]
    names = ["node_id", "client_kind", "dequeued_at", "built_at", *sides, "record_bytes"]
    file = Path(__file__).with_name("bandwidth_summary.sql")
    text = Text.read(file, {"bandwidth": _union(texts, (*_WHAT_IF, "variant", *names))})
    rows = [{"recording": name, **gap._asdict()} for name, its in gaps.items() for gap in its]
    schema = {"recording": TEXT, "node_id": INT, "after_us": LONG, "before_us": LONG}
    inputs = {
        "phases": _in_blocks(phases, task.spans, counted),
        "gaps": pa.Table.from_pylist(rows, pa.schema(schema)),
        BandwidthSummary.name: TableSlice(BandwidthSummary, ()),
        **slices,
    }
    order = BandwidthSummary.key
    written = yield Feed(
        work=task,
        text=text,
        recordings=[*phases],
        key=_WHAT_IF,
        order=order,
        inputs=inputs,
        is_light=True,
    )
    return [*chain(*written)]


def _union(texts: Collection[Text], columns: Collection[str]) -> Text:
    """The rows of all the texts."""
    parts = {f"part_{number}": text for number, text in enumerate(texts)}
    selects = (f"SELECT {', '.join(columns)} FROM {part}" for part in parts)
    return Text(" UNION ALL ".join(selects), parts)


def added_up(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of ``latency_histogram`` with each value once, in order."""
    lists, kind = rows.column("counts"), LatencyHistograms.arrow_schema.field("counts").type
    lengths, (values, occurs) = lists.value_lengths().to_numpy(), _of_counts(lists)
    ends = np.append(0, lengths.cumsum())
    parts = [at + values[at:end].argsort(kind="stable") for at, end in pairwise(ends)]
    order, row = np.concatenate(parts), np.repeat(np.arange(len(lengths)), lengths)
    values = values[order]
    first = np.flatnonzero(np.diff(row, prepend=-1) | np.diff(values, prepend=-1))
    values, occurs = values[first], np.add.reduceat(occurs[order], first)
    columns = [pa.array(values, mask=values == _UNKNOWN_US), pa.array(occurs)]
    pairs = pa.StructArray.from_arrays(columns, fields=[*kind.value_type])
    ends = pa.array(np.searchsorted(row[first], np.arange(len(lengths) + 1)), INT)
    place = rows.schema.get_field_index("counts")
    return rows.set_column(place, "counts", pa.ListArray.from_arrays(ends, pairs, kind))


def _of_counts(lists: pa.ListArray) -> list[np.ndarray]:
    return [column.fill_null(_UNKNOWN_US).to_numpy() for column in lists.flatten().flatten()]


def histograms(batches: Iterable[pa.RecordBatch], spans: Phases) -> Iterator[tuple[Row, pa.Table]]:
    """Each group and variant with its different microseconds, in order, and how often each occurs.

    In each block of the recording's span, from 0; its ends take what is beyond it.
    """
    for key, parts in groupby(by_key(iter(batches), KEY), itemgetter(0)):
        rows = pa.Table.from_batches([rows for _, rows in parts]).combine_chunks()
        lists, length_us = rows.column("counts").chunk(0), rows.column("block_us")[0].as_py()
        block = np.repeat(rows.column("block"), lists.value_lengths())
        if length_us:
            from_us, until_us = spans[key[0]]
            first = from_us // length_us
            block = np.clip(block, first, (until_us - 1) // length_us) - first
        values, occurs = _of_counts(lists)
        order = values.argsort(kind="stable")
        values = pa.array(values[order], mask=values[order] == _UNKNOWN_US)
        columns = {"value_us": values, "block": block[order], "occurs": occurs[order]}
        yield dict(zip(KEY, key, strict=True)), pa.table(columns)


def headline_figures(
    metric: str, histograms: Mapping[str, Histogram], span: SteadyPhase
) -> Iterator[tuple[str, str, dict[str, Figure]]]:
    """Percentiles with bounds, each with its metric of prediction_accuracy, and of each variant."""
    block_s = block_us(*span) / 1e6
    for name in ("p50", "p90", "p99"):
        figures = {v: it.figure(PERCENTILES[name], block_s) for v, it in histograms.items()}
        yield name, f"{metric}_{name}", figures


@dataclass
class LatencySummaries:
    """Writes ``latency_histogram`` and latency_summary, latency_curves, paired_differences of it.

    ``drawn``: those that have curves; ``headlines``: those that have bounds and differences; sweeps
    have neither. ``spans`` of recordings, as in the histogram.
    """

    files: TableFiles
    drawn: frozenset[Pair]
    headlines: frozenset[Pair]
    spans: Phases
    errors: Mapping[str, Errors]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        summaries, differences = list[Row](), list[Row]()
        groups = histograms(self._written(batches), self.spans)
        for _, variants in groupby(groups, lambda pair: itemgetter(*_GROUP)(pair[0])):
            rows, headlines = [], {}
            for group, histogram in variants:
                rows.append(self._summed(group, histogram))
                if self._is_plain(group, self.headlines):
                    headlines[group["variant"]] = Histogram(histogram)
            if headlines:
                differences += self._bound(rows, headlines)
            summaries += rows
        self.files.write(LatencySummary, _batch(LatencySummary, summaries))
        self.files.write(PairedDifferences, _batch(PairedDifferences, differences))
        return self.files.closed()

    def _written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in map(added_up, batches):
            self.files.write(LatencyHistograms, rows)
            yield rows

    @staticmethod
    def _is_plain(row: Row, pairs: Collection[Pair]) -> bool:
        return row["parameter"] == "none" and (row["metric"], row["group_kind"]) in pairs

    def _summed(self, group: Row, histogram: pa.Table) -> Row:
        each_us = histogram.column("value_us").drop_null().to_numpy()
        occurs = histogram.column("occurs").to_numpy()
        last = np.flatnonzero(np.diff(each_us, append=each_us[-1:] + 1))  # row of each value
        values, up_to = each_us[last], occurs.cumsum()[last]
        total, count = int(occurs.sum()), int(up_to[-1]) if len(values) else 0

        def at_rank(thousandths: int) -> float | None:
            # From 0: floor(q * (n - 1)), in integers; null where it falls on an unknown value.
            place = int(np.searchsorted(up_to, thousandths * (total - 1) // 1000, "right"))
            return int(values[place]) / 1000.0 if place < len(values) else None

        if count and self._is_plain(group, self.drawn):
            self._draw(group, values, up_to, total)
        return {
            **group,
            "count": count,
            "unknown_count": total - count,
            # Integers of any size: their sum does not depend on their order.
            "mean_ms": int(each_us @ occurs[: len(each_us)]) / count / 1000.0 if count else None,
            "max_ms": int(values[-1]) / 1000.0 if count else None,
            **{f"{name}_ms": at_rank(q) for name, q in PERCENTILES.items()},
        }

    def _bound(self, rows: Sequence[Row], histograms: Mapping[str, Histogram]) -> Iterator[Row]:
        """Adds the bounds to one group's rows, a variant each, and returns their differences."""
        group = {name: rows[0][name] for name in _GROUP}
        errors, span = self.errors.get(group["rule"], {}), self.spans[group["recording"]]
        for name, metric, figures in headline_figures(group["metric"], histograms, span):
            named = group | {"figure": name, "unit": "ms"}
            drawn = _drawn(figures, errors, metric)
            yield from _differences(named, figures, drawn)
            for row in rows:
                side = drawn[row["variant"]]
                bounds = (side and side.interval) or (None, None)
                row[f"{name}_low_ms"], row[f"{name}_high_ms"] = bounds

    def _draw(self, group: Row, values: np.ndarray, up_to: np.ndarray, total: int) -> None:
        """The largest value of each slice of the ranks: at most CURVE_POINTS points, all exact."""
        slices = (up_to - 1) * CURVE_POINTS // total
        last = np.flatnonzero(np.diff(slices, append=slices[-1] + 1))
        first = np.concatenate(([0], last[:-1] + 1))
        points = {"value_us": values[last], "up_to": up_to[last], "from_us": values[first]}
        same = group | {"total": total}
        columns = {name: pa.repeat(value, len(last)) for name, value in same.items()} | points
        schema = LatencyCurves.arrow_schema
        rows = pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema)
        self.files.write(LatencyCurves, rows)


def _drawn(figures: Mapping[str, Figure], errors: Errors, metric: str) -> dict[str, Drawn | None]:
    """Draws a figure of each variant in the same blocks; ``metric``: the metric of its errors."""
    blocks = np.any([figure.used for figure in figures.values()], axis=0)
    return {v: figure.drawn(blocks, error_of(errors, v, metric)) for v, figure in figures.items()}


def _differences(
    group: Row, figures: Mapping[str, Figure], drawn: Mapping[str, Drawn | None]
) -> Iterator[Row]:
    """Differences of a figure from each variant to each other, as rows of paired_differences."""
    sides = [(v, figure, drawn[v]) for v, figure in figures.items() if figure.is_shown]
    for (before, first, from_), (after, other, to) in permutations(sides, 2):
        low, high = (from_ and to and to.less(from_)) or (None, None)
        row = {"before_variant": before, "after_variant": after, "low": low, "high": high}
        row |= {"before": first.value, "after": other.value, "count": min(first.count, other.count)}
        yield group | row | {"unknown_count": max(first.unknown, other.unknown)}


def _batch(table: Table, rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, table.arrow_schema)


@dataclass
class BandwidthSummaries:
    """Writes bandwidth_summary and paired_differences of it.

    ``metrics``: of each rule, that of ``errors`` for an amount of traffic; ``ratios``: amounts that
    it makes a share of what they were.
    """

    files: TableFiles
    spans: Phases
    errors: Mapping[str, Errors]
    metrics: Mapping[str, Mapping[str, str]]
    ratios: Mapping[str, Collection[str]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        schema, differences = BandwidthSummary.arrow_schema, list[Row]()
        for key, parts in groupby(by_key(batches, _WHAT_IF), key=itemgetter(0)):
            rows: list[Row] = []
            for _, part in parts:
                self.files.write(BandwidthSummary, part.select(schema.names).cast(schema))
                rows += part.to_pylist()
            what_if = dict(zip(_WHAT_IF, key, strict=True))
            rule = what_if["rule"]
            of_rows = traffic_figures(rows, self.ratios[rule])
            for group, figures in of_rows if what_if["parameter"] == "none" else ():
                metric = self.metrics[rule].get(group["metric"], "")
                errors = self.errors.get(rule, {})
                drawn = _drawn(figures, errors, metric)
                differences += _differences(what_if | group, figures, drawn)
        self.files.write(PairedDifferences, _batch(PairedDifferences, differences))
        return self.files.closed()


def traffic_figures(
    rows: Sequence[Row], ratios: Collection[str] = ()
) -> Iterator[tuple[Row, dict[str, Figure]]]:
    """Rates of all, of kinds of clients and of nodes, by variant; of a rule's rows of
    bandwidth_summary in a recording."""
    groups: dict[Pair, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for kind in ("all", "client_kind", "node_id"):
            groups[kind, str(row.get(kind, kind))][row["variant"]].append(row)
    for (kind, value), (metric, (figure, unit)) in product(sorted(groups), _RATES.items()):
        named = {"group_kind": kind, "group_value": value, "metric": metric}
        of_variants = groups[kind, value].items()
        figures = {v: _traffic_figure(metric, its, metric in ratios) for v, its in of_variants}
        yield named | {"figure": figure, "unit": unit}, figures


def _traffic_figure(metric: str, rows: Sequence[Row], is_ratio: bool) -> Figure:
    """``fetches`` or ``bytes`` both ways a second, or ``partitions`` of a FETCH."""
    requests = [row for row in rows if row["direction"] == "request"]
    counts, partitions = (_in(requests, name).sum(0) for name in ("requests", "partitions"))
    # One FETCH is unknown both ways, or only its response is.
    ways = (requests, [row for row in rows if row["direction"] == "response"])
    unknown = max(sum(row["unknown_size_requests"] for row in way) for way in ways)
    parts = [(partitions, counts * (1 - unknown / max(counts.sum(), 1)))]
    if metric != "partitions":
        summed, what = (requests, "requests") if metric == "fetches" else (rows, "bytes")
        parts = [*zip(_in(summed, what), _in(summed, "seconds"), strict=True)]
    seconds = _in(rows, "seconds").max(0)
    kind = {"is_sum": True, "is_ratio": is_ratio}
    return Figure(partial(rates, parts), counts, seconds, unknown, **kind)


def _in(rows: Sequence[Row], what: str) -> Figures:
    """Amounts by row and block."""
    return np.array([row[f"{what}_per_block"] for row in rows], np.float64)
