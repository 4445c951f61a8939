"""Follows the recorded leader, and checks whether the rule could have given its responses."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from ..model import STAMP_US
from ..model.raft import UNKNOWN_OFFSET, Completion
from ..records import Verdict
from ..simulation import EventQueue, Rising
from .evidence import NOT_LEADING, STALL_US, WAKE_SPREAD_US, Evidence, RecordedMetadataFetch
from .loop import Loop
from .outcomes import IMMEDIATE, PARKED, UNEXPLAINED, ParkedFetch

#: A line is stamped once its JSON is built: a stall before that makes all its derived times late.
LATE_STAMP_US = 25_000
#: What could not be drained is appended within this (the longest recorded took 176 ms).
DRAIN_APPEND_US = 250_000

#: When each cause that the rule knows would have completed a FETCH.
Causes = dict[Completion, int]


class Explanation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why a recorded FETCH completed (None: unexplained), and whether it was parked."""

    completion: Completion | None
    parked: bool = False
    verdict: Verdict = Verdict.REPLAYED
    reason: str | None = None


class OpenLoop(Loop, array_like=True):
    """Follows the leader of an epoch as the log shows it.

    ``voter_fetches`` are those that it is yet to follow: (request id, replica, fetch offset);
    ``taken`` are FETCHes yet to be explained; ``handled``: over time, the latest dequeue among the
    FETCHes that were completed by then; ``drained_us`` is when the leader last drained no batch,
    ``drains`` are such times that no closed loop has yet.
    """

    log_end_offsets: Rising = msgspec.field(default_factory=Rising)
    high_watermarks: Rising = msgspec.field(default_factory=Rising)
    handled: Rising = msgspec.field(default_factory=Rising)
    voter_fetches: EventQueue[tuple[str, int, int]] = msgspec.field(default_factory=EventQueue)
    taken: list[tuple[RecordedMetadataFetch, Explanation | None]] = msgspec.field(
        default_factory=list
    )
    drained_us: int = 0
    drains: list[int] = msgspec.field(default_factory=list)

    def complete(self, row: RecordedMetadataFetch) -> None:
        """Adds a FETCH that the leader completed, in order of built_us."""
        self.handled.add(row.built_us, row.dequeued_us)
        if row.replica_id in self.leader.voters and not (row.is_diverging or row.is_snapshot):
            fetch = row.request_id, row.replica_id, row.fetch_offset
            self.voter_fetches.push(row.dequeued_us, 0, fetch)

    def advance(self, evidence: Evidence, appends: Sequence[tuple[int, int]], until: int) -> None:
        """Moves the leader's offsets by its appends, (time, log end offset), and by its voters."""
        for at, log_end_offset in appends:
            self.log_end_offsets.add(at, log_end_offset)
            self.leader.append(log_end_offset)
            self._note_advance(evidence, at)
        for at, _, (_, replica_id, fetch_offset) in self.voter_fetches.until(until):
            self.leader.update_voter(replica_id, fetch_offset)
            self._note_advance(evidence, at)

    def _note_advance(self, evidence: Evidence, at: int) -> None:
        if self.leader.high_watermark != UNKNOWN_OFFSET:
            self.high_watermarks.add(at, self.leader.high_watermark)
            self.follow(at, evidence.replicas)

    def explain_until(self, evidence: Evidence, until: int) -> list[int]:
        """Explains FETCHes whose responses were built up to a time; returns drains."""
        explained = [row for row, explanation in self.taken if explanation is None]
        count = bisect_right(self.taken, until, key=lambda taken: taken[0].built_us)
        for row, explanation in self.taken[:count]:
            explanation = explanation or self._explained(evidence, row, explained)
            self.fetches.append(
                ParkedFetch(
                    variant=self.variant,
                    verdict=explanation.verdict,
                    reason=explanation.reason,
                    leader_id=self.epoch.leader_id,
                    leader_epoch=self.epoch.leader_epoch,
                    replica_id=row.replica_id,
                    sequence=self.next_sequence(row.replica_id),
                    recorded_request_id=row.request_id,
                    is_voter=row.replica_id in self.epoch.voters,
                    received_at=row.received_us,
                    dequeued_at=row.dequeued_us,
                    built_at=row.built_us,
                    completed_at=row.completed_us,
                    fetch_offset=row.fetch_offset,
                    replica_high_watermark=row.high_watermark,
                    response_high_watermark=row.response_high_watermark,
                    decision=PARKED if explanation.parked else IMMEDIATE,
                    completion=explanation.completion or UNEXPLAINED,
                    record_bytes=row.record_bytes,
                    request_bytes=row.request_bytes,
                    response_bytes=row.response_bytes,
                )
            )
        del self.taken[:count]
        drains, self.drains = self.drains, []
        return drains

    def _explained(
        self, evidence: Evidence, row: RecordedMetadataFetch, rows: Sequence[RecordedMetadataFetch]
    ) -> Explanation:
        """Explains a FETCH by the first of these that fits.

        ====== ===================================================================================
        error  The response says so, and nothing else of it means anything.
        drain  In every release, so before the rule: by the rule an early, empty response that
               carries no move has no cause.
        rule   ``explain``. Where the log begins within the epoch, what the rule says is unknown
               until the leader's state is known (``WarmUp``).
        ====== ===================================================================================
        """
        if row.error_code != 0:
            return Explanation(Completion.ERROR, row.error_code in NOT_LEADING)
        at, carried = row.built_us, row.response_high_watermark
        self.learn(row.replica_id, carried, at, row.hwm_aware)
        causes = self.causes_of(row)
        if (woken := woken_by(row, causes, self.handled.value(at) or 0)) is not None:
            evidence.replicas[row.replica_id].handled(woken, causes[woken], at)
        if self._is_drained(row, causes, rows) and self._carries_moment_of_wait(row):
            return Explanation(Completion.DRAIN, parked=True)
        explanation = self.explain(row, causes)
        warm_up = self.warm_up
        if warm_up.warm_us is None or row.dequeued_us < warm_up.warm_us:
            completion, parked = explanation.completion, explanation.parked
            return Explanation(completion, parked, Verdict.UNKNOWN, warm_up.reason)
        return explanation

    def _is_drained(
        self, row: RecordedMetadataFetch, causes: Causes, rows: Sequence[RecordedMetadataFetch]
    ) -> bool:
        """Tells whether a drain completed a FETCH, and notes the drain at the first of them."""
        at = row.built_us
        if completed_by_drain(row, causes, rows):
            if at > self.drained_us + STALL_US:
                self.drained_us = at
                self.drains.append(at)
            return True
        # The drain completes who was parked at it, however late, until the thread handles a FETCH
        # that came after it.
        was_parked = row.dequeued_us < self.drained_us
        is_late = was_parked and (self.handled.value(at) or 0) <= self.drained_us
        return is_late and completion_of(row) is Completion.HIGH_WATERMARK

    def causes_of(self, row: RecordedMetadataFetch) -> Causes:
        """Returns what completes a FETCH by the rule, whatever its response carries."""
        at = row.dequeued_us
        causes = {Completion.TIMEOUT: at + row.max_wait_us}
        appended = self.log_end_offsets.first_above(row.fetch_offset, at)
        if appended is not None:
            causes[Completion.RECORDS] = appended
        if row.hwm_aware:
            behind = row.high_watermark < self._high_watermark_at(at)
            moved = at if behind else self.high_watermarks.next_change(at)
            if moved is not None:
                causes[Completion.HIGH_WATERMARK] = moved
        return causes

    def explain(self, row: RecordedMetadataFetch, causes: Causes) -> Explanation:
        """Checks whether the rule could have given the recorded response.

        It could if what the response shows had happened when it was built, the high watermark it
        carries was the leader's at some moment between the FETCH and its response, and nothing that
        was due was kept back: it is in time, or late for a reason that the rule allows.
        """
        completion = completion_of(row)
        if completion in (Completion.DIVERGING, Completion.SNAPSHOT):
            return Explanation(completion)
        at, built, carried = row.dequeued_us, row.built_us, row.response_high_watermark
        cause = causes.get(completion)
        # A wait begins once the thread parks the FETCH, before it handles one that came later.
        parked_us = min(built, self.handled.first_above(at, at) or built)
        due = min((causes | {Completion.TIMEOUT: parked_us + row.max_wait_us}).values())
        # A response that carries a move shows that the FETCH which caused it was handled before.
        slack = LATE_STAMP_US if carried > self._high_watermark_at(at) else STAMP_US
        has_happened = cause is not None and cause <= built + slack
        is_in_time = built <= due + STALL_US
        # A single thread handles one event after the other: who is late waits for it, however long
        # it stalls, as long as no FETCH that came after what was due is completed first.
        is_thread_late = (
            cause is not None
            and cause <= due + STALL_US
            and (self.handled.value(built) or 0) <= due
        )
        # Without a high watermark the leader is still busy with its election and first flush.
        is_starting = carried == UNKNOWN_OFFSET
        is_explained = (
            has_happened
            and (is_in_time or is_thread_late or is_starting)
            and self._carries_moment_of_wait(row)
        )
        was_parked = (due if cause is None else cause) > at
        return Explanation(completion if is_explained else None, was_parked)

    def _carries_moment_of_wait(self, row: RecordedMetadataFetch) -> bool:
        """Checks that the high watermark carried was the leader's at some moment of the wait."""
        lowest = self._high_watermark_at(row.dequeued_us - LATE_STAMP_US)
        highest = self._high_watermark_at(row.built_us + LATE_STAMP_US)
        return lowest <= row.response_high_watermark <= highest

    def _high_watermark_at(self, at: int) -> int:
        high_watermark = self.high_watermarks.value(at)
        return UNKNOWN_OFFSET if high_watermark is None else high_watermark


