"""Heartbeats that would be sent at another interval, or if brokers learned at other times.

What is kept of the log: when a broker starts, unfences and shuts down (those heartbeats are sent at
once, whatever the interval), when it is away, and of its steady heartbeats how long each answer
took and how much later than the interval the next one came: always the recorded value nearest in
time, so nothing is drawn (``cadence``). What follows: when the steady heartbeats arrive
(``Schedule``, the same whatever brokers have learned), and which offset they report
(``Simulation``, from ``progress``).

Between two recorded heartbeats the nearest values hold for a while, and as long as they do the
simulated ones come evenly: a schedule is made of such stretches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kip_replay.replay.lowest_acked_offset.cadence import Known, Pace, Recorded, Steps, heartbeat_of
from kip_replay.replay.lowest_acked_offset.controller import (
    RESET_OFFSET,
    Heartbeat,
    HeartbeatManager,
)
from kip_replay.replay.lowest_acked_offset.lines import Lines, by_node
from kip_replay.replay.lowest_acked_offset.progress import NOTHING_KNOWN
from kip_replay.replay.lowest_acked_offset.runs import Events, take
from kip_replay.replay.lowest_acked_offset.timelines import HIGHEST, Bools, Ints


class Kept(NamedTuple):
    """A recorded heartbeat that is sent at any interval, when it was received."""

    received_us: int
    turn: int
    beat: Heartbeat


class Stretch(NamedTuple):
    """Heartbeats of one broker at even distances, all like one."""

    at_us: int
    step_us: int
    times: int
    handling_us: int
    building_us: int
    beat: Heartbeat
    #: The turn of one that is kept, else -1.
    kept: int


class Sent(NamedTuple):
    """Heartbeats that are sent, in their order."""

    at: Ints
    handled: Ints
    built: Ints
    broker: Ints
    epoch: Ints
    controller: Ints
    offset: Ints
    is_fenced: Bools
    want_shut_down: Bools


@dataclass
class Sender:
    """One broker at another interval: what it sends next, and like which heartbeat.

    ``order`` says which of two that are due at one time comes first: the one that was scheduled
    first, by (step, 0, turn) or (step, 1, place among those sent in that step).
    """

    kept: list[Kept] = field(default_factory=list)
    steady: Heartbeat | None = None
    due_us: int | None = None
    order: tuple[int, int, int] = (0, 0, 0)
    is_waiting: bool = False

    def take(self, beats: Lines, is_steady: Bools, step: int) -> None:
        """Its recorded heartbeats. A steady one tells that a broker that was away is back."""
        if self.is_waiting and is_steady.any():
            first = int(np.argmax(is_steady))
            self.is_waiting = False
            self.due_us = int(beats["received_us"][first])
            self.order = (step, 0, int(beats.turn[first]))
        for place in np.flatnonzero(~is_steady).tolist():
            kept = Kept(int(beats["received_us"][place]), int(beats.turn[place]), _NO_BEAT)
            self.kept.append(kept._replace(beat=heartbeat_of(beats, place)))
        self.kept.sort()

    def send(
        self, pace: Pace, interval_us: int, until: int, log_end_us: int | None
    ) -> Iterator[Stretch]:
        """What it sends up to a time; ``log_end_us`` once no more of the log will come."""
        while True:
            kept = self.kept[0] if self.kept else None
            if self.due_us is None or (kept and kept.received_us <= self.due_us):
                if kept is None or kept.received_us > until:
                    return
                del self.kept[0]
                yield self._keep(kept, pace, interval_us)
            elif self.due_us <= until:
                limit = min(until + 1, kept.received_us if kept else HIGHEST)
                yield from self._steady(pace, interval_us, limit, log_end_us)
            else:
                return

    def _keep(self, kept: Kept, pace: Pace, interval_us: int) -> Stretch:
        beat = kept.beat
        self.is_waiting, self.due_us = False, None
        if not beat.is_fenced and not beat.want_shut_down:
            self.steady = beat
            late_us = pace.late_us[bisect_right(pace.late_until, beat.built_us)]
            self.due_us = beat.built_us + max(1, interval_us + late_us)
        handling, building = (t - kept.received_us for t in (beat.handled_us, beat.built_us))
        return Stretch(kept.received_us, 0, 1, handling, building, beat, kept.turn)

    def _steady(
        self, pace: Pace, interval_us: int, limit: int, log_end_us: int | None
    ) -> Iterator[Stretch]:
        """Heartbeats from ``due_us`` on and before ``limit``, until its broker is away."""
        at, beat = self.due_us, self.steady
        if at is None or beat is None:
            raise ValueError("nothing is due")
        heard = bisect_right(pace.received, at)
        handled, late = bisect_right(pace.handled_until, at), 0
        while at < limit:
            # As long as the same recorded values are the nearest, they come evenly.
            while heard < len(pace.received) and pace.received[heard] <= at:
                heard += 1
            last_built = pace.built[heard - 1] if heard else at
            if heard < len(pace.received):
                following = pace.received[heard]
                if following - last_built > pace.patience_us:
                    at = following
                    continue
            else:
                ends = -1 if log_end_us is None else min(log_end_us, last_built + pace.patience_us)
                following = ends + 1
                if at >= following:
                    self.is_waiting, self.due_us = True, None
                    return
            while pace.handled_until[handled] <= at:
                handled += 1
            building = pace.building_us[handled]
            late = _place(pace.late_until, at + building, late)
            step = building + max(1, interval_us + pace.late_us[late])
            even = min(
                limit, following, pace.handled_until[handled], pace.late_until[late] - building
            )
            times = max(1, -((at - even) // step))
            yield Stretch(at, step, times, pace.handling_us[handled], building, beat, -1)
            at += times * step
        self.due_us = at


def _place(until: list[int], at: int, place: int) -> int:
    """The place of the value that holds at a time, from one near it."""
    while until[place] <= at:
        place += 1
    while place and until[place - 1] > at:
        place -= 1
    return place


_NO_BEAT = Heartbeat(-1, -1, -1, 0, 0, RESET_OFFSET, is_fenced=True, want_shut_down=False)


@dataclass
class Schedule:
    """When all brokers send heartbeats at one interval, whatever they have learned."""

    interval_us: int
    senders: dict[int, Sender] = field(default_factory=dict)
    step: int = 0

    def take(self, beats: Lines, is_steady: Bools) -> None:
        """Recorded heartbeats, in their order."""
        self.step += 1
        for broker_id, mine in by_node(beats["broker_id"]):
            sender = self.senders.setdefault(broker_id, Sender())
            sender.take(beats.take(mine), is_steady[mine], self.step)

    def send(
        self, recorded: Recorded, paces: dict[int, Pace], until: int, log_end_us: int | None
    ) -> Sent:
        """What is sent up to a time; ``log_end_us`` once no more of the log will come."""
        stretches, firsts, orders, size = [], [], [], 0
        for broker_id, sender in self.senders.items():
            firsts.append(size)
            orders.append(sender.order)
            for stretch in sender.send(paces[broker_id], self.interval_us, until, log_end_us):
                stretches.append(stretch)
                size += stretch.times
        sent, kept = _sent(stretches, recorded)
        order = np.lexsort((kept, kept < 0, sent.at))
        _order_ties(order, sent.at, kept, dict(zip(firsts, orders, strict=True)), self.step)
        place = np.empty_like(order)
        place[order] = np.arange(size)
        for sender, (begin, end) in zip(
            self.senders.values(), pairwise([*firsts, size]), strict=True
        ):
            if end > begin:
                sender.order = (self.step, 1, int(place[end - 1]))
        return Sent._make(column[order] for column in sent)


def _sent(stretches: Iterable[Stretch], recorded: Recorded) -> tuple[Sent, Ints]:
    """Every heartbeat of some stretches, and the turn of each that is kept, else -1."""
    rows = np.array(
        [stretch[:5] + stretch.beat + stretch[6:] for stretch in stretches], np.int64
    ).reshape(-1, 14)
    counts = rows[:, 2]
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(rows, counts, axis=0)
    begin, step, _, handling, building, controller, broker, epoch = rows.T[:8]
    offset, is_fenced, want_shut_down, kept = rows.T[10:]
    at = begin + number * step
    sent = Sent(
        at=at,
        handled=at + handling,
        built=at + building,
        broker=broker,
        epoch=epoch,
        controller=np.where(kept < 0, recorded.controllers_at(at), controller)
        if len(at)
        else controller,
        offset=np.where(kept < 0, RESET_OFFSET, offset),
        is_fenced=is_fenced.astype(np.bool_),
        want_shut_down=want_shut_down.astype(np.bool_),
    )
    return sent, kept


def _order_ties(
    order: Ints, at: Ints, kept: Ints, firsts: dict[int, tuple[int, int, int]], step: int
) -> None:
    """Of steady heartbeats that are due at one time the one that was scheduled first comes first.

    ``order`` is put right in place. ``firsts``: each broker's first heartbeat, and its order.
    """
    times, steady = at[order], kept[order] < 0
    tied = np.flatnonzero((np.diff(times) == 0) & steady[:-1] & steady[1:])
    if not len(tied):
        return
    place = np.empty_like(order)
    place[order] = np.arange(len(order))

    def scheduled(heartbeat: int) -> tuple[int, int, int]:
        # The one before of its broker scheduled it, which has its final place by now.
        return firsts.get(heartbeat) or (step, 1, int(place[heartbeat - 1]))

    for group in np.split(tied, np.flatnonzero(np.diff(tied) > 1) + 1):
        places = np.arange(group[0], group[-1] + 2)
        mine = sorted(order[places].tolist(), key=scheduled)
        order[places] = mine
        place[mine] = places


@dataclass
class Simulation:
    """One variant at one interval: what brokers that learn as in it tell, and are told."""

    variant: str
    manager: HeartbeatManager
    #: When brokers may have applied more: at, broker, turn.
    steps: list[tuple[int, int, int]] = field(default_factory=list)

    def take(self, known: Known) -> None:
        """What the log tells of when its brokers learned."""
        news = [known.caught_up]
        if self.variant in known.learned:
            news.append(known.learned[self.variant])
        for steps in news:
            self.steps += zip(*(column.tolist() for column in steps), strict=True)

    def run(self, recorded: Recorded, sent: Sent, until: int) -> None:
        """Heartbeats that are sent up to a time."""
        applies = self._due(until)
        at = np.concatenate((applies.at, sent.at))
        broker = np.concatenate((applies.broker, sent.broker))
        applied = np.empty(len(at), np.int64)
        for broker_id, mine in by_node(broker):
            applied[mine] = recorded.of(broker_id).applied(self.variant, at[mine])
        steps_size, size = len(applies.at), len(sent.at)
        reported = applied[steps_size:]
        reported = np.where(reported == NOTHING_KNOWN, sent.offset, reported)
        # A step; or what is applied when a heartbeat is sent, and then the heartbeat.
        kind = np.repeat((0, 1, 2), (steps_size, size, size))
        order = _paired(at, steps_size, size)
        tells = np.flatnonzero(applied[:steps_size] != NOTHING_KNOWN)
        none, no = np.zeros(steps_size + size, np.int64), np.zeros(steps_size + size, np.bool_)
        events = Events(
            at=np.concatenate((at, sent.handled)),
            broker=np.concatenate((broker, sent.broker)),
            offset=np.concatenate((applied[:steps_size], reported, reported)),
            is_beat=kind == 2,
            built=np.concatenate((none, sent.built)),
            epoch=np.concatenate((none, sent.epoch)),
            controller=np.concatenate((none, sent.controller)),
            is_fenced=np.concatenate((no, sent.is_fenced)),
            want_shut_down=np.concatenate((no, sent.want_shut_down)),
        )
        says = np.ones(len(kind), np.bool_)
        says[:steps_size] = False
        says[tells] = True
        take(self.manager, events.take(order[says[order]]))
        self.manager.advance(until)

    def _due(self, until: int) -> Steps:
        """The steps up to a time, in their order; the others wait."""
        self.steps.sort(key=itemgetter(0, 2))
        count = bisect_right(self.steps, until, key=itemgetter(0))
        due = np.array(self.steps[:count], np.int64).reshape(-1, 3)
        del self.steps[:count]
        return Steps(*due.T)


def _paired(at: Ints, steps: int, sent: int) -> Ints:
    """The order of events: steps first at their time, behind each sending its heartbeat."""
    order = np.argsort(at, kind="stable")
    is_sent = order >= steps
    begins = np.arange(len(order)) + np.concatenate(([0], np.cumsum(is_sent)))[:-1]
    paired = np.empty(len(order) + sent, np.int64)
    paired[begins] = order
    paired[begins[is_sent] + 1] = order[is_sent] + sent
    return paired
