"""Where batches lie that log no base offset: acks=0.

Its neighbours bound such a batch: the appends lie between the begin and the end of their handlers,
and where handlers ran at the same time, before or after one another. The bytes that followers were
sent place it: a follower that fetched at X, was sent B bytes of records and fetches at Y next, was
sent exactly the batches between X and Y. From a known edge X the sizes of the batches that follow
add up to B at exactly one of them, and Y is the edge behind it. Transaction markers lie between
batches too: each is a batch of ``MARKER_BYTES`` without a PRODUCE.

Where it can fail: appends within the same millisecond may be taken in the wrong order, a response
may end in the middle of a batch (maxBytes), a topic may recompress. Then the sizes do not add up,
nothing is placed, and the batches around are doubtful: what hangs on their offsets is unknown.
"""

from typing import NamedTuple

import msgspec

#: Two PRODUCEs whose handlers are no further apart than this may have appended in either order.
ORDER_SLACK_US = 5_000
#: Batches looked at for that.
RIVALS_MAX = 32
#: A control batch with one marker: 61 bytes of header, 17 of record.
MARKER_BYTES = 78
#: Markers looked for within one response.
MARKERS_MAX = 3
#: Batches before a disagreement that it makes doubtful too.
DISORDER_MAX = 2
#: Batches remembered: a follower that is further behind places nothing until it has caught up.
BATCHES_KEPT = 4_096
#: Bounds that are known so long after the append stay as they are.
BOUNDED_US = 5_000_000


class Bounds(NamedTuple):
    """What a base offset can be, known from ``bounded_us`` on; None while nothing bounds it."""

    base_offset: int | None
    least: int
    most: int | None
    is_doubtful: bool
    bounded_us: int


class Batch(msgspec.Struct):
    """``floor`` and ``ceiling`` bound the base offset in the order of handlers, ``least`` whatever
    the order of ``rivals``: batches that may have been appended before or after it.
    """

    number: int
    appended_us: int
    base_offset: int | None
    record_bytes: int | None
    log_end: int
    floor: int
    least: int
    ceiling: int | None = None
    next_base_offset: int | None = None
    bounded_us: int = 0
    is_doubtful: bool = False
    rivals: list[int] = []

    @property
    def end(self) -> int | None:
        return self.ceiling if self.base_offset is None else self.base_offset

    def bound(self, ceiling: int, at_us: int) -> None:
        self.bounded_us = at_us if self.ceiling is None else self.bounded_us
        self.ceiling = ceiling

    def is_open(self, at_us: int) -> bool:
        return self.end is None or at_us <= self.appended_us + BOUNDED_US


