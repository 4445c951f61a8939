"""Heartbeats that would be sent at another interval, or if brokers learned at other times.

What is kept of the log: when a broker starts, unfences and shuts down (those heartbeats are sent at
once, whatever the interval), when it is away, and of its steady heartbeats how long each response
took and how much later than the interval the next one came: always the recorded value nearest in
time, so nothing is drawn (``cadence``). What follows: when the steady heartbeats arrive, the same
whatever brokers have learned, and which offset they carry (``Progress``).
"""

from bisect import bisect_right
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from .brokers import RESET_OFFSET, Heartbeat
from .cadence import AWAY_SLACK_US, Recorded
from .controller import HeartbeatManager
from .evidence import CLAIM_WAIT_US

# Of two heartbeats at one time the kept one comes first.
_KEPT, _DUE = range(2)


class ClaimEvent(NamedTuple):
    """A heartbeat, or else a claim: by other evidence a broker had applied an offset.

    The first three fields order them: at one time claims come first, then who came first.
    """

    at_us: int
    is_beat: bool
    number: int
    broker_id: int
    offset: int
    beat: Heartbeat | None = None


class Claimed(msgspec.Struct):
    """Such a controller, and a heap of what comes later than where it is."""

    manager: HeartbeatManager
    events: list[ClaimEvent] = []
    count: int = 0
    #: By broker its last heartbeat.
    last: dict[int, Heartbeat] = {}

    def keep_serving(self, beat: Heartbeat) -> None:
        """Keep a heartbeat; a broker that stood still before it was not gone, and shows old data.

        As if it had sent its last one again, but for a silence that is too long to wait for.
        """
        last = self.last.get(beat.broker_id, beat)
        timeout_us = self.manager.sessions.timeout_us
        is_same = last.broker_epoch == beat.broker_epoch and not last.want_shut_down
        if is_same and beat.handled_us - last.handled_us <= timeout_us + CLAIM_WAIT_US:
            for at in range(last.handled_us + timeout_us, beat.handled_us, timeout_us):
                again = last._replace(handled_us=at, built_us=at)
                self.keep(at, beat.broker_id, last.offset, again)
        self.last[beat.broker_id] = beat
        self.keep(beat.handled_us, beat.broker_id, beat.offset, beat)

    def keep(self, at: int, broker_id: int, offset: int, beat: Heartbeat | None = None) -> None:
        self.count += 1
        order = (at, beat is not None, self.count)
        heappush(self.events, ClaimEvent(*order, broker_id, offset, beat))

    def advance(self, until: int) -> None:
        while self.events and self.events[0].at_us <= until:
            event = heappop(self.events)
            if event.beat is None:
                self.manager.apply(event.at_us, event.broker_id, event.offset)
            else:
                self.manager.heartbeat(event.beat)
        self.manager.advance(until)


class Simulation(msgspec.Struct):
    """Heartbeats at one interval, to a controller for each variant of when brokers learned."""

    interval_us: int
    managers: dict[str, HeartbeatManager]
    #: A heap of (when, kind, number, broker).
    events: list[tuple[int, int, int, int]] = []
    #: By number the heartbeats that are kept, by broker the number of the one that is due.
    kept: dict[int, Heartbeat] = {}
    due: dict[int, int] = {}
    #: By broker what its steady heartbeats are like, and brokers whose next one no line shows yet.
    steady: dict[int, Heartbeat] = {}
    waiting: set[int] = set()
    count: int = 0

    def heartbeat(self, received: int, beat: Heartbeat, is_steady: bool) -> None:
        """A recorded heartbeat: kept, unless steady; a steady one shows that its broker is back."""
        if not is_steady:
            self.kept[self._push(received, _KEPT, beat.broker_id)] = beat
        elif beat.broker_id in self.waiting:
            self.waiting.discard(beat.broker_id)
            self._schedule(beat.broker_id, received)

    def run(self, until: int, recorded: Recorded, log_end_us: int | None) -> None:
        """Send heartbeats up to a time; ``log_end_us`` once no more of the log will come."""
        while self.events and self.events[0][0] <= until:
            at, kind, number, broker_id = heappop(self.events)
            if kind == _KEPT:
                self._send_kept(at, self.kept.pop(number), recorded)
            elif self.due.get(broker_id) == number:
                self._send_due(at, broker_id, recorded, log_end_us)

    def _push(self, at: int, kind: int, broker_id: int) -> int:
        self.count += 1
        heappush(self.events, (at, kind, self.count, broker_id))
        return self.count

    def _schedule(self, broker_id: int, at: int) -> None:
        self.due[broker_id] = self._push(at, _DUE, broker_id)

    def _send_kept(self, at: int, beat: Heartbeat, recorded: Recorded) -> None:
        self.waiting.discard(beat.broker_id)
        self.due.pop(beat.broker_id, None)
        self._send(at, beat, recorded)
        if not beat.is_fenced and not beat.want_shut_down:
            self.steady[beat.broker_id] = beat
            self._schedule_next(beat.broker_id, beat.built_us, recorded)

    def _send_due(
        self, at: int, broker_id: int, recorded: Recorded, log_end_us: int | None
    ) -> None:
        cadence = recorded.cadences[broker_id]
        index = bisect_right(cadence.received, at)
        last_built = cadence.built[index - 1] if index else at
        patience = recorded.settle_interval() + AWAY_SLACK_US
        if index < len(cadence.received):
            returns = cadence.received[index]
            if returns - last_built > patience:
                self._schedule(broker_id, returns)
                return
        elif log_end_us is None or at > log_end_us or at - last_built > patience:
            self.waiting.add(broker_id)
            return
        beat = self.steady[broker_id]._replace(
            controller_id=recorded.controller_at(at),
            handled_us=at + (cadence.handling.nearest(at) or 0),
            built_us=at + (cadence.building.nearest(at) or 0),
            offset=RESET_OFFSET,
        )
        self._send(at, beat, recorded)
        self._schedule_next(broker_id, beat.built_us, recorded)

    def _send(self, at: int, beat: Heartbeat, recorded: Recorded) -> None:
        progress = recorded.of(beat.broker_id)
        for variant, manager in self.managers.items():
            applied = progress.applied(variant, at)
            if applied is not None:
                manager.apply(at, beat.broker_id, applied)
                manager.heartbeat(beat._replace(offset=applied))
            else:
                manager.apply(at, beat.broker_id, beat.offset)
                manager.heartbeat(beat)

    def _schedule_next(self, broker_id: int, built: int, recorded: Recorded) -> None:
        interval = recorded.settle_interval()
        gap = recorded.cadences[broker_id].gaps.nearest(built)
        is_steady = gap is not None and interval // 2 < gap <= interval + AWAY_SLACK_US
        late = gap - interval if gap is not None and is_steady else 0
        self._schedule(broker_id, max(built + 1, built + self.interval_us + late))
