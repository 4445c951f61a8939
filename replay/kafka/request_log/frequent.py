"""FETCH, PRODUCE and BROKER_HEARTBEAT: what their tables have beside the fields of the bodies.

A response to PRODUCE need not list partitions in the order of the request, so they are matched by
topic and index. Whether a producer is idempotent only INIT_PRODUCER_ID shows: a row of
``producer_ids``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..messages import BROKER_HEARTBEAT, FETCH, PRODUCE
from .arrow_rows import Columns, Positions, list_of, lists_in, nulls_of
from .bodies import Reader, TypedRows
from .envelope import Envelope
from .typed_bodies import Bodies

METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
METADATA_TOPIC = "__cluster_metadata"
_KEY = ("topic_id", "topic", "partition")


def _fetches(bodies: Bodies) -> Columns:
    request = bodies.request
    is_there = request["max_wait_ms"].is_valid()
    not_sent = pc.if_else(is_there, pa.scalar(-1, pa.int64()), None)
    return {
        **request,
        **bodies.response,
        "replica_epoch": pc.coalesce(request["replica_epoch"], not_sent),
        "is_cluster_metadata": pc.if_else(is_there, _fetch_metadata(request), None),
    }


def _fetch_metadata(request: Columns) -> pa.BooleanArray:
    """Raft FETCHes always name their partition: they have no sessions."""
    lengths, partitions = lists_in(request["request_partitions"])
    by_id = pc.equal(pc.struct_field(partitions, "topic_id"), METADATA_TOPIC_ID).fill_null(False)
    by_name = pc.equal(pc.struct_field(partitions, "topic"), METADATA_TOPIC).fill_null(False)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    of_metadata = rows[pc.or_(by_id, by_name).to_numpy(zero_copy_only=False)]
    return pa.array(np.bincount(of_metadata, minlength=len(lengths)) > 0)


def _produces(bodies: Bodies) -> Columns:
    requested, returned = bodies.request["partitions"], bodies.response["partitions"]
    return {
        **bodies.request,
        **bodies.response,
        "has_response": bodies.has_response,
        "partitions": _side_by_side(requested, returned),
    }


def _side_by_side(requested: pa.ListArray, returned: pa.ListArray) -> pa.ListArray:
    lengths, request = lists_in(requested)
    match = _matches(requested, returned)
    response = lists_in(returned)[1]
    if match is not None:
        response = response.take(match)
    both = {
        field.name: array
        for partitions in (response, request)
        for field, array in zip(partitions.type, partitions.flatten(), strict=True)
    }
    partitions = pa.StructArray.from_arrays(list(both.values()), names=list(both))
    return list_of(lengths, partitions, nulls_of(requested))


def _matches(requested: pa.ListArray, returned: pa.ListArray) -> pa.Int64Array | None:
    """Finds the response of each requested partition, null where there is none."""
    both = [lists_in(partitions) for partitions in (requested, returned)]
    (lengths, request), (lengths_returned, response) = both
    if np.array_equal(lengths, lengths_returned) and all(
        pc.struct_field(request, name).equals(pc.struct_field(response, name)) for name in _KEY
    ):
        return None
    keys = _keys(both)
    requested_keys, returned_keys = keys[: len(request)], keys[len(request) :]
    order = np.argsort(returned_keys, kind="stable")
    if not len(order):
        return pa.nulls(len(requested_keys), pa.int64())
    place = np.minimum(np.searchsorted(returned_keys[order], requested_keys), len(order) - 1)
    return pa.array(order[place], mask=returned_keys[order][place] != requested_keys)


def _keys(both: list[tuple[Positions, pa.StructArray]]) -> Positions:
    lines = np.concatenate([np.repeat(np.arange(len(lengths)), lengths) for lengths, _ in both])
    columns = [pa.concat_arrays([pc.struct_field(flat, name) for _, flat in both]) for name in _KEY]
    codes = [
        column.dictionary_encode(null_encoding="encode").indices.to_numpy() for column in columns
    ]
    rows = np.column_stack([lines, *codes])
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


#: By API key: the column of ``PARSED_LINE``, and what it is made of.
VIEWS: dict[int, tuple[str, Callable[[Bodies], Columns]]] = {
    FETCH.key: ("fetch", _fetches),
    PRODUCE.key: ("produce", _produces),
    BROKER_HEARTBEAT.key: ("broker_heartbeat", lambda bodies: bodies.request | bodies.response),
}

_INIT_PRODUCER_ID = """
InitProducerIdRequest request
  TransactionalId string 0+ nullableVersions=0+ default=null
InitProducerIdResponse response
  ErrorCode int16 0+, ProducerId int64 0+ default=-1, ProducerEpoch int16 0+
"""


def _producer_id(request: Any, response: Any, _: Envelope) -> TypedRows:
    """The row of one line; columns of a missing body are None."""
    transactional_id = request.transactional_id if request else None
    if response is None:
        return TypedRows(producer_id=(transactional_id, None, None, None))
    returned = (response.producer_id, response.producer_epoch, response.error_code)
    return TypedRows(producer_id=(transactional_id, *returned))


READERS = {22: Reader(_INIT_PRODUCER_ID, _producer_id)}
