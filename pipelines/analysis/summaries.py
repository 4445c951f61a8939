"""The summaries: latency_summary, latency_curves and bandwidth_summary, the same to the last digit
whatever the engine and its partitions.

Durations are summed as integer microseconds. A text counts how often each occurs in its group; of
this histogram come percentiles and curves, exact, in the tasks that write the tables; of headlines,
counted in each block of time, how far another span may be off (``intervals``).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kip_replay.pipelines.analysis.intervals import BLOCKS, Histogram
from kip_replay.pipelines.engines import Engine, Inputs
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.phases import Phases, phases_table
from kip_replay.pipelines.replaying.seam import by_key
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.log_gaps import Gaps
from kip_replay.replay.table import INT, LONG, TEXT, Table
from kip_replay.replay.tables import BANDWIDTH_SUMMARY, LATENCY_CURVES, LATENCY_SUMMARY

_WHAT_IF = ("recording", "rule", "variant", "parameter", "parameter_value")
_GROUP = (*_WHAT_IF, "metric", "group_kind", "group_value")
#: Percentiles in thousandths, so that ranks are computed in integers.
_PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}
#: Points of a distribution: one for each half per cent of the values.
CURVE_POINTS = 200
#: Percentiles with bounds.
_BOUNDED = ("p50", "p90", "p99")
#: A metric and a kind of group.
Pair = tuple[str, str]


def latency_histogram(
    texts: Collection[Text], headlines: Collection[Pair], phases: Phases, spans: Phases
) -> tuple[Text, Inputs]:
    """How often each value of the rules' texts ``latencies`` occurs, and the inputs of that text.

    Of ``headlines`` in each block of the recording's span.
    """
    values = _union(texts, (*_WHAT_IF, "metric", "value_us", "at_us", "of_group"))
    text = Text.read(
        Path(__file__).with_name("latency_histogram.sql"),
        {"latencies": values},
        headlines=[*map("/".join, sorted(headlines))],
        blocks=BLOCKS,
    )
    return text, {"phases": phases_table(phases), "spans": phases_table(spans)}


def latency_summaries(
    engine: Engine, texts: Collection[Text], phases: Phases, task: "LatencySummaries"
) -> list[DataFile]:
    """latency_summary and latency_curves of what the rules' texts ``latencies`` give."""
    text, inputs = latency_histogram(texts, task.headlines, phases, task.spans)
    order = ("value_us IS NULL", "value_us")
    return [*chain(*engine.feed(task, text, [*task.spans], _GROUP, order, inputs, True))]


def bandwidth_summary(
    engine: Engine, texts: Collection[Text], phases: Phases, gaps: Gaps, files: TableFiles
) -> list[DataFile]:
    """bandwidth_summary of what the rules' texts ``bandwidth`` give, less the logs' gaps."""
    sides = [f"{way}_{what}" for what in ("partitions", "bytes") for way in ("request", "response")]
    names = (*_WHAT_IF, "node_id", "client_kind", "dequeued_at", "built_at", *sides, "record_bytes")
    file = Path(__file__).with_name("bandwidth_summary.sql")
    text = Text.read(file, {"bandwidth": _union(texts, names)}, blocks=BLOCKS)
    rows = [{"recording": name, **gap._asdict()} for name, of in gaps.items() for gap in of]
    schema = {"recording": TEXT, "node_id": INT, "after_us": LONG, "before_us": LONG}
    inputs = {"phases": phases_table(phases), "gaps": pa.Table.from_pylist(rows, pa.schema(schema))}
    written = engine.feed(
        partial(_write, files, BANDWIDTH_SUMMARY),
        text,
        [*phases],
        (),
        BANDWIDTH_SUMMARY.key,
        inputs,
        True,
    )
    return [*chain(*written)]


def _union(texts: Collection[Text], columns: Collection[str]) -> Text:
    """The rows of all the texts."""
    parts = {f"part_{number}": text for number, text in enumerate(texts)}
    selects = (f"SELECT {', '.join(columns)} FROM {part}" for part in parts)
    return Text(" UNION ALL ".join(selects), parts)


