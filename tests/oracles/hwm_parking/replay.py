"""The whole replay of hwm_parking: one controller's log in, outcomes and lags out."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from kip_replay.replay.hwm_parking.tables import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG
from kip_replay.replay.outcomes import RECORDED, Rows, Variant, Verdict
from kip_replay.replay.wire_size import HIGH_WATERMARK_TAG_BYTES, records_field_bytes

from .closed_loop import Advance, ClosedLoop, LagTracker, SimulatedFetch
from .explain import explain, woke_everyone
from .leader import Completion, Leader
from .metadata_log import (
    INPUT_SCHEMA,
    NO_ANSWER,
    NOT_SENT,
    UNKNOWN_OFFSET,
    WAKE_SPREAD_US,
    Evidence,
    RecordedFetch,
    Timeline,
)

#: How far behind the log the replay runs: longer than any FETCH stays parked or is being sent.
LOOKAHEAD_US = 60_000_000
#: How often the replay moves on, in log time.
STEPS_PER_LOOKAHEAD = 6

RULE = "hwm_parking"
WITHOUT_KIP = "without_kip_1166"
WITH_KIP = "with_kip_1166"

NOT_LEADER = "asked a controller that did not lead"
AWAY = "the replica was away (silent for over a second) when the high watermark moved"
NEVER_LEARNED = "the leader's epoch or the log ended before the replica learned"
MIDDLE_OF_EPOCH = "the log begins within the leader's epoch: its high watermark is not known yet"
EMPTY_WAKE = "woken early and empty with everyone who was parked: the leader drained no batch"
NOT_IN_LOG = "the log has no answer: its level was switched while the FETCH waited"

#: NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
NOT_LEADING = frozenset({6, 8, 74, 75})

#: Output of the replay: rows of these two tables, less what the caller knows (recording, phase).
PARKING_SCHEMA = FETCH_PARKING_OUTCOMES.without("recording")
LAG_SCHEMA = HIGH_WATERMARK_LAG.without("recording", "phase")
_HWM_AWARE = {WITHOUT_KIP: False, WITH_KIP: True}


def variants(max_wait_ms: Iterable[int] = ()) -> list[Variant]:
    """Both rules with the recorded maxWaitMs, and again for each of ``max_wait_ms`` (a sweep)."""
    swept = [("max_wait_ms", str(wait)) for wait in max_wait_ms]
    return [Variant(name, *what) for what in [("none", "none"), *swept] for name in _HWM_AWARE]


def _max_wait_us(variant: Variant) -> int | None:
    swept = variant.parameter == "max_wait_ms"
    return int(variant.parameter_value) * 1000 if swept else None


class Outcomes(NamedTuple):
    """What a replay hands out: batches of ``PARKING_SCHEMA`` and ``LAG_SCHEMA``."""

    parking: pa.RecordBatch
    lag: pa.RecordBatch


class LeaderEpoch:
    """One epoch of one leader: the recorded answers explained, and every variant replayed."""

    def __init__(
        self, leader_id: int, leader_epoch: int, voters: frozenset[int], rules: list[Variant]
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self._voters = voters
        self._variants = rules
        self._evidence = Evidence()
        self._log_end_offset = Timeline()
        self._high_watermark = Timeline()
        self._progress: Leader | None = None
        self._recorded_lag = LagTracker(self._evidence)
        self._loops: list[ClosedLoop] = []
        self._by_dequeue: list[tuple[int, str, RecordedFetch]] = []
        self._to_explain: list[tuple[RecordedFetch, int]] = []
        self.resigned_us: int | None = None
        self._last_us = 0

    @property
    def has_led(self) -> bool:
        """The leader has answered at least one FETCH in this epoch."""
        return bool(self._evidence.replicas)

    def add(self, row: RecordedFetch, sequence: int) -> None:
        """Take a recorded FETCH that the leader answered, in order of built_us."""
        self._to_explain.append((row, sequence))
        self._last_us = max(self._last_us, row.built_us)
        if row.told:
            self._evidence.add(row)
            heapq.heappush(self._by_dequeue, (row.dequeued_us, row.request_id, row))

    def turned_away(self, row: RecordedFetch) -> bool:
        """Take a recorded FETCH that was answered "not the leader"; was it parked till then?"""
        if not self.has_led:
            return False
        was_parked = row.built_us - row.dequeued_us > WAKE_SPREAD_US
        if self.resigned_us is None:
            self.resigned_us = row.built_us if was_parked else row.dequeued_us
        self._evidence.turned_away(row)
        return was_parked and row.dequeued_us < self.resigned_us

    def advance(self, front: int, parking: Rows, lag: Rows) -> None:
        """The log is known up to ``front``: replay what nothing still to come can change."""
        self._follow_leader(front - LOOKAHEAD_US // 2)
        until = front - LOOKAHEAD_US
        self._explain(until, parking)
        for variant, loop in zip(self._variants, self._loops, strict=False):
            self._write_loop(variant, loop, loop.advance(until), parking, lag)
        self._write_lags(Variant(RECORDED), self._recorded_lag, lag)
        self._forget(until - LOOKAHEAD_US)

    def close(self, parking: Rows, lag: Rows) -> None:
        """The epoch is over, or the log is: replay to the end."""
        if not self.has_led:
            self._explain(self._last_us, parking)
            return
        self._evidence.close()
        self._follow_leader(self._last_us)
        self._explain(self._last_us, parking)
        for variant, loop in zip(self._variants, self._loops, strict=True):
            end = self.resigned_us
            fetches = loop.advance(self._last_us) if end is None else loop.resign(end)
            loop.lag.close()
            self._write_loop(variant, loop, fetches, parking, lag)
        self._recorded_lag.close()
        self._write_lags(Variant(RECORDED), self._recorded_lag, lag)

    def _leader(self, hwm_aware: bool) -> Leader:
        start = self._evidence.epoch_start_offset
        first = min(r.first.fetch_offset for r in self._evidence.replicas.values())
        return Leader(
            hwm_aware=hwm_aware,
            voters=self._voters - {self.leader_id},
            voter_count=len(self._voters),
            epoch_start_offset=start,
            log_end_offset=max(start, first),
            log_start_offset=self._evidence.log_start_offset,
            epoch_ends=self._evidence.epoch_ends,
            snapshot=self._evidence.snapshot,
        )

    def _follow_leader(self, until: int) -> None:
        """Bring the leader's log end offset and high watermark up to a time."""
        if self._progress is None:
            if not self._by_dequeue or self._by_dequeue[0][0] > until:
                return
            self._progress = self._leader(False)
            self._loops = [
                ClosedLoop(
                    self._evidence,
                    self._leader(_HWM_AWARE[variant.name]),
                    self.leader_epoch,
                    _max_wait_us(variant),
                )
                for variant in self._variants
            ]
        leader = self._progress
        for loop in self._loops:
            loop.learn(self._evidence.log_start_offset, self._evidence.snapshot)
        for at, end in self._evidence.appends(until):
            self._log_end_offset.add(at, end)
            self._followed(at, partial(leader.append, end))
            for loop in self._loops:
                loop.append(at, end)
        while self._by_dequeue and self._by_dequeue[0][0] <= until:
            at, _, row = heapq.heappop(self._by_dequeue)
            if not row.is_diverging and not row.is_snapshot:
                self._followed(at, partial(leader.voter_progress, row.replica_id, row.fetch_offset))

    def _followed(self, at: int, step: Callable[[], object]) -> None:
        """Take a step of the recorded leader and note whether it moved the high watermark."""
        assert self._progress is not None
        before = self._progress.high_watermark
        step()
        after = self._progress.high_watermark
        if after != before:
            self._high_watermark.add(at, after)
            self._recorded_lag.advanced(Advance(at, before, after))

    def _explain(self, until: int, parking: Rows) -> None:
        ready = [item for item in self._to_explain if item[0].built_us <= until]
        around = [row for row, _ in self._to_explain]
        self._to_explain = self._to_explain[len(ready) :]
        for row, sequence in ready:
            if row.told:
                self._recorded_lag.told(row.replica_id, row.built_us, row.response_high_watermark)
                completion, parked = explain(row, self._log_end_offset, self._high_watermark)
            else:
                completion, parked = Completion.ERROR, row.error_code in NOT_LEADING
            verdict, reason = Verdict.REPLAYED, None
            if completion is Completion.UNEXPLAINED:
                if self._cannot_know(row):
                    verdict, reason = Verdict.UNKNOWN, MIDDLE_OF_EPOCH
                elif woke_everyone(row, around):
                    reason = EMPTY_WAKE
            write_recorded(parking, row, sequence, self, completion, parked, verdict, reason)

    def _cannot_know(self, row: RecordedFetch) -> bool:
        known = self._high_watermark.value(row.built_us) != UNKNOWN_OFFSET
        return not known and self._evidence.epoch_start_offset < 0

    def is_voter(self, replica_id: int) -> bool:
        """The replica is a voter."""
        return replica_id in self._voters

    def _write_loop(
        self,
        variant: Variant,
        loop: ClosedLoop,
        fetches: list[SimulatedFetch],
        parking: Rows,
        lag: Rows,
    ) -> None:
        for simulated in fetches:
            self._write_simulated(parking, variant, simulated)
        self._write_lags(variant, loop.lag, lag)

    def _write_simulated(self, parking: Rows, variant: Variant, row: SimulatedFetch) -> None:
        fetch, answer = row.fetch, row.answer
        carried = self._evidence.record_bytes(fetch.fetch_offset, answer.log_end_offset)
        envelope = self._evidence.replicas[row.replica_id]
        request = envelope.request_envelopes.nearest(row.built_us)
        response = envelope.response_envelopes.nearest(row.built_us)
        hwm_aware = _HWM_AWARE[variant.name]
        tag = HIGH_WATERMARK_TAG_BYTES if hwm_aware else 0
        parking.add(
            **variant.what_if(RULE),
            leader_id=self.leader_id,
            leader_epoch=self.leader_epoch,
            replica_id=row.replica_id,
            sequence=row.sequence,
            is_voter=self.is_voter(row.replica_id),
            received_at=row.dequeued_us,
            dequeued_at=row.dequeued_us,
            built_at=row.built_us,
            completed_at=row.built_us,
            fetch_offset=fetch.fetch_offset,
            replica_high_watermark=fetch.high_watermark if hwm_aware else None,
            response_high_watermark=answer.high_watermark,
            decision="parked" if answer.parked else "immediate",
            completion=answer.completion.value,
            parked_ms=(row.built_us - row.dequeued_us) / 1000 if answer.parked else 0.0,
            record_bytes=carried,
            request_bytes=None if request is None else request + tag,
            response_bytes=(
                None
                if response is None or carried is None
                else response + records_field_bytes(carried)
            ),
            verdict=Verdict.REPLAYED,
        )

    def _write_lags(self, variant: Variant, tracker: LagTracker, rows: Rows) -> None:
        for lag in tracker.take():
            verdict, reason = Verdict.REPLAYED, None
            if lag.away:
                verdict, reason = Verdict.NOT_APPLICABLE, AWAY
            elif lag.learned_us is None:
                verdict, reason = Verdict.UNKNOWN, NEVER_LEARNED
            at, learned = lag.advance.at, lag.learned_us
            rows.add(
                **variant.what_if(RULE),
                leader_id=self.leader_id,
                leader_epoch=self.leader_epoch,
                replica_id=lag.replica_id,
                high_watermark=lag.advance.high_watermark,
                previous_high_watermark=lag.advance.previous,
                is_voter=self.is_voter(lag.replica_id),
                leader_at=at,
                learned_at=learned,
                lag_ms=None if learned is None else (learned - at) / 1000,
                verdict=verdict,
                reason=reason,
            )

    def _forget(self, before: int) -> None:
        stand = [loop.offsets for loop in self._loops]
        self._evidence.forget(before, set().union(*stand))
        self._log_end_offset.forget(before)
        self._high_watermark.forget(before)


