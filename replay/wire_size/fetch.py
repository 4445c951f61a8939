"""FETCH v4-v18. Source: ``FetchRequest.json``, ``FetchResponse.json``.

Columns: those of ``fetches``. A row has a request body if ``max_wait_ms`` is not null, a response
if ``error_code`` is not null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .columns import Columns, Nested, node_endpoints_bytes, topics_bytes
from .encoding import (
    HIGH_WATERMARK_TAG_BYTES,
    Bools,
    Ints,
    array_prefix,
    string_sizes,
    tagged,
)
from .frame import request_overhead_bytes, response_overhead_bytes, sizes_array

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_VERSIONS = range(4, 19)
_NO_HIGH_WATERMARK = 2**63 - 1
#: tag, size, (replicaId, replicaEpoch, no tags)
REPLICA_STATE_TAG_BYTES = 2 + 4 + 8 + 1
#: tag, size, uuid
DIRECTORY_ID_TAG_BYTES = 2 + 16
#: tag, size, (epoch, endOffset, no tags); snapshotId is the same
EPOCH_END_OFFSET_TAG_BYTES = 2 + 4 + 8 + 1
#: tag, size, (leaderId, leaderEpoch, no tags)
CURRENT_LEADER_TAG_BYTES = 2 + 4 + 4 + 1


def fetch_request_bytes(fetches: pa.RecordBatch) -> pa.Int64Array:
    """Frame, header and body of each request."""
    columns = Columns(fetches)
    version = columns.ints("api_version")
    overhead = request_overhead_bytes(columns, _flexible(version))
    return sizes_array(overhead + _request_body(columns, version), _has_request(columns, version))


def fetch_request_body_bytes(fetches: pa.RecordBatch) -> pa.Int64Array:
    """The body alone: ``FetchRequestData.size``."""
    columns = Columns(fetches)
    version = columns.ints("api_version")
    return sizes_array(_request_body(columns, version), _has_request(columns, version))


def fetch_response_bytes(fetches: pa.RecordBatch) -> pa.Int64Array:
    """Frame, header and body of each response."""
    columns = Columns(fetches)
    version = columns.ints("api_version")
    overhead = response_overhead_bytes(_flexible(version))
    return sizes_array(overhead + _response_body(columns, version), _has_response(columns, version))


def fetch_response_body_bytes(fetches: pa.RecordBatch) -> pa.Int64Array:
    """The body alone: ``FetchResponseData.size``."""
    columns = Columns(fetches)
    version = columns.ints("api_version")
    return sizes_array(_response_body(columns, version), _has_response(columns, version))


def _flexible(version: Ints) -> Bools:
    return version >= 12


def _known(version: Ints) -> Bools:
    return (version >= FETCH_VERSIONS.start) & (version < FETCH_VERSIONS.stop)


def _has_request(columns: Columns, version: Ints) -> Bools:
    return _known(version) & columns.present("max_wait_ms")


def _has_response(columns: Columns, version: Ints) -> Bools:
    return _known(version) & columns.present("error_code")


def _request_body(columns: Columns, version: Ints) -> Ints:
    flexible, by_id = _flexible(version), version >= 13
    partitions = columns.nested("request_partitions")
    # maxWaitMs, minBytes, maxBytes, isolationLevel
    size = np.full(len(version), 4 + 4 + 4 + 1, np.int64)
    size += 4 * (version <= 14)  # replicaId
    size += 8 * (version >= 7)  # sessionId, sessionEpoch
    size += topics_bytes(partitions, by_id, flexible)
    size += partitions.sums(_request_partitions(partitions, version))
    size += (version >= 7) * _forgotten(columns, by_id, flexible)
    size += (version >= 11) * string_sizes(columns.utf8_lengths("rack_id"), flexible)
    return size + flexible * (1 + _request_tags(columns, version))


def _request_partitions(partitions: Nested, version: Ints) -> Ints:
    each, flat = partitions.spread(version), partitions.flat
    size = np.full(len(each), 4 + 8 + 4, np.int64)  # partition, fetchOffset, partitionMaxBytes
    size += 8 * (each >= 5)  # logStartOffset
    size += 4 * (each >= 9)  # currentLeaderEpoch
    size += (4 + 1) * (each >= 12)  # lastFetchedEpoch, number of tags
    size += DIRECTORY_ID_TAG_BYTES * ((each >= 17) & flat.present("replica_directory_id"))
    told = flat.ints("high_watermark", _NO_HIGH_WATERMARK) != _NO_HIGH_WATERMARK
    size += HIGH_WATERMARK_TAG_BYTES * ((each >= 18) & told)
    return size


def _forgotten(columns: Columns, by_id: Bools, flexible: Bools) -> Ints:
    forgotten = columns.nested("forgotten_partitions")
    return topics_bytes(forgotten, by_id, flexible) + 4 * forgotten.lengths


def _request_tags(columns: Columns, version: Ints) -> Ints:
    cluster_id = string_sizes(columns.utf8_lengths("cluster_id"), np.ones(len(version), np.bool_))
    size = columns.present("cluster_id") * tagged(cluster_id)
    is_replica = (columns.ints("replica_id", -1) != -1) | (columns.ints("replica_epoch", -1) != -1)
    size += REPLICA_STATE_TAG_BYTES * ((version >= 15) & is_replica)
    return size


def _response_body(columns: Columns, version: Ints) -> Ints:
    flexible = _flexible(version)
    partitions = columns.nested("response_partitions")
    size = np.full(len(version), 4, np.int64)  # throttleTimeMs
    size += (2 + 4) * (version >= 7)  # errorCode, sessionId
    size += topics_bytes(partitions, version >= 13, flexible)
    size += partitions.sums(_response_partitions(partitions, version))
    return size + flexible + (version >= 16) * node_endpoints_bytes(columns)


def _response_partitions(partitions: Nested, version: Ints) -> Ints:
    each, flat = partitions.spread(version), partitions.flat
    flexible = _flexible(each)
    # partitionIndex, errorCode, highWatermark, lastStableOffset
    size = np.full(len(each), 4 + 2 + 8 + 8, np.int64)
    size += 8 * (each >= 5)  # logStartOffset
    size += 4 * (each >= 11)  # preferredReadReplica
    aborted, record_bytes = flat.ints("aborted_transactions"), flat.ints("record_bytes")
    size += array_prefix(aborted, flexible) + (16 + flexible) * aborted
    size += array_prefix(record_bytes, flexible) + record_bytes
    return size + flexible * (1 + _response_partition_tags(flat))


def _response_partition_tags(flat: Columns) -> Ints:
    size: Ints = EPOCH_END_OFFSET_TAG_BYTES * flat.present("diverging_epoch").astype(np.int64)
    size += CURRENT_LEADER_TAG_BYTES * flat.present("current_leader_id")
    size += EPOCH_END_OFFSET_TAG_BYTES * flat.present("snapshot_epoch")
    return size
