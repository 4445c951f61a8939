"""Exact bytes on the wire of FETCH v4-v18, PRODUCE v3-v13 and BROKER_HEARTBEAT v0-v2.

Theory
------
A request log does not say how many bytes a request took, but it says everything that they follow
from. On the wire stand 4 bytes of frame, a header and a body. Since KIP-482 ("flexible versions")
lengths are unsigned varints and optional fields are tagged; before, lengths are int16 (strings) or
int32 (arrays, records). Source: Kafka's message schemas (``clients/src/main/resources/common/
message/*.json``) as ``MessageDataGenerator`` encodes them.

Functions take a record batch whose columns are named as in the tables ``fetches``, ``produces`` and
``broker_heartbeats`` and return one INT64 per row: null where the row has no such body, or where
the version is none of those above. They assume what every client and broker does: adjacent
partitions of one topic travel under one topic, and no topic travels without partitions.
"""

from __future__ import annotations

from .encoding import (
    HIGH_WATERMARK_TAG_BYTES,
    records_field_bytes,
    unsigned_varint_bytes,
)
from .fetch import (
    fetch_request_body_bytes,
    fetch_request_bytes,
    fetch_response_body_bytes,
    fetch_response_bytes,
)
from .heartbeat import (
    broker_heartbeat_request_body_bytes,
    broker_heartbeat_request_bytes,
    broker_heartbeat_response_body_bytes,
    broker_heartbeat_response_bytes,
)
from .produce import (
    produce_request_body_bytes,
    produce_request_bytes,
    produce_response_body_bytes,
    produce_response_bytes,
)

__all__ = [
    "HIGH_WATERMARK_TAG_BYTES",
    "broker_heartbeat_request_body_bytes",
    "broker_heartbeat_request_bytes",
    "broker_heartbeat_response_body_bytes",
    "broker_heartbeat_response_bytes",
    "fetch_request_body_bytes",
    "fetch_request_bytes",
    "fetch_response_body_bytes",
    "fetch_response_bytes",
    "produce_request_body_bytes",
    "produce_request_bytes",
    "produce_response_body_bytes",
    "produce_response_bytes",
    "records_field_bytes",
    "unsigned_varint_bytes",
]
