"""FETCHes of topic partitions from a request log by ``json.loads``, for the golden tests.

Like ``naive_log``, it shares no code with ``kafka.request_log``. Sizes are those of whole messages
(``kafka.messages``, which is proved against Kafka's serializers elsewhere).
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka_model.log import NO_HIGH_WATERMARK, batch_of
from kafka_model.recorded import (
    INPUT_SCHEMA,
    ForgottenPartition,
    NodeEndpoint,
    RecordedFetch,
    RequestedPartition,
    ReturnedPartition,
)
from recorded_logs import folder_of

from kip_replay.replay.kafka import messages

from .naive_log import FETCH, METADATA_TOPIC_ID, Line, lines_of

BROKERS = (11, 12, 13)


@cache
def fetches_of(name: str, node_id: int) -> pa.RecordBatch:
    """The FETCHes of one broker of a recording, as the replay reads them."""
    folder = folder_of(name)
    rows = sorted(_fetches(folder / f"broker-{node_id}.log.gz", node_id), key=_place)
    batch = batch_of(rows).append_column("max_wait_ms", pa.array([0] * len(rows), pa.int64()))
    sizes = {
        "request_bytes": messages.request_bytes(messages.FETCH, batch),
        "response_bytes": messages.response_bytes(messages.FETCH, batch),
    }
    columns = [sizes.get(field.name, batch.column(field.name)) for field in INPUT_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=INPUT_SCHEMA)


def _place(row: RecordedFetch) -> tuple[int, str]:
    return row.dequeued_us, row.request_id


def _fetches(path: Path, node_id: int) -> Iterator[RecordedFetch]:
    for line in lines_of(path, node_id):
        if line.api != FETCH:
            continue
        row = _fetch(line)
        if not any(a.topic_id == METADATA_TOPIC_ID for a in row.request_partitions or ()):
            yield row


def _fetch(line: Line) -> RecordedFetch:
    header, request, response = (line.what[k] for k in ("requestHeader", "request", "response"))
    replica = request.get("replicaState", request)
    return RecordedFetch(
        request_id=line.digest,
        api_version=header["requestApiVersion"],
        client_id=header["clientId"],
        connection=line.what["connection"],
        replica_id=replica.get("replicaId", -1),
        replica_epoch=replica.get("replicaEpoch", -1),
        received_us=line.received_us,
        dequeued_us=line.dequeued_us,
        built_us=line.built_us,
        session_id=request["sessionId"],
        session_epoch=request["sessionEpoch"],
        rack_id=request["rackId"],
        cluster_id=request.get("clusterId"),
        request_partitions=[_requested(t, p) for t in request["topics"] for p in t["partitions"]],
        forgotten_partitions=[
            ForgottenPartition(t["topicId"], None, p)
            for t in request["forgottenTopicsData"]
            for p in t["partitions"]
        ],
        throttle_ms=float(response["throttleTimeMs"]),
        error_code=response["errorCode"],
        response_session_id=response["sessionId"],
        response_partitions=[
            _returned(t, p) for t in response["responses"] for p in t["partitions"]
        ],
        node_endpoints=[
            NodeEndpoint(e["nodeId"], e["host"], e["port"], e["rack"])
            for e in response.get("nodeEndpoints", ())
        ],
        request_bytes=None,
        response_bytes=None,
        topic_names=None,
    )


def _requested(topic: dict[str, Any], partition: dict[str, Any]) -> RequestedPartition:
    return RequestedPartition(
        topic_id=topic["topicId"],
        topic=None,
        partition=partition["partition"],
        current_leader_epoch=partition["currentLeaderEpoch"],
        fetch_offset=partition["fetchOffset"],
        last_fetched_epoch=partition["lastFetchedEpoch"],
        log_start_offset=partition["logStartOffset"],
        partition_max_bytes=partition["partitionMaxBytes"],
        replica_directory_id=partition.get("replicaDirectoryId"),
        high_watermark=partition.get("highWatermark", NO_HIGH_WATERMARK),
    )


def _returned(topic: dict[str, Any], partition: dict[str, Any]) -> ReturnedPartition:
    leader, diverging = partition.get("currentLeader", {}), partition.get("divergingEpoch", {})
    aborted = partition.get("abortedTransactions")
    return ReturnedPartition(
        topic_id=topic["topicId"],
        topic=None,
        partition=partition["partitionIndex"],
        error_code=partition["errorCode"],
        high_watermark=partition["highWatermark"],
        last_stable_offset=partition["lastStableOffset"],
        log_start_offset=partition["logStartOffset"],
        preferred_read_replica=partition["preferredReadReplica"],
        record_bytes=partition.get("recordsSizeInBytes"),
        aborted_transactions=None if aborted is None else len(aborted),
        current_leader_id=leader.get("leaderId"),
        current_leader_epoch=leader.get("leaderEpoch"),
        diverging_epoch=diverging.get("epoch"),
        diverging_end_offset=diverging.get("endOffset"),
        snapshot_end_offset=None,
        snapshot_epoch=None,
    )
