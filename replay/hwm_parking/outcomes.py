"""What was replayed, as rows of the two outcome tables."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ..kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes
from ..log_gaps import LOG_GAP
from ..outcomes import NOT_SWEPT, Rows, Variant, Verdict
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

Row = dict[str, Any]
Judgement = tuple[Verdict, str | None]


class Outcomes(NamedTuple):
    """Batches of the rule's two tables, less what the caller knows (recording, phase)."""

    parking: pa.RecordBatch
    lag: pa.RecordBatch


class Emitted:
    def __init__(self) -> None:
        self.parking = Rows(FETCH_PARKING_OUTCOMES.without("recording"))
        self.lag = Rows(HIGH_WATERMARK_LAG.without("recording", "phase"))

    def take(self) -> Outcomes:
        return Outcomes(self.parking.take(), self.lag.take())


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


class EpochRows(NamedTuple):
    """Makes rows of an epoch and variant: what is the ``same`` in all, why some are unknown."""

    voters: frozenset[int]
    same: Row
    unsettled: str

    def recorded(self, taken: Taken, outcome: Outcome) -> Row:
        row = taken.row
        return {
            **self._fetch(row, taken.sequence, outcome),
            **self._times(row.dequeued_us, row.built_us, outcome),
            **{name: getattr(row, name) for name in _SAME},
            "recorded_request_id": row.request_id,
            "received_at": row.received_us,
            "completed_at": row.completed_us,
        }

    def simulated(self, simulated: SimulatedFetch, evidence: Evidence) -> Row:
        response, sent, built = simulated.response, simulated.sent, simulated.built_us
        judged = (Verdict.REPLAYED, None) if sent.is_settled else self._unknown
        outcome = Outcome(response.completion, response.parked, *judged)
        sizes = _sizes(simulated, evidence)
        return {
            **self._fetch(sent.fetch, sent.sequence, outcome),
            **self._times(sent.dequeued_us, built, outcome),
            **dict(zip(_SAME, (response.high_watermark, *sizes), strict=True)),
        }

    def lag(self, lag: Lag) -> Row:
        advance, learned_us = lag.advance, lag.learned_us
        verdict, reason = self._verdict(lag)
        return {
            **self.same,
            "replica_id": lag.replica_id,
            "is_voter": lag.replica_id in self.voters,
            "high_watermark": advance.high_watermark,
            "previous_high_watermark": advance.previous,
            "leader_at": advance.at,
            "learned_at": learned_us,
            "lag_ms": None if learned_us is None else (learned_us - advance.at) / 1000,
            "verdict": verdict,
            "reason": reason,
        }

    @staticmethod
    def _times(dequeued_us: int, built_us: int, outcome: Outcome) -> Row:
        waited_ms = None if outcome.verdict is Verdict.UNKNOWN else (built_us - dequeued_us) / 1000
        return {
            **dict.fromkeys(("received_at", "dequeued_at"), dequeued_us),
            **dict.fromkeys(("built_at", "completed_at"), built_us),
            "parked_ms": waited_ms if outcome.parked else 0.0,
        }

    @property
    def _unknown(self) -> Judgement:
        return Verdict.UNKNOWN, self.unsettled

    def _verdict(self, lag: Lag) -> Judgement:
        if not lag.is_settled:
            return self._unknown
        if lag.away:
            return Verdict.NOT_APPLICABLE, AWAY
        if lag.learned_us is None:
            return Verdict.UNKNOWN, NEVER_LEARNED
        return Verdict.REPLAYED, None

    def _fetch(self, fetch: RecordedFetch | Fetch, sequence: int, outcome: Outcome) -> Row:
        known = fetch.high_watermark
        return {
            **self.same,
            "replica_id": fetch.replica_id,
            "is_voter": fetch.replica_id in self.voters,
            "sequence": sequence,
            "fetch_offset": fetch.fetch_offset,
            "replica_high_watermark": None if known == NOT_SENT else known,
            "decision": "parked" if outcome.parked else "immediate",
            "completion": outcome.completion,
            "verdict": outcome.verdict,
            "reason": outcome.reason,
        }


def _sizes(
    simulated: SimulatedFetch, evidence: Evidence
) -> tuple[int | None, int | None, int | None]:
    """Bytes of the records, the request and the response; None where the log doesn't show them."""
    response, fetch = simulated.response, simulated.response.fetch
    records = evidence.log_bytes.between(fetch.fetch_offset, response.log_end_offset)
    envelope = evidence.replicas[fetch.replica_id].envelopes.nearest(simulated.built_us)
    if envelope is None:
        return records, None, None
    request = envelope.request_bytes + (
        HIGH_WATERMARK_TAG_BYTES if fetch.high_watermark != NOT_SENT else 0
    )
    if records is None:
        return None, request, None
    return records, request, envelope.response_bytes + records_field_bytes(records)
