"""The summaries: latency_summary, latency_curves and bandwidth_summary, the same to the last digit
however Spark partitions.

Durations are summed as integer microseconds. Spark counts how often each occurs in its group; of
this histogram come percentiles and curves, exact, in the tasks that write the tables; of headlines,
counted in each block of time, how far another span may be off (``intervals``).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.intervals import BLOCKS, Histogram
from kip_replay.pipelines.analysis.phases import (
    Phases,
    block_of,
    bound_us,
    is_steady,
    steady_block,
    steady_span_s,
    with_phases,
)
from kip_replay.pipelines.warehouse.data_files import TableFiles, by_key
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.log_gaps import Gaps
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LATENCY_CURVES, LATENCY_SUMMARY

WHAT_IF = ("recording", "rule", "variant", "parameter", "parameter_value")
_GROUP = (*WHAT_IF, "metric", "group_kind", "group_value")
#: Percentiles in thousandths, so that ranks are computed in integers.
_PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}
#: Points of a distribution: one for each half per cent of the values.
CURVE_POINTS = 200
#: Percentiles with bounds.
_BOUNDED = ("p50", "p90", "p99")
#: A metric and a kind of group.
Pair = tuple[str, str]


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
    rows: DataFrame, metric: str | Column, value_ms: str, groups: Mapping[str, Column], at: str
) -> DataFrame:
    """Values for ``latency_histogram``; ``at``: the column that says when each was."""
    exploded = rows.withColumn("group", F.explode(grouped_by(groups)))
    return exploded.select(
        *WHAT_IF,
        metric.alias("metric") if isinstance(metric, Column) else F.lit(metric).alias("metric"),
        "group.group_kind",
        "group.group_value",
        F.round(F.col(value_ms) * 1000).cast("bigint").alias("value_us"),
        F.unix_micros(at).alias("at_us"),
    )


def latency_histogram(values: DataFrame, spans: Phases, headlines: Collection[Pair]) -> DataFrame:
    """How often each value occurs in its group, of headlines in each block of the recording's span.

    ``values``: one row per value with the group's columns, ``value_us`` and ``at_us``. Sorted by
    group and value, the unknown (null) last.
    """
    is_headline = F.concat_ws("/", "metric", "group_kind").isin([*map("/".join, headlines)])
    bounds = bound_us(spans, "from_us"), bound_us(spans, "until_us")
    in_span = block_of(F.col("at_us"), *bounds)
    block = F.when((F.col("parameter") == "none") & is_headline, in_span).otherwise(0)
    counted = values.groupBy(*_GROUP, "value_us", block.alias("block")).agg(
        F.count("*").alias("occurs")
    )
    order = F.col("value_us").asc_nulls_last()
    return counted.repartition(*_GROUP).sortWithinPartitions(*_GROUP, order)


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

    def take(self, batches: Iterator[pa.RecordBatch]) -> None:
        """A group's histogram is as large as it has different microseconds, and held as a whole."""
        found = (
            (key, rows.select(["value_us", "block", "occurs"]))
            for key, rows in by_key(batches, _GROUP)
        )
        for key, parts in groupby(found, key=itemgetter(0)):
            histogram = pa.Table.from_batches([rows for _, rows in parts])
            self._write(dict(zip(_GROUP, key, strict=True)), histogram)

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


def steady(outcomes: DataFrame, phases: Phases) -> DataFrame:
    """Outcomes whose FETCH was dequeued in the steady phase, with the phase's bounds."""
    return with_phases(outcomes, phases).where(is_steady("dequeued_at"))


