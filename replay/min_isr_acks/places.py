"""Where batches lie that log no base offset: acks=0, placed by the bytes that followers fetched.

A follower that fetched at X, was sent B bytes of records and fetches at Y next, was sent exactly
the batches between X and Y: a PRODUCE's record bytes are those of its batch in the log. From a
known edge X the sizes of the batches that follow add up to B at exactly one of them, and Y is the
edge behind it. Transaction markers lie between batches too: each is a batch of ``MARKER_BYTES``
without a PRODUCE.

A partition's batches are numbered in the order of appends; ``State.remembered`` has those that a
follower may still be sent, ``State.edges`` at which offset which number begins, as far as known.

Where it can fail: appends within the same millisecond may be taken in the wrong order, a response
may end in the middle of a batch (maxBytes), a topic may recompress. Then the sizes do not add up,
nothing is placed, and the batches around are doubtful: what hangs on their offsets is unknown.
"""

from __future__ import annotations

from typing import Any

from kip_replay.replay.min_isr_acks.compiled import compiled
from kip_replay.replay.min_isr_acks.state import NOWHERE, NULL, State, moved_if_full

#: A control batch with one marker: 61 bytes of header, 17 of record.
MARKER_BYTES = 78
#: Markers looked for within one response.
MARKERS_MAX = 3
#: Batches before a disagreement that it makes doubtful too.
DISORDER_MAX = 2
#: Batches remembered: a follower that is further behind places nothing until it has caught up.
BATCHES_KEPT = 4_096


@compiled
def begin_places(s: State, p: int) -> None:
    """A new term: followers will be sent batches from wherever they are."""
    leader = s.leaders[p]
    leader.places_from, leader.trusted_from = 0, 0
    leader.edge_offset, leader.edge_number = NOWHERE, NOWHERE
    leader.has_unlogged, leader.is_trusted = False, True
    s.place_heads[p].length = 0
    s.edge_heads[p].length = 0


@compiled
def place(s: State, p: int, batch: int) -> None:
    """A batch was appended, with a base offset or, so far, only a floor."""
    leader, head, one = s.leaders[p], s.place_heads[p], s.batches[batch]
    number = leader.places_from + head.length
    s.used[0].remembered = moved_if_full(head, s.used[0].remembered, s.remembered)
    s.remembered[head.start + head.length] = batch
    head.length += 1
    one.is_doubtful = not leader.is_trusted
    if one.base_offset != NULL:
        _put_edge(s, p, one.base_offset, number)
    else:
        leader.has_unlogged = True
        if leader.edge_number == number:
            _begins(leader, one, leader.edge_offset)
    if head.length > 2 * BATCHES_KEPT:
        _forget_first(s, p, BATCHES_KEPT)


@compiled
def fetched(s: State, p: int, start: int, end: int, record_bytes: int) -> None:
    """A follower was sent so many bytes of records, from one offset to another."""
    leader, head = s.leaders[p], s.place_heads[p]
    if not leader.has_unlogged or end <= start:
        return
    first = _number_at(s, p, start)
    if first == NOWHERE:
        return
    behind = _behind(s, p, first, record_bytes)
    if behind == NOWHERE:
        _doubt(s, p, first)
        return
    if first >= leader.trusted_from:
        leader.is_trusted = True
    _put_edge(s, p, end, behind)
    if behind > leader.edge_number:
        leader.edge_offset, leader.edge_number = end, behind
    for number in range(first, behind):
        one = s.batches[s.remembered[head.start + number - leader.places_from]]
        if one.base_offset == NULL:
            most = end - (behind - number)
            one.ceiling = most if one.ceiling == NULL else min(most, one.ceiling)
    after = behind - leader.places_from
    if after < head.length:
        following = s.batches[s.remembered[head.start + after]]
        if following.base_offset == NULL:
            _begins(leader, following, end)


