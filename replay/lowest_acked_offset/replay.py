"""The whole replay of lowest_acked_offset: one cluster's events in, outcomes out."""

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter

import msgspec
import pyarrow as pa

from ..log_gaps import LogGap
from ..model import STAMP_US
from ..model.brokers import Heartbeat
from ..records import Outcome, Records, events_of
from ..simulation import forget
from .events import (
    API_VERSIONS,
    FETCH,
    HEARTBEAT,
    HELD,
    HORIZON_US,
    LEARNED,
    METADATA,
    WRITE,
    ClusterEvent,
    Undecided,
    line_key,
    wrong_lines,
)
from .outcomes import OUTCOMES, FollowedWrite, applied_offset, heartbeat_outcome, shown_everywhere
from .state import ClusterSettings, ClusterState
from .writes import Front, Write, is_write

#: Lines are put into the order in which they happened this far behind the log, as a line is where
#: its response was built. request.timeout.ms is 30 s: a controller gives up what waits for longer.
LOOKAHEAD_US = 30_000_000
#: METADATA is looked at this far behind the log, so that every write that it may show has its
#: response: all recorded ones had it within 0.7 s.
METADATA_WAIT_US = 5_000_000


class LowestAckedOffset:
    """The replay of one cluster: feed it ``ClusterEvent`` rows of all its nodes.

    Batches of ``INPUT_SCHEMA`` come in order of (at_us, kind, request_id); else ``ValueError``.
    ``saved`` is the saved state of a replay with the same settings, to resume from.
    """

    def __init__(self, settings: ClusterSettings, saved: bytes | None = None) -> None:
        self._settings = settings
        self._state = ClusterState.new(settings)
        if saved is not None:
            self._state = msgspec.msgpack.decode(saved, type=ClusterState)
        self._records = {table: Records(table) for table in OUTCOMES}

    def saved(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def feed(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Replays the next rows; returns the outcomes that nothing still to come can change."""
        for row in events_of(batch, ClusterEvent):
            place = (row.at_us, row.kind, row.request_id)
            if place < self._state.front:
                raise ValueError("events must come in order of at_us, kind, request_id")
            # Moving on in steps of the log's rows, whatever the batches, makes the outcomes a
            # function of the log alone.
            if self._state.fed and self._state.fed % self._settings.step_rows == 0:
                front = Front(row.at_us - LOOKAHEAD_US)
                self._happen_until(front.until_us)
                self._advance(front)
                forget(self._state, front.final_us - 2 * HORIZON_US)
            self._state.fed += 1
            self._state.front = place
            self._queue(row)
        return [records.take() for records in self._records.values()]

    def finish(self) -> list[pa.RecordBatch]:
        end_us = self._state.front[0]
        self._happen_until(None)
        for broker in self._state.brokers.values():
            broker.close()
        self._advance(Front(end_us, Undecided.LOG_ENDS))
        return [records.take() for records in self._records.values()]

    def _emit(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._records[type(outcome)].add(outcome)

    def _queue(self, row: ClusterEvent) -> None:
        """Queues a line until the replay reaches the time at which its request was handled.

        The log has it later, when the response was built. Lines that are only looked up (METADATA,
        what held before the log, a broker's own line of a write) are kept at once.
        """
        state, happened = self._state, row.at_us
        if row.kind == HEARTBEAT:
            state.forwarding.heartbeat(row)
            row = state.in_order(row)
            happened = row.handled_us
        elif row.kind == FETCH:
            row = state.in_turn(row)
            happened = row.dequeued_us
        elif row.kind == WRITE:
            # A combined node, which votes too, logs both: ``_happen_until`` knows them apart.
            if not row.is_forwarded and row.node_id not in state.committed.voters:
                state.forwarding.line(row)
                return
            # So that every FETCH counts that may have been handled before the response.
            happened += STAMP_US
        elif row.kind == LEARNED and not state.simulations:
            return
        elif row.kind == METADATA:
            state.topics.waiting.push(row.at_us, row.broker_id, row)
            return
        elif row.kind == HELD:
            add = state.replicas.hold if row.broker_id < 0 else state.beginning.add_broker
            add(row)
            return
        state.pending.append((happened, row))

    def _happen_until(self, until: int | None) -> None:
        """Lets lines happen up to a time (None: all), in the order in which they did."""
        state = self._state
        state.pending.sort(key=lambda line: (line[0], line[1].kind, line[1].request_id))
        count = len(state.pending)
        if until is not None:
            count = bisect_right(state.pending, until, key=itemgetter(0))
        ready, state.pending = state.pending[:count], state.pending[count:]
        lines, later = (map(itemgetter(1), part) for part in (ready, state.pending))
        wrong = wrong_lines(state.last_lines, lines, later)
        state.last_lines.update({line_key(row): row for _, row in ready})
        gaps, voters = self._settings.gaps, self._settings.voters
        for happened, row in ready:
            if row.kind == WRITE and self._state.forwarding.is_of_broker(row):
                self._state.forwarding.line(row)
                continue
            gap = self._state.active.follow(row, happened, gaps, voters)
            is_wrong = row.request_id in wrong
            if is_wrong and row.kind != API_VERSIONS:
                gap = LogGap(row.node_id, happened, happened)
            if gap is not None:
                # What was before a gap is over; another replay begins behind it.
                self._state.hide_writes(gap.after_us)
                self._advance(Front(gap.after_us, Undecided.LOG_GAP))
                self._state = self._state.after_gap(self._settings, gap.before_us)
            # A line in a gap does not count: those around it are missing.
            is_sound = row.kind in (HEARTBEAT, FETCH, WRITE) and row.error_code == 0
            if is_wrong or (is_sound and gaps.touch(row.node_id, row.at_us, row.at_us)):
                self._lose(row)
            else:
                self._happen(row)

    def _lose(self, row: ClusterEvent) -> None:
        """Emits as unknown the heartbeat, or the write, of a line that does not count."""
        if row.kind == HEARTBEAT:
            self._emit([heartbeat_outcome(row, None)])
        elif row.kind == WRITE and is_write(row):
            self._state.writes.append(Write(row, Undecided.LOG_GAP))

    def _happen(self, row: ClusterEvent) -> None:
        state = self._state
        if row.kind == HEARTBEAT:
            self._heartbeat(row)
        elif row.kind == FETCH:
            state.fetch(row)
        elif row.kind == API_VERSIONS:
            # A controller's epoch is the offset of the last feature change, not of its image.
            if row.broker_id not in state.committed.voters:
                state.broker(row.broker_id).evidence.api_versions(row)
        elif row.kind == LEARNED:
            state.learn(row)
        elif row.kind == WRITE:
            if is_write(row):
                state.write(row, self._settings.replica_apply_ms * 1000)
        else:
            raise ValueError(f"no such kind of event: {row.kind}")

    def _heartbeat(self, row: ClusterEvent) -> None:
        state = self._state
        if row.error_code != 0:
            self._emit([heartbeat_outcome(row, None)])
            return
        sent = row.node_id, row.broker_id, row.broker_epoch
        stated = row.offset, row.is_fenced, row.want_shut_down
        heartbeat = Heartbeat(*sent, row.handled_us, row.at_us, *stated)
        state.warm(heartbeat)
        response = state.recorded.heartbeat(heartbeat)
        self._emit([heartbeat_outcome(row, response, state.beginning.uncertain)])
        broker = state.broker(row.broker_id)
        broker.evidence.heartbeat(row)
        broker.heartbeat(row)
        state.estimated.keep_serving(heartbeat._replace(is_fenced=not broker.is_running))
        if state.simulations:
            is_steady = state.heartbeats.heartbeat(row.received_us, heartbeat, row.want_fence)
            for simulation in state.simulations:
                simulation.heartbeat(row.received_us, heartbeat, is_steady)

    def _advance(self, front: Front) -> None:
        """Brings the recorded controller forward, and the others to where all is final.

        Emits the writes that are followed no more, or all once the log is over.
        """
        state, final_us = self._state, front.final_us
        state.recorded.advance(front.until_us)
        certain = (state.recorded, state.beginning.uncertain)
        looked_us = front.until_us - (0 if front.ended else METADATA_WAIT_US)
        for _, broker_id, row in state.topics.waiting.until(looked_us):
            state.topics.bound(row, state.broker(broker_id).evidence.image)
        for broker_id, broker in sorted(state.brokers.items()):
            for estimate in broker.estimate(front, state.replicas, certain):
                self._emit([applied_offset(broker_id, estimate)])
                if estimate.shown_us is not None:
                    state.estimated.apply(estimate.shown_us, broker_id, estimate.offset)
        state.estimated.advance(final_us)
        self._emit(shown_everywhere(state))
        self._simulate(front)
        writes, state.writes = state.writes, []
        for write in writes:
            if not front.ended and write.until_us > final_us:
                state.writes.append(write)
                continue
            followed = FollowedWrite(write, state, self._settings.gaps, front)
            self._emit(followed.outcomes())
            self._emit(followed.visibility())

    def _simulate(self, front: Front) -> None:
        heartbeats, simulations = self._state.heartbeats, self._state.simulations
        heartbeats.log_end_us = front.until_us if front.ended else None
        for at, broker_id, variants in heartbeats.steps.until(front.final_us):
            for learned in variants:
                applied = heartbeats.broker(broker_id).applied(learned, at)
                if applied is not None:
                    for simulation in simulations:
                        # What it sends at that time has the step in it.
                        simulation.run(at - 1, heartbeats)
                        simulation.managers[learned].apply(at, broker_id, applied)
        for simulation in simulations:
            simulation.run(front.final_us, heartbeats)
            for manager in simulation.managers.values():
                manager.advance(front.final_us)
