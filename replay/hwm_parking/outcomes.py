"""What was replayed, as rows of the two outcome tables."""

from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ..kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes
from ..log_gaps import LOG_GAP
from ..model.raft import NOT_SENT, Completion
from ..outcomes import NOT_SWEPT, Variant, Verdict
from .closed_loop import SimulatedFetch
from .evidence import Evidence
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

    def add(self, columns: Columns) -> None:
        arrays, count = [], len(columns["replica_id"])
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


_SIZES = ("record_bytes", "request_bytes", "response_bytes")
#: Columns of a recorded FETCH, of a simulated one and of a lag, and where each is found.
_RECORDED = {
    **{name: f"row.{name}" for name in ("replica_id", "fetch_offset", *_SIZES)},
    **{f"{name}_at": f"row.{name}_us" for name in ("received", "dequeued", "built", "completed")},
    **{name: f"outcome.{name}" for name in ("completion", "parked", "verdict", "reason")},
    "recorded_request_id": "row.request_id",
    "sequence": "sequence",
    "replica_high_watermark": "row.high_watermark",
    "response_high_watermark": "row.response_high_watermark",
}
_SIMULATED = {
    **{name: f"sent.{name}" for name in ("sequence", "is_settled")},
    **{name: f"sent.fetch.{name}" for name in ("replica_id", "fetch_offset")},
    **{name: f"response.{name}" for name in ("completion", "parked")},
    **dict.fromkeys(("received_at", "dequeued_at"), "sent.dequeued_us"),
    **dict.fromkeys(("built_at", "completed_at"), "built_us"),
    "replica_high_watermark": "sent.fetch.high_watermark",
    "response_high_watermark": "response.high_watermark",
}
_LAG = {
    "replica_id": "replica_id",
    "high_watermark": "advance.high_watermark",
    "previous_high_watermark": "advance.previous",
    "is_change": "advance.is_change",
    "leader_at": "advance.at",
    "previous_learned_at": "since_us",
    "learned_at": "learned_us",
    "is_hwm_aware": "hwm_aware",
}


def _columns(rows: Sequence[object], found: dict[str, str]) -> Columns:
    return {name: list(map(attrgetter(place), rows)) for name, place in found.items()}


class EpochRows(NamedTuple):
    """Makes rows of an epoch and variant: what is the ``same`` in all, why some are unknown."""

    voters: frozenset[int]
    same: Columns
    unsettled: str

    def recorded(self, taken: Sequence[Taken]) -> Columns:
        return self._fetches(_columns(taken, _RECORDED))

    def simulated(self, simulated: Sequence[SimulatedFetch], evidence: Evidence) -> Columns:
        columns = _columns(simulated, _SIMULATED) | _sizes(simulated, evidence)
        settled = columns["is_settled"]
        columns["verdict"] = [Verdict.REPLAYED if each else Verdict.UNKNOWN for each in settled]
        columns["reason"] = [None if each else self.unsettled for each in settled]
        return self._fetches(columns)

    def lags(self, lags: Sequence[Lag]) -> Columns:
        columns = _columns(lags, _LAG)
        verdicts = list(map(self._verdict, lags))
        columns["verdict"] = [verdict for verdict, _ in verdicts]
        columns["reason"] = [reason for _, reason in verdicts]
        times = zip(columns["learned_at"], columns["leader_at"], strict=True)
        columns["lag_ms"] = [None if at is None else (at - since) / 1000 for at, since in times]
        return self._of_replicas(columns)

    def _verdict(self, lag: Lag) -> Judgement:
        if not lag.is_settled:
            return Verdict.UNKNOWN, self.unsettled
        if lag.away:
            return Verdict.NOT_APPLICABLE, AWAY
        if lag.learned_us is None:
            return Verdict.UNKNOWN, NEVER_LEARNED
        return Verdict.REPLAYED, None

    def _fetches(self, columns: Columns) -> Columns:
        names = ("parked", "verdict", "dequeued_at", "built_at")
        waits = zip(*map(columns.get, names), strict=True)
        known = columns["replica_high_watermark"]
        columns["parked_ms"] = [_parked_ms(*each) for each in waits]
        columns["decision"] = ["parked" if each else "immediate" for each in columns["parked"]]
        columns["replica_high_watermark"] = [None if each == NOT_SENT else each for each in known]
        return self._of_replicas(columns)

    def _of_replicas(self, columns: Columns) -> Columns:
        is_voter = list(map(self.voters.__contains__, columns["replica_id"]))
        return self.same | columns | {"is_voter": is_voter}


def _parked_ms(parked: bool, verdict: Verdict, dequeued_us: int, built_us: int) -> float | None:
    if not parked:
        return 0.0
    return None if verdict is Verdict.UNKNOWN else (built_us - dequeued_us) / 1000


def _sizes(simulated: Sequence[SimulatedFetch], evidence: Evidence) -> Columns:
    """Bytes of the records, the request and the response; None where the log doesn't show them."""
    between = cache(evidence.log_bytes.between)
    field_bytes = cache(records_field_bytes)
    sizes: list[tuple[int | None, ...]] = []
    for each in simulated:
        fetch, request, response = each.sent.fetch, None, None
        records = between(fetch.fetch_offset, each.response.log_end_offset)
        envelope = evidence.replicas[fetch.replica_id].envelopes.nearest(each.built_us)
        if envelope is not None:
            sent_bytes = HIGH_WATERMARK_TAG_BYTES if fetch.high_watermark != NOT_SENT else 0
            request = envelope.request_bytes + sent_bytes
            response = None if records is None else envelope.response_bytes + field_bytes(records)
        sizes.append((records, request, response))
    return {name: [each[place] for each in sizes] for place, name in enumerate(_SIZES)}
