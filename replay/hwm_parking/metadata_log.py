"""States the replay's input: FETCHes of the metadata log."""

from typing import NamedTuple

from ..model.raft import HWM_AWARE_VERSION, NOT_SENT
from ..records import event_schema

#: error_code of a FETCH whose response is not in the log: "response":"".
NO_RESPONSE = -2
#: NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
NOT_LEADING = frozenset({6, 8, 74, 75})
#: A replica silent for longer than this between a response and its next FETCH is away.
ABSENCE_US = 1_000_000
#: Responses to FETCHes that one append completes are built within this.
WAKE_SPREAD_US = 25_000


class RecordedMetadataFetch(NamedTuple):
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
        """Checks that the FETCH carries a high watermark, which the leader compares."""
        return self.api_version >= HWM_AWARE_VERSION and self.high_watermark != NOT_SENT


INPUT_SCHEMA = event_schema(RecordedMetadataFetch)
