"""hwm_parking: when do replicas of the metadata log learn a new high watermark? (KIP-1166)

Theory of operation
-------------------
Every controller and broker replicates ``__cluster_metadata`` by FETCHing from the active
controller. A FETCH that finds no records is *parked* for up to ``maxWaitMs`` (500 ms). A voter's
FETCH at offset X also says "I have everything below X", and that moves the high watermark. The
other replicas are parked at X by then, so they learn of the move only with their next answer: at
the next append, or after 500 ms. With KIP-1166 (FETCH v18, Kafka 4.1) a replica says which high
watermark it knows; a FETCH that knows less than the leader is answered at once, and a move of the
high watermark answers everyone who is parked.

This file has the rule and two ways of holding it against a log. What the log says that no rule
explains (when the leader appended, how long a replica takes from an answer to its next FETCH, how
fast the leader's Raft thread answers) is gathered in ``replay.metadata_log``.

``Leader``
    The rule: who is answered, who is parked, who is woken, why and with which high watermark.
    It follows ``KafkaRaftClient.tryCompleteFetchRequest`` and ``LeaderState
    .maybeUpdateHighWatermark`` and knows no clock.
``ClosedLoop``
    Leader and replicas, started anew: which FETCHes would exist, when, and what they would learn.
``explain``
    The open-loop check: could the rule have given the answer that was recorded?
``HwmParking``
    The whole replay of one leader's log: recorded FETCHes in, outcomes and lags out. It runs a
    fixed span (``LOOKAHEAD_US``) behind the log, so its memory is that span and not the log.

What is read of a response
--------------------------
*Inputs of the rule:* ``built_at`` (only through appends, gaps and service times),
``record_bytes`` (which appends it carried), ``response_bytes`` (the envelope around the records),
and whether the error says "not the leader" (6, 74, 75 and others), which bounds a leader's epoch.
*Never read by the closed loop:* the high watermark told, the completion, how long the answer took
because of the rule; ``tests/unit/test_hwm_parking.py`` blanks them and gets the same rows. The
recorded variant and ``explain`` read them, since they are what is compared.

Assumptions, and where they can fail
------------------------------------
* A gap between an answer and the next FETCH is the replica's own: it does not depend on the rule.
  The gap used is the replica's recorded one nearest in time; nothing is drawn, because the slow
  moments of a machine hit all its replicas together.
* The Raft thread answers one FETCH at a time. The time for one answer is taken from the recorded
  spread of the answers that one append wakes, nearest in time.
* A replica that sends nothing for more than ``ABSENCE_US`` is away (frozen, restarting, cut off):
  no variant lets it FETCH in that span.
* An append is known from the first answer that carries it; if no FETCH was parked at the time, it
  was a little earlier.
* The leader's own empty wake-ups (answers that are early, empty and tell nothing new) are in no
  KIP: they are ``unexplained`` and no variant has them. ``woke_everyone`` tells those of which
  the log shows that all who were parked woke together, as a drain without a batch does it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from replay.metadata_log import (
    INPUT_SCHEMA,
    NO_ANSWER,
    NOT_SENT,
    UNKNOWN_OFFSET,
    WAKE_SPREAD_US,
    Absence,
    Evidence,
    RecordedFetch,
    Timeline,
)
from replay.outcomes import RECORDED, Rows, Variant, Verdict
from replay.schema import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG
from replay.wire_size import HIGH_WATERMARK_TAG_BYTES, records_field_bytes

#: How far behind the log the replay runs: longer than any FETCH stays parked or is being sent.
LOOKAHEAD_US = 60_000_000
#: How often the replay moves on, in log time.
STEPS_PER_LOOKAHEAD = 6
#: Stamps are cut to milliseconds, so two derived times of one event differ by up to this.
STAMP_SLACK_US = 2_000
#: The longest that the leader may take over an answer that is due and still be explained.
HANDLING_SLACK_US = 100_000


class Completion(StrEnum):
    """Why a FETCH was answered."""

    RECORDS = "records"
    HIGH_WATERMARK = "high_watermark"
    TIMEOUT = "timeout"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"
    ERROR = "error"
    UNEXPLAINED = "unexplained"


# --- the rule ------------------------------------------------------------------------------------


class Fetch(NamedTuple):
    """A FETCH of the metadata log, as its sender builds it (``buildFetchRequest``)."""

    replica_id: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_us: int = 500_000
    token: int = 0


class Answer(NamedTuple):
    """What the leader answers: why, whether it was parked first, and what it tells."""

    fetch: Fetch
    completion: Completion
    parked: bool
    high_watermark: int
    log_end_offset: int


def turned_away(fetch: Fetch, *, parked: bool = False) -> Answer:
    """NOT_LEADER_OR_FOLLOWER: empty, and without a high watermark."""
    return Answer(fetch, Completion.ERROR, parked, UNKNOWN_OFFSET, fetch.fetch_offset)


@dataclass
class Leader:
    """The leader of one epoch: its offsets, its voters' progress and its parked FETCHes.

    ``voters`` are the other voters; ``voter_count`` counts all, the leader included if it votes.
    ``epoch_ends`` are the end offsets of earlier epochs, ``snapshot`` is the end offset of the
    snapshot below which the log was deleted. Each method returns the answers it causes, in the
    order in which the Raft thread builds them.
    """

    hwm_aware: bool
    voters: frozenset[int]
    voter_count: int
    epoch_start_offset: int = -1
    log_end_offset: int = 0
    log_start_offset: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict)
    snapshot: int | None = None
    high_watermark: int = UNKNOWN_OFFSET
    segment: int = 0
    _high_watermark_segment: int = 0
    _voter_offsets: dict[int, int] = field(default_factory=dict)
    _parked: dict[int, Answer] = field(default_factory=dict)

    def fetch(self, fetch: Fetch) -> list[Answer]:
        """Take a FETCH: answer it or park it (``tryCompleteFetchRequest``, steps 3 to 5)."""
        refusal = self._validate(fetch)
        if refusal is not None:
            return [self._answer(fetch, refusal)]
        # The high watermark moves before this answer is built, so the answer shows the move.
        woken = self.voter_progress(fetch.replica_id, fetch.fetch_offset)
        due = self._due_now(fetch)
        if due is not None:
            return [*woken, self._answer(fetch, due)]
        # On expiry the answer built now is sent, with today's high watermark.
        self._parked[fetch.token] = self._answer(fetch, Completion.TIMEOUT, parked=True)
        return woken

    def voter_progress(self, replica_id: int, offset: int) -> list[Answer]:
        """A FETCH at an offset says that its sender has everything below; voters' count."""
        if replica_id not in self.voters:
            return []
        self._voter_offsets[replica_id] = offset
        return self._update_high_watermark()

    def append(self, log_end_offset: int) -> list[Answer]:
        """Append up to ``log_end_offset``: every FETCH that waits at or below it completes."""
        self.log_end_offset = max(self.log_end_offset, log_end_offset)
        # Only a leader that is the single voter commits alone; it does so before it answers.
        woken = self._update_high_watermark()
        return woken + self._wake(
            Completion.RECORDS, lambda f: f.fetch_offset <= self.log_end_offset
        )

    def expire(self, token: int) -> list[Answer]:
        """A FETCH has been parked for its maxWaitMs: what was built at park time is sent."""
        answer = self._parked.pop(token, None)
        return [] if answer is None else [answer]

    def roll_segment(self) -> None:
        """Start a new segment: an equal high watermark with new metadata counts as an update."""
        self.segment += 1

    def resign(self) -> list[Answer]:
        """Stop leading: NOT_LEADER_OR_FOLLOWER, empty, for everyone who is parked."""
        parked = [a.fetch for a in self._parked.values()]
        self._parked.clear()
        return [turned_away(fetch, parked=True) for fetch in parked]

    @property
    def parked(self) -> list[Fetch]:
        """FETCHes that wait, in the order in which they were parked."""
        return [answer.fetch for answer in self._parked.values()]

    def _validate(self, fetch: Fetch) -> Completion | None:
        """``validateOffsetAndEpoch``: a log the leader can't continue from is told so at once."""
        if self.snapshot is not None and (
            fetch.fetch_offset == 0 or fetch.fetch_offset < self.log_start_offset
        ):
            return Completion.SNAPSHOT
        end = self.epoch_ends.get(fetch.last_fetched_epoch)
        if end is not None and fetch.fetch_offset > end:
            return Completion.DIVERGING
        return None

    def _due_now(self, fetch: Fetch) -> Completion | None:
        if fetch.fetch_offset < self.log_end_offset:
            return Completion.RECORDS
        if self.hwm_aware and fetch.high_watermark < self.high_watermark:
            return Completion.HIGH_WATERMARK
        return Completion.TIMEOUT if fetch.max_wait_us == 0 else None

    def _update_high_watermark(self) -> list[Answer]:
        """``maybeUpdateHighWatermark``: the floor(N/2)-th of the voters' offsets, descending.

        The leader's own offset is at or above all others, so it stands first where it votes.
        """
        own = [self.log_end_offset] if self.voter_count > len(self.voters) else []
        offsets = [*own, *sorted(self._voter_offsets.values(), reverse=True)]
        rank = self.voter_count // 2
        if rank >= len(offsets) or not self._is_update(offsets[rank]):
            return []
        self.high_watermark = offsets[rank]
        self._high_watermark_segment = self.segment
        return self._wake(Completion.HIGH_WATERMARK, lambda f: True) if self.hwm_aware else []

    def _is_update(self, candidate: int) -> bool:
        rolled = self.segment != self._high_watermark_segment
        above = candidate > self.high_watermark or (candidate == self.high_watermark and rolled)
        return above and candidate > self.epoch_start_offset

    def _wake(self, completion: Completion, chosen: Callable[[Fetch], bool]) -> list[Answer]:
        """Complete parked FETCHes; what is sent is not tested again, only read anew."""
        waiting = [a.fetch for a in self._parked.values() if chosen(a.fetch)]
        for fetch in waiting:
            del self._parked[fetch.token]
        return [
            self._answer(
                fetch,
                Completion.RECORDS if fetch.fetch_offset < self.log_end_offset else completion,
                parked=True,
            )
            for fetch in waiting
        ]

    def _answer(self, fetch: Fetch, completion: Completion, *, parked: bool = False) -> Answer:
        told_nothing = completion in (Completion.DIVERGING, Completion.SNAPSHOT)
        end = fetch.fetch_offset if told_nothing else self.log_end_offset
        return Answer(fetch, completion, parked, self.high_watermark, end)


