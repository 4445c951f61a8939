"""Recorded FETCHes as the columns that kernels read, and codes of what they say of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kip_replay.replay.kafka.messages import HIGH_WATERMARK_TAG_BYTES
from kip_replay.replay.kafka.messages.encoding import varint_sizes

from .metadata_log import HWM_AWARE_VERSION, NO_ANSWER, NOT_SENT
from .state import NONE, Column, Record

Ints = np.ndarray[Any, np.dtype[np.int64]]

#: NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
NOT_LEADING = (6, 8, 74, 75)

#: ``Rows.kind``: the leader's own answer, another error, "not the leader", no answer in the log.
TOLD, ERROR, REFUSED, MISSING = range(4)

#: ``Rows.reason``, in the order of ``outcomes.REASONS``; 0 is none.
NO_REASON, BECAUSE_NOT_LEADER, BECAUSE_MIDDLE, BECAUSE_EMPTY_WAKE, BECAUSE_NOT_IN_LOG = range(5)

_AS_READ = (
    *("dequeued_us", "built_us", "correlation_id", "max_wait_us", "fetch_offset"),
    *("last_fetched_epoch", "high_watermark", "response_high_watermark", "record_bytes"),
    *("is_diverging", "is_snapshot"),
)
#: What the replay says of a row: whether the recorded leader took it as progress, whether all else
#: was said when it was taken, and that.
DECIDED = ("is_followed", "is_decided", "completion", "is_parked", "reason")


ROW = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("replica", "kind", *_AS_READ, "hwm_aware", "is_progress"),
            *("has_envelope", "request_envelope", "response_envelope", *DECIDED),
        )
    ],
    align=True,
)


class Rows(NamedTuple):
    """Recorded FETCHes of one epoch that are not handed out yet, in order of built_us.

    ``of`` are records of ``ROW``; their ``replica`` is a number (NONE: the leader answered it
    nothing yet). ``voters_rows`` are the places of those that are a voter's progress, in order of
    dequeued_us.
    """

    of: Record
    voters_rows: Column


def longs(batch: pa.RecordBatch, name: str) -> Ints:
    """A column as int64; null is NONE."""
    column = batch.column(name)
    if column.null_count:
        column = column.fill_null(NONE)
    return column.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def records_bytes(sizes: Ints) -> Ints:
    """``records_field_bytes`` of each size."""
    return sizes + varint_sizes(sizes + 1)


def rows_of(
    batch: pa.RecordBatch, numbers: dict[int, int], voters: frozenset[int], decided: Any
) -> Rows:
    """Columns of a batch of ``INPUT_SCHEMA``; ``voters`` without the leader.

    ``decided`` are the columns ``DECIDED`` so far, as records.
    """
    rows = np.zeros(batch.num_rows, ROW).view(np.recarray)
    for name in _AS_READ:
        rows[name] = longs(batch, name)
    for name in DECIDED:
        rows[name] = decided[name]
    replica_ids, errors = longs(batch, "replica_id"), longs(batch, "error_code")
    rows["replica"] = _numbered(replica_ids, numbers)
    rows["kind"] = np.select(
        [errors == 0, errors == NO_ANSWER, np.isin(errors, NOT_LEADING)],
        [TOLD, MISSING, REFUSED],
        ERROR,
    )
    aware = longs(batch, "api_version") >= HWM_AWARE_VERSION
    aware &= rows["high_watermark"] != NOT_SENT
    rows["hwm_aware"] = aware
    rows["is_progress"] = np.isin(replica_ids, sorted(voters))
    request, response = longs(batch, "request_bytes"), longs(batch, "response_bytes")
    rows["has_envelope"] = (request >= 0) & (response >= 0)
    rows["request_envelope"] = request - HIGH_WATERMARK_TAG_BYTES * aware
    rows["response_envelope"] = response - records_bytes(rows["record_bytes"])
    return Rows(rows, _voters_rows(batch, rows))


def _numbered(replica_ids: Ints, numbers: dict[int, int]) -> Ints:
    """The number of each replica; NONE where it has none."""
    ids, inverse = np.unique(replica_ids, return_inverse=True)
    known = [numbers.get(replica_id, NONE) for replica_id in ids.tolist()]
    return np.array(known, np.int64)[inverse]


def _voters_rows(batch: pa.RecordBatch, rows: Any) -> Ints:
    """Rows that say how far a voter is, in order of (dequeued_us, request_id)."""
    is_progress = (rows["is_progress"] == 1) & (rows["kind"] == TOLD)
    is_progress &= (rows["is_diverging"] == 0) & (rows["is_snapshot"] == 0)
    places = np.flatnonzero(is_progress)
    at = rows["dequeued_us"][places]
    order = np.argsort(at, kind="stable")
    places, at = places[order], at[order]
    same = np.flatnonzero(at[1:] == at[:-1])
    if len(same):
        # Only rows of one time need their names, and stamps are cut to milliseconds.
        tied = np.union1d(same, same + 1)
        names = batch.column("request_id").take(pa.array(places[tied])).to_pylist()
        ranked = sorted(range(len(tied)), key=lambda i: (at[tied[i]], names[i]))
        places[tied] = places[tied][ranked]
    return places
