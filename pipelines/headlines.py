"""What a run ends with on the terminal: headline figures, and predictions beside recordings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql import functions as F

from pipelines.warehouse import Warehouse
from replay.outcomes import RECORDED
from replay.rules import WITH_KIP, WITHOUT_KIP
from replay.schema import BANDWIDTH_SUMMARY, LATENCY_SUMMARY, PREDICTION_ACCURACY

_VARIANTS = (RECORDED, WITHOUT_KIP, WITH_KIP)
_NO_FETCH = "no FETCH of the metadata log was replayed in its steady phase"


class Figures(NamedTuple):
    """A variant's headline: FETCHes and bytes a second, and the brokers' lag in ms."""

    fetches_per_second: float
    bytes_per_second: float
    lag_ms: tuple[float | None, float | None, float | None]
    unknown: int


def headline_figures(
    warehouse: Warehouse, recordings: Sequence[str]
) -> dict[tuple[str, str], Figures]:
    """Figures by (recording, variant), sweeps left out."""
    mine = F.col("recording").isin([*recordings]) & (F.col("parameter") == "none")
    sums = (
        warehouse.read(BANDWIDTH_SUMMARY)
        .where(mine)
        .groupBy("recording", "variant")
        .agg(
            F.sum(
                F.when(F.col("direction") == "request", F.col("requests_per_second")).otherwise(0)
            ).alias("fetches"),
            F.sum("bytes_per_second").alias("bytes"),
        )
    )
    lags = warehouse.read(LATENCY_SUMMARY).where(
        mine & (F.col("metric") == "high_watermark_lag") & (F.col("group_value") == "broker")
    )
    joined = sums.join(
        lags.select("recording", "variant", "p50_ms", "p90_ms", "p99_ms", "unknown_count"),
        ["recording", "variant"],
        "left",
    )
    return {(row["recording"], row["variant"]): _figures(row) for row in joined.collect()}


def _figures(row: Row) -> Figures:
    lag = (row["p50_ms"], row["p90_ms"], row["p99_ms"])
    return Figures(row["fetches"], row["bytes"], lag, row["unknown_count"] or 0)


def headlines(figures: Mapping[tuple[str, str], Figures], recordings: Sequence[str]) -> list[str]:
    """Lines of text: per recording, what it shows and what each variant would have."""
    return [line for name in recordings for line in _of_recording(name, figures)]


def _of_recording(name: str, figures: Mapping[tuple[str, str], Figures]) -> Iterator[str]:
    if not any((name, variant) in figures for variant in _VARIANTS):
        yield f"hwm_parking on {name}: {_NO_FETCH}"
        return
    yield f"hwm_parking on {name}: metadata FETCHes, and how late brokers learn"
    yield f"  {'':<18}{'FETCHes/s':>10}{'bytes/s':>10}{'p50 ms':>10}{'p90 ms':>9}{'p99 ms':>9}"
    for variant in _VARIANTS:
        if (name, variant) in figures:
            of = figures[name, variant]
            lags = "".join(f"{_ms(v):>{w}}" for v, w in zip(of.lag_ms, (10, 9, 9), strict=True))
            unknown = f"   unknown: {of.unknown}" if of.unknown else ""
            yield (
                f"  {variant:<18}{of.fetches_per_second:>10.2f}{of.bytes_per_second:>10,.0f}"
                f"{lags}{unknown}"
            )


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"


def accuracy_rows(
    warehouse: Warehouse, predicted_from: str | None = None, recorded_in: str | None = None
) -> list[dict[str, Any]]:
    """Rows of prediction_accuracy, of one pair or of all, in a fixed order. Small by nature."""
    rows = warehouse.read(PREDICTION_ACCURACY)
    if predicted_from is not None:
        rows = rows.where(F.col("predicted_from") == predicted_from)
    if recorded_in is not None:
        rows = rows.where(F.col("recorded_in") == recorded_in)
    ordered = rows.orderBy(
        "predicted_from", "recorded_in", "variant", "metric", "group_kind", "group_value"
    )
    return [row.asDict() for row in ordered.collect()]


def side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of text: prediction beside recording, with the baseline and the verdict."""
    head = f"  {'figure':<44}{'baseline':>10}{'predicted':>11}{'recorded':>10}{'error':>9}  within"
    return [head, *(_side(row) for row in rows)]


def _side(row: Mapping[str, Any]) -> str:
    if row["tolerance"] is None:
        verdict = "not judged"
    else:
        verdict = f"{row['tolerance']:.3g} {'yes' if row['passed'] else 'NO'}"
    unknown = f"   unknown: {row['unknown_count']}" if row["unknown_count"] else ""
    return (
        f"  {measure_name(row):<44}{figure(row['baseline']):>10}{figure(row['predicted']):>11}"
        f"{figure(row['recorded']):>10}{figure(row['error']):>9}  {verdict}{unknown}"
    )


def measure_name(row: Mapping[str, Any]) -> str:
    """What a row of prediction_accuracy measures: metric, group, unit."""
    group = "" if row["group_value"] == "all" else f" {row['group_value']}"
    unit = "" if row["unit"] in ("count", "share") else f", {row['unit']}"
    return f"{row['metric']}{group}{unit}"


def figure(value: float | None) -> str:
    """A number in four digits; none as a dash."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) and abs(value) >= 10 else f"{value:.4g}"


def accuracy_line(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many of the judged figures are within their tolerance."""
    judged = [row for row in rows if row["tolerance"] is not None]
    passed = sum(bool(row["passed"]) for row in judged)
    return f"predictions within their tolerance: {passed} of {len(judged)}"
