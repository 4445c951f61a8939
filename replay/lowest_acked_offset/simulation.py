"""Controllers of heartbeats that were not recorded so, or that count more than heartbeats.

A heartbeat is steady if its broker runs and ran at the one before: those come at the interval.
Others (a broker starts, unfences, shuts down) come when they must, whatever the interval, so they
are simulated as recorded. The log also gives when a broker is away and, of steady heartbeats, how
long the response took and how late the next one came: always the recorded value nearest in time, so
nothing is drawn. The model computes when steady heartbeats arrive, which is the same whatever
brokers have learned, and which offset they carry.

A broker has applied what is below the high watermark that it has learned (recorded, or replayed
with or without KIP-1166), after a delay. The delay is the log's: each recorded heartbeat shows
whether the newest offset that its broker knew was applied yet, and the delay is the age that parts
the two best, over all brokers. A broker that a heartbeat shows to be slow (see ``evidence``) has
applied what it knew half-way to the heartbeat that first shows it.
"""

from bisect import bisect_left, bisect_right
from enum import StrEnum
from typing import NamedTuple

import msgspec

from ..hwm_parking.outcomes import WITH_KIP, WITHOUT_KIP
from ..model.brokers import RESET_OFFSET, SESSION_TIMEOUT_US, BrokerHeartbeatManager, Heartbeat
from ..records import RECORDED
from ..simulation import EventQueue, Rising, Samples, Timeline, forget
from .events import HEARTBEAT_WAIT_US, LOWEST_ACKED, SLOW_US, ClusterEvent

#: broker.heartbeat.interval.ms, Kafka's default; for a log that has no steady heartbeat.
DEFAULT_INTERVAL_US = 2_000_000
#: A simulated heartbeat is timed by recorded ones up to two intervals away.
SIMULATED_ON_US = 2 * DEFAULT_INTERVAL_US
#: A steady heartbeat that is later than the interval by more than this has been away. 741 of the
#: 744 steady ones recorded were at most 0.33 s late, the others came from paused brokers.
AWAY_SLACK_US = 1_000_000
#: The delay from learning to applying is measured by this many heartbeats, the last that came soon
#: after their broker learned: some minutes of three brokers, so that it follows the load.
DELAY_SAMPLES = 128
#: Samples that are there from the start, (age in microseconds, was it applied): brokers apply
#: within 10 ms. Four late heartbeats outvote them, so that one alone is no measure.
ASSUMED_DELAY = ((10_000, True),) * 4
#: By simulated variant, when brokers learned of commits in it (``variant`` of high_watermark_lag).
LEARNED_OF = {LOWEST_ACKED: RECORDED, WITHOUT_KIP: WITHOUT_KIP, WITH_KIP: WITH_KIP}
#: Kinds of events, in this order at one time: of ``Informed``, and of ``Simulation``.
APPLIED, REPORTED = 0, 1
KEPT, DUE = 0, 1


class Pace(StrEnum):
    """When a simulated broker sends its next heartbeat.

    A heartbeat as recorded makes it ``STEADY``, or ``RECORDED`` if the broker is fenced or stops
    behind it. A steady one that is due behind all recorded ones so far makes it ``AWAY``, and the
    next steady one that was recorded ``STEADY`` again.
    """

    #: When it was recorded: the broker starts, is fenced or shuts down.
    RECORDED = "recorded"
    #: An interval behind the response to the last one: the next is in the queue.
    STEADY = "steady"
    #: No line so far shows when it is back.
    AWAY = "away"


class ApplyDelay(msgspec.Struct):
    """How long brokers take to apply what they know: one delay for all, as each has few samples.

    ``seen``: age (microseconds) of the newest offset that a broker knew when it sent a heartbeat,
    and whether that had it.
    """

    seen: list[tuple[int, bool]] = []
    us: int = 0

    def add(self, age: int, applied: bool) -> None:
        """Adds a sample. The delay is the age that parts best; of several as good the smallest."""
        self.seen = [*self.seen[1 - DELAY_SAMPLES :], (age, applied)]
        seen = sorted([*ASSUMED_DELAY, *self.seen])
        # With a delay of 0 the samples that were not applied are wrong.
        wrong = fewest = sum(not was_applied for _, was_applied in seen)
        self.us = 0
        for sample_us, was_applied in seen:
            # With one just above this sample's age it is wrong if it was applied, else right.
            wrong += 1 if was_applied else -1
            if wrong < fewest:
                self.us, fewest = sample_us, wrong


