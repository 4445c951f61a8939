"""What a replay of lowest_acked_offset carries from one increment of the log to the next."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ..hwm_parking import WITH_KIP, WITHOUT_KIP
from ..model.brokers import FENCED_AFTER_US, RESET_OFFSET, BrokerHeartbeatManager
from ..outcomes import NOT_SWEPT, RECORDED, Variant
from .applying import REPLICA_APPLY_MS, Applying, Estimate
from .cadence import Recorded
from .events import STAMP_SLACK_US, Event
from .evidence import HEARTBEAT, BrokerEvidence, Replicas
from .holes import SETTLING_HEARTBEATS, Active, Settling
from .outcomes import ESTIMATED, FINEST_EVIDENCE, HEARTBEAT_INTERVAL, LOWEST_ACKED, Write
from .reasons import LOG_GAP, NO_RESPONSE, NOT_ANSWERED, NOT_HEARD_YET, NOT_LEARNED, UNKNOWN_WORK
from .simulation import Claimed, Simulation
from .writes import VOTER_SILENCE_US, CommittedOffsets, Forwarding, Offsets

#: By variant, whose learned times it simulates (``variant`` of high_watermark_lag).
LEARNED_OF = {LOWEST_ACKED: RECORDED, WITHOUT_KIP: WITHOUT_KIP, WITH_KIP: WITH_KIP}

#: How often the replay moves on, in rows of the log.
STEP_ROWS = 32_768
#: Reasons of estimates without which it is not known when all brokers had applied a write.
HIDING = (LOG_GAP, UNKNOWN_WORK)


class Settings(NamedTuple):
    voters: tuple[int, ...]
    intervals_ms: tuple[int, ...]
    recorded_interval_ms: int | None
    counts_stopping: bool
    step_rows: int = STEP_ROWS
    replica_apply_ms: int = REPLICA_APPLY_MS


class State(msgspec.Struct):
    committed: CommittedOffsets
    recorded: BrokerHeartbeatManager
    finest: Claimed
    estimated: Claimed
    beats: Recorded
    #: One for each interval.
    simulations: list[Simulation]
    forwarding: Forwarding = msgspec.field(default_factory=Forwarding)
    evidence: dict[int, BrokerEvidence] = {}
    #: Lines that wait for their turn, and when the rule has each happen: in that order, and those
    #: that came since it was last made.
    pending: list[tuple[int, Event]] = []
    fresh: list[tuple[int, Event]] = []
    #: The last line of each sender.
    last_lines: dict[tuple[str, int, int], Event] = {}
    #: By broker what it applies when, and what they have to do for it.
    applying: dict[int, Applying] = {}
    replicas: Replicas = msgspec.field(default_factory=Replicas)
    #: The last offset that all brokers that count show, and when the first learned of it.
    shown_everywhere: Estimate = Estimate(-1, 0)
    writes: list[Write] = []
    #: Variants of which the log has when brokers learned.
    learned: set[str] = set()
    first_heartbeat_us: int | None = None
    #: Heartbeats that are still needed of each broker that may have counted when the log began.
    unheard: dict[int, int] | None = None
    active: Active = msgspec.field(default_factory=Active)
    #: By controller (handled, built) of the heartbeat that it had last.
    last_handled: dict[int, tuple[int, int]] = {}
    #: Behind a hole.
    settling: Settling | None = None
    fed: int = 0
    front: tuple[int, str, str] = (0, "", "")

    def managers(self, settings: Settings) -> Iterator[tuple[Variant, BrokerHeartbeatManager]]:
        yield Variant(LOWEST_ACKED), self.recorded
        yield Variant(FINEST_EVIDENCE), self.finest.manager
        yield Variant(ESTIMATED), self.estimated.manager
        for interval_ms, simulation in zip(settings.intervals_ms, self.simulations, strict=True):
            for name, learned in LEARNED_OF.items():
                variant = Variant(name, HEARTBEAT_INTERVAL, interval_ms)
                yield variant, simulation.managers[learned]

    def in_order(self, row: Event) -> Event:
        """A heartbeat behind the one whose response was built before, if both came at one time.

        The queue is first in, first out. Of two orders that disagree by no more than stamps leave
        open, that of the times further apart is the likelier one.
        """
        handled, built = self.last_handled.get(row.node_id, (0, 0))
        if 0 <= handled - row.handled_us < min(row.at_us - built, STAMP_SLACK_US):
            row = row._replace(handled_us=handled + 1)
        if row.error_code == 0 and handled <= row.handled_us:
            self.last_handled[row.node_id] = row.handled_us, row.at_us
        return row

    def evidence_of(self, broker_id: int) -> BrokerEvidence:
        known = self.evidence.get(broker_id)
        return known or self.evidence.setdefault(broker_id, BrokerEvidence(broker_id))

    def applying_of(self, broker_id: int) -> Applying:
        return self.applying.get(broker_id) or self.applying.setdefault(broker_id, Applying())

    def is_combined(self, node_id: int) -> bool:
        """A voter is a broker too if it sends heartbeats."""
        return node_id in self.recorded.brokers and node_id in self.committed.voters

    def is_broker(self, node_id: int) -> bool:
        return node_id not in self.committed.voters or self.is_combined(node_id)

    @property
    def brokers(self) -> int:
        """How many count, for all that is known."""
        unheard = self.unheard if self.unheard and self.replicas.is_partial else {}
        running = {
            *self.recorded.active.offsets,
            *(b for b, needed in unheard.items() if needed == 1),
        }
        expected = () if self.settling is None else self.settling.expected
        return max(len(running), len(expected))

    @property
    def uncertain(self) -> str:
        return NOT_HEARD_YET if self.settling is None else LOG_GAP

    def hold(self, row: Event) -> None:
        """Takes what held when the log began: brokers, and replicas of topics."""
        if row.broker_id < 0:
            self.replicas.hold(row)
            return
        # A heartbeat may be the first in its state of a broker that was fenced.
        needed = SETTLING_HEARTBEATS if row.is_fenced else 1
        self.unheard = {**(self.unheard or {}), row.broker_id: needed}

    def be_certain(self, at: int, broker_id: int, settings: Settings) -> None:
        """From when on every broker that counts has sent a heartbeat, or was fenced."""
        if self.settling is not None:
            self._be_certain_again(at, self.settling, settings)
            self.settling.heartbeat(broker_id)
            return
        if self.recorded.warm_from_us == 0:
            return
        if self.first_heartbeat_us is None:
            self.first_heartbeat_us = at
        certain = self.first_heartbeat_us + FENCED_AFTER_US
        if self.unheard is not None:
            self.unheard[broker_id] = self.unheard.get(broker_id, SETTLING_HEARTBEATS) - 1
            if max(self.unheard.values()) <= 0 and at < certain:
                certain, self.first_heartbeat_us = at, at - FENCED_AFTER_US
            if at >= certain:
                self.unheard = None
        if self.committed.began_empty and at < certain:
            certain = 0
        self.replicas.is_partial = certain > 0
        for _, manager in self.managers(settings):
            manager.warm_from_us = certain
            manager.floor = self.committed.first_offset if certain else RESET_OFFSET

    def _be_certain_again(self, at: int, settling: Settling, settings: Settings) -> None:
        if self.recorded.is_warm(at):
            return
        sent = (b for b, signs in self.evidence.items() if signs.first_seen_us is not None)
        running = filter(self.is_broker, sent)
        elapsed_us = at - settling.since_us
        is_over = elapsed_us > VOTER_SILENCE_US and settling.is_over(running)
        if is_over or elapsed_us >= FENCED_AFTER_US:
            for variant, manager in self.managers(settings):
                manager.floor = self.committed.first_offset
                # When simulated heartbeats come follows from all those before.
                if variant.parameter_value == NOT_SWEPT:
                    manager.warm_from_us = at

    def unlearned(self, write: Write, variant: Variant) -> str | None:
        """Why it is not known when brokers learned of a write under a variant; None if it is."""
        if variant.name == ESTIMATED:
            return self._not_estimated(write)
        if variant.name == FINEST_EVIDENCE:
            brokers = map(self.evidence_of, self.recorded.brokers)
            is_unclaimed = any(each.is_unclaimed(write.high) for each in brokers)
            return UNKNOWN_WORK if is_unclaimed else None
        is_simulated = variant.parameter == HEARTBEAT_INTERVAL
        is_known = not is_simulated or LEARNED_OF[variant.name] in self.learned
        return None if is_known else NOT_LEARNED

    def _not_estimated(self, write: Write) -> str | None:
        """Why it is no estimate when all showed a write, but a heartbeat's arrival or unknown."""
        offsets = write.offsets
        at, last_broker = write.reached(self.estimated.manager.applied_everywhere)
        if not isinstance(offsets, Offsets):
            return None
        estimates = (broker.of(offsets.high, None) for broker in self.applying.values())
        for each in estimates:
            if each is not None and each.shown_us is None and each.reason in HIDING:
                return each.reason
        if at is None or last_broker is None:
            return None
        has, _ = write.reached(self.evidence_of(last_broker).signs[HEARTBEAT].has)
        if has is None or has > at:
            return None
        broker = self.applying.get(last_broker)
        estimate = None if broker is None else broker.of(offsets.high, has)
        return None if estimate is not None and estimate.shown_us is not None else NO_RESPONSE

    def hide_writes(self, hole_begins_us: int) -> None:
        """A voter's FETCH that committed a write is in the log once it is parked no more."""
        since = hole_begins_us - VOTER_SILENCE_US
        for place, write in enumerate(self.writes):
            if write.row.at_us > since and write.offsets != NOT_ANSWERED:
                self.writes[place] = write._replace(offsets=LOG_GAP)

    def forget(self, before: int, settings: Settings) -> None:
        for part in (self.committed, self.forwarding, self.beats, self.replicas):
            part.forget(before)
        for evidence in self.evidence.values():
            evidence.forget(before)
        for applying in self.applying.values():
            applying.forget(before)
        for _, manager in self.managers(settings):
            manager.forget(before)