# --- the closed loop -----------------------------------------------------------------------------


class Advance(NamedTuple):
    """The leader's high watermark moved; ``at`` is when the voter's FETCH was dequeued."""

    at: int
    previous: int
    high_watermark: int


class Lag(NamedTuple):
    """When a replica learned of an advance; ``learned_us`` is None if it never did."""

    replica_id: int
    advance: Advance
    learned_us: int | None
    away: bool


class LagTracker:
    """Joins advances of the high watermark with the first answer that tells each replica."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._told: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._waiting: dict[int, list[Advance]] = defaultdict(list)
        self.lags: list[Lag] = []

    def advanced(self, advance: Advance) -> None:
        """The high watermark moved: from now on each replica that FETCHes here is to learn it."""
        for replica_id, replica in self._evidence.replicas.items():
            if replica.first.dequeued_us > advance.at:
                continue
            told = self._told[replica_id]
            known = bisect_left(told, (advance.high_watermark, -1))
            if replica.is_away(advance.at):
                # It may be away for good, so nothing waits for its return.
                self.lags.append(Lag(replica_id, advance, None, away=True))
            elif known < len(told):
                self._learned(replica_id, advance, told[known][1])
            else:
                self._waiting[replica_id].append(advance)

    def told(self, replica_id: int, built_us: int, high_watermark: int) -> None:
        """An answer told a replica a high watermark. Called in order of built_us per replica."""
        told = self._told[replica_id]
        if told and high_watermark <= told[-1][0]:
            return
        self._told[replica_id] = [*told[-15:], (high_watermark, built_us)]
        waiting = self._waiting[replica_id]
        while waiting and waiting[0].high_watermark <= high_watermark:
            self._learned(replica_id, waiting.pop(0), built_us)

    def close(self) -> None:
        """The leader stopped, or the log did: what is not learned by now never is."""
        for replica_id, waiting in self._waiting.items():
            for advance in waiting:
                self._learned(replica_id, advance, None)
        self._waiting.clear()

    def take(self) -> list[Lag]:
        """Lags settled since the last call."""
        taken, self.lags = self.lags, []
        return taken

    def _learned(self, replica_id: int, advance: Advance, built_us: int | None) -> None:
        # Stamps are cut to milliseconds: an answer can't really be built before the advance.
        learned = None if built_us is None else max(built_us, advance.at)
        self.lags.append(Lag(replica_id, advance, learned, away=False))


class SimulatedFetch(NamedTuple):
    """A FETCH of the closed loop and its answer. Times are microseconds since the epoch."""

    replica_id: int
    sequence: int
    dequeued_us: int
    built_us: int
    fetch: Fetch
    answer: Answer


@dataclass
class Replica:
    """A replica of the closed loop: its log end offset and what it knows."""

    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int = UNKNOWN_OFFSET
    sequence: int = 0
    waits_since: int | None = None

    def returns(self, absence: Absence) -> None:
        """Come back from an absence: a restart forgets the high watermark and maybe log."""
        if absence.restarted:
            self.high_watermark = UNKNOWN_OFFSET
            self.fetch_offset = min(self.fetch_offset, absence.fetch_offset)
            self.last_fetched_epoch = absence.last_fetched_epoch

    def take(self, answer: Answer, leader_epoch: int, leader: Leader) -> None:
        """Append what an answer carries and learn its high watermark (``handleFetchResponse``)."""
        if answer.completion is Completion.DIVERGING:
            # The records that stay are of that epoch, as far as the leader has it too.
            self.fetch_offset = leader.epoch_ends[self.last_fetched_epoch]
        elif answer.completion is Completion.SNAPSHOT:
            self.fetch_offset = leader.snapshot or 0
            self.last_fetched_epoch = leader_epoch
        elif answer.log_end_offset > self.fetch_offset:
            self.fetch_offset = answer.log_end_offset
            self.last_fetched_epoch = leader_epoch
        told = min(self.fetch_offset, answer.high_watermark)
        self.high_watermark = max(self.high_watermark, told)


# Kinds of event of the closed loop; the number decides which of two at one time comes first.
_APPEND, _EXPIRE, _ARRIVE, _PROCESS = range(4)


class InFlight(NamedTuple):
    """A FETCH of the closed loop that is not answered yet."""

    sequence: int
    dequeued_us: int
    fetch: Fetch


class ClosedLoop:
    """One leader epoch replayed under one rule: the leader's appends and the replicas' gaps are
    given, every FETCH and every answer follows from the rule.

    ``max_wait_us`` replaces the recorded maxWaitMs (a sweep); None keeps it.
    """

    def __init__(
        self, evidence: Evidence, leader: Leader, leader_epoch: int, max_wait_us: int | None
    ) -> None:
        self._evidence = evidence
        self._leader = leader
        self._leader_epoch = leader_epoch
        self._max_wait_us = max_wait_us
        self._replicas: dict[int, Replica] = {}
        self._events: list[tuple[int, int, int, int]] = []
        self._in_flight: dict[int, InFlight] = {}
        self._tokens = 0
        self._free_us = 0
        self.lag = LagTracker(evidence)
        self._answered: list[SimulatedFetch] = []

    def append(self, at: int, log_end_offset: int) -> None:
        """The leader will append up to an offset at a time (from the log)."""
        heapq.heappush(self._events, (at, _APPEND, log_end_offset, 0))

    def advance(self, until: int) -> list[SimulatedFetch]:
        """Run up to a time and return the FETCHes answered since the last call."""
        for replica_id, seen in self._evidence.replicas.items():
            replica = self._replicas.get(replica_id)
            if replica is None and seen.first.dequeued_us <= until:
                self._join(replica_id, seen.first)
            elif replica is not None and replica.waits_since is not None:
                self._schedule(replica_id, replica, replica.waits_since)
        while self._events and self._events[0][0] <= until:
            at, kind, what, token = heapq.heappop(self._events)
            if kind == _APPEND:
                self._append(at, what)
            elif kind == _ARRIVE:
                self._arrive(at, what)
            elif kind == _PROCESS:
                self._process(at, token)
            else:
                self._answer_all(at + self._evidence.service_us(at), self._leader.expire(token))
        answered, self._answered = self._answered, []
        return answered

    def resign(self, at: int) -> list[SimulatedFetch]:
        """The leader stops leading at a time: run up to it and turn away who is parked."""
        answered = self.advance(at)
        # Who is parked is turned away, and so is who still waits for the Raft thread.
        refused = self._leader.resign()
        waiting = self._in_flight.keys() - {answer.fetch.token for answer in refused}
        refused += [turned_away(self._in_flight[token].fetch) for token in sorted(waiting)]
        self._answer_all(at, refused, schedule=False)
        self._events.clear()
        return answered + self.advance(at)

    @property
    def offsets(self) -> set[int]:
        """Where the replicas stand."""
        return {replica.fetch_offset for replica in self._replicas.values()}

    def learn(self, log_start_offset: int, snapshot: int | None) -> None:
        """The log shows that the leader has a snapshot instead of its first records."""
        self._leader.log_start_offset = log_start_offset
        self._leader.snapshot = snapshot

    def _join(self, replica_id: int, first: RecordedFetch) -> None:
        known = UNKNOWN_OFFSET if first.high_watermark == NOT_SENT else first.high_watermark
        self._replicas[replica_id] = Replica(first.fetch_offset, first.last_fetched_epoch, known)
        heapq.heappush(self._events, (first.dequeued_us, _ARRIVE, replica_id, 0))

    def _arrive(self, at: int, replica_id: int) -> None:
        """A FETCH is dequeued and waits for the Raft thread."""
        replica = self._replicas[replica_id]
        seen = self._evidence.replicas[replica_id]
        self._tokens += 1
        fetch = Fetch(
            replica_id,
            replica.fetch_offset,
            replica.last_fetched_epoch,
            replica.high_watermark if self._leader.hwm_aware else NOT_SENT,
            seen.first.max_wait_us if self._max_wait_us is None else self._max_wait_us,
            self._tokens,
        )
        processed = max(at, self._free_us) + self._evidence.service_us(at)
        self._free_us = processed
        self._in_flight[fetch.token] = InFlight(replica.sequence, at, fetch)
        replica.sequence += 1
        heapq.heappush(self._events, (processed, _PROCESS, replica_id, fetch.token))

    def _process(self, at: int, token: int) -> None:
        _, dequeued, fetch = self._in_flight[token]
        answers = self._moving(dequeued, partial(self._leader.fetch, fetch))
        self._answer_all(at, answers)
        if not any(answer.fetch.token == token for answer in answers):
            heapq.heappush(self._events, (at + fetch.max_wait_us, _EXPIRE, 0, token))

    def _append(self, at: int, log_end_offset: int) -> None:
        self._answer_all(at, self._moving(at, partial(self._leader.append, log_end_offset)))

    def _moving(self, at: int, step: Callable[[], list[Answer]]) -> list[Answer]:
        """Take a step of the leader and note whether it moved the high watermark."""
        before = self._leader.high_watermark
        answers = step()
        if self._leader.high_watermark != before:
            self.lag.advanced(Advance(at, before, self._leader.high_watermark))
        return answers

    def _answer_all(self, at: int, answers: list[Answer], *, schedule: bool = True) -> None:
        """The Raft thread builds answers one after the other, the first at ``at``."""
        service = self._evidence.service_us(at)
        for position, answer in enumerate(answers):
            built = at + position * service
            self._free_us = max(self._free_us, built)
            sequence, dequeued, fetch = self._in_flight.pop(answer.fetch.token)
            self._answered.append(
                SimulatedFetch(fetch.replica_id, sequence, dequeued, built, fetch, answer)
            )
            replica = self._replicas[fetch.replica_id]
            self.lag.told(fetch.replica_id, built, answer.high_watermark)
            replica.take(answer, self._leader_epoch, self._leader)
            if schedule:
                self._schedule(fetch.replica_id, replica, built)

    def _schedule(self, replica_id: int, replica: Replica, built: int) -> None:
        following = self._evidence.replicas[replica_id].next_fetch(built)
        replica.waits_since = built if following is None else None
        if following is not None:
            at, absence = following
            if absence is not None:
                replica.returns(absence)
            heapq.heappush(self._events, (at, _ARRIVE, replica_id, 0))


# --- the open loop -------------------------------------------------------------------------------


def explain(
    row: RecordedFetch, log_end_offset: Timeline, high_watermark: Timeline
) -> tuple[Completion, bool]:
    """Could the rule have given the recorded answer? -> (completion, was it parked).

    ``unexplained`` unless what the answer shows had happened when it was built, nothing was due
    more than ``HANDLING_SLACK_US`` before, and the high watermark told was the leader's at some
    moment between the FETCH and its answer. A leader without a high watermark is still starting
    (election, first flush): its thread may be busy for longer.
    """
    at, built = row.dequeued_us, row.built_us
    if row.is_diverging or row.is_snapshot:
        return (Completion.DIVERGING if row.is_diverging else Completion.SNAPSHOT), False
    causes = {Completion.TIMEOUT: at + row.max_wait_us}
    appended = log_end_offset.first_above(row.fetch_offset, at)
    if appended is not None:
        causes[Completion.RECORDS] = appended
    if row.hwm_aware:
        behind = row.high_watermark < high_watermark.value(at)
        moved = at if behind else high_watermark.next_change(at)
        if moved is not None:
            causes[Completion.HIGH_WATERMARK] = moved
    completion = _shown(row, causes)
    cause = causes.get(completion)
    due = min(causes.values())
    lowest = high_watermark.value(at - STAMP_SLACK_US)
    highest = high_watermark.value(built + STAMP_SLACK_US)
    explained = (
        cause is not None
        and cause <= built + STAMP_SLACK_US
        and (built <= due + HANDLING_SLACK_US or row.response_high_watermark == UNKNOWN_OFFSET)
        and lowest <= row.response_high_watermark <= highest
    )
    parked = (due if cause is None else cause) > at
    return (completion if explained else Completion.UNEXPLAINED), parked


def woke_everyone(row: RecordedFetch, others: Iterable[RecordedFetch]) -> bool:
    """Was an answer that is early, empty and no news part of a wake of everyone who was parked?

    ``KafkaRaftClient.flushLeaderLog`` completes all FETCHes at or below the log end offset, also
    where the drain before it returned no batch. No KIP has that; the check is that nobody who was
    parked then stayed so. ``others`` are the leader's answers around that time.
    """
    before, after = row.built_us - WAKE_SPREAD_US, row.built_us + WAKE_SPREAD_US
    early = row.told and not row.record_bytes and row.built_us < row.dequeued_us + row.max_wait_us
    no_news = row.response_high_watermark <= row.high_watermark
    return (
        early and no_news and not any(o.dequeued_us < before and o.built_us > after for o in others)
    )


def _shown(row: RecordedFetch, causes: dict[Completion, int]) -> Completion:
    """What an answer shows by itself: records, a wait that was over, or news."""
    if row.record_bytes > 0:
        return Completion.RECORDS
    if row.built_us >= causes[Completion.TIMEOUT] - STAMP_SLACK_US:
        return Completion.TIMEOUT
    return Completion.HIGH_WATERMARK


# --- the whole replay ----------------------------------------------------------------------------

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