class Slow(msgspec.Struct):
    """A broker had not applied what it knew (``known``) until a time (open: None).

    Heartbeats at ``at`` carried ``offsets``: until each it had no more than that one's.
    """

    known: int
    at: list[int]
    offsets: list[int]
    until_us: int | None = None


class Handled(NamedTuple):
    """How long after its arrival a heartbeat was taken up, and its response was built."""

    after_us: int
    built_after_us: int


class BrokerRecord(msgspec.Struct):
    """The recorded heartbeats of one broker, by their arrival, and what it has learned.

    ``pauses`` are from a response of a running broker to its next heartbeat; ``running_epoch`` is
    of its process if that ran at the last one. It is ``due`` to have applied what it learned.
    """

    heartbeats: Samples[Handled] = msgspec.field(default_factory=Samples)
    pauses: Samples[int] = msgspec.field(default_factory=Samples)
    running_epoch: int | None = None
    learned: Rising = msgspec.field(default_factory=Rising)
    due: dict[str, Rising] = {}
    slow: list[Slow] = []

    def add(self, received: int, heartbeat: Heartbeat, want_fence: bool) -> bool:
        """Adds a heartbeat; returns whether it is steady."""
        runs = not (heartbeat.is_fenced or heartbeat.want_shut_down or want_fence)
        is_steady = runs and self.running_epoch == heartbeat.broker_epoch
        if is_steady:
            self.pauses.add(self.built_us(-1), received - self.built_us(-1))
        handled = Handled(heartbeat.handled_us - received, heartbeat.built_us - received)
        self.heartbeats.add(received, handled)
        self.running_epoch = heartbeat.broker_epoch if runs else None
        return is_steady

    def built_us(self, index: int) -> int:
        return self.heartbeats.at[index] + max(0, self.heartbeats.values[index].built_after_us)

    def measure(self, at: int, offset: int, delay: ApplyDelay) -> int | None:
        """Measures delay and slowness by a heartbeat; returns when a slow broker caught up."""
        caught_up = None
        slow = next((slow for slow in self.slow if slow.until_us is None), None)
        if slow is not None and offset >= slow.known:
            caught_up = slow.until_us = (slow.at[-1] + at) // 2
            slow = None
        elif slow is not None:
            slow.at.append(at)
            slow.offsets.append(max(slow.offsets[-1], offset))
        # The last offset that it had learned by then, and the first that the heartbeat lacks.
        learned, last = self.learned, bisect_right(self.learned.at, at) - 1
        missing = bisect_right(learned.values, offset, 0, last + 1)
        if missing <= last and at - learned.at[missing] > SLOW_US:
            overdue = learned.value(at - SLOW_US)
            if overdue is not None and slow is None:
                self.slow.append(Slow(overdue, [at], [offset]))
        elif last >= 0 and at - learned.at[last] <= SLOW_US:
            delay.add(at - learned.at[last], offset >= learned.values[last])
        return caught_up

    def applied(self, variant: str, at: int) -> int | None:
        """Returns the last offset applied at a time; None while nothing is known of the variant."""
        due = self.due.get(variant)
        offset = None if due is None else due.value(at)
        for slow in self.slow:
            if offset is not None and (slow.until_us is None or at < slow.until_us):
                after = min(bisect_left(slow.at, at), len(slow.at) - 1)
                offset = min(offset, slow.offsets[after])
        return offset

    def forget(self, before: int) -> None:
        forget(self, before)
        self.slow = [s for s in self.slow if s.until_us is None or s.until_us >= before]


