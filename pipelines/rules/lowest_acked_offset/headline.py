"""lowest_acked_offset on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kip_replay.pipelines.report.terminal import median_and_p90, unknowns
from kip_replay.pipelines.rules.lowest_acked_offset.figures import READ_AFTER_WRITE, STALE, Figures
from kip_replay.replay.lowest_acked_offset import FINEST_EVIDENCE, LOWEST_ACKED


def headline(one: Figures) -> Iterator[str]:
    """Lines on how long brokers show the old state, and when a client can read what it wrote."""
    stale, finest = (one.spread(STALE, variant) for variant in (LOWEST_ACKED, FINEST_EVIDENCE))
    known = one.spread(READ_AFTER_WRITE, LOWEST_ACKED)
    if stale is None and known is None:
        yield f"lowest_acked_offset on {one.recording}: no metadata write in its steady phase"
        return
    yield f"lowest_acked_offset on {one.recording}: ms, p50 / p90"
    by_finest = f" (by the finest evidence {median_and_p90(finest)})" if finest else ""
    read_after_write = f"read-after-write {median_and_p90(known)}{unknowns(known)}"
    yield f"  stale window {median_and_p90(stale)}{by_finest}{unknowns(stale)}   {read_after_write}"
