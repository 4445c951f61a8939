"""What kernels noted, as rows of the two outcome tables: column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kip_replay.replay.hwm_parking.tables import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG
from kip_replay.replay.outcomes import RECORDED, Variant, Verdict
from kip_replay.replay.wire_size import HIGH_WATERMARK_TAG_BYTES

from .completion import Completion
from .metadata_log import NOT_SENT
from .records import Ints, longs, records_bytes
from .state import FETCH_FIELDS, LAG_FIELDS, NEVER, NONE

RULE = "hwm_parking"
WITHOUT_KIP = "without_kip_1166"
WITH_KIP = "with_kip_1166"

NOT_LEADER = "asked a controller that did not lead"
AWAY = "the replica was away (silent for over a second) when the high watermark moved"
NEVER_LEARNED = "the leader's epoch or the log ended before the replica learned"
MIDDLE_OF_EPOCH = "the log begins within the leader's epoch: its high watermark is not known yet"
EMPTY_WAKE = "woken early and empty with everyone who was parked: the leader drained no batch"
NOT_IN_LOG = "the log has no answer: its level was switched while the FETCH waited"

#: Verdict and reason of a recorded FETCH, by ``Rows.reason``.
_DECISIONS = (
    (Verdict.REPLAYED, None),
    (Verdict.NOT_APPLICABLE, NOT_LEADER),
    (Verdict.UNKNOWN, MIDDLE_OF_EPOCH),
    (Verdict.REPLAYED, EMPTY_WAKE),
    (Verdict.UNKNOWN, NOT_IN_LOG),
)
#: The same of a lag: it was learned, the replica was away, it never learned.
_LAG_DECISIONS = (
    (Verdict.REPLAYED, None),
    (Verdict.NOT_APPLICABLE, AWAY),
    (Verdict.UNKNOWN, NEVER_LEARNED),
)

#: Output of the replay: rows of these two tables, less what the caller knows (recording, phase).
PARKING_SCHEMA = FETCH_PARKING_OUTCOMES.without("recording")
LAG_SCHEMA = HIGH_WATERMARK_LAG.without("recording", "phase")
HWM_AWARE = {WITHOUT_KIP: False, WITH_KIP: True}


class Told(NamedTuple):
    """What all rows of an epoch share: the runs are what was recorded and each variant."""

    leader_id: int
    leader_epoch: int
    voters: frozenset[int]
    variants: Sequence[Variant]
    replica_ids: Ints

    @property
    def runs(self) -> list[Variant]:
        """The variant of each run."""
        return [Variant(RECORDED), *self.variants]

    def columns(self, run: Ints, replica_id: Ints) -> dict[str, Any]:
        """The columns that say which run, leader and replica a row belongs to."""
        named = [variant.what_if(RULE) for variant in self.runs]
        return {
            **{name: _chosen([each[name] for each in named], run) for name in named[0]},
            "leader_id": np.full(len(run), self.leader_id),
            "leader_epoch": np.full(len(run), self.leader_epoch),
            "replica_id": replica_id,
            "is_voter": np.isin(replica_id, sorted(self.voters)),
        }


def recorded_rows(
    told: Told, batch: pa.RecordBatch, sequence: Ints, decided: Any
) -> pa.RecordBatch:
    """Recorded FETCHes (``INPUT_SCHEMA``) and what the replay says of them (``DECIDED``)."""
    known = longs(batch, "high_watermark")
    dequeued, built = longs(batch, "dequeued_us"), longs(batch, "built_us")
    run = np.zeros(batch.num_rows, np.int64)
    as_read = ("fetch_offset", "response_high_watermark", "record_bytes")
    return _batch(
        PARKING_SCHEMA,
        {
            **told.columns(run, longs(batch, "replica_id")),
            **{name: batch.column(name) for name in as_read},
            **{name: batch.column(name) for name in ("request_bytes", "response_bytes")},
            "sequence": sequence,
            "recorded_request_id": batch.column("request_id"),
            "received_at": batch.column("received_us"),
            "dequeued_at": batch.column("dequeued_us"),
            "built_at": batch.column("built_us"),
            "completed_at": batch.column("completed_us"),
            "replica_high_watermark": _known(known, NOT_SENT),
            **_parking(decided["is_parked"], decided["completion"], built - dequeued),
            **_decided(_DECISIONS, decided["reason"]),
        },
    )


def simulated_rows(told: Told, fetches: Ints) -> pa.RecordBatch:
    """FETCHes of closed loops, given in the lines of ``FETCH_FIELDS``."""
    of = dict(zip(FETCH_FIELDS, fetches, strict=True))
    aware = np.array([False, *(HWM_AWARE[variant.name] for variant in told.variants)])[of["run"]]
    built, dequeued, carried = of["built_us"], of["dequeued_us"], of["record_bytes"]
    request, response = of["request_envelope"], of["response_envelope"]
    sent = np.where(request == NONE, NONE, request + HIGH_WATERMARK_TAG_BYTES * aware)
    is_told = (response != NONE) & (carried != NONE)
    answered = np.where(is_told, response + records_bytes(carried), NONE)
    return _batch(
        PARKING_SCHEMA,
        {
            **told.columns(of["run"], told.replica_ids[of["replica"]]),
            "sequence": of["sequence"],
            "received_at": dequeued,
            "dequeued_at": dequeued,
            "built_at": built,
            "completed_at": built,
            "fetch_offset": of["fetch_offset"],
            "replica_high_watermark": pa.array(of["replica_high_watermark"], mask=~aware),
            "response_high_watermark": of["response_high_watermark"],
            "record_bytes": _known(carried),
            "request_bytes": _known(sent),
            "response_bytes": _known(answered),
            **_parking(of["is_parked"], of["completion"], built - dequeued),
            "verdict": _chosen([Verdict.REPLAYED.value], np.zeros(len(built), np.int64)),
        },
    )


def lag_rows(told: Told, lags: Ints) -> pa.RecordBatch:
    """Lags, given in the lines of ``LAG_FIELDS``."""
    of = dict(zip(LAG_FIELDS, lags, strict=True))
    at, learned = of["at"], of["learned_us"]
    is_learned = learned != NEVER
    return _batch(
        LAG_SCHEMA,
        {
            **told.columns(of["run"], told.replica_ids[of["replica"]]),
            "high_watermark": of["high_watermark"],
            "previous_high_watermark": of["previous"],
            "leader_at": at,
            "learned_at": _known(learned, NEVER),
            "lag_ms": pa.array(np.where(is_learned, learned - at, 0) / 1000, mask=~is_learned),
            **_decided(_LAG_DECISIONS, np.where(is_learned, 0, 2 - of["is_away"])),
        },
    )


def _parking(parked: Ints, completion: Ints, took_us: Ints) -> dict[str, Any]:
    return {
        "decision": _chosen(["immediate", "parked"], parked),
        "completion": _chosen([each.value for each in Completion], completion),
        "parked_ms": np.where(parked == 1, took_us / 1000, 0.0),
    }


def _decided(decisions: Sequence[tuple[Verdict, str | None]], code: Ints) -> dict[str, Any]:
    return {
        "verdict": _chosen([verdict.value for verdict, _ in decisions], code),
        "reason": _chosen([reason for _, reason in decisions], code),
    }


def _chosen(words: Sequence[str | None], codes: Ints) -> pa.Array:
    """A word a row, by its number."""
    return pa.array(words, pa.string()).take(pa.array(codes))


def _known(values: Ints, unknown: int = NONE) -> pa.Array:
    return pa.array(values, mask=values == unknown)


def _batch(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """A batch of a schema; columns not named are null."""
    rows = len(columns["replica_id"])
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            arrays.append(pa.nulls(rows, field.type))
        else:
            array = column if isinstance(column, pa.Array) else pa.array(column)
            arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
