"""What was replayed, as rows of the two outcome tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ..kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes
from ..log_gaps import LOG_GAP
from ..outcomes import NOT_SWEPT, RECORDED, Variant, Verdict
from .closed_loop import SimulatedFetch
from .evidence import Evidence
from .kip_1166 import NOT_SENT, Completion
from .lag import Lag
from .metadata_log import RecordedFetch
from .tables import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG

RULE = "hwm_parking"
WITHOUT_KIP = "without_kip_1166"
WITH_KIP = "with_kip_1166"
HWM_AWARE = {WITHOUT_KIP: False, WITH_KIP: True}

NOT_LEADER = "asked a controller that did not lead"
AWAY = "the replica was away (silent for over a second) when the high watermark moved"
NEVER_LEARNED = "the leader's epoch or the log ended before the replica learned"
MIDDLE_OF_EPOCH = "the log begins within the leader's epoch: its high watermark is not known yet"
NOT_IN_LOG = "the log has no answer: its level was switched while the FETCH waited"

#: Output of the replay: rows of these two tables, less what the caller knows (recording, phase).
PARKING_SCHEMA = FETCH_PARKING_OUTCOMES.without("recording")
LAG_SCHEMA = HIGH_WATERMARK_LAG.without("recording", "phase")

Columns = Mapping[str, Sequence[Any]]


def variants(max_wait_ms: Iterable[int] = ()) -> list[Variant]:
    """Both rules with the recorded maxWaitMs, and again for each of ``max_wait_ms`` (a sweep)."""
    swept = [("max_wait_ms", wait) for wait in max_wait_ms]
    return [Variant(name, *what) for what in [("none", NOT_SWEPT), *swept] for name in HWM_AWARE]


class Controller(NamedTuple):
    """Whose log is replayed, and how: ``voters`` are the ids of all voters."""

    node_id: int
    voters: frozenset[int]
    variants: list[Variant]


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the replay finds of a recorded FETCH."""

    completion: Completion
    parked: bool = False
    verdict: Verdict = Verdict.REPLAYED
    reason: str | None = None


#: Of a FETCH in a hole of the log.
LOST = Outcome(Completion.UNEXPLAINED, False, Verdict.UNKNOWN, LOG_GAP)


class Taken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A recorded FETCH, its number among its replica's, and its outcome once that is known."""

    row: RecordedFetch
    sequence: int
    outcome: Outcome | None


