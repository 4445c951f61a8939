"""Small tables made by hand as Spark reads them, and what a rule sums up of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructed import Row, arrow_table, phases
from pyspark.sql import DataFrame, SparkSession

from kip_replay.pipelines.analysis.summaries import latency_summary
from kip_replay.pipelines.rules.registration import RuleSteps
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.schema import Table


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
    """Rows of latency_summary."""
    assert steps.latencies
    values = steps.latencies(reader(spark, tables), phases(*recordings))
    return rows_of(latency_summary(values))


def rows_of(frame: DataFrame) -> list[Row]:
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows
