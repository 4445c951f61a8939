"""min_isr_acks on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kip_replay.pipelines.report.terminal import ms, table
from kip_replay.pipelines.rules.min_isr_acks.figures import (
    EXPOSURE,
    LATENCY,
    REACTING,
    VARIANTS,
    Figures,
)
from kip_replay.replay.outcomes import RECORDED


def headline(one: Figures) -> Iterator[str]:
    """Lines on how long producers wait, and what the earlier response exposes."""
    waits = {variant: one.spread(REACTING, variant) for variant in VARIANTS}
    if not any(waits.values()):
        yield f"min_isr_acks on {one.recording}: no PRODUCE with acks=all"
        return
    yield f"min_isr_acks on {one.recording}: how long producers with acks=all wait, and exposure"
    rows = {RECORDED: waits[RECORDED]}
    rows |= {f"{v}, if they react": waits[v] for v in VARIANTS[1:]}
    rows |= {f"{v}, each as it arrived": one.spread(LATENCY, v) for v in VARIANTS[1:]}
    rows["exposure"] = one.spread(EXPOSURE, VARIANTS[-1])
    yield from table(
        ("p50 ms", "p90 ms", "unknown"),
        {
            name: (ms(of, "p50"), ms(of, "p90"), str(of.unknown) if of else "")
            for name, of in rows.items()
        },
    )
    sent = one.sent_at_other_times
    between = "" if sent is None else f": p50 {sent[0]:,.1f} to {sent[1]:,.1f}"
    for row in one.found("arrivals"):
        rate = row["per_second"]
        per_second = "" if rate is None else f" ({rate:.1f} a second, as recorded)"
        yield (
            f"    {row['own']} of {row['n']} PRODUCEs{per_second} came on their own; the others may"
            f" have been sent earlier or later{between}"
        )
        if row["after_the_log"]:
            yield f"    the log ended before {row['after_the_log']} of the responses"
