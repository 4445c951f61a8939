"""The input of closest_replica: what lines show of a leader's partitions that consumers read.

A row is a partition of a line. ``LineKind`` decides which columns it fills; the others are null.
Order is (at_us, kind_order, request_id, topic, partition); rows at 0 or before are true at all
times.
"""

from enum import StrEnum
from typing import NamedTuple

from ..model import AT_ONCE_US
from ..records import event_schema


class LineKind(StrEnum):
    """Tells events apart. Events of one time are replayed in this order."""

    #: ``broker.rack`` of a broker.
    RACK = "rack"
    #: ``broker_id`` leads the partition with an epoch, which a line shows first now.
    TERM = "term"
    #: METADATA or ALTER_PARTITION has an ISR.
    ISR = "isr"
    #: The follower ``broker_id`` has all below ``fetch_offset``.
    PROGRESS = "progress"
    #: The response to that follower has a high watermark.
    RETURNED = "returned"
    #: A consumer's FETCH of a session lists the partition.
    LISTED = "listed"
    #: The response of ``broker_id`` to a consumer's FETCH has records, or a preferred replica.
    READ = "read"


class ReplicaEvent(NamedTuple):
    """One event. Times are microseconds since the epoch; what a kind lacks is its default."""

    at_us: int
    kind_order: int
    request_id: str
    kind: str
    topic: str
    partition: int
    broker_id: int
    #: RACK: the broker's; READ: the FETCH's rack id.
    rack: str = ""
    #: TERM, ISR.
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    #: PROGRESS, LISTED, READ: of the request; -1 where a session's request does not list it.
    fetch_offset: int = -1
    #: RETURNED, READ.
    high_watermark: int = 0
    last_stable_offset: int = 0
    #: RETURNED: arrival of the FETCH, and when the follower's response before it was built.
    received_us: int = 0
    previous_us: int = 0
    #: LISTED, READ: the session's id, 0 for none.
    session_id: int = 0
    #: READ.
    dequeued_us: int = 0
    handled_us: int = 0
    api_version: int = 0
    isolation_level: int = 0
    client_id: str | None = None
    client_host: str | None = None
    record_bytes: int = 0
    request_bytes: int | None = None
    response_bytes: int | None = None
    preferred_read_replica: int = -1

    @property
    def topic_partition(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def is_awaited(self) -> bool:
        """Tells whether a READ waited for records; times are rounded."""
        return self.at_us - self.handled_us > AT_ONCE_US


INPUT_SCHEMA = event_schema(ReplicaEvent)
