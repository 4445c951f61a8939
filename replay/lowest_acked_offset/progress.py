"""What each broker has applied when, from when it learned that it was committed.

A broker has applied what is below the high watermark that it has learned (recorded, or replayed
with or without KIP-1166), after a delay. The delay is from the log: each recorded heartbeat says of
the newest thing its broker knew whether it was applied yet, and the delay is the age that parts the
two best, over all brokers. A broker that a heartbeat shows to be slow (see ``evidence``) has
applied what it knew half-way to the heartbeat that first shows it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kip_replay.replay.lowest_acked_offset.timelines import HIGHEST, Bools, Ints, Rising
from kip_replay.replay.outcomes import RECORDED

#: A broker that has not applied what it knew for longer than this is slow, not just on its way.
SLOW_US = 100_000
#: So many of the last heartbeats that came soon after their broker learned tell the apply delay.
DELAY_SAMPLES = 128
#: Until they outvote it: brokers apply within 10 ms. One late heartbeat alone is no measure.
ASSUMED_DELAY = ((10_000, True),) * 4
#: Offset of a broker of which nothing is known.
NOTHING_KNOWN = -HIGHEST
#: So many heartbeats' samples are sorted at once.
_BLOCK = 512


class Measured(NamedTuple):
    """Heartbeats that came soon after their broker learned, in order of turns.

    ``age_us`` of the newest known offset when the heartbeat was sent, and whether it had it.
    """

    age_us: Ints
    applied: Bools
    turn: Ints

    @classmethod
    def together(cls, parts: Sequence[Measured]) -> Measured:
        """Those of several brokers, in order of turns."""
        none = cls(np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0, np.int64))
        several = cls._make(np.concatenate(columns) for columns in zip(none, *parts, strict=True))
        order = np.argsort(several.turn)
        return cls._make(column[order] for column in several)


def apply_delays_us(seen: Ints, applied: Bools) -> Ints:
    """For each row of samples the age that best parts what was not applied yet from what was.

    Of several ages that err equally often, the smallest; 0 if none errs less than that.
    """
    # Sorted by age, what was not applied before what was.
    key = np.sort(seen * 2 + applied, axis=1)
    age, was_applied = key >> 1, (key & 1).astype(np.bool_)
    missing = np.count_nonzero(~applied, axis=1)
    # At a delay just above an age, what was applied at it is wrong, what was not is right.
    wrong = missing[:, None] + np.cumsum(np.where(was_applied, 1, -1), axis=1)
    best = np.argmin(wrong, axis=1)
    rows = np.arange(len(best))
    delays: Ints = np.where(wrong[rows, best] < missing, age[rows, best], 0)
    return delays


@dataclass
class ApplyDelay:
    """The last samples of all brokers (one broker has too few), and the delay they tell."""

    seen: list[tuple[int, bool]] = field(default_factory=list)
    us: int = 0

    def add(self, age: int, applied: bool) -> None:
        """A heartbeat had, or had not, what its broker had known for ``age`` microseconds."""
        self.take(Measured(np.array([age]), np.array([applied]), np.zeros(1, np.int64)))

    def take(self, measured: Measured) -> Ints:
        """``add`` each of some heartbeats. -> the delay after each."""
        size = len(measured.age_us)
        if not size:
            return np.empty(0, np.int64)
        seen = np.array(self.seen, np.int64).reshape(-1, 2)
        # What is not seen yet is applied at an age beyond all.
        fill = DELAY_SAMPLES - len(seen)
        ages = np.concatenate((np.full(fill, HIGHEST // 4), seen[:, 0], measured.age_us))
        applied = np.concatenate((np.ones(fill), seen[:, 1], measured.applied)).astype(np.bool_)
        assumed = np.array(ASSUMED_DELAY, np.int64)
        delays = []
        for begin in range(0, size, _BLOCK):
            rows = slice(begin + 1, begin + 1 + min(_BLOCK, size - begin))
            windows = [
                np.hstack((window[rows], np.broadcast_to(more, (len(window[rows]), len(more)))))
                for window, more in (
                    (sliding_window_view(ages, DELAY_SAMPLES), assumed[:, 0]),
                    (sliding_window_view(applied, DELAY_SAMPLES), assumed[:, 1].astype(np.bool_)),
                )
            ]
            delays.append(apply_delays_us(*windows))
        last = slice(max(fill, 0) + max(0, len(seen) + size - DELAY_SAMPLES), None)
        self.seen = list(zip(ages[last].tolist(), applied[last].tolist(), strict=True))
        after = np.concatenate(delays)
        self.us = int(after[-1])
        return after


class Delay(Protocol):
    """What measures are added to."""

    def add(self, age: int, applied: bool) -> None:
        """A heartbeat had, or had not, what its broker had known for ``age`` microseconds."""


@dataclass
class Slow:
    """A broker had not applied what it knew (``known``) until a time (open: None).

    Heartbeats at ``at`` said how far it was: until each it had no more than that one's offset.
    """

    known: int
    at: list[int]
    offsets: list[int]
    until_us: int | None = None

    def cap(self, at: Ints, applied: Ints) -> Ints:
        """What was applied at some times, no more than it had."""
        offsets = np.array(self.offsets, np.int64)
        had = offsets[np.minimum(np.searchsorted(self.at, at), len(offsets) - 1)]
        capped: Ints = np.where(
            at < (HIGHEST if self.until_us is None else self.until_us),
            np.minimum(applied, had),
            applied,
        )
        return capped


@dataclass
class Progress:
    """What one broker has applied when. ``learned`` as recorded; ``due`` by variant, with delay."""

    learned: Rising = field(default_factory=Rising)
    due: dict[str, Rising] = field(default_factory=dict)
    slow: list[Slow] = field(default_factory=list)

    def learn(self, variant: str, at: int, due: int, high_watermark: int) -> None:
        """The broker learned a high watermark, and is due to have applied it at a later time."""
        if variant == RECORDED:
            self.learned.add(at, high_watermark - 1)
        self.due_of(variant).add(due, high_watermark - 1)

    def due_of(self, variant: str) -> Rising:
        """When it is due to have applied what, under a variant."""
        return self.due.setdefault(variant, Rising())

    def take(
        self, at: Ints, offset: Ints, turn: Ints, learned: tuple[Ints, Ints, Ints]
    ) -> tuple[Measured, list[tuple[int, int]]]:
        """Heartbeats, and what was learned (at, offset, turn) as recorded.

        -> the measures of the heartbeats, and (when a slow broker caught up, turn of the heartbeat
        that shows it).
        """
        before = len(self.learned.at)
        rises = self.learned.add_all(learned[0], learned[1])
        # How much of what was learned a heartbeat can be measured by: what had its turn before.
        said = before + np.searchsorted(learned[2][rises], turn)
        known_at, known = self.learned.at.numpy(), self.learned.values.numpy()
        known_by = np.minimum(np.searchsorted(known_at, at, "right"), said)
        missing = np.searchsorted(known, offset, "right")
        since = np.append(known_at, HIGHEST)
        late = (missing < known_by) & (at - since[missing] > SLOW_US)
        if late.any() or any(slow.until_us is None for slow in self.slow):
            return self._one_by_one(at, offset, turn, known_by)
        newest = np.concatenate(([-HIGHEST], known_at))[known_by]
        soon = (known_by > 0) & (at - newest <= SLOW_US)
        had = offset >= np.concatenate(([0], known))[known_by]
        return Measured((at - newest)[soon], had[soon], turn[soon]), []

    def _one_by_one(
        self, at: Ints, offset: Ints, turn: Ints, known_by: Ints
    ) -> tuple[Measured, list[tuple[int, int]]]:
        measured, caught_up = _Measures(), []
        rows = (column.tolist() for column in (at, offset, turn, known_by))
        for time, had, number, known in zip(*rows, strict=True):
            measured.number = number
            caught_up += [(us, number) for us in self.heartbeat(time, had, measured, known)]
        rows_of = np.array(measured.rows, np.int64).reshape(-1, 3)
        return Measured(rows_of[:, 0], rows_of[:, 1].astype(np.bool_), rows_of[:, 2]), caught_up

    def heartbeat(
        self, at: int, offset: int, delay: Delay, known_by: int | None = None
    ) -> list[int]:
        """A recorded heartbeat measures delay and slowness. -> when a slow broker caught up.

        ``known_by``: so much of what was learned had been by then; else what was before ``at``.
        """
        caught_up = []
        for slow in self.slow:
            if slow.until_us is None and offset >= slow.known:
                slow.until_us = (slow.at[-1] + at) // 2
                caught_up.append(slow.until_us)
            elif slow.until_us is None:
                slow.at.append(at)
                slow.offsets.append(max(slow.offsets[-1], offset))
        index = (bisect_right(self.learned.at, at) if known_by is None else known_by) - 1
        if index >= 0:
            self._measure(index, at, offset, delay)
        return caught_up

    def _measure(self, index: int, at: int, offset: int, delay: Delay) -> None:
        known = self.learned
        missing = bisect_right(known.values, offset, 0, index + 1)
        if missing <= index and at - known.at[missing] > SLOW_US:
            overdue = known.value(at - SLOW_US)
            if overdue is not None and not any(slow.until_us is None for slow in self.slow):
                self.slow.append(Slow(overdue, [at], [offset]))
        elif at - known.at[index] <= SLOW_US:
            delay.add(at - known.at[index], offset >= known.values[index])

    def applied(self, variant: str, at: Ints) -> Ints:
        """The last offset applied at some times; ``NOTHING_KNOWN`` before that."""
        applied = self.due_of(variant).values_at(at, NOTHING_KNOWN)
        first = at.min(initial=HIGHEST)
        for slow in self.slow:
            if slow.until_us is None or first < slow.until_us:
                applied = slow.cap(at, applied)
        return applied

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        for timeline in (self.learned, *self.due.values()):
            timeline.forget(before)
        self.slow = [s for s in self.slow if s.until_us is None or s.until_us >= before]


@dataclass
class _Measures:
    """Measures of a broker's heartbeats, one by one: (age, applied, turn)."""

    number: int = 0
    rows: list[tuple[int, bool, int]] = field(default_factory=list)

    def add(self, age: int, applied: bool) -> None:
        self.rows.append((age, applied, self.number))
