"""Replays one controller's log, epoch by epoch: explains its responses, and runs every variant."""

from collections.abc import Iterable
from typing import Self

import msgspec
import pyarrow as pa

from ..log_gaps import ALWAYS_SINCE_US, ALWAYS_UNTIL_US, LOG_GAP, NO_GAPS, Gaps
from ..model.raft import NO_RESPONSE, Completion
from ..records import ALWAYS_STEADY, RECORDED, SteadyPhase, Variant, Verdict, events_of
from ..simulation import forget
from .closed_loop import ClosedLoop
from .evidence import (
    ABSENCE_US,
    NOT_LEADING,
    WAKE_SPREAD_US,
    Evidence,
    RecordedMetadataFetch,
)
from .loop import Loop, WarmUp
from .open_loop import Explanation, OpenLoop
from .outcomes import NOT_IN_LOG, NOT_LEADER, Epoch, ParkingRows

#: How far behind the log the replay runs: longer than any FETCH stays parked or is being sent.
LOOKAHEAD_US = 60_000_000
#: How often the replay advances, in log time.
STEPS_PER_LOOKAHEAD = 6


class LeaderEpoch(msgspec.Struct, array_like=True):
    """Replays one epoch: ``take`` recorded FETCHes, ``advance``, and ``close`` it."""

    evidence: Evidence
    open_loop: OpenLoop
    closed_loops: list[ClosedLoop]
    is_followed: bool = False
    resigned_us: int | None = None
    last_us: int = 0

    @classmethod
    def begin(cls, epoch: Epoch, variants: Iterable[Variant], evidence: Evidence) -> Self:
        loops = [ClosedLoop.begin(epoch, variant) for variant in variants]
        return cls(evidence, OpenLoop.begin(epoch, Variant(RECORDED)), loops)

    def begun_anew(self, begins_us: int) -> Self:
        """Begins in the middle, behind a gap of the log that ends then."""
        variants = [loop.variant for loop in self.closed_loops]
        evidence = self.evidence.begun_anew(begins_us)
        anew = self.begin(self.open_loop.epoch, variants, evidence)
        anew.open_loop.sequences = self.open_loop.sequences
        for loop, previous in zip(anew.closed_loops, self.closed_loops, strict=True):
            loop.sequences = previous.sequences
        return anew

    def take(self, row: RecordedMetadataFetch, *, in_gap: bool) -> None:
        """Adds a recorded FETCH, in order of built_us; one in a gap is no evidence of anything."""
        explanation: Explanation | None = None
        if in_gap:
            explanation = Explanation(None, False, Verdict.UNKNOWN, LOG_GAP)
        elif row.error_code == NO_RESPONSE:
            explanation = Explanation(None, False, Verdict.UNKNOWN, NOT_IN_LOG)
        elif row.error_code in NOT_LEADING and not self._was_parked_until_resigned(row):
            verdict = Verdict.NOT_APPLICABLE
            explanation = Explanation(Completion.ERROR, False, verdict, NOT_LEADER)
        else:
            self.last_us = max(self.last_us, row.built_us)
        self.open_loop.taken.append((row, explanation))
        if row.error_code == 0 and not in_gap:
            self.evidence.add(row)
            self.open_loop.complete(row)

    def _was_parked_until_resigned(self, row: RecordedMetadataFetch) -> bool:
        """Tells whether a FETCH with the error "not the leader" had been parked until then.

        The first one shows when the leader resigned; what its replica requested is evidence.
        """
        if not self.evidence.replicas:
            return False
        was_parked = row.built_us - row.dequeued_us > WAKE_SPREAD_US
        if self.resigned_us is None:
            self.resigned_us = row.built_us if was_parked else row.dequeued_us
        self.evidence.add_rejected(row)
        return was_parked and row.dequeued_us < self.resigned_us

    def advance(self, front: int, rows: ParkingRows) -> None:
        """Replays what nothing still to come can change: the log is known up to ``front``."""
        until, before = front - LOOKAHEAD_US, front - 2 * LOOKAHEAD_US
        # Further than the loops, which look up how long the leader took before and after a time.
        self._replay(front - LOOKAHEAD_US // 2, front - LOOKAHEAD_US * 3 // 4, rows)
        for loop in self.closed_loops:
            loop.advance(self.evidence, until)
            loop.emit(rows)
        self.evidence.forget(before)
        forget(self.open_loop, before)

    def close(self, rows: ParkingRows) -> None:
        """Replays to the end: the epoch is over, or the log is."""
        self.evidence.close()
        self._replay(self.last_us, ALWAYS_UNTIL_US, rows)
        self.open_loop.close()
        self.open_loop.emit(rows)
        for loop in self.closed_loops:
            if self.resigned_us is None:
                loop.advance(self.evidence, self.last_us)
            else:
                loop.resign(self.evidence, self.resigned_us)
            loop.close()
            loop.emit(rows)

    def _replay(self, followed_until: int, explained_until: int, rows: ParkingRows) -> None:
        """Follows the recorded leader, explains its responses, and gives the loops its appends."""
        firsts = [replica.first for replica in self.evidence.replicas.values()]
        if not self.is_followed and any(first.dequeued_us <= followed_until for first in firsts):
            self.is_followed = True
            start = self.evidence.epoch_start_offset
            end = max(start, min(first.fetch_offset for first in firsts))
            loops: list[Loop] = [self.open_loop, *self.closed_loops]
            for loop in loops:
                loop.leader.epoch_start_offset, loop.leader.log_end_offset = start, end
                loop.warm_up = WarmUp.begin(self.evidence, loop.WARM_UP_APPENDS)
        appends = self.evidence.take_appends(followed_until)
        self.open_loop.advance(self.evidence, appends, followed_until)
        drains = self.open_loop.explain_until(self.evidence, explained_until)
        self.open_loop.emit(rows)
        for loop in self.closed_loops:
            for at, log_end_offset in [*appends, *((at, 0) for at in drains)]:
                loop.append(at, log_end_offset)


class State(msgspec.Struct, array_like=True):
    """All that a replay carries: the log is known up to ``front``; where its last gap ends."""

    epochs: dict[int, LeaderEpoch] = {}
    front: tuple[int, str] = (0, "")
    gap_ends_us: int = ALWAYS_SINCE_US


class HwmParking:
    """Replays one controller's log: feed it recorded FETCHes of the metadata log.

    ``voters`` are the ids of all voters. Batches of ``INPUT_SCHEMA`` come in order of
    (built_us, request_id); anything else raises ``ValueError``. ``saved`` is what an earlier
    replay of the same log, voters and variants had ``saved()``: this one resumes it. ``gaps`` are
    those of all logs; ``phase`` is that of the recording.
    """

    def __init__(
        self,
        node_id: int,
        voters: Iterable[int],
        rules: list[Variant],
        saved: bytes | None = None,
        gaps: Gaps = NO_GAPS,
        phase: SteadyPhase = ALWAYS_STEADY,
    ) -> None:
        self._node_id, self._voters, self._rules = node_id, frozenset(voters), rules
        self._gaps = gaps
        self._rows = ParkingRows(gaps, phase)
        self._state = State() if saved is None else msgspec.msgpack.decode(saved, type=State)

    def feed(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Replays an increment of the log; returns outcomes that nothing to come can change."""
        state = self._state
        # Advancing in steps of the log's time, whatever the batches, makes the rows a function of
        # the log alone.
        step = LOOKAHEAD_US // STEPS_PER_LOOKAHEAD
        for row in events_of(batch, RecordedMetadataFetch):
            if (row.built_us, row.request_id) < state.front:
                raise ValueError("FETCHes must come in order of built_us, request_id")
            if row.built_us // step != state.front[0] // step:
                self._advance(state.front[0])
            state.front = (row.built_us, row.request_id)
            gap = self._gaps.last(self._node_id, state.gap_ends_us, row.built_us)
            if gap is not None:
                # What was before it is over; what is behind it is a log that begins in the middle.
                state.gap_ends_us = gap.before_us
                for leader_epoch, epoch in state.epochs.items():
                    epoch.close(self._rows)
                    state.epochs[leader_epoch] = epoch.begun_anew(gap.before_us)
            in_gap = row.built_us < state.gap_ends_us
            self._epoch(row).take(row, in_gap=in_gap)
        return self._rows.take()

    def finish(self) -> list[pa.RecordBatch]:
        for epoch in self._state.epochs.values():
            epoch.close(self._rows)
        self._state.epochs.clear()
        return self._rows.take()

    def saved(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def _epoch(self, row: RecordedMetadataFetch) -> LeaderEpoch:
        epochs, leader_epoch = self._state.epochs, row.leader_epoch
        if leader_epoch not in epochs:
            # A leader gets FETCHes all the time: one with FETCHes just behind a gap led before it.
            is_cut = row.dequeued_us < self._state.gap_ends_us + ABSENCE_US
            begins_us = self._state.gap_ends_us if is_cut else ALWAYS_SINCE_US
            evidence = Evidence(leader_epoch, begins_us=begins_us)
            epoch = Epoch(self._node_id, leader_epoch, self._voters)
            epochs[leader_epoch] = LeaderEpoch.begin(epoch, self._rules, evidence)
        return epochs[leader_epoch]

    def _advance(self, front: int) -> None:
        for leader_epoch, epoch in self._state.epochs.items():
            if epoch.resigned_us is not None and front - epoch.resigned_us > LOOKAHEAD_US:
                epoch.close(self._rows)
                # A later line of the epoch can only be "not the leader".
                self._state.epochs[leader_epoch] = epoch.begun_anew(ALWAYS_SINCE_US)
            else:
                epoch.advance(front, self._rows)
