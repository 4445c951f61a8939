"""IncrementalFetchRequest and -Response of KIP-227's draft (version 3 of the page).

Theory
------
Kafka of that time had no flexible versions: strings are int16 length and UTF-8, arrays int32 length
and elements, records int32 length and bytes, topics go by name; headers are the classic ones. The
draft's request has no ``max_bytes`` of its own and forgets no partition; its response names the
64-bit uuid that the session goes by. An ordinary FetchResponse gets the same uuid, 8 bytes, and
changes in nothing else.

``partition_id`` is declared STRING in the request and INT32 in the response. That is likely a slip
(a partition is an int32 everywhere else in Kafka), so every function asks which is meant.

Whole messages take a record batch with columns as in ``fetches``: what that FETCH lists, sent as an
incremental one. Null where the row has no such body, or where a topic has no name (from v13 on logs
give only ids): classic encoding cannot be counted without. Pieces are for whoever follows a session
by its changes; a test adds them up.

Source: KIP-227, version 3, "Public Interfaces".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import Columns, Nested, topics_bytes
from .encoding import Bools, Ints
from .fetch import fetch_response_bytes
from .frame import (
    CORRELATION_ID_BYTES,
    FRAME_BYTES,
    REQUEST_HEADER_BYTES,
    request_overhead_bytes,
    response_overhead_bytes,
    sizes_array,
)

#: The uuid that the draft adds to an ordinary FetchResponse.
DRAFT_UUID_BYTES = 8
#: uuid, replica_id, max_wait_time, min_bytes, isolation_level
_REQUEST_BODY_BYTES = 8 + 4 + 4 + 4 + 1
#: fetch_offset, start_offset, max_bytes
_REQUEST_PARTITION_BYTES = 8 + 8 + 4
#: throttle_time_ms, error_code, uuid
_RESPONSE_BODY_BYTES = 4 + 2 + 8
#: partition_id, error_code, high_watermark, last_stable_offset, log_start_offset; lengths of
#: aborted transactions and records
_RESPONSE_PARTITION_BYTES = 4 + 2 + 8 + 8 + 8 + 4 + 4
#: producer_key, first_offset
_ABORTED_TRANSACTION_BYTES = 8 + 8
_ARRAY_LENGTH_BYTES = 4
_STRING_LENGTH_BYTES = 2
_INT32_BYTES = 4


# --- whole messages


def incremental_fetch_request_bytes(
    fetches: pa.RecordBatch, *, partition_id_is_string: bool
) -> pa.Int64Array:
    """Frame, header and body of each request."""
    columns = Columns(fetches)
    overhead = request_overhead_bytes(columns, _classic(len(columns)))
    body = _request_body(columns, partition_id_is_string)
    return sizes_array(overhead + body, _has_request(columns))


def incremental_fetch_request_body_bytes(
    fetches: pa.RecordBatch, *, partition_id_is_string: bool
) -> pa.Int64Array:
    """The body of each request alone."""
    columns = Columns(fetches)
    return sizes_array(_request_body(columns, partition_id_is_string), _has_request(columns))


def incremental_fetch_response_bytes(fetches: pa.RecordBatch) -> pa.Int64Array:
    """Frame, header and body of each response."""
    columns = Columns(fetches)
    overhead = response_overhead_bytes(_classic(len(columns)))
    return sizes_array(overhead + _response_body(columns), _has_response(columns))


def incremental_fetch_response_body_bytes(fetches: pa.RecordBatch) -> pa.Int64Array:
    """The body of each response alone."""
    columns = Columns(fetches)
    return sizes_array(_response_body(columns), _has_response(columns))


def fetch_response_with_draft_uuid_bytes(fetches: pa.RecordBatch) -> pa.Int64Array:
    """Frame, header and body of each ordinary FETCH response with the draft's uuid in it."""
    return pc.add(fetch_response_bytes(fetches), pa.scalar(DRAFT_UUID_BYTES, pa.int64()))