def new_state(settings: Settings) -> State:
    def manager(*, counts_fetches: bool = False) -> BrokerHeartbeatManager:
        return BrokerHeartbeatManager(counts_fetches, settings.counts_stopping)

    interval_ms = settings.recorded_interval_ms
    return State(
        committed=CommittedOffsets(frozenset(settings.voters)),
        recorded=manager(),
        finest=Claimed(manager(counts_fetches=True)),
        estimated=Claimed(manager(counts_fetches=True)),
        beats=Recorded(None if interval_ms is None else interval_ms * 1000),
        simulations=[
            Simulation(ms * 1000, {learned: manager() for learned in LEARNED_OF.values()})
            for ms in settings.intervals_ms
        ],
    )


def behind_hole(state: State, settings: Settings, ends_us: int) -> State:
    """The state of a replay that begins behind a hole in the log of the active controller.

    What does not rest on that log is carried, and what was measured.
    """
    new = new_state(settings)
    new.committed.first_offsets = dict.fromkeys(settings.voters, -1)
    expected = {
        *state.recorded.active.offsets,
        *(state.settling.expected if state.settling else ()),
    }
    new.settling = Settling(ends_us, sorted(expected))
    new.applying = {b: applying.behind_hole() for b, applying in state.applying.items()}
    new.evidence = {b: evidence.behind_hole() for b, evidence in state.evidence.items()}
    new.beats.interval_us, new.beats.first_gaps = state.beats.interval_us, state.beats.first_gaps
    new.beats.delay = state.beats.delay
    new.forwarding, new.replicas, new.learned = state.forwarding, state.replicas, state.learned
    new.pending, new.active, new.last_lines = state.pending, state.active, state.last_lines
    new.fed, new.front = state.fed, state.front
    new.replicas.is_partial = True
    return new
