"""The whole replay of lowest_acked_offset: one cluster's events in, outcomes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.lowest_acked_offset.cadence import Recorded
from kip_replay.replay.lowest_acked_offset.controller import SESSION_TIMEOUT_US, HeartbeatManager
from kip_replay.replay.lowest_acked_offset.events import (
    API_VERSIONS,
    FETCH,
    HEARTBEAT,
    LEARNED,
    WRITE,
)
from kip_replay.replay.lowest_acked_offset.evidence import CLAIM_WAIT_US, AllClaims
from kip_replay.replay.lowest_acked_offset.lines import Lines, Pending, front_of, refuse_disorder
from kip_replay.replay.lowest_acked_offset.outcomes import (
    HORIZON_US,
    Write,
    Writes,
    visibility_rows,
    write_rows,
)
from kip_replay.replay.lowest_acked_offset.reasons import NOT_ANSWERED
from kip_replay.replay.lowest_acked_offset.rows import (
    HEARTBEAT_SCHEMA,
    LOWEST_ACKED,
    VISIBILITY_SCHEMA,
    WRITE_SCHEMA,
    heartbeat_rows,
    together,
)
from kip_replay.replay.lowest_acked_offset.runs import Events, Told, take
from kip_replay.replay.lowest_acked_offset.saved import Settings, decode, encode
from kip_replay.replay.lowest_acked_offset.simulation import Schedule, Simulation
from kip_replay.replay.lowest_acked_offset.state import State
from kip_replay.replay.lowest_acked_offset.timelines import Bools
from kip_replay.replay.lowest_acked_offset.writes import (
    CommittedOffsets,
    is_forwarders_line,
    is_write,
)
from kip_replay.replay.outcomes import RECORDED, Variant

FINEST_EVIDENCE = "finest_evidence"
HEARTBEAT_INTERVAL = "broker_heartbeat_interval_ms"

#: Events are put into the order in which they happened this far behind the log: a line stands
#: where its answer was built, at most this long after it was taken up.
LOOKAHEAD_US = 30_000_000
#: How often the replay moves on, in rows of the log: what is done for each broker and simulation
#: at every step should be little beside what is done for the rows.
STEP_ROWS = 32_768

#: Which learned times a simulated variant takes (``variant`` of high_watermark_lag).
LEARNED_OF = {LOWEST_ACKED: RECORDED, WITHOUT_KIP: WITHOUT_KIP, WITH_KIP: WITH_KIP}


class Outcomes(NamedTuple):
    """What a replay hands out: batches of the three schemas, in their order."""

    heartbeats: pa.RecordBatch
    writes: pa.RecordBatch
    visibility: pa.RecordBatch


class LowestAckedOffset:
    """The replay of one cluster: feed it ``Event`` rows of all its nodes.

    ``voters`` are the ids of all voters, ``intervals_ms`` the heartbeat intervals of the sweep
    (below the session timeout), ``recorded_interval_ms`` the one that the log was made with
    (measured if None). ``counts_stopping``: brokers in controlled shutdown hold the offset back,
    as the draft's "all unfenced brokers" can be read. ``step_rows``: it moves on this often.
    ``saved`` is what a replay with the same settings left, to go on from; ``ValueError`` if it is
    not. Batches of ``INPUT_SCHEMA`` come in order of (at_us, kind, request_id); else
    ``ValueError``.
    """

    def __init__(
        self,
        voters: Iterable[int],
        intervals_ms: Iterable[int] = (),
        recorded_interval_ms: int | None = None,
        counts_stopping: bool = False,
        session_timeout_ms: int = SESSION_TIMEOUT_US // 1000,
        step_rows: int = STEP_ROWS,
        saved: bytes | None = None,
    ) -> None:
        def manager(applies_reports: bool = True, tells_applied: bool = False) -> HeartbeatManager:
            return HeartbeatManager(
                applies_reports, tells_applied, counts_stopping, session_timeout_ms * 1000
            )

        self._settings = Settings(
            tuple(sorted(voters)),
            tuple(dict.fromkeys(intervals_ms)),
            recorded_interval_ms,
            counts_stopping,
            session_timeout_ms,
            step_rows,
        )
        self._handed_out: list[Outcomes] = []
        if saved is not None:
            self._state, self._finest_events, self._pending = decode(saved, self._settings)
            return
        self._pending = Pending()
        #: What the finest evidence claims, and heartbeats, later than where the views are.
        self._finest_events = claimed(AllClaims.together(()))
        self._state = State(
            committed=CommittedOffsets(frozenset(self._settings.voters)),
            recorded=manager(),
            finest=manager(tells_applied=True),
            beats=Recorded(None if recorded_interval_ms is None else recorded_interval_ms * 1000),
            schedules=[Schedule(ms * 1000) for ms in self._settings.intervals_ms],
            simulations=[
                [Simulation(learned, manager(False)) for learned in LEARNED_OF.values()]
                for _ in self._settings.intervals_ms
            ],
        )

    def saved(self) -> bytes:
        """All that it carries after what it was fed, for another one to go on from."""
        return encode(self._settings, self._state, self._finest_events, self._pending)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take a piece of log and return the outcomes that nothing still to come can change."""
        state = self._state
        if batch.num_rows:
            refuse_disorder(batch, state.front)
        # Moving on in steps of the log's rows, whatever the batches, makes the outcomes a function
        # of the log alone.
        while batch.num_rows:
            place = state.fed % self._settings.step_rows
            if state.fed and place == 0:
                self._advance(batch.column("at_us")[0].as_py())
            piece = batch.slice(0, self._settings.step_rows - place)
            batch = batch.slice(piece.num_rows)
            state.fed += piece.num_rows
            state.front = front_of(piece)
            state.forwarding.take(piece, state.committed.voters)
            self._pending.add(piece)
        return self._hand_out()

    def finish(self) -> Outcomes:
        """The log is over: return what is left."""
        end = self._state.front[0]
        self._happen(self._pending.take(), claims_until=end)
        self._state.recorded.advance(end)
        self._advance_views(end, end)
        self._settle(end, end)
        return self._hand_out()

    # --- moving on -------------------------------------------------------------------------------

    def _advance(self, front: int) -> None:
        """The log is known up to ``front``."""
        state = self._state
        until = front - LOOKAHEAD_US
        # What a heartbeat denies or shows to be slow is known one heartbeat later.
        settled = until - CLAIM_WAIT_US
        self._happen(self._pending.take(until), claims_until=settled)
        state.recorded.advance(until)
        self._advance_views(settled, None)
        self._settle(settled, None)
        before = settled - 2 * HORIZON_US
        for part in (state.committed, state.forwarding, state.evidence, state.beats):
            part.forget(before)
        for _, manager in self._managers():
            manager.forget(before)

    def _managers(self) -> Iterator[tuple[Variant, HeartbeatManager]]:
        yield Variant(LOWEST_ACKED), self._state.recorded
        yield Variant(FINEST_EVIDENCE), self._state.finest
        intervals_ms, by_interval = self._settings.intervals_ms, self._state.simulations
        for ms, simulations in zip(intervals_ms, by_interval, strict=True):
            for name, simulation in zip(LEARNED_OF, simulations, strict=True):
                yield Variant(name, HEARTBEAT_INTERVAL, str(ms)), simulation.manager

    def _happen(self, lines: dict[str, Lines], claims_until: int) -> None:
        """Lines in the order in which they happened."""
        state = self._state
        heartbeats, fetches, answers, learned, writes = (
            lines[kind] for kind in (HEARTBEAT, FETCH, API_VERSIONS, LEARNED, WRITE)
        )
        state.committed.take(fetches)
        answered = heartbeats["error_code"] == 0
        beats = heartbeats.take(answered)
        self._write_heartbeats(heartbeats, answered, self._tell(beats))
        told = fetches.take((fetches["error_code"] == 0) & ~fetches.flags("is_diverging"))
        voters = list(state.committed.voters)
        images = answers.take(~np.isin(answers["broker_id"], voters))
        high_watermark = state.committed.high_watermark
        settled = (
            state.evidence.take(beats, told, images, high_watermark),
            state.evidence.expire(claims_until, self._pending.turns),
        )
        events = Events.together(
            (self._finest_events, *(claimed(claims) for claims in settled), beaten(beats))
        )
        turn = (np.full(len(self._finest_events.at), -1), *(c.turn for c in settled), beats.turn)
        order = np.lexsort((np.concatenate(turn), events.is_beat, events.at))
        self._finest_events = events.take(order)
        self._simulate(beats, learned)
        for row in writes.events():
            if not is_forwarders_line(row, state.committed.voters) and is_write(row):
                is_answered = row.error_code == 0
                offsets = state.committed.offsets(row) if is_answered else NOT_ANSWERED
                state.writes.append(Write(row, offsets))

    def _tell(self, beats: Lines) -> Told:
        """What the recorded heartbeats would have been told."""
        state = self._state
        events = beaten(beats)
        parts = [Told.nothing(0)]
        first_empty = 0
        if len(beats) and state.recorded.certain_from_us != 0:
            # From when on every broker that counts has been heard.
            if state.first_heartbeat_us is None:
                state.first_heartbeat_us = int(events.at[0])
            certain = state.first_heartbeat_us + state.recorded.fenced_after_us
            state.recorded.certain_from_us = certain
            began = state.committed.began_empty
            empty = (events.at < certain) & (beats.turn > (began if began is not None else 2**62))
            first_empty = int(np.argmax(empty)) if empty.any() else len(beats)
            parts.append(take(state.recorded, events.take(slice(0, first_empty))))
            if first_empty < len(beats):
                state.recorded.certain_from_us = 0
        parts.append(take(state.recorded, events.take(slice(first_empty, None))))
        for _, manager in self._managers():
            manager.certain_from_us = state.recorded.certain_from_us
        return Told(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _simulate(self, beats: Lines, learned: Lines) -> None:
        """What the simulations take of the log."""
        state = self._state
        if not state.schedules:
            return
        known = state.beats.take(beats, learned, state.committed.voters)
        state.learned |= known.learned.keys()
        for schedule, simulations in zip(state.schedules, state.simulations, strict=True):
            schedule.take(beats, known.steady)
            for simulation in simulations:
                simulation.take(known)

    def _advance_views(self, until: int, log_end_us: int | None) -> None:
        state = self._state
        ready = self._finest_events.at <= until
        take(state.finest, self._finest_events.take(ready))
        self._finest_events = self._finest_events.take(~ready)
        state.finest.advance(until)
        paces = state.beats.paces() if state.schedules else {}
        for schedule, simulations in zip(state.schedules, state.simulations, strict=True):
            sent = schedule.send(state.beats, paces, until, log_end_us)
            for simulation in simulations:
                simulation.run(state.beats, sent, until)

    def _settle(self, until: int, log_end_us: int | None) -> None:
        """Hand out the writes whose horizon has passed, or all once the log is over."""
        state = self._state
        ready = [w for w in state.writes if log_end_us is not None or w.until_us <= until]
        if not ready:
            return
        state.writes = [w for w in state.writes if log_end_us is None and w.until_us > until]
        writes = Writes(ready, [state.forwarding.via(w.row) for w in ready], log_end_us)
        rows = [
            write_rows(
                writes,
                variant,
                manager,
                is_learned=variant.parameter != HEARTBEAT_INTERVAL
                or LEARNED_OF[variant.name] in state.learned,
            )
            for variant, manager in self._managers()
        ]
        visibility = visibility_rows(writes, state.recorded, state.evidence)
        self._add(writes=together(rows, WRITE_SCHEMA))
        self._add(visibility=together(visibility, VISIBILITY_SCHEMA))

    # --- rows ------------------------------------------------------------------------------------

    def _write_heartbeats(self, heartbeats: Lines, answered: Bools, told: Told) -> None:
        every = Told.nothing(len(heartbeats))
        for column, values in zip(every, told, strict=True):
            column[answered] = values
        self._add(heartbeats=heartbeat_rows(heartbeats, every))

    def _add(self, **rows: pa.RecordBatch) -> None:
        self._handed_out.append(_NO_ROWS._replace(**rows))

    def _hand_out(self) -> Outcomes:
        handed_out, self._handed_out = self._handed_out, []
        return Outcomes(
            *(
                together([outcomes[place] for outcomes in handed_out], none.schema)
                for place, none in enumerate(_NO_ROWS)
            )
        )


_NO_ROWS = Outcomes(
    *(
        pa.RecordBatch.from_pylist([], schema)
        for schema in (HEARTBEAT_SCHEMA, WRITE_SCHEMA, VISIBILITY_SCHEMA)
    )
)


def beaten(beats: Lines) -> Events:
    """Heartbeats as events of a manager."""
    return Events(
        at=beats["handled_us"],
        broker=beats["broker_id"],
        offset=beats["offset"],
        is_beat=np.ones(len(beats), np.bool_),
        built=beats["at_us"],
        epoch=beats["broker_epoch"],
        controller=beats["node_id"],
        is_fenced=beats.flags("is_fenced"),
        want_shut_down=beats.flags("want_shut_down"),
    )


def claimed(claims: AllClaims) -> Events:
    """Claims as events of a manager."""
    none, no = np.zeros(len(claims.at_us), np.int64), np.zeros(len(claims.at_us), np.bool_)
    return Events(claims.at_us, claims.broker_id, claims.offset, no, none, none, none, no, no)


def replayed(replay: LowestAckedOffset, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcomes]:
    """Feed all batches, then finish: the outcomes as they come."""
    for batch in batches:
        yield replay.feed(batch)
    yield replay.finish()
