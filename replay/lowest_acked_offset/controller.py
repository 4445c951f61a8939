"""The active controller's view of its brokers, and the offset that its heartbeats would carry.

``HeartbeatManager`` follows ``BrokerHeartbeatManager`` (``touch``, ``register``,
``lowestActiveOffset``, ``fence``) as far as requests show what it does, and the draft KIP where
Kafka has nothing: the value in each BrokerHeartbeatResponse.

Three lowest values are kept over the brokers that count (unfenced, and unless asked otherwise not
in controlled shutdown):

``raw``
    as ``lowestActiveOffset()`` would compute it. A broker's offset falls to -1 where Kafka's does:
    after a registration-change record (unfencing, controlled shutdown) until its next heartbeat,
    and for all of them when another controller takes over. Records of other causes (a changed
    feature, a directory failure) reset it too, but no request shows them.
``applied``
    what the brokers have really applied, without those resets.
``told``
    what each broker has been told: never falls, also across controllers, since each broker would
    keep the highest value it has heard.

When a silent broker is fenced is not in the log either. The controller does it when it has heard
nothing for ``broker.session.timeout.ms`` (9 s) and looks every eighth of that, so at the latest
after 10.125 s; here it is fenced at that latest moment, so that nothing is claimed too early, and
only if the same controller is heard of again: another one starts to count when it takes over.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

from kip_replay.replay.lowest_acked_offset.timelines import Lowest, Rising

#: broker.session.timeout.ms, Kafka's default.
SESSION_TIMEOUT_US = 9_000_000
#: Looked for this often in a session timeout (``maybeFenceStaleBroker``).
SCANS_PER_SESSION = 8
#: The raw offset of a broker that has not been heard since it was reset.
RESET_OFFSET = -1


class Heartbeat(NamedTuple):
    """A heartbeat that a controller answered without error. Times: microseconds.

    ``handled_us`` orders them as the controller's queue does; ``built_us`` is when the broker can
    know the answer. ``is_fenced`` is the answer: the broker's state after this heartbeat.
    """

    controller_id: int
    broker_id: int
    broker_epoch: int
    handled_us: int
    built_us: int
    offset: int
    is_fenced: bool
    want_shut_down: bool


class Carried(NamedTuple):
    """What the response would carry: raw and never-falling, and how many brokers count."""

    raw: int | None
    clamped: int | None
    unfenced_brokers: int


@dataclass
class Broker:
    """A broker as the controller last left it; ``told`` in this life."""

    epoch: int
    fenced: bool = True
    stopping: bool = False
    told: int = RESET_OFFSET


@dataclass
class HeartbeatManager:
    """Brokers as heartbeats make them known, over all controllers of a recording.

    ``applies_reports``: a reported offset is also what is taken for applied; otherwise only
    ``apply`` says so. ``tells_applied``: the value is what the brokers have applied by all
    evidence, not only by their heartbeats. ``counts_stopping``: brokers in controlled shutdown
    hold the value back too.
    ``certain_from_us``: before it a broker that has not been heard may exist, and nothing is told.
    """

    applies_reports: bool = True
    tells_applied: bool = False
    counts_stopping: bool = False
    session_timeout_us: int = SESSION_TIMEOUT_US
    certain_from_us: int | None = None
    controller_id: int | None = None
    brokers: dict[int, Broker] = field(default_factory=dict)
    has_applied: dict[int, int] = field(default_factory=dict)
    raw: Lowest = field(default_factory=Lowest)
    applied: Lowest = field(default_factory=Lowest)
    told: Lowest = field(default_factory=Lowest)
    clamped: int | None = None
    #: When every broker that counted had surely applied an offset, and who was the last.
    applied_everywhere: Rising = field(default_factory=Rising)
    #: When every broker that counted had been told an offset.
    told_everywhere: Rising = field(default_factory=Rising)
    #: When each broker was told an offset.
    told_by_broker: dict[int, Rising] = field(default_factory=dict)
    #: When each broker that may be fenced for its silence was last heard.
    contact_us: dict[int, int] = field(default_factory=dict)
    #: A heap: when a broker is fenced, which, when it was last heard.
    deadlines: list[tuple[int, int, int]] = field(default_factory=list)
    #: A heap of answers on their way: built, to which broker, its epoch, value.
    answers: list[tuple[int, int, int, int]] = field(default_factory=list)

    @property
    def fenced_after_us(self) -> int:
        """A silent broker is fenced at the latest after this."""
        return self.session_timeout_us + self.session_timeout_us // SCANS_PER_SESSION

    def heartbeat(self, beat: Heartbeat) -> Carried | None:
        """Apply a heartbeat, its own update first; then the value. None while not certain."""
        at, broker_id = beat.handled_us, beat.broker_id
        if beat.controller_id == self.controller_id:
            self._pass(at, heard=True)
        else:
            self.advance(at)
            self._activate(at, beat.controller_id)
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != beat.broker_epoch:
            # A new life of the broker: registered, fenced, and told nothing yet.
            broker = self.brokers[broker_id] = Broker(beat.broker_epoch)
            self._count(at, broker_id, broker)
        stopping = beat.want_shut_down and not beat.is_fenced
        changed = (broker.fenced, broker.stopping) != (beat.is_fenced, stopping)
        broker.fenced, broker.stopping = beat.is_fenced, stopping
        self._touch(at, broker_id)
        if self.applies_reports:
            self.has_applied[broker_id] = max(
                beat.offset, self.has_applied.get(broker_id, RESET_OFFSET)
            )
        self._count(at, broker_id, broker)
        if broker_id in self.raw.by_node:
            self.raw.set(broker_id, beat.offset)
        carried = self._value(at)
        if carried is not None and carried.clamped is not None:
            answer = (beat.built_us, broker_id, beat.broker_epoch, carried.clamped)
            heapq.heappush(self.answers, answer)
        if changed and broker_id in self.raw.by_node:
            # Its registration-change record is replayed after the answer was computed.
            self.raw.set(broker_id, RESET_OFFSET)
        return carried

    def told_of(self, broker_id: int) -> Rising:
        """When a broker was told an offset."""
        return self.told_by_broker.setdefault(broker_id, Rising())

    def apply(self, at: int, broker_id: int, offset: int) -> None:
        """A broker has surely applied an offset, whatever it has reported."""
        self.advance(at)
        if offset > self.has_applied.get(broker_id, RESET_OFFSET):
            self.has_applied[broker_id] = offset
            if broker_id in self.applied.by_node:
                self.applied.set(broker_id, offset)
                self._note_applied(at, broker_id)

    def advance(self, at: int) -> None:
        """Time passes and answers arrive. Nobody is fenced: the controller may have lost office."""
        self._pass(at, heard=False)

    def _pass(self, at: int, *, heard: bool) -> None:
        """Answers arrive, and if the controller is still heard it has fenced who was silent."""
        while True:
            deadline = self.deadlines[0] if self.deadlines and heard else None
            answer = self.answers[0] if self.answers else None
            if deadline and deadline[0] <= at and (not answer or deadline[0] <= answer[0]):
                heapq.heappop(self.deadlines)
                self._fence(*deadline)
            elif answer and answer[0] <= at:
                heapq.heappop(self.answers)
                self._tell(*answer)
            else:
                return

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        for timeline in (self.applied_everywhere, self.told_everywhere):
            timeline.forget(before)
        for timeline in self.told_by_broker.values():
            timeline.forget(before)

    def _value(self, at: int) -> Carried | None:
        if self.certain_from_us is None or at < self.certain_from_us:
            return None
        raw = (self.applied if self.tells_applied else self.raw).lowest()
        if raw is not None:
            self.clamped = raw if self.clamped is None else max(self.clamped, raw)
        return Carried(raw, None if raw is None else self.clamped, len(self.raw.by_node))

    def _activate(self, at: int, controller_id: int) -> None:
        """``activate``: another controller knows who is unfenced, but has heard nobody yet."""
        self.controller_id = controller_id
        for broker_id in list(self.raw.by_node):
            self.raw.set(broker_id, RESET_OFFSET)
        for broker_id, broker in self.brokers.items():
            if not broker.fenced:
                self._touch(at, broker_id)

    def _touch(self, at: int, broker_id: int) -> None:
        first = broker_id not in self.contact_us
        self.contact_us[broker_id] = at
        if first:
            # One deadline a broker is enough: when it comes it looks at the last contact.
            heapq.heappush(self.deadlines, (at + self.fenced_after_us, broker_id, at))

    def _fence(self, at: int, broker_id: int, contact: int) -> None:
        last = self.contact_us[broker_id]
        if last > contact:
            heapq.heappush(self.deadlines, (last + self.fenced_after_us, broker_id, last))
            return
        del self.contact_us[broker_id]
        broker = self.brokers[broker_id]
        if not broker.fenced:
            broker.fenced, broker.stopping = True, False
            self._count(at, broker_id, broker)

    def _count(self, at: int, broker_id: int, broker: Broker) -> None:
        """The broker counts or not, as it is now."""
        counts = not broker.fenced and (self.counts_stopping or not broker.stopping)
        if counts:
            self.raw.set(broker_id, self.raw.by_node.get(broker_id, RESET_OFFSET))
            self.applied.set(broker_id, self.has_applied.get(broker_id, RESET_OFFSET))
            self.told.set(broker_id, broker.told)
        else:
            for lowest in (self.raw, self.applied, self.told):
                lowest.drop(broker_id)
            self._note_told(at, broker_id)
        self._note_applied(at, broker_id)

    def _tell(self, at: int, broker_id: int, epoch: int, value: int) -> None:
        self.told_of(broker_id).add(at, value)
        broker = self.brokers[broker_id]
        if broker.epoch == epoch and value > broker.told:
            broker.told = value
            if broker_id in self.told.by_node:
                self.told.set(broker_id, value)
                self._note_told(at, broker_id)

    def _note_applied(self, at: int, broker_id: int) -> None:
        self._note(at, broker_id, self.applied, self.applied_everywhere)

    def _note_told(self, at: int, broker_id: int) -> None:
        self._note(at, broker_id, self.told, self.told_everywhere)

    def _note(self, at: int, broker_id: int, lowest: Lowest, everywhere: Rising) -> None:
        value = lowest.lowest()
        if value is None or self.certain_from_us is None or at < self.certain_from_us:
            return
        if value > RESET_OFFSET:
            everywhere.add(at, value, broker_id)