class Recorded(msgspec.Struct):
    """The recorded heartbeats and the brokers' progress, which all simulations share.

    ``controllers``: which one is active. ``steps``: when a broker may have applied more, and in
    which variants. ``log_end_us``: no more of the log will come.
    """

    interval_us: int | None = None
    log_end_us: int | None = None
    brokers: dict[int, BrokerRecord] = {}
    delay: ApplyDelay = msgspec.field(default_factory=ApplyDelay)
    controllers: Timeline[int] = msgspec.field(default_factory=Timeline)
    steps: EventQueue[tuple[str, ...]] = msgspec.field(default_factory=EventQueue)

    def heartbeat(self, received: int, heartbeat: Heartbeat, want_fence: bool) -> bool:
        """Adds a recorded heartbeat; returns whether it is steady."""
        if self.controllers.values[-1:] != [heartbeat.controller_id]:
            self.controllers.add(heartbeat.handled_us, heartbeat.controller_id)
        broker = self.broker(heartbeat.broker_id)
        is_steady = broker.add(received, heartbeat, want_fence)
        caught_up = broker.measure(received, heartbeat.offset, self.delay)
        if caught_up is not None:
            self.steps.push(caught_up, heartbeat.broker_id, tuple(LEARNED_OF.values()))
        return is_steady

    def learn(self, row: ClusterEvent) -> None:
        """Notes that a broker learned a high watermark: a delay later it will have applied it."""
        broker, offset = self.broker(row.broker_id), row.high_watermark - 1
        due_us = row.at_us + self.delay.us
        if row.variant == RECORDED:
            broker.learned.add(row.at_us, offset)
        broker.due.setdefault(row.variant, Rising()).add(due_us, offset)
        self.steps.push(due_us, row.broker_id, (row.variant,))

    def broker(self, broker_id: int) -> BrokerRecord:
        return self.brokers.get(broker_id) or self.brokers.setdefault(broker_id, BrokerRecord())

    def fixed_interval_us(self) -> int:
        """Returns the interval of the log: as given, else the median pause by now, cut to 10 ms."""
        if self.interval_us is None:
            brokers = self.brokers.values()
            pauses = sorted(pause for broker in brokers for pause in broker.pauses.values)
            median = pauses[len(pauses) // 2] if pauses else DEFAULT_INTERVAL_US
            self.interval_us = median // 10_000 * 10_000
        return self.interval_us


class Informed(msgspec.Struct):
    """A controller that counts what evidence or estimates show, too.

    They are known late, so ``events`` wait: (when, APPLIED or REPORTED, (broker, its offset,
    heartbeat)). ``last``: by broker its last heartbeat.
    """

    manager: BrokerHeartbeatManager
    events: EventQueue[tuple[int, int, Heartbeat | None]] = msgspec.field(
        default_factory=EventQueue
    )
    last: dict[int, Heartbeat] = {}

    def keep_serving(self, heartbeat: Heartbeat) -> None:
        """Counts a heartbeat, and its broker as active also while it was frozen before it.

        A frozen broker is not gone, and shows old data. It counts as if it had sent its last
        heartbeat again in every session timeout, unless the silence is too long to wait for.
        """
        last = self.last.get(heartbeat.broker_id, heartbeat)
        is_same = last.broker_epoch == heartbeat.broker_epoch and not last.want_shut_down
        silent_us = heartbeat.handled_us - last.handled_us
        if is_same and silent_us <= SESSION_TIMEOUT_US + HEARTBEAT_WAIT_US:
            since = last.handled_us + SESSION_TIMEOUT_US
            for at in range(since, heartbeat.handled_us, SESSION_TIMEOUT_US):
                self.heartbeat(last._replace(handled_us=at, built_us=at))
        self.last[heartbeat.broker_id] = heartbeat
        self.heartbeat(heartbeat)

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        informed = heartbeat.broker_id, heartbeat.offset, heartbeat
        self.events.push(heartbeat.handled_us, REPORTED, informed)

    def apply(self, at: int, broker_id: int, offset: int) -> None:
        self.events.push(at, APPLIED, (broker_id, offset, None))

    def advance(self, until: int) -> None:
        for at, _, (broker_id, offset, heartbeat) in self.events.until(until):
            if heartbeat is None:
                self.manager.apply(at, broker_id, offset)
            else:
                self.manager.heartbeat(heartbeat)
        self.manager.advance(until)


class SimulatedBroker(msgspec.Struct):
    """A broker's pace; at a steady one its process, and the number of its next heartbeat.

    One that is due under another number was queued before a recorded one came between.
    """

    pace: Pace = Pace.RECORDED
    epoch: int = -1
    number: int = -1


class Simulation(msgspec.Struct):
    """Heartbeats at one interval, to a controller for each variant of when brokers learned.

    ``events``: (when, KEPT or DUE, (number, broker, the heartbeat that is kept)).
    """

    interval_us: int
    managers: dict[str, BrokerHeartbeatManager]
    events: EventQueue[tuple[int, int, Heartbeat | None]] = msgspec.field(
        default_factory=EventQueue
    )
    count: int = 0
    brokers: dict[int, SimulatedBroker] = {}

    def heartbeat(self, received: int, heartbeat: Heartbeat, is_steady: bool) -> None:
        """Queues a recorded heartbeat as it is, unless steady: that only shows who is back."""
        broker_id = heartbeat.broker_id
        broker = self.brokers.setdefault(broker_id, SimulatedBroker())
        if not is_steady:
            self._push(received, broker_id, heartbeat)
        elif broker.pace is Pace.AWAY:
            self._schedule(broker_id, received)

    def run(self, until: int, recorded: Recorded) -> None:
        """Sends the heartbeats that are due up to a time."""
        for at, _, (number, broker_id, kept) in self.events.until(until):
            broker = self.brokers[broker_id]
            if kept is not None:
                broker.pace, broker.epoch = Pace.RECORDED, kept.broker_epoch
                self._send(at, kept, recorded)
                if not kept.is_fenced and not kept.want_shut_down:
                    self._schedule_next(broker_id, kept.built_us, recorded)
            elif broker.pace is Pace.STEADY and broker.number == number:
                self._send_due(at, broker_id, recorded)

    def _schedule(self, broker_id: int, at: int) -> None:
        broker = self.brokers[broker_id]
        broker.pace, broker.number = Pace.STEADY, self._push(at, broker_id, None)

    def _push(self, at: int, broker_id: int, kept: Heartbeat | None) -> int:
        self.count += 1
        self.events.push(at, DUE if kept is None else KEPT, (self.count, broker_id, kept))
        return self.count

    def _schedule_next(self, broker_id: int, built: int, recorded: Recorded) -> None:
        interval = recorded.fixed_interval_us()
        pause = recorded.broker(broker_id).pauses.nearest(built) or 0
        is_steady = interval // 2 < pause <= interval + AWAY_SLACK_US
        late = pause - interval if is_steady else 0
        self._schedule(broker_id, max(built + 1, built + self.interval_us + late))

    def _send_due(self, at: int, broker_id: int, recorded: Recorded) -> None:
        """Sends a steady heartbeat, unless the recorded broker was away then, or may have been."""
        record, log_end_us = recorded.broker(broker_id), recorded.log_end_us
        received = record.heartbeats.at
        index = bisect_right(received, at)
        last_built = record.built_us(index - 1) if index else at
        patience = recorded.fixed_interval_us() + AWAY_SLACK_US
        if index < len(received):
            if received[index] - last_built > patience:
                self._schedule(broker_id, received[index])
                return
        elif log_end_us is None or at > log_end_us or at - last_built > patience:
            self.brokers[broker_id].pace = Pace.AWAY
            return
        handled = record.heartbeats.nearest(at) or Handled(0, 0)
        times = at + handled.after_us, at + handled.built_after_us
        epoch, controller_id = self.brokers[broker_id].epoch, recorded.controllers.value(at)
        # A heartbeat is simulated behind one that a controller has handled.
        assert controller_id is not None
        heartbeat = Heartbeat(controller_id, broker_id, epoch, *times, RESET_OFFSET, False, False)
        self._send(at, heartbeat, recorded)
        self._schedule_next(broker_id, heartbeat.built_us, recorded)

    def _send(self, at: int, heartbeat: Heartbeat, recorded: Recorded) -> None:
        """Sends a heartbeat to each variant's controller, with the offset applied in that."""
        record = recorded.broker(heartbeat.broker_id)
        for variant, manager in self.managers.items():
            applied = record.applied(variant, at)
            offset = heartbeat.offset if applied is None else applied
            manager.apply(at, heartbeat.broker_id, offset)
            manager.heartbeat(heartbeat._replace(offset=offset))
