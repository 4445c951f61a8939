"""Exact bytes on the wire of FETCH v4-v18, PRODUCE v3-v13 and BROKER_HEARTBEAT v0-v2.

And of two things that are in no Kafka: the draft of KIP-227's incremental FETCH, and the heartbeat
response of the draft with ``LowestAcknowledgedOffset``.

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
partitions of one topic travel under one topic, and no topic travels without partitions. The pieces
(``fetch_pieces``, ``IncrementalFetchPieces``) are the same sizes in single numbers, for replays
that follow a session by its changes.
"""

from __future__ import annotations

from .encoding import (
    HIGH_WATERMARK_TAG_BYTES,
    records_field_bytes,
    unsigned_varint_bytes,
)
from .fetch import (
    FETCH_VERSIONS,
    fetch_request_body_bytes,
    fetch_request_bytes,
    fetch_response_body_bytes,
    fetch_response_bytes,
)
from .fetch_pieces import FetchPieces, fetch_pieces
from .heartbeat import (
    LOWEST_ACKNOWLEDGED_OFFSET_BYTES,
    broker_heartbeat_request_body_bytes,
    broker_heartbeat_request_bytes,
    broker_heartbeat_response_body_bytes,
    broker_heartbeat_response_bytes,
    broker_heartbeat_response_with_lowest_acknowledged_offset_bytes,
)
from .incremental_fetch_draft import (
    DRAFT_UUID_BYTES,
    IncrementalFetchPieces,
    fetch_response_with_draft_uuid_bytes,
    incremental_fetch_request_body_bytes,
    incremental_fetch_request_bytes,
    incremental_fetch_response_body_bytes,
    incremental_fetch_response_bytes,
)
from .produce import (
    produce_request_body_bytes,
    produce_request_bytes,
    produce_response_body_bytes,
    produce_response_bytes,
)

__all__ = [
    "DRAFT_UUID_BYTES",
    "FETCH_VERSIONS",
    "HIGH_WATERMARK_TAG_BYTES",
    "LOWEST_ACKNOWLEDGED_OFFSET_BYTES",
    "FetchPieces",
    "IncrementalFetchPieces",
    "broker_heartbeat_request_body_bytes",
    "broker_heartbeat_request_bytes",
    "broker_heartbeat_response_body_bytes",
    "broker_heartbeat_response_bytes",
    "broker_heartbeat_response_with_lowest_acknowledged_offset_bytes",
    "fetch_pieces",
    "fetch_request_body_bytes",
    "fetch_request_bytes",
    "fetch_response_body_bytes",
    "fetch_response_bytes",
    "fetch_response_with_draft_uuid_bytes",
    "incremental_fetch_request_body_bytes",
    "incremental_fetch_request_bytes",
    "incremental_fetch_response_body_bytes",
    "incremental_fetch_response_bytes",
    "produce_request_body_bytes",
    "produce_request_bytes",
    "produce_response_body_bytes",
    "produce_response_bytes",
    "records_field_bytes",
    "unsigned_varint_bytes",
]
