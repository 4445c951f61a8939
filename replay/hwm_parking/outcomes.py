"""States the two outcomes, and emits their records."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ..log_gaps import LOG_GAP, LogGap, is_touched
from ..model.raft import NOT_SENT
from ..outcomes import NOT_SWEPT, WHAT_IF, SteadyPhase, Variant, Verdict
from ..records import (
    At,
    Bool,
    Long,
    Ms,
    Outcome,
    RequiredAt,
    RequiredInt,
    RequiredLong,
    Text,
    column,
    outcome_table,
)
from .metadata_log import ABSENCE_US

RULE = "hwm_parking"
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


class ParkedFetch(Outcome, kw_only=True, gc=False):
    """Every FETCH of the metadata log, recorded and as each variant would have it."""

    leader_id: RequiredInt = column("controller that the FETCH was sent to")
    leader_epoch: RequiredInt = column("its leader epoch")
    replica_id: RequiredInt = column("replica that sent it")
    sequence: RequiredLong = column("from 0, of the replica's FETCHes in that epoch and variant")
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


class HighWatermarkLag(Outcome, kw_only=True, gc=False):
    """How long after an advance of the high watermark a replica knew of it."""

    leader_id: RequiredInt = column("the leader")
    leader_epoch: RequiredInt = column("its leader epoch")
    replica_id: RequiredInt = column("the replica that learns")
    high_watermark: RequiredLong = column("what it advanced to")
    previous_high_watermark: Long = column("what it advanced from, -1 not known")
    is_change: Bool = column("of more than the NoOpRecord due each 500 ms; null: not known")
    is_voter: Bool = column("the replica is a voter")
    leader_at: RequiredAt = column("dequeue time of the voter FETCH that moved it", nullable=True)
    previous_learned_at: At = column("of the advance before; leader_at where it was away")
    learned_at: At = column("the replica's first response built with a value >= it")
    is_hwm_aware: Bool = column("by a FETCH that carried a high watermark (KIP-1166)")
    lag_ms: Ms = column("learned_at - leader_at; null where it never learned or was away")
    phase: Text = column("starting, steady or stopping")


_EPOCH = ("leader_id", "leader_epoch", "replica_id")
FETCH_PARKING_OUTCOMES = outcome_table(
    "fetch_parking_outcomes", RULE, ParkedFetch, (*_EPOCH, "sequence")
)
HIGH_WATERMARK_LAG = outcome_table(
    "high_watermark_lag", RULE, HighWatermarkLag, (*_EPOCH, "high_watermark")
)

#: Places of the two in what is emitted.
_FETCHES, _LAGS = 0, 1


class Advance(NamedTuple):
    """An advance of the leader's high watermark."""

    high_watermark: int
    previous_high_watermark: int
    is_change: bool | None
    leader_at: int


class Lag(msgspec.Struct, array_like=True, gc=False):
    """What becomes of an advance at one replica, until it is emitted."""

    advance: Advance
    replica_id: int
    verdict: Verdict = Verdict.REPLAYED
    reason: str | None = None
    learned_at: int | None = None
    is_hwm_aware: bool | None = None
    previous_learned_at: int | None = None

    @property
    def leader_at(self) -> int:
        return self.advance.leader_at


class Emitted:
    """Outcomes until they are emitted; ``gaps`` are those of the leader's log.

    One rests on its replica's next FETCH too, and on times that were measured nearest to it, before
    and after: within ``ABSENCE_US`` of a gap it is unknown. They are too many to make a record of
    each, so they are added by column: a list, or one value that all have.
    """

    def __init__(self, gaps: Sequence[LogGap], phase: SteadyPhase) -> None:
        self._gaps, self._phase = gaps, phase
        self._schemas = [
            t.without("recording") for t in (FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG)
        ]
        self._batches: list[list[pa.RecordBatch]] = [[], []]

    def add_fetches(self, epoch: Epoch, variant: Variant, columns: dict[str, Any]) -> None:
        """Adds FETCHes; all columns but those that follow from others."""
        dequeued, built = columns["dequeued_at"], columns["built_at"]
        times = zip(columns["decision"], columns["verdict"], dequeued, built, strict=True)
        columns["parked_ms"] = [
            0.0 if how == IMMEDIATE else None if verdict is Verdict.UNKNOWN else (end - at) / 1000
            for how, verdict, at, end in times
        ]
        columns["replica_high_watermark"] = [
            None if known == NOT_SENT else known for known in columns["replica_high_watermark"]
        ]
        self._rest_on_lines(columns, dequeued, built, "parked_ms")
        self._add(_FETCHES, epoch, variant, columns)

    def add_lags(self, epoch: Epoch, variant: Variant, lags: Sequence[Lag]) -> None:
        names = (*Lag.__struct_fields__[1:], *(f"advance.{name}" for name in Advance._fields))
        columns = {name.split(".")[-1]: list(map(attrgetter(name), lags)) for name in names}
        since, learned = columns["leader_at"], columns["learned_at"]
        columns["phase"] = list(map(self._phase.phase_of, since))
        columns["lag_ms"] = [
            None if until is None else (until - at) / 1000
            for at, until in zip(since, learned, strict=True)
        ]
        until = [end or at for at, end in zip(since, learned, strict=True)]
        self._rest_on_lines(columns, since, until, "learned_at", "lag_ms")
        self._add(_LAGS, epoch, variant, columns)

    def take(self) -> list[pa.RecordBatch]:
        batches, self._batches = self._batches, [[], []]
        return [
            pa.concat_batches(of_table) if of_table else pa.RecordBatch.from_pylist([], schema)
            for of_table, schema in zip(batches, self._schemas, strict=True)
        ]

    def _rest_on_lines(
        self, columns: dict[str, Any], since: Sequence[int], until: Sequence[int], *clears: str
    ) -> None:
        """Makes rows unknown that a gap touches, as ``Outcome.rest_on_lines`` does a record."""
        for row, (begin, end) in enumerate(zip(since, until, strict=True)) if self._gaps else ():
            if is_touched(self._gaps, begin - ABSENCE_US, end + ABSENCE_US):
                if columns["verdict"][row] is not Verdict.UNKNOWN:
                    columns["verdict"][row], columns["reason"][row] = Verdict.UNKNOWN, LOG_GAP
                for name in clears:
                    columns[name][row] = None

    def _add(self, table: int, epoch: Epoch, variant: Variant, columns: dict[str, Any]) -> None:
        replicas, arrays = columns["replica_id"], []
        columns |= zip(WHAT_IF, (RULE, *variant), strict=True)
        columns |= {"leader_id": epoch.leader_id, "leader_epoch": epoch.leader_epoch}
        columns["is_voter"] = [replica_id in epoch.voters for replica_id in replicas]
        for field in self._schemas[table] if replicas else ():
            values = columns.get(field.name)
            if isinstance(values, list):
                arrays.append(pa.array(values, field.type))
            else:
                arrays.append(pa.repeat(pa.scalar(values, field.type), len(replicas)))
        if arrays:
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schemas[table])
            self._batches[table].append(batch)
