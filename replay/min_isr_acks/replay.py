"""The whole replay of min_isr_acks: one leader's log in, outcomes out, and its state in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from kip_replay.replay.min_isr_acks import memory, packing
from kip_replay.replay.min_isr_acks.brokers import Applied, Brokers, Standing
from kip_replay.replay.min_isr_acks.configs import MinIsrConfig
from kip_replay.replay.min_isr_acks.events import PROGRESS_US_MAX, Event, Kind
from kip_replay.replay.min_isr_acks.inputs import (
    CONSUMER_FETCH,
    FETCH,
    PRODUCE,
    TOPIC,
    Events,
    Interned,
    Rows,
    columns_of,
    is_in_order,
    lengths_of,
    partitions_of,
    rows_of,
    single_events,
)
from kip_replay.replay.min_isr_acks.leader_log import (
    are_seated,
    configure,
    follow,
    settle_all,
    take_out,
)
from kip_replay.replay.min_isr_acks.rows import Names, batch_of
from kip_replay.replay.min_isr_acks.settling import Written
from kip_replay.replay.min_isr_acks.state import BROKER, NULL, UNKNOWN_MIN_ISR, Array
from kip_replay.replay.min_isr_acks.topics import Topics
from kip_replay.replay.min_isr_acks.variants import ACKS_SCHEMA
from kip_replay.replay.outcomes import Variant

#: Of what ``saved`` returns: another one is another layout or meaning.
STATE_VERSION = 3
#: Partitions of events for which room is made at once, if one event has no more.
_ROWS_AT_ONCE = 16_384
#: Arrays are packed when they hold twice what they held when last packed, and this.
_PACKED_BYTES_MIN = 1 << 20


class Outcomes(NamedTuple):
    """What a replay emits: rows of produce_ack_outcomes, all columns but the recording."""

    acks: pa.RecordBatch


class MinIsrAcks:
    """The replay of one node's log: feed it events of ``INPUT_SCHEMA``.

    ``default_min_isr`` is min.insync.replicas where the log has none (manifest), or None.
    Events come in order of (at_us, kind_order, request_id), but names of topics at any time;
    anything else raises ``ValueError``. ``saved`` is what a replay of the same node and rules
    returned at the end of the increment before; raises ``ValueError`` if it is of another version.

    The volume (PRODUCEs, FETCHes, ISRs and leaders) goes through compiled functions over arrays
    (``leader_log``), what is about brokers and configs comes one by one.
    """

    def __init__(
        self,
        node_id: int,
        rules: Sequence[Variant],
        default_min_isr: int | None = None,
        saved: bytes | None = None,
    ) -> None:
        self._node_id = node_id
        self._variants = list(rules)
        self._configs = MinIsrConfig(default_min_isr)
        self._altered: list[Event] = []
        self._topics = Topics()
        self._brokers = Brokers(self._partitions_with)
        self._sets = Interned()
        self._consumers = Interned()
        self._sessions = Interned()
        self._state = memory.empty_state(node_id, len(self._variants))
        self._texts = {name: pa.array([], pa.string()) for name in ("request_id", "client_id")}
        self._out = _written(0)
        self._written: list[Written] = []
        self._front: tuple[int, int, str] = (-1, 0, "")
        self._packed_bytes = 0
        #: Some batch had no base offset: others may have been appended before or after it.
        self._may_rival = False
        if saved is not None:
            self._start_from(saved)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take an increment and return the outcomes that nothing still to come can change."""
        lengths = lengths_of(batch)
        events = columns_of(batch, lengths)
        self._check_order(batch, events)
        singles = single_events(batch, events.kind)
        for _, event in singles:
            if event.kind == Kind.TOPIC:
                self._topics.name(event.value or "", event.name or "")
        rows = self._rows(batch, events.kind, lengths)
        self._intern(batch, events)
        while not are_seated(self._state, events, rows):
            self._state = memory.with_more_seats(self._state)
        begin = 0
        for place, event in singles:
            if not self._stands_alone(event):
                self._follow(events, rows, begin, place + 1)
                begin = place + 1
            self._take(event)
        self._follow(events, rows, begin, batch.num_rows)
        return self._emitted()

    def finish(self) -> Outcomes:
        """The log is over: return what is left."""
        self._apply(self._brokers.close())
        self._make_room(0, 0)
        settle_all(self._state, self._doubts(), self._out)
        self._gather()
        return self._emitted()

    # --- events ----------------------------------------------------------------------------------

    def _check_order(self, batch: pa.RecordBatch, events: Events) -> None:
        timed = np.flatnonzero(events.kind != TOPIC)
        if not len(timed):
            return
        first, last = (
            (
                int(events.at_us[at]),
                int(events.kind[at]),
                batch.column("request_id")[int(at)].as_py(),
            )
            for at in (timed[0], timed[-1])
        )
        if first < self._front or not is_in_order(batch, events):
            raise ValueError("events must come in order of at_us, kind_order, request_id")
        self._front = last

    def _rows(self, batch: pa.RecordBatch, kinds: Array, lengths: Array) -> Rows:
        """Partitions of the events; partitions that are new begin to be led."""
        columns = partitions_of(batch)
        known = len(self._topics.partitions)
        leader = self._topics.partitions_of(columns)
        new = self._topics.partitions.values[known:]
        if new:
            min_isrs = [self._min_isrs(self._topics.names.values[topic]) for topic, _ in new]
            self._state = memory.with_leaders(self._state, np.array(min_isrs, np.int64))
        rows = rows_of(columns, leader, self._sets)
        if not self._may_rival:
            of_produces = np.repeat(kinds == PRODUCE, lengths)
            self._may_rival = bool((rows.base_offset[of_produces] == NULL).any())
        self._state = memory.with_sets(self._state, self._sets.values)
        return rows

    def _intern(self, batch: pa.RecordBatch, events: Events) -> None:
        """Positions of sessions, and texts of the requests that will wait."""
        self._intern_sessions(events)
        self._intern_consumers(batch, events)
        is_produce = pa.array(events.kind == PRODUCE)
        for name, texts in self._texts.items():
            more = batch.column(name).filter(is_produce)
            self._texts[name] = pa.concat_arrays([texts, more])

    def _intern_sessions(self, events: Events) -> None:
        at = np.flatnonzero(events.kind == FETCH)
        pairs = zip(
            events.replica_id[at].tolist(),
            np.maximum(events.session_id[at], 0).tolist(),
            strict=True,
        )
        events.party[at] = [self._sessions.of(pair) for pair in pairs]
        known, wanted = len(self._state.last_fetch_us), len(self._sessions)
        last_fetch_us = memory.grown(self._state.last_fetch_us, known, wanted)
        self._state = self._state._replace(last_fetch_us=last_fetch_us)

    def _intern_consumers(self, batch: pa.RecordBatch, events: Events) -> None:
        """A session by its id, a FETCH without one by its request."""
        at = np.flatnonzero(events.kind == CONSUMER_FETCH)
        if not len(at):
            return
        known = len(self._consumers)
        requests = batch.column("request_id").take(pa.array(at)).to_pylist()
        sessions = events.session_id[at].tolist()
        events.party[at] = [
            self._consumers.of(session if session not in (0, NULL) else request)
            for session, request in zip(sessions, requests, strict=True)
        ]
        new = self._consumers.values[known:]
        self._state = memory.with_fetchers(self._state, [isinstance(one, int) for one in new])

    def _follow(self, events: Events, rows: Rows, begin: int, end: int) -> None:
        """Take events through the compiled rule, as many at a time as room is made for."""
        while begin < end:
            limit = events.first_row[begin] + _ROWS_AT_ONCE
            until = int(np.searchsorted(events.first_row[: end + 1], limit, "right")) - 1
            until = min(max(until, begin + 1), end, begin + _ROWS_AT_ONCE)
            taken = int(events.first_row[until] - events.first_row[begin])
            self._make_room(taken, until - begin)
            follow(self._state, events, rows, self._doubts(), self._out, begin, until)
            self._gather()
            begin = until

    def _stands_alone(self, event: Event) -> bool:
        """An event that changes nothing for partitions, nor depends on them: no need to stop."""
        if event.kind == Kind.METADATA_FETCH:
            return self._brokers.is_quiet and not self._altered
        return event.kind == Kind.TOPIC

    def _take(self, event: Event) -> None:
        match event.kind:
            case Kind.METADATA_FETCH:
                self._apply(self._brokers.metadata_fetch(event))
                self._apply_configs(event.at_us)
            case Kind.HEARTBEAT:
                self._apply(self._brokers.heartbeat(event))
                self._tell_brokers()
            case Kind.CONFIG:
                self._altered.append(event)
                self._apply_configs(event.at_us)

    def _min_isrs(self, topic: str) -> list[int]:
        known = self._configs.of(topic)
        in_force = UNKNOWN_MIN_ISR if known is None else known
        return [in_force if v.parameter == "none" else v.parameter_value for v in self._variants]

    def _apply_configs(self, at_us: int) -> None:
        """Take configs that were described, and those that were altered and are applied by now."""
        kept = []
        for event in self._altered:
            described = event.operation == "describe" or event.built_us is None
            if not described and not self._brokers.committed_after(event.built_us or 0):
                kept.append(event)
                continue
            self._configure(self._configs.take(event), at_us)
        self._altered = kept

    def _configure(self, changed: str, at_us: int) -> None:
        """min.insync.replicas of a topic (empty: of all) is another one."""
        self._make_room(len(self._topics.partitions), 0)
        for position, (topic, _) in enumerate(self._topics.partitions.values):
            name = self._topics.names.values[topic]
            if changed in ("", name):
                min_isrs = np.array(self._min_isrs(name), np.int64)
                configure(self._state, at_us, position, position + 1, min_isrs)

    def _apply(self, changes: Iterable[Applied]) -> None:
        """Brokers were fenced, stopped or came back: every ISR may be another one."""
        for at_us, broker, standing in changes:
            self._tell_brokers()
            if standing is Standing.UNFENCED:
                continue
            without = [
                self._sets.of(tuple(one for one in members if one != broker))
                for members in list(self._sets.values)
            ]
            others = [set(members) - {self._node_id} for members in self._sets.values]
            has_heir = [any(map(self._brokers.is_active, members)) for members in others]
            self._state = memory.with_sets(self._state, self._sets.values)
            self._make_room(len(self._topics.partitions), 0)
            take_out(self._state, at_us, broker, np.array(without), np.array(has_heir))

    def _tell_brokers(self) -> None:
        """Brokers' standings, as compiled functions look them up."""
        known = self._brokers
        ids = sorted({*known.standings, *known.epochs, *known.decided})
        table = np.zeros(len(ids), BROKER)
        for row, broker in zip(table, ids, strict=True):
            row["broker_id"], row["epoch"] = broker, known.epochs.get(broker, NULL)
            standing = known.standings.get(broker, Standing.UNFENCED)
            row["is_unfenced"] = standing is Standing.UNFENCED
            row["is_active"] = known.is_active(broker)
        self._state = self._state._replace(brokers=table)

    def _partitions_with(self, broker: int) -> int:
        having = [at for at, members in enumerate(self._sets.values) if broker in members]
        return int(np.isin(self._leaders()["isr"], having).sum())

    def _leaders(self) -> Array:
        return self._state.leaders[: self._state.used["leaders"][0]]

    def _doubts(self) -> Array:
        doubts = [(doubt.since_us, doubt.until_us) for doubt in self._brokers.doubts]
        return np.array(doubts, np.int64).reshape(-1, 2)

    # --- outcomes --------------------------------------------------------------------------------

    def _make_room(self, rows: int, requests: int) -> None:
        self._state = memory.with_room(self._state, rows, requests, may_rival=self._may_rival)
        most = len(self._variants) * (int(self._state.used["batches"][0]) + rows)
        if len(self._out.request) < most:
            self._out = _written(max(most, 2 * len(self._out.request)))

    def _gather(self) -> None:
        n = int(self._state.used["rows"][0])
        if n:
            self._written.append(Written(*(column[:n].copy() for column in self._out)))
            self._state.used["rows"] = 0

    def _emitted(self) -> Outcomes:
        if not self._written:
            rows = ACKS_SCHEMA.empty_table().to_batches() or [_no_rows()]
            self._pack_if_large()
            return Outcomes(rows[0])
        written = Written(*map(np.concatenate, zip(*self._written, strict=True)))
        self._written = []
        names = Names(self._texts, *self._topics.columns(), self._sets.values)
        rows = batch_of(self._node_id, self._variants, written, names)
        self._pack_if_large()
        return Outcomes(rows)

    # --- state -----------------------------------------------------------------------------------

    def saved(self) -> bytes:
        """All that it carries after what it was fed (MessagePack), to resume from."""
        self._pack()
        plain = {
            "version": STATE_VERSION,
            "node_id": self._node_id,
            "variants": [list(one) for one in self._variants],
            "front": self._front,
            "configs": self._configs.saved(),
            "altered": self._altered,
            "brokers": self._brokers.saved(),
            "topics": self._topics.saved(),
            "sets": self._sets.values,
            "consumers": self._consumers.values,
            "sessions": self._sessions.values,
            "may_rival": self._may_rival,
            "texts": {name: texts.to_pylist() for name, texts in self._texts.items()},
            "state": memory.to_plain(self._state),
        }
        return msgspec.msgpack.encode(plain)

    def _start_from(self, saved: bytes) -> None:
        plain: dict[str, Any] = msgspec.msgpack.decode(saved)
        if plain.get("version") != STATE_VERSION:
            raise ValueError(
                f"the saved state of min_isr_acks is of version {plain.get('version')}, this code"
                f" reads version {STATE_VERSION}: replay the recording from its beginning"
            )
        ours = [self._node_id, [list(one) for one in self._variants]]
        if [plain["node_id"], plain["variants"]] != ours:
            raise ValueError(
                "the saved state of min_isr_acks is of another node or of other values of"
                " min.insync.replicas: replay the recording from its beginning"
            )
        at_us, kind, request_id = plain["front"]
        self._front = (at_us, kind, request_id)
        self._configs.start_from(plain["configs"])
        self._altered = [Event(*event) for event in plain["altered"]]
        self._brokers.start_from(plain["brokers"])
        self._topics = Topics.of(plain["topics"])
        self._sets = Interned(map(tuple, plain["sets"]))
        self._consumers = Interned(plain["consumers"])
        self._sessions = Interned(map(tuple, plain["sessions"]))
        self._may_rival = plain["may_rival"]
        self._texts = {name: pa.array(texts, pa.string()) for name, texts in plain["texts"].items()}
        self._state = memory.from_plain(plain["state"])
        self._packed_bytes = memory.size_of(self._state)

    def _pack_if_large(self) -> None:
        if memory.size_of(self._state) > 2 * self._packed_bytes + _PACKED_BYTES_MIN:
            self._pack()

    def _pack(self) -> None:
        """Leave out what is settled, and the names of what only that had."""
        completed_us = int(self._state.used["front_us"][0]) - PROGRESS_US_MAX
        packed = packing.packed(self._state, completed_us)
        self._state = packed.state
        self._packed_bytes = memory.size_of(packed.state)
        kept = pa.array(packed.requests)
        self._texts = {name: texts.take(kept) for name, texts in self._texts.items()}
        self._consumers = Interned(self._consumers.values[at] for at in packed.fetchers)
        self._sessions = Interned(self._sessions.values[at] for at in packed.sessions)


def _written(n: int) -> Written:
    """Room for so many rows."""
    return Written(*np.empty((len(Written._fields), n), np.int64))


def _no_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in ACKS_SCHEMA], schema=ACKS_SCHEMA
    )


def replayed(replay: MinIsrAcks, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcomes]:
    """Feed all batches, then finish: the outcomes as they come."""
    for batch in batches:
        yield replay.feed(batch)
    yield replay.finish()