def bandwidth_summary(
    fetches: DataFrame, node_id: str, client_kind: Column, partitions: Mapping[str, Column]
) -> DataFrame:
    """Rows of bandwidth_summary from outcomes of FETCHes (``steady``).

    ``node_id``: the column of who got them. ``partitions``: how many each lists, by direction.
    Bytes are null where the size is not known.
    """
    records = {"request": F.lit(0), "response": F.col("record_bytes")}
    directions = (
        F.struct(
            F.lit(way).alias("direction"),
            partitions[way].alias("partitions"),
            F.col(f"{way}_bytes").alias("bytes"),
            records[way].cast("bigint").alias("record_bytes"),
        )
        for way in records
    )
    # A FETCH of the steady phase may return the burst of records of a shutdown.
    in_phase = (F.col("way.direction") == "request") | is_steady("built_at")
    exploded = fetches.withColumn("way", F.explode(F.array(*directions))).where(in_phase)
    ways = exploded.select(
        *WHAT_IF,
        F.lit("FETCH").alias("api_name"),
        F.col(node_id).alias("node_id"),
        client_kind.alias("client_kind"),
        "way.*",
        steady_span_s().alias("span_s"),
        steady_block("dequeued_at"),
    )
    # Overhead is only known of requests whose size is known.
    known = F.when(F.col("bytes").isNotNull(), F.coalesce("record_bytes", F.lit(0))).otherwise(0)
    amounts = {"requests": F.lit(1), "partitions": F.col("partitions"), "bytes": F.col("bytes")}
    summed = ways.groupBy(*WHAT_IF, "api_name", "node_id", "client_kind", "direction").agg(
        F.count("*").alias("requests"),
        F.sum("partitions").cast("bigint").alias("partitions"),
        F.coalesce(F.sum("bytes"), F.lit(0).cast("bigint")).alias("bytes"),
        F.sum(F.col("bytes").isNull().cast("bigint")).alias("unknown_size_requests"),
        F.sum(known).alias("record_bytes"),
        F.max("span_s").alias("span_s"),
        *(_per_block(amount).alias(f"{name}_per_block") for name, amount in amounts.items()),
    )
    return summed.withColumn("overhead_bytes", F.col("bytes") - F.col("record_bytes"))


def outside_holes(read: Read, gaps: Gaps, spark: SparkSession) -> Read:
    """Reads outcomes of FETCHes less those that were dequeued within a hole of their node's log."""
    holes = [(name, *gap) for name, of in gaps.items() for gap in of]

    def reading(table: Table) -> DataFrame:
        rows = read(table)
        if not holes or "dequeued_at" not in table.names:
            return rows
        names = "hole_of string, hole_node_id int, after_us bigint, before_us bigint"
        of_logs = spark.createDataFrame(holes, names)
        node_id = "leader_id" if "leader_id" in table.names else "node_id"
        at_us = F.unix_micros("dequeued_at")
        is_within = (F.col("recording") == F.col("hole_of")) & (
            F.col(node_id) == F.col("hole_node_id")
        )
        is_within &= (at_us > F.col("after_us")) & (at_us < F.col("before_us"))
        return rows.join(F.broadcast(of_logs), is_within, "left_anti")

    return reading


def per_second(summed: DataFrame, gaps: Gaps, phases: Phases) -> DataFrame:
    """Rows of bandwidth_summary with their rates: of the steady phase less the node's holes."""
    missing_s = F.lit(0.0)
    for recording, of_recording in gaps.items():
        steady = phases[recording]
        for node_id, holes in groupby(of_recording, key=attrgetter("node_id")):
            us = sum(
                max(0, min(gap.before_us, steady.until_us) - max(gap.after_us, steady.from_us))
                for gap in holes
            )
            is_its = (F.col("recording") == recording) & (F.col("node_id") == node_id)
            missing_s = F.when(is_its, us / 1e6).otherwise(missing_s)
    return (
        summed.withColumn("span_s", F.col("span_s") - missing_s)
        .withColumn("requests_per_second", F.try_divide("requests", "span_s"))
        .withColumn("bytes_per_second", F.try_divide("bytes", "span_s"))
    )


def _per_block(amount: Column) -> Column:
    """The sum of an amount in each block, as a list."""
    blocks = (F.sum(F.when(F.col("block") == number, amount)) for number in range(BLOCKS))
    return F.array(*(of.cast("bigint") for of in blocks))
