"""Recorded FETCHes by hand: milliseconds, and only what a test is about."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import constructed

from kip_replay.replay.hwm_parking.evidence import INPUT_SCHEMA, RecordedMetadataFetch
from kip_replay.replay.hwm_parking.replay import HwmParking
from kip_replay.replay.log_gaps import Gaps, LogGap
from kip_replay.replay.model.raft import MAX_FETCH_WAIT_US, NOT_SENT, UNKNOWN_OFFSET
from kip_replay.replay.records import Variant

#: The leader epoch of FETCHes unless given.
EPOCH = 5


def fetched(
    replica_id: int, dequeued_ms: float, built_ms: float, fetch_offset: int, **others: Any
) -> RecordedMetadataFetch:
    """A FETCH that the leader of ``EPOCH`` completed, empty and of a 4.0 replica unless given."""
    sends = "high_watermark" in others
    begin_us, end_us = micros(dequeued_ms), micros(built_ms)
    times = {"received_us": begin_us, "dequeued_us": begin_us, "built_us": end_us}
    line = {"request_id": f"{built_ms:012.3f}-{replica_id:03d}", "completed_us": end_us, **times}
    # Rising with time, as one connection's ids do.
    line |= {"correlation_id": round(dequeued_ms * 10), "api_version": 18 if sends else 17}
    sent = {"replica_id": replica_id, "leader_epoch": EPOCH, "max_wait_us": MAX_FETCH_WAIT_US}
    sent |= {"fetch_offset": fetch_offset, "last_fetched_epoch": EPOCH, "high_watermark": NOT_SENT}
    returned = {"error_code": 0, "response_high_watermark": UNKNOWN_OFFSET, "record_bytes": 0}
    returned |= {"is_diverging": False, "is_snapshot": False}
    sizes = {"request_bytes": None, "response_bytes": None}
    return RecordedMetadataFetch(**{**line, **sent, **returned, **sizes, **others})


def micros(milliseconds: float) -> int:
    return round(milliseconds * 1000)


def in_order(rows: Iterable[RecordedMetadataFetch]) -> list[RecordedMetadataFetch]:
    return sorted(rows, key=lambda row: (row.built_us, row.request_id))


batch_of = partial(constructed.batch_of, schema=INPUT_SCHEMA)


class Replayed(NamedTuple):
    """Rows of both outputs, times as microseconds since the epoch."""

    parking: list[dict[str, Any]]
    lag: list[dict[str, Any]]

    def variant(self, name: str) -> Self:
        return Replayed(*([row for row in rows if row["variant"] == name] for rows in self))


def replay_of(
    node_id: int,
    voters: Iterable[int],
    rules: list[Variant],
    increments: Iterable[Sequence[RecordedMetadataFetch]],
    gaps: Sequence[LogGap] = (),
    *,
    resumed: bool = False,
) -> Replayed:
    """Feeds a log increment by increment and gathers every row."""
    rows, start = Replayed([], []), partial(HwmParking, node_id, voters, rules, gaps=Gaps(gaps))
    for outcomes in constructed.fed(start, map(batch_of, increments), resumed=resumed):
        for gathered, batch in zip(rows, outcomes, strict=True):
            gathered += constructed.rows_of(batch)
    return rows