class HwmParking:
    """The replay of one controller's log: feed it recorded FETCHes of the metadata log.

    ``voters`` are the ids of all voters. Batches of ``INPUT_SCHEMA`` come in order of
    (built_us, request_id); anything else raises ``ValueError``.
    """

    def __init__(self, node_id: int, voters: Iterable[int], rules: list[Variant]) -> None:
        self._node_id = node_id
        self._voters = frozenset(voters)
        self._variants = rules
        self._epochs: dict[int, LeaderEpoch] = {}
        self._sequences: dict[tuple[int, int], int] = defaultdict(int)
        self._parking = Rows(PARKING_SCHEMA)
        self._lag = Rows(LAG_SCHEMA)
        self._front: tuple[int, str] = (0, "")

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take a piece of log and return the outcomes that nothing still to come can change."""
        columns = [batch.column(name).to_pylist() for name in INPUT_SCHEMA.names]
        for row in map(RecordedFetch._make, zip(*columns, strict=True)):
            if (row.built_us, row.request_id) < self._front:
                raise ValueError("FETCHes must come in order of built_us, request_id")
            # Replaying in steps of the log's time, whatever the batches, makes the rows a function
            # of the log alone.
            step = LOOKAHEAD_US // STEPS_PER_LOOKAHEAD
            if row.built_us // step != self._front[0] // step:
                for epoch in list(self._epochs.values()):
                    self._advance(epoch)
            self._front = (row.built_us, row.request_id)
            self._take(row)
        return self._hand_out()

    def finish(self) -> Outcomes:
        """The log is over: return what is left."""
        for epoch in self._epochs.values():
            epoch.close(self._parking, self._lag)
        self._epochs.clear()
        return self._hand_out()

    def _take(self, row: RecordedFetch) -> None:
        epoch = self._epochs.get(row.leader_epoch)
        if epoch is None:
            epoch = LeaderEpoch(self._node_id, row.leader_epoch, self._voters, self._variants)
            self._epochs[row.leader_epoch] = epoch
        sequence = self._sequences[row.leader_epoch, row.replica_id]
        self._sequences[row.leader_epoch, row.replica_id] += 1
        if row.error_code == NO_ANSWER:
            untold = (Completion.UNEXPLAINED, False, Verdict.UNKNOWN, NOT_IN_LOG)
            write_recorded(self._parking, row, sequence, epoch, *untold)
        elif row.error_code in NOT_LEADING and not epoch.turned_away(row):
            refused = (Completion.ERROR, False, Verdict.NOT_APPLICABLE, NOT_LEADER)
            write_recorded(self._parking, row, sequence, epoch, *refused)
        else:
            epoch.add(row, sequence)

    def _advance(self, epoch: LeaderEpoch) -> None:
        front = self._front[0]
        if epoch.resigned_us is not None and front - epoch.resigned_us > LOOKAHEAD_US:
            epoch.close(self._parking, self._lag)
            # A later line of the epoch can only say "not the leader".
            fresh = LeaderEpoch(self._node_id, epoch.leader_epoch, self._voters, self._variants)
            self._epochs[epoch.leader_epoch] = fresh
        else:
            epoch.advance(front, self._parking, self._lag)

    def _hand_out(self) -> Outcomes:
        return Outcomes(self._parking.take(), self._lag.take())


def write_recorded(
    parking: Rows,
    row: RecordedFetch,
    sequence: int,
    epoch: LeaderEpoch,
    completion: Completion,
    parked: bool,
    verdict: Verdict,
    reason: str | None,
) -> None:
    """Add a recorded FETCH to the outcomes (variant ``recorded``)."""
    known = None if row.high_watermark == NOT_SENT else row.high_watermark
    parking.add(
        **Variant(RECORDED).what_if(RULE),
        leader_id=epoch.leader_id,
        leader_epoch=row.leader_epoch,
        replica_id=row.replica_id,
        sequence=sequence,
        recorded_request_id=row.request_id,
        is_voter=epoch.is_voter(row.replica_id),
        received_at=row.received_us,
        dequeued_at=row.dequeued_us,
        built_at=row.built_us,
        completed_at=row.completed_us,
        fetch_offset=row.fetch_offset,
        replica_high_watermark=known,
        response_high_watermark=row.response_high_watermark,
        decision="parked" if parked else "immediate",
        completion=completion.value,
        parked_ms=(row.built_us - row.dequeued_us) / 1000 if parked else 0.0,
        record_bytes=row.record_bytes,
        request_bytes=row.request_bytes,
        response_bytes=row.response_bytes,
        verdict=verdict,
        reason=reason,
    )


def replayed(replay: HwmParking, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcomes]:
    """Feed all batches, then finish: the outcomes as they come."""
    for batch in batches:
        yield replay.feed(batch)
    yield replay.finish()
