"""min_isr_acks with producers that react: a leader's log in, outcomes of the other cluster out.

The replay of each PRODUCE as it arrived (``replay``) gives its ISR and min.insync.replicas; the
loops run ``LOOKAHEAD_US`` behind the log, so that what they take of it does not depend on how it is
cut into increments.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..outcomes import Rows, Variant, Verdict
from ..rule import Replay
from .closed_loop import OWN_US, Alone, ClosedLoop, Produce, Recorded, Response, Sent
from .events import Kind
from .follower_cycles import LOOKAHEAD_US, PAUSE_US, Cycles
from .reasons import LOG_ENDED, NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER
from .tables import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, PRODUCE_CLOSED_LOOP_OUTCOMES, RULE

_SCHEMA = PRODUCE_CLOSED_LOOP_OUTCOMES.without("recording")
#: Every loop: a variant, and when its producers sent.
_LOOPS = [(v, sent) for v in (ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS) for sent in Sent]
_EVENT_COLUMNS = (
    *("at_us", "kind", "request_id", "received_us", "dequeued_us", "handled_us", "built_us"),
    *("replica_id", "client_id", "acks", "connection"),
)
_REFUSED = (NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER)
#: When the last replica that counts had a batch, by rule.
_ACKED_AT = {"acks_all": "all_isr_acked_at", "min_isr": "min_isr_acked_at"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OUTCOME_COLUMNS = (
    *_ACKED_AT.values(),
    *("request_id", "isr", "min_insync_replicas", "reason", "acks_all_error", "min_isr_error"),
    *("request_acks_all_latency_ms", "request_min_isr_latency_ms"),
)
#: Columns of a PRODUCE that are carried as they are.
_AS_LOGGED = ("request_id", "client_id", "connection", "acks", "dequeued_us", "built_us")


class _Last(msgspec.Struct, array_like=True):
    received_us: int
    built_us: int | None

    @property
    def until_us(self) -> int:
        return self.received_us if self.built_us is None else self.built_us


class _State(msgspec.Struct, array_like=True):
    """All that is carried: what the log showed, and a loop for each variant and ``Sent``."""

    loops: list[ClosedLoop]
    cycles: dict[int, Cycles] = {}
    last: dict[str, _Last] = {}
    waiting: list[Recorded] = []
    known: dict[str, list[dict[str, Any]]] = {}
    responses: dict[int, tuple[Produce, list[Response | None]]] = {}
    number: int = 0
    now_us: int = 0
    own_handling_us: int = 0
    held_back_us: int = -1


class ProducersReact:
    """The replay of one leader with producers that react, beside the one of what each would wait.

    ``feed`` and ``finish`` return the batches of both tables. ``saved`` is what a replay of the
    same node returned at the end of the increment before. ``open_loop`` starts the other replay
    from its part of that.
    """

    def __init__(
        self, node_id: int, open_loop: Callable[[bytes | None], Replay], saved: bytes | None = None
    ) -> None:
        self._node_id = node_id
        self._rows = Rows(_SCHEMA)
        if saved is None:
            self._open_loop = open_loop(None)
            self._state = _State([ClosedLoop(name == ACKS_ALL, sent) for name, sent in _LOOPS])
            return
        of_open_loop, state = msgspec.msgpack.decode(saved, type=tuple[bytes, bytes])
        self._open_loop = open_loop(of_open_loop)
        self._state = msgspec.msgpack.decode(state, type=_State)

    def saved(self) -> bytes:
        state = msgspec.msgpack.encode(self._state)
        return msgspec.msgpack.encode((self._open_loop.saved(), state))

    def feed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Take an increment and return the outcomes that nothing still to come can change."""
        (acks,) = self._open_loop.feed(batch)
        self._know(acks)
        for event in _rows_of(batch):
            if event["kind"] == Kind.FETCH:
                self._fetched(event)
            else:
                self._produced(event)
        self._add_known()
        until_us = min([self._state.now_us, *(one.dequeued_us for one in self._state.waiting[:1])])
        self._advance(until_us - LOOKAHEAD_US)
        return acks, self._rows.take()

    def finish(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        (acks,) = self._open_loop.finish()
        self._know(acks)
        self._add_known()
        self._advance(self._state.now_us)
        for produce, responses in self._state.responses.values():
            self._emit(produce, responses)
        self._state.responses = {}
        return acks, self._rows.take()

    def _fetched(self, event: dict[str, Any]) -> None:
        state, replica_id, noted_us = self._state, event["replica_id"], event["at_us"]
        state.now_us = noted_us
        cycles = state.cycles.get(replica_id)
        if cycles is None:
            cycles = state.cycles[replica_id] = Cycles()
            for loop in state.loops:
                loop.add_follower(replica_id, noted_us)
        built_us = event["built_us"]
        if built_us is not None:
            cycles.fetched(noted_us, event["handled_us"], built_us, state.held_back_us)

    def _produced(self, event: dict[str, Any]) -> None:
        state, dequeued_us = self._state, event["dequeued_us"]
        state.now_us = event["at_us"]
        if not event["partitions"]:
            return
        state.number += 1
        # Loops are so far behind the log: nothing arrives before that.
        received_us = max(event["received_us"], dequeued_us - LOOKAHEAD_US)
        last = state.last.get(event["connection"])
        is_own = last is None or last.built_us is None or received_us - last.built_us > OWN_US
        handling_us = event["handled_us"] - event["received_us"]
        if is_own and handling_us <= PAUSE_US:
            state.own_handling_us = handling_us
        elif not is_own:
            handling_us = state.own_handling_us
            state.held_back_us = max(state.held_back_us, event["handled_us"])
        previous_us = received_us if last is None else last.received_us
        recorded = Recorded(
            number=state.number,
            received_us=received_us,
            previous_received_us=max(previous_us, dequeued_us - LOOKAHEAD_US),
            previous_built_us=None if last is None else last.built_us,
            handling_us=handling_us,
            is_own=is_own,
            partitions=event["partitions"],
            **{name: event[name] for name in _AS_LOGGED},
        )
        state.waiting.append(recorded)
        state.last[recorded.connection] = _Last(received_us, recorded.built_us)

    def _know(self, acks: pa.RecordBatch) -> None:
        """Outcomes of PRODUCEs as they arrived, with the min.insync.replicas in force."""
        in_force = acks.filter(pc.equal(acks.column("parameter"), "none"))
        for row in in_force.select(_OUTCOME_COLUMNS).to_pylist():
            self._state.known.setdefault(row["request_id"], []).append(row)

    def _add_known(self) -> None:
        """PRODUCEs in the log's order, up to the first whose outcome is not known yet."""
        state, added = self._state, 0
        for recorded in state.waiting:
            rows = state.known.get(recorded.request_id, [])
            if len(rows) < recorded.partitions:
                break
            added += 1
            del state.known[recorded.request_id]
            produce = _produce_of(recorded, rows, self._node_id)
            if produce.acks not in (0, 1):
                state.responses[produce.number] = produce, [None] * len(_LOOPS)
            for loop in state.loops:
                loop.add(produce)
        del state.waiting[:added]

    def _advance(self, until_us: int) -> None:
        state = self._state
        complete: set[int] = set()
        for place, loop in enumerate(state.loops):
            for number, response in loop.advance(state.cycles, until_us).items():
                if number in state.responses:
                    responses = state.responses[number][1]
                    responses[place] = response
                    if None not in responses:
                        complete.add(number)
        for number in sorted(complete):
            self._emit(*state.responses.pop(number))
        for cycles in state.cycles.values():
            cycles.forget(until_us)
        # What comes on a connection that long after its last response comes on its own.
        last = state.last.items()
        state.last = {name: one for name, one in last if one.until_us + OWN_US >= until_us}

    def _emit(self, produce: Produce, responses: Sequence[Response | None]) -> None:
        for first in range(0, len(_LOOPS), len(Sent)):
            earliest, estimate, latest = responses[first : first + len(Sent)]
            reason = produce.reason or (LOG_ENDED if estimate is None else None)
            known = reason is None
            self._rows.add(
                **Variant(_LOOPS[first][0]).what_if(RULE),
                request_id=produce.request_id,
                node_id=self._node_id,
                client_id=produce.client_id,
                is_own=produce.is_own,
                recorded_received_at=produce.received_us,
                request_recorded_latency_ms=_recorded_ms(produce),
                received_at=estimate.arrived_us if known and estimate else None,
                latency_ms=_latency_ms(estimate) if known else None,
                latency_sent_earliest_ms=_latency_ms(earliest) if known else None,
                latency_sent_latest_ms=_latency_ms(latest) if known else None,
                error_code=estimate.error if known and estimate else None,
                verdict=Verdict.REPLAYED if known else Verdict.UNKNOWN,
                reason=reason,
            )


def _rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """PRODUCEs and followers' FETCHes of an increment, ``partitions`` as their number."""
    kinds = pc.is_in(batch.column("kind"), pa.array([Kind.FETCH, Kind.PRODUCE]))
    rows = batch.filter(kinds)
    numbers = pc.list_value_length(rows.column("partitions"))
    wanted = rows.select(_EVENT_COLUMNS).append_column("partitions", numbers)
    events: list[dict[str, Any]] = wanted.to_pylist()
    return events


def _produce_of(recorded: Recorded, rows: Sequence[Mapping[str, Any]], node_id: int) -> Produce:
    reason = next((row["reason"] for row in rows if row["reason"] is not None), None)
    # Refused, or the leader was lost: no follower acknowledges it.
    refused = any(row["min_isr_error"] in _REFUSED for row in rows)
    is_known = reason is None and all(row["isr"] is not None for row in rows)
    recorded_us = (recorded.built_us or recorded.received_us) - recorded.received_us

    def alone(name: str) -> Alone:
        latency_ms = rows[0][f"request_{name}_latency_ms"]
        if not is_known or latency_ms is None:
            return Alone(recorded_us, None)
        errors = (row[f"{name}_error"] for row in rows)
        acked = [row[_ACKED_AT[name]] for row in rows]
        after_us = 0
        if None not in acked:
            acked_us = max(_micros(at) for at in acked) - recorded.received_us
            after_us = max(round(latency_ms * 1000) - max(acked_us, recorded.handling_us), 0)
        return Alone(round(latency_ms * 1000), max(error or 0 for error in errors), after_us)

    groups = [
        (tuple(one for one in row["isr"] if one != node_id), row["min_insync_replicas"] - 1)
        for row in rows
        if is_known
    ]
    return Produce(
        is_appended=is_known and not refused,
        groups=groups,
        acks_all=alone("acks_all"),
        acks_min_isr=alone("min_isr"),
        reason=reason,
        **msgspec.structs.asdict(recorded),
    )


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _recorded_ms(produce: Produce) -> float | None:
    built_us = produce.built_us
    return None if built_us is None else (built_us - produce.received_us) / 1000


def _latency_ms(response: Response | None) -> float | None:
    return None if response is None else (response.built_us - response.arrived_us) / 1000
