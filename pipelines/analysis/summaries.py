"""The summaries: latency_summary, latency_curves and bandwidth_summary, the same to the last digit
however Spark partitions.

Durations are summed as integer microseconds. Spark counts how often each occurs in its group; of
this histogram come percentiles and curves, exact, in the tasks that write the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import Phases, is_steady, with_phases
from kip_replay.pipelines.warehouse.data_files import TableFiles, by_key
from kip_replay.replay.tables import LATENCY_CURVES, LATENCY_SUMMARY

WHAT_IF = ("recording", "rule", "variant", "parameter", "parameter_value")
_GROUP = (*WHAT_IF, "metric", "group_kind", "group_value")
#: Percentiles in thousandths, so that ranks are computed in integers.
_PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}
#: Points of a distribution: one for each half per cent of the values.
CURVE_POINTS = 200


def replica_kind() -> Column:
    """voter or broker, of rows that say whether the replica votes."""
    return F.when(F.col("is_voter"), "voter").otherwise("broker")


def grouped_by(groups: Mapping[str, Column]) -> Column:
    """The groups a row counts in, to be exploded: everything, and one for each named column."""
    every = [F.struct(F.lit("all").alias("group_kind"), F.lit("all").alias("group_value"))]
    named = [
        F.struct(F.lit(kind).alias("group_kind"), value.cast("string").alias("group_value"))
        for kind, value in groups.items()
    ]
    return F.array(*every, *named)


def measured(
    rows: DataFrame, metric: str, value_ms: str, groups: Mapping[str, Column]
) -> DataFrame:
    exploded = rows.withColumn("group", F.explode(grouped_by(groups)))
    return exploded.select(
        *WHAT_IF,
        F.lit(metric).alias("metric"),
        "group.group_kind",
        "group.group_value",
        F.round(F.col(value_ms) * 1000).cast("bigint").alias("value_us"),
    )


def latency_histogram(values: DataFrame) -> DataFrame:
    """How often each value occurs in its group: one row per value; sorted, the unknown (null) last.

    ``values``: one row per value with the group's columns and ``value_us``.
    """
    counted = values.groupBy(*_GROUP, "value_us").agg(F.count("*").alias("occurs"))
    order = F.col("value_us").asc_nulls_last()
    return counted.repartition(*_GROUP).sortWithinPartitions(*_GROUP, order)


@dataclass
class LatencySummaries:
    """Writes latency_summary and latency_curves of the rows of ``latency_histogram``.

    ``drawn``: the (metric, group_kind) that have curves; sweeps have none.
    """

    files: TableFiles
    drawn: frozenset[tuple[str, str]]

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        """A group's histogram is as large as it has different microseconds, and held as a whole."""
        found = (
            (key, rows.select(["value_us", "occurs"])) for key, rows in by_key(batches, _GROUP)
        )
        for key, parts in groupby(found, key=itemgetter(0)):
            histogram = pa.Table.from_batches([rows for _, rows in parts])
            values = histogram.column("value_us").drop_null().to_numpy()
            occurs = histogram.column("occurs").to_numpy()
            self._write(dict(zip(_GROUP, key, strict=True)), values, occurs.cumsum())

    def _write(self, group: dict[str, Any], values: np.ndarray, up_to: np.ndarray) -> None:
        """``up_to``: how many are not above each value, and last all, the unknown among them."""
        total = int(up_to[-1])
        count = int(up_to[len(values) - 1]) if len(values) else 0

        def at_rank(thousandths: int) -> float | None:
            # From 0: floor(q * (n - 1)), in integers; null where it falls on an unknown value.
            place = int(np.searchsorted(up_to, thousandths * (total - 1) // 1000, "right"))
            return int(values[place]) / 1000.0 if place < len(values) else None

        occurs = np.diff(up_to[: len(values)], prepend=0)
        row = {
            **group,
            "count": count,
            "unknown_count": total - count,
            # Integers of any size: their sum does not depend on their order.
            "mean_ms": int(values @ occurs) / count / 1000.0 if count else None,
            "max_ms": int(values[-1]) / 1000.0 if count else None,
            **{f"{name}_ms": at_rank(q) for name, q in _PERCENTILES.items()},
        }
        schema = LATENCY_SUMMARY.arrow_schema
        self.files.write(LATENCY_SUMMARY, pa.RecordBatch.from_pylist([row], schema))
        is_drawn = (group["metric"], group["group_kind"]) in self.drawn
        if count and is_drawn and group["parameter"] == "none":
            self._draw(group, values, up_to[: len(values)], total)

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


def steady(outcomes: DataFrame, phases: Phases) -> DataFrame:
    """Outcomes whose FETCH was dequeued in the steady phase, with the phase's bounds."""
    return with_phases(outcomes, phases).where(is_steady("dequeued_at"))


def bandwidth_summary(ways: DataFrame) -> DataFrame:
    """Rows of bandwidth_summary from one row per request and direction.

    Columns: WHAT_IF, api_name, node_id, client_kind, direction, partitions, bytes (null: size not
    known), record_bytes, span_s.
    """
    # Overhead is only known of requests whose size is known.
    known = F.when(F.col("bytes").isNotNull(), F.coalesce("record_bytes", F.lit(0))).otherwise(0)
    summed = ways.groupBy(*WHAT_IF, "api_name", "node_id", "client_kind", "direction").agg(
        F.count("*").alias("requests"),
        F.sum("partitions").cast("bigint").alias("partitions"),
        F.coalesce(F.sum("bytes"), F.lit(0).cast("bigint")).alias("bytes"),
        F.sum(F.col("bytes").isNull().cast("bigint")).alias("unknown_size_requests"),
        F.sum(known).alias("record_bytes"),
        F.max("span_s").alias("span_s"),
    )
    return (
        summed.withColumn("overhead_bytes", F.col("bytes") - F.col("record_bytes"))
        .withColumn("requests_per_second", F.col("requests") / F.col("span_s"))
        .withColumn("bytes_per_second", F.col("bytes") / F.col("span_s"))
    )
