"""hwm_parking on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kip_replay.pipelines.report.terminal import ms, unknowns
from kip_replay.pipelines.rules.hwm_parking.figures import Figures
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
    yield f"  {'':<18}{'FETCHes/s':>10}{'bytes/s':>10}{'p50 ms':>10}{'p90 ms':>9}{'p99 ms':>9}"
    for variant in variants:
        rates = one.rates(variant)
        lag = one.spread("high_watermark_lag", variant, "replica_kind", "broker")
        lags = f"{ms(lag, 'p50'):>10}{ms(lag, 'p90'):>9}{ms(lag, 'p99'):>9}{unknowns(lag)}"
        yield f"  {variant:<18}{rates.fetches:>10.2f}{rates.bytes:>10,.0f}{lags}"
