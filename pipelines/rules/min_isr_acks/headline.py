"""min_isr_acks on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kip_replay.pipelines.report.terminal import median_and_p90, ms, unknowns
from kip_replay.pipelines.rules.min_isr_acks.figures import EXPOSURE, LATENCY, VARIANTS, Figures


def headline(one: Figures) -> Iterator[str]:
    """Lines on how long producers wait, and what the earlier response exposes."""
    waits = {variant: one.spread(LATENCY, variant) for variant in VARIANTS}
    if not any(waits.values()):
        yield f"min_isr_acks on {one.recording}: no PRODUCE with acks=all"
        return
    yield f"min_isr_acks on {one.recording}: producers with acks=all, ms, p50 / p90"
    pairs = "   ".join(f"{variant} {median_and_p90(wait)}" for variant, wait in waits.items())
    yield f"  until the response: {pairs}{unknowns(waits[VARIANTS[-1]])}"
    exposure = one.spread(EXPOSURE, VARIANTS[-1])
    yield f"  exposure, p90: {ms(exposure, 'p90')}{unknowns(exposure)}"
