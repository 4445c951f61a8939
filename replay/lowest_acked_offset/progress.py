"""What each broker has applied when, from when it learned that it was committed.

A broker has applied what is below the high watermark that it has learned (recorded, or replayed
with or without KIP-1166), after a delay. The delay is the log's: each recorded heartbeat shows
whether the newest offset that its broker knew was applied yet, and the delay is the age that parts
the two best, over all brokers. A broker that a heartbeat shows to be slow (see ``evidence``) has
applied what it knew half-way to the heartbeat that first shows it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from ..outcomes import RECORDED
from .timelines import Rising

#: A broker that has not applied what it knew for longer than this is slow, not just on its way.
SLOW_US = 100_000
#: The last heartbeats that came soon after their broker learned, by which the delay is measured.
DELAY_SAMPLES = 128
#: Until they outvote it: brokers apply within 10 ms. One late heartbeat alone is no measure.
ASSUMED_DELAY = ((10_000, True),) * 4


def apply_delay_us(seen: Sequence[tuple[int, bool]]) -> int:
    """The age that best parts what was not applied yet from what was.

    ``seen``: age (microseconds) of the newest known offset when a heartbeat was sent, and whether
    the heartbeat had it. Of several ages that err equally often, the smallest.
    """
    best, fewest = 0, sum(not applied for _, applied in seen)
    wrong = fewest
    for age, applied in sorted(seen):
        # At a delay just above this age, what was applied at it is wrong, what was not is right.
        wrong += 1 if applied else -1
        if wrong < fewest:
            best, fewest = age, wrong
    return best


class ApplyDelay(msgspec.Struct):
    """The last samples of all brokers (one broker has too few), and the delay that they show."""

    seen: list[tuple[int, bool]] = []
    us: int = 0

    def add(self, age: int, applied: bool) -> None:
        """A heartbeat had, or had not, what its broker had known for ``age`` microseconds."""
        self.seen = [*self.seen[1 - DELAY_SAMPLES :], (age, applied)]
        self.us = apply_delay_us([*ASSUMED_DELAY, *self.seen])


class Slow(msgspec.Struct):
    """A broker had not applied what it knew (``known``) until a time (open: None).

    Heartbeats at ``at`` carried ``offsets``: until each it had no more than that one's.
    """

    known: int
    at: list[int]
    offsets: list[int]
    until_us: int | None = None

    def offset(self, at: int) -> int:
        """No more than this was applied at a time."""
        return self.offsets[min(bisect_left(self.at, at), len(self.at) - 1)]


class Progress(msgspec.Struct):
    learned: Rising = msgspec.field(default_factory=Rising)
    due: dict[str, Rising] = {}
    slow: list[Slow] = []

    def learn(self, variant: str, at: int, due: int, high_watermark: int) -> None:
        """The broker learned a high watermark, and is due to have applied it at a later time."""
        if variant == RECORDED:
            self.learned.add(at, high_watermark - 1)
        self.due.setdefault(variant, Rising()).add(due, high_watermark - 1)

    def heartbeat(self, at: int, offset: int, delay: ApplyDelay) -> list[int]:
        """A recorded heartbeat measures delay and slowness. -> when a slow broker caught up."""
        caught_up = []
        for slow in self.slow:
            if slow.until_us is None and offset >= slow.known:
                slow.until_us = (slow.at[-1] + at) // 2
                caught_up.append(slow.until_us)
            elif slow.until_us is None:
                slow.at.append(at)
                slow.offsets.append(max(slow.offsets[-1], offset))
        index = bisect_right(self.learned.at, at) - 1
        if index >= 0:
            self._measure(index, at, offset, delay)
        return caught_up

    def _measure(self, index: int, at: int, offset: int, delay: ApplyDelay) -> None:
        known = self.learned
        missing = bisect_right(known.values, offset, 0, index + 1)
        if missing <= index and at - known.at[missing] > SLOW_US:
            overdue = known.value(at - SLOW_US)
            if overdue is not None and not any(slow.until_us is None for slow in self.slow):
                self.slow.append(Slow(overdue, [at], [offset]))
        elif at - known.at[index] <= SLOW_US:
            delay.add(at - known.at[index], offset >= known.values[index])

    def applied(self, variant: str, at: int) -> int | None:
        """The last offset applied at a time; None while nothing is known of the variant."""
        due = self.due.get(variant)
        offset = due.value(at) if due is not None else None
        if offset is None:
            return None
        for slow in self.slow:
            if slow.until_us is None or at < slow.until_us:
                offset = min(offset, slow.offset(at))
        return offset

    def forget(self, before: int) -> None:
        for timeline in (self.learned, *self.due.values()):
            timeline.forget(before)
        self.slow = [s for s in self.slow if s.until_us is None or s.until_us >= before]
