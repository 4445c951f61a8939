"""One epoch of one leader: the recorded responses explained, and every variant replayed."""

import heapq
from collections.abc import Sequence
from typing import Self

import msgspec

from ..log_gaps import ALWAYS_SINCE_US, LOG_GAP
from ..model.raft import Completion, Leader
from ..outcomes import RECORDED, Variant, Verdict
from . import outcomes
from .closed_loop import ClosedLoop, SimulatedFetch
from .evidence import Evidence
from .explain import (
    HANDLING_SLACK_US,
    carries_one_of_its_wait,
    causes_of,
    completed_by_drain,
    explain,
    shown,
    woken_by,
)
from .lag import Advance, LagTracker
from .metadata_log import NO_RESPONSE, NOT_LEADING, WAKE_SPREAD_US, RecordedFetch
from .outcomes import Controller, Emitted, EpochRows, Outcome, Taken
from .settling import Settling
from .timelines import Timeline


class LeaderEpoch(msgspec.Struct, array_like=True):
    """The replay of one epoch: ``take`` recorded FETCHes, ``advance``, and ``close`` it.

    ``recorded`` is the leader as the log shows it, None until its first FETCH is followed;
    ``voter_fetches`` are those that it is yet to follow, a heap of (dequeued_us, request id,
    replica, fetch offset). ``taken`` are FETCHes yet to be explained; ``drained_us`` is when the
    leader last drained no batch; ``handled`` is when the latest FETCH completed until a time was
    dequeued; ``sequences`` count each replica's, ``loop_sequences`` those of
    each closed loop. ``since_us``: a hole in the log ends there, before which the leader's log
    reached ``since_offset``.
    """

    controller: Controller
    leader_epoch: int
    evidence: Evidence
    sequences: dict[int, int] = {}
    loop_sequences: list[dict[int, int]] = []
    since_us: int = ALWAYS_SINCE_US
    since_offset: int = 0
    settling: Settling = msgspec.field(default_factory=Settling)
    log_end_offset: Timeline = msgspec.field(default_factory=Timeline)
    high_watermark: Timeline = msgspec.field(default_factory=Timeline)
    handled: Timeline = msgspec.field(default_factory=Timeline)
    recorded: Leader | None = None
    recorded_lag: LagTracker = msgspec.field(default_factory=LagTracker)
    loops: list[ClosedLoop] = []
    voter_fetches: list[tuple[int, str, int, int]] = []
    taken: list[Taken] = []
    drained_us: int = 0
    resigned_us: int | None = None
    last_us: int = 0

    def begun_anew(self, since_us: int) -> Self:
        return type(self)(
            self.controller,
            self.leader_epoch,
            self.evidence.behind_hole(since_us),
            self.sequences,
            [loop.sequences for loop in self.loops] or self.loop_sequences,
            since_us,
            max(self.settling.log_end_offset, *self.log_end_offset.values[-1:], 0),
        )

    def take(self, row: RecordedFetch, *, in_hole: bool = False) -> None:
        """Take a recorded FETCH, in order of built_us. Those in a hole are no evidence."""
        sequence = self.sequences.get(row.replica_id, 0)
        self.sequences[row.replica_id] = sequence + 1
        if in_hole:
            self.taken.append(Taken(row, sequence, outcomes.LOST))
            return
        outcome: Outcome | None = None
        if row.error_code == NO_RESPONSE:
            outcome = Outcome(Completion.UNEXPLAINED, False, Verdict.UNKNOWN, outcomes.NOT_IN_LOG)
        elif row.error_code in NOT_LEADING and not self._take_rejected(row):
            outcome = Outcome(Completion.ERROR, False, Verdict.NOT_APPLICABLE, outcomes.NOT_LEADER)
        else:
            self.last_us = max(self.last_us, row.built_us)
        self.taken.append(Taken(row, sequence, outcome))
        if row.error_code == 0:
            self._take_completed(row)

    def _take_completed(self, row: RecordedFetch) -> None:
        self.evidence.add(row)
        self.handled.add(row.built_us, max((row.dequeued_us, *self.handled.values[-1:])))
        if row.replica_id in self.controller.voters and not (row.is_diverging or row.is_snapshot):
            fetch = (row.dequeued_us, row.request_id, row.replica_id, row.fetch_offset)
            heapq.heappush(self.voter_fetches, fetch)

    def _take_rejected(self, row: RecordedFetch) -> bool:
        """Take a FETCH whose response is "not the leader"; was it parked until then?"""
        if not self.evidence.replicas:
            return False
        was_parked = row.built_us - row.dequeued_us > WAKE_SPREAD_US
        if self.resigned_us is None:
            self.resigned_us = row.built_us if was_parked else row.dequeued_us
        self.evidence.add_rejected(row)
        return was_parked and row.dequeued_us < self.resigned_us

    def advance(self, front: int, lookahead_us: int, emitted: Emitted) -> None:
        """The log is known up to ``front``: replay what nothing still to come can change."""
        self._follow_leader(front - lookahead_us // 2)
        until = front - lookahead_us
        # The loops read how long the leader took, before and after.
        self._explain(front - lookahead_us * 3 // 4, emitted)
        self._emit_lags(Variant(RECORDED), self.recorded_lag, emitted)
        for variant, loop in zip(self.controller.variants, self.loops, strict=False):
            self._emit(variant, loop, loop.advance(self.evidence, until), emitted)
        self._forget(until - lookahead_us)

    def close(self, emitted: Emitted) -> None:
        """The epoch is over, or the log is: replay to the end."""
        self.evidence.close()
        self._follow_leader(self.last_us)
        self._explain(None, emitted)
        self.recorded_lag.close()
        self._emit_lags(Variant(RECORDED), self.recorded_lag, emitted)
        for variant, loop in zip(self.controller.variants, self.loops, strict=False):
            if self.resigned_us is None:
                fetches = loop.advance(self.evidence, self.last_us)
            else:
                fetches = loop.resign(self.evidence, self.resigned_us)
            loop.lag.close()
            self._emit(variant, loop, fetches, emitted)

    def _leader(self, hwm_aware: bool) -> Leader:
        start = self.evidence.epoch_start_offset
        first = min(r.first.fetch_offset for r in self.evidence.replicas.values())
        return Leader(
            hwm_aware=hwm_aware,
            leader_epoch=self.leader_epoch,
            voters=self.controller.voters - {self.controller.node_id},
            voter_count=len(self.controller.voters),
            epoch_start_offset=start,
            log_end_offset=max(start, first),
        )

    def _begin_following(self, until: int) -> Leader | None:
        firsts = (replica.first.dequeued_us for replica in self.evidence.replicas.values())
        if min(firsts, default=until + 1) > until:
            return None
        self.settling.log_end_offset = offset = self._offset_before()
        sequences = self.loop_sequences or [{} for _ in self.controller.variants]
        for variant, counted in zip(self.controller.variants, sequences, strict=True):
            swept = variant.parameter == "max_wait_ms"
            max_wait_us = variant.parameter_value * 1000 if swept else None
            leader = self._leader(outcomes.HWM_AWARE[variant.name])
            self.loops.append(
                ClosedLoop(leader, max_wait_us, self.since_us, Settling(offset), sequences=counted)
            )
        return self._leader(hwm_aware=False)

    def _offset_before(self) -> int:
        """The end of the leader's log before the first lines; -1 if the epoch begins in them."""
        if self.since_us == ALWAYS_SINCE_US and self.evidence.epoch_start_offset >= 0:
            return -1
        # A response that is not in the log shows in where its replica stands at its next FETCH.
        first = (replica.first.fetch_offset for replica in self.evidence.replicas.values())
        return max(self.since_offset, *first)

    def _follow_leader(self, until: int) -> None:
        if self.recorded is None:
            self.recorded = self._begin_following(until)
        leader = self.recorded
        if leader is None:
            return
        for at, end in self.evidence.take_appends(until):
            self.log_end_offset.add(at, end)
            previous = leader.high_watermark
            leader.append(end)
            self._advanced(at, previous)
            for loop in self.loops:
                loop.append(at, end)
        while self.voter_fetches and self.voter_fetches[0][0] <= until:
            at, _, replica_id, fetch_offset = heapq.heappop(self.voter_fetches)
            previous = leader.high_watermark
            leader.update_voter(replica_id, fetch_offset)
            self._advanced(at, previous)

    def _advanced(self, at: int, previous: int) -> None:
        assert self.recorded is not None
        if self.recorded.high_watermark == previous:
            return
        advance = Advance(at, previous, self.recorded.high_watermark)
        self.high_watermark.add(at, advance.high_watermark)
        if self.settling.is_new(advance.high_watermark):
            is_settled = self.settling.has_settled(at)
            replicas = self.evidence.replicas
            self.recorded_lag.advanced(advance, replicas, () if is_settled else replicas)
            self.settling.advanced(at, ())

    @property
    def _unsettled(self) -> str:
        return outcomes.MIDDLE_OF_EPOCH if self.since_us == ALWAYS_SINCE_US else LOG_GAP

    def _rows(self, variant: Variant) -> EpochRows:
        leader = {"leader_id": self.controller.node_id, "leader_epoch": self.leader_epoch}
        same = variant.what_if(outcomes.RULE) | leader
        return EpochRows(self.controller.voters, same, self._unsettled)

    def _explain(self, until: int | None, emitted: Emitted) -> None:
        rows = [each.row for each in self.taken if each.outcome is None]
        explained: list[Taken] = []
        for each in self.taken:
            if until is not None and each.row.built_us > until:
                break
            outcome = each.outcome or self._outcome(each.row, rows)
            explained.append(Taken(each.row, each.sequence, outcome))
        emitted.parking.add(self._rows(Variant(RECORDED)).recorded(explained))
        del self.taken[: len(explained)]

    def _outcome(self, row: RecordedFetch, rows: Sequence[RecordedFetch]) -> Outcome:
        if row.error_code != 0:
            return Outcome(Completion.ERROR, row.error_code in NOT_LEADING)
        carried = row.response_high_watermark
        self.recorded_lag.learned(row.replica_id, row.built_us, carried, row.hwm_aware)
        causes = causes_of(row, self.log_end_offset, self.high_watermark)
        if (woken := woken_by(row, causes)) is not None:
            self.evidence.replicas[row.replica_id].handled(woken, causes[woken], row.built_us)
        is_drained = self._is_drained(row, completed_by_drain(row, causes, rows))
        if is_drained and carries_one_of_its_wait(row, self.high_watermark):
            return Outcome(Completion.DRAIN, parked=True)
        completion, was_parked = explain(row, causes, self.high_watermark, self.handled)
        if not self.settling.has_settled(row.dequeued_us):
            return Outcome(completion, was_parked, Verdict.UNKNOWN, self._unsettled)
        return Outcome(completion, was_parked)

    def _is_drained(self, row: RecordedFetch, begins: bool) -> bool:
        """Did a drain complete a FETCH? The first that it completed shows when it ``begins``."""
        at = row.built_us
        if not begins:
            # Who was parked then is late as long as the thread handles nothing else.
            was_parked = row.dequeued_us < self.drained_us
            is_late = was_parked and self.handled.value(at) <= self.drained_us
            return is_late and shown(row) is Completion.HIGH_WATERMARK
        if at > self.drained_us + HANDLING_SLACK_US:
            self.drained_us = at
            for loop in self.loops:
                loop.drain(at)
        return True

    def _emit(
        self, variant: Variant, loop: ClosedLoop, fetches: list[SimulatedFetch], emitted: Emitted
    ) -> None:
        emitted.parking.add(self._rows(variant).simulated(fetches, self.evidence))
        self._emit_lags(variant, loop.lag, emitted)

    def _emit_lags(self, variant: Variant, tracker: LagTracker, emitted: Emitted) -> None:
        emitted.lag.add(self._rows(variant).lags(tracker.take()))

    def _forget(self, before: int) -> None:
        offsets = {r.fetch_offset for loop in self.loops for r in loop.replicas.values()}
        self.evidence.forget(before, offsets)
        self.log_end_offset.forget(before)
        self.high_watermark.forget(before)
        self.handled.forget(before)
