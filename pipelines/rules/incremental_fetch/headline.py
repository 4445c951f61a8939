"""incremental_fetch on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kip_replay.pipelines.report.terminal import rate, table
from kip_replay.pipelines.rules.incremental_fetch.figures import FOLLOWER, Figures
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, INCREMENTAL_DRAFT


def headline(one: Figures) -> Iterator[str]:
    """Lines on partitions that followers list, and the bytes of all FETCHes and responses."""
    variants = [v for v in (FULL, INCREMENTAL, INCREMENTAL_DRAFT) if one.total(v)]
    unknown = one.unknown(INCREMENTAL)
    if not variants:
        none = f"all {unknown} FETCHes are unknown (fetch_session_outcomes says why)"
        nothing = none if unknown else "no FETCH of topic partitions in its steady phase"
        yield f"incremental_fetch on {one.recording}: {nothing}"
        return
    yield f"incremental_fetch on {one.recording}: what FETCHes and responses carry"
    rows = {
        "partitions of a follower's FETCH": [_partitions(one, v) for v in variants],
        "bytes/s of all, both ways": [
            rate(one.rates(v).bytes, one.traffic_interval("bytes", v), 0) for v in variants
        ],
    }
    yield from table(variants, rows)
    if unknown:
        yield f"  unknown: {unknown}"


def _partitions(one: Figures, variant: str) -> str:
    follower = one.total(variant, FOLLOWER)
    mean = follower.request_partitions_mean if follower else None
    return rate(mean, one.traffic_interval("partitions", variant, FOLLOWER), 2)
