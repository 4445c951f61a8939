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


#: Columns of a recorded FETCH, by the fields that they are.
_OF_RECORDED = {
    "recorded_request_id": "request_id",
    **{f"{event}_at": f"{event}_us" for event in ("received", "dequeued", "built", "completed")},
    **{name: name for name in ("replica_id", "fetch_offset", "response_high_watermark")},
    **{name: name for name in ("record_bytes", "request_bytes", "response_bytes")},
}


class EpochRows(NamedTuple):
    """Makes batches of rows of one leader epoch. ``unsettled``: why some are unknown."""

    controller: Controller
    leader_epoch: int
    unsettled: str

    def recorded(self, explained: Sequence[tuple[Taken, Outcome]]) -> pa.RecordBatch:
        """Recorded FETCHes and what the replay finds of them: ``PARKING_SCHEMA``."""
        rows = [taken.row for taken, _ in explained]
        outcomes = [outcome for _, outcome in explained]
        columns: Columns = {
            **{name: [getattr(row, of) for row in rows] for name, of in _OF_RECORDED.items()},
            "sequence": [taken.sequence for taken, _ in explained],
            "replica_high_watermark": [
                None if r.high_watermark == NOT_SENT else r.high_watermark for r in rows
            ],
            "completion": [outcome.completion.value for outcome in outcomes],
            "verdict": [outcome.verdict.value for outcome in outcomes],
            "reason": [outcome.reason for outcome in outcomes],
        }
        return self._parking(Variant(RECORDED), columns, [outcome.parked for outcome in outcomes])

    def simulated(
        self, variant: Variant, fetches: Sequence[SimulatedFetch], evidence: Evidence
    ) -> pa.RecordBatch:
        """FETCHes of a closed loop: ``PARKING_SCHEMA``."""
        hwm_aware = HWM_AWARE[variant.name]
        dequeued = [simulated.dequeued_us for simulated in fetches]
        built = [simulated.built_us for simulated in fetches]
        responses = [simulated.response for simulated in fetches]
        sent = [response.fetch for response in responses]
        sizes = zip(*(_sizes(simulated, evidence, hwm_aware) for simulated in fetches), strict=True)
        unsettled = [None if simulated.is_settled else self.unsettled for simulated in fetches]
        columns: Columns = {
            **dict(zip(("record_bytes", "request_bytes", "response_bytes"), sizes, strict=True)),
            **dict.fromkeys(("received_at", "dequeued_at"), dequeued),
            **dict.fromkeys(("built_at", "completed_at"), built),
            "replica_id": [fetch.replica_id for fetch in sent],
            "sequence": [simulated.sequence for simulated in fetches],
            "fetch_offset": [fetch.fetch_offset for fetch in sent],
            "replica_high_watermark": [f.high_watermark if hwm_aware else None for f in sent],
            "response_high_watermark": [response.high_watermark for response in responses],
            "completion": [response.completion.value for response in responses],
            "verdict": [Verdict.UNKNOWN if why else Verdict.REPLAYED for why in unsettled],
            "reason": unsettled,
        }
        return self._parking(variant, columns, [response.parked for response in responses])

    def lags(self, variant: Variant, lags: Sequence[Lag]) -> pa.RecordBatch:
        """When replicas learned of advances: ``LAG_SCHEMA``."""
        verdicts = [self._verdict(lag) for lag in lags]
        columns: Columns = {
            "replica_id": [lag.replica_id for lag in lags],
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
        return self._batch(LAG_SCHEMA, variant, columns)

    def _verdict(self, lag: Lag) -> tuple[Verdict, str | None]:
        if not lag.is_settled:
            return Verdict.UNKNOWN, self.unsettled
        if lag.away:
            return Verdict.NOT_APPLICABLE, AWAY
        if lag.learned_us is None:
            return Verdict.UNKNOWN, NEVER_LEARNED
        return Verdict.REPLAYED, None

    def _parking(self, variant: Variant, columns: Columns, parked: list[bool]) -> pa.RecordBatch:
        times = zip(columns["dequeued_at"], columns["built_at"], strict=True)
        waits = [
            None if verdict == Verdict.UNKNOWN else (built - at) / 1000
            for (at, built), verdict in zip(times, columns["verdict"], strict=True)
        ]
        derived: Columns = {
            "decision": ["parked" if each else "immediate" for each in parked],
            "parked_ms": [w if each else 0.0 for w, each in zip(waits, parked, strict=True)],
        }
        return self._batch(PARKING_SCHEMA, variant, {**columns, **derived})

    def _batch(self, schema: pa.Schema, variant: Variant, columns: Columns) -> pa.RecordBatch:
        """A batch of a schema; columns not named are null."""
        node_id, voters, _ = self.controller
        same = {**variant.what_if(RULE), "leader_id": node_id, "leader_epoch": self.leader_epoch}
        replica_ids = columns["replica_id"]
        values: Columns = {**columns, "is_voter": [each in voters for each in replica_ids]}
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
