"""States the two outcomes, and emits their records."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from ..log_gaps import ALWAYS_SINCE_US, ALWAYS_UNTIL_US, Gaps
from ..model.raft import NOT_SENT
from ..records import NOT_SWEPT, Outcome, Records, SteadyPhase, Variant, Verdict
from ..table import At, Bool, Long, Ms, RequiredAt, RequiredInt, RequiredLong, Text, column, key
from .evidence import ABSENCE_US

NAME = "hwm_parking"
WITHOUT_KIP = "without_kip_1166"
WITH_KIP = "with_kip_1166"

NOT_LEADER = "FETCH sent to a controller that was not the leader"
AWAY = "the replica was away (silent for over a second) when the high watermark moved"
NEVER_LEARNED = "the leader's epoch or the log ended before the replica learned"
MIDDLE_OF_EPOCH = "the log begins within the leader's epoch: its high watermark is not known yet"
NOT_IN_LOG = "the log has no response: its level was switched while the FETCH waited"

#: Values of ``decision``.
PARKED, IMMEDIATE = "parked", "immediate"
#: Completion of a response that the rule did not give.
UNEXPLAINED = "unexplained"


def variants(max_wait_ms: Iterable[int] = ()) -> list[Variant]:
    """Returns both rules with the recorded maxWaitMs, and again for each of ``max_wait_ms``."""
    swept = [("max_wait_ms", wait) for wait in max_wait_ms]
    parameters = [("none", NOT_SWEPT), *swept]
    return [Variant(name, *p) for p in parameters for name in (WITHOUT_KIP, WITH_KIP)]


class Epoch(NamedTuple):
    """An epoch of the controller whose log is replayed; ``voters`` are the ids of all voters."""

    leader_id: int
    leader_epoch: int
    voters: frozenset[int]


class ParkedFetch(Outcome, name="fetch_parking_outcomes", rule=NAME):
    """Every FETCH of the metadata log, recorded and as each variant would have it."""

    leader_id: RequiredInt = key("controller that the FETCH was sent to")
    leader_epoch: RequiredInt = key("its leader epoch")
    replica_id: RequiredInt = key("replica that sent it")
    sequence: RequiredLong = key("from 0, of the replica's FETCHes in that epoch and variant")
    recorded_request_id: Text = column("request_id (variant recorded), else null")
    is_voter: Bool = column("the replica is a voter")
    received_at: At = column("arrival")
    dequeued_at: RequiredAt = column("the handler takes it", nullable=True)
    built_at: RequiredAt = column("the response was built", nullable=True)
    completed_at: At = column("the response was sent")
    fetch_offset: Long = column("the replica's log end offset")
    replica_high_watermark: Long = column("high watermark the replica knew, -1 none")
    response_high_watermark: Long = column("high watermark in the response, -1 none")
    decision: Text = column("immediate or parked")
    completion: Text = column(
        "records, high_watermark, drain (by a flush without records: a stall), timeout, "
        "diverging, snapshot, error or unexplained"
    )
    parked_ms: Ms = column("until the response was built; 0: immediate, null: not known")
    record_bytes: Long = column("records in the response")
    request_bytes: Long = column("on the wire: frame, header, body")
    response_bytes: Long = column("on the wire: frame, header, body")


class HighWatermarkLag(Outcome, name="high_watermark_lag", rule=NAME):
    """How long after an advance of the high watermark a replica knew of it."""

    leader_id: RequiredInt = key("the leader")
    leader_epoch: RequiredInt = key("its leader epoch")
    replica_id: RequiredInt = key("the replica that learns")
    high_watermark: RequiredLong = key("what it advanced to")
    previous_high_watermark: Long = column("what it advanced from, -1 not known")
    is_change: Bool = column("of more than the NoOpRecord due each 500 ms; null: not known")
    is_voter: Bool = column("the replica is a voter")
    leader_at: RequiredAt = column("dequeue time of the voter FETCH that moved it", nullable=True)
    previous_learned_at: At = column("of the advance before; leader_at where it was away")
    learned_at: At = column("the replica's first response built with a value >= it")
    is_hwm_aware: Bool = column("by a FETCH that carried a high watermark (KIP-1166)")
    lag_ms: Ms = column("learned_at - leader_at; null where it never learned or was away")
    phase: Text = column("starting, steady or stopping")


class ParkingRows:
    """Outcomes until they are emitted; ``gaps``: of all logs, of which the leader's counts.

    An outcome rests also on its replica's next FETCH and on what was measured just before and after
    it, so it is unknown within ``ABSENCE_US`` of a gap.
    """

    def __init__(self, gaps: Gaps, phase: SteadyPhase) -> None:
        self._gaps, self._phase = gaps, phase
        self._fetches = Records(ParkedFetch)
        self._lags = Records(HighWatermarkLag)

    def add(
        self,
        variant: Variant,
        epoch: Epoch,
        fetches: Sequence[ParkedFetch],
        lags: Sequence[HighWatermarkLag],
    ) -> None:
        """Adds outcomes of one variant and epoch, with durations, and the phases of lags.

        A high watermark that was not sent is null.
        """
        for fetch in fetches:
            if fetch.replica_high_watermark == NOT_SENT:
                fetch.replica_high_watermark = None
            if fetch.decision == IMMEDIATE:
                fetch.parked_ms = 0.0
            elif fetch.verdict is not Verdict.UNKNOWN:
                fetch.parked_ms = (fetch.built_at - fetch.dequeued_at) / 1000
        for lag in lags:
            lag.phase = self._phase.phase_of(lag.leader_at)
            if lag.learned_at is not None:
                lag.lag_ms = (lag.learned_at - lag.leader_at) / 1000
        gaps, leader_id = self._gaps, epoch.leader_id
        if gaps.touch(leader_id, ALWAYS_SINCE_US, ALWAYS_UNTIL_US):
            for fetch in fetches:
                since_us, until_us = fetch.dequeued_at - ABSENCE_US, fetch.built_at + ABSENCE_US
                fetch.rest_on_lines(gaps, leader_id, since_us, until_us, "parked_ms")
            for lag in lags:
                since_us = lag.leader_at - ABSENCE_US
                until_us = (lag.learned_at or lag.leader_at) + ABSENCE_US
                lag.rest_on_lines(gaps, leader_id, since_us, until_us, "learned_at", "lag_ms")
        self._fetches.add_rows(fetches, [variant] * len(fetches))
        self._lags.add_rows(lags, [variant] * len(lags))

    def take(self) -> list[pa.RecordBatch]:
        return [self._fetches.take(), self._lags.take()]
