"""The state of a replay of lowest_acked_offset, saved between increments of the log."""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from ..log_gaps import ALWAYS_SINCE_US, NO_GAPS, Gaps, LogGap
from ..model import STAMP_US
from ..model.brokers import FENCED_AFTER_US, RESET_OFFSET, BrokerHeartbeatManager, Heartbeat
from ..records import NOT_SWEPT, Variant
from .applying import Broker, Estimate
from .events import (
    ESTIMATED,
    FETCH,
    HEARTBEAT,
    HEARTBEAT_INTERVAL,
    LOWEST_ACKED,
    VOTER_SILENCE_US,
    ClusterEvent,
    LineKey,
    Undecided,
)
from .evidence import Replicas, WrittenTopics
from .simulation import LEARNED_OF, Informed, Recorded, Simulation
from .writes import CommittedOffsets, Forwarding, Offsets, Write

#: lowest_acked_offset.replica_apply_ms unless configured: what it takes to create or delete one
#: replica, measured on brokers of Kafka 4.0 that share a disk.
REPLICA_APPLY_MS = 20
#: How often the replay moves on, in rows of the log: a step looks at every broker, so that smaller
#: ones take longer, and larger ones more memory.
STEP_ROWS = 32_768
#: ``warm_from_us`` where the metadata log began empty: no broker can have been active before.
ALWAYS_WARM_US = 0


class Contact(StrEnum):
    """How far lines show the state of a broker, behind the place where the log begins."""

    #: It may be active or fenced.
    UNHEARD = "unheard"
    #: METADATA has it in an ISR, or it has sent one heartbeat. That may have been the first in its
    #: state, whose record resets the offset that the controller has of it.
    HEARD = "heard"
    #: Its last heartbeat shows whether it counts, and with which offset.
    CERTAIN = "certain"


class Beginning(msgspec.Struct):
    """How it becomes certain which brokers are active, where a log begins in the middle.

    That is once every broker that may be active is ``CERTAIN``, or when the session of those that
    send nothing is over. At the log's start METADATA names the brokers that there were, if a line
    has it; without such a line a broker may be active and silent until the first session timeout is
    over. Behind a gap (``gap_ends_us``) those that were ``active`` before it are awaited, and all
    that send FETCHes.
    """

    contacts: dict[int, Contact] = {}
    warm_from_us: int | None = None
    gap_ends_us: int | None = None
    active: list[int] = []

    @property
    def uncertain(self) -> str:
        """Returns the reason of outcomes until then."""
        return Undecided.NOT_HEARD_YET if self.gap_ends_us is None else Undecided.LOG_GAP

    def add_broker(self, row: ClusterEvent) -> None:
        """Adds a broker of METADATA's; one that is in no ISR may have been fenced."""
        self.contacts[row.broker_id] = Contact.UNHEARD if row.is_fenced else Contact.HEARD

    def fetch(self, broker_id: int) -> None:
        """Adds a broker that sends FETCHes behind a gap, so that its heartbeats are awaited, too.

        Each that is there sends one within ``VOTER_SILENCE_US``.
        """
        if self.gap_ends_us is not None:
            self.contacts.setdefault(broker_id, Contact.UNHEARD)

    def heartbeat(self, at: int, broker_id: int) -> int | None:
        """Counts a heartbeat; returns from when on it is certain, as far as is known by now."""
        is_unheard = self.contacts.get(broker_id, Contact.UNHEARD) is Contact.UNHEARD
        contact = Contact.HEARD if is_unheard else Contact.CERTAIN
        if self.gap_ends_us is not None:
            is_certain = self._are_all_certain and at > self.gap_ends_us + VOTER_SILENCE_US
            self.contacts[broker_id] = contact
            return at if is_certain or at >= self.gap_ends_us + FENCED_AFTER_US else None
        warm_us = at + FENCED_AFTER_US if self.warm_from_us is None else self.warm_from_us
        if self.contacts:
            self.contacts[broker_id] = contact
            if self._are_all_certain:
                warm_us = min(warm_us, at)
        if at >= warm_us:
            self.contacts = {}
        self.warm_from_us = warm_us
        return warm_us

    @property
    def _are_all_certain(self) -> bool:
        return all(contact is Contact.CERTAIN for contact in self.contacts.values())

    def active_brokers(self, active: Iterable[int]) -> int:
        """Counts brokers that are active, or that were when the log, or the gap, began."""
        if self.gap_ends_us is not None:
            return max(len([*active]), len(self.active))
        heard = (b for b, contact in self.contacts.items() if contact is Contact.HEARD)
        return len({*active, *heard})


