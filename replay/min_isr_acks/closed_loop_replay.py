"""min_isr_acks with producers that react: a leader's log in, outcomes of the other cluster out.

The replay of each PRODUCE as it arrived (``replay``) gives its ISR and min.insync.replicas; the
loops run ``LOOKAHEAD_US`` behind the log, so that what they take of it does not depend on how it is
cut into increments.

A leader is slow until its JVM is warm, after ``WARM`` FETCHes of a follower. A leader may have been
cold to the end of its log, but where responses come twice as soon producers may send twice as much.
So a variant is unknown under which half of such a leader's FETCHes or more may have been of a warm
one; ``latency_sent_latest_ms``, a bound, stays. Rows are withheld until that is clear.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import pyarrow as pa

from ..log_gaps import NO_GAPS, Gaps
from ..model.partition import Acks, Errors
from ..records import Records, Variant, Verdict
from .closed_loop import OWN_US, Group, LoopState, Produce, ProducerLoop, SendTime, Waits
from .events import EventKind, LeaderEvent
from .follower_cycles import LOOKAHEAD_US, PAUSE_US, Cycles
from .outcomes import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, ProduceClosedLoopOutcome, Produced
from .replay import MinIsrAcks
from .responses import LOG_ENDED, Latency, ProduceResponse

#: Cycles of a follower until its leader is warm. They get shorter with their number, not with time
#: (in clusters of seven times the load as well), steeply up to the 300th, little from the 500th on:
#: medians of a hundred cycles (from a response's built_at until the next FETCH is noted) of eight
#: followers in acks-varying and office-4.1 are 15 to 69 ms up to the 100th, 5.6 to 15 ms from the
#: 500th and 2.4 to 13 ms from the 1,000th on.
WARM = 500
#: Why a variant is unknown under which the broker may have been warm.
COLD = "the broker was cold, and may get warm where responses come sooner"
_VARIANTS = {Acks.ALL: Variant(ACKS_ALL), Acks.MIN_ISR: Variant(ACKS_MIN_INSYNC_REPLICAS)}
#: Errors of what was appended; with acks=0 there is none.
_APPENDED = (None, Errors.NONE, Errors.REQUEST_TIMED_OUT)
#: Columns of the other cluster.
PREDICTED = (
    *("received_at", "latency_ms", "latency_sent_earliest_ms", "latency_sent_latest_ms"),
    "error_code",
)
#: How long before a PRODUCE, and after it, its outcome rests on lines: to a loop a gap in the log
#: is a pause of the followers, after which what was held back is sent.
_GAP_BEFORE_US, _GAP_AFTER_US = 2_000_000, 1_000_000


class _State(msgspec.Struct, array_like=True):
    """All that is carried.

    ``waiting``: PRODUCEs in the log's order, from the first on whose response in the open loop is
    not known yet. ``last``: the last one of each connection. ``withheld``: outcomes of a leader
    that is not warm yet. ``handling_us``: how long the handlers took of the last PRODUCE on its own
    and of the last that was held back. ``held_back_us``: when the last two of these were done.
    """

    loops: list[LoopState]
    cycles: dict[int, Cycles] = {}
    last: dict[str, int] = {}
    waiting: dict[str, int] = {}
    produces: dict[int, Produce] = {}
    withheld: list[ProduceClosedLoopOutcome] = []
    number: int = 0
    now_us: int = 0
    handling_us: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    held_back_us: tuple[int, int] = (-1, -1)


class ProducersReact:
    """The replay of one leader with producers that react, beside that of each PRODUCE alone.

    ``open_loop`` starts the replay of each PRODUCE as it arrived, from what it had saved. ``gaps``
    are those of all logs.
    """

    def __init__(
        self,
        node_id: int,
        open_loop: Callable[[bytes | None], MinIsrAcks],
        saved: bytes | None = None,
        gaps: Gaps = NO_GAPS,
    ) -> None:
        self._node_id, self._gaps = node_id, gaps
        saved_open_loop = None
        self._state = _State([LoopState(acks, sent) for acks in Acks for sent in SendTime])
        if saved:
            saved_open_loop, self._state = msgspec.msgpack.decode(saved, type=tuple[bytes, _State])
        self._open_loop, state = open_loop(saved_open_loop), self._state
        self._loops = [ProducerLoop(state.produces, state.cycles, loop) for loop in state.loops]
        self._records = Records(ProduceClosedLoopOutcome)

    def saved(self) -> bytes:
        return msgspec.msgpack.encode((self._open_loop.saved(), self._state))

    def feed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Replays a batch of events; returns the rows that nothing still to come can change."""
        state = self._state
        for events in self._open_loop.replay(batch):
            for event, partitions in events:
                if event.kind == EventKind.FETCH:
                    state.now_us = event.at_us
                    self._fetched(event)
                elif event.kind == EventKind.PRODUCE:
                    state.now_us = event.at_us
                    if partitions:
                        self._produced(event)
            self._add(self._open_loop.finalized())
        waiting = (state.produces[number].event.dequeued_us for number in state.waiting.values())
        self._advance(min(state.now_us, next(waiting, state.now_us)) - LOOKAHEAD_US)
        if any(cycles.number >= WARM for cycles in state.cycles.values()):
            self._emit_withheld()
        return self._open_loop.rows(), self._records.take()

    def finish(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        state = self._state
        self._add(self._open_loop.finalized(over=True))
        self._advance(state.now_us)
        for produce in state.produces.values():
            if not produce.is_emitted:
                self._emit(produce)
        fetches = max((cycles.number for cycles in state.cycles.values()), default=0)
        if fetches < WARM:
            self._withdraw_cold(fetches)
        self._emit_withheld()
        return self._open_loop.rows(), self._records.take()

    def _fetched(self, event: LeaderEvent) -> None:
        state, noted_us = self._state, event.at_us
        replica_id = _fetching(event.replica_id, event.fetcher)
        if replica_id not in state.cycles:
            state.cycles[replica_id] = Cycles()
            for loop in self._loops:
                loop.add_follower(replica_id, noted_us)
        if event.built_us is not None:
            times = noted_us, event.done_us, event.built_us
            state.cycles[replica_id].fetched(*times, min(state.held_back_us))

    def _produced(self, event: LeaderEvent) -> None:
        """Notes a PRODUCE of the log: whether it was held back, and when it may have been sent."""
        state = self._state
        state.number += 1
        # Loops are this far behind the log: nothing may arrive before.
        since_us = event.dequeued_us - LOOKAHEAD_US
        received_us = max(event.received_us, since_us)
        sent_us = dict.fromkeys(SendTime, received_us)
        previous = state.last.get(event.connection, 0)
        produce = Produce(state.number, event, received_us, sent_us, previous)
        last = state.produces.get(previous)
        free_us = None if last is None else last.event.built_us
        if last is not None and free_us is not None and received_us - free_us <= OWN_US:
            produce.is_own = False
            produce.turnaround_us = max(received_us - free_us, 0)
            produce.sent_us |= self._sent_us(last, min(free_us, received_us), since_us)
            state.held_back_us = (state.held_back_us[1], event.done_us)
        produce.handling_us = self._handling_us(event, is_own=produce.is_own)
        state.last[event.connection] = state.number
        state.produces[state.number] = produce
        state.waiting[event.request_id] = state.number

    def _sent_us(self, last: Produce, until_us: int, since_us: int) -> dict[SendTime, int]:
        """Returns when a PRODUCE that was held back was sent: after the last one, until a time.

        The estimate is spread evenly and the same in every run: multiples of the golden ratio.
        """
        share = self._state.number * 2_654_435_769 % 2**32 / 2**32
        earliest_us, sent_us = (
            max(min(last.sent_us[sent], until_us), since_us)
            for sent in (SendTime.EARLIEST, SendTime.ESTIMATE)
        )
        sent_us += int(max(until_us - sent_us, 0) * share)
        return {SendTime.EARLIEST: earliest_us, SendTime.ESTIMATE: sent_us}

    def _handling_us(self, event: LeaderEvent, *, is_own: bool) -> tuple[int, int]:
        """Returns how long a PRODUCE is handled on its own, and held back.

        The log shows one of the two. The other is taken from the last PRODUCE of that kind; held
        back, none is handled faster than on its own.
        """
        took_us = event.done_us - event.received_us
        if took_us <= PAUSE_US:
            self._state.handling_us[not is_own] = took_us
        own_us, held_back_us = self._state.handling_us
        if is_own:
            return took_us, max(held_back_us, took_us)
        return min(own_us, held_back_us), held_back_us

    def _add(self, produced: Iterable[Produced]) -> None:
        """Notes what PRODUCEs got as they arrived; adds those to the loops, in the log's order."""
        state, added = self._state, []
        for done in produced:
            self._complete(state.produces[state.waiting[done.request.event.request_id]], done)
        for request_id, number in state.waiting.items():
            produce = state.produces[number]
            if not produce.waits:
                break
            added.append(request_id)
            previous = state.produces.get(produce.previous)
            if previous is not None:
                previous.next = number
            for loop in self._loops:
                loop.add(produce)
        for request_id in added:
            del state.waiting[request_id]

    def _complete(self, produce: Produce, produced: Produced) -> None:
        """Notes who acknowledges a PRODUCE, with the min.insync.replicas in force."""
        in_force = [responses[0] for responses in produced.responses]
        gets_response = produced.request.gets_response
        if gets_response:  # With acks=0 it is appended all the same, and wakes followers.
            produce.reason = next(filter(None, (own.reason for own in in_force)), None)
        groups: dict[Acks, list[Group]] = {acks: [] for acks in Acks}
        handled_us = appended_us = produce.event.done_us
        is_taken, is_known = True, produce.reason is None
        for led, batch, own in zip(produced.led, produced.batches, in_force, strict=True):
            members = [member for member in batch.isr or () if member != self._node_id]
            replicas = tuple([_fetching(member, led.fetchers.get(member, 0)) for member in members])
            added = [replica for replica in replicas if replica not in produce.followers]
            produce.followers = (*produce.followers, *added)
            early_followers = (own.under.min_isr or 0) - 1
            if produce.waits_for_replicas:
                for acks, count in ((Acks.ALL, len(replicas)), (Acks.MIN_ISR, early_followers)):
                    if count > 0 and (replicas, count) not in groups[acks]:
                        groups[acks].append((replicas, count))
            # Otherwise it was refused, or the leader was lost: no follower acknowledges it.
            is_appended = own.acks_min_isr.error in _APPENDED
            is_known &= not is_appended or bool(batch.isr)
            is_taken &= is_appended and early_followers <= len(replicas)
            if gets_response and batch.is_appended:
                appended_us = max(appended_us, batch.appended_us)
        produce.is_appended = is_known and is_taken
        if not is_known:
            produce.followers, groups = (), {acks: [] for acks in Acks}
        elif appended_us > handled_us:
            # Of a transaction: its coordinator responds first, and no handler waits for that.
            produce.append_us = appended_us - produce.received_us
        _, *responses = zip(*in_force, strict=True)
        for acks, under, latency in zip(Acks, responses, produced.slowest[0], strict=True):
            known = latency if is_known else Latency()
            produce.waits[acks] = _waits(produce, groups[acks], known, under)

    def _advance(self, until_us: int) -> None:
        state, loops = self._state, self._loops
        for loop in loops:
            loop.advance(until_us)
        for produce in list(state.produces.values()):
            if produce.left:
                continue
            if not produce.is_emitted:
                self._emit(produce)
            # Any later PRODUCE of its connection comes on its own, here and in the log.
            built_us = max(loop.built_us(produce.number) or 0 for loop in loops)
            if max(produce.event.built_us or 0, built_us) + OWN_US < until_us:
                del state.produces[produce.number]
                for loop_state in state.loops:
                    del loop_state.runs[produce.number]
        for replica_id, cycles in state.cycles.items():
            # Followers that are parked or on their way may draw anew, from when that began.
            followers = (loop.followers[replica_id] for loop in state.loops)
            began_us = (f.begun_us if f.parked_us is None else f.parked_us for f in followers)
            cycles.forget(min(until_us, *began_us))
        last = state.last.items()
        state.last = {connection: number for connection, number in last if number in state.produces}

    def _emit(self, produce: Produce) -> None:
        produce.is_emitted, event = True, produce.event
        for acks, variant in _VARIANTS.items() if produce.waits_for_replicas else ():
            loops = (loop for loop in self._state.loops if loop.acks is acks)
            runs = {loop.sent: loop.runs.get(produce.number) for loop in loops}
            waits_us = {sent: None if run is None else run.wait_us for sent, run in runs.items()}
            recorded_us = None if event.built_us is None else event.built_us - produce.received_us
            record = ProduceClosedLoopOutcome(
                variant=variant,
                request_id=event.request_id,
                node_id=self._node_id,
                client_id=event.client_id,
                is_own=produce.is_own,
                recorded_received_at=produce.received_us,
                request_recorded_latency_ms=_ms(recorded_us),
            )
            run = runs[SendTime.ESTIMATE]
            if produce.reason or run is None or run.wait_us is None:
                record.make_unknown(produce.reason or LOG_ENDED)
            else:
                record.received_at, record.error_code = run.arrived_us, run.error
                record.latency_ms = _ms(run.wait_us)
                record.latency_sent_earliest_ms = _ms(waits_us[SendTime.EARLIEST])
                record.latency_sent_latest_ms = _ms(waits_us[SendTime.LATEST])
            self._state.withheld.append(record)

    def _emit_withheld(self) -> None:
        for record in self._state.withheld:
            received_us = record.recorded_received_at or 0
            since_us, until_us = received_us - _GAP_BEFORE_US, received_us + _GAP_AFTER_US
            record.rest_on_lines(self._gaps, self._node_id, since_us, until_us, *PREDICTED)
            self._records.add(record)
        self._state.withheld = []

    def _withdraw_cold(self, fetches: int) -> None:
        """Makes variants unknown under which the cold leader may have been warm."""
        for variant in _VARIANTS.values():
            records = [record for record in self._state.withheld if record.variant == variant]
            known = [record for record in records if record.latency_ms is not None]
            wait_ms = sum(record.latency_ms or 0 for record in known)
            recorded_ms = sum(record.request_recorded_latency_ms or 0 for record in known)
            if fetches * recorded_ms >= 2 * WARM * wait_ms > 0:
                for record in records:
                    record.received_at = record.latency_ms = record.error_code = None
                    record.latency_sent_earliest_ms = None
                    if record.verdict is not Verdict.UNKNOWN:
                        record.make_unknown(COLD)


def _waits(
    produce: Produce,
    groups: list[Group],
    latency: Latency,
    responses: Sequence[ProduceResponse],
) -> Waits:
    """Makes what a PRODUCE waits for; where its latency is unknown, that is the recorded one."""
    received_us, built_us = produce.received_us, produce.event.built_us
    if latency.ms is None:
        return Waits(0 if built_us is None else built_us - received_us, groups=groups)
    waits = Waits(round(latency.ms * 1000), max(r.error or 0 for r in responses), groups=groups)
    acked_us = [response.passed_us for response in responses]
    if None not in acked_us:
        last_us = max(produce.event.done_us, *(us or 0 for us in acked_us))
        waits.after_ack_us = max(waits.latency_us - (last_us - received_us), 0)
    return waits


def _fetching(replica_id: int, fetcher: int) -> int:
    """Returns the id of a fetcher in loops: that of its replica, for the replica's first."""
    return replica_id | fetcher << 32


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1000