class EpochRows(NamedTuple):
    """Makes batches of rows of one leader epoch. ``unsettled``: why some are unknown."""

    controller: Controller
    leader_epoch: int
    unsettled: str

    def recorded(self, explained: Sequence[tuple[Taken, Outcome]]) -> pa.RecordBatch:
        """Recorded FETCHes and what the replay finds of them: ``PARKING_SCHEMA``."""
        rows = [taken.row for taken, _ in explained]
        outcomes = [outcome for _, outcome in explained]
        known = [None if r.high_watermark == NOT_SENT else r.high_watermark for r in rows]
        columns: Columns = {
            "sequence": [taken.sequence for taken, _ in explained],
            "recorded_request_id": [row.request_id for row in rows],
            "received_at": [row.received_us for row in rows],
            "dequeued_at": [row.dequeued_us for row in rows],
            "built_at": [row.built_us for row in rows],
            "completed_at": [row.completed_us for row in rows],
            "fetch_offset": [row.fetch_offset for row in rows],
            "replica_high_watermark": known,
            "response_high_watermark": [row.response_high_watermark for row in rows],
            "completion": [outcome.completion.value for outcome in outcomes],
            "record_bytes": [row.record_bytes for row in rows],
            "request_bytes": [row.request_bytes for row in rows],
            "response_bytes": [row.response_bytes for row in rows],
            "verdict": [outcome.verdict.value for outcome in outcomes],
            "reason": [outcome.reason for outcome in outcomes],
        }
        parked = [outcome.parked for outcome in outcomes]
        return self._parking(Variant(RECORDED), [r.replica_id for r in rows], columns, parked)

    def simulated(
        self, variant: Variant, fetches: Sequence[SimulatedFetch], evidence: Evidence
    ) -> pa.RecordBatch:
        """FETCHes of a closed loop: ``PARKING_SCHEMA``."""
        hwm_aware = HWM_AWARE[variant.name]
        dequeued = [simulated.dequeued_us for simulated in fetches]
        built = [simulated.built_us for simulated in fetches]
        responses = [simulated.response for simulated in fetches]
        sent = [response.fetch for response in responses]
        sizes = [_sizes(simulated, evidence, hwm_aware) for simulated in fetches]
        columns: Columns = {
            "sequence": [simulated.sequence for simulated in fetches],
            "received_at": dequeued,
            "dequeued_at": dequeued,
            "built_at": built,
            "completed_at": built,
            "fetch_offset": [fetch.fetch_offset for fetch in sent],
            "replica_high_watermark": [f.high_watermark if hwm_aware else None for f in sent],
            "response_high_watermark": [response.high_watermark for response in responses],
            "completion": [response.completion.value for response in responses],
            "record_bytes": [size[0] for size in sizes],
            "request_bytes": [size[1] for size in sizes],
            "response_bytes": [size[2] for size in sizes],
            **self._settled(simulated.is_settled for simulated in fetches),
        }
        parked = [response.parked for response in responses]
        return self._parking(variant, [fetch.replica_id for fetch in sent], columns, parked)

    def lags(self, variant: Variant, lags: Sequence[Lag]) -> pa.RecordBatch:
        """When replicas learned of advances: ``LAG_SCHEMA``."""
        verdicts = [self._verdict(lag) for lag in lags]
        columns: Columns = {
            "high_watermark": [lag.advance.high_watermark for lag in lags],
            "previous_high_watermark": [lag.advance.previous for lag in lags],
            "leader_at": [lag.advance.at for lag in lags],
            "learned_at": [lag.learned_us for lag in lags],
            "lag_ms": [
                None if lag.learned_us is None else (lag.learned_us - lag.advance.at) / 1000
                for lag in lags
            ],
            "verdict": [verdict.value for verdict, _ in verdicts],
            "reason": [reason for _, reason in verdicts],
        }
        return self._batch(LAG_SCHEMA, variant, [lag.replica_id for lag in lags], columns)

    def _settled(self, settled: Iterable[bool]) -> Columns:
        verdicts = [Verdict.REPLAYED if each else Verdict.UNKNOWN for each in settled]
        reasons = [None if v is Verdict.REPLAYED else self.unsettled for v in verdicts]
        return {"verdict": [verdict.value for verdict in verdicts], "reason": reasons}

    def _verdict(self, lag: Lag) -> tuple[Verdict, str | None]:
        if not lag.is_settled:
            return Verdict.UNKNOWN, self.unsettled
        if lag.away:
            return Verdict.NOT_APPLICABLE, AWAY
        if lag.learned_us is None:
            return Verdict.UNKNOWN, NEVER_LEARNED
        return Verdict.REPLAYED, None

    def _parking(
        self, variant: Variant, replica_ids: list[int], columns: Columns, parked: list[bool]
    ) -> pa.RecordBatch:
        times = zip(columns["dequeued_at"], columns["built_at"], strict=True)
        waits = [
            None if verdict == Verdict.UNKNOWN else (built - at) / 1000
            for (at, built), verdict in zip(times, columns["verdict"], strict=True)
        ]
        derived: Columns = {
            "decision": ["parked" if each else "immediate" for each in parked],
            "parked_ms": [w if each else 0.0 for w, each in zip(waits, parked, strict=True)],
        }
        return self._batch(PARKING_SCHEMA, variant, replica_ids, {**columns, **derived})

    def _batch(
        self, schema: pa.Schema, variant: Variant, replica_ids: list[int], columns: Columns
    ) -> pa.RecordBatch:
        """A batch of a schema; columns not named are null."""
        node_id, voters, _ = self.controller
        same = {**variant.what_if(RULE), "leader_id": node_id, "leader_epoch": self.leader_epoch}
        is_voter = [replica_id in voters for replica_id in replica_ids]
        values: Columns = {**columns, "replica_id": replica_ids, "is_voter": is_voter}
        arrays = [
            pa.array(values[field.name], field.type)
            if field.name in values
            else pa.repeat(pa.scalar(same.get(field.name), field.type), len(replica_ids))
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sizes(
    simulated: SimulatedFetch, evidence: Evidence, hwm_aware: bool
) -> tuple[int | None, int | None, int | None]:
    """Bytes of the records, the request and the response; None where the log doesn't show them."""
    response, fetch = simulated.response, simulated.response.fetch
    records = evidence.log_bytes.between(fetch.fetch_offset, response.log_end_offset)
    envelope = evidence.replicas[fetch.replica_id].envelopes.nearest(simulated.built_us)
    if envelope is None:
        return records, None, None
    request = envelope.request_bytes + (HIGH_WATERMARK_TAG_BYTES if hwm_aware else 0)
    if records is None:
        return None, request, None
    return records, request, envelope.response_bytes + records_field_bytes(records)
