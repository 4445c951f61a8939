"""Small tables made by hand as Spark reads them, and what a rule sums up of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from constructed import Row, arrow_table, phases, written_rows
from pyspark.sql import DataFrame, SparkSession

from kip_replay.pipelines.analysis.summaries import LatencySummaries, latency_histogram
from kip_replay.pipelines.rules.steps import RuleSteps
from kip_replay.pipelines.warehouse.data_files import TableFiles
from kip_replay.pipelines.warehouse.tables import Read, written
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LATENCY_CURVES, LATENCY_SUMMARY


def reader(spark: SparkSession, tables: Mapping[Table, Sequence[Row]]) -> Read:
    """Reads these rows, over partitions that nothing may depend on."""

    def read(table: Table) -> DataFrame:
        return spark.createDataFrame(arrow_table(table, tables.get(table, ()))).repartition(2)

    return read


def latencies(
    spark: SparkSession,
    steps: RuleSteps,
    tables: Mapping[Table, Sequence[Row]],
    recordings: Sequence[str],
) -> list[Row]:
    assert steps.latencies
    values = steps.latencies(reader(spark, tables), phases(*recordings))
    return summed_up(values, frozenset(steps.figures.HEADLINES), recordings)[0]


def summed_up(
    values: DataFrame, shown: frozenset[tuple[str, str]], recordings: Sequence[str]
) -> tuple[list[Row], list[Row]]:
    """Rows of latency_summary and of latency_curves; ``shown``: what has intervals and curves."""
    spans = phases(*recordings)
    with TemporaryDirectory() as folder:
        task = LatencySummaries(TableFiles(folder, "part"), shown, shown, spans)
        files = written(latency_histogram(values, spans, shown), task)
        summary, curves = (
            written_rows(Path(folder), t, files) for t in (LATENCY_SUMMARY, LATENCY_CURVES)
        )
    return summary, curves


def rows_of(frame: DataFrame) -> list[Row]:
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows
