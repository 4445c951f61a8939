"""Small tables made by hand as texts read them, and what a rule sums up of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from constructed import Row, Tables, engine_on, phases, written_rows

from kip_replay.pipelines.analysis.summaries import (
    BandwidthSummaries,
    LatencySummaries,
    bandwidth_summaries,
    latency_summaries,
)
from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.engines import Feeding, Steps
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.log_gaps import Gaps
from kip_replay.replay.table import Table
from kip_replay.replay.tables import BANDWIDTH_SUMMARY, LATENCY_SUMMARY


def latencies(steps: SummedRule, tables: Tables, recordings: Sequence[str]) -> list[Row]:
    headlines, spans = frozenset(steps.latencies), phases(*recordings)

    def written(files: TableFiles) -> list[DataFile]:
        task = LatencySummaries(files, headlines, headlines, spans, {})
        return fed(tables, latency_summaries([steps.text("latencies")], spans, task))

    return _rows_of(LATENCY_SUMMARY, written)


def bandwidth(
    steps: SummedRule, tables: Tables, recordings: Sequence[str], gaps: Gaps | None = None
) -> list[Row]:
    texts, steady = [steps.text("bandwidth")], phases(*recordings)
    metrics, ratios = {steps.name: steps.traffic_errors}, {steps.name: steps.ratios}

    def written(files: TableFiles) -> list[DataFile]:
        task = BandwidthSummaries(files, steady, {}, metrics, ratios)
        return fed(tables, bandwidth_summaries(texts, steady, gaps or {}, task))

    return _rows_of(BANDWIDTH_SUMMARY, written)


def fed(tables: Tables, step: Feeding[list[DataFile]]) -> list[DataFile]:
    [files] = engine_on(tables).beside(Steps({"sums": step}, 0)).values()
    return files  # type: ignore[no-any-return]


def _rows_of(table: Table, write: Callable[[TableFiles], list[DataFile]]) -> list[Row]:
    with TemporaryDirectory() as folder:
        return written_rows(Path(folder), table, write(TableFiles(folder, "part")))
