"""Heartbeats that would be sent at another interval, or if brokers learned at other times.

What is kept of the log: heartbeats that are not steady, when a broker is away, and of its steady
heartbeats how long each response took and how much later than the interval the next one came:
always the recorded value nearest in time, so nothing is drawn (``cadence``). What follows: when the
steady heartbeats arrive, the same whatever brokers have learned, and which offset they carry.
"""

from bisect import bisect_right
from heapq import heappop, heappush

import msgspec

from ..model.brokers import RESET_OFFSET, SESSION_TIMEOUT_US, BrokerHeartbeatManager, Heartbeat
from .cadence import AWAY_SLACK_US, Handled, Recorded
from .evidence import CLAIM_WAIT_US


class Claimed(msgspec.Struct):
    """A controller that counts more than heartbeats, and a heap of what comes later than it is.

    ``events``: (when, whether it is a heartbeat, which is later than a claim at that time, number,
    broker, offset that it has applied by then, heartbeat). ``last``: by broker its last heartbeat.
    """

    manager: BrokerHeartbeatManager
    events: list[tuple[int, bool, int, int, int, Heartbeat | None]] = []
    count: int = 0
    last: dict[int, Heartbeat] = {}

    def keep_serving(self, beat: Heartbeat) -> None:
        """Keep a heartbeat; a broker that stood still before it was not gone, and shows old data.

        As if it had sent its last one again, but for a silence that is too long to wait for.
        """
        last = self.last.get(beat.broker_id, beat)
        is_same = last.broker_epoch == beat.broker_epoch and not last.want_shut_down
        if is_same and beat.handled_us - last.handled_us <= SESSION_TIMEOUT_US + CLAIM_WAIT_US:
            since = last.handled_us + SESSION_TIMEOUT_US
            for at in range(since, beat.handled_us, SESSION_TIMEOUT_US):
                self.keep_beat(last._replace(handled_us=at, built_us=at))
        self.last[beat.broker_id] = beat
        self.keep_beat(beat)

    def keep_beat(self, beat: Heartbeat) -> None:
        self.keep(beat.handled_us, beat.broker_id, beat.offset, beat)

    def keep(self, at: int, broker_id: int, offset: int, beat: Heartbeat | None = None) -> None:
        self.count += 1
        heappush(self.events, (at, beat is not None, self.count, broker_id, offset, beat))

    def advance(self, until: int) -> None:
        while self.events and self.events[0][0] <= until:
            at, _, _, broker_id, offset, beat = heappop(self.events)
            if beat is None:
                self.manager.apply(at, broker_id, offset)
            else:
                self.manager.heartbeat(beat)
        self.manager.advance(until)


class Simulation(msgspec.Struct):
    """Heartbeats at one interval, to a controller for each variant of when brokers learned.

    ``events`` is a heap of (when, whether it is due and not kept, number, broker, heartbeat that is
    kept); ``due`` has each broker's number of the one that is due, None if no line shows yet when.
    """

    interval_us: int
    managers: dict[str, BrokerHeartbeatManager]
    events: list[tuple[int, bool, int, int, Heartbeat | None]] = []
    due: dict[int, int | None] = {}
    #: By broker the epoch of its steady heartbeats.
    steady: dict[int, int] = {}
    count: int = 0

    def heartbeat(self, received: int, beat: Heartbeat, is_steady: bool) -> None:
        """A recorded heartbeat: kept, unless steady; a steady one shows that its broker is back."""
        if not is_steady:
            self._push(received, beat.broker_id, beat)
        elif self.due.get(beat.broker_id, 0) is None:
            self._schedule(beat.broker_id, received)

    def run(self, until: int, recorded: Recorded) -> None:
        while self.events and self.events[0][0] <= until:
            at, _, number, broker_id, kept = heappop(self.events)
            if kept is not None:
                self._send_kept(at, kept, recorded)
            elif self.due.get(broker_id) == number:
                self._send_due(at, broker_id, recorded)

    def _push(self, at: int, broker_id: int, kept: Heartbeat | None) -> int:
        self.count += 1
        heappush(self.events, (at, kept is None, self.count, broker_id, kept))
        return self.count

    def _schedule(self, broker_id: int, at: int) -> None:
        self.due[broker_id] = self._push(at, broker_id, None)

    def _send_kept(self, at: int, beat: Heartbeat, recorded: Recorded) -> None:
        self.due.pop(beat.broker_id, None)
        self._send(at, beat, recorded)
        if not beat.is_fenced and not beat.want_shut_down:
            self.steady[beat.broker_id] = beat.broker_epoch
            self._schedule_next(beat.broker_id, beat.built_us, recorded)

    def _send_due(self, at: int, broker_id: int, recorded: Recorded) -> None:
        record, log_end_us = recorded.of(broker_id), recorded.log_end_us
        received = record.heartbeats.at
        index = bisect_right(received, at)
        last_built = record.built_us(index - 1) if index else at
        patience = recorded.settle_interval() + AWAY_SLACK_US
        if index < len(received):
            returns = received[index]
            if returns - last_built > patience:
                self._schedule(broker_id, returns)
                return
        elif log_end_us is None or at > log_end_us or at - last_built > patience:
            self.due[broker_id] = None
            return
        handled = record.heartbeats.nearest(at) or Handled(0, 0)
        times = at + handled.after_us, at + handled.built_after_us
        epoch, controller_id = self.steady[broker_id], recorded.controllers.value(at)
        assert controller_id is not None
        beat = Heartbeat(controller_id, broker_id, epoch, *times, RESET_OFFSET, False, False)
        self._send(at, beat, recorded)
        self._schedule_next(broker_id, beat.built_us, recorded)

    def _send(self, at: int, beat: Heartbeat, recorded: Recorded) -> None:
        record = recorded.of(beat.broker_id)
        for variant, manager in self.managers.items():
            applied = record.applied(variant, at)
            sent = beat if applied is None else Heartbeat(*beat[:5], applied, *beat[6:])
            manager.apply(at, sent.broker_id, sent.offset)
            manager.heartbeat(sent)

    def _schedule_next(self, broker_id: int, built: int, recorded: Recorded) -> None:
        interval = recorded.settle_interval()
        gap = recorded.of(broker_id).gaps.nearest(built) or 0
        is_steady = interval // 2 < gap <= interval + AWAY_SLACK_US
        late = gap - interval if is_steady else 0
        self._schedule(broker_id, max(built + 1, built + self.interval_us + late))
