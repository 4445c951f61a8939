"""KIP-926 driven by a recorded log: one leader's events in, outcomes of its PRODUCEs out.

Each event changes what is known (``LedPartition``: a partition, how far its ISR is known, its open
batches); a batch that enough replicas have then gets an ``Acknowledgement``. A PRODUCE is emitted
once no later line can change its batches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..log_gaps import NO_GAPS, Gaps
from ..model import STAMP_US
from ..model.brokers import (
    SESSION_TIMEOUT_US,
    Applied,
    BrokerChange,
    BrokerControlState,
    BrokerStates,
    MetadataFetch,
    next_state,
)
from ..model.partition import REPLICA_LAG_TIME_MAX_US, Acks, Partition, Requirement
from ..records import Records, Variant
from .events import (
    DESCRIBE,
    PENDING,
    SILENCE,
    EventKind,
    LeaderEvent,
    LeaderEvents,
    TopicPartition,
    Uncertain,
    parts_of,
)
from .isr import APPLY_US_MAX, KnownPartition, Loss, MinIsrConfig, Role
from .outcomes import ProduceAckOutcome, Produced, ack_outcomes
from .produces import (
    AFTER_RESPONSE_US,
    FOLLOWED_US_MAX,
    NEVER,
    REORDER_US_MAX,
    Acknowledgement,
    Append,
    Consumers,
    LedPartition,
    OpenBatch,
    Request,
    UnderVariant,
)
from .responses import LeaderEvidence

#: A partition that no line names for so long is forgotten; lines of METADATA name all that exist.
SILENT_US = 24 * 3_600_000_000
#: A broker that stops is taken out of ISRs at most this long before its last FETCH.
STOPPING_US = 2_000_000
#: While ISRs may have grown unseen: how often a FETCH of a follower outside of them counts.
TICK_US = 1_000_000
#: acks of a PRODUCE that waits for the whole ISR (acks=all).
ACKS_ALL = -1
#: Bits of a session's key that are its id; those above are its follower's.
_SESSION_BITS = 32


class LastFetch(NamedTuple):
    """A follower's last FETCH of a session: when it was noted, and its response built."""

    at_us: int
    built_us: int | None


_NEVER_FETCHED = LastFetch(0, None)


class LeaderState(msgspec.Struct):
    """All that a replay carries.

    ``front`` is the last event. ``altered``: configs that the leader may not have applied yet.
    ``fetched``: the last FETCH of each session of a follower. ``batches`` are by number. After
    gaps: ``absent`` are followers not heard of since; until ``uncertain_us`` ISRs may have changed
    unseen, and until ``own_us`` it is not known which followers outside of ISRs are caught up.
    """

    node_id: int
    variants: list[Variant]
    configs: MinIsrConfig
    front: tuple[int, int, str] = (-1, 0, "")
    altered: list[LeaderEvent] = []
    brokers: BrokerStates = msgspec.field(default_factory=BrokerStates)
    consumers: Consumers = msgspec.field(default_factory=Consumers)
    absent: set[int] = set()
    uncertain_us: int = -SESSION_TIMEOUT_US
    own_us: int = -1
    fetched: dict[int, LastFetch] = {}
    led: dict[TopicPartition, LedPartition] = {}
    requests: list[Request] = []
    batches: dict[int, OpenBatch] = {}
    batch_count: int = 0


