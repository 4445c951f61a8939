"""BrokerHeartbeatManager: brokers as the controllers of a cluster see them, one after the other.

In the order of Kafka's ``BrokerHeartbeatTracker``, ``ClusterControlManager`` and
``BrokerHeartbeatManager``, as far as requests show what these do; then the draft KIP of the lowest
acknowledged offset, section by section, with its sentences in quotes. Last, what one node knows of
this (``BrokerStates``). Times are given, in microseconds.

No line says when a silent broker is fenced. Every eighth of ``broker.session.timeout.ms`` the
controller looks for brokers of which it has heard nothing for that long, so it fences them after 9
to 10.125 s; here it does so after 10.125 s. In the time between, a response that depends on such a
broker is not certain: if the broker comes back, it may have been fenced. Then its offset was reset
until its next heartbeat, and others may have been sent a higher lowest offset meanwhile.

A controller that fences a broker or lets it stop takes it out of every ISR by itself: a broker that
wants to shut down after its first such heartbeat, one that falls silent in the scan that fences it
(``ReplicationControlManager.maybeFenceOneStaleBroker``). A leader acts on it when it has *applied*
the metadata records, with a high watermark above them. Its FETCHes of the metadata log show it:

* what they brought: the append in the window of a scan that holds a record for the broker and one
  for each of its partitions is the fencing;
* which high watermark they carried, and that the node sent its next FETCH: it has the response.

Where it can fail: two large appends in the window of one scan (the first is taken; where the second
comes, what waited since the first is unknown), a session timeout that is not Kafka's default, no
controller's log (then a change counts from when the controller responded, and a fencing is not
seen at all).
"""

from collections.abc import Callable, Iterator
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
#: A node has the records of that after this at the latest: timers, fsync, Raft.
FENCING_KNOWN_AFTER_US = FENCED_AFTER_US + 600_000
#: The metadata offset of a broker from which nothing came since it was reset.
RESET_OFFSET = -1
#: Two derived times of one moment differ by up to this: stamps and threads.
COMMIT_SLACK_US = 5_000
#: Records of the smallest append that fences: the broker's and one partition's.
FENCING_RECORDS_MIN = 2
#: How long high watermarks are remembered: changes are committed within a scan's window, 2 s.
COMMITS_KEPT_US = 30_000_000


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
        """Brings the controllers to a time at which this one leads; fences who was silent."""
        if controller_id != self.controller_id:
            self._activate(at, controller_id)
            return
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


class BrokerChange(msgspec.Struct):
    """A broker's state, and its epoch, as a controller decided on it.

    Either the response to a heartbeat, built at ``after_us``, states it: it was committed by then.
    Or it is a *fencing*, by a scan between ``after_us`` and ``until_us`` of which only the append
    of its records shows; ``offset`` is the end of that, None until found, and ``built_us`` when the
    response was built with which a node has it.
    """

    broker_id: int
    epoch: int
    state: BrokerControlState
    after_us: int = 0
    until_us: int = -1
    offset: int | None = None
    built_us: int = 0

    @property
    def is_fencing(self) -> bool:
        return self.until_us >= 0

    @property
    def is_awaited(self) -> bool:
        """Tells whether it is a fencing whose append has not come yet."""
        return self.is_fencing and self.offset is None


class Applied(NamedTuple):
    """A broker's state, and since when a node knows it.

    None: what was taken for its fencing since then may have been something else.
    """

    at_us: int
    broker_id: int
    state: BrokerControlState | None


class MetadataFetch(NamedTuple):
    """A node's FETCH of the metadata log, which it has up to ``offset``, and its response: when it
    was built (0: it is not in the log), with which high watermark.
    """

    at_us: int
    offset: int
    built_us: int
    high_watermark: int