def woken_by(row: RecordedMetadataFetch, causes: Causes, handled_us: int) -> Completion | None:
    """Returns what the Raft thread handled when it built a response: an append, or a move.

    None if it was another thread, if records were there already, or if it took too long for that
    and had handled a FETCH meanwhile: the latest one by then came at ``handled_us``. The high
    watermark carried is not read.
    """
    completion = completion_of(row)
    cause = causes.get(completion)
    if completion is Completion.TIMEOUT or cause is None:
        return None
    if completion is Completion.RECORDS and cause <= row.dequeued_us:
        return None
    is_late = row.built_us > cause + STALL_US and handled_us > cause
    return completion if cause - LATE_STAMP_US <= row.built_us and not is_late else None


def completion_of(row: RecordedMetadataFetch) -> Completion:
    """Returns what a response shows by itself: records, a wait that was over, or a move."""
    if row.is_diverging or row.is_snapshot:
        return Completion.DIVERGING if row.is_diverging else Completion.SNAPSHOT
    if row.record_bytes > 0:
        return Completion.RECORDS
    if row.built_us >= row.dequeued_us + row.max_wait_us - STAMP_US:
        return Completion.TIMEOUT
    return Completion.HIGH_WATERMARK


def completed_by_drain(
    row: RecordedMetadataFetch, causes: Causes, rows: Sequence[RecordedMetadataFetch]
) -> bool:
    """Checks whether a drain without a batch completed a FETCH; reads no high watermark carried.

    The active controller prepares records (``prepareAppend``) and allows to drain them when it has
    applied them itself (``schedulePreparedAppend``). If ``controller.quorum.append.linger.ms`` is
    over in between, because its thread stalls, ``KafkaRaftClient.maybeAppendBatches`` drains no
    batch, and its ``flushLeaderLog`` completes all who are parked at the log's end all the same. In
    no KIP, and in every release. The response is early and empty, the high watermark had not moved,
    nobody who was parked stayed so or got records, and the append follows. ``rows``: all FETCHes
    that the leader completed about that time, in order of built_us.
    """
    built = row.built_us
    # A move that follows the append is no cause of a response before it, however late the stamp.
    appended = causes.get(Completion.RECORDS, built)
    moved = causes.get(Completion.HIGH_WATERMARK, appended)
    if (
        completion_of(row) is not Completion.HIGH_WATERMARK
        or not built < appended <= built + DRAIN_APPEND_US
        or (moved < appended and moved <= built + LATE_STAMP_US)
    ):
        return False
    later = rows[bisect_right(rows, built, key=attrgetter("built_us")) :]
    parked = (other for other in later if other.dequeued_us < built - WAKE_SPREAD_US)
    latest = built + STALL_US
    return not any(other.record_bytes or other.built_us > latest for other in parked)
