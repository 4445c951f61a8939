"""Where batches lie that log no base offset: acks=0, placed by the bytes that followers fetched.

A follower that fetched at X, was sent B bytes of records and fetches at Y next, was sent exactly
the batches between X and Y: a PRODUCE's record bytes are those of its batch in the log. From a
known edge X the sizes of the batches that follow add up to B at exactly one of them, and Y is the
edge behind it. Transaction markers lie between batches too: each is a batch of ``MARKER_BYTES``
that no PRODUCE tells of.

Where it can fail: appends within the same millisecond may be taken in the wrong order, an answer
may end in the middle of a batch (maxBytes), a topic may recompress. Then the sizes do not add up,
nothing is placed, and the batches around are doubtful: what hangs on their offsets is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

#: A control batch with one marker: 61 bytes of header, 17 of record.
MARKER_BYTES = 78
#: Markers looked for within one answer.
MARKERS_MAX = 3
#: Batches before a disagreement that it makes doubtful too.
DISORDER_MAX = 2
#: Batches remembered: a follower that is further behind places nothing until it has caught up.
BATCHES_KEPT = 4_096


class Placed(Protocol):
    """A batch whose base offset is ``base_offset``, or, if that is None, between two bounds."""

    base_offset: int | None
    floor: int
    ceiling: int | None
    record_bytes: int | None
    is_doubtful: bool


@dataclass
class Places:
    """The batches of one partition in the order of appends, and the edges that are known.

    ``has_markers``: transaction markers may lie between batches.
    """

    has_markers: bool = False
    _batches: list[Placed] = field(default_factory=list)
    _first: int = 0
    _edges: dict[int, int] = field(default_factory=dict)
    _last_edge: tuple[int, int] = (-1, -1)
    _has_unlogged: bool = False
    _is_trusted: bool = True
    _trusted_from: int = 0

    def append(self, batch: Placed) -> None:
        """A batch was appended, with a base offset or, so far, only a floor."""
        number = self._first + len(self._batches)
        self._batches.append(batch)
        batch.is_doubtful = not self._is_trusted
        if batch.base_offset is not None:
            self._edges[batch.base_offset] = number
        else:
            self._has_unlogged = True
            offset, behind = self._last_edge
            if behind == number:
                self._begins(batch, offset)
        if len(self._batches) > 2 * BATCHES_KEPT:
            del self._batches[:BATCHES_KEPT]
            self._first += BATCHES_KEPT
            self._edges = {o: n for o, n in self._edges.items() if n >= self._first}

    def fetched(self, start: int, end: int, record_bytes: int) -> None:
        """A follower was sent so many bytes of records, from one offset to another."""
        first = self._edges.get(start)
        if not self._has_unlogged or first is None or first < self._first or end <= start:
            return
        behind = self._behind(first, record_bytes)
        if behind is None:
            # Another order than it seems: whatever lies here may lie elsewhere.
            for batch in self._batches[max(0, first - self._first - DISORDER_MAX) :]:
                batch.is_doubtful = True
            # And so on, until sizes add up again from an offset that was logged since.
            self._is_trusted = False
            self._trusted_from = self._first + len(self._batches)
            self._last_edge = (-1, -1)
            return
        if first >= self._trusted_from:
            self._is_trusted = True
        self._edges[end] = behind
        if behind > self._last_edge[1]:
            self._last_edge = (end, behind)
        for number in range(first, behind):
            batch = self._batches[number - self._first]
            if batch.base_offset is None:
                most = end - (behind - number)
                batch.ceiling = most if batch.ceiling is None else min(most, batch.ceiling)
        after = behind - self._first
        if after < len(self._batches) and self._batches[after].base_offset is None:
            self._begins(self._batches[after], end)

    def forget(self, lowest: int | None) -> None:
        """Followers only go on: what all of them (from ``lowest`` on) have been sent is placed.

        Or never will be. None: no follower is known.
        """
        number = self._first + len(self._batches)
        if lowest is not None:
            below = [offset for offset in self._edges if offset <= lowest]
            if not below:
                return
            number = self._edges[max(below)]
        gone = min(number - DISORDER_MAX - self._first, len(self._batches))
        if gone > 0:
            del self._batches[:gone]
            self._first += gone
            self._edges = {o: n for o, n in self._edges.items() if n >= self._first}

    def _behind(self, first: int, record_bytes: int) -> int | None:
        """The batch that begins where the bytes end; None if no, or more than one, does."""
        found = []
        total, number = 0, first
        while total <= record_bytes:
            markers, rest = divmod(record_bytes - total, MARKER_BYTES)
            if rest == 0 and markers <= (MARKERS_MAX if self.has_markers else 0):
                found.append(number)
            if number - self._first >= len(self._batches):
                break
            size = self._batches[number - self._first].record_bytes
            if size is None:
                break
            total += size
            number += 1
        return found[0] if len(found) == 1 else None

    def _begins(self, batch: Placed, offset: int) -> None:
        # An edge is certain; a floor that was counted takes the order of appends for granted.
        batch.floor = offset
        if not self.has_markers:
            batch.ceiling = batch.floor