class BrokerStates(msgspec.Struct):
    """Brokers' states as one node knows them, which is fed in order of time.

    ``applied`` has the last change of each broker that the node has applied; ``decided`` the last
    that the controller made; ``pending`` what is between the two. ``fetch``: the node's last FETCH,
    whose response it may not have yet; ``response``: that before; ``committed``: high watermarks of
    all, since they were built. ``fencings``: those applied whose window is not over.
    """

    applied: dict[int, BrokerChange] = {}
    decided: dict[int, BrokerChange] = {}
    pending: list[BrokerChange] = []
    fetch: MetadataFetch | None = None
    response: MetadataFetch | None = None
    committed: Rising = msgspec.field(default_factory=Rising)
    fencings: list[BrokerChange] = []

    @property
    def inactive(self) -> frozenset[int]:
        """Returns the brokers that the controller makes no leaders: it fenced or stops them."""
        unfenced, decided = BrokerControlState.UNFENCED, self.decided.items()
        return frozenset(broker_id for broker_id, last in decided if last.state is not unfenced)

    def may_join(self, broker_id: int, epoch: int | None) -> bool:
        """Tells whether the controller would let a broker into an ISR (``isReplicaIsrEligible``).

        It must be unfenced and not stopping, and fetch with its current epoch. A broker without a
        heartbeat in the log counts as unfenced, because it fetches.
        """
        last = self.applied.get(broker_id)
        if last is None:
            return True
        return last.state is BrokerControlState.UNFENCED and epoch in (None, last.epoch)

    def heartbeat(self, stated: BrokerChange, silent_us: int | None) -> list[Applied]:
        """Notes what a heartbeat's response states, and the fencing that a silence leads to.

        ``silent_us``: when the controller heard of the broker, if it did not for long after that.
        """
        broker_id, epoch = stated.broker_id, stated.epoch
        before = self.decided.get(broker_id)
        is_known = before is not None and (before.state, before.epoch) == (stated.state, epoch)
        if not is_known or any(p.broker_id == broker_id and p.is_fencing for p in self.pending):
            self.decided[broker_id] = stated
            self.pending.append(stated)
        if silent_us is not None and stated.state is BrokerControlState.UNFENCED:
            window = silent_us + SESSION_TIMEOUT_US, silent_us + FENCING_KNOWN_AFTER_US
            fencing = BrokerChange(broker_id, epoch, BrokerControlState.FENCED, *window)
            self.pending.append(fencing)
        if self.fetch:
            return []
        # No responses with the metadata log are known: a change counts from its response on.
        changes = [change for change in self.pending if not change.is_fencing]
        self.pending = [change for change in self.pending if change.is_fencing]
        return [self._take(change, change.after_us) for change in changes]

    def miss(self, broker_id: int) -> None:
        """Supposes that a broker was fenced that is absent while lines are missing.

        So it may not join ISRs until a heartbeat comes. If it was not fenced it still is in its
        ISRs: its leaders take it out only if it was not caught up for long.
        """
        self.applied[broker_id] = BrokerChange(broker_id, -1, BrokerControlState.FENCED)
        self.decided.pop(broker_id, None)

    def metadata_fetch(
        self, fetch: MetadataFetch, partitions_with: Callable[[int], int]
    ) -> list[Applied]:
        """Notes that the node fetches the metadata log again: it has the previous response.

        Returns the changes that it applies with it, and forgets fencings that did not come.
        ``partitions_with(broker)`` counts partitions with the broker in their ISR.
        """
        response, self.fetch = self.fetch, fetch
        if response is None or not response.built_us or fetch.offset < 0:
            return []
        built_us, records = response.built_us, fetch.offset - response.offset
        before_us = self.response.built_us if self.response else 0
        self.response = response
        self.committed.add(built_us, response.high_watermark)
        self.committed.forget(built_us - COMMITS_KEPT_US)

        def may_fence(change: BrokerChange) -> bool:
            return records >= max(FENCING_RECORDS_MIN, 1 + partitions_with(change.broker_id))

        # A second append as large within the window may have been the fencing, too.
        self.fencings = [change for change in self.fencings if built_us <= change.until_us]
        second = [change for change in self.fencings if may_fence(change)]
        applied = [Applied(change.built_us, change.broker_id, None) for change in second]
        pending: list[BrokerChange] = []
        for change in self.pending:
            in_window = built_us <= change.until_us
            # A node that slept through the window learns of all at once.
            is_open = in_window or before_us < change.after_us
            if change.is_awaited and change.after_us <= built_us and is_open and may_fence(change):
                change.offset, self.decided[change.broker_id] = fetch.offset, change
            if change.offset is not None:
                is_due = response.high_watermark >= change.offset
            else:
                is_due = not change.is_fencing and self.committed_after(change.after_us)
            if is_due:
                applied.append(self._take(change, fetch.at_us))
                change.built_us = built_us
                self.fencings += [change] if in_window else []
            elif in_window or not change.is_awaited:
                pending.append(change)
        self.pending = pending
        return applied

    def committed_after(self, after_us: int) -> bool:
        """Tells whether the node has a response with a commit after a time (controller's clock)."""
        if self.response is None:
            return self.fetch is None
        since_us = after_us - COMMIT_SLACK_US
        before = self.committed.value(since_us - 1)
        is_news = self.response.high_watermark > (-1 if before is None else before)
        return is_news and self.response.built_us >= since_us

    def _take(self, change: BrokerChange, at_us: int) -> Applied:
        self.applied[change.broker_id] = change
        return Applied(at_us, change.broker_id, change.state)