class Unlogged(msgspec.Struct):
    """The batches of a partition in the order of appends, numbered, and the edges that are known.

    ``waiting``: numbers of batches that are not settled, by event. ``sent``: where followers stand
    and the bytes they were sent. ``first``: batches before it are of an old term.
    """

    term: int
    batches: list[Batch] = []
    waiting: dict[int, int] = {}
    has_markers: bool = False
    first: int = 0
    trusted_from: int = 0
    edges: dict[int, int] = {}
    furthest: tuple[int, int] = (-1, -1)
    has_unlogged: bool = False
    is_trusted: bool = True
    sent: dict[int, tuple[int, int]] = {}
    forget_from: int = RIVALS_MAX
    holes: int = 0

    def skip(self) -> None:
        """Lines are missing: what was sent across that places nothing."""
        self.is_trusted, self.trusted_from = False, self._end
        self.furthest = (-1, -1)
        self.edges.clear()
        self.sent.clear()

    def begin_term(self, term: int) -> None:
        """Followers will be sent batches from wherever they are."""
        self.term, self.first = term, self._end
        self.trusted_from, self.furthest = self.first, (-1, -1)
        self.has_unlogged, self.is_trusted = False, True
        self.edges.clear()
        self.sent.clear()

    @property
    def _end(self) -> int:
        return self.batches[-1].number + 1 if self.batches else self.first

    def _from(self, number: int) -> list[Batch]:
        """The batches from a number on, of this term."""
        begin = self.batches[0].number if self.batches else 0
        return self.batches[max(number, self.first, begin) - begin :]

    def bounds(self, order: int) -> Bounds | None:
        """What an event's base offset can be, None if it is logged."""
        if order not in self.waiting:
            return None
        begin = self.batches[0].number
        batch = self.batches[self.waiting[order] - begin]
        near = [batch, *(self.batches[number - begin] for number in batch.rivals)]
        ends = [one.end for one in near]
        most = None if None in ends else max(end for end in ends if end is not None)
        base_offset = batch.floor if batch.ceiling == batch.floor else None
        least = batch.least if batch.rivals else batch.floor
        bounded_us = max(one.bounded_us for one in near)
        return Bounds(base_offset, least, most, batch.is_doubtful, bounded_us)

    def append(
        self,
        order: int,
        begun_us: int,
        at_us: int,
        base: int | None,
        size: int | None,
        log_end: int,
    ) -> None:
        """A batch was appended, its handler began and ended; the log end offset was ``log_end``."""
        floor = log_end if base is None else base
        batch = Batch(self._end, at_us, base, size, log_end, floor, log_end)
        batch.is_doubtful = not self.is_trusted
        if base is not None:
            self._order(batch, base, begun_us)
            self.edges[base] = batch.number
        else:
            self.waiting[order], self.has_unlogged = batch.number, True
            if self.furthest[1] == batch.number:
                self._begins(batch, at_us, self.furthest[0])
        for earlier in self.batches[: -RIVALS_MAX - 1 : -1]:
            is_logged = base is not None and earlier.base_offset is not None
            if not is_logged and earlier.appended_us + ORDER_SLACK_US >= begun_us:
                for one, other in ((batch, earlier), (earlier, batch)):
                    one.rivals.append(other.number)
                    one.least = min(one.least, other.log_end)
        self.batches.append(batch)
        if len(self.batches) > 2 * BATCHES_KEPT:
            self._forget(self.batches[BATCHES_KEPT].number)

    def _order(self, batch: Batch, base: int, begun_us: int) -> None:
        """Base offsets show the order of appends; they bound those that are not logged."""
        behind = 0
        for earlier in reversed(self.batches):
            known = earlier.next_base_offset
            if earlier.base_offset is None:
                behind += 1
                if earlier.ceiling is None:
                    earlier.bound(base - behind, batch.appended_us)
            elif earlier.base_offset < base:
                earlier.next_base_offset = base if known is None else min(base, known)
                is_before = earlier.appended_us + ORDER_SLACK_US < begun_us
                if is_before and known is not None and known <= base:
                    break
            elif earlier.base_offset > base:
                ahead = batch.next_base_offset or earlier.base_offset
                batch.next_base_offset = min(ahead, earlier.base_offset)

    def _begins(self, batch: Batch, at_us: int, offset: int) -> None:
        # An edge is certain; a floor that was counted takes the order of appends for granted.
        batch.floor = offset
        if not self.has_markers:
            batch.bound(offset, at_us)

    def fetch(self, at_us: int, follower: int, offset: int | None, record_bytes: int) -> None:
        """A follower fetches at an offset, or without one goes on, and is sent records."""
        start, sent = self.sent.get(follower, (-1, 0))
        if offset is not None:
            self._fetched(at_us, start, offset, sent)
            start = offset
        if start >= 0:
            self.sent[follower] = (start, record_bytes)
        if len(self.batches) > self.forget_from:
            self._forget_sent(at_us)
            self.forget_from = 2 * len(self.batches) + RIVALS_MAX

    def _fetched(self, at_us: int, start: int, end: int, record_bytes: int) -> None:
        first = self.edges.get(start)
        if not self.has_unlogged or end <= start or first is None:
            return
        behind = self._behind(first, record_bytes)
        if behind is None:
            self._doubt(at_us, first)
            return
        self.is_trusted |= first >= self.trusted_from
        self.edges[end] = behind
        if behind > self.furthest[1]:
            self.furthest = end, behind
        for batch in self._from(first)[: behind - first + 1]:
            if batch.base_offset is not None or not batch.is_open(at_us):
                continue
            if batch.number == behind:
                self._begins(batch, at_us, end)
            else:
                most = end - (behind - batch.number)
                most = most if batch.ceiling is None else min(most, batch.ceiling)
                batch.bound(most, at_us)

    def _behind(self, first: int, record_bytes: int) -> int | None:
        """The batch that begins where the bytes end; None if no, or more than one, does."""
        found, rest, number = None, record_bytes, first
        markers = MARKERS_MAX if self.has_markers else 0
        for batch in [*self._from(first), None]:
            if rest >= 0 and rest % MARKER_BYTES == 0 and rest // MARKER_BYTES <= markers:
                if found is not None:
                    return None
                found = number
            if batch is None or batch.record_bytes is None or rest < 0:
                break
            rest, number = rest - batch.record_bytes, number + 1
        return found

    def _doubt(self, at_us: int, first: int) -> None:
        """Whatever lies from here on may lie elsewhere, until sizes add up again."""
        for batch in self._from(first - DISORDER_MAX):
            batch.is_doubtful |= batch.is_open(at_us)
        self.is_trusted, self.trusted_from = False, self._end
        self.furthest = (-1, -1)

    def _forget_sent(self, at_us: int) -> None:
        """Followers only go on: what all of them have been sent is placed, or never will be."""
        lowest = min((start for start, _ in self.sent.values()), default=-1)
        edges = [number for offset, number in self.edges.items() if offset <= lowest]
        still_open = (one.number for one in self.batches if one.is_open(at_us))
        self._forget(min(max(edges, default=0) - DISORDER_MAX, next(still_open, self._end)))

    def _forget(self, number: int) -> None:
        number = min(number, min(self.waiting.values(), default=number) - RIVALS_MAX)
        self.batches = [one for one in self.batches if one.number >= number]
        self.edges = {at: one for at, one in self.edges.items() if one >= number}
