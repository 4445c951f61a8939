"""PRODUCE v3-v13. Source: ``ProduceRequest.json``, ``ProduceResponse.json``.

Columns: those of ``produces``. A row has a request body if ``acks`` is not null, a response if
``has_response`` (its partitions are those of the request).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .columns import Columns, Nested, node_endpoints_bytes, topics_bytes
from .encoding import Bools, Ints, array_prefix, string_sizes
from .frame import request_overhead_bytes, response_overhead_bytes, sizes_array

if TYPE_CHECKING:
    import pyarrow as pa

_VERSIONS = (3, 13)
#: tag, size, (leaderId, leaderEpoch, no tags)
_CURRENT_LEADER_TAG_BYTES = 2 + 4 + 4 + 1


def produce_request_bytes(produces: pa.RecordBatch) -> pa.Int64Array:
    """Frame, header and body of each request."""
    columns = Columns(produces)
    version = columns.ints("api_version")
    overhead = request_overhead_bytes(columns, _flexible(version))
    return sizes_array(overhead + _request_body(columns, version), _has_request(columns, version))


def produce_request_body_bytes(produces: pa.RecordBatch) -> pa.Int64Array:
    """The body alone: ``ProduceRequestData.size``."""
    columns = Columns(produces)
    version = columns.ints("api_version")
    return sizes_array(_request_body(columns, version), _has_request(columns, version))


def produce_response_bytes(produces: pa.RecordBatch) -> pa.Int64Array:
    """Frame, header and body of each response."""
    columns = Columns(produces)
    version = columns.ints("api_version")
    overhead = response_overhead_bytes(_flexible(version))
    return sizes_array(overhead + _response_body(columns, version), _has_response(columns, version))


def produce_response_body_bytes(produces: pa.RecordBatch) -> pa.Int64Array:
    """The body alone: ``ProduceResponseData.size``."""
    columns = Columns(produces)
    version = columns.ints("api_version")
    return sizes_array(_response_body(columns, version), _has_response(columns, version))


def _flexible(version: Ints) -> Bools:
    return version >= 9


def _known(version: Ints) -> Bools:
    return (version >= _VERSIONS[0]) & (version <= _VERSIONS[1])


def _has_request(columns: Columns, version: Ints) -> Bools:
    return _known(version) & columns.present("acks")


def _has_response(columns: Columns, version: Ints) -> Bools:
    answered = columns.flags("has_response") & columns.present("partitions")
    return _known(version) & answered


def _request_body(columns: Columns, version: Ints) -> Ints:
    flexible = _flexible(version)
    partitions = columns.nested("partitions")
    flexible_each = partitions.spread(flexible)
    record_bytes = partitions.flat.ints("record_bytes")
    partition = 4 + array_prefix(record_bytes, flexible_each) + record_bytes + flexible_each
    size = 2 + 4 + string_sizes(columns.utf8_lengths("transactional_id"), flexible)
    size += topics_bytes(partitions, version >= 13, flexible)
    return size + partitions.sums(partition) + flexible


def _response_body(columns: Columns, version: Ints) -> Ints:
    flexible = _flexible(version)
    partitions = columns.nested("partitions")
    size = 4 + topics_bytes(partitions, version >= 13, flexible)
    size += partitions.sums(_response_partitions(partitions, version))
    return size + flexible + (version >= 10) * node_endpoints_bytes(columns)


def _response_partitions(partitions: Nested, version: Ints) -> Ints:
    each, flat = partitions.spread(version), partitions.flat
    flexible = _flexible(each)
    # index, errorCode, baseOffset, logAppendTimeMs
    size = np.full(len(each), 4 + 2 + 8 + 8, np.int64)
    size += 8 * (each >= 5)  # logStartOffset
    message = string_sizes(flat.utf8_lengths("error_message"), flexible)
    size += (each >= 8) * (message + _record_errors(flat, flexible))
    leader = _CURRENT_LEADER_TAG_BYTES * ((each >= 10) & flat.present("current_leader_id"))
    return size + flexible * (1 + leader)


def _record_errors(flat: Columns, flexible: Bools) -> Ints:
    errors = flat.nested("record_errors")
    flexible_each = errors.spread(flexible)
    message = string_sizes(errors.flat.utf8_lengths("batch_index_error_message"), flexible_each)
    return array_prefix(errors.lengths, flexible) + errors.sums(4 + message + flexible_each)
