"""Starts leader and replicas anew: which FETCHes would exist, when, and what they would carry."""

from typing import ClassVar

import msgspec

from ..kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes
from ..model.raft import NOT_SENT, Completion, Fetch, ReplicaState, Response
from ..records import Verdict
from ..simulation import EventQueue
from .evidence import Evidence, ReplicaEvidence
from .loop import Loop
from .outcomes import IMMEDIATE, PARKED, ParkedFetch

# Kinds of event; the number decides which of two at one time comes first.
_APPEND, _EXPIRE, _ARRIVE, _PROCESS = range(4)


class InFlight(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A FETCH that is not completed; ``sequence`` numbers its replica's."""

    sequence: int
    dequeued_us: int
    fetch: Fetch
    is_warm: bool


class ClosedLoop(Loop, array_like=True):
    """One leader epoch replayed under one rule: the leader's appends and drains and the
    replicas' delays are given, every FETCH and every response follows from the rule.

    ``events`` are of (log end offset or replica, token), ``in_flight`` FETCHes by token, of which
    ``tokens`` were given out. ``awaited`` are replicas whose next FETCH the log doesn't show yet,
    with the time of their last response. ``free_us``: the Raft thread is busy until then.
    """

    #: At one append a replica could be on its way in the replay of the whole epoch.
    WARM_UP_APPENDS: ClassVar[int] = 2

    replicas: dict[int, ReplicaState] = msgspec.field(default_factory=dict)
    events: EventQueue[tuple[int, int]] = msgspec.field(default_factory=EventQueue)
    in_flight: dict[int, InFlight] = msgspec.field(default_factory=dict)
    awaited: dict[int, int] = msgspec.field(default_factory=dict)
    tokens: int = 0
    free_us: int = 0

    def append(self, at: int, log_end_offset: int) -> None:
        """Adds an append of the recorded leader, up to an offset; 0: a drain of no batch."""
        self.events.push(at, _APPEND, (log_end_offset, 0))

    def advance(self, evidence: Evidence, until: int) -> None:
        """Replays up to a time."""
        leader = self.leader
        leader.epoch_ends, leader.snapshot = evidence.epoch_ends, evidence.snapshot
        leader.log_start_offset = evidence.log_start_offset
        for replica_id, replica_evidence in evidence.replicas.items():
            first = replica_evidence.first
            if replica_id not in self.replicas and first.dequeued_us <= until:
                replica = ReplicaState(first.fetch_offset, first.last_fetched_epoch)
                if first.high_watermark != NOT_SENT:
                    replica.high_watermark = first.high_watermark
                self.replicas[replica_id] = replica
                # Where the log begins behind a gap, who was parked in it arrives at its end.
                at = max(first.dequeued_us, evidence.begins_us)
                self.events.push(at, _ARRIVE, (replica_id, 0))
        awaited, self.awaited = self.awaited, {}
        for replica_id, built in awaited.items():
            self._schedule(evidence.replicas[replica_id], replica_id, built)
        for at, kind, (subject, token) in self.events.until(until):
            if kind == _ARRIVE:
                self._arrive(evidence, at, subject, until)
            elif kind == _PROCESS:
                self._process(evidence, at, token)
            elif kind == _EXPIRE:
                # Most were completed before.
                if token in leader.parked:
                    self._complete(evidence, at, leader.expire(token), at)
            else:
                parked = (response.fetch.replica_id for response in leader.parked.values())
                measured = (r for r in parked if evidence.has_measured(r, at))
                self.warm_up.append(subject, measured)
                responses = leader.append(subject)
                self.follow(at, evidence.replicas)
                self._complete(evidence, at, responses, at)

    def resign(self, evidence: Evidence, at: int) -> None:
        """Replays up to when the leader resigns; rejects who is parked or still waits."""
        self.advance(evidence, at)
        waiting = sorted(self.in_flight.keys() - self.leader.parked.keys())
        rejected = self.leader.resign([self.in_flight[token].fetch for token in waiting])
        self._complete(evidence, at, rejected, at)

    def _arrive(self, evidence: Evidence, at: int, replica_id: int, until: int) -> None:
        variant = self.variant
        if variant.parameter == "max_wait_ms":  # a sweep
            max_wait_us = variant.parameter_value * 1000
        else:
            max_wait_us = evidence.replicas[replica_id].first.max_wait_us
        self.tokens = token = self.tokens + 1
        replica, hwm_aware = self.replicas[replica_id], self.leader.hwm_aware
        fetch = replica.fetch(replica_id, max_wait_us, token, hwm_aware=hwm_aware)
        is_warm = self.warm_up.is_warm(replica_id)
        self.in_flight[token] = InFlight(self.next_sequence(replica_id), at, fetch, is_warm)
        self.free_us = free_us = max(at, self.free_us) + evidence.service_us(at)
        if free_us <= until and self.events.is_before_all(free_us):
            self._process(evidence, free_us, token)
        else:
            self.events.push(free_us, _PROCESS, (replica_id, token))

    def _process(self, evidence: Evidence, at: int, token: int) -> None:
        leader, waiting = self.leader, self.in_flight[token]
        responses = leader.fetch(waiting.fetch)
        if token in leader.parked:
            # A timer thread completes what expires, so an append may still come first.
            expires = at + waiting.fetch.max_wait_us
            self.events.push(expires + evidence.service_us(expires), _EXPIRE, (0, token))
        if leader.high_watermark != self.high_watermark:
            self.follow(waiting.dequeued_us, evidence.replicas)
        if responses:
            self._complete(evidence, at, responses, waiting.dequeued_us)

    def _complete(
        self, evidence: Evidence, at: int, responses: list[Response], cause_us: int
    ) -> None:
        """Builds responses to what the Raft thread handles at a time, due since ``cause_us``."""
        leader = self.leader
        for position, response in enumerate(responses):
            fetch = response.fetch
            replica_id = fetch.replica_id
            replica_evidence = evidence.replicas[replica_id]
            built = _built_us(replica_evidence, response, at, cause_us)
            if built is None:
                built = at + position * evidence.service_us(at) if position else at
            if built > self.free_us:
                self.free_us = built
            self.fetches.append(self._outcome(evidence, response, built))
            self.learn(replica_id, response.high_watermark, built, leader.hwm_aware)
            self.replicas[replica_id].receive(response, leader)
            self._schedule(replica_evidence, replica_id, built)

    def _outcome(self, evidence: Evidence, response: Response, built: int) -> ParkedFetch:
        """Makes what becomes of a FETCH; bytes that the log doesn't show are null."""
        fetch, epoch = response.fetch, self.epoch
        sent, replica_id = self.in_flight.pop(fetch.token), fetch.replica_id
        record_bytes = evidence.log_bytes.between(fetch.fetch_offset, response.log_end_offset)
        outcome = ParkedFetch(
            variant=self.variant,
            verdict=Verdict.REPLAYED if sent.is_warm else Verdict.UNKNOWN,
            reason=None if sent.is_warm else self.warm_up.reason,
            leader_id=epoch.leader_id,
            leader_epoch=epoch.leader_epoch,
            replica_id=replica_id,
            sequence=sent.sequence,
            is_voter=replica_id in epoch.voters,
            received_at=sent.dequeued_us,
            dequeued_at=sent.dequeued_us,
            built_at=built,
            completed_at=built,
            fetch_offset=fetch.fetch_offset,
            replica_high_watermark=fetch.high_watermark,
            response_high_watermark=response.high_watermark,
            decision=PARKED if response.parked else IMMEDIATE,
            completion=response.completion,
            record_bytes=record_bytes,
        )
        envelope = evidence.replicas[replica_id].envelopes.nearest(built)
        if envelope is not None:
            is_sent = fetch.high_watermark != NOT_SENT
            tag_bytes = HIGH_WATERMARK_TAG_BYTES if is_sent else 0
            outcome.request_bytes = envelope.request_bytes + tag_bytes
            if record_bytes is not None:
                field_bytes = records_field_bytes(record_bytes)
                outcome.response_bytes = envelope.response_bytes + field_bytes
        return outcome

    def _schedule(self, replica_evidence: ReplicaEvidence, replica_id: int, built: int) -> None:
        following = replica_evidence.next_fetch(built)
        if following is None:
            self.awaited[replica_id] = built
            return
        at, absence = following
        if absence is not None and absence.restarted:
            # It forgot the high watermark, and may have lost some of its log.
            offset = min(self.replicas[replica_id].fetch_offset, absence.returns.fetch_offset)
            self.replicas[replica_id] = ReplicaState(offset, absence.returns.last_fetched_epoch)
        self.events.push(at, _ARRIVE, (replica_id, 0))


def _built_us(replica: ReplicaEvidence, response: Response, at: int, cause_us: int) -> int | None:
    """Returns when a response is built, by the replica's recorded ones; None: in its turn."""
    completion, moved = response.completion, Completion.HIGH_WATERMARK
    if not response.parked and completion is not moved:
        return None
    handling, since = replica.handling_us(completion, cause_us), cause_us
    if handling is None and response.parked and completion in (moved, Completion.DRAIN):
        # The thread completes those who are parked as it does at an append.
        handling, since = replica.handling_us(Completion.RECORDS, at), at
    return None if handling is None else since + handling
