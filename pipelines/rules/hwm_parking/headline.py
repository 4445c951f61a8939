"""hwm_parking on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kip_replay.pipelines.report.terminal import ms, rate, table
from kip_replay.pipelines.rules.hwm_parking.figures import BROKERS, Figures
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.outcomes import RECORDED


def headline(one: Figures) -> Iterator[str]:
    """Lines on FETCHes of the metadata log, and how late brokers learn."""
    variants = [v for v in (RECORDED, WITHOUT_KIP, WITH_KIP) if one.total(v)]
    if not variants:
        yield (
            f"hwm_parking on {one.recording}: "
            "no FETCH of the metadata log was replayed in its steady phase"
        )
        return
    yield f"hwm_parking on {one.recording}: metadata FETCHes, and how late brokers learn"
    lags = [one.lag(variant, BROKERS) for variant in variants]
    rows = {
        "FETCHes/s": [_rate(one, "fetches", variant, 2) for variant in variants],
        "bytes/s": [_rate(one, "bytes", variant, 0) for variant in variants],
        **{f"{p} ms": [ms(lag, p) for lag in lags] for p in ("p50", "p90", "p99")},
    }
    if any(lag and lag.unknown for lag in lags):
        rows["unknown"] = [str(lag.unknown) if lag else "" for lag in lags]
    yield from table(variants, rows)


def _rate(one: Figures, amount: str, variant: str, decimals: int) -> str:
    value = getattr(one.rates(variant), amount)
    return rate(value, one.traffic_interval(amount, variant), decimals)
