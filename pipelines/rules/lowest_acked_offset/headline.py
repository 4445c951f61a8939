"""lowest_acked_offset on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kip_replay.pipelines.report.terminal import median_and_p90, unknowns
from kip_replay.pipelines.rules.lowest_acked_offset.figures import Figures


def headline(one: Figures) -> Iterator[str]:
    """Lines on how long brokers show the old state, and when a client can read what it wrote."""
    if one.stale is None and one.read_after_write is None:
        yield f"lowest_acked_offset on {one.recording}: no metadata write in its steady phase"
        return
    yield f"lowest_acked_offset on {one.recording}: ms, p50 / p90"
    yield (
        f"  stale window {median_and_p90(one.estimated)}{unknowns(one.estimated)}"
        f" (at most, by heartbeats: {median_and_p90(one.stale)}{unknowns(one.stale)})"
    )
    yield (
        f"  read-after-write {median_and_p90(one.readable)}{unknowns(one.readable)}"
        f" (known, by heartbeats: {median_and_p90(one.read_after_write)}"
        f"{unknowns(one.read_after_write)})"
    )
