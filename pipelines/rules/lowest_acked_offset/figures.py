"""lowest_acked_offset in the report: when metadata writes are applied everywhere, who knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kip_replay.pipelines.report.reading import PLAIN, counted, curves
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
from kip_replay.replay.rules import HEARTBEAT_INTERVAL, LOWEST_ACKED, LOWEST_ACKED_OFFSET

RULE = LOWEST_ACKED_OFFSET.name
STALE, READ_AFTER_WRITE = "stale_window", "read_after_write"
#: The metrics that are drawn, and of which kind of group.
CURVES = ((STALE, "all"), (READ_AFTER_WRITE, "all"))
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


def queries() -> Mapping[str, str]:
    """The queries besides the summary tables."""
    return {
        "curves": curves(RULE),
        "verdicts": counted("metadata_write_outcomes", "'writes'"),
        "heartbeats": f"""
            SELECT recording, count(*) AS n, sum(response_bytes) AS recorded,
                sum(replayed_response_bytes) AS replayed
            FROM heartbeat_outcomes
            WHERE {PLAIN} AND variant = '{LOWEST_ACKED}' AND response_bytes IS NOT NULL
                AND replayed_response_bytes IS NOT NULL
            GROUP BY recording""",
    }


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
