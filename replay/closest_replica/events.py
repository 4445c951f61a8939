"""What the rule closest_replica reads: of a leader's partitions that consumers read.

A row is a partition of a line. ``Kind`` decides which columns it fills; the others are null. Order
is (at_us, kind_order, request_id, topic, partition); rows at 0 or before are true at all times.
"""

from enum import StrEnum
from typing import NamedTuple

from ..records import event_schema

#: A follower's progress is noted at most this long after the handler took its FETCH.
PROGRESS_US_MAX = 2_000


class Kind(StrEnum):
    """What an event is. Events of one time are taken in this order."""

    #: ``broker.rack`` of a broker.
    RACK = "rack"
    #: ``broker_id`` leads the partition with an epoch: first seen then.
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


class Event(NamedTuple):
    """One event. Times are microseconds since the epoch."""

    at_us: int
    kind_order: int
    request_id: str
    kind: str
    topic: str
    partition: int
    broker_id: int
    #: RACK: the broker's; READ: the FETCH's rack id.
    rack: str | None
    #: TERM.
    leader_epoch: int | None
    #: ISR.
    isr: list[int] | None
    #: PROGRESS, LISTED, READ: of the request; null where a session's request does not list it.
    fetch_offset: int | None
    #: RETURNED, READ.
    high_watermark: int | None
    last_stable_offset: int | None
    #: RETURNED: arrival of the FETCH, and when the follower's response before it was built.
    received_us: int | None
    previous_us: int | None
    #: LISTED, READ: the session's id, 0 for none.
    session_id: int | None
    #: READ.
    dequeued_us: int | None
    handled_us: int | None
    api_version: int | None
    isolation_level: int | None
    client_id: str | None
    client_host: str | None
    record_bytes: int | None
    request_bytes: int | None
    response_bytes: int | None
    preferred_read_replica: int | None


INPUT_SCHEMA = event_schema(Event)
