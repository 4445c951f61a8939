"""The whole replay of lowest_acked_offset: one cluster's events in, outcomes out."""

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa

from ..log_gaps import LogGap
from ..model.brokers import Heartbeat
from .events import API_VERSIONS, FETCH, HEARTBEAT, HELD, LEARNED, STAMP_SLACK_US, WRITE, Event
from .evidence import CLAIM_WAIT_US, Claim
from .holes import Holes, sender_of, wrong_lines
from .outcomes import HORIZON_US, FollowedWrite, LogEnd, OutcomeRows, Write, heartbeat_row
from .reasons import LOG_ENDS, LOG_GAP, NO_HIGH_WATERMARK, NOT_ANSWERED
from .state import LEARNED_OF, Settings, State, behind_hole, new_state
from .visibility import applied_row, everywhere_rows, visibility_rows
from .writes import Offsets, is_write

#: Events are put into the order in which they happened this far behind the log: a line stands
#: where its response was built, at most this long after it was taken up.
LOOKAHEAD_US = 30_000_000


class LowestAckedOffset:
    """The replay of one cluster: feed it ``Event`` rows of all its nodes.

    ``voters`` are the ids of all voters, ``intervals_ms`` the heartbeat intervals of the sweep
    (below the session timeout), ``recorded_interval_ms`` the one that the log was made with
    (measured if None). ``counts_stopping``: brokers in controlled shutdown hold the offset back,
    as the draft's "all unfenced brokers" can be read. ``gaps`` are those in the nodes' logs,
    ``more`` the other ``Settings``.
    ``saved`` is the saved state of a replay with the same settings, to resume from. Batches of
    ``INPUT_SCHEMA`` come in order of (at_us, kind, request_id); else ``ValueError``.
    """

    def __init__(
        self,
        voters: Iterable[int],
        intervals_ms: Iterable[int] = (),
        recorded_interval_ms: int | None = None,
        counts_stopping: bool = False,
        saved: bytes | None = None,
        gaps: Iterable[LogGap] = (),
        **more: int,
    ) -> None:
        swept, ids = tuple(dict.fromkeys(intervals_ms)), tuple(sorted(voters))
        self._settings = Settings(ids, swept, recorded_interval_ms, counts_stopping, **more)
        self._holes = Holes(gaps, self._settings.voters)
        self._state = new_state(self._settings)
        if saved is not None:
            self._state = msgspec.msgpack.decode(zlib.decompress(saved), type=State)
        self._rows = OutcomeRows()

    def saved(self) -> bytes:
        return zlib.compress(msgspec.msgpack.encode(self._state), 1)

    def feed(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take the next rows and return the outcomes that nothing still to come can change."""
        columns = [_values(batch.column(name), none) for name, none in _NONE.items()]
        for row in map(Event._make, zip(*columns, strict=True)):
            place = (row.at_us, row.kind, row.request_id)
            if place < self._state.front:
                raise ValueError("events must come in order of at_us, kind, request_id")
            # Moving on in steps of the log's rows, whatever the batches, makes the outcomes a
            # function of the log alone.
            if self._state.fed and self._state.fed % self._settings.step_rows == 0:
                self._advance(row.at_us)
            self._state.fed += 1
            self._state.front = place
            self._take(row)
        return self._rows.take()

    def finish(self) -> list[pa.RecordBatch]:
        end = self._state.front[0]
        self._happen_until(None)
        for applying in self._state.applying.values():
            applying.close()
        log_end = LogEnd(end, LOG_ENDS)
        self._view(end, end, log_end)
        self._settle(end, log_end)
        return self._rows.take()

    def _take(self, row: Event) -> None:
        """Keep a line until its turn: when the request was worked off, before its response."""
        state, happened = self._state, row.at_us
        if row.kind == HEARTBEAT:
            state.forwarding.heartbeat(row)
            row = state.in_order(row)
            happened = row.handled_us
        elif row.kind == FETCH:
            happened = row.dequeued_us
        elif row.kind == WRITE:
            # Of a combined node's lines, heartbeats show which came to its broker (see below).
            if not row.is_forwarded and row.node_id not in state.committed.voters:
                state.forwarding.line(row)
                return
            # So that every FETCH is in that may have been worked off before the response.
            happened += STAMP_SLACK_US
        elif row.kind == LEARNED and not state.simulations:
            return
        elif row.kind == HELD:
            state.hold(row)
            return
        state.fresh.append((happened, row))

    def _happen_until(self, until: int | None) -> None:
        """Lines up to a time (all: None), in the order in which they happened."""
        state = self._state
        # Most lines that wait are before all that came since.
        first = min(map(itemgetter(0), state.fresh), default=0)
        behind = bisect_left(state.pending, first, key=itemgetter(0))
        among = state.pending[behind:] + state.fresh
        among.sort(key=lambda line: (line[0], line[1].kind, line[1].request_id))
        state.pending[behind:], state.fresh = among, []
        count = len(state.pending)
        if until is not None:
            count = bisect_right(state.pending, until, key=itemgetter(0))
        ready, state.pending = state.pending[:count], state.pending[count:]
        lines, later = (map(itemgetter(1), part) for part in (ready, state.pending))
        wrong = wrong_lines(state.last_lines, lines, later)
        state.last_lines.update({sender_of(row): row for _, row in ready})
        for happened, row in ready:
            if row.kind == WRITE and self._state.forwarding.is_of_broker(row):
                self._state.forwarding.line(row)
                continue
            hole = self._holes.entered(self._state.active, happened, row)
            is_wrong = row.request_id in wrong
            if is_wrong and row.kind != API_VERSIONS:
                hole = LogGap(row.node_id, happened, happened)
            if hole is not None:
                self._pass(hole)
            if is_wrong or self._holes.is_lost(row):
                self._lose(row)
            else:
                self._happen(row)

    def _pass(self, hole: LogGap) -> None:
        """What was before a hole is over; another replay begins behind it."""
        begins_us = hole.after_us
        log_end = LogEnd(begins_us, LOG_GAP)
        self._state.hide_writes(begins_us)
        self._view(begins_us, begins_us, log_end)
        self._settle(begins_us, log_end)
        self._state = behind_hole(self._state, self._settings, hole.before_us)

    def _lose(self, row: Event) -> None:
        if row.kind == HEARTBEAT:
            self._rows.heartbeats.add(**heartbeat_row(row, None))
        elif row.kind == WRITE and is_write(row):
            self._state.writes.append(Write(row, LOG_GAP))

    def _happen(self, row: Event) -> None:
        state = self._state
        if row.kind == HEARTBEAT:
            self._heartbeat(row)
        elif row.kind == FETCH:
            state.committed.fetch(row)
            if state.is_broker(row.broker_id):
                state.applying_of(row.broker_id).fetch(row)
            committed = state.committed.high_watermark.values
            if row.error_code == 0 and committed and state.is_combined(row.node_id):
                state.applying_of(row.node_id).commit(row.dequeued_us, committed[-1])
            if row.error_code == 0 and not row.is_diverging:
                state.evidence_of(row.broker_id).fetch(row, state.committed.high_watermark)
        elif row.kind == API_VERSIONS:
            if row.broker_id not in state.committed.voters:
                state.evidence_of(row.broker_id).api_versions(row)
        elif row.kind == LEARNED:
            if state.is_broker(row.broker_id):
                state.learned.add(row.variant)
                state.beats.learn(row)
            if state.is_combined(row.node_id):
                # The leader knew before all others: by the first of them, those wait for no more.
                state.beats.learn(row._replace(broker_id=row.node_id))
        elif is_write(row):
            has_response = row.error_code == 0
            offsets = state.committed.offsets(row) if has_response else NOT_ANSWERED
            if offsets == NO_HIGH_WATERMARK and state.settling is not None:
                offsets = LOG_GAP
            state.writes.append(Write(row, offsets))
            offset = offsets.high if isinstance(offsets, Offsets) else None
            replica_us = self._settings.replica_apply_ms * 1000
            state.replicas.write(row, offset, replica_us, state.brokers)

    def _heartbeat(self, row: Event) -> None:
        state = self._state
        if row.error_code != 0:
            self._rows.heartbeats.add(**heartbeat_row(row, None))
            return
        sent = row.node_id, row.broker_id, row.broker_epoch
        standing = row.offset, row.is_fenced, row.want_shut_down
        beat = Heartbeat(*sent, row.handled_us, row.at_us, *standing)
        state.be_certain(beat.handled_us, beat.broker_id, self._settings)
        carried = state.recorded.heartbeat(beat)
        self._rows.heartbeats.add(**heartbeat_row(row, carried, state.uncertain))
        self._claim(state.evidence_of(row.broker_id).heartbeat(row, state.replicas))
        applying = state.applying_of(row.broker_id)
        applying.heartbeat(row.offset, row.is_fenced)
        state.finest.keep_beat(beat)
        state.estimated.keep_serving(beat._replace(is_fenced=not applying.is_running))
        if state.simulations:
            is_steady = state.beats.heartbeat(row.received_us, beat, row.want_fence)
            for simulation in state.simulations:
                simulation.heartbeat(row.received_us, beat, is_steady)

    def _claim(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._state.finest.keep(*claim)

    def _advance(self, front: int) -> None:
        until = front - LOOKAHEAD_US
        # What a heartbeat denies or shows to be slow is known one heartbeat later.
        settled = until - CLAIM_WAIT_US
        self._happen_until(until)
        self._view(until, settled, None)
        self._settle(settled, None)
        before = settled - 2 * HORIZON_US
        self._state.forget(before, self._settings)

    def _view(self, until: int, settled: int, log_end: LogEnd | None) -> None:
        """Bring all managers forward: the recorded one up to a time, the others where settled."""
        state, is_cut = self._state, log_end is not None and log_end.is_hole
        state.recorded.advance(until)
        if not is_cut:
            # What FETCHes claimed and no heartbeat settled, in order of brokers.
            for _, evidence in sorted(state.evidence.items()):
                self._claim(evidence.settled(settled, state.replicas))
        state.finest.advance(settled)
        self._estimate(settled, is_cut)
        state.estimated.advance(settled)
        for row in everywhere_rows(state):
            self._rows.everywhere.add(**row)
        self._simulate(settled, log_end)

    def _estimate(self, until: int, is_cut: bool) -> None:
        state = self._state
        for broker_id, applying in sorted(state.applying.items()):
            evidence = state.evidence_of(broker_id)
            certain = (state.recorded, state.uncertain)
            for estimate in applying.estimate(until, evidence, state.replicas, certain, is_cut):
                self._rows.applied.add(**applied_row(broker_id, estimate))
                if estimate.shown_us is not None:
                    state.estimated.keep(estimate.shown_us, broker_id, estimate.offset)

    def _simulate(self, until: int, log_end: LogEnd | None) -> None:
        beats, simulations = self._state.beats, self._state.simulations
        beats.log_end_us = None if log_end is None else log_end.at_us
        steps = [
            (at, broker_id, learned, applied)
            for at, broker_id, variant in beats.steps_until(until)
            for learned in (LEARNED_OF.values() if variant is None else (variant,))
            if (applied := beats.of(broker_id).applied(learned, at)) is not None
        ]
        for simulation in simulations:
            for at, broker_id, learned, applied in steps:
                # What it sends at that time has the step in it.
                simulation.run(at - 1, beats)
                simulation.managers[learned].apply(at, broker_id, applied)
            simulation.run(until, beats)
            for manager in simulation.managers.values():
                manager.advance(until)

    def _settle(self, until: int, log_end: LogEnd | None) -> None:
        """Emit the writes whose horizon has passed, or all once the log is over."""
        state = self._state
        ready = [w for w in state.writes if log_end is not None or w.until_us <= until]
        state.writes = [w for w in state.writes if log_end is None and w.until_us > until]
        for write in ready:
            sender = state.forwarding.via(write.row)
            for variant, manager in state.managers(self._settings):
                why = state.unlearned(write, variant)
                follow = (write, sender, variant, manager, why, state.uncertain, log_end)
                self._rows.writes.add(**FollowedWrite(*follow).outcome())
            for row in visibility_rows(write, state, self._holes, log_end):
                self._rows.visibility.add(**row)


#: What stands where a kind of event does not have a column: a state has no other nulls.
_NONE = {name: Event._field_defaults.get(name) for name in Event._fields}


def _values(column: pa.Array, none: Any) -> list[Any]:
    """The values of a column, ``none`` where it has none."""
    values: list[Any] = column.to_pylist()
    if column.null_count and none is not None:
        values = [none if value is None else value for value in values]
    return values
