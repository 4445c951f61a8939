"""PRODUCE v3-v13: its bodies as the columns of ``produces``.

Source: ``ProduceRequest.json``, ``ProduceResponse.json``. A response need not list partitions in
the order of the request, so they are matched by topic and index. Of a record's error only the
message is kept, which the size of the response follows from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.log_tables import PRODUCE_PARTITION
from kip_replay.replay.table import INT, LONG, TEXT

from .arrow_rows import Positions, list_of, lists_in, struct_of
from .fetch_view import NODE_ENDPOINT_JSON, current_leader, node_endpoints
from .json_bodies import read_bodies
from .partitions import Bools, Partitions, lacks_fields, partitions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .envelope import Envelope

API_KEY = 0


def _struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct(list(fields.items()))


_REQUEST_PARTITION = _struct(index=INT, recordsSizeInBytes=LONG)
_REQUEST_TOPIC = _struct(topicId=TEXT, name=TEXT, partitionData=pa.list_(_REQUEST_PARTITION))
_REQUEST = _struct(
    transactionalId=TEXT, acks=INT, timeoutMs=INT, topicData=pa.list_(_REQUEST_TOPIC)
)
_RECORD_ERROR = _struct(batchIndexErrorMessage=TEXT)
_RESPONSE_PARTITION = _struct(
    index=INT,
    errorCode=INT,
    baseOffset=LONG,
    logAppendTimeMs=LONG,
    logStartOffset=LONG,
    recordErrors=pa.list_(_RECORD_ERROR),
    errorMessage=TEXT,
    currentLeader=_struct(leaderId=INT, leaderEpoch=INT),
)
_RESPONSE_TOPIC = _struct(topicId=TEXT, name=TEXT, partitionResponses=pa.list_(_RESPONSE_PARTITION))
_RESPONSE = _struct(
    responses=pa.list_(_RESPONSE_TOPIC),
    nodeEndpoints=pa.list_(NODE_ENDPOINT_JSON),
)


def produce_columns(envelopes: Sequence[Envelope]) -> tuple[Positions, dict[str, pa.Array]]:
    """Positions of the lines that can be read, and their bodies as columns of ``produces``."""
    good, request, response = read_bodies(envelopes, _REQUEST, _RESPONSE)
    bad = lacks_fields(request, ("acks", "timeoutMs", "topicData"))
    bad |= lacks_fields(response, ("responses",))
    bad |= _sent(request).lacks("index") | _answered(response).lacks("index", "errorCode")
    if bad.any():
        keep = pa.array(~bad)
        request, response = request.filter(keep), response.filter(keep)
    return np.array(good, np.int64)[~bad], _columns(request, response)


def _sent(request: pa.StructArray) -> Partitions:
    return partitions_of(pc.struct_field(request, "topicData"), "name", "partitionData")


def _answered(response: pa.StructArray) -> Partitions:
    return partitions_of(pc.struct_field(response, "responses"), "name", "partitionResponses")


def _columns(request: pa.StructArray, response: pa.StructArray) -> dict[str, pa.Array]:
    sent, answered = _sent(request), _answered(response)
    absent: Bools = request.is_null().to_numpy(zero_copy_only=False)
    return {
        "transactional_id": pc.struct_field(request, "transactionalId"),
        "acks": pc.struct_field(request, "acks"),
        "timeout_ms": pc.struct_field(request, "timeoutMs"),
        "has_response": response.is_valid(),
        "partitions": sent.lists(_side_by_side(sent, answered), absent),
        "node_endpoints": node_endpoints(response),
    }


def _side_by_side(sent: Partitions, answered: Partitions) -> pa.StructArray:
    match = _matches(sent, answered)

    def answer(name: str) -> pa.Array:
        return answered.ints(name).take(match)

    return struct_of(
        PRODUCE_PARTITION,
        {
            "topic_id": sent.topic_id,
            "topic": sent.topic,
            "partition": sent.ints("index"),
            "record_bytes": sent.ints("recordsSizeInBytes"),
            "error_code": answer("errorCode"),
            "base_offset": answer("baseOffset"),
            "log_append_time_ms": answered.ints("logAppendTimeMs", -1).take(match),
            "log_start_offset": answered.ints("logStartOffset", -1).take(match),
            **current_leader(answer("currentLeader")),
            "error_message": answer("errorMessage"),
            "record_errors": _record_errors(answer("recordErrors")),
        },
    )


def _record_errors(errors: pa.ListArray) -> pa.ListArray:
    """Null where there was no answer, empty where none was bad."""
    type_ = PRODUCE_PARTITION.field("record_errors").type.value_type
    lengths, flat = lists_in(errors)
    message = pc.struct_field(flat, "batchIndexErrorMessage")
    absent: Bools = errors.is_null().to_numpy(zero_copy_only=False)
    return list_of(lengths, struct_of(type_, {"batch_index_error_message": message}), absent)


def _matches(sent: Partitions, answered: Partitions) -> pa.Int64Array:
    """For each partition sent the position of its answer, null where there is none."""
    if _same_order(sent, answered):
        return pa.array(np.arange(len(sent.flat)))
    keys = _keys(sent, answered)
    asked, told = keys[: len(sent.flat)], keys[len(sent.flat) :]
    order = np.argsort(told, kind="stable")
    if not len(order):
        return pa.nulls(len(asked), pa.int64())
    found = np.minimum(np.searchsorted(told[order], asked), len(order) - 1)
    return pa.array(order[found], mask=told[order][found] != asked)


def _same_order(sent: Partitions, answered: Partitions) -> bool:
    """The usual case of acks 1 and all: every response mirrors its request."""
    return (
        np.array_equal(sent.lengths, answered.lengths)
        and bool(sent.ints("index").equals(answered.ints("index")))
        and bool(sent.topic.equals(answered.topic))
        and bool(sent.topic_id.equals(answered.topic_id))
    )


def _keys(sent: Partitions, answered: Partitions) -> Positions:
    """A number for each (line, topic, index) of what was sent, then of what was answered."""
    both = (sent, answered)
    lines = np.concatenate([np.repeat(np.arange(len(p.lengths)), p.lengths) for p in both])
    ids = _codes(pa.concat_arrays([p.topic_id for p in both]))
    names = _codes(pa.concat_arrays([p.topic for p in both]))
    indexes = np.concatenate([p.ints("index").to_numpy(zero_copy_only=False) for p in both])
    rows = np.column_stack([lines, ids, names, indexes])
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _codes(texts: pa.StringArray) -> Positions:
    codes = texts.dictionary_encode(null_encoding="encode").indices
    numbers: Positions = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
