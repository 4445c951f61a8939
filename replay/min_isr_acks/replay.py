"""The whole replay of min_isr_acks: one leader's log in, outcomes out, and its state in between."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..outcomes import Variant
from .brokers import Applied, Standing
from .events import INPUT_SCHEMA, SILENCE_US, Event, Kind
from .holes import NO_HOLES, STOPPING_US, Holes, Moment, What
from .increment import Increment, Sweeping
from .inputs import FETCH, METADATA, PRODUCE, check_order, parts_of, single_events
from .leadership import APPLY_US_MAX, UNKNOWN_MIN_ISR, Change, Isr, Leadership
from .levels import conditions_of
from .log import ALL, NULL, Array
from .rows import emitted
from .settling import settled_of
from .state import REQUEST_COLUMNS, resumed, saved, started
from .tables import ACKS_SCHEMA

_NO_EVENTS = pa.RecordBatch.from_pylist([], schema=INPUT_SCHEMA)
_NO_ROWS = pa.RecordBatch.from_pylist([], schema=ACKS_SCHEMA)


class Outcomes(NamedTuple):
    """What a replay emits: rows of produce_ack_outcomes, all columns but the recording."""

    acks: pa.RecordBatch


class MinIsrAcks:
    """The replay of one node's log: feed it events of ``INPUT_SCHEMA``.

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
        holes: Holes = NO_HOLES,
    ) -> None:
        self._holes = holes
        if saved is None:
            self._state = started(node_id, list(rules), default_min_isr)
        else:
            self._state = resumed(saved)

    def saved(self) -> bytes:
        return saved(self._state)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take an increment and return the outcomes that nothing still to come can change."""
        names = batch.select(["name", "value"]).filter(pc.equal(batch["kind"], Kind.TOPIC.value))
        values, topics = names["value"].to_pylist(), names["name"].to_pylist()
        self._state.topics.named.update(zip(values, topics, strict=True))
        emitted = [self._feed(part) for part in parts_of(batch)]
        return Outcomes(pa.concat_batches(emitted or [_NO_ROWS]))

    def _feed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        state, singles = self._state, single_events(batch)
        self._begin(batch)
        increment, events = self._increment, self._increment.events
        front_us = state.front.at_us
        state.front = check_order(batch, events, state.front)
        increment.note_consumers(state.consumers, len(state.topics.partitions))
        taken = dict(singles)
        moments = self._holes.moments(events, front_us, state.seen)
        places = {*np.flatnonzero(events.kind == METADATA).tolist()}
        for self._place in sorted({*taken, *places, *(one.place for one in moments)}):
            while moments and moments[0].place == self._place:
                self._doubt(moments.pop(0))
            if self._place in taken:
                self._take(taken[self._place])
            elif self._place in places:
                node = int(events.replica_id[self._place])
                increment.is_active[self._place] = state.brokers.is_active(node)
        self._follow(batch.num_rows)
        requests = batch.select(REQUEST_COLUMNS).filter(pa.array(events.kind == PRODUCE))
        state.window.requests.append(requests)
        state.window.fetches.append(increment.fetches())
        state.order += batch.num_rows
        return self._emitted(over=False) if state.window.is_due else _NO_ROWS

    def finish(self) -> Outcomes:
        self._begin(_NO_EVENTS)
        self._place = 0
        self._apply(self._state.brokers.close())
        self._follow(0)
        return Outcomes(self._emitted(over=True))

    def _begin(self, batch: pa.RecordBatch) -> None:
        state = self._state
        requests = sum(one.num_rows for one in state.window.requests)
        self._increment = Increment(batch, state.topics, state.order, requests)
        topics = state.topics.of_partitions()[len(state.leaderships.all) :]
        state.leaderships.add([self._min_isrs(topic) for topic in topics])
        state.window.grow(len(state.leaderships.all))

    def _follow(self, end: int) -> None:
        state, part = self._state, self._increment.part(end, self._state.leaderships)
        if part is None:
            return
        log = part.log
        state.leaderships.follow(log, part.epochs, part.details, part.facts)
        conditions = conditions_of(state.leaderships.conditions, log.condition)
        state.appends.grow(*state.leaderships.brokers.shape)
        recent = [state.window.log, *state.window.more]
        of_rows = (conditions.term, conditions.leads, part.begun_us, part.is_transactional)
        state.appends.follow(log, *of_rows, recent, self._holes.own)
        is_listed = (log.kind == FETCH) & (log.offset != NULL)
        state.window.more.append(log.at(is_listed | (log.kind == PRODUCE) | (log.kind == ALL)))

    def _take(self, event: Event) -> None:
        brokers = self._state.brokers
        match event.kind:
            case Kind.METADATA_FETCH:
                self._apply(brokers.metadata_fetch(event, self._partitions_with))
                self._apply_configs(event.at_us)
                has_risen = self._state.seen.metadata_fetch(event)
                if has_risen and self._holes.quiet_since(self._state.seen):
                    self._believe(event.at_us)
            case Kind.HEARTBEAT:
                if self._holes.hide_heartbeats(event, self._state.seen):
                    event = event._replace(operation=None)
                self._apply(brokers.heartbeat(event))
            case Kind.CONFIG:
                self._state.altered.append(event)
                self._apply_configs(event.at_us)
                is_open = event in self._state.altered
                if is_open and self._holes.hide_commit(event, self._state.seen):
                    self._state.configs.opened.append(event.name or "")
                    self._sweep_doubts(self._everywhere(), event.at_us, Leadership.doubt_outcomes)
                    self._reconfigure(event.at_us)

    def _min_isrs(self, topic: str) -> Isr:
        known = self._state.configs.of(topic)
        in_force = UNKNOWN_MIN_ISR if known is None else known
        variants = self._state.variants
        return tuple(in_force if v.parameter == "none" else v.parameter_value for v in variants)

    def _apply_configs(self, at_us: int) -> None:
        """Take configs that were described, and those that were altered and are applied by now."""
        altered, self._state.altered = self._state.altered, []
        for event in altered:
            described = event.operation == "describe" or event.built_us is None
            if described or self._state.brokers.committed_after(event.built_us or 0):
                self._configure(event, at_us)
            else:
                self._state.altered.append(event)

    def _configure(self, event: Event, at_us: int) -> None:
        """min.insync.replicas of a topic (no name: of all) may be another one."""
        topics = self._state.topics
        names = [event.name] if event.name in topics.names else [] if event.name else topics.names
        before = {name: self._min_isrs(name) for name in names}
        self._state.configs.take(event)
        for name in [one for one in names if self._min_isrs(one) != before[one]]:
            some = np.flatnonzero(np.array(topics.of_partitions(), object) == name)
            change = partial(Leadership.configure, min_isrs=self._min_isrs(name))
            self._sweep(some, at_us, at_us, change)

    def _apply(self, changes: Iterable[Applied]) -> None:
        """Brokers were fenced, stopped or came back: every ISR may be another one."""
        state, brokers = self._state, self._state.brokers
        for at_us, broker, standing in changes:
            self._note_standings()
            if standing is not Standing.UNFENCED:
                if self._holes.of_active(at_us - SILENCE_US, at_us, state.seen):
                    held = partial(Leadership.hold, broker_id=broker)
                    self._sweep_doubts(self._everywhere(), at_us, held)
                inactive = frozenset(one for one in brokers.decided if not brokers.is_active(one))
                change = partial(Leadership.take_out, broker_id=broker, inactive=inactive)
                self._sweep(self._everywhere(), at_us, at_us + APPLY_US_MAX, change)

    def _note_standings(self) -> None:
        brokers, window = self._state.brokers, self._state.window
        at = self._state.order + self._place
        standings = {
            one: (known is Standing.UNFENCED, brokers.epochs.get(one))
            for one, known in brokers.standings.items()
        }
        window.standings = [one for one in window.standings if one[0] != at] + [(at, standings)]

    def _sweep(self, some: Array, at_us: int, latest_us: int, change: Change) -> None:
        self._increment.sweeping.append(Sweeping(self._place, some, at_us, latest_us, change))

    def _doubt(self, moment: Moment) -> None:
        """What depends on lines that are missing is not known from here on (``holes``)."""
        state, (_, what, follower, since_us) = self._state, moment
        at_us = int(self._increment.events.at_us[self._place]) - 1
        some = self._everywhere()
        change: Change = Leadership.doubt_loss
        if what is What.CONFIGURED:
            state.configs.doubt()
            self._reconfigure(at_us)
            change = Leadership.doubt_outcomes
        elif what is What.RETURNED:
            change = partial(Leadership.find, follower=follower)
        elif what is not What.ELECTED:
            is_of_active = self._holes.of_active(since_us - SILENCE_US, at_us, state.seen)
            if what is not What.JOINING and not is_of_active:
                return
            self._follow(self._place)
            is_absent, every = what is What.ABSENT, state.leaderships.all
            some = np.flatnonzero(
                [one.knows(follower) if is_absent else one.may_add(follower) for one in every]
            )
            change = Leadership.doubt if what is What.JOINED else Leadership.doubt_outcomes
            at_us = since_us if what is What.JOINING else at_us
        if what is What.ABSENT:
            at_us = since_us - STOPPING_US
            change = partial(Leadership.miss, follower=follower)
            state.brokers.miss(follower)
            self._note_standings()
        self._sweep_doubts(some, at_us, change)

    def _everywhere(self) -> Array:
        return np.arange(len(self._state.leaderships.all))

    def _sweep_doubts(self, some: Array, at_us: int, change: Change) -> None:
        # Before the event that shows it.
        self._increment.sweeping.append(Sweeping(self._place - 1, some, at_us, at_us, change))

    def _believe(self, at_us: int) -> None:
        """A hole was quiet: all is as it was."""
        self._state.configs.believe()
        self._sweep(self._everywhere(), at_us, at_us, Leadership.believe)
        self._reconfigure(at_us)

    def _reconfigure(self, at_us: int) -> None:
        topics = np.array(self._state.topics.of_partitions(), object)
        for name in self._state.topics.names:
            change = partial(Leadership.configure, min_isrs=self._min_isrs(name))
            self._sweep(np.flatnonzero(topics == name), at_us, at_us, change)

    def _partitions_with(self, broker: int) -> int:
        self._follow(self._place)
        return sum(broker in (one.isr or ()) for one in self._state.leaderships.all)

    def _emitted(self, *, over: bool) -> pa.RecordBatch:
        state = self._state
        if not any(len(one.order) for one in (state.window.log, *state.window.more)):
            state.window.requests, state.window.fetches = [], []
            return _NO_ROWS
        view = state.window.view(state.leaderships)
        settled = settled_of(view, state, self._holes.own, over=over)
        rows = emitted(state, settled) if len(settled.rows) else _NO_ROWS
        state.appends.forget(settled.log)
        state.window.fold(view, settled.rows)
        state.leaderships.compact(state.window.log)
        oldest_us = int(state.window.log.at_us.min(initial=state.front.at_us))
        doubts = state.brokers.doubts
        state.brokers.doubts = [one for one in doubts if one.until_us >= oldest_us]
        return rows
