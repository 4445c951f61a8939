"""The rule: the lowest metadata offset acknowledged by all unfenced brokers.

``HeartbeatManager`` stands in the order of the draft KIP, each part under the section that it does.
Behind them stands what the draft builds on, Kafka's ``BrokerHeartbeatManager``, as far as requests
show what it does. Of each broker that counts it has three offsets, and their minima:

``raw``
    as in ``BrokerHeartbeatManager.lowestActiveOffset``. It falls to -1 where Kafka's does: after a
    broker's registration-change record (unfencing, controlled shutdown) until its next heartbeat,
    and for all brokers when another controller takes over. Records of other causes (a changed
    feature, a failed directory) reset it too, but no request shows them.
``applied``
    what the broker has surely applied, without those resets.
``known``
    the highest LowestAcknowledgedOffset that the broker has received.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from .brokers import NEVER, RESET_OFFSET, Broker, Heartbeat, Sessions
from .timelines import Lowest, Rising


class Carried(NamedTuple):
    """What a response carries: raw and never falling (None if no broker counts), and over how many.

    Not ``is_certain``: at most this, as it depends on who may have been fenced already.

    The draft does not say that the offset never falls, but what brokers rely on ("Synchrony": a
    guarantee), so they keep the highest that they receive.
    """

    raw: int | None
    lowest: int | None
    unfenced_brokers: int | None
    is_certain: bool = True


class HeartbeatManager(msgspec.Struct):
    """The brokers as their heartbeats make them known, over all controllers of a recording.

    ``carries_applied``: responses carry ``applied``, whatever its evidence, instead of ``raw``.
    ``counts_stopping``: brokers in controlled shutdown count, as in "all unfenced brokers";
    ``lowestActiveOffset`` leaves them out. ``certain_from_us``: before it an unfenced broker may
    have sent nothing yet, so no response carries an offset. The first is not below ``floor``: it
    may have been as high before the log.
    """

    carries_applied: bool = False
    counts_stopping: bool = False
    certain_from_us: int = NEVER
    floor: int = RESET_OFFSET
    sessions: Sessions = msgspec.field(default_factory=Sessions)
    controller_id: int | None = None
    brokers: dict[int, Broker] = {}
    has_applied: dict[int, int] = {}
    raw: Lowest = msgspec.field(default_factory=Lowest)
    applied: Lowest = msgspec.field(default_factory=Lowest)
    known: Lowest = msgspec.field(default_factory=Lowest)
    lowest: int | None = None
    #: When all brokers that counted had surely applied an offset, and the last of them.
    applied_everywhere: Rising = msgspec.field(default_factory=Rising)
    #: When all brokers that counted knew that, and when each broker did.
    known_everywhere: Rising = msgspec.field(default_factory=Rising)
    known_by_broker: dict[int, Rising] = {}
    #: A heap of responses on their way: (built, broker, its epoch, offset).
    responses: list[tuple[int, int, int, int]] = []

    # --- Public Interfaces -----------------------------------------------------------------------

    def _lowest_acknowledged_offset(self, at: int) -> Carried | None:
        """ "The lowest metadata offset which has been acknowledged by all unfenced brokers"."""
        if at < self.certain_from_us:
            return None
        offsets = self.applied if self.carries_applied else self.raw
        raw = offsets.lowest
        if raw is None:
            return Carried(None, None, 0)
        if self.lowest is None and raw < self.floor:
            return None
        self.lowest = raw if self.lowest is None else max(self.lowest, raw)
        silent = sum(offsets.by_node.get(broker) == raw for broker in self.sessions.silent(at))
        is_certain = silent < offsets.counts[raw]
        return Carried(raw, self.lowest, len(self.raw.by_node), is_certain)

    # --- Proposed Changes ------------------------------------------------------------------------

    def heartbeat(self, beat: Heartbeat) -> Carried | None:
        """Brokers receive it "as part of the heartbeat response"; None while it is not certain."""
        at, broker_id = beat.handled_us, beat.broker_id
        if beat.controller_id == self.controller_id:
            self._pass(at)
        else:  # "from the active controller": another one now
            self._activate(at, beat.controller_id)
        broker = self._register(at, broker_id, beat.broker_epoch)
        stopping = beat.want_shut_down and not beat.is_fenced
        begins_stopping = stopping and not broker.stopping
        changed = broker.fenced != beat.is_fenced or broker.stopping != stopping
        broker.fenced, broker.stopping = beat.is_fenced, stopping
        self.sessions.touch(at, broker_id)
        applied = self.has_applied.get(broker_id, RESET_OFFSET)
        if beat.offset > applied:
            self.has_applied[broker_id] = applied = beat.offset
        counts = not broker.fenced and (self.counts_stopping or not stopping)
        # Until the response is computed: its controlledShutdownOffset is that of the records since.
        if counts or begins_stopping:
            self.raw.set(broker_id, beat.offset)
            self.applied.set(broker_id, applied)
            self.known.set(broker_id, broker.known)
            self._note(at, broker_id, self.applied, self.applied_everywhere)
        else:
            self._leave(at, broker_id)
        carried = self._lowest_acknowledged_offset(at)
        if carried is not None and carried.lowest is not None and carried.lowest > broker.known:
            heappush(self.responses, (beat.built_us, broker_id, broker.epoch, carried.lowest))
        if changed and counts:
            # Its registration-change record is replayed after the response was computed.
            self.raw.set(broker_id, RESET_OFFSET)
        if not counts:
            self._leave(at, broker_id)
        return carried

    # --- Read-after-write visibility -------------------------------------------------------------

    def apply(self, at: int, broker_id: int, offset: int) -> None:
        """ "How caught up every other broker is": one has surely applied an offset."""
        self.advance(at)
        if offset > self.has_applied.get(broker_id, RESET_OFFSET):
            self.has_applied[broker_id] = offset
            if broker_id in self.applied.by_node:
                self.applied.set(broker_id, offset)
                self._note(at, broker_id, self.applied, self.applied_everywhere)

    # --- ApiVersions -----------------------------------------------------------------------------

    def _receive(self, at: int, broker_id: int, epoch: int, offset: int) -> None:
        """ "A broker can wait to see a particular lowest acknowledged offset": it sees this."""
        self.known_by_broker[broker_id].add(at, offset)
        broker = self.brokers[broker_id]
        # A response to its former process is lost with that.
        if broker.epoch == epoch and offset > broker.known:
            broker.known = offset
            if broker_id in self.known.by_node:
                self.known.set(broker_id, offset)
                self._note(at, broker_id, self.known, self.known_everywhere)

    # --- Synchrony -------------------------------------------------------------------------------

    def advance(self, at: int) -> None:
        """ "There is some asynchrony": responses arrive. The controller may be active no more."""
        while self.responses and self.responses[0][0] <= at:
            self._receive(*heappop(self.responses))

    def _note(self, at: int, broker_id: int, offsets: Lowest, everywhere: Rising) -> None:
        """The "guarantee that all other brokers are at least at a particular point"."""
        lowest = offsets.lowest
        if lowest is not None and lowest > RESET_OFFSET and at >= self.certain_from_us:
            everywhere.add(at, lowest, broker_id)

    # --- BrokerHeartbeatManager ------------------------------------------------------------------

    def _pass(self, at: int) -> None:
        """Responses arrive, and a controller that is still active has fenced silent brokers."""
        while (ends := self.sessions.first_end(at)) < NEVER:
            # Of two at one time the session ends first.
            self.advance(ends - 1)
            self._fence(ends, self.sessions.end_first())
        self.advance(at)

    def _activate(self, at: int, controller_id: int) -> None:
        """``activate``: another controller knows who is unfenced; all sessions begin anew."""
        self.advance(at)
        self.controller_id = controller_id
        for broker_id in list(self.raw.by_node):
            self.raw.set(broker_id, RESET_OFFSET)
        for broker_id, broker in self.brokers.items():
            if not broker.fenced:
                self.sessions.touch(at, broker_id)

    def _register(self, at: int, broker_id: int, epoch: int) -> Broker:
        """``register``: under a new epoch a broker is fenced, and knows nothing yet."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            broker = self.brokers[broker_id] = Broker(epoch)
            self.known_by_broker.setdefault(broker_id, Rising())
            self._leave(at, broker_id)
        return broker

    def _fence(self, at: int, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        if not broker.fenced:
            broker.fenced, broker.stopping = True, False
            self._leave(at, broker_id)

    def _leave(self, at: int, broker_id: int) -> None:
        """A broker counts no more: what it lacks holds nothing back."""
        for offsets in (self.raw, self.applied, self.known):
            offsets.drop(broker_id)
        self._note(at, broker_id, self.known, self.known_everywhere)
        self._note(at, broker_id, self.applied, self.applied_everywhere)

    def forget(self, before: int) -> None:
        everywhere = (self.applied_everywhere, self.known_everywhere)
        for timeline in (*everywhere, *self.known_by_broker.values()):
            timeline.forget(before)
