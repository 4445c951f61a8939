"""Leader and replicas, started anew: which FETCHes would exist, when, and what they would carry."""

import heapq

import msgspec

from ..model.raft import NOT_SENT, UNKNOWN_OFFSET, Completion, Fetch, Leader, Replica, Response
from .evidence import Evidence, ReplicaEvidence
from .lag import Advance, LagTracker
from .metadata_log import RecordedFetch
from .settling import Settling

# Kinds of event; the number decides which of two at one time comes first.
_APPEND, _EXPIRE, _ARRIVE, _PROCESS = range(4)


class InFlight(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A FETCH that is not completed; ``sequence`` numbers its replica's."""

    sequence: int
    dequeued_us: int
    fetch: Fetch
    is_settled: bool


class SimulatedFetch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A FETCH of the closed loop and its response. Times are microseconds since the epoch."""

    sent: InFlight
    built_us: int
    response: Response


class ClosedLoop(msgspec.Struct, array_like=True):
    """One leader epoch replayed under one rule: the leader's appends and drains and the
    replicas' gaps are given, every FETCH and every response follows from the rule.

    ``max_wait_us`` replaces the recorded maxWaitMs (a sweep); None keeps it. No FETCH arrives
    before ``since_us``. ``events`` is a heap of (time, kind, log end offset or replica, token).
    ``unheard`` are replicas whose next FETCH the log doesn't show yet, with the time of their last
    response.
    """

    leader: Leader
    max_wait_us: int | None
    since_us: int = 0
    settling: Settling = msgspec.field(default_factory=Settling)
    replicas: dict[int, Replica] = {}
    sequences: dict[int, int] = {}
    events: list[tuple[int, int, int, int]] = []
    in_flight: dict[int, InFlight] = {}
    unheard: dict[int, int] = {}
    tokens: int = 0
    free_us: int = 0
    lag: LagTracker = msgspec.field(default_factory=LagTracker)
    completed: list[SimulatedFetch] = []

    def append(self, at: int, log_end_offset: int) -> None:
        """The leader will append up to an offset at a time (from the log)."""
        heapq.heappush(self.events, (at, _APPEND, log_end_offset, 0))

    def drain(self, at: int) -> None:
        """The leader will drain no batch at a time (from the log): its log end offset stays."""
        self.append(at, 0)

    def advance(self, evidence: Evidence, until: int) -> list[SimulatedFetch]:
        leader = self.leader
        leader.epoch_ends, leader.snapshot = evidence.epoch_ends, evidence.snapshot
        leader.log_start_offset = evidence.log_start_offset
        for replica_id, seen in evidence.replicas.items():
            if replica_id not in self.replicas and seen.first.dequeued_us <= until:
                self._join(seen.first)
        unheard, self.unheard = self.unheard, {}
        for replica_id, built in unheard.items():
            self._schedule(evidence, replica_id, built)
        while self.events and self.events[0][0] <= until:
            at, kind, what, token = heapq.heappop(self.events)
            if kind == _APPEND:
                previous = leader.high_watermark
                parked = (response.fetch.replica_id for response in leader.parked.values())
                self.settling.append(what, (r for r in parked if evidence.has_measured(r, at)))
                responses = leader.append(what)
                self._advanced(evidence, at, previous)
                self._complete(evidence, at, responses, at)
            elif kind == _ARRIVE:
                self._arrive(evidence, at, what)
            elif kind == _PROCESS:
                self._process(evidence, at, token)
            else:
                self._complete(evidence, at, leader.expire(token), at)
        completed, self.completed = self.completed, []
        return completed

    def resign(self, evidence: Evidence, at: int) -> list[SimulatedFetch]:
        """The leader resigns at a time: run up to it and reject who is parked or still waits."""
        completed = self.advance(evidence, at)
        waiting = sorted(self.in_flight.keys() - self.leader.parked.keys())
        rejected = self.leader.resign([self.in_flight[token].fetch for token in waiting])
        self._complete(evidence, at, rejected, at)
        return completed + self.completed

    def _join(self, first: RecordedFetch) -> None:
        known = UNKNOWN_OFFSET if first.high_watermark == NOT_SENT else first.high_watermark
        replica = Replica(first.fetch_offset, first.last_fetched_epoch, known)
        self.replicas[first.replica_id] = replica
        at = max(first.dequeued_us, self.since_us)
        heapq.heappush(self.events, (at, _ARRIVE, first.replica_id, 0))

    def _arrive(self, evidence: Evidence, at: int, replica_id: int) -> None:
        first = evidence.replicas[replica_id].first
        max_wait_us = first.max_wait_us if self.max_wait_us is None else self.max_wait_us
        self.tokens += 1
        fetch = self.replicas[replica_id].fetch(
            replica_id, max_wait_us, self.tokens, hwm_aware=self.leader.hwm_aware
        )
        sequence = self.sequences.get(replica_id, 0)
        self.sequences[replica_id] = sequence + 1
        sent = InFlight(sequence, at, fetch, self.settling.is_settled(replica_id))
        self.in_flight[fetch.token] = sent
        self.free_us = max(at, self.free_us) + evidence.service_us(at)
        heapq.heappush(self.events, (self.free_us, _PROCESS, replica_id, fetch.token))

    def _process(self, evidence: Evidence, at: int, token: int) -> None:
        leader, waiting = self.leader, self.in_flight[token]
        previous = leader.high_watermark
        responses = leader.fetch(waiting.fetch)
        if token in leader.parked:
            # A timer thread completes what expires, so an append may still come first.
            expires = at + waiting.fetch.max_wait_us
            expired = expires + evidence.service_us(expires)
            heapq.heappush(self.events, (expired, _EXPIRE, 0, token))
        self._advanced(evidence, waiting.dequeued_us, previous)
        self._complete(evidence, at, responses, waiting.dequeued_us)

    def _advanced(self, evidence: Evidence, at: int, previous: int) -> None:
        if self.leader.high_watermark == previous:
            return
        advance = Advance(at, previous, self.leader.high_watermark)
        replicas, settling = evidence.replicas, self.settling
        if settling.is_new(advance.high_watermark):
            self.lag.advanced(advance, replicas, settling.unsettled(replicas))
            voters = self.replicas.keys() & self.leader.voters
            settling.advanced(at, (v for v in voters if not replicas[v].is_away(at)))

    def _complete(
        self, evidence: Evidence, at: int, responses: list[Response], cause_us: int
    ) -> None:
        """Build the responses to what the Raft thread handles at ``at``, due since ``cause_us``."""
        if not responses:
            return
        service = evidence.service_us(at)
        for position, response in enumerate(responses):
            replica_id = response.fetch.replica_id
            seen = _built_us(evidence.replicas[replica_id], response, at, cause_us)
            built = at + position * service if seen is None else seen
            self.free_us = max(self.free_us, built)
            sent = self.in_flight.pop(response.fetch.token)
            self.completed.append(SimulatedFetch(sent, built, response))
            self.lag.learned(replica_id, built, response.high_watermark, self.leader.hwm_aware)
            self.replicas[replica_id].receive(response, self.leader)
            self._schedule(evidence, replica_id, built)

    def _schedule(self, evidence: Evidence, replica_id: int, built: int) -> None:
        following = evidence.replicas[replica_id].next_fetch(built)
        if following is None:
            self.unheard[replica_id] = built
            return
        at, absence = following
        if absence is not None and absence.restarted:
            # It forgot the high watermark, and may have lost some of its log.
            offset = min(self.replicas[replica_id].fetch_offset, absence.fetch_offset)
            self.replicas[replica_id] = Replica(offset, absence.last_fetched_epoch)
        heapq.heappush(self.events, (at, _ARRIVE, replica_id, 0))


def _built_us(replica: ReplicaEvidence, response: Response, at: int, cause_us: int) -> int | None:
    """As long after its cause as the log shows of the replica; None where it shows nothing."""
    completion, moved = response.completion, Completion.HIGH_WATERMARK
    handling, since = None, cause_us
    if response.parked or completion is moved:
        handling = replica.handling_us(completion, cause_us)
    if handling is None and response.parked and completion in (moved, Completion.DRAIN):
        # It completes the parked as an append does.
        handling, since = replica.handling_us(Completion.RECORDS, at), at
    return None if handling is None else since + handling
