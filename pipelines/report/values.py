"""Plain values that several rules share: percentiles, distributions, doubts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kip_replay.replay.outcomes import Verdict

#: A row of a query; its columns by name.
Row: TypeAlias = Any
#: The rows of one recording, by query.
Rows: TypeAlias = Mapping[str, list[Row]]


@dataclass(frozen=True)
class Percentiles:
    """Percentiles in ms; ``unknown`` values count as the slowest."""

    count: int
    unknown: int
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None


def percentiles(row: Row) -> Percentiles:
    """Of a row of latency_summary."""
    names = ("p50", "p90", "p95", "p99", "p999", "max")
    return Percentiles(row["count"], row["unknown_count"], *(row[f"{name}_ms"] for name in names))


@dataclass(frozen=True)
class Curve:
    """An empirical distribution: (ms, share of all values up to it), rising, at most 200 points.

    ``start_ms`` is the smallest value. Where values are unknown the shares end below 1.
    """

    start_ms: float
    points: tuple[tuple[float, float], ...]


def curve(rows: Iterable[Row]) -> Curve:
    """Of the rows of latency_curves that are of one distribution."""
    found = sorted(rows, key=lambda row: row["value_us"])
    return Curve(
        found[0]["from_us"] / 1000,
        tuple((row["value_us"] / 1000, row["up_to"] / row["total"]) for row in found),
    )


@dataclass(frozen=True)
class Doubt:
    """Outcomes that were not replayed, and why. ``counts`` by variant."""

    what: str
    verdict: str
    reason: str
    counts: Mapping[str, int]


def doubts(rows: Iterable[Row]) -> tuple[Doubt, ...]:
    """Of rows with what, verdict, reason, variant and n."""
    counts: dict[tuple[str, str, str], dict[str, int]] = {}
    for row in rows:
        if row["verdict"] != Verdict.REPLAYED.value:
            key = (row["what"], row["verdict"], row["reason"] or "")
            of_variant = counts.setdefault(key, {})
            of_variant[row["variant"]] = of_variant.get(row["variant"], 0) + row["n"]
    return tuple(
        Doubt(what, verdict, reason, dict(sorted(found.items())))
        for (what, verdict, reason), found in sorted(counts.items())
    )


def of(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """The rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def in_sweep(rows: Iterable[Row], parameter: str) -> dict[int, list[Row]]:
    """Rows of a sweep by the parameter's value, rising."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        if row["parameter"] == parameter:
            found.setdefault(int(row["parameter_value"]), []).append(row)
    return dict(sorted(found.items()))
