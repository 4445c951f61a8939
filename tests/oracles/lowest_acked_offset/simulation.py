"""Heartbeats that would be sent at another interval, or if brokers learned at other times.

What is kept of the log: when a broker starts, unfences and shuts down (those heartbeats are sent at
once, whatever the interval), when it is away, and of its steady heartbeats how long each answer
took and how much later than the interval the next one came: always the recorded value nearest in
time, so nothing is drawn. What follows: when the steady heartbeats arrive, and which offset they
report.

The offset comes from ``Progress``: a broker has applied what is below the high watermark that it
has learned (recorded, or replayed with or without KIP-1166), after a delay. The delay is from the
log: each recorded heartbeat says of the newest thing its broker knew whether it was applied yet,
and the delay is the age that parts the two best, over all brokers. A broker that a heartbeat shows
to be slow (see ``evidence``) has applied what it knew half-way to the heartbeat that
first shows it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from kip_replay.replay.outcomes import RECORDED
from oracles.lowest_acked_offset.controller import RESET_OFFSET, Heartbeat, HeartbeatManager
from oracles.lowest_acked_offset.timelines import Rising, Samples

#: broker.heartbeat.interval.ms, Kafka's default; for a log that shows no steady heartbeat.
DEFAULT_INTERVAL_US = 2_000_000
#: A broker that has not applied what it knew for longer than this is slow, not just on its way.
SLOW_US = 100_000
#: A steady broker whose next heartbeat is later than the interval by more than this is away.
AWAY_SLACK_US = 1_000_000
#: So many of the last heartbeats that came soon after their broker learned tell the apply delay.
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


@dataclass
class ApplyDelay:
    """The last samples of all brokers (one broker has too few), and the delay they tell."""

    seen: list[tuple[int, bool]] = field(default_factory=list)
    us: int = 0

    def add(self, age: int, applied: bool) -> None:
        """A heartbeat had, or had not, what its broker had known for ``age`` microseconds."""
        self.seen = [*self.seen[1 - DELAY_SAMPLES :], (age, applied)]
        self.us = apply_delay_us([*ASSUMED_DELAY, *self.seen])


@dataclass
class Slow:
    """A broker had not applied what it knew (``known``) until a time (open: None).

    Heartbeats at ``at`` said how far it was: until each it had no more than that one's offset.
    """

    known: int
    at: list[int]
    offsets: list[int]
    until_us: int | None = None

    def offset(self, at: int) -> int:
        """No more than this was applied at a time."""
        return self.offsets[min(bisect_left(self.at, at), len(self.at) - 1)]


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
        value = due.value(at) if due is not None else None
        if value is None:
            return None
        for slow in self.slow:
            if slow.until_us is None or at < slow.until_us:
                value = min(value, slow.offset(at))
        return value

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        for timeline in (self.learned, *self.due.values()):
            timeline.forget(before)
        self.slow = [s for s in self.slow if s.until_us is None or s.until_us >= before]


@dataclass
class Cadence:
    """The recorded heartbeats of one broker: when they came, how they were handled."""

    received: list[int] = field(default_factory=list)
    built: list[int] = field(default_factory=list)
    gaps: Samples = field(default_factory=Samples)
    handling: Samples = field(default_factory=Samples)
    building: Samples = field(default_factory=Samples)
    last: Heartbeat | None = None
    last_is_steady: bool = False

    def add(self, received: int, beat: Heartbeat, is_steady: bool) -> int | None:
        """Take a recorded heartbeat; -> the gap since a steady one's answer, if it is one."""
        gap = received - self.built[-1] if self.built and self.last_is_steady else None
        if gap is not None and is_steady:
            self.gaps.add(self.built[-1], gap)
        self.received.append(received)
        self.built.append(max(beat.built_us, received))
        self.handling.add(received, beat.handled_us - received)
        self.building.add(received, beat.built_us - received)
        self.last, self.last_is_steady = beat, is_steady
        return gap

    def forget(self, before: int) -> None:
        """Drop what was over before a time, all but the last heartbeat."""
        keep = max(0, bisect_right(self.received, before) - 1)
        del self.received[:keep], self.built[:keep]
        for samples in (self.gaps, self.handling, self.building):
            samples.forget(before)


