"""The state of a replay of lowest_acked_offset, saved between increments of the log."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from ..log_gaps import NO_GAPS, Gaps
from ..model import STAMP_US
from ..model.brokers import RESET_OFFSET, BrokerHeartbeatManager, Heartbeat
from ..records import NOT_SWEPT, Variant
from .applying import Broker, Estimate
from .events import HEARTBEAT, REPLICA_APPLY_MS, STEP_ROWS, VOTER_SILENCE_US, ClusterEvent
from .evidence import Replicas, WrittenTopics
from .gaps import ActiveController, BehindGap, Contact, LogStart
from .simulation import LEARNED_OF, Informed, Recorded, Simulation
from .tables import (
    ESTIMATED,
    HEARTBEAT_INTERVAL,
    LOG_GAP,
    LOWEST_ACKED,
    NO_HIGH_WATERMARK,
    NOT_CARRIED,
    NOT_LEARNED,
    RESPONSE_MISSING,
    UNKNOWN_WORK,
)
from .writes import CommittedOffsets, Forwarding, Offsets, Write

#: ``warm_from_us`` where the metadata log began empty: no broker can have been active before.
ALWAYS_WARM_US = 0


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
    last_lines: dict[tuple[str, int, int], ClusterEvent] = {}
    #: Brokers and voters, and what they have to do to apply writes.
    brokers: dict[int, Broker] = {}
    replicas: Replicas = msgspec.field(default_factory=Replicas)
    topics: WrittenTopics = msgspec.field(default_factory=WrittenTopics)
    #: The last offset that all brokers that count show, and when the first learned of it.
    shown_everywhere: Estimate = Estimate(-1, 0)
    writes: list[Write] = []
    warm_up: LogStart | BehindGap = msgspec.field(default_factory=LogStart)
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
        before = self.warm_up.active if isinstance(self.warm_up, BehindGap) else ()
        active = sorted({*self.recorded.active.offsets, *before})
        contacts = dict.fromkeys(active, Contact.UNHEARD)
        new.warm_up = BehindGap(contacts=contacts, ends_us=ends_us, active=active)
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
        return self.warm_up.active_brokers(active) if self.replicas.is_partial else len(active)

    @property
    def is_behind_gap(self) -> bool:
        return isinstance(self.warm_up, BehindGap)

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
            if is_broker and isinstance(self.warm_up, BehindGap):
                self.warm_up.fetch(row.broker_id)

    def learn(self, row: ClusterEvent) -> None:
        """Notes for the simulations that a replica learned a high watermark."""
        if self.is_broker(row.broker_id):
            self.heartbeats.learn(row)
        if self.is_combined(row.node_id):
            # The leader knew before all replicas, so by the time at which the first of them did.
            self.heartbeats.learn(row._replace(broker_id=row.node_id))

    def write(self, row: ClusterEvent, replica_us: int) -> None:
        """Follows a metadata write from now on; ``replica_us``: what one replica takes."""
        offsets = self.committed.offsets(row) if row.error_code == 0 else RESPONSE_MISSING
        if offsets == NO_HIGH_WATERMARK and self.is_behind_gap:
            offsets = LOG_GAP
        self.writes.append(Write(row, offsets))
        offset = offsets.high if isinstance(offsets, Offsets) else None
        self.replicas.write(row, offset, replica_us, self.active_brokers)
        self.topics.write(row, -1 if offset is None else offset)

    def warm(self, heartbeat: Heartbeat) -> None:
        """Notes from when on every broker that is active has sent a heartbeat, or was fenced."""
        at, is_behind_gap = heartbeat.handled_us, self.is_behind_gap
        is_always_warm = self.recorded.warm_from_us == ALWAYS_WARM_US
        if is_always_warm or (is_behind_gap and self.recorded.is_warm(at)):
            return
        warm_us = self.warm_up.heartbeat(at, heartbeat.broker_id)
        if warm_us is None:
            return
        is_partial = is_behind_gap or at >= warm_us or not self.committed.began_empty
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
        return NOT_LEARNED if is_simulated and not any(learned in b.due for b in brokers) else None

    def unestimated(self, offset: int, until_us: int) -> str | None:
        """Returns why the time at which all showed an offset is no estimate; None: it is one.

        Without an estimate of the last broker, that time is only when its heartbeat arrived.
        """
        # Without such an estimate it is not known when all brokers had applied it.
        hiding = (LOG_GAP, UNKNOWN_WORK)
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
        return None if estimate is not None and estimate.shown_us is not None else NOT_CARRIED

    def hide_writes(self, gap_begins_us: int) -> None:
        """Hides offsets of writes just before a gap: FETCHes that bound them may be in it."""
        since = gap_begins_us - VOTER_SILENCE_US
        for place, write in enumerate(self.writes):
            if write.row.at_us > since and write.offsets != RESPONSE_MISSING:
                self.writes[place] = write._replace(offsets=LOG_GAP)