@compiled
def forget_places(s: State, p: int) -> None:
    """Followers only go on: what all of them have been sent is placed, or never will be."""
    leader, head, edges = s.leaders[p], s.place_heads[p], s.edge_heads[p]
    number = leader.places_from + head.length
    lowest, is_known = 0, False
    for seat in range(s.followers.shape[1]):
        follower = s.followers[p, seat]
        if follower.is_known and (not is_known or follower.offset < lowest):
            lowest, is_known = follower.offset, True
    if is_known:
        at = _edge_from(s, p, lowest + 1) - 1
        if at < edges.start:
            return
        number = s.edges[at].number
    gone = min(number - DISORDER_MAX - leader.places_from, head.length)
    if gone > 0:
        _forget_first(s, p, gone)


@compiled
def _doubt(s: State, p: int, first: int) -> None:
    """Another order than it seems: whatever lies here may lie elsewhere.

    And so on, until sizes add up again from an offset that was logged since.
    """
    leader, head = s.leaders[p], s.place_heads[p]
    for i in range(max(0, first - leader.places_from - DISORDER_MAX), head.length):
        s.batches[s.remembered[head.start + i]].is_doubtful = True
    leader.is_trusted = False
    leader.trusted_from = leader.places_from + head.length
    leader.edge_offset, leader.edge_number = NOWHERE, NOWHERE


@compiled
def _behind(s: State, p: int, first: int, record_bytes: int) -> int:
    """The batch that begins where the bytes end; NOWHERE if no, or more than one, does."""
    leader, head = s.leaders[p], s.place_heads[p]
    found, total, number = NOWHERE, 0, first
    while total <= record_bytes:
        rest = record_bytes - total
        markers = MARKERS_MAX if leader.has_markers else 0
        if rest % MARKER_BYTES == 0 and rest // MARKER_BYTES <= markers:
            if found != NOWHERE:
                return NOWHERE
            found = number
        if number - leader.places_from >= head.length:
            break
        size = s.batches[s.remembered[head.start + number - leader.places_from]].record_bytes
        if size == NULL:
            break
        total += size
        number += 1
    return found


@compiled
def _begins(leader: Any, one: Any, offset: int) -> None:
    # An edge is certain; a floor that was counted takes the order of appends for granted.
    one.floor = offset
    if not leader.has_markers:
        one.ceiling = offset


@compiled
def _edge_from(s: State, p: int, offset: int) -> int:
    """Position of a partition's first edge at an offset or above; the end if there is none."""
    head = s.edge_heads[p]
    low, high = head.start, head.start + head.length
    if high > low and s.edges[high - 1].offset < offset:
        return int(high)
    while low < high:
        middle = (low + high) // 2
        if s.edges[middle].offset < offset:
            low = middle + 1
        else:
            high = middle
    return int(low)


@compiled
def _number_at(s: State, p: int, offset: int) -> int:
    """Which batch begins at an offset, NOWHERE if that is not known."""
    head = s.edge_heads[p]
    at = _edge_from(s, p, offset)
    if at == head.start + head.length or s.edges[at].offset != offset:
        return NOWHERE
    return int(s.edges[at].number)


@compiled
def _put_edge(s: State, p: int, offset: int, number: int) -> None:
    head = s.edge_heads[p]
    at = _edge_from(s, p, offset)
    end = head.start + head.length
    if at == end or s.edges[at].offset != offset:
        index = at - head.start
        s.used[0].edges = moved_if_full(head, s.used[0].edges, s.edges)
        at, end = head.start + index, head.start + head.length
        for i in range(end, at, -1):
            s.edges[i] = s.edges[i - 1]
        head.length += 1
    s.edges[at].offset, s.edges[at].number = offset, number


@compiled
def _forget_first(s: State, p: int, gone: int) -> None:
    """Remember so many batches less, and the edges of the others only."""
    leader, head, edges = s.leaders[p], s.place_heads[p], s.edge_heads[p]
    head.start += gone
    head.length -= gone
    head.capacity -= gone
    leader.places_from += gone
    kept = 0
    for i in range(edges.start, edges.start + edges.length):
        if s.edges[i].number >= leader.places_from:
            s.edges[edges.start + kept] = s.edges[i]
            kept += 1
    edges.length = kept
