"""BrokerHeartbeatManager: brokers as the controllers of a cluster see them, one after the other.

In the order of Kafka's ``BrokerHeartbeatTracker``, ``ClusterControlManager`` and
``BrokerHeartbeatManager``, as far as requests show what these do; then the draft KIP of the lowest
acknowledged offset, section by section, with its sentences in quotes. Times are given, in
microseconds.

No line says when a silent broker is fenced. Every eighth of ``broker.session.timeout.ms`` the
controller looks for brokers of which it has heard nothing for that long, so it fences them after 9
to 10.125 s; here it does so after 10.125 s. In the time between, a response that depends on such a
broker is not certain: if the broker comes back, it may have been fenced. Then its offset was reset
until its next heartbeat, and others may have been sent a higher lowest offset meanwhile.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import takewhile
from typing import NamedTuple

import msgspec

from ..simulation import EventQueue, Rising

#: broker.session.timeout.ms, Kafka's default.
SESSION_TIMEOUT_US = 9_000_000
#: How often the controller looks for silent brokers (``maybeFenceStaleBroker``).
SCAN_INTERVAL_US = SESSION_TIMEOUT_US // 8
#: A silent broker is fenced after this at the latest.
FENCED_AFTER_US = SESSION_TIMEOUT_US + SCAN_INTERVAL_US
#: The metadata offset of a broker from which nothing came since it was reset.
RESET_OFFSET = -1


class BrokerControlState(StrEnum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    SHUTDOWN_NOW = "shutdown_now"

    @property
    def is_fenced(self) -> bool:
        """A broker that may shut down now is fenced by the same record."""
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


def next_state(*, want_shut_down: bool, is_fenced: bool) -> BrokerControlState:
    """Returns what a heartbeat makes of its broker (``calculateNextBrokerState``).

    No request shows which partitions the broker leads, but the response has ``is_fenced``.
    """
    if want_shut_down:
        shut_down = BrokerControlState.SHUTDOWN_NOW
        return shut_down if is_fenced else BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.FENCED if is_fenced else BrokerControlState.UNFENCED


class Heartbeat(NamedTuple):
    """A BROKER_HEARTBEAT without error: taken up at ``handled_us``, its response at ``built_us``.

    ``offset`` is currentMetadataOffset, ``is_fenced`` the response's.
    """

    controller_id: int
    broker_id: int
    broker_epoch: int
    handled_us: int
    built_us: int
    offset: int
    is_fenced: bool
    want_shut_down: bool


class BrokerHeartbeatTracker(msgspec.Struct):
    """When each broker last sent a heartbeat, in that order."""

    contact_us: dict[int, int] = {}

    def touch(self, at: int, broker_id: int) -> None:
        self.contact_us.pop(broker_id, None)
        self.contact_us[broker_id] = at

    def remove_expired(self, until: int) -> tuple[int, int] | None:
        """Ends the first session, if it is over by a time (``maybeRemoveExpired``): when, whose."""
        for broker_id, contact_us in self.contact_us.items():
            if contact_us + FENCED_AFTER_US > until:
                return None
            del self.contact_us[broker_id]
            return contact_us + FENCED_AFTER_US, broker_id
        return None

    def is_any_silent(self, at: int) -> bool:
        """Says whether a scan at this time would fence a broker."""
        return next(iter(self.contact_us.values()), at) + SESSION_TIMEOUT_US <= at

    def may_be_expired(self, at: int) -> Iterator[int]:
        """Returns the brokers that a scan at this time would fence."""
        return takewhile(lambda b: self.contact_us[b] + SESSION_TIMEOUT_US <= at, self.contact_us)


class ActiveBrokers(msgspec.Struct):
    """The active brokers (``active``), each with an offset, and how many brokers have each offset:
    so the lowest one is at hand. ``everywhere``: the highest that was certainly the lowest, over
    time, and the broker that made it rise.
    """

    offsets: dict[int, int] = {}
    counts: dict[int, int] = {}
    lowest: int | None = None
    everywhere: Rising = msgspec.field(default_factory=Rising)

    def add(self, broker_id: int, offset: int) -> None:
        before = self.offsets.get(broker_id)
        if before != offset:
            self.offsets[broker_id] = offset
            self.counts[offset] = self.counts.get(offset, 0) + 1
            if self.lowest is None or offset < self.lowest:
                self.lowest = offset
            if before is not None:
                self._uncount(before)

    def remove(self, broker_id: int) -> None:
        offset = self.offsets.pop(broker_id, None)
        if offset is not None:
            self._uncount(offset)

    def _uncount(self, offset: int) -> None:
        self.counts[offset] -= 1
        if not self.counts[offset]:
            del self.counts[offset]
            if offset == self.lowest:
                self.lowest = min(self.counts, default=None)


class BrokerHeartbeatState(msgspec.Struct):
    """A broker; ``acknowledged``: the draft's offset as it has received it since it started."""

    epoch: int
    state: BrokerControlState = BrokerControlState.FENCED
    acknowledged: int = RESET_OFFSET


