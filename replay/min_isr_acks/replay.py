"""KIP-926 driven by a recorded log: one leader's events in, outcomes of its PRODUCEs out."""

from collections.abc import Iterable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..log_gaps import LogGap
from ..outcomes import Variant
from .batches import FOLLOWED_US_MAX, SETTLE_US, Batch, Led, Moment, Request
from .brokers import Applied, Brokers, Standing
from .consumers import AFTER_RESPONSE_US, AT_ONCE_US, ENOUGH_BYTES, Consumers
from .events import KIND_ORDER, NEVER, NULL, PENDING, SILENCE_US, Event, Kind
from .inputs import Increment, parts_of
from .kip_926 import LAG_US_MAX, UNKNOWN, Acknowledged, Follower, Isr, Partition, Requirement
from .leadership import APPLY_US_MAX, CONTRADICTED, Change, Leadership
from .responses import STAMP_US, Finalized
from .rows import rows_of
from .tables import ACKS_SCHEMA
from .topics import MinIsrConfig, Topics

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
_NO_ROWS = pa.RecordBatch.from_pylist([], schema=ACKS_SCHEMA)


class State(msgspec.Struct):
    """All that a replay carries.

    ``front`` is the last event. ``altered``: configs that the leader may not have applied yet.
    ``fetched``: when followers' sessions fetched last and their responses were built. ``batches``
    and ``moments`` are by number; ``deadlines`` is a heap of (time, batch). Behind gaps ``absent``
    are followers not heard of since; until ``uncertain_us`` ISRs may have changed unseen, and until
    ``own_us`` it is not known who outside of them is caught up.
    """

    node_id: int
    variants: list[Variant]
    configs: MinIsrConfig
    front: tuple[int, int, str] = (-1, 0, "")
    altered: list[Event] = []
    topics: Topics = msgspec.field(default_factory=Topics)
    brokers: Brokers = msgspec.field(default_factory=Brokers)
    consumers: Consumers = msgspec.field(default_factory=Consumers)
    absent: set[int] = set()
    uncertain_us: int = -SILENCE_US
    own_us: int = -1
    fetched: dict[int, tuple[int, int]] = {}
    led: dict[int, Led] = {}
    requests: list[Request] = []
    batches: dict[int, Batch] = {}
    moments: dict[int, Moment] = {}
    deadlines: list[tuple[int, int]] = []
    batch_count: int = 0
    moment_count: int = 0


