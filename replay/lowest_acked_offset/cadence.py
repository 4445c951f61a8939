"""When recorded heartbeats came and how they were handled: what all simulations share.

A heartbeat is steady if its broker runs and ran before: those come at the interval. What else
comes (a broker starts, unfences, shuts down) comes when it must, whatever the interval.

A broker has applied what is below the high watermark that it has learned (recorded, or replayed
with or without KIP-1166), after a delay. The delay is the log's: each recorded heartbeat shows
whether the newest offset that its broker knew was applied yet, and the delay is the age that parts
the two best, over all brokers. A broker that a heartbeat shows to be slow (see ``evidence``) has
applied what it knew half-way to the heartbeat that first shows it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec

from ..model.brokers import Heartbeat
from ..outcomes import RECORDED
from ..simulation import Rising, Samples, Timeline
from .events import Event

#: broker.heartbeat.interval.ms, Kafka's default; for a log that has no steady heartbeat.
DEFAULT_INTERVAL_US = 2_000_000
#: A steady broker whose next heartbeat is later than the interval by more than this is away.
AWAY_SLACK_US = 1_000_000
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
        return self.offsets[min(bisect_left(self.at, at), len(self.at) - 1)]


class Handled(NamedTuple):
    """How long after its arrival a heartbeat was taken up, and its response was built."""

    after_us: int
    built_after_us: int


class BrokerRecord(msgspec.Struct):
    """The recorded heartbeats of one broker, by their arrival, and what it has learned.

    ``gaps`` are from a response of a running broker to its next heartbeat; ``running_epoch`` is of
    its process if that ran at the last one. It is ``due`` to have applied what it learned.
    """

    heartbeats: Samples[Handled] = msgspec.field(default_factory=Samples)
    gaps: Samples[int] = msgspec.field(default_factory=Samples)
    running_epoch: int | None = None
    learned: Rising = msgspec.field(default_factory=Rising)
    due: dict[str, Rising] = {}
    slow: list[Slow] = []

    def take(self, received: int, beat: Heartbeat, want_fence: bool) -> int | None:
        """Take a heartbeat. -> the gap before it, if it is steady."""
        runs = not (beat.is_fenced or beat.want_shut_down or want_fence)
        gap = None
        if runs and self.running_epoch == beat.broker_epoch:
            built = self.built_us(-1)
            gap = received - built
            self.gaps.add(built, gap)
        handled = Handled(beat.handled_us - received, beat.built_us - received)
        self.heartbeats.add(received, handled)
        self.running_epoch = beat.broker_epoch if runs else None
        return gap

    def built_us(self, index: int) -> int:
        return self.heartbeats.at[index] + max(0, self.heartbeats.values[index].built_after_us)

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
        if offset is None or not self.slow:
            return offset
        for slow in self.slow:
            if slow.until_us is None or at < slow.until_us:
                offset = min(offset, slow.offset(at))
        return offset

    def forget(self, before: int) -> None:
        self.heartbeats.forget(before)
        self.gaps.forget(before)
        for timeline in (self.learned, *self.due.values()):
            timeline.forget(before)
        self.slow = [s for s in self.slow if s.until_us is None or s.until_us >= before]


class Recorded(msgspec.Struct):
    """What all simulations share: the recorded heartbeats and the brokers' progress.

    ``steps``: when a broker may have applied more, in which variant (None: in all); in order of
    events. ``log_end_us``: no more of the log will come.
    """

    interval_us: int | None = None
    log_end_us: int | None = None
    brokers: dict[int, BrokerRecord] = {}
    delay: ApplyDelay = msgspec.field(default_factory=ApplyDelay)
    #: Which controller is active.
    controllers: Timeline[int] = msgspec.field(default_factory=Timeline)
    first_gaps: list[int] = []
    steps: list[tuple[int, int, str | None]] = []

    def heartbeat(self, received: int, beat: Heartbeat, want_fence: bool) -> bool:
        if self.controllers.values[-1:] != [beat.controller_id]:
            self.controllers.add(beat.handled_us, beat.controller_id)
        broker = self.of(beat.broker_id)
        gap = broker.take(received, beat, want_fence)
        if gap is not None and self.interval_us is None:
            self.first_gaps.append(gap)
        for at in broker.heartbeat(received, beat.offset, self.delay):
            self.steps.append((at, beat.broker_id, None))
        return gap is not None

    def learn(self, row: Event) -> None:
        due = row.at_us + self.delay.us
        self.of(row.broker_id).learn(row.variant, row.at_us, due, row.high_watermark)
        self.steps.append((due, row.broker_id, row.variant))

    def of(self, broker_id: int) -> BrokerRecord:
        return self.brokers.get(broker_id) or self.brokers.setdefault(broker_id, BrokerRecord())

    def steps_until(self, until: int) -> list[tuple[int, int, str | None]]:
        """Take out the steps up to a time, in order of time."""
        self.steps.sort(key=itemgetter(0))
        count = bisect_right(self.steps, until, key=itemgetter(0))
        taken, self.steps = self.steps[:count], self.steps[count:]
        return taken

    def settle_interval(self) -> int:
        """The interval of the log: as given, else the median gap, cut to 10 ms."""
        if self.interval_us is None:
            gaps = sorted(self.first_gaps)
            median = gaps[len(gaps) // 2] if gaps else DEFAULT_INTERVAL_US
            self.interval_us = median // 10_000 * 10_000
            self.first_gaps = []
        return self.interval_us

    def forget(self, before: int) -> None:
        self.controllers.forget(before)
        for broker in self.brokers.values():
            broker.forget(before)
