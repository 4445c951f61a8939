"""Finds spans in which lines can have been read twice, without looking at a line.

Copies of a line have one time. So two readings of a node can share lines only where their spans
overlap, and mostly none do but at their ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from kip_replay.pipelines.ingest.line_accounting import Node

#: First and last microsecond (UTC, since 1970) of something, both included.
Span = tuple[int, int]

#: More spans than these become fewer and longer: each line is held against all of its node's.
_SPANS_MAX = 200


def overlaps(
    readings: Sequence[Mapping[Node, Sequence[Span]]], slack_us: Mapping[Node, int]
) -> dict[Node, list[Span]]:
    """The spans in which lines of a node may have been read twice, none for most nodes.

    No reading has a line twice: what a task has read, or what the warehouse holds. ``slack_us``: by
    how much the times of two readings of one line can differ.
    """
    found: dict[Node, list[Span]] = {}
    for node in dict.fromkeys(node for reading in readings for node in reading):
        slack = slack_us.get(node, 0)
        here = [span for reading in readings for span in _merged(reading.get(node, ()))]
        if spans := [*_overlaps(sorted(here), slack)]:
            found[node] = _fewer(_merged((first - slack, last + slack) for first, last in spans))
    return found


def _overlaps(spans: Sequence[Span], slack: int) -> Iterator[Span]:
    """Intersects spans, sorted, with those before them."""
    reached: int | None = None
    for first, last in spans:
        if reached is not None and first <= reached + slack:
            both = (first, min(last, reached))
            yield min(both), max(both)
        reached = max(last, reached or last)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Joins spans that touch."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _fewer(spans: list[Span]) -> list[Span]:
    """Takes the shortest gaps in where there are too many spans."""
    while len(spans) > _SPANS_MAX:
        gaps = [after[0] - before[1] for before, after in pairwise(spans)]
        shortest = gaps.index(min(gaps))
        spans[shortest : shortest + 2] = [(spans[shortest][0], spans[shortest + 1][1])]
    return spans
