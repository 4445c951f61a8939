"""Small tables made by hand as texts read them, and what a rule sums up of them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from constructed import Row, arrow_table, phases, written_rows

from kip_replay.pipelines.analysis.summaries import (
    BandwidthSummaries,
    LatencySummaries,
    bandwidth_summaries,
    latency_summaries,
)
from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.engines import NO_INPUTS, Inputs
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_gaps import Gaps
from kip_replay.replay.table import Table
from kip_replay.replay.tables import BANDWIDTH_SUMMARY, LATENCY_SUMMARY

Tables = Mapping[Table, Sequence[Row]]


@dataclass(frozen=True)
class OnTables(Local):
    """Runs texts on these rows instead of a warehouse's."""

    tables: Inputs = field(default_factory=dict)

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = NO_INPUTS) -> pa.Table:
        return super().rows(text, recordings, {**self.tables, **inputs})

    def feed(  # type: ignore[override]
        self, work: Callable[..., Any], text: Text, recordings: Collection[str], *more: Any
    ) -> list[Any]:
        key, order, inputs, *light = more
        inputs = {**self.tables, **inputs}
        return super().feed(work, text, recordings, key, order, inputs, *light)


def engine_on(tables: Tables) -> OnTables:
    named = {table.name: arrow_table(table, rows) for table, rows in tables.items()}
    return OnTables(Warehouse("nowhere"), named)


def latencies(steps: SummedRule, tables: Tables, recordings: Sequence[str]) -> list[Row]:
    headlines, spans = frozenset(steps.latencies), phases(*recordings)

    def written(files: TableFiles) -> list[DataFile]:
        task = LatencySummaries(files, headlines, headlines, spans, {})
        return latency_summaries(engine_on(tables), [steps.text("latencies")], spans, task)

    return _rows_of(LATENCY_SUMMARY, written)


def bandwidth(
    steps: SummedRule, tables: Tables, recordings: Sequence[str], gaps: Gaps | None = None
) -> list[Row]:
    texts, engine, steady = [steps.text("bandwidth")], engine_on(tables), phases(*recordings)
    metrics, ratios = {steps.name: steps.traffic_errors}, {steps.name: steps.ratios}

    def written(files: TableFiles) -> list[DataFile]:
        task = BandwidthSummaries(files, steady, {}, metrics, ratios)
        return bandwidth_summaries(engine, texts, steady, gaps or {}, task)

    return _rows_of(BANDWIDTH_SUMMARY, written)


def _rows_of(table: Table, write: Callable[[TableFiles], list[DataFile]]) -> list[Row]:
    with TemporaryDirectory() as folder:
        return written_rows(Path(folder), table, write(TableFiles(folder, "part")))