@dataclass
class Recorded:
    """What all simulations share: the recorded heartbeats and the brokers' progress."""

    interval_us: int | None = None
    cadences: dict[int, Cadence] = field(default_factory=dict)
    progress: dict[int, Progress] = field(default_factory=dict)
    delay: ApplyDelay = field(default_factory=ApplyDelay)
    controllers: list[tuple[int, int]] = field(default_factory=list)
    _first_gaps: list[int] = field(default_factory=list)

    def heartbeat(self, received: int, beat: Heartbeat, want_fence: bool) -> tuple[bool, list[int]]:
        """Take a heartbeat. -> (is it one of a steady broker, when a slow broker caught up)."""
        if not self.controllers or self.controllers[-1][1] != beat.controller_id:
            self.controllers.append((beat.handled_us, beat.controller_id))
        cadence = self.cadences.setdefault(beat.broker_id, Cadence())
        runs = not (want_fence or beat.want_shut_down or beat.is_fenced)
        before = cadence.last
        steady = runs and before is not None and before.broker_epoch == beat.broker_epoch
        steady = steady and not (before is not None and (before.is_fenced or before.want_shut_down))
        gap = cadence.add(received, beat, runs)
        if gap is not None and self.interval_us is None and steady:
            self._first_gaps.append(gap)
        caught_up = self.of(beat.broker_id).heartbeat(received, beat.offset, self.delay)
        return steady, caught_up

    def learn(self, broker_id: int, variant: str, at: int, high_watermark: int) -> int:
        """A broker learned a high watermark. -> when it is due to have applied it."""
        due = at + self.delay.us
        self.of(broker_id).learn(variant, at, due, high_watermark)
        return due

    def of(self, broker_id: int) -> Progress:
        """The progress of one broker."""
        return self.progress.setdefault(broker_id, Progress())

    def settle_interval(self) -> int:
        """The interval of the log: as told, else the median gap, cut to 10 ms."""
        if self.interval_us is None:
            gaps = sorted(self._first_gaps)
            median = gaps[len(gaps) // 2] if gaps else DEFAULT_INTERVAL_US
            self.interval_us = median // 10_000 * 10_000
            self._first_gaps = []
        return self.interval_us

    def controller_at(self, at: int) -> int:
        """Which controller answers at a time."""
        index = bisect_right(self.controllers, (at, 2**31))
        return self.controllers[max(0, index - 1)][1]

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        for cadence in self.cadences.values():
            cadence.forget(before)
        for progress in self.progress.values():
            progress.forget(before)
        keep = max(0, bisect_right(self.controllers, (before, 2**31)) - 1)
        del self.controllers[:keep]


# Kinds of event; the number decides which of two at one time comes first.
_PROGRESS, _KEPT, _DUE = range(3)


@dataclass
class Simulation:
    """Heartbeats at one interval, with brokers that learn as in one variant."""

    recorded: Recorded
    variant: str
    interval_us: int
    manager: HeartbeatManager
    _events: list[tuple[int, int, int, int]] = field(default_factory=list)
    _kept: dict[int, Heartbeat] = field(default_factory=dict)
    _steady: dict[int, Heartbeat] = field(default_factory=dict)
    _due: dict[int, int] = field(default_factory=dict)
    _waiting: set[int] = field(default_factory=set)
    _count: int = 0

    def progress(self, at: int, broker_id: int) -> None:
        """A broker may have applied more at a time."""
        self._push(at, _PROGRESS, broker_id)

    def heartbeat(self, received: int, beat: Heartbeat, is_steady: bool) -> None:
        """A recorded heartbeat: kept, unless steady; a steady one says that its broker is back."""
        if not is_steady:
            self._kept[self._push(received, _KEPT, beat.broker_id)] = beat
        elif beat.broker_id in self._waiting:
            self._waiting.discard(beat.broker_id)
            self._next(beat.broker_id, received)

    def advance(self, until: int, log_end_us: int | None = None) -> None:
        """Run up to a time; ``log_end_us`` once no more of the log will come."""
        while self._events and self._events[0][0] <= until:
            at, kind, number, broker_id = heapq.heappop(self._events)
            if kind == _PROGRESS:
                applied = self.recorded.of(broker_id).applied(self.variant, at)
                if applied is not None:
                    self.manager.apply(at, broker_id, applied)
            elif kind == _KEPT:
                self._send_kept(at, self._kept.pop(number))
            elif self._due.get(broker_id) == number:
                self._send_due(at, broker_id, log_end_us)
        self.manager.advance(until)

    def _push(self, at: int, kind: int, broker_id: int) -> int:
        self._count += 1
        heapq.heappush(self._events, (at, kind, self._count, broker_id))
        return self._count

    def _next(self, broker_id: int, at: int) -> None:
        self._due[broker_id] = self._push(at, _DUE, broker_id)

    def _send_kept(self, at: int, beat: Heartbeat) -> None:
        self._waiting.discard(beat.broker_id)
        self._due.pop(beat.broker_id, None)
        self._send(at, beat)
        if not beat.is_fenced and not beat.want_shut_down:
            self._steady[beat.broker_id] = beat
            self._schedule(beat.broker_id, beat.built_us)

    def _send_due(self, at: int, broker_id: int, log_end_us: int | None) -> None:
        cadence = self.recorded.cadences[broker_id]
        index = bisect_right(cadence.received, at)
        last_built = cadence.built[index - 1] if index else at
        patience = self.recorded.settle_interval() + AWAY_SLACK_US
        if index < len(cadence.received):
            returns = cadence.received[index]
            if returns - last_built > patience:
                self._next(broker_id, returns)
                return
        elif log_end_us is None or at > log_end_us or at - last_built > patience:
            self._waiting.add(broker_id)
            return
        beat = self._steady[broker_id]._replace(
            controller_id=self.recorded.controller_at(at),
            handled_us=at + (cadence.handling.nearest(at) or 0),
            built_us=at + (cadence.building.nearest(at) or 0),
            offset=RESET_OFFSET,
        )
        self._send(at, beat)
        self._schedule(broker_id, beat.built_us)

    def _send(self, at: int, beat: Heartbeat) -> None:
        applied = self.recorded.of(beat.broker_id).applied(self.variant, at)
        offset = beat.offset if applied is None else applied
        self.manager.apply(at, beat.broker_id, offset)
        self.manager.heartbeat(beat._replace(offset=offset))

    def _schedule(self, broker_id: int, built: int) -> None:
        interval = self.recorded.settle_interval()
        gap = self.recorded.cadences[broker_id].gaps.nearest(built)
        is_steady = gap is not None and interval // 2 < gap <= interval + AWAY_SLACK_US
        late = gap - interval if gap is not None and is_steady else 0
        self._next(broker_id, max(built + 1, built + self.interval_us + late))
