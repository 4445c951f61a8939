"""Leader and replicas, started anew: which FETCHes would exist, when, and what they would learn."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from .leader import Answer, Completion, Fetch, Leader, turned_away
from .metadata_log import NOT_SENT, UNKNOWN_OFFSET, Absence, Evidence, RecordedFetch


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
