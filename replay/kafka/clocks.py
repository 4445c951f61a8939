"""Bounds how far the clocks of nodes are apart, by what must have come before what.

Theory of operation
-------------------
Every node stamps its lines by its own clock. Let clock b be ahead of clock a by an offset that does
not change. An event on a at stamp s that comes before an event on b at stamp t bounds it from
above: offset <= t - s, plus what a stamp can be wrong. An event on b that comes before one on a
bounds it from below. A bound of b to a and one of c to b add up to one of c to a, so the bounds of
any two nodes are shortest paths; where a cycle of them is negative, no offsets that do not change
can explain the log.

Source of the stamps: kafka-request.log's clock model (``SocketServer.processCompletedSends``,
``RequestChannel.updateRequestMetrics``): arrival and response are derived from when the line was
written.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

#: A line is written after its send was done: derived times are late by as long, and the stamp is
#: cut to milliseconds. Of 500 forwarded requests on recordings most are off by less than 2 ms, one
#: by 14 ms. A pause in between can make it more: on a loaded machine one of 200 was late by 58 ms.
STAMP_ERROR_US = 50_000


class Order(NamedTuple):
    """Events on node ``before`` that come before events on node ``after``: ``pairs`` of a kind.

    ``gap_us``: the least time between two, each by its own clock; None: too few to bound anything.
    """

    before: int
    after: int
    kind: str
    pairs: int
    gap_us: int | None


#: By (a, b): b's clock is ahead of a's by this at most, microseconds.
Bounds = dict[tuple[int, int], int]


class Clocks(StrEnum):
    """Two clocks; ``SAME`` as far as can be known."""

    SAME = "same"
    DIFFER = "differ"
    CONTRADICTED = "contradicted"
    NOT_BOUNDED = "not_bounded"


class Offset(NamedTuple):
    """Bounds how far a node's clock is ahead of another's, microseconds; None: not bounded."""

    earliest_us: int | None
    latest_us: int | None
    is_contradicted: bool

    @property
    def clocks(self) -> Clocks:
        if self.is_contradicted:
            return Clocks.CONTRADICTED
        if (self.earliest_us or 0) > 0 or (self.latest_us or 0) < 0:
            return Clocks.DIFFER
        is_bounded = self.earliest_us is not None and self.latest_us is not None
        return Clocks.SAME if is_bounded else Clocks.NOT_BOUNDED


def offsets(reference: int, nodes: Sequence[int], orders: Iterable[Order]) -> dict[int, Offset]:
    """Bounds by node how far its clock is ahead of the reference's."""
    most: Bounds = {(node, node): 0 for node in nodes}
    for order in orders:
        if order.gap_us is not None:
            pair, most_us = (order.before, order.after), order.gap_us + STAMP_ERROR_US
            most[pair] = min(most.get(pair, most_us), most_us)
    contradicted = {a for a, b in most if (b, a) in most and most[a, b] + most[b, a] < 0}
    contradicted.discard(reference)
    place = {node: n for n, node in enumerate(nodes)}
    shortest = np.full((len(nodes), len(nodes)), np.inf)
    for (a, b), us in most.items():
        if contradicted.isdisjoint((a, b)) and a in place and b in place:
            shortest[place[a], place[b]] = us
    # Shortest paths (Floyd and Warshall), a matrix a step: a large cluster has a thousand nodes.
    for via in range(len(nodes)):
        np.fmin(shortest, shortest[:, via, None] + shortest[via], out=shortest)
    contradicted |= {node for node in nodes if shortest[place[node], place[node]] < 0}
    bounded = np.isfinite(shortest).nonzero()
    most = {(nodes[a], nodes[b]): int(shortest[a, b]) for a, b in zip(*bounded, strict=True)}
    return {
        node: _offset(most, reference, node, node in contradicted)
        for node in nodes
        if node != reference
    }


def off_from_all(offsets_of_nodes: Iterable[Offset]) -> Offset | None:
    """Returns how far all clocks are ahead of the reference's, if the reference is the one off.

    That is so if two or more differ from it, and the same offset explains all of them.
    """
    every = [offset for offset in offsets_of_nodes if not offset.is_contradicted]
    earliest_us = max((o.earliest_us for o in every if o.earliest_us is not None), default=None)
    latest_us = min((o.latest_us for o in every if o.latest_us is not None), default=None)
    if earliest_us is None or latest_us is None or earliest_us > latest_us:
        return None
    shared = Offset(earliest_us, latest_us, is_contradicted=False)
    differing = sum(offset.clocks is Clocks.DIFFER for offset in every)
    return shared if differing > 1 and shared.clocks is Clocks.DIFFER else None


def _offset(most: Bounds, reference: int, node: int, is_contradicted: bool) -> Offset:
    if is_contradicted:
        return Offset(None, None, True)
    least_us = most.get((node, reference))
    return Offset(None if least_us is None else -least_us, most.get((reference, node)), False)
