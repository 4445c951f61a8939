"""BROKER_HEARTBEAT v0-v2, all flexible. Source: ``BrokerHeartbeat{Request,Response}.json``.

Columns: those of ``broker_heartbeats``; ``offline_log_dirs`` (v1+) and ``cordoned_log_dirs`` (v2)
are counts, null where the field was not sent. A row has a request body if ``broker_id`` is not
null, a response if ``error_code`` is not null.

The draft KIP's ``LowestAcknowledgedOffset`` is an int64 "1+" of the response. Kafka has since taken
the versions 1 and 2 for other fields of the request; whichever version would carry it, the schema
gives it no tag, so it is a plain field of 8 bytes in every response of that version.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import Columns
from .encoding import UUID_BYTES, Bools, Ints, array_prefix, tagged
from .frame import request_overhead_bytes, response_overhead_bytes, sizes_array

_VERSION_MAX = 2
#: brokerId, brokerEpoch, currentMetadataOffset, wantFence, wantShutDown, number of tags
_REQUEST_BYTES = 4 + 8 + 8 + 1 + 1 + 1
#: throttleTimeMs, errorCode, isCaughtUp, isFenced, shouldShutDown, number of tags
_RESPONSE_BYTES = 4 + 2 + 1 + 1 + 1 + 1
#: The draft KIP's LowestAcknowledgedOffset: an int64, not tagged.
LOWEST_ACKNOWLEDGED_OFFSET_BYTES = 8


def broker_heartbeat_request_bytes(heartbeats: pa.RecordBatch) -> pa.Int64Array:
    """Frame, header and body of each request."""
    columns = Columns(heartbeats)
    overhead = request_overhead_bytes(columns, _all(columns))
    return sizes_array(overhead + _request_body(columns), _has(columns, "broker_id"))


def broker_heartbeat_request_body_bytes(heartbeats: pa.RecordBatch) -> pa.Int64Array:
    """The body alone: ``BrokerHeartbeatRequestData.size``."""
    columns = Columns(heartbeats)
    return sizes_array(_request_body(columns), _has(columns, "broker_id"))


def broker_heartbeat_response_bytes(heartbeats: pa.RecordBatch) -> pa.Int64Array:
    """Frame, header and body of each response."""
    columns = Columns(heartbeats)
    sizes = response_overhead_bytes(_all(columns)) + _RESPONSE_BYTES
    return sizes_array(sizes, _has(columns, "error_code"))


def broker_heartbeat_response_with_lowest_acknowledged_offset_bytes(
    heartbeats: pa.RecordBatch,
) -> pa.Int64Array:
    """Frame, header and body of each response with the draft KIP's field in it."""
    sizes = broker_heartbeat_response_bytes(heartbeats)
    return pc.add(sizes, pa.scalar(LOWEST_ACKNOWLEDGED_OFFSET_BYTES, pa.int64()))


def broker_heartbeat_response_body_bytes(heartbeats: pa.RecordBatch) -> pa.Int64Array:
    """The body alone: ``BrokerHeartbeatResponseData.size``."""
    columns = Columns(heartbeats)
    sizes = np.full(len(columns), _RESPONSE_BYTES, np.int64)
    return sizes_array(sizes, _has(columns, "error_code"))


def _all(columns: Columns) -> Bools:
    return np.ones(len(columns), np.bool_)


def _has(columns: Columns, body: str) -> Bools:
    version = columns.ints("api_version", -1)
    return (version >= 0) & (version <= _VERSION_MAX) & columns.present(body)


def _request_body(columns: Columns) -> Ints:
    version = columns.ints("api_version", -1)
    offline = (version >= 1) & (columns.ints("offline_log_dirs") > 0)
    cordoned = (version >= 2) & columns.present("cordoned_log_dirs")
    size = np.full(len(version), _REQUEST_BYTES, np.int64)
    size += offline * _log_dirs_tag(columns.ints("offline_log_dirs"))
    return size + cordoned * _log_dirs_tag(columns.ints("cordoned_log_dirs"))


def _log_dirs_tag(count: Ints) -> Ints:
    return tagged(array_prefix(count, np.ones(len(count), np.bool_)) + UUID_BYTES * count)