class LowestAcknowledged(NamedTuple):
    """The offset that a response carries, and ``raw`` as computed; None if no broker is active.

    As computed it may fall. The draft does not say so, but a broker relies on what it has received
    ("Synchrony": a guarantee), so ``offset`` is the highest so far. ``is_certain`` is False where
    it depends on brokers that were silent.
    """

    raw: int | None
    offset: int | None
    active_brokers: int
    is_certain: bool = True


class BrokerHeartbeatManager(msgspec.Struct):
    """The brokers of a cluster; each active one has three offsets.

    ``active``: what it reported, as in Kafka: -1 for all after a failover, and after a
    registration-change record (it unfences, begins to shut down; other causes no request shows),
    until its next heartbeat. ``applied``: what it has surely applied, without those resets.
    ``acknowledged``: what it has received (``acknowledged_by`` broker, when).
    """

    #: Until then (None: not known yet) a broker may be active in no line: nothing is certain.
    warm_from_us: int | None = None
    #: The offset may have been as high as this before the log.
    floor: int = RESET_OFFSET
    tracker: BrokerHeartbeatTracker = msgspec.field(default_factory=BrokerHeartbeatTracker)
    controller_id: int | None = None
    brokers: dict[int, BrokerHeartbeatState] = {}
    active: ActiveBrokers = msgspec.field(default_factory=ActiveBrokers)
    applied: ActiveBrokers = msgspec.field(default_factory=ActiveBrokers)
    acknowledged: ActiveBrokers = msgspec.field(default_factory=ActiveBrokers)
    has_applied: dict[int, int] = {}
    lowest: int | None = None
    #: Brokers that were silent, and may have been fenced before their last heartbeat.
    returned: set[int] = set()
    #: Brokers that were silent when another controller took over: the one before it may have fenced
    #: them.
    maybe_fenced: set[int] = set()
    #: What a response may have carried at most while it was not certain.
    at_most: int = RESET_OFFSET
    acknowledged_by: dict[int, Rising] = {}
    #: Responses on their way: (built, broker, (its epoch, offset)).
    responses: EventQueue[tuple[int, int]] = msgspec.field(default_factory=EventQueue)

    # --- ClusterControlManager -------------------------------------------------------------------

    def _activate(self, at: int, controller_id: int) -> None:
        """Lets another controller lead: it knows who is unfenced, all sessions begin anew."""
        self.advance(at)
        self.controller_id = controller_id
        for broker_id in list(self.active.offsets):
            self.active.add(broker_id, RESET_OFFSET)
        self.returned.clear()  # the same of all
        self.maybe_fenced.update(self.tracker.may_be_expired(at))
        for broker_id, broker in self.brokers.items():
            if not broker.state.is_fenced:
                self.tracker.touch(at, broker_id)

    def register(self, at: int, broker_id: int, epoch: int) -> BrokerHeartbeatState:
        """Registers a broker under a new epoch, fenced."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            broker = self.brokers[broker_id] = BrokerHeartbeatState(epoch)
            self.acknowledged_by.setdefault(broker_id, Rising())
            self._deactivate(at, broker_id)
        return broker

    # --- BrokerHeartbeatManager ------------------------------------------------------------------

    def heartbeat(self, heartbeat: Heartbeat) -> LowestAcknowledged | None:
        """Handles a heartbeat; returns None while it is not certain what its response carries."""
        controller_id, broker_id, epoch, at, built_us, offset, is_fenced, stops = heartbeat
        self._advance_to(at, controller_id)
        broker = self.register(at, broker_id, epoch)
        before, was_silent = broker.state, broker_id in self._may_be_fenced(at)
        self.tracker.touch(at, broker_id)
        self.returned.discard(broker_id)
        self.maybe_fenced.discard(broker_id)
        has_applied = self.has_applied.get(broker_id, RESET_OFFSET)
        if offset > has_applied:
            self.has_applied[broker_id] = has_applied = offset
        if is_fenced or stops or before is not BrokerControlState.UNFENCED:
            broker.state = next_state(want_shut_down=stops, is_fenced=is_fenced)
        is_changed = broker.state is not before
        is_active = broker.state is BrokerControlState.UNFENCED
        # A broker that begins to stop is active until this response is computed: only the records
        # that follow set its controlledShutdownOffset.
        begins_to_stop = is_changed and broker.state is BrokerControlState.CONTROLLED_SHUTDOWN
        if is_active or begins_to_stop:
            self.active.add(broker_id, offset)
            self.applied.add(broker_id, has_applied)
            self.acknowledged.add(broker_id, broker.acknowledged)
            self._note(at, broker_id, self.applied)
        else:
            self._deactivate(at, broker_id)
        response = self._lowest_acknowledged_offset(at)
        if was_silent and before is broker.state is BrokerControlState.UNFENCED:
            self.returned.add(broker_id)
        if response and response.offset is not None and response.offset > broker.acknowledged:
            # "As part of the heartbeat response" (Proposed Changes).
            self.responses.push(built_us, broker_id, (epoch, response.offset))
        if not is_active:
            self._deactivate(at, broker_id)
        elif is_changed:
            # Its registration-change record is replayed after the response was computed.
            self.active.add(broker_id, RESET_OFFSET)
        return response

    def _advance_to(self, at: int, controller_id: int) -> None:
        """Brings the controllers to a time at which this one leads."""
        if controller_id != self.controller_id:
            self._activate(at, controller_id)
        elif self.tracker.is_any_silent(at):
            self._fence_stale(at)
        else:
            self.advance(at)

    def _fence_stale(self, at: int) -> None:
        while (expired := self.tracker.remove_expired(at)) is not None:
            end_us, broker_id = expired
            # At the same time a session ends before a response arrives.
            self.advance(end_us - 1)
            if not self.brokers[broker_id].state.is_fenced:
                self.brokers[broker_id].state = BrokerControlState.FENCED
                self._deactivate(end_us, broker_id)
        self.advance(at)

    def _may_be_fenced(self, at: int) -> set[int]:
        return {*self.tracker.may_be_expired(at), *self.maybe_fenced}

    def _deactivate(self, at: int, broker_id: int) -> None:
        """Removes a broker that is fenced or stops: what it lacks holds nothing back."""
        self.returned.discard(broker_id)
        self.maybe_fenced.discard(broker_id)
        for offsets in (self.active, self.applied, self.acknowledged):
            offsets.remove(broker_id)
        self._note(at, broker_id, self.acknowledged)
        self._note(at, broker_id, self.applied)

    # --- The draft: Public Interfaces ------------------------------------------------------------

    def _lowest_acknowledged_offset(self, at: int) -> LowestAcknowledged | None:
        """ "The lowest metadata offset which has been acknowledged by all unfenced brokers"."""
        raw = self.active.lowest
        if not self.is_warm(at) or (raw is not None and self.lowest is None and raw < self.floor):
            return None
        if raw is None:
            return LowestAcknowledged(None, None, 0)
        before = RESET_OFFSET if self.lowest is None else self.lowest
        self.lowest = max(raw, before)
        is_certain, highest = not self.returned, raw
        if silent := self._may_be_fenced(at):
            # If these are fenced already, the offset is the lowest of the others.
            heard = {offset for b, offset in self.active.offsets.items() if b not in silent}
            is_certain &= raw in heard
            highest = max(raw, min(heard, default=RESET_OFFSET))
        # No response carries less than one before: all are uncertain behind one that may have
        # carried ``at_most``, until ``raw`` is as high.
        if not is_certain:
            if highest > before:
                self.at_most = max(self.at_most, highest)
        elif is_certain := raw >= self.at_most:
            self.at_most = RESET_OFFSET
        return LowestAcknowledged(raw, self.lowest, len(self.active.offsets), is_certain)

    def is_warm(self, at: int) -> bool:
        return self.warm_from_us is not None and at >= self.warm_from_us

    # --- Read-after-write visibility -------------------------------------------------------------

    def apply(self, at: int, broker_id: int, offset: int) -> None:
        """ "How caught up every other broker is": one has surely applied an offset."""
        self.advance(at)
        if offset > self.has_applied.get(broker_id, RESET_OFFSET):
            self.has_applied[broker_id] = offset
            if broker_id in self.applied.offsets:
                self.applied.add(broker_id, offset)
                self._note(at, broker_id, self.applied)

    # --- ApiVersions, Synchrony ------------------------------------------------------------------

    def advance(self, until: int) -> None:
        """ "There is some asynchrony": responses arrive, also of a controller that leads no more.

        "A broker can wait to see a particular lowest acknowledged offset": it sees this.
        """
        for at, broker_id, (epoch, offset) in self.responses.until(until):
            self.acknowledged_by[broker_id].add(at, offset)
            broker = self.brokers[broker_id]
            # A response to its former process is lost with that.
            if broker.epoch == epoch and offset > broker.acknowledged:
                broker.acknowledged = offset
                if broker_id in self.acknowledged.offsets:
                    self.acknowledged.add(broker_id, offset)
                    self._note(at, broker_id, self.acknowledged)

    def _note(self, at: int, broker_id: int, brokers: ActiveBrokers) -> None:
        """The "guarantee that all other brokers are at least at a particular point"."""
        lowest, known = brokers.lowest, brokers.everywhere.values
        if lowest is None or lowest <= (known[-1] if known else RESET_OFFSET):
            return
        if self.is_warm(at):
            brokers.everywhere.add(at, lowest, broker_id)
