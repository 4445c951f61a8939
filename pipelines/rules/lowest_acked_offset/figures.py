"""lowest_acked_offset in the report: when metadata writes are applied everywhere, who knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.report.reading import counted, curve_points, plain
from kip_replay.pipelines.report.values import (
    Curve,
    Doubt,
    Percentiles,
    Row,
    Rows,
    curve,
    doubts,
    in_sweep,
    of,
    percentiles,
)
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.rules import HEARTBEAT_INTERVAL, LOWEST_ACKED, LOWEST_ACKED_OFFSET
from kip_replay.replay.schema import HEARTBEAT_OUTCOMES, METADATA_WRITE_OUTCOMES

RULE = LOWEST_ACKED_OFFSET.name
STALE, READ_AFTER_WRITE = "stale_window", "read_after_write"
#: Rows for APIs at most, those with the most writes first.
MOST_APIS = 12


@dataclass(frozen=True)
class Visibility:
    """How late writes are applied everywhere (today), and how late that is known (the draft)."""

    stale: Percentiles | None = None
    read_after_write: Percentiles | None = None


@dataclass(frozen=True)
class IntervalPoint:
    """Visibility by variant if brokers sent a heartbeat this often."""

    interval_ms: int
    by_variant: Mapping[str, Visibility]


@dataclass(frozen=True)
class HeartbeatBytes:
    """Answers to heartbeats whose size is known, as recorded and with the new field."""

    heartbeats: int = 0
    recorded_bytes: int = 0
    replayed_bytes: int = 0


@dataclass(frozen=True)
class LowestAckedOffset:
    """All that is said of one recording; empty where its logs have no metadata write.

    ``by_variant``: recorded heartbeats; ``by_api``: the same for each API, of ``LOWEST_ACKED``.
    ``curves``: by variant and metric.
    """

    writes: int = 0
    by_variant: Mapping[str, Visibility] = field(default_factory=dict)
    by_api: Mapping[str, Visibility] = field(default_factory=dict)
    curves: Mapping[tuple[str, str], Curve] = field(default_factory=dict)
    sweep: tuple[IntervalPoint, ...] = ()
    heartbeats: HeartbeatBytes = HeartbeatBytes()
    doubts: tuple[Doubt, ...] = ()

    @property
    def headline(self) -> Visibility:
        """Of the variant that the headlines are about."""
        return self.by_variant.get(LOWEST_ACKED, Visibility())


# --- reading -------------------------------------------------------------------------------------


def queries(read: Read, values: Callable[[], DataFrame]) -> Mapping[str, Callable[[], DataFrame]]:
    """The queries besides the summary tables. ``values``: those behind latency_summary."""
    drawn = F.col("metric").isin(STALE, READ_AFTER_WRITE) & (F.col("group_kind") == "all")
    return {
        "curves": lambda: curve_points(values().where(plain() & drawn)),
        "verdicts": lambda: counted(read(METADATA_WRITE_OUTCOMES), F.lit("writes"), {}),
        "heartbeats": lambda: _heartbeats(read(HEARTBEAT_OUTCOMES)),
    }


def _heartbeats(outcomes: DataFrame) -> DataFrame:
    both = F.col("response_bytes").isNotNull() & F.col("replayed_response_bytes").isNotNull()
    return (
        outcomes.where(plain() & (F.col("variant") == LOWEST_ACKED) & both)
        .groupBy("recording")
        .agg(
            F.count("*").alias("n"),
            F.sum("response_bytes").alias("recorded"),
            F.sum("replayed_response_bytes").alias("replayed"),
        )
    )


# --- rows to values ------------------------------------------------------------------------------


def from_rows(rows: Rows) -> LowestAckedOffset:
    """The values of one recording."""
    every = of(rows["latencies"], parameter="none")
    everyone = of(rows["latencies"], group_kind="all")
    sent = rows["heartbeats"]
    return LowestAckedOffset(
        writes=sum(row["n"] for row in of(rows["verdicts"], variant=LOWEST_ACKED)),
        by_variant=_by_variant(of(every, group_kind="all")),
        by_api=_by_api(of(every, group_kind="api_name", variant=LOWEST_ACKED)),
        curves=_curves(rows["curves"]),
        sweep=tuple(
            IntervalPoint(value, _by_variant(found))
            for value, found in in_sweep(everyone, HEARTBEAT_INTERVAL).items()
        ),
        heartbeats=HeartbeatBytes(sent[0]["n"], sent[0]["recorded"], sent[0]["replayed"])
        if sent
        else HeartbeatBytes(),
        doubts=doubts(rows["verdicts"]),
    )


def _by_variant(rows: Sequence[Row]) -> dict[str, Visibility]:
    variants = sorted({row["variant"] for row in rows})
    return {variant: _visibility(of(rows, variant=variant)) for variant in variants}


def _visibility(rows: Sequence[Row]) -> Visibility:
    stale, told = of(rows, metric=STALE), of(rows, metric=READ_AFTER_WRITE)
    return Visibility(
        percentiles(stale[0]) if stale else None, percentiles(told[0]) if told else None
    )


def _by_api(rows: Sequence[Row]) -> dict[str, Visibility]:
    """APIs with the most writes first."""
    found = {
        name: _visibility(of(rows, group_value=name)) for name in {r["group_value"] for r in rows}
    }
    busiest = sorted(found, key=lambda name: (-_writes(found[name]), name))
    return {name: found[name] for name in busiest[:MOST_APIS]}


def _writes(visibility: Visibility) -> int:
    either = visibility.stale or visibility.read_after_write
    return either.count + either.unknown if either else 0


def _curves(rows: Sequence[Row]) -> dict[tuple[str, str], Curve]:
    lines = sorted({(row["variant"], row["metric"]) for row in rows})
    return {
        (variant, metric): curve(of(rows, variant=variant, metric=metric))
        for variant, metric in lines
    }