class MinIsrAcks:
    """The replay of one node's log: events of ``INPUT_SCHEMA`` in, ``ProduceAckOutcome`` out.

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
        self._events: LeaderEvents
        self._names: dict[str, str] = {}
        self._records = Records(ProduceAckOutcome)
        if saved is None:
            self._state = LeaderState(node_id, list(rules), MinIsrConfig({**min_isrs}))
        else:
            self._state = msgspec.msgpack.decode(saved, type=LeaderState)

    def saved(self) -> bytes:
        state, front_us = self._state, self._state.front[0]
        # A follower that fetched longer ago is not caught up any more.
        oldest_us, fetched = front_us - REPLICA_LAG_TIME_MAX_US, state.fetched.items()
        state.fetched = {session: last for session, last in fetched if last.at_us >= oldest_us}
        state.led = {
            partition: led
            for partition, led in state.led.items()
            if led.seen_us >= front_us - SILENT_US or led.batches
        }
        state.consumers.forget(front_us)
        return msgspec.msgpack.encode(state)

    def feed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Replays a batch of events; returns the rows that nothing still to come can change."""
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
        """Replays a batch part by part; yields a part's events, with how many partitions."""
        names = batch.select(["name", "value"])
        names = names.filter(pc.equal(batch["kind"], EventKind.TOPIC.value))
        values, topics = names["value"].to_pylist(), names["name"].to_pylist()
        self._names.update(zip(values, topics, strict=True))
        for part in parts_of(batch):
            self._events, replayed = LeaderEvents(part, self._names), []
            for event, places in self._events.events():
                if event.kind != EventKind.TOPIC:
                    self._replay(event, places)
                    replayed.append((event, len(places)))
            yield replayed

    def _replay(self, event: LeaderEvent, places: range) -> None:
        state, order = self._state, (event.at_us, event.kind_order, event.request_id)
        if order < state.front:
            raise ValueError("events must come in order of at_us, kind_order, request_id")
        state.front = order
        match event.kind:
            case EventKind.FETCH:
                self._fetch(event, places)
            case EventKind.PRODUCE:
                self._produce(event, places)
            case EventKind.CONSUMER_FETCH:
                self._consumer_fetch(event, places)
            case EventKind.METADATA | EventKind.ISR_REQUESTED | EventKind.ISR_COMMITTED:
                self._partition_states(event, places)
            case EventKind.METADATA_FETCH:
                self._metadata_fetch(event)
            case EventKind.HEARTBEAT:
                self._heartbeat(event)
            case EventKind.CONFIG:
                state.altered.append(event)
                self._apply_configs(event.at_us)
                if event.operation == PENDING:
                    self._sweep(event.at_us, KnownPartition.forget_waiting)
            case EventKind.UNCERTAIN:
                self._forget_what_gaps_hide(event)
            case _:
                raise ValueError(f"no such kind of event: {event.kind}")

    def _led(self, partition: TopicPartition, at_us: int) -> LedPartition:
        """Returns what is known of a partition; begins anew where that is nothing, or too old."""
        led = self._state.led.get(partition)
        if led is None or led.seen_us < at_us - SILENT_US:
            variants = range(len(self._state.variants))
            requirements = [Requirement(acks, variant=n) for n in variants for acks in Acks]
            model = Partition(self._state.node_id, requirements)
            model.configure(self._min_isrs(partition[0]), None)
            led = self._state.led[partition] = LedPartition(model)
        led.seen_us = at_us
        return led

    # --- followers: who has what

    def _fetch(self, event: LeaderEvent, places: range) -> None:
        """Notes a follower's FETCH: it has everything below the offsets that it fetches at."""
        state, columns, at_us = self._state, self._events.columns, event.at_us
        follower = event.replica_id
        session = follower << _SESSION_BITS | event.session_id
        last = state.fetched.get(session, _NEVER_FETCHED)
        epoch = None if event.replica_epoch == -1 else event.replica_epoch
        self._allow_for_changes(event, last)
        offsets, epochs = columns["fetch_offset"], columns["leader_epoch"]
        is_refused, partitions = columns["is_refused"], self._events.partitions
        for place in places:
            offset = offsets[place]
            if offset is None or is_refused[place]:
                continue
            led = self._led(partitions[place], at_us)
            if event.fetcher != led.fetchers.get(follower, 0):
                led.fetchers[follower] = event.fetcher
            leader_epoch, model = epochs[place], led.model
            led.note_epoch(at_us, -1 if leader_epoch is None else leader_epoch)
            before = model.followers.get(follower)
            if before and offset < before.log_end_offset:
                if at_us - before.fetched_us <= STAMP_US:
                    continue  # stamps have two lines in another order
                # This FETCH is wrong, or the one before.
                led.loss = Loss.CONTRADICTED
                self._lose(led, before.fetched_us - 1, at_us)
                model.count_anew()
            if last.built_us is not None and led.marked_us != NEVER:
                begin = before.log_end_offset if before else 0
                for number in led.batches:
                    state.batches[number].note_carried(begin, offset, last.built_us)
            is_moved = model.fetch(follower, offset, at_us, epoch, session)
            if is_moved and model.is_waited_for():
                self._acknowledge_by(event, partitions[place], led)
        state.fetched[session] = LastFetch(at_us, event.built_us)

    def _allow_for_changes(self, event: LeaderEvent, last: LastFetch) -> None:
        """Allows for what gaps hide of a follower that fetches: it may be in ISRs by now."""
        state, at_us, follower = self._state, event.at_us, event.replica_id
        state.absent.discard(follower)
        is_next_tick = last.at_us // TICK_US < at_us // TICK_US
        if is_next_tick and at_us <= max(state.uncertain_us, state.own_us):
            joinable = [led for led in state.led.values() if led.may_add(follower)]
            if at_us <= state.uncertain_us:
                self._sweep(at_us - 1, KnownPartition.forget_isr, which=joinable)
            else:
                self._sweep(at_us - TICK_US, KnownPartition.forget_waiting, which=joinable)

    def _acknowledge_by(
        self, event: LeaderEvent, partition: TopicPartition, led: LedPartition
    ) -> None:
        """Completes what a follower's FETCH completes.

        Where that moves the high watermark and a consumer is parked, its response comes first, and
        producers' when the handler is nearly done (``Consumers``).
        """
        at_us, begin_us, end_us = event.at_us, event.dequeued_us, event.done_us
        by = Acknowledgement(at_us, at_us, begin_us, end_us, event.replica_id, event.request_id)
        is_parked = self._state.consumers.is_parked(partition, begin_us)
        self._acknowledge(led, by, max(at_us, end_us - AFTER_RESPONSE_US) if is_parked else None)

    def _acknowledge(
        self, led: LedPartition, by: Acknowledgement, late_us: int | None = None
    ) -> None:
        """Completes what enough replicas have; at ``late_us`` if the high watermark passes any."""
        acknowledged = led.model.acknowledge(by.at_us, self._state.brokers.may_join)
        if not acknowledged:
            return
        if late_us is not None and any(
            requirement.acks is Acks.ALL for _, requirement in acknowledged
        ):
            by = by._replace(responded_us=late_us)
        for number, requirement in acknowledged:
            self._state.batches[number].acknowledge(requirement, by, led.model)

    # --- producers

    def _produce(self, event: LeaderEvent, places: range) -> None:
        state, first = self._state, self._state.batch_count
        for place in places:
            led = self._led(self._events.partitions[place], event.at_us)
            batch = self._open(event, place, led)
            self._catch_up(led.model)
            number, state.batch_count = state.batch_count, state.batch_count + 1
            state.batches[number] = batch
            led.batches.append(number)
            if batch.append is Append.PLACED:
                self._append(number, batch, led)
            elif batch.append is Append.NO_RESPONSE:
                # Its base offset may be the log end offset.
                led.model.log_end_offset += 1
        if places:
            state.requests.append(Request(event, first, state.batch_count))

    def _open(self, event: LeaderEvent, place: int, led: LedPartition) -> OpenBatch:
        """Makes the batch of a partition of a PRODUCE, which its leader appended or refused."""
        events, model, at_us = self._events, led.model, event.done_us
        base_offset: int | None = events.columns["base_offset"][place]
        append = Append.stated(base_offset)
        if append is Append.PLACED:
            led.note_append(at_us)
        may_lead = led.role is not Role.FOLLOWER
        if append is Append.NO_RESPONSE and may_lead:
            led.unplaced += 1
        if event.is_transactional:
            led.mark(at_us, self._state.batches)
        variants = [
            UnderVariant(requirement.min_isr)
            for requirement in model.requirements
            if requirement.acks is Acks.ALL
        ]
        is_taken = append is Append.PLACED and event.acks == ACKS_ALL
        isr = led.isr_at_append(variants[0].min_isr, is_taken=is_taken)
        deadline_us = at_us + max(event.timeout_us, 0)
        # Of others only the last offset may still change: their neighbours may come later.
        is_followed = append is Append.PLACED and isr is not None
        return OpenBatch(
            partition=events.partitions[place],
            append=append,
            base_offset=base_offset,
            record_bytes=events.columns["record_bytes"][place],
            error_code=events.columns["error_code"][place],
            handled_us=at_us,
            deadline_us=deadline_us,
            until_us=deadline_us + FOLLOWED_US_MAX if is_followed else at_us + REORDER_US_MAX,
            is_transactional=event.is_transactional,
            leads=may_lead,
            isr=isr,
            variants=variants,
            unplaced=led.unplaced,
            marked_us=led.marked_us,
        )

    def _catch_up(self, model: Partition) -> None:
        """Lets followers outside the ISR fetch again at their last offset, if their session did.

        A session's FETCHes don't list a partition of which nothing changed, but are FETCHes of it.
        """
        for broker_id in model.outside:
            follower = model.followers[broker_id]
            last = self._state.fetched.get(follower.session)
            if last is not None and last.at_us > follower.fetched_us:
                offset, sender = follower.log_end_offset, (follower.epoch, follower.session)
                model.fetch(broker_id, offset, last.at_us, *sender)

    def _append(self, number: int, batch: OpenBatch, led: LedPartition) -> None:
        """Appends a batch at its base offset, and completes it where it waits for nobody."""
        state, model, at_us = self._state, led.model, batch.handled_us
        base_offset = batch.base_offset or 0
        led.place(number, state.batches)
        if batch.isr is not None:
            batch.wait_for(model.append(number, base_offset, len(batch.isr)))
            # A follower may already have fetched from behind it: handlers end in another order.
            self._acknowledge(led, Acknowledgement.at(at_us))
        if led.role is Role.FOLLOWER:
            # It has not applied yet that it does not lead any more.
            model.forget({number})
            batch.lose(at_us, Loss.LEADER)

    # --- consumers

    def _consumer_fetch(self, event: LeaderEvent, places: range) -> None:
        is_forgotten = self._events.columns["is_forgotten"]
        listed: set[TopicPartition] = set()
        forgotten: set[TopicPartition] = set()
        for place in places:
            partitions = forgotten if is_forgotten[place] else listed
            partitions.add(self._events.partitions[place])
        self._state.consumers.fetch(event, listed, forgotten)

    # --- ISRs, leaders and configs

    def _partition_states(self, event: LeaderEvent, places: range) -> None:
        """Notes ISRs and leaders, of METADATA or ALTER_PARTITION."""
        state, at_us, is_metadata = self._state, event.at_us, event.kind == EventKind.METADATA
        is_active = not is_metadata or event.replica_id not in state.brokers.inactive
        for place in places:
            led = self._led(self._events.partitions[place], at_us)
            stated = self._events.stated(place)
            if not state.absent.isdisjoint(stated.isr or ()):
                stated = stated._replace(isr=None)  # it may be the one of before the gap
            if led.note_state(at_us, event.kind, stated, is_active=is_active):
                self._acknowledge(led, Acknowledgement.at(at_us))
                if is_metadata:
                    led.note_leader(at_us, stated)
            self._lose(led, at_us)

    def _lose(self, led: LedPartition, at_us: int, now_us: int | None = None) -> None:
        """Stops following a partition's batches, if its last change means that (``loss``).

        ``now_us``: when the log shows the loss, if later; a batch that is final by then stays so.
        """
        loss, led.loss = led.loss, None
        if loss is not None:
            led.model.forget({*led.batches})
            # Complete ones too: the line that shows a loss may come after it.
            for batch in map(self._state.batches.__getitem__, led.batches):
                if now_us is None or not batch.is_final(now_us):
                    batch.note_missing(led.model)
                    batch.lose(at_us, loss)

    def _min_isrs(self, topic: str) -> list[int | None]:
        """Returns min.insync.replicas of a topic under each variant."""
        in_force, variants = self._state.configs.in_force(topic), self._state.variants
        return [in_force if v.parameter == "none" else v.parameter_value for v in variants]

    def _apply_configs(self, at_us: int) -> None:
        """Applies configs that were described, and those that were altered and committed by now."""
        altered, self._state.altered = self._state.altered, []
        for event in altered:
            described = event.operation == DESCRIBE or event.built_us is None
            if described or self._state.brokers.committed_after(event.built_us or 0):
                self._state.configs.note(event)
                self._reconfigure(at_us, event.name)
            else:
                self._state.altered.append(event)

    def _reconfigure(self, at_us: int, topic: str = "") -> None:
        """Configures min.insync.replicas of a topic anew; of all without a name."""
        for (name, _), led in self._state.led.items():
            if topic in ("", name):
                led.model.configure(self._min_isrs(name), led.model.replicas)
                self._acknowledge(led, Acknowledgement.at(at_us))

    def _metadata_fetch(self, event: LeaderEvent) -> None:
        at_us, built_us = event.at_us, event.built_us or 0
        fetch = MetadataFetch(at_us, event.fetch_offset, built_us, event.high_watermark)
        counts = partial(self._partitions_with, at_us)
        self._apply(self._state.brokers.metadata_fetch(fetch, counts))
        self._apply_configs(at_us)

    def _heartbeat(self, event: LeaderEvent) -> None:
        stops, built_us = event.want_shut_down, event.built_us or 0
        # A broker that stops at once is fenced in the response; out of the ISR it is either way.
        state = next_state(want_shut_down=stops, is_fenced=event.is_fenced and not stops)
        stated = BrokerChange(event.replica_id, event.replica_epoch, state, built_us)
        silent_us = event.dequeued_us if event.operation == SILENCE else None
        self._apply(self._state.brokers.heartbeat(stated, silent_us))

    def _apply(self, changes: Iterable[Applied]) -> None:
        """Removes brokers that were fenced or stop from ISRs; ALTER_PARTITION adds who returns."""
        state = self._state
        for at_us, broker_id, control_state in changes:
            if control_state is None:
                self._sweep(at_us - 1, KnownPartition.forget_waiting, Loss.FENCED_WHEN)
                continue
            if control_state is BrokerControlState.UNFENCED:
                continue
            if at_us - SESSION_TIMEOUT_US <= state.uncertain_us:
                self._sweep(at_us, KnownPartition.allow_for_stop, broker_id)
            causes = broker_id, state.brokers.inactive
            latest_us = at_us + APPLY_US_MAX
            self._sweep(at_us, KnownPartition.take_out, *causes, latest_us=latest_us)

    def _sweep(
        self,
        at_us: int,
        change: Callable[..., None],
        *causes: object,
        latest_us: int | None = None,
        which: Iterable[LedPartition] | None = None,
    ) -> None:
        """Lets causes change partitions; that takes effect at ``latest_us`` at the latest."""
        by = Acknowledgement.at(at_us, latest_us)
        for led in self._state.led.values() if which is None else which:
            change(led, at_us, *causes)
            self._acknowledge(led, by)
            self._lose(led, at_us)

    def _forget_what_gaps_hide(self, event: LeaderEvent) -> None:
        """Forgets what a gap in a log leaves open from here on (``Uncertain``)."""
        state, at_us, until_us = self._state, event.at_us, event.built_us or 0
        match Uncertain(event.name):
            case Uncertain.CONFIGS:
                state.configs.forget()
                self._reconfigure(at_us)
                self._sweep(at_us, KnownPartition.forget_waiting)
            case Uncertain.OWN_LOG:
                state.own_us = max(state.own_us, until_us)
                self._sweep(at_us, KnownPartition.may_lead)
            case Uncertain.METADATA_LOG:
                state.uncertain_us = max(state.uncertain_us, until_us)
                self._sweep(at_us, KnownPartition.may_lead)
            case Uncertain.FOLLOWER:
                follower = event.replica_id
                state.absent.add(follower)
                state.brokers.miss(follower)
                dependent = [led for led in state.led.values() if led.depends_on(follower)]
                since_us = event.received_us - STOPPING_US
                self._sweep(since_us, KnownPartition.miss, follower, which=dependent)

    def _partitions_with(self, at_us: int, broker_id: int) -> int:
        return sum(
            broker_id in (led.isr or ())
            for led in self._state.led.values()
            if led.seen_us >= at_us - SILENT_US
        )

    # --- what comes out

    def finalized(self, *, over: bool = False) -> list[Produced]:
        """Emits and returns PRODUCEs that nothing still to come changes; ``over``: nothing does."""
        state, batches = self._state, self._state.batches
        front_us = state.front[0]
        evidence = LeaderEvidence(state.node_id, front_us, self._gaps)
        produced: list[Produced] = []
        requests: list[Request] = []
        for request in state.requests:
            own = [batches[number] for number in range(request.first, request.end)]
            if over or all(batch.is_final(front_us) for batch in own):
                led = [state.led[batch.partition] for batch in own]
                for batch, partition in zip(own, led, strict=True):
                    if batch.deadline_us < front_us:
                        batch.note_missing(partition.model)
                produced.append(Produced.by(evidence, request, led, own))
            else:
                requests.append(request)
        state.requests = requests
        for done in produced:
            for recorded, outcomes in ack_outcomes(done, state.variants, evidence):
                for outcome, variants in outcomes:
                    self._records.add(outcome, variants, recorded)
        if produced:
            self._forget(produced)
        return produced

    def _forget(self, produced: Sequence[Produced]) -> None:
        """Drops the batches of PRODUCEs that were emitted, and what only they needed."""
        state, batches = self._state, self._state.batches
        gone = {n for done in produced for n in range(done.request.first, done.request.end)}
        partitions = {batches.pop(number).partition for number in gone}
        for partition in partitions:
            state.led[partition].model.forget(gone)
            state.led[partition].forget(batches)