class MinIsrAcks:
    """The replay of one node's log: events of ``INPUT_SCHEMA`` in, rows of ``ACKS_SCHEMA`` out.

    ``default_min_isr`` is min.insync.replicas where the log has none (manifest), or None.
    Events come in order of (at_us, kind_order, request_id), but names of topics at any time;
    anything else raises ``ValueError``. ``saved`` is what a replay of the same node and rules
    returned at the end of the increment before.
    """

    def __init__(
        self,
        node_id: int,
        rules: Sequence[Variant],
        default_min_isr: int | None = None,
        saved: bytes | None = None,
        gaps: Sequence[LogGap] = (),
    ) -> None:
        self._gaps = gaps
        if saved is None:
            self._state = State(
                node_id,
                list(rules),
                MinIsrConfig({} if default_min_isr is None else {"": default_min_isr}),
            )
        else:
            self._state = msgspec.msgpack.decode(saved, type=State)

    def saved(self) -> bytes:
        state = self._state
        # Whoever fetched longer ago is not caught up any more.
        oldest_us = state.front[0] - LAG_US_MAX
        state.fetched = {one: us for one, us in state.fetched.items() if us[0] >= oldest_us}
        silent_us = state.front[0] - SILENT_US
        known = state.led.items()
        state.led = {at: one for at, one in known if one.seen_us >= silent_us or one.batches}
        state.topics.keep({*state.led, *state.consumers.partitions(state.front[0])})
        return msgspec.msgpack.encode(state)

    def feed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take an increment and return rows that nothing still to come can change."""
        names = batch.select(["name", "value"]).filter(pc.equal(batch["kind"], Kind.TOPIC.value))
        values, topics = names["value"].to_pylist(), names["name"].to_pylist()
        self._state.topics.named.update(zip(values, topics, strict=True))
        return pa.concat_batches([_NO_ROWS, *map(self._feed, parts_of(batch))])

    def finish(self) -> pa.RecordBatch:
        """The log is over: emit what is left."""
        self._apply(self._state.brokers.close())
        return self._emitted(over=True)

    def _feed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        state = self._state
        self._increment = Increment(batch, state.topics)
        self._events, self._rows = events, _ = self._increment.events, self._increment.rows
        self._check_order()
        for e, kind in enumerate(events.kind):
            if kind == Kind.TOPIC:
                continue
            self._expire(events.at_us[e])
            match kind:
                case Kind.FETCH:
                    self._fetch(e)
                case Kind.PRODUCE:
                    self._produce(e)
                case Kind.CONSUMER_FETCH:
                    self._consumer_fetch(e)
                case Kind.METADATA | Kind.ISR_ASKED | Kind.ISR_ANSWERED:
                    self._facts(e, kind)
                case _:
                    self._take(self._increment.whole[e])
        return self._emitted(over=False)

    def _check_order(self) -> None:
        events = self._events
        every = zip(events.at_us, events.kind_order, events.request_id, strict=True)
        keys = [key for key in every if key[1] != KIND_ORDER[Kind.TOPIC]]
        if any(one > other for one, other in pairwise([self._state.front, *keys])):
            raise ValueError("events must come in order of at_us, kind_order, request_id")
        self._state.front = (keys or [self._state.front])[-1]

    def _led(self, position: int, at_us: int) -> Led:
        """The partition at a position, begun if nothing is known of it."""
        led = self._state.led.get(position)
        if led is None or led.seen_us < at_us - SILENT_US:
            topic, number = self._increment.partitions[position]
            requirements = [
                Requirement(waits, k) for k in self._min_isrs(topic) for waits in (True, False)
            ]
            leadership = Leadership(Partition(self._state.node_id, requirements))
            led = self._state.led[position] = Led(topic, number, leadership)
        led.seen_us = at_us
        return led

    def _fetch(self, e: int) -> None:
        """A follower's FETCH: it has everything below the offsets that it fetches at."""
        state, events, rows = self._state, self._events, self._rows
        at_us, follower, epoch = events.at_us[e], events.replica_id[e], events.replica_epoch[e]
        epoch = max(epoch, UNKNOWN)
        session = follower << _SESSION_BITS | max(events.session_id[e], 0)
        before_us, carried_us = state.fetched.get(session, (0, NULL))
        if follower in state.absent:
            state.absent.remove(follower)
            self._sweep(at_us - 1, partial(Leadership.find, follower=follower))
        if before_us // _TICK_US < at_us // _TICK_US and at_us <= max(
            state.uncertain_us, state.own_us
        ):
            some = [one for one in state.led.values() if one.leadership.may_add(follower)]
            if at_us <= state.uncertain_us:
                self._sweep(at_us - 1, Leadership.forget_isr, which=some)
            else:
                self._sweep(at_us - _TICK_US, Leadership.forget_waiting, which=some)
        begin_us, end_us = events.dequeued_us[e], events.handled_us[e]
        last_us = max(at_us, end_us - AFTER_RESPONSE_US)
        at_once = Moment(at_us, at_us, begin_us, end_us, follower, events.request_id[e])
        for row in range(events.first_row[e], events.first_row[e + 1]):
            offset = rows.fetch_offset[row]
            if offset == NULL or rows.is_refused[row] == 1:
                continue
            led = self._led(rows.partition[row], at_us)
            led.leadership.note_epoch(max(rows.leader_epoch[row], UNKNOWN))
            before = led.leadership.partition.followers.get(follower)
            if before and offset < before.log_end_offset:
                if at_us - before.fetched_us <= STAMP_US:
                    continue  # stamps have two lines in another order
                self._contradict(led, before.fetched_us - 1, at_us)
            if carried_us != NULL and led.marked_us != NEVER:
                self._carried(led, before, offset, carried_us)
            led.leadership.partition.fetch(follower, offset, at_us, epoch, session)
            is_parked = state.consumers.is_parked(rows.partition[row], begin_us)
            self._acknowledge(led, at_once, last_us if is_parked else NULL)
        state.fetched[session] = at_us, events.built_us[e]

    def _carried(self, led: Led, before: Follower | None, offset: int, at_us: int) -> None:
        """A response carried batches: those of transactions are appended by now (KIP-890)."""
        begin = before.log_end_offset if before else 0
        for batch in map(self._state.batches.__getitem__, led.batches):
            if batch.carried_us != NULL and batch.waits and begin <= batch.base_offset < offset:
                batch.carried_us = min(batch.carried_us, at_us)

    def _acknowledge(self, led: Led, moment: Moment, late_us: int = NULL) -> None:
        """Complete what enough replicas have; at ``late_us`` if the high watermark rises."""
        partition = led.leadership.partition
        before = sum(one.offset for one in partition.requirements[::2]) if late_us != NULL else 0
        acknowledged = partition.acknowledge(moment.at_us, self._state.brokers.may_join)
        if acknowledged and late_us != NULL:
            rises = sum(one.offset for one in partition.requirements[::2]) > before
            moment = moment._replace(responded_us=late_us) if rises else moment
        if acknowledged:
            self._complete(led, acknowledged, moment)

    def _complete(self, led: Led, acknowledged: Acknowledged, moment: Moment) -> None:
        """Take which replicas had the batches that are complete."""
        state, partition = self._state, led.leadership.partition
        state.moments[state.moment_count] = moment
        missing: dict[int, Isr] = {}
        copies: dict[int, int] = {}
        for number, position in acknowledged:
            batch, variant = state.batches[number], position // 2
            if moment.at_us > batch.until_us:
                continue  # too late to be followed
            batch.completed[position] = state.moment_count
            batch.waits.remove(position)
            batch.done_us = max(batch.done_us, moment.at_us)
            if position % 2:
                if number not in copies:
                    copies[number] = partition.copies(batch.base_offset)
                batch.copies[variant] = copies[number]
                requirement = partition.requirements[position]
                batch.needed[variant] = partition.effective_min_isr(requirement)
                continue
            if number not in missing:
                missing[number] = partition.missing(batch.base_offset, batch.isr or ())
            batch.missing[variant] = missing[number]
        state.moment_count += 1

    def _expire(self, at_us: int) -> None:
        """PRODUCEs time out; what they wait for is followed on, for what is exposed until when."""
        deadlines = self._state.deadlines
        while deadlines and deadlines[0][0] < at_us:
            batch = self._state.batches[heappop(deadlines)[1]]
            batch.note_missing(self._state.led[batch.partition].leadership.partition)

    def _produce(self, e: int) -> None:
        state, events = self._state, self._events
        first = state.batch_count
        for row in range(events.first_row[e], events.first_row[e + 1]):
            self._append(e, row)
        if state.batch_count == first:
            return
        values = (getattr(events, name)[e] for name in Request._fields[:-2])
        state.requests.append(Request._make([*values, first, state.batch_count]))

    def _append(self, e: int, row: int) -> None:
        """A partition of a PRODUCE: refused or appended, as its base offset shows."""
        state, events, rows = self._state, self._events, self._rows
        led, base_offset = self._led(rows.partition[row], events.at_us[e]), rows.base_offset[row]
        at_us, until_us = events.handled_us[e], events.handled_us[e] + max(events.timeout_us[e], 0)
        leadership, partition = led.leadership, led.leadership.partition
        is_appended = base_offset >= 0
        if is_appended and not leadership.leads:
            leadership.lead_by_append(at_us)
        isr, requirements = partition.isr, partition.requirements
        min_isrs = [partition.effective_min_isr(one) for one in requirements[::2]]
        is_small = isr is not None and len(isr) < min_isrs[0]
        if is_small and is_appended and events.acks[e] == ACKS_ALL:
            # The leader took it before it applied what made the ISR too small.
            isr = leadership.previous
        size = UNKNOWN if isr is None else len(isr)
        if base_offset == NULL and leadership.leads is not False:
            led.blind += 1
        if events.is_transactional[e] and led.marked_us > at_us:
            led.marked_us = at_us
            for number in led.batches:
                state.batches[number].marked_us = at_us
        for follower in map(partition.followers.__getitem__, partition.outside):
            if follower.log_end_offset >= partition.log_end_offset:
                # Its session's FETCHes confirm that, though they don't list the partition again.
                fetched_us, _ = state.fetched.get(follower.session, (0, NULL))
                follower.caught_up_us = max(follower.caught_up_us, fetched_us)
        number, state.batch_count = state.batch_count, state.batch_count + 1
        batch = state.batches[number] = Batch(
            rows.partition[row],
            base_offset,
            rows.record_bytes[row],
            rows.error_code[row],
            at_us,
            until_us + FOLLOWED_US_MAX,
            leadership.leads is not False,
            isr,
            min_isrs,
            [UNKNOWN] * len(requirements),
            [0] * len(min_isrs),
            [0] * len(min_isrs),
            [None] * len(min_isrs),
            led.blind,
            led.marked_us,
            NEVER if events.is_transactional[e] else NULL,
        )
        led.batches.append(number)
        if not is_appended or size == UNKNOWN:
            batch.until_us = at_us + SETTLE_US
        if not is_appended:
            partition.log_end_offset += base_offset == NULL
            return
        led.order(number, state.batches)
        heappush(state.deadlines, (until_us, number))
        if size != UNKNOWN:
            waits, met = partition.append(number, base_offset, size)
            batch.waits, at_once = waits + met, Moment(at_us, at_us, at_us, at_us)
            self._complete(led, [(number, position) for position in met], at_once)
            followers = partition.followers.values()
            if not partition.maximal_isr or any(f.log_end_offset > base_offset for f in followers):
                self._acknowledge(led, at_once)
        if leadership.leads is False:
            # It has not applied yet that it does not lead any more.
            partition.forget({number})
            batch.lose(at_us, 0)

    def _consumer_fetch(self, e: int) -> None:
        state, events, rows = self._state, self._events, self._rows
        some = range(events.first_row[e], events.first_row[e + 1])
        forgotten = {rows.partition[row] for row in some if rows.is_forgotten[row] == 1}
        listed = {rows.partition[row] for row in some if rows.is_forgotten[row] != 1}
        session_id, built_us, is_full = events.session_id[e], events.built_us[e], events.is_full[e]
        is_parked = built_us - events.at_us[e] > AT_ONCE_US and events.min_bytes[e] <= ENOUGH_BYTES
        until_us = built_us if is_parked else NULL
        state.consumers.fetch(session_id, listed, forgotten, is_full == 1, until_us)

    def _facts(self, e: int, kind: str) -> None:
        """METADATA or ALTER_PARTITION: ISRs and leaders."""
        state, at_us = self._state, self._events.at_us[e]
        is_active = kind != Kind.METADATA or state.brokers.is_active(self._events.replica_id[e])
        for place, fact in self._increment.facts(e, is_active=is_active):
            led = self._led(place, at_us)
            if led.leadership.take(at_us, kind, fact):
                self._acknowledge(led, Moment(at_us, at_us, at_us, at_us))
                if kind == Kind.METADATA:
                    led.leadership.name_leader(at_us, fact)
            self._lose(led, at_us)

    def _lose(self, led: Led, at_us: int, now_us: int | None = None) -> None:
        """What a change of the leadership means for batches that wait; ``now_us``: it shows."""
        loss, led.leadership.loss = led.leadership.loss, 0
        if loss:
            led.leadership.partition.forget({*led.batches})
            # Of those that are complete too: what shows a loss may come after it.
            for batch in map(self._state.batches.__getitem__, led.batches):
                if now_us is None or not batch.is_final(now_us):
                    batch.note_missing(led.leadership.partition)
                    batch.lose(at_us, loss)

    def _contradict(self, led: Led, since_us: int, now_us: int) -> None:
        """A follower's offset goes back: this FETCH is wrong, or the one before."""
        led.leadership.loss = CONTRADICTED
        self._lose(led, since_us, now_us)
        led.leadership.partition.count_anew()

    def _take(self, event: Event) -> None:
        state, brokers = self._state, self._state.brokers
        match event.kind:
            case Kind.METADATA_FETCH:
                counts = partial(self._partitions_with, event.at_us)
                self._apply(brokers.metadata_fetch(event, counts))
                self._apply_configs(event.at_us)
            case Kind.HEARTBEAT:
                self._apply(brokers.heartbeat(event))
            case Kind.CONFIG:
                state.altered.append(event)
                self._apply_configs(event.at_us)
                if event.operation == PENDING:
                    self._sweep(event.at_us, Leadership.forget_waiting)
            case Kind.UNCERTAIN:
                self._forget_what_gaps_hide(event)

    def _min_isrs(self, topic: str) -> list[int]:
        in_force, variants = self._state.configs.of(topic), self._state.variants
        return [in_force if v.parameter == "none" else v.parameter_value for v in variants]

    def _apply_configs(self, at_us: int) -> None:
        """Take configs that were described, and those that were altered and are applied by now."""
        altered, self._state.altered = self._state.altered, []
        for event in altered:
            described = event.operation == "describe" or event.built_us is None
            if described or self._state.brokers.committed_after(event.built_us or 0):
                self._state.configs.take(event)
                self._reconfigure(at_us, event.name)
            else:
                self._state.altered.append(event)

    def _reconfigure(self, at_us: int, topic: str | None = None) -> None:
        """min.insync.replicas of a topic may be another one; of all without a name."""
        for led in self._state.led.values():
            if topic and topic != led.topic:
                continue
            partition = led.leadership.partition
            wanted = [k for k in self._min_isrs(led.topic) for _ in range(2)]
            if wanted != [one.min_isr for one in partition.requirements]:
                partition.configure(wanted)
                self._acknowledge(led, Moment(at_us, at_us, at_us, at_us))

    def _apply(self, changes: Iterable[Applied]) -> None:
        """Brokers were fenced, stopped or came back: every ISR may be another one."""
        state, brokers = self._state, self._state.brokers
        for at_us, broker, standing in changes:
            if standing is not Standing.UNFENCED:
                if at_us - SILENCE_US <= state.uncertain_us:
                    self._sweep(at_us, partial(Leadership.hold, broker_id=broker))
                inactive = frozenset(one for one in brokers.decided if not brokers.is_active(one))
                change = partial(Leadership.take_out, broker_id=broker, inactive=inactive)
                self._sweep(at_us, change, at_us + APPLY_US_MAX)

    def _sweep(
        self, at_us: int, change: Change, latest_us: int = NULL, which: Sequence[Led] | None = None
    ) -> None:
        """Something happens to partitions; it takes effect at ``latest_us`` at the latest."""
        moment = Moment(at_us, at_us, at_us, max(at_us, latest_us))
        for led in self._state.led.values() if which is None else which:
            if change(led.leadership, at_us):
                self._acknowledge(led, moment)
            self._lose(led, at_us)

    def _forget_what_gaps_hide(self, event: Event) -> None:
        """What depends on lines that are missing is not known from here on."""
        state, at_us, follower = self._state, event.at_us, event.replica_id
        if event.name == "configs":
            state.configs.forget()
            self._reconfigure(at_us)
            self._sweep(at_us, Leadership.forget_waiting)
        elif follower is None:
            if event.name == "own log":
                state.own_us = max(state.own_us, event.built_us or 0)
            else:
                state.uncertain_us = max(state.uncertain_us, event.built_us or 0)
            self._sweep(at_us, Leadership.may_lead)
        else:
            state.absent.add(follower)
            state.brokers.miss(follower)
            some = [one for one in state.led.values() if one.leadership.knows(follower)]
            miss = partial(Leadership.miss, follower=follower)
            self._sweep((event.received_us or 0) - STOPPING_US, miss, which=some)

    def _partitions_with(self, at_us: int, broker: int) -> int:
        known = (one for one in self._state.led.values() if one.seen_us >= at_us - SILENT_US)
        return sum(broker in (one.leadership.isr or ()) for one in known)

    def _emitted(self, *, over: bool) -> pa.RecordBatch:
        state, batches, front_us = self._state, self._state.batches, self._state.front[0]
        done: list[Request] = []
        still: list[Request] = []
        for request in state.requests:
            some = map(batches.__getitem__, range(request.first, request.end))
            is_done = over or all(one.is_final(front_us) for one in some)
            (done if is_done else still).append(request)
        if not done:
            return _NO_ROWS
        left = {number: batches.pop(number) for one in done for number in range(one.first, one.end)}
        gone, doubts = list(left.values()), state.brokers.doubts
        known = Finalized(done, gone, state.moments, front_us, doubts, self._gaps)
        of_batches = [state.led[batch.partition] for batch in gone]
        rows = rows_of(known, state.node_id, state.variants, of_batches)
        for led in (state.led[position] for position in {batch.partition for batch in gone}):
            led.leadership.partition.forget(left)
            led.forget(batches)
        needed = {moment for batch in batches.values() for moment in batch.completed}
        state.moments = {one: state.moments[one] for one in sorted(needed - {UNKNOWN})}
        state.requests = still
        state.deadlines = [entry for entry in state.deadlines if entry[1] in batches]
        heapify(state.deadlines)
        oldest_us = min((one.appended_us for one in batches.values()), default=front_us)
        brokers = state.brokers
        brokers.doubts = [one for one in brokers.doubts if one.until_us >= oldest_us]
        return rows
