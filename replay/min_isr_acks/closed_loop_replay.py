"""min_isr_acks with producers that react: a leader's log in, outcomes of the other cluster out.

The replay of each PRODUCE as it arrived (``replay``) gives its ISR and min.insync.replicas; the
loops run ``LOOKAHEAD_US`` behind the log, so that what they take of it does not depend on how it is
cut into increments.

A leader is slow until its JVM is warm. If responses come sooner, producers may send as many times
more. So of a leader that was cold to the end of its log a variant is unknown under which half of
its FETCHes or more may be of a warm one; what it takes at most stays. Rows are held back until
then.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..outcomes import Variant, Verdict, batch_of, made_unknown
from . import tables
from .closed_loop import LOOPS, OWN_US, Alone, ClosedLoop, Group, Logged, LoopState, Produce, Sent
from .events import NEVER, Kind
from .follower_cycles import LOOKAHEAD_US, PAUSE_US, Cycles
from .reasons import ACKS_0, COLD, LOG_ENDED, NONE, REQUEST_TIMED_OUT
from .replay import MinIsrAcks

#: Cycles of a follower until its leader is warm. They get shorter with their number, not with time
#: (in clusters of seven times the load as well), steeply up to the 300th, little from the 500th on.
WARM = 500
_SCHEMA = tables.PRODUCE_CLOSED_LOOP_OUTCOMES.without("recording")
_VARIANTS = (tables.ACKS_ALL, tables.ACKS_MIN_INSYNC_REPLICAS)
#: Errors of what was appended; with acks=0 there is none.
_APPENDED = (None, NONE, REQUEST_TIMED_OUT)
_WAITS = ("latency_ms", "request_recorded_latency_ms")
_PREDICTED = ("received_at", "latency_ms", "latency_sent_earliest_ms", "error_code")
#: Starts the replay of each PRODUCE as it arrived, from what it had saved.
OpenLoop = Callable[[bytes | None], MinIsrAcks]
_Row = tuple[Any, ...]


#: Columns of the replay of each partition as it arrived; times are read as microseconds.
_READ = (
    *("request_id", "reason", "isr", "min_insync_replicas", "appended_at"),
    *("all_isr_acked_at", "acks_all_error", "request_acks_all_latency_ms"),
    *("min_isr_acked_at", "min_isr_error", "request_min_isr_latency_ms"),
)
_OUTCOME = pa.schema(
    tables.ACKS_SCHEMA.field(name).with_type(pa.int64())
    if name.endswith("_at")
    else tables.ACKS_SCHEMA.field(name)
    for name in _READ
)
_Outcome = dict[str, Any]


class _State(msgspec.Struct, array_like=True):
    """All that is carried.

    ``known``: outcomes by request id. ``waiting``: PRODUCEs that have none yet. ``last``: the last
    one of each connection. ``held``: rows of a leader that is not warm yet.
    """

    loops: list[LoopState]
    cycles: dict[int, Cycles] = {}
    last: dict[str, int] = {}
    waiting: list[int] = []
    known: dict[str, list[_Outcome]] = {}
    groups: list[Group] = []
    produces: dict[int, Produce] = {}
    held: list[_Row] = []
    number: int = 0
    now_us: int = 0
    own_handling_us: int = 0
    held_back_handling_us: int = 0
    held_back_us: tuple[int, int] = (-1, -1)


class ProducersReact:
    """The replay of one leader with producers that react, beside that of each PRODUCE alone."""

    def __init__(
        self,
        node_id: int,
        open_loop: Callable[[bytes | None], MinIsrAcks],
        saved: bytes | None = None,
    ) -> None:
        self._node_id = node_id
        of_open_loop, self._state = None, _State([LoopState() for _ in LOOPS])
        if saved:
            of_open_loop, self._state = msgspec.msgpack.decode(saved, type=tuple[bytes, _State])
        self._open_loop, state = open_loop(of_open_loop), self._state
        of_log = state.produces, state.cycles, state.groups
        self._loops = [ClosedLoop(place, *of_log, one) for place, one in enumerate(state.loops)]

    def saved(self) -> bytes:
        return msgspec.msgpack.encode((self._open_loop.saved(), self._state))

    def feed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Take an increment and return the outcomes that nothing still to come can change."""
        gc.disable()  # Nothing here is a cycle, and looking for them takes a third of the time.
        try:
            return self._feed(batch)
        finally:
            gc.enable()

    def _feed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        acks = self._open_loop.feed(batch)
        self._know(acks)
        for line in _lines_of(batch):
            self._state.now_us = line.at_us
            if line.replica_id is not None:
                self._fetched(line, line.replica_id)
            elif line.partitions:
                self._produced(line)
        self._add_known()
        state = self._state
        first = (state.produces[number].line.dequeued_us for number in state.waiting[:1])
        until_us = min([state.now_us, *first])
        self._advance(until_us - LOOKAHEAD_US)
        rows: list[_Row] = []
        if any(cycles.number >= WARM for cycles in state.cycles.values()):
            rows, state.held = state.held, []
        return acks, batch_of(rows, _SCHEMA)

    def finish(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        acks = self._open_loop.finish()
        self._know(acks)
        self._add_known()
        state = self._state
        self._advance(state.now_us)
        for produce in state.produces.values():
            if produce.left:
                self._emit(produce)
        rows, state.held = state.held, []
        fetches = max((cycles.number for cycles in state.cycles.values()), default=0)
        return acks, _without_cold(batch_of(rows, _SCHEMA), fetches)

    def _fetched(self, line: Logged, replica_id: int) -> None:
        state, noted_us = self._state, line.at_us
        if replica_id not in state.cycles:
            state.cycles[replica_id] = Cycles()
            for loop in self._loops:
                loop.add_follower(replica_id, noted_us)
        if line.built_us is not None:
            burst_us = min(state.held_back_us)
            state.cycles[replica_id].fetched(noted_us, line.handled_us, line.built_us, burst_us)

    def _produced(self, line: Logged) -> None:
        state = self._state
        state.number += 1
        handling_us = line.handled_us - line.received_us
        # Loops are so far behind the log: nothing arrives before that.
        since_us = line.dequeued_us - LOOKAHEAD_US
        received_us = max(line.received_us, since_us)
        produce = Produce(line, state.number, received_us, sent_us=(received_us,) * 3)
        produce.previous = state.last.get(line.connection, 0)
        last = state.produces.get(produce.previous)
        free_us = None if last is None else last.line.built_us
        # Behind a response it is not handled faster than on its own.
        if last is None or free_us is None or received_us - free_us > OWN_US:
            if handling_us <= PAUSE_US:
                state.own_handling_us = handling_us
            produce.handling_us = handling_us, max(state.held_back_handling_us, handling_us)
        else:
            if handling_us <= PAUSE_US:
                state.held_back_handling_us = handling_us
            handling_us = state.held_back_handling_us
            produce.handling_us = min(state.own_handling_us, handling_us), handling_us
            state.held_back_us = (state.held_back_us[1], line.handled_us)
            produce.is_own = False
            produce.turnaround_us = max(received_us - free_us, 0)
            until_us = min(free_us, received_us)
            earliest_us, sent_us, _ = (max(min(us, until_us), since_us) for us in last.sent_us)
            # Spread evenly and the same in every run: multiples of the golden ratio.
            share = state.number * 2_654_435_769 % 2**32 / 2**32
            sent_us += int(max(until_us - sent_us, 0) * share)
            produce.sent_us = earliest_us, sent_us, received_us
        state.last[line.connection] = state.number
        state.produces[state.number] = produce
        state.waiting.append(state.number)

    def _know(self, acks: pa.RecordBatch) -> None:
        """Outcomes of PRODUCEs as they arrived, with the min.insync.replicas in force."""
        in_force = acks.filter(pc.equal(acks.column("parameter"), "none"))
        for row in in_force.select(_OUTCOME.names).cast(_OUTCOME).to_pylist():
            self._state.known.setdefault(row.pop("request_id"), []).append(row)

    def _add_known(self) -> None:
        """PRODUCEs in the log's order, up to the first whose outcome is not known yet."""
        state, added = self._state, 0
        for number in state.waiting:
            produce = state.produces[number]
            outcomes = state.known.get(produce.line.request_id, [])
            if len(outcomes) < (produce.line.partitions or 0):
                break
            added += 1
            del state.known[produce.line.request_id]
            self._complete(produce, outcomes)
            previous = state.produces.get(produce.previous)
            if previous is not None:
                previous.next = produce.number
            for loop in self._loops:
                loop.add(produce, previous)
        del state.waiting[:added]

    def _complete(self, produce: Produce, outcomes: Sequence[_Outcome]) -> None:
        """What the replay of a PRODUCE alone tells of it."""
        appended_us, produce.groups = produce.line.handled_us, ([], [])
        # With acks=0 it is appended all the same, and wakes followers.
        reasons = (one["reason"] for one in outcomes)
        produce.reason = next((one for one in reasons if one not in (None, ACKS_0)), None)
        needed = [one["isr"] for one in outcomes if one["min_isr_error"] in _APPENDED]
        is_known = produce.reason is None and all(needed)
        produce.is_appended = is_known
        for one in outcomes if is_known else ():
            isr = one["isr"] or ()
            replicas = tuple([replica for replica in isr if replica != self._node_id])
            produce.followers += tuple([one for one in replicas if one not in produce.followers])
            min_isr_followers = (one["min_insync_replicas"] or 0) - 1
            if produce.waits:
                self._add_group((replicas, len(replicas)), produce.groups[0])
                self._add_group((replicas, min_isr_followers), produce.groups[1])
            # Refused, or the leader was lost: no follower acknowledges it.
            if one["min_isr_error"] not in _APPENDED or min_isr_followers > len(replicas):
                produce.is_appended = False
            appended_us = max(appended_us, one["appended_at"] or 0)
        if appended_us > produce.line.handled_us:
            # Of a transaction: its coordinator is asked first, and no handler waits for that.
            produce.append_us = appended_us - produce.received_us
        known = outcomes if is_known else []
        all_isr = _alone(produce, known, "acks_all", "all_isr_acked_at")
        produce.alone = all_isr, _alone(produce, known, "min_isr", "min_isr_acked_at")

    def _add_group(self, group: Group, groups: list[int]) -> None:
        known = self._state.groups
        if group not in known:
            known.append(group)
        if group[1] > 0 and known.index(group) not in groups:
            groups.append(known.index(group))

    def _advance(self, until_us: int) -> None:
        state = self._state
        for loop in self._loops:
            loop.advance(until_us)
        for produce in list(state.produces.values()):
            if produce.left:
                continue
            if not produce.is_emitted:
                self._emit(produce)
            # What is sent from now on arrives later than that by itself, here and in the log.
            built_us = max(produce.line.built_us or 0, *(run.built_us for run in produce.runs))
            if built_us + OWN_US < until_us:
                del state.produces[produce.number]
        for cycles in state.cycles.values():
            cycles.forget(until_us)
        last = state.last.items()
        state.last = {connection: number for connection, number in last if number in state.produces}

    def _emit(self, produce: Produce) -> None:
        produce.is_emitted, line, received_us = True, produce.line, produce.received_us
        for variant, first in zip(_VARIANTS, (0, len(Sent)), strict=True):
            if not produce.waits:
                break
            earliest, run, latest = produce.runs[first : first + len(Sent)]
            recorded_ms = None if line.built_us is None else (line.built_us - received_us) / 1000
            reason = produce.reason or (LOG_ENDED if run.built_us < 0 else None)
            arrived_us, verdict = None, Verdict.UNKNOWN
            outcome: _Row = (None,) * 4
            if reason is None:
                runs = (run, earliest, latest)
                waits = (
                    None if o.built_us < 0 else (o.built_us - o.arrived_us) / 1000 for o in runs
                )
                arrived_us, verdict, outcome = run.arrived_us, Verdict.REPLAYED, (*waits, run.error)
            of_line = (line.request_id, self._node_id, line.client_id, produce.is_own, received_us)
            what_if = Variant(variant).what_if(tables.RULE).values()
            row = (*what_if, *of_line, arrived_us, recorded_ms, *outcome, verdict, reason)
            self._state.held.append(row)


def _lines_of(batch: pa.RecordBatch) -> Iterator[Logged]:
    """PRODUCEs and followers' FETCHes of an increment."""
    rows = batch.filter(pc.is_in(batch.column("kind"), pa.array([Kind.FETCH, Kind.PRODUCE])))
    numbers = pc.list_value_length(rows.column("partitions"))
    columns = [*(rows.column(name) for name in Logged._fields[:-1]), numbers]
    return map(Logged._make, zip(*(column.to_pylist() for column in columns), strict=True))


def _alone(produce: Produce, outcomes: Sequence[_Outcome], rule: str, acked_at: str) -> Alone:
    """The response under one rule; as recorded where that is unknown."""
    line, received_us = produce.line, produce.received_us
    latency_ms = outcomes[0][f"request_{rule}_latency_ms"] if outcomes else None
    if latency_ms is None:
        return Alone((line.built_us or received_us) - received_us, None)
    latency_us = round(latency_ms * 1000)
    acked_us = max(line.handled_us, *(one[acked_at] or NEVER for one in outcomes))
    error = max(one[f"{rule}_error"] or 0 for one in outcomes)
    return Alone(latency_us, error, max(latency_us - (acked_us - received_us), 0))


def _without_cold(rows: pa.RecordBatch, fetches: int) -> pa.RecordBatch:
    """What is left of a leader's rows: unknown where it was cold, and may have been warm."""
    for variant in _VARIANTS if fetches < WARM else ():
        of_variant = pc.equal(rows.column("variant"), variant)
        known = rows.filter(pc.and_(of_variant, pc.is_valid(rows.column("latency_ms"))))
        wait_ms, recorded_ms = (pc.sum(known.column(name)).as_py() or 0 for name in _WAITS)
        if fetches * recorded_ms >= 2 * WARM * wait_ms > 0:
            rows = made_unknown(rows, of_variant, COLD, _PREDICTED)
    return rows
