"""What was replayed, as rows of the two outcome tables."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ..kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes
from ..log_gaps import LOG_GAP
from ..outcomes import NOT_SWEPT, Variant, Verdict
from .closed_loop import SimulatedFetch
from .evidence import Evidence
from .kip_1166 import NOT_SENT, Completion, Fetch
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
NOT_IN_LOG = "the log has no response: its level was switched while the FETCH waited"

Columns = dict[str, Any]
Judgement = tuple[Verdict, str | None]


class Outcomes(NamedTuple):
    """Batches of the rule's two tables, less what the caller knows (recording, phase)."""

    parking: pa.RecordBatch
    lag: pa.RecordBatch


class Emitted:
    def __init__(self) -> None:
        self.parking = _Batches(FETCH_PARKING_OUTCOMES.without("recording"))
        self.lag = _Batches(HIGH_WATERMARK_LAG.without("recording", "phase"))

    def take(self) -> Outcomes:
        return Outcomes(self.parking.take(), self.lag.take())


class _Batches:
    """Rows that come as columns: lists, or one value that all rows have; others are null."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches = [pa.RecordBatch.from_pylist([], schema)]

    def add(self, count: int, columns: Columns) -> None:
        arrays = []
        for field in self._schema:
            values = columns.get(field.name)
            if not isinstance(values, list):
                values = pa.repeat(pa.scalar(values, field.type), count)
            arrays.append(pa.array(values, field.type))
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def take(self) -> pa.RecordBatch:
        return pa.concat_batches(self._batches)


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


#: Columns of a recorded FETCH that are its fields.
_SAME = ("response_high_watermark", "record_bytes", "request_bytes", "response_bytes")
_TIMES = {
    "received_at": "received_us",
    "dequeued_at": "dequeued_us",
    "built_at": "built_us",
    "completed_at": "completed_us",
}


class EpochRows(NamedTuple):
    """Makes rows of an epoch and variant: what is the ``same`` in all, why some are unknown."""

    voters: frozenset[int]
    same: Columns
    unsettled: str

    def recorded(self, taken: Sequence[Taken], outcomes: Sequence[Outcome]) -> Columns:
        rows = [each.row for each in taken]
        same = {name: [getattr(row, name) for row in rows] for name in _SAME}
        times = {name: [getattr(row, of) for row in rows] for name, of in _TIMES.items()}
        return {
            **self._fetches(rows, [each.sequence for each in taken]),
            **_outcomes(outcomes, times),
            **same,
            "recorded_request_id": [row.request_id for row in rows],
        }

    def simulated(self, simulated: Sequence[SimulatedFetch], evidence: Evidence) -> Columns:
        sent = [each.sent for each in simulated]
        responses = [each.response for each in simulated]
        judged = {True: (Verdict.REPLAYED, None), False: (Verdict.UNKNOWN, self.unsettled)}
        outcomes = [
            Outcome(response.completion, response.parked, *judged[each.is_settled])
            for each, response in zip(sent, responses, strict=True)
        ]
        dequeued, built = [each.dequeued_us for each in sent], [each.built_us for each in simulated]
        return {
            **self._fetches([each.fetch for each in sent], [each.sequence for each in sent]),
            **_outcomes(outcomes, dict(zip(_TIMES, (dequeued, dequeued, built, built), strict=True))),
            "response_high_watermark": [response.high_watermark for response in responses],
            **_sizes(simulated, evidence),
        }

    def lags(self, lags: Sequence[Lag]) -> Columns:
        advances, learned = [lag.advance for lag in lags], [lag.learned_us for lag in lags]
        at, replica_ids = [advance.at for advance in advances], [lag.replica_id for lag in lags]
        verdicts = list(map(self._verdict, lags))
        return {
            **self.same,
            "replica_id": replica_ids,
            "is_voter": list(map(self.voters.__contains__, replica_ids)),
            "high_watermark": [advance.high_watermark for advance in advances],
            "previous_high_watermark": [advance.previous for advance in advances],
            "leader_at": at,
            "learned_at": learned,
            "lag_ms": [
                None if until is None else (until - since) / 1000
                for until, since in zip(learned, at, strict=True)
            ],
            "verdict": [verdict for verdict, _ in verdicts],
            "reason": [reason for _, reason in verdicts],
        }

    def _verdict(self, lag: Lag) -> Judgement:
        if not lag.is_settled:
            return Verdict.UNKNOWN, self.unsettled
        if lag.away:
            return Verdict.NOT_APPLICABLE, AWAY
        if lag.learned_us is None:
            return Verdict.UNKNOWN, NEVER_LEARNED
        return Verdict.REPLAYED, None

    def _fetches(
        self, fetches: Sequence[RecordedFetch] | Sequence[Fetch], sequences: list[int]
    ) -> Columns:
        replica_ids = [fetch.replica_id for fetch in fetches]
        known = [fetch.high_watermark for fetch in fetches]
        return {
            **self.same,
            "replica_id": replica_ids,
            "is_voter": list(map(self.voters.__contains__, replica_ids)),
            "sequence": sequences,
            "fetch_offset": [fetch.fetch_offset for fetch in fetches],
            "replica_high_watermark": [None if each == NOT_SENT else each for each in known],
        }


def _outcomes(outcomes: Sequence[Outcome], times: dict[str, list[int]]) -> Columns:
    waits = zip(outcomes, times["dequeued_at"], times["built_at"], strict=True)
    return {
        **times,
        "parked_ms": [
            0.0 if not each.parked else None if each.verdict is Verdict.UNKNOWN else (until - since) / 1000
            for each, since, until in waits
        ],
        "decision": ["parked" if each.parked else "immediate" for each in outcomes],
        "completion": [each.completion for each in outcomes],
        "verdict": [each.verdict for each in outcomes],
        "reason": [each.reason for each in outcomes],
    }


def _sizes(simulated: Sequence[SimulatedFetch], evidence: Evidence) -> Columns:
    """Bytes of the records, the request and the response; None where the log doesn't show them."""
    carried: dict[tuple[int, int], tuple[int | None, int]] = {}
    record_bytes, request_bytes, response_bytes = [], [], []
    for each in simulated:
        fetch, built_us = each.sent.fetch, each.built_us
        log_range = fetch.fetch_offset, each.response.log_end_offset
        if log_range not in carried:
            size = evidence.log_bytes.between(*log_range)
            carried[log_range] = size, records_field_bytes(size or 0)
        records, field_bytes = carried[log_range]
        envelope = evidence.replicas[fetch.replica_id].envelopes.nearest(built_us)
        request = response = None
        if envelope is not None:
            sent_hwm = fetch.high_watermark != NOT_SENT
            request = envelope.request_bytes + (HIGH_WATERMARK_TAG_BYTES if sent_hwm else 0)
            if records is not None:
                response = envelope.response_bytes + field_bytes
        record_bytes.append(records)
        request_bytes.append(request)
        response_bytes.append(response)
    sizes = record_bytes, request_bytes, response_bytes
    return dict(zip(_SAME[1:], sizes, strict=True))