class Leadership(StrEnum):
    """How sure it is which controller is active (changes: ``ActiveController.follow``)."""

    #: No controller has responded yet.
    UNSEEN = "unseen"
    #: It has responded, and no other one can have become active unseen.
    ACTIVE = "active"
    #: Since its last response another one may have become active in a gap of that one's log.
    SILENT = "silent"


class ActiveController(msgspec.Struct):
    """The active controller: since when, and when it last responded without error."""

    leadership: Leadership = Leadership.UNSEEN
    node_id: int = -1
    since_us: int = ALWAYS_SINCE_US
    last_us: int = ALWAYS_SINCE_US

    def follow(
        self, row: ClusterEvent, at: int, gaps: Gaps, voters: Iterable[int]
    ) -> LogGap | None:
        """Moves on by a line that happened at a time; returns the gap that the replay runs into.

        A gap in its own log is one, and so is a time in which a voter whose log has a gap may have
        been active: before another controller responds, or while all are silent.
        """
        responds = row.kind in (HEARTBEAT, FETCH) and row.error_code == 0
        gap = gaps.last(self.node_id, self.since_us, at)
        if gap is not None:
            gap = gap._replace(after_us=max(gap.after_us, self.last_us))
            self.since_us = gap.before_us
        elif responds and row.node_id != self.node_id:
            # Nobody was active before, if a replica begins with nothing.
            is_unseen = self.leadership is Leadership.UNSEEN
            is_first = is_unseen and row.kind == FETCH and row.offset == 0
            maybe_active = [row.node_id] if is_first else voters
            is_hidden = any(gaps.touch(voter, self.last_us, at) for voter in maybe_active)
            own_gap = gaps.last(row.node_id, self.last_us, at)
            self.node_id, self.since_us = row.node_id, max(at, own_gap.before_us if own_gap else at)
            gap = LogGap(row.node_id, self.last_us, self.since_us) if is_hidden else None
        elif self.leadership is Leadership.ACTIVE:
            heard_us = max(self.last_us, self.since_us)
            is_silent = at > heard_us + VOTER_SILENCE_US
            if is_silent and any(gaps.touch(voter, heard_us, at) for voter in voters):
                self.leadership = Leadership.SILENT
                gap = LogGap(self.node_id, self.last_us, at)
        if responds:
            self.leadership, self.last_us = Leadership.ACTIVE, max(self.last_us, at)
        return gap


class ClusterSettings(NamedTuple):
    """How a cluster is replayed.

    ``voters`` are the ids of all voters, ``intervals_ms`` the heartbeat intervals of the sweep
    (below the session timeout), ``recorded_interval_ms`` the one that the log was made with
    (measured if None). ``gaps`` are those in the nodes' logs.
    """

    voters: Collection[int]
    intervals_ms: Collection[int] = ()
    recorded_interval_ms: int | None = None
    gaps: Gaps = NO_GAPS
    step_rows: int = STEP_ROWS
    replica_apply_ms: int = REPLICA_APPLY_MS


