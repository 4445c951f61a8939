"""min_isr_acks on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kip_replay.pipelines.report.terminal import median_and_p90, ms, unknowns
from kip_replay.pipelines.report.values import Percentiles
from kip_replay.pipelines.rules.min_isr_acks.figures import (
    EXPOSURE,
    LATENCY,
    REACTING,
    VARIANTS,
    Figures,
)


def headline(one: Figures) -> Iterator[str]:
    """Lines on how long producers wait, and what the earlier response exposes."""
    waits = {variant: one.spread(REACTING, variant) for variant in VARIANTS}
    if not any(waits.values()):
        yield f"min_isr_acks on {one.recording}: no PRODUCE with acks=all"
        return
    yield f"min_isr_acks on {one.recording}: producers with acks=all, ms, p50 / p90"
    yield f"  if they react: {_side_by_side(waits)}{unknowns(waits[VARIANTS[-1]])}"
    sent = one.sent_at_other_times
    between = "" if sent is None else f": p50 {sent[0]:,.1f} to {sent[1]:,.1f}"
    for row in one.found("arrivals"):
        yield (
            f"    {row['own']} of {row['n']} PRODUCEs came on their own; the others may have been"
            f" sent earlier or later{between}"
        )
        if row["after_the_log"]:
            yield f"    the log ended before {row['after_the_log']} of the responses"
    as_arrived = {variant: one.spread(LATENCY, variant) for variant in VARIANTS[1:]}
    yield f"  each as it arrived: {_side_by_side(as_arrived)}{unknowns(as_arrived[VARIANTS[-1]])}"
    exposure = one.spread(EXPOSURE, VARIANTS[-1])
    yield f"  exposure, p90: {ms(exposure, 'p90')}{unknowns(exposure)}"


def _side_by_side(waits: Mapping[str, Percentiles | None]) -> str:
    return "   ".join(f"{variant} {median_and_p90(wait)}" for variant, wait in waits.items())