def _write(files: TableFiles, table: Table, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
    """Writes rows as they are."""
    schema = table.arrow_schema
    for batch in batches:
        files.write(table, batch.select(schema.names).cast(schema))
    return files.closed()


@dataclass
class LatencySummaries:
    """Writes latency_summary and latency_curves of the rows of ``latency_histogram``.

    ``drawn``: those that have curves; ``headlines``: those that have bounds; sweeps have neither.
    ``spans`` of recordings, as in the histogram.
    """

    files: TableFiles
    drawn: frozenset[Pair]
    headlines: frozenset[Pair]
    spans: Phases

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """A group's histogram is as large as it has different microseconds, and held as a whole."""
        found = (
            (key, rows.select(["value_us", "block", "occurs"]))
            for key, rows in by_key(batches, _GROUP)
        )
        for key, parts in groupby(found, key=itemgetter(0)):
            histogram = pa.Table.from_batches([rows for _, rows in parts])
            self._write(dict(zip(_GROUP, key, strict=True)), histogram)
        return self.files.closed()

    def _write(self, group: dict[str, Any], histogram: pa.Table) -> None:
        each_us = histogram.column("value_us").drop_null().to_numpy()
        block, occurs = (histogram.column(name).to_numpy() for name in ("block", "occurs"))
        last = np.flatnonzero(np.diff(each_us, append=each_us[-1:] + 1))  # row of each value
        values, up_to = each_us[last], occurs.cumsum()[last]
        total, count = int(occurs.sum()), int(up_to[-1]) if len(values) else 0

        def at_rank(thousandths: int) -> float | None:
            # From 0: floor(q * (n - 1)), in integers; null where it falls on an unknown value.
            place = int(np.searchsorted(up_to, thousandths * (total - 1) // 1000, "right"))
            return int(values[place]) / 1000.0 if place < len(values) else None

        row = {
            **group,
            "count": count,
            "unknown_count": total - count,
            # Integers of any size: their sum does not depend on their order.
            "mean_ms": int(each_us @ occurs[: len(each_us)]) / count / 1000.0 if count else None,
            "max_ms": int(values[-1]) / 1000.0 if count else None,
            **{f"{name}_ms": at_rank(q) for name, q in _PERCENTILES.items()},
        }
        pair, is_plain = (group["metric"], group["group_kind"]), group["parameter"] == "none"
        if is_plain and pair in self.headlines:
            known = len(each_us)
            unknown = np.bincount(block[known:], occurs[known:], BLOCKS).astype(np.int64)
            blocks = Histogram(each_us, block[:known], occurs[:known], unknown)
            row |= self._bounds(blocks, self.spans[group["recording"]].span_s / BLOCKS)
        schema = LATENCY_SUMMARY.arrow_schema
        self.files.write(LATENCY_SUMMARY, pa.RecordBatch.from_pylist([row], schema))
        if count and is_plain and pair in self.drawn:
            self._draw(group, values, up_to, total)

    @staticmethod
    def _bounds(blocks: Histogram, block_s: float) -> dict[str, float | None]:
        found = {name: blocks.interval(_PERCENTILES[name], block_s) for name in _BOUNDED}
        return {
            f"{name}_{end}_ms": getattr(bounds, end) / 1000.0 if bounds else None
            for name, bounds in found.items()
            for end in ("low", "high")
        }

    def _draw(
        self, group: dict[str, Any], values: np.ndarray, up_to: np.ndarray, total: int
    ) -> None:
        """The largest value of each slice of the ranks: at most CURVE_POINTS points, all exact."""
        slices = (up_to - 1) * CURVE_POINTS // total
        last = np.flatnonzero(np.diff(slices, append=slices[-1] + 1))
        first = np.concatenate(([0], last[:-1] + 1))
        columns = {
            **{name: pa.repeat(value, len(last)) for name, value in group.items()},
            "value_us": values[last],
            "up_to": up_to[last],
            "from_us": values[first],
            "total": np.full(len(last), total),
        }
        schema = LATENCY_CURVES.arrow_schema
        rows = pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema)
        self.files.write(LATENCY_CURVES, rows)