class ClusterState(msgspec.Struct):
    """One cluster between two lines of its log; behind a gap another one begins (``after_gap``)."""

    committed: CommittedOffsets
    recorded: BrokerHeartbeatManager
    estimated: Informed
    heartbeats: Recorded
    #: One for each interval.
    simulations: list[Simulation]
    forwarding: Forwarding = msgspec.field(default_factory=Forwarding)
    #: Lines that wait for their turn, and when the rule has each happen.
    pending: list[tuple[int, ClusterEvent]] = []
    #: The last line of each sender.
    last_lines: dict[LineKey, ClusterEvent] = {}
    #: Brokers and voters, and what they have to do to apply writes.
    brokers: dict[int, Broker] = {}
    replicas: Replicas = msgspec.field(default_factory=Replicas)
    topics: WrittenTopics = msgspec.field(default_factory=WrittenTopics)
    #: The last offset that all brokers that count show, and when the first learned of it.
    shown_everywhere: Estimate = Estimate(-1, 0)
    writes: list[Write] = []
    beginning: Beginning = msgspec.field(default_factory=Beginning)
    active: ActiveController = msgspec.field(default_factory=ActiveController)
    #: By controller (handled, built) of the heartbeat that it had last.
    last_handled: dict[int, tuple[int, int]] = {}
    #: By leader and replica (correlation id, dequeued) of its last FETCH.
    last_dequeued: dict[tuple[int, int], tuple[int, int]] = {}
    fed: int = 0
    front: tuple[int, str, str] = (0, "", "")

    @classmethod
    def new(cls, settings: ClusterSettings) -> "ClusterState":
        interval_ms = settings.recorded_interval_ms
        return cls(
            committed=CommittedOffsets(frozenset(settings.voters)),
            recorded=BrokerHeartbeatManager(),
            estimated=Informed(BrokerHeartbeatManager()),
            heartbeats=Recorded(None if interval_ms is None else interval_ms * 1000),
            simulations=[
                Simulation(
                    ms * 1000, {how: BrokerHeartbeatManager() for how in LEARNED_OF.values()}
                )
                for ms in dict.fromkeys(settings.intervals_ms)
            ],
        )

    def after_gap(self, settings: ClusterSettings, ends_us: int) -> "ClusterState":
        """Begins anew behind a gap in the log of the active controller."""
        new = ClusterState.new(settings)
        new.committed.first_offsets = dict.fromkeys(settings.voters, -1)
        active = sorted({*self.recorded.active.offsets, *self.beginning.active})
        contacts = dict.fromkeys(active, Contact.UNHEARD)
        new.beginning = Beginning(contacts, gap_ends_us=ends_us, active=active)
        new.brokers = {node_id: broker.after_gap() for node_id, broker in self.brokers.items()}
        new.heartbeats = Recorded(self.heartbeats.interval_us, delay=self.heartbeats.delay)
        # This does not rest on that log.
        for name in ("forwarding", "replicas", "pending", "active", "last_lines", "fed", "front"):
            setattr(new, name, getattr(self, name))
        new.replicas.is_partial, new.topics.waiting = True, self.topics.waiting
        return new

    def managers(self) -> Iterator[tuple[Variant, BrokerHeartbeatManager]]:
        """Yields the controller of each variant of a write's outcome."""
        yield Variant(LOWEST_ACKED), self.recorded
        yield Variant(ESTIMATED), self.estimated.manager
        for simulation in self.simulations:
            for name, learned in LEARNED_OF.items():
                variant = Variant(name, HEARTBEAT_INTERVAL, simulation.interval_us // 1000)
                yield variant, simulation.managers[learned]

    def in_order(self, row: ClusterEvent) -> ClusterEvent:
        """Puts a heartbeat behind the one whose response was built before, if both came at once.

        The queue is first in, first out. If two heartbeats were handled less than a stamp apart,
        against the order of their responses, which are further apart, the latter order counts.
        """
        handled, built = self.last_handled.get(row.node_id, (0, 0))
        if 0 <= handled - row.handled_us < min(row.at_us - built, STAMP_US):
            row = row._replace(handled_us=handled + 1)
        if row.error_code == 0 and handled <= row.handled_us:
            self.last_handled[row.node_id] = row.handled_us, row.at_us
        return row

    def in_turn(self, row: ClusterEvent) -> ClusterEvent:
        """Puts a FETCH behind that of its replica with a lower correlation id, if stamps allow."""
        sender = row.node_id, row.broker_id
        last_id, last_us = self.last_dequeued.get(sender, (row.correlation_id, 0))
        is_later = last_id < row.correlation_id
        if is_later and 0 <= last_us - row.dequeued_us < STAMP_US:
            row = row._replace(dequeued_us=last_us + 1)
        self.last_dequeued[sender] = row.correlation_id, row.dequeued_us
        return row

    def broker(self, node_id: int) -> Broker:
        return self.brokers.get(node_id) or self.brokers.setdefault(node_id, Broker())

    def is_combined(self, node_id: int) -> bool:
        """Says whether a voter is a broker too: it sends heartbeats."""
        return node_id in self.recorded.brokers and node_id in self.committed.voters

    def is_broker(self, node_id: int) -> bool:
        return node_id not in self.committed.voters or self.is_combined(node_id)

    @property
    def active_brokers(self) -> int:
        """Counts the brokers that are active, as far as is known by now."""
        active = self.recorded.active.offsets
        return self.beginning.active_brokers(active) if self.replicas.is_partial else len(active)

    def fetch(self, row: ClusterEvent) -> None:
        """Moves the metadata log and its replicas on by a Raft FETCH, in order of dequeue."""
        self.committed.fetch(row)
        is_broker, is_error = self.is_broker(row.broker_id), row.error_code != 0
        if is_broker:
            self.broker(row.broker_id).fetch(row)
        committed = self.committed.high_watermark.values
        if not is_error and committed and self.is_combined(row.node_id):
            self.broker(row.node_id).commit(row.dequeued_us, committed[-1])
        if not is_error and not row.is_diverging:
            self.broker(row.broker_id).evidence.fetch(row)
            if is_broker:
                self.beginning.fetch(row.broker_id)

    def learn(self, row: ClusterEvent) -> None:
        """Notes for the simulations that a replica learned a high watermark."""
        if self.is_broker(row.broker_id):
            self.heartbeats.learn(row)
        if self.is_combined(row.node_id):
            # The leader knew before all replicas, so by the time at which the first of them did.
            self.heartbeats.learn(row._replace(broker_id=row.node_id))

    def write(self, row: ClusterEvent, replica_us: int) -> None:
        """Follows a metadata write from now on; ``replica_us``: what one replica takes."""
        offsets = self.committed.offsets(row) if row.error_code == 0 else Undecided.RESPONSE_MISSING
        if offsets == Undecided.NO_HIGH_WATERMARK and self.beginning.gap_ends_us is not None:
            offsets = Undecided.LOG_GAP
        self.writes.append(Write(row, offsets))
        offset = offsets.high if isinstance(offsets, Offsets) else None
        self.replicas.write(row, offset, replica_us, self.active_brokers)
        self.topics.write(row, -1 if offset is None else offset)

    def warm(self, heartbeat: Heartbeat) -> None:
        """Notes from when on every broker that is active has sent a heartbeat, or was fenced."""
        at, is_behind_gap = heartbeat.handled_us, self.beginning.gap_ends_us is not None
        is_always_warm = self.recorded.warm_from_us == ALWAYS_WARM_US
        if is_always_warm or (is_behind_gap and self.recorded.is_warm(at)):
            return
        warm_us = self.beginning.heartbeat(at, heartbeat.broker_id)
        if warm_us is None:
            return
        is_partial = at >= warm_us or not self.committed.began_empty
        if not is_partial:
            warm_us = ALWAYS_WARM_US
        self.replicas.is_partial = is_partial
        for variant, manager in self.managers():
            manager.floor = self.committed.last_offset_before if is_partial else RESET_OFFSET
            # Simulated heartbeats follow from all those before them: behind a gap none is known.
            if not is_behind_gap or variant.parameter_value == NOT_SWEPT:
                manager.warm_from_us = warm_us

    def unlearned(self, write: Write, variant: Variant) -> str | None:
        """Returns why it is not known when brokers learned of a write under a variant, if so."""
        offsets = write.offsets
        if not isinstance(offsets, Offsets):
            return None
        if variant.name == ESTIMATED:
            return self.unestimated(offsets.high, write.until_us)
        is_simulated = variant.parameter == HEARTBEAT_INTERVAL
        learned, brokers = LEARNED_OF[variant.name], self.heartbeats.brokers.values()
        is_learned = any(learned in broker.due for broker in brokers)
        return Undecided.NOT_LEARNED if is_simulated and not is_learned else None

    def unestimated(self, offset: int, until_us: int) -> str | None:
        """Returns why the time at which all showed an offset is no estimate; None: it is one.

        Without an estimate of the last broker, that time is only when its heartbeat arrived.
        """
        # Without such an estimate it is not known when all brokers had applied it.
        hiding = (Undecided.LOG_GAP, Undecided.UNKNOWN_WORK)
        for broker in self.brokers.values():
            estimate = broker.estimate_of(offset, None)
            if estimate is not None and estimate.shown_us is None and estimate.reason in hiding:
                return estimate.reason
        reached = self.estimated.manager.applied.everywhere.reached(offset)
        if reached is None or reached[0] > until_us:
            return None
        at, last = reached[0], self.broker(reached[1])
        reported = last.evidence.bounds[HEARTBEAT].applied.reached(offset)
        if reported is None or reported[0] > at:
            return None
        estimate = last.estimate_of(offset, reported[0])
        is_shown = estimate is not None and estimate.shown_us is not None
        return None if is_shown else Undecided.NOT_CARRIED

    def hide_writes(self, gap_begins_us: int) -> None:
        """Hides offsets of writes just before a gap: FETCHes that bound them may be in it."""
        since = gap_begins_us - VOTER_SILENCE_US
        for place, write in enumerate(self.writes):
            if write.row.at_us > since and write.offsets != Undecided.RESPONSE_MISSING:
                self.writes[place] = write._replace(offsets=Undecided.LOG_GAP)
