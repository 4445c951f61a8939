"""FETCH v4-v18: its bodies as the columns of ``fetches``.

Source: ``FetchRequest.json``, ``FetchResponse.json``. Absent fields take the schemas' defaults:
older versions lack them, and tagged ones are written only where they differ. So an absent
``highWatermark`` is 2^63 - 1 (the sender knows nothing of KIP-1166); -1 (unknown) is written out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.log_tables import (
    FETCH_REQUEST_PARTITION,
    FETCH_RESPONSE_PARTITION,
    FETCHES,
    NODE_ENDPOINT,
)
from kip_replay.replay.table import BOOL, INT, LONG, TEXT

from .arrow_rows import Positions, list_of, lists_in, struct_of
from .json_bodies import read_bodies
from .partitions import Bools, Partitions, lacks_fields, partitions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .envelope import Envelope

API_KEY = 1
NO_HIGH_WATERMARK = 2**63 - 1
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
METADATA_TOPIC = "__cluster_metadata"
_MAX_INT = 2**31 - 1


def _struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct(list(fields.items()))


def _topics(partition: pa.DataType) -> pa.ListType:
    return pa.list_(_struct(topicId=TEXT, topic=TEXT, partitions=pa.list_(partition)))


_REQUEST_PARTITION = _struct(
    partition=INT,
    currentLeaderEpoch=INT,
    fetchOffset=LONG,
    lastFetchedEpoch=INT,
    logStartOffset=LONG,
    partitionMaxBytes=INT,
    replicaDirectoryId=TEXT,
    highWatermark=LONG,
)
_REQUEST = _struct(
    clusterId=TEXT,
    replicaId=INT,
    replicaState=_struct(replicaId=INT, replicaEpoch=LONG),
    maxWaitMs=INT,
    minBytes=INT,
    maxBytes=INT,
    isolationLevel=INT,
    sessionId=INT,
    sessionEpoch=INT,
    topics=_topics(_REQUEST_PARTITION),
    forgottenTopicsData=_topics(INT),
    rackId=TEXT,
)
_RESPONSE_PARTITION = _struct(
    partitionIndex=INT,
    errorCode=INT,
    highWatermark=LONG,
    lastStableOffset=LONG,
    logStartOffset=LONG,
    divergingEpoch=_struct(epoch=INT, endOffset=LONG),
    currentLeader=_struct(leaderId=INT, leaderEpoch=INT),
    snapshotId=_struct(endOffset=LONG, epoch=INT),
    abortedTransactions=pa.list_(_struct(producerId=LONG)),
    preferredReadReplica=INT,
    recordsSizeInBytes=LONG,
)
NODE_ENDPOINT_JSON = _struct(nodeId=INT, host=TEXT, port=INT, rack=TEXT)
_RESPONSE = _struct(
    throttleTimeMs=INT,
    errorCode=INT,
    sessionId=INT,
    responses=_topics(_RESPONSE_PARTITION),
    nodeEndpoints=pa.list_(NODE_ENDPOINT_JSON),
)
_REQUIRED = ("maxWaitMs", "minBytes", "topics")
_REQUIRED_OF_REQUEST_PARTITION = ("partition", "fetchOffset", "partitionMaxBytes")
_REQUIRED_OF_RESPONSE_PARTITION = ("partitionIndex", "errorCode", "highWatermark")


def fetch_columns(envelopes: Sequence[Envelope]) -> tuple[Positions, dict[str, pa.Array]]:
    """Positions of the lines that can be read, and their bodies as columns of ``fetches``."""
    good, request, response = read_bodies(envelopes, _REQUEST, _RESPONSE)
    bad = lacks_fields(request, _REQUIRED) | lacks_fields(response, ("responses",))
    bad |= _asked(request).lacks(*_REQUIRED_OF_REQUEST_PARTITION)
    bad |= _answered(response).lacks(*_REQUIRED_OF_RESPONSE_PARTITION)
    bad |= _forgotten(request).lacking
    if bad.any():
        keep = pa.array(~bad)
        request, response = request.filter(keep), response.filter(keep)
    return np.array(good, np.int64)[~bad], {**_asked_columns(request), **_told_columns(response)}


def _asked(request: pa.StructArray) -> Partitions:
    return partitions_of(pc.struct_field(request, "topics"), "topic", "partitions")


def _answered(response: pa.StructArray) -> Partitions:
    return partitions_of(pc.struct_field(response, "responses"), "topic", "partitions")


def _forgotten(request: pa.StructArray) -> Partitions:
    return partitions_of(pc.struct_field(request, "forgottenTopicsData"), "topic", "partitions")


def _asked_columns(request: pa.StructArray) -> dict[str, pa.Array]:
    there = request.is_valid()
    absent: Bools = request.is_null().to_numpy(zero_copy_only=False)

    def field(name: str, default: int | str) -> pa.Array:
        return _default(pc.struct_field(request, name), default, there)

    state = pc.struct_field(request, "replicaState")
    replica_id = pc.coalesce(
        pc.struct_field(state, "replicaId"), pc.struct_field(request, "replicaId")
    )
    asked, forgotten = _asked(request), _forgotten(request)
    return {
        "is_cluster_metadata": _is_cluster_metadata(asked, there),
        "cluster_id": pc.struct_field(request, "clusterId"),
        "replica_id": _default(replica_id, -1, there),
        "replica_epoch": _default(pc.struct_field(state, "replicaEpoch"), -1, there),
        "max_wait_ms": pc.struct_field(request, "maxWaitMs"),
        "min_bytes": pc.struct_field(request, "minBytes"),
        "max_bytes": field("maxBytes", _MAX_INT),
        "isolation_level": field("isolationLevel", 0),
        "session_id": field("sessionId", 0),
        "session_epoch": field("sessionEpoch", -1),
        "rack_id": field("rackId", ""),
        "request_partitions": asked.lists(_asked_partitions(asked), absent),
        "forgotten_partitions": forgotten.lists(_forgotten_partitions(forgotten), absent),
    }


def _asked_partitions(asked: Partitions) -> pa.StructArray:
    return struct_of(
        FETCH_REQUEST_PARTITION,
        {
            "topic_id": asked.topic_id,
            "topic": asked.topic,
            "partition": asked.ints("partition"),
            "current_leader_epoch": asked.ints("currentLeaderEpoch", -1),
            "fetch_offset": asked.ints("fetchOffset"),
            "last_fetched_epoch": asked.ints("lastFetchedEpoch", -1),
            "log_start_offset": asked.ints("logStartOffset", -1),
            "partition_max_bytes": asked.ints("partitionMaxBytes"),
            "replica_directory_id": asked.ints("replicaDirectoryId"),
            "high_watermark": asked.ints("highWatermark", NO_HIGH_WATERMARK),
        },
    )


def _forgotten_partitions(forgotten: Partitions) -> pa.StructArray:
    type_ = FETCHES.arrow_schema.field("forgotten_partitions").type.value_type
    columns = {
        "topic_id": forgotten.topic_id,
        "topic": forgotten.topic,
        "partition": forgotten.flat,
    }
    return struct_of(type_, columns)


def _is_cluster_metadata(asked: Partitions, there: pa.BooleanArray) -> pa.BooleanArray:
    """Raft FETCHes always name their partition: they have no sessions."""
    by_id = pc.equal(asked.topic_id, METADATA_TOPIC_ID).fill_null(False)
    by_name = pc.equal(asked.topic, METADATA_TOPIC).fill_null(False)
    each = pc.or_(by_id, by_name).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(there)), asked.lengths)
    fetches_it = np.zeros(len(there), np.bool_)
    fetches_it[rows[each]] = True
    return pc.if_else(there, pa.array(fetches_it), pa.scalar(None, BOOL))


def _told_columns(response: pa.StructArray) -> dict[str, pa.Array]:
    there = response.is_valid()
    absent: Bools = response.is_null().to_numpy(zero_copy_only=False)
    told = _answered(response)
    return {
        "throttle_ms": _default(pc.struct_field(response, "throttleTimeMs"), 0, there),
        "error_code": _default(pc.struct_field(response, "errorCode"), 0, there),
        "response_session_id": _default(pc.struct_field(response, "sessionId"), 0, there),
        "response_partitions": told.lists(_told_partitions(told), absent),
        "node_endpoints": node_endpoints(response),
    }


def _told_partitions(told: Partitions) -> pa.StructArray:
    leader, diverging = told.ints("currentLeader"), told.ints("divergingEpoch")
    snapshot = told.ints("snapshotId")
    aborted = pc.list_value_length(told.ints("abortedTransactions"))
    return struct_of(
        FETCH_RESPONSE_PARTITION,
        {
            "topic_id": told.topic_id,
            "topic": told.topic,
            "partition": told.ints("partitionIndex"),
            "error_code": told.ints("errorCode"),
            "high_watermark": told.ints("highWatermark"),
            "last_stable_offset": told.ints("lastStableOffset", -1),
            "log_start_offset": told.ints("logStartOffset", -1),
            "preferred_read_replica": told.ints("preferredReadReplica", -1),
            "record_bytes": told.ints("recordsSizeInBytes"),
            "aborted_transactions": aborted,
            **current_leader(leader),
            "diverging_epoch": pc.struct_field(diverging, "epoch"),
            "diverging_end_offset": pc.struct_field(diverging, "endOffset"),
            "snapshot_end_offset": pc.struct_field(snapshot, "endOffset"),
            "snapshot_epoch": pc.struct_field(snapshot, "epoch"),
        },
    )


def current_leader(leader: pa.StructArray) -> dict[str, pa.Array]:
    """KIP-951's tagged ``currentLeader`` of a partition, null where it was not sent."""
    return {
        "current_leader_id": pc.struct_field(leader, "leaderId"),
        "current_leader_epoch": pc.struct_field(leader, "leaderEpoch"),
    }


def node_endpoints(response: pa.StructArray) -> pa.ListArray:
    """KIP-951's tagged ``nodeEndpoints``, empty where the response has none."""
    lengths, flat = lists_in(pc.struct_field(response, "nodeEndpoints"))
    columns = {
        "node_id": pc.struct_field(flat, "nodeId"),
        "host": pc.struct_field(flat, "host"),
        "port": pc.struct_field(flat, "port"),
        "rack": pc.struct_field(flat, "rack"),
    }
    absent: Bools = response.is_null().to_numpy(zero_copy_only=False)
    return list_of(lengths, struct_of(NODE_ENDPOINT, columns), absent)


def _default(array: pa.Array, default: int | str, there: pa.BooleanArray) -> pa.Array:
    """Nulls replaced where there is a body; without a body nothing is known."""
    if array.null_count == 0:
        return array
    return pc.if_else(there, array.fill_null(default), pa.scalar(None, array.type))