def _request_body(columns: Columns, partition_id_is_string: bool) -> Ints:
    partitions = columns.nested("request_partitions")
    partition = _REQUEST_PARTITION_BYTES + _partition_ids(partitions, partition_id_is_string)
    return _REQUEST_BODY_BYTES + _topics(partitions) + partitions.sums(partition)


def _partition_ids(partitions: Nested, are_strings: bool) -> Ints:
    if not are_strings:
        return np.full(len(partitions.flat), _INT32_BYTES, np.int64)
    indexes = partitions.flat.array("partition")
    digits = pc.binary_length(indexes.cast(pa.string())).fill_null(0)
    lengths: Ints = digits.to_numpy(zero_copy_only=False).astype(np.int64)
    return _STRING_LENGTH_BYTES + lengths


def _response_body(columns: Columns) -> Ints:
    partitions = columns.nested("response_partitions")
    flat = partitions.flat
    size = _RESPONSE_PARTITION_BYTES + flat.ints("record_bytes")
    size += _ABORTED_TRANSACTION_BYTES * flat.ints("aborted_transactions")
    return _RESPONSE_BODY_BYTES + _topics(partitions) + partitions.sums(size)


def _topics(partitions: Nested) -> Ints:
    rows = _classic(len(partitions.lengths))
    return topics_bytes(partitions, by_id=rows, flexible=rows)


def _classic(n: int) -> Bools:
    """For each row: not flexible, and not by id."""
    return np.zeros(n, np.bool_)


def _has_request(columns: Columns) -> Bools:
    return columns.present("max_wait_ms") & _has_names(columns.nested("request_partitions"))


def _has_response(columns: Columns) -> Bools:
    return columns.present("error_code") & _has_names(columns.nested("response_partitions"))


def _has_names(partitions: Nested) -> Bools:
    nameless = ~partitions.flat.present("topic")
    named: Bools = partitions.sums(nameless.astype(np.int64)) == 0
    return named


# --- pieces


@dataclass(frozen=True, slots=True)
class IncrementalFetchPieces:
    """Sizes in bytes of what the draft's two messages are made of.

    A message is its fixed part + a ``topic_bytes`` for each run of adjacent partitions of a topic +
    its partitions. No piece depends on the number of others.
    """

    partition_id_is_string: bool

    def request_fixed_bytes(self, client_id_bytes: int) -> int:
        """Frame, header and body of a request without topics."""
        overhead = FRAME_BYTES + REQUEST_HEADER_BYTES + client_id_bytes
        return overhead + _REQUEST_BODY_BYTES + _ARRAY_LENGTH_BYTES

    def response_fixed_bytes(self) -> int:
        """Frame, header and body of a response without topics."""
        overhead = FRAME_BYTES + CORRELATION_ID_BYTES
        return overhead + _RESPONSE_BODY_BYTES + _ARRAY_LENGTH_BYTES

    def topic_bytes(self, name_bytes: int) -> int:
        """A topic less its partitions, from the length of its name in UTF-8."""
        return _STRING_LENGTH_BYTES + name_bytes + _ARRAY_LENGTH_BYTES

    def request_partition_bytes(self, partition: int) -> int:
        """A partition asked for; as a string its id takes a byte a digit."""
        if not self.partition_id_is_string:
            return _INT32_BYTES + _REQUEST_PARTITION_BYTES
        return _STRING_LENGTH_BYTES + len(str(partition)) + _REQUEST_PARTITION_BYTES

    def response_partition_bytes(
        self, record_bytes: int | None, aborted_transactions: int | None = None
    ) -> int:
        """A partition answered. None is null: it takes what 0 takes."""
        aborted = _ABORTED_TRANSACTION_BYTES * (aborted_transactions or 0)
        return _RESPONSE_PARTITION_BYTES + aborted + (record_bytes or 0)
