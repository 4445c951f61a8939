"""incremental_fetch on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from kip_replay.pipelines.rules.incremental_fetch.figures import FOLLOWER, Figures
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, INCREMENTAL_DRAFT


def headline(one: Figures) -> Iterator[str]:
    """Lines on partitions that followers list, and the bytes of all FETCHes and responses."""
    parts = []
    for variant in (FULL, INCREMENTAL, INCREMENTAL_DRAFT):
        if one.total(variant):
            follower = one.total(variant, FOLLOWER)
            mean = follower.request_partitions_mean if follower else None
            listed = "-" if mean is None else f"{mean:.2f}"
            parts.append(f"{variant} {listed}, {one.rates(variant).bytes:,.0f}")
    unknown = one.unknown(INCREMENTAL)
    if not parts:
        none = f"all {unknown} FETCHes are unknown (fetch_session_outcomes says why)"
        nothing = none if unknown else "no FETCH of topic partitions in its steady phase"
        yield f"incremental_fetch on {one.recording}: {nothing}"
        return
    what = "partitions in a follower's FETCH, and bytes/s of all FETCHes and responses"
    yield f"incremental_fetch on {one.recording}: {what}"
    yield f"  {'   '.join(parts)}{f'   unknown: {unknown}' if unknown else ''}"
