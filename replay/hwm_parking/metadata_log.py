"""FETCHes of the metadata log as the replay reads them.

The docstring of ``replay.hwm_parking`` states what is read of a response.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import pyarrow as pa

#: HighWatermark of a replica or a leader that knows none (KIP-1166, "Fetch").
UNKNOWN_OFFSET = -1
#: HighWatermark of a FETCH without the field (below v18): never below the leader's.
NOT_SENT = 2**63 - 1
#: First FETCH version with the field.
HWM_AWARE_VERSION = 18
#: error_code of a FETCH whose answer is not in the log: "response":"".
NO_ANSWER = -2
#: A replica silent for longer than this between an answer and its next FETCH is away.
ABSENCE_US = 1_000_000
#: Answers that one append wakes are built within this.
WAKE_SPREAD_US = 25_000
#: Answers (or one per replica, if fewer) that one append must wake to tell the time for one.
WAKE_MEMBERS_MIN = 4


class RecordedFetch(NamedTuple):
    """A FETCH of the metadata log as logged. Times are microseconds since the epoch."""

    request_id: str
    replica_id: int
    leader_epoch: int
    correlation_id: int
    api_version: int
    received_us: int
    dequeued_us: int
    built_us: int
    completed_us: int
    max_wait_us: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    error_code: int
    response_high_watermark: int
    record_bytes: int
    is_diverging: bool
    is_snapshot: bool
    request_bytes: int | None
    response_bytes: int | None

    @property
    def hwm_aware(self) -> bool:
        """The FETCH carries a high watermark that the leader compares."""
        return self.api_version >= HWM_AWARE_VERSION and self.high_watermark != NOT_SENT

    @property
    def told(self) -> bool:
        """The answer is the leader's own (not an error)."""
        return self.error_code == 0


_NOT_LONG = {"request_id": pa.string(), "is_diverging": pa.bool_(), "is_snapshot": pa.bool_()}
#: Input of the replay: ``RecordedFetch``, a column per field.
INPUT_SCHEMA = pa.schema(
    [(name, _NOT_LONG.get(name, pa.int64())) for name in RecordedFetch._fields]
)


class Samples:
    """Values measured at points in time; the one nearest in time is asked for."""

    def __init__(self) -> None:
        self._at: list[int] = []
        self._values: list[int] = []

    def add(self, at: int, value: int) -> None:
        """Add a value; times may come slightly out of order."""
        index = bisect_right(self._at, at)
        self._at.insert(index, at)
        self._values.insert(index, value)

    def nearest(self, at: int) -> int | None:
        """The value nearest in time, the earlier of two as near; None if there is none."""
        if not self._at:
            return None
        after = bisect_left(self._at, at)
        if after == len(self._at) or (
            after > 0 and at - self._at[after - 1] <= self._at[after] - at
        ):
            after -= 1
        return self._values[after]

    def forget(self, before: int) -> None:
        """Drop what lies before a time, all but the last."""
        keep = max(0, bisect_left(self._at, before) - 1)
        del self._at[:keep], self._values[:keep]
