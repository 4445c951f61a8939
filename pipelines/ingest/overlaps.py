"""Where in time lines can have been read twice: from spans, without looking at a line.

Copies of a line have one time. So two batches of a node can share lines only where their spans
overlap, and mostly none do but at their ends.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from kip_replay.pipelines.ingest.line_accounting import Node
from kip_replay.pipelines.ingest.parse_task import COMPARED_BATCHES, Batch, Edge

#: First and last microsecond (UTC, since 1970) of something, both included.
Span = tuple[int, int]

#: More spans than these become fewer and longer: they end up in a filter.
_SPANS_MAX = 50


def overlaps(
    batches: Iterable[Batch], earlier: Mapping[Node, Collection[Span]], slack_us: Mapping[Node, int]
) -> dict[Node, list[Span]]:
    """The spans in which lines of a node may have been read twice, none for most nodes.

    ``earlier`` are spans of what the warehouse holds, ``slack_us`` by how much the times of two
    readings of one line can differ.
    """
    nodes: dict[Node, list[Batch]] = {}
    for batch in batches:
        nodes.setdefault((batch.recording, batch.node_id), []).append(batch)
    found: dict[Node, list[Span]] = {}
    for node, here in nodes.items():
        slack = slack_us.get(node, 0)
        spans = [*_among(here, slack), *_with_earlier(here, earlier.get(node, ()), slack)]
        if spans:
            found[node] = _merged([(first - slack, last + slack) for first, last in spans])
    return found


def _among(batches: Sequence[Batch], slack: int) -> Iterable[Span]:
    """Overlaps of batches that were not compared yet; a sweep over them by time."""
    open_: list[Batch] = []
    for batch in sorted(batches, key=lambda b: (b.first_us, b.last_us)):
        open_ = [other for other in open_ if other.last_us + slack >= batch.first_us]
        for other in open_:
            span = (batch.first_us, min(batch.last_us, other.last_us))
            if not _compared(batch, other) and not (slack == 0 and _differ(batch, other, span)):
                yield (min(span), max(span))
        open_.append(batch)


def _with_earlier(batches: Sequence[Batch], earlier: Collection[Span], slack: int) -> list[Span]:
    return [
        (max(batch.first_us, first - slack), min(batch.last_us, last + slack))
        for batch in batches
        for first, last in earlier
        if batch.first_us <= last + slack and first - slack <= batch.last_us
    ]


def _compared(one: Batch, other: Batch) -> bool:
    """Whether the task that parsed both has compared them."""
    return one.task == other.task and abs(one.number - other.number) <= COMPARED_BATCHES


def _differ(one: Batch, other: Batch, span: Span) -> bool:
    """Whether the edges show that the batches share no line in a span."""
    mine, others = _edge(one, span), _edge(other, span)
    return bool(mine and others and mine.line_ids.isdisjoint(others.line_ids))


def _edge(batch: Batch, span: Span) -> Edge | None:
    """An edge that has all lines of the batch within the span."""
    return next((e for e in batch.edges if e.first_us <= span[0] and span[1] <= e.last_us), None)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same times in few spans that do not touch; short gaps are taken in if need be."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    while len(merged) > _SPANS_MAX:
        gaps = [after[0] - before[1] for before, after in pairwise(merged)]
        shortest = gaps.index(min(gaps))
        merged[shortest : shortest + 2] = [(merged[shortest][0], merged[shortest + 1][1])]
    return merged
