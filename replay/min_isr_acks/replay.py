"""KIP-926 driven by a recorded log: one leader's events in, outcomes of its PRODUCEs out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from types import MappingProxyType

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..log_gaps import NO_GAPS, Gaps
from ..model import AT_ONCE_US, STAMP_US
from ..model.brokers import BrokerControlState
from ..model.partition import (
    REPLICA_LAG_TIME_MAX_US,
    Acks,
    Copies,
    Partition,
    Replica,
    Requirement,
    has_enough_in_sync,
)
from ..outcomes import Variant
from ..records import Records
from .brokers import Applied, BrokerStates
from .consumers import AFTER_RESPONSE_US, ENOUGH_BYTES, Consumers
from .events import (
    PENDING,
    SILENCE_US,
    EventKind,
    LeaderEvent,
    LeaderEvents,
    ListedColumns,
    TopicPartition,
    parts_of,
)
from .isr import APPLY_US_MAX, Change, KnownPartition, Loss, MinIsrConfig
from .outcomes import ProduceAckOutcome, Produced, ack_outcomes
from .produces import (
    FOLLOWED_US_MAX,
    NEVER,
    REORDER_US_MAX,
    Acknowledgement,
    LedPartition,
    OpenBatch,
    Request,
    UnderVariant,
)
from .responses import LeaderEvidence

#: acks of a PRODUCE that waits for the whole ISR (acks=all).
ACKS_ALL = -1
#: A partition that no line names for so long is forgotten; lines of METADATA name all that exist.
SILENT_US = 24 * 3_600_000_000
#: A broker that stops is taken out of ISRs so long before its last FETCH at most.
STOPPING_US = 2_000_000
#: While ISRs may have grown unseen: how often a FETCH of who is outside of them counts.
_TICK_US = 1_000_000
#: A follower's session: its broker, and the session's id.
_SESSION_BITS = 32


class LeaderState(msgspec.Struct):
    """All that a replay carries.

    ``front`` is the last event. ``altered``: configs that the leader may not have applied yet.
    ``fetched``: when followers' sessions fetched last and their responses were built. ``batches``
    are by number; ``deadlines`` is a heap of (time, batch). Behind gaps ``absent`` are followers
    not heard of since; until ``uncertain_us`` ISRs may have changed unseen, and until ``own_us`` it
    is not known who outside of them is caught up.
    """

    node_id: int
    variants: list[Variant]
    configs: MinIsrConfig
    front: tuple[int, int, str] = (-1, 0, "")
    altered: list[LeaderEvent] = []
    brokers: BrokerStates = msgspec.field(default_factory=BrokerStates)
    consumers: Consumers = msgspec.field(default_factory=Consumers)
    absent: set[int] = set()
    uncertain_us: int = -SILENCE_US
    own_us: int = -1
    fetched: dict[int, tuple[int, int | None]] = {}
    led: dict[TopicPartition, LedPartition] = {}
    requests: list[Request] = []
    batches: dict[int, OpenBatch] = {}
    deadlines: list[tuple[int, int]] = []
    batch_count: int = 0


class MinIsrAcks:
    """The replay of one node's log: events of ``INPUT_SCHEMA`` in, rows of ``ACKS_SCHEMA`` out.

    ``min_isrs`` is min.insync.replicas of topics, and the default without a name (manifest).
    Events come in order of (at_us, kind_order, request_id), but names of topics at any time;
    anything else raises ``ValueError``. ``saved`` is what a replay of the same node and rules
    returned at the end of the increment before.
    """

    def __init__(
        self,
        node_id: int,
        rules: Sequence[Variant],
        min_isrs: Mapping[str, int] = MappingProxyType({}),
        saved: bytes | None = None,
        gaps: Gaps = NO_GAPS,
    ) -> None:
        self._gaps = gaps
        self._rows: ListedColumns
        self._names: dict[str, str] = {}
        self._records = Records(ProduceAckOutcome)
        if saved is None:
            self._state = LeaderState(node_id, list(rules), MinIsrConfig({**min_isrs}))
        else:
            self._state = msgspec.msgpack.decode(saved, type=LeaderState)

    def saved(self) -> bytes:
        state, front_us = self._state, self._state.front[0]
        # Whoever fetched longer ago is not caught up any more.
        oldest_us, sessions = front_us - REPLICA_LAG_TIME_MAX_US, state.fetched.items()
        state.fetched = {session: us for session, us in sessions if us[0] >= oldest_us}
        state.led = {
            partition: led
            for partition, led in state.led.items()
            if led.seen_us >= front_us - SILENT_US or led.batches
        }
        state.consumers.forget(front_us)
        return msgspec.msgpack.encode(state)

    def feed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Takes an increment and returns rows that nothing still to come can change."""
        for _ in self.replay(batch):
            self.finalized()
        return self.rows()

    def finish(self) -> pa.RecordBatch:
        """Emits what is left: the log is over."""
        self.finalized(over=True)
        return self.rows()

    def rows(self) -> pa.RecordBatch:
        """Returns the rows of what was finalized since the last call."""
        return self._records.take()

    def replay(self, batch: pa.RecordBatch) -> Iterator[list[tuple[LeaderEvent, int]]]:
        """Takes an increment, part by part; yields a part's events, with how many partitions."""
        names = batch.select(["name", "value"]).filter(
            pc.equal(batch["kind"], EventKind.TOPIC.value)
        )
        values, topics = names["value"].to_pylist(), names["name"].to_pylist()
        self._names.update(zip(values, topics, strict=True))
        for part in parts_of(batch):
            self._increment = increment = LeaderEvents(part, self._names)
            self._rows = increment.rows
            taken = []
            for event, rows in increment.events():
                if event.kind != EventKind.TOPIC:
                    self._take(event, rows)
                    taken.append((event, len(rows)))
            yield taken

    def _take(self, event: LeaderEvent, rows: range) -> None:
        state, place = self._state, (event.at_us, event.kind_order, event.request_id)
        if place < state.front:
            raise ValueError("events must come in order of at_us, kind_order, request_id")
        state.front = place
        self._expire(event.at_us)
        match event.kind:
            case EventKind.FETCH:
                self._fetch(event, rows)
            case EventKind.PRODUCE:
                self._produce(event, rows)
            case EventKind.CONSUMER_FETCH:
                self._consumer_fetch(event, rows)
            case EventKind.METADATA | EventKind.ISR_REQUESTED | EventKind.ISR_COMMITTED:
                self._partition_states(event, rows)
            case EventKind.METADATA_FETCH:
                counts = partial(self._partitions_with, event.at_us)
                self._apply(state.brokers.metadata_fetch(event, counts))
                self._apply_configs(event.at_us)
            case EventKind.HEARTBEAT:
                self._apply(state.brokers.heartbeat(event))
            case EventKind.CONFIG:
                state.altered.append(event)
                self._apply_configs(event.at_us)
                if event.operation == PENDING:
                    self._sweep(event.at_us, KnownPartition.forget_waiting)
            case EventKind.UNCERTAIN:
                self._forget_what_gaps_hide(event)

    def _led(self, partition: TopicPartition, at_us: int) -> LedPartition:
        """Returns what is known of a partition, begun if that is nothing."""
        led = self._state.led.get(partition)
        if led is None or led.seen_us < at_us - SILENT_US:
            requirements = [
                Requirement(acks, min_isr, variant)
                for variant, min_isr in enumerate(self._min_isrs(partition[0]))
                for acks in Acks
            ]
            known = KnownPartition(Partition(self._state.node_id, requirements))
            led = self._state.led[partition] = LedPartition(*partition, known)
        led.seen_us = at_us
        return led

    def _fetch(self, event: LeaderEvent, listed: range) -> None:
        """Takes a follower's FETCH: it has everything below the offsets that it fetches at."""
        state, rows, at_us, follower = self._state, self._rows, event.at_us, event.replica_id or 0
        fetcher = event.fetcher or 0
        epoch = event.replica_epoch if event.replica_epoch != -1 else None
        session = follower << _SESSION_BITS | (event.session_id or 0)
        before_us, carried_us = state.fetched.get(session, (0, None))
        if follower in state.absent:
            state.absent.remove(follower)
            self._sweep(at_us - 1, partial(KnownPartition.find, follower=follower))
        if before_us // _TICK_US < at_us // _TICK_US and at_us <= max(
            state.uncertain_us, state.own_us
        ):
            led_here = [led for led in state.led.values() if led.known.may_add(follower)]
            if at_us <= state.uncertain_us:
                self._sweep(at_us - 1, KnownPartition.forget_isr, which=led_here)
            else:
                self._sweep(at_us - _TICK_US, KnownPartition.forget_waiting, which=led_here)
        begin_us, end_us = event.dequeued_us or 0, event.done_us
        last_us = max(at_us, end_us - AFTER_RESPONSE_US)
        by = Acknowledgement(at_us, at_us, begin_us, end_us, follower, event.request_id)
        for row in listed:
            offset = rows.fetch_offset[row]
            if offset is None or rows.is_refused[row]:
                continue
            led = self._led(rows.partition[row], at_us)
            if fetcher != led.fetchers.get(follower, 0):
                led.fetchers[follower] = fetcher
            leader_epoch, model = rows.leader_epoch[row], led.model
            led.known.note_epoch(at_us, -1 if leader_epoch is None else leader_epoch)
            before = model.followers.get(follower)
            if before and offset < before.log_end_offset:
                if at_us - before.fetched_us <= STAMP_US:
                    continue  # stamps have two lines in another order
                # This FETCH is wrong, or the one before.
                led.known.loss = Loss.CONTRADICTED
                self._lose(led, before.fetched_us - 1, at_us)
                model.count_anew()
            if carried_us is not None and led.marked_us != NEVER:
                self._carried(led, before, offset, carried_us)
            is_moved = model.fetch(follower, offset, at_us, epoch, session)
            if is_moved and model.is_waited_for():
                is_parked = state.consumers.is_parked(rows.partition[row], begin_us)
                self._acknowledge(led, by, last_us if is_parked else None)
        state.fetched[session] = at_us, event.built_us

    def _carried(self, led: LedPartition, before: Replica | None, offset: int, at_us: int) -> None:
        """Notes batches of transactions that a response carried: they are appended (KIP-890)."""
        begin = before.log_end_offset if before else 0
        for batch in map(self._state.batches.__getitem__, led.batches):
            if batch.carried_us is None or batch.base_offset is None or not batch.waits:
                continue
            if begin <= batch.base_offset < offset:
                batch.carried_us = min(batch.carried_us, at_us)

    def _acknowledge(
        self, led: LedPartition, by: Acknowledgement, late_us: int | None = None
    ) -> None:
        """Completes what enough replicas have; at ``late_us`` if the high watermark passes some."""
        model = led.model
        acknowledged = model.acknowledge(by.at_us, self._state.brokers.may_join)
        if not acknowledged:
            return
        if late_us is not None and any(
            requirement.acks is Acks.ALL for _, requirement in acknowledged
        ):
            by = by._replace(responded_us=late_us)
        self._complete(acknowledged, by, model)

    def _complete(
        self,
        acknowledged: Iterable[tuple[int, Requirement]],
        by: Acknowledgement,
        model: Partition,
    ) -> None:
        copies: dict[int, Copies] = {}
        batches, effective_min_isr = self._state.batches, model.effective_min_isr
        for number, requirement in acknowledged:
            batch = batches[number]
            if number not in copies:
                copies[number] = batch.copies(model)
            needed = None if requirement.acks is Acks.ALL else effective_min_isr(requirement)
            batch.acknowledge(requirement, by, copies[number], needed or 0)

    def _expire(self, at_us: int) -> None:
        """Times PRODUCEs out; what they wait for is followed on, for what is exposed until when."""
        deadlines = self._state.deadlines
        while deadlines and deadlines[0][0] < at_us:
            batch = self._state.batches[heappop(deadlines)[1]]
            batch.note_missing(self._state.led[batch.partition].model)

    def _produce(self, event: LeaderEvent, listed: range) -> None:
        state, first = self._state, self._state.batch_count
        for row in listed:
            self._append(event, row)
        if listed:
            request = Request(
                event.request_id,
                event.client_id,
                event.acks or 0,
                event.is_transactional,
                event.is_idempotent,
                event.received_us or 0,
                event.built_us,
                first,
                state.batch_count,
            )
            state.requests.append(request)

    def _append(self, event: LeaderEvent, row: int) -> None:
        """Takes a partition of a PRODUCE: refused or appended, as its base offset shows."""
        state, rows, at_us = self._state, self._rows, event.done_us
        led, base_offset = self._led(rows.partition[row], event.at_us), rows.base_offset[row]
        known, model = led.known, led.model
        deadline_us = at_us + max(event.timeout_us or 0, 0)
        is_appended = base_offset is not None and base_offset >= 0
        if is_appended and not known.leads:
            known.lead_by_append(at_us)
        of_all = [r for r in model.requirements if r.acks is Acks.ALL]
        variants = [UnderVariant(model.effective_min_isr(r)) for r in of_all]
        isr, in_force = model.isr, variants[0].min_isr
        is_known = isr is not None and in_force is not None
        if is_known and is_appended and event.acks == ACKS_ALL:
            # The leader took it, maybe before it applied what made the ISR too small.
            is_enough = has_enough_in_sync(len(isr or ()), in_force or 0)
            isr = isr if is_enough else known.previous_isr
        if base_offset is None and known.leads is not False:
            led.unplaced += 1
        if event.is_transactional and led.marked_us > at_us:
            led.marked_us = at_us
            for number in led.batches:
                state.batches[number].marked_us = at_us
        for broker_id in model.outside:
            follower = model.followers[broker_id]
            # Its session's FETCHes go on from there, though they don't list the partition again.
            fetched_us, _ = state.fetched.get(follower.session, (0, None))
            if fetched_us > follower.fetched_us:
                offset, of_last = follower.log_end_offset, (follower.epoch, follower.session)
                model.fetch(broker_id, offset, fetched_us, *of_last)
        number, state.batch_count = state.batch_count, state.batch_count + 1
        batch = state.batches[number] = OpenBatch(
            rows.partition[row],
            base_offset,
            rows.record_bytes[row],
            rows.error_code[row],
            at_us,
            deadline_us,
            deadline_us + FOLLOWED_US_MAX,
            known.leads is not False,
            isr,
            variants,
            led.unplaced,
            led.marked_us,
            NEVER if event.is_transactional else None,
        )
        led.batches.append(number)
        if not is_appended or isr is None:
            batch.until_us = at_us + REORDER_US_MAX
        if base_offset is None or base_offset < 0:
            model.log_end_offset += base_offset is None
            return
        led.order(number, state.batches)
        heappush(state.deadlines, (deadline_us, number))
        if isr is not None:
            waits, met = model.append(number, base_offset, len(isr))
            batch.wait_for(waits + met)
            if met:
                at_once = Acknowledgement.at(at_us)
                self._complete([(number, requirement) for requirement in met], at_once, model)
            log_ends = [follower.log_end_offset for follower in model.followers.values()]
            if not model.maximal_isr or max(log_ends, default=-1) > base_offset:
                self._acknowledge(led, Acknowledgement.at(at_us))
        if known.leads is False:
            # It has not applied yet that it does not lead any more.
            model.forget({number})
            batch.lose(at_us, Loss.LEADER)

    def _consumer_fetch(self, event: LeaderEvent, listed: range) -> None:
        rows, built_us = self._rows, event.built_us or 0
        forgotten = {rows.partition[row] for row in listed if rows.is_forgotten[row]}
        partitions = {rows.partition[row] for row in listed if not rows.is_forgotten[row]}
        min_bytes = event.min_bytes or 0
        is_parked = built_us - event.at_us > AT_ONCE_US and min_bytes <= ENOUGH_BYTES
        until_us = built_us if is_parked else 0
        session_id, is_full = event.session_id or 0, bool(event.is_full)
        self._state.consumers.fetch(session_id, partitions, forgotten, is_full, until_us)

    def _partition_states(self, event: LeaderEvent, rows: range) -> None:
        """Takes ISRs and leaders, of METADATA or ALTER_PARTITION."""
        state, at_us, is_metadata = self._state, event.at_us, event.kind == EventKind.METADATA
        is_active = not is_metadata or state.brokers.is_active(event.replica_id or 0)
        for partition, seen in self._increment.states(rows, is_active=is_active):
            led = self._led(partition, at_us)
            if led.known.take(at_us, event.kind, seen):
                self._acknowledge(led, Acknowledgement.at(at_us))
                if is_metadata:
                    led.known.name_leader(at_us, seen)
            self._lose(led, at_us)

    def _lose(self, led: LedPartition, at_us: int, now_us: int | None = None) -> None:
        """Takes what a change means for batches that wait; ``now_us``: it shows."""
        loss, led.known.loss = led.known.loss, None
        if loss is not None:
            led.model.forget({*led.batches})
            # Of those that are complete too: what shows a loss may come after it.
            for batch in map(self._state.batches.__getitem__, led.batches):
                if now_us is None or not batch.is_final(now_us):
                    batch.note_missing(led.model)
                    batch.lose(at_us, loss)

    def _min_isrs(self, topic: str) -> list[int | None]:
        in_force, variants = self._state.configs.of(topic), self._state.variants
        return [in_force if v.parameter == "none" else v.parameter_value for v in variants]

    def _apply_configs(self, at_us: int) -> None:
        """Takes configs that were described, and those that were altered and are applied by now."""
        altered, self._state.altered = self._state.altered, []
        for event in altered:
            described = event.operation == "describe" or event.built_us is None
            if described or self._state.brokers.committed_after(event.built_us or 0):
                self._state.configs.take(event)
                self._reconfigure(at_us, event.name)
            else:
                self._state.altered.append(event)

    def _reconfigure(self, at_us: int, topic: str | None = None) -> None:
        """Configures min.insync.replicas of a topic anew; of all without a name."""
        for led in self._state.led.values():
            if topic and topic != led.topic:
                continue
            min_isrs, is_changed = self._min_isrs(led.topic), False
            for requirement in led.model.requirements:
                min_isr = min_isrs[requirement.variant]
                is_changed |= min_isr != requirement.min_isr
                requirement.min_isr = min_isr
            if is_changed:
                self._acknowledge(led, Acknowledgement.at(at_us))

    def _apply(self, changes: Iterable[Applied]) -> None:
        """Takes changes of brokers that were fenced, stopped or came back: of any ISR."""
        state, brokers = self._state, self._state.brokers
        for at_us, broker_id, control_state in changes:
            if control_state is BrokerControlState.UNFENCED:
                continue
            if at_us - SILENCE_US <= state.uncertain_us:
                self._sweep(at_us, partial(KnownPartition.hold, broker_id=broker_id))
            inactive = frozenset(b for b in brokers.decided if not brokers.is_active(b))
            change = partial(KnownPartition.take_out, broker_id=broker_id, inactive=inactive)
            self._sweep(at_us, change, at_us + APPLY_US_MAX)

    def _sweep(
        self,
        at_us: int,
        change: Change,
        latest_us: int | None = None,
        which: Iterable[LedPartition] | None = None,
    ) -> None:
        """Applies a change to partitions; it takes effect at ``latest_us`` at the latest."""
        by = Acknowledgement.at(at_us, latest_us)
        for led in self._state.led.values() if which is None else which:
            if change(led.known, at_us):
                self._acknowledge(led, by)
            self._lose(led, at_us)

    def _forget_what_gaps_hide(self, event: LeaderEvent) -> None:
        """Forgets what depends on lines that are missing from here on."""
        state, at_us, follower = self._state, event.at_us, event.replica_id
        if event.name == "configs":
            state.configs.forget()
            self._reconfigure(at_us)
            self._sweep(at_us, KnownPartition.forget_waiting)
        elif follower is None:
            if event.name == "own log":
                state.own_us = max(state.own_us, event.built_us or 0)
            else:
                state.uncertain_us = max(state.uncertain_us, event.built_us or 0)
            self._sweep(at_us, KnownPartition.may_lead)
        else:
            state.absent.add(follower)
            state.brokers.miss(follower)
            led_with = [led for led in state.led.values() if led.known.depends_on(follower)]
            miss = partial(KnownPartition.miss, follower=follower)
            self._sweep((event.received_us or 0) - STOPPING_US, miss, which=led_with)

    def _partitions_with(self, at_us: int, broker_id: int) -> int:
        return sum(
            broker_id in (led.known.isr or ())
            for led in self._state.led.values()
            if led.seen_us >= at_us - SILENT_US
        )

    def finalized(self, *, over: bool = False) -> list[Produced]:
        """Returns PRODUCEs that nothing still to come changes; ``over``: nothing does."""
        state, batches = self._state, self._state.batches
        if over:
            self._apply(state.brokers.close())
        front_us = state.front[0]
        own_gaps = self._gaps.of(state.node_id)
        evidence = LeaderEvidence(front_us, state.brokers.ambiguous, own_gaps)
        produced: list[Produced] = []
        requests: list[Request] = []
        for request in state.requests:
            own = [batches[number] for number in range(request.first, request.end)]
            if over or all(batch.is_final(front_us) for batch in own):
                led = [state.led[batch.partition] for batch in own]
                produced.append(Produced.of(request, led, own, evidence))
            else:
                requests.append(request)
        if not produced:
            return []
        state.requests = requests
        for done in produced:
            for recorded, outcomes in ack_outcomes(done, state.node_id, state.variants, evidence):
                for outcome, variants in outcomes:
                    self._records.add(outcome, variants, recorded)
        gone = {n for done in produced for n in range(done.request.first, done.request.end)}
        partitions = {batches.pop(number).partition for number in gone}
        for partition in partitions:
            state.led[partition].model.forget(gone)
            state.led[partition].forget(batches)
        state.deadlines = [entry for entry in state.deadlines if entry[1] in batches]
        heapify(state.deadlines)
        oldest_us = min((batch.handled_us for batch in batches.values()), default=front_us)
        ambiguous = state.brokers.ambiguous
        state.brokers.ambiguous = [one for one in ambiguous if one.until_us >= oldest_us]
        return produced
