"""Sizes against kio's serializers: generated messages, every version that kio and Kafka share.

Messages are drawn as rows of the tables (``wire_messages``) and translated to kio's entities: a
field that a version lacks is left out there, and must not count here.
"""

from __future__ import annotations

import base64
import datetime
import importlib
import io
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from wire_messages import (
    fetch_request,
    fetch_response,
    int64,
    names,
    one_row,
    produce,
    topics,
)

from kip_replay.replay import wire_size
from kip_replay.replay.log_tables import BROKER_HEARTBEATS, FETCHES, PRODUCES


def kio(api: str, version: int, side: str) -> Any:
    return importlib.import_module(f"kio.schema.{api}.v{version}.{side}")


def make(cls: Any, **fields: object) -> Any:
    """An entity from those fields that its version has."""
    return cls(**{k: v for k, v in fields.items() if k in cls.__dataclass_fields__})


def size(entity: Any) -> int:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return len(buffer.getvalue())


def milliseconds(n: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=n)


def uuid_of(text: str | None) -> uuid.UUID | None:
    return None if text is None else uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def record_errors_of(partition: dict[str, Any], module: Any) -> tuple[Any, ...]:
    cls = getattr(module, "BatchIndexAndErrorMessage", None)
    if cls is None:
        return ()
    return tuple(make(cls, batch_index=1, **error) for error in partition["record_errors"])


def endpoints(row: dict[str, Any], module: Any) -> tuple[Any, ...]:
    cls = getattr(module, "NodeEndpoint", None)
    return () if cls is None else tuple(cls(**endpoint) for endpoint in row["node_endpoints"])


@pytest.mark.parametrize("version", range(4, 19))
@settings(max_examples=15, deadline=None)
@given(row=fetch_request)
def test_fetch_request(version: int, row: dict[str, Any]) -> None:
    module = kio("fetch", version, "request")

    def topic(topic_id: str, name: str, group: list[dict]) -> Any:
        partitions = [
            {**p, "replica_directory_id": uuid_of(p["replica_directory_id"])} for p in group
        ]
        made = tuple(make(module.FetchPartition, **p) for p in partitions)
        return make(module.FetchTopic, topic_id=uuid_of(topic_id), topic=name, partitions=made)

    def forgotten(topic_id: str, name: str, group: list[dict]) -> Any:
        indexes = tuple(p["partition"] for p in group)
        return make(
            module.ForgottenTopic, topic_id=uuid_of(topic_id), topic=name, partitions=indexes
        )

    state = getattr(module, "ReplicaState", None)
    entity = make(
        module.FetchRequest,
        **row,
        max_wait=milliseconds(row["max_wait_ms"]),
        replica_state=state and make(state, **row),
        topics=tuple(topic(*t) for t in topics(row["request_partitions"])),
        forgotten_topics_data=tuple(forgotten(*t) for t in topics(row["forgotten_partitions"]))
        if hasattr(module, "ForgottenTopic")
        else (),
    )
    batch = one_row(FETCHES.arrow_schema, {**row, "api_version": version})
    assert wire_size.fetch_request_body_bytes(batch).to_pylist() == [size(entity)]


#: kio's tagged field: its class, and its fields with our columns.
TAGS = {
    "current_leader": (
        "LeaderIdAndEpoch",
        {"leader_id": "current_leader_id", "leader_epoch": "current_leader_epoch"},
    ),
    "diverging_epoch": (
        "EpochEndOffset",
        {"epoch": "diverging_epoch", "end_offset": "diverging_end_offset"},
    ),
    "snapshot_id": (
        "SnapshotId",
        {"epoch": "snapshot_epoch", "end_offset": "snapshot_end_offset"},
    ),
}


def tags(module: Any, partition: dict[str, Any]) -> dict[str, Any]:
    """The tagged fields that are there and that the version has."""
    made = {}
    for name, (class_name, columns) in TAGS.items():
        values = {field: partition.get(column) for field, column in columns.items()}
        if hasattr(module, class_name) and None not in values.values():
            made[name] = getattr(module, class_name)(**values)
    return made


def records(partition: dict[str, Any]) -> bytes | None:
    n = partition["record_bytes"]
    return None if n is None else b"x" * n


def fetched(module: Any, p: dict[str, Any]) -> Any:
    aborted = p["aborted_transactions"]
    transaction = module.AbortedTransaction(producer_id=1, first_offset=2)
    return make(
        module.PartitionData,
        partition_index=p["partition"],
        error_code=ErrorCode(p["error_code"]),
        high_watermark=p["high_watermark"],
        last_stable_offset=p["last_stable_offset"],
        log_start_offset=p["log_start_offset"],
        preferred_read_replica=p["preferred_read_replica"],
        aborted_transactions=None if aborted is None else (transaction,) * aborted,
        records=records(p),
        **tags(module, p),
    )


@pytest.mark.parametrize("version", range(4, 19))
@settings(max_examples=15, deadline=None)
@given(row=fetch_response)
def test_fetch_response(version: int, row: dict[str, Any]) -> None:
    module = kio("fetch", version, "response")
    responses = tuple(
        make(
            module.FetchableTopicResponse,
            topic_id=uuid_of(topic_id),
            topic=name,
            partitions=tuple(fetched(module, p) for p in group),
        )
        for topic_id, name, group in topics(row["response_partitions"])
    )
    entity = make(
        module.FetchResponse,
        throttle_time=milliseconds(0),
        error_code=ErrorCode(row["error_code"]),
        session_id=row["response_session_id"],
        responses=responses,
        node_endpoints=endpoints(row, module),
    )
    batch = one_row(FETCHES.arrow_schema, {**row, "api_version": version})
    assert wire_size.fetch_response_body_bytes(batch).to_pylist() == [size(entity)]


def produce_batch(row: dict[str, Any], version: int) -> pa.RecordBatch:
    return one_row(PRODUCES.arrow_schema, {**row, "api_version": version})


@pytest.mark.parametrize("version", range(3, 14))
@settings(max_examples=15, deadline=None)
@given(row=produce)
def test_produce_request(version: int, row: dict[str, Any]) -> None:
    module = kio("produce", version, "request")
    topic_data = tuple(
        make(
            module.TopicProduceData,
            topic_id=uuid_of(topic_id),
            name=name,
            partition_data=tuple(
                make(module.PartitionProduceData, index=p["partition"], records=records(p))
                for p in group
            ),
        )
        for topic_id, name, group in topics(row["partitions"])
    )
    entity = make(
        module.ProduceRequest,
        transactional_id=row["transactional_id"],
        acks=row["acks"],
        timeout=milliseconds(row["timeout_ms"]),
        topic_data=topic_data,
    )
    sizes = wire_size.produce_request_body_bytes(produce_batch(row, version))
    assert sizes.to_pylist() == [size(entity)]


@pytest.mark.parametrize("version", range(3, 14))
@settings(max_examples=15, deadline=None)
@given(row=produce)
def test_produce_response(version: int, row: dict[str, Any]) -> None:
    module = kio("produce", version, "response")

    def answer(p: dict[str, Any]) -> Any:
        return make(
            module.PartitionProduceResponse,
            index=p["partition"],
            error_code=ErrorCode(p["error_code"]),
            base_offset=p["base_offset"],
            log_start_offset=p["log_start_offset"],
            record_errors=record_errors_of(p, module),
            error_message=p["error_message"],
            **tags(module, p),
        )

    responses = tuple(
        make(
            module.TopicProduceResponse,
            topic_id=uuid_of(topic_id),
            name=name,
            partition_responses=tuple(answer(p) for p in group),
        )
        for topic_id, name, group in topics(row["partitions"])
    )
    node_endpoints_made = endpoints(row, module)
    entity = make(module.ProduceResponse, responses=responses, node_endpoints=node_endpoints_made)
    sizes = wire_size.produce_response_body_bytes(produce_batch(row, version))
    assert sizes.to_pylist() == [size(entity)]


@pytest.mark.parametrize("version", range(3))
@settings(max_examples=50, deadline=None)
@given(
    offline=st.none() | st.integers(1, 200),
    cordoned=st.none() | st.integers(0, 200),
    epoch=int64,
)
def test_broker_heartbeat(
    version: int, offline: int | None, cordoned: int | None, epoch: int
) -> None:
    directory = (uuid.UUID(int=1),)
    request = make(
        kio("broker_heartbeat", version, "request").BrokerHeartbeatRequest,
        broker_id=1,
        broker_epoch=epoch,
        current_metadata_offset=2,
        want_fence=True,
        want_shut_down=False,
        offline_log_dirs=directory * (offline or 0),
        cordoned_log_dirs=None if cordoned is None else directory * cordoned,
    )
    response = make(
        kio("broker_heartbeat", version, "response").BrokerHeartbeatResponse,
        throttle_time=milliseconds(0),
        error_code=ErrorCode(0),
        is_caught_up=True,
        is_fenced=False,
        should_shut_down=False,
    )
    row = {
        "api_version": version,
        "broker_id": 1,
        "error_code": 0,
        "offline_log_dirs": offline,
        "cordoned_log_dirs": cordoned,
    }
    batch = one_row(BROKER_HEARTBEATS.arrow_schema, row)
    assert wire_size.broker_heartbeat_request_body_bytes(batch).to_pylist() == [size(request)]
    assert wire_size.broker_heartbeat_response_body_bytes(batch).to_pylist() == [size(response)]


@pytest.mark.parametrize(
    ("api", "version"),
    [("fetch", 11), ("fetch", 12), ("produce", 8), ("produce", 9), ("broker_heartbeat", 0)],
)
@settings(max_examples=20, deadline=None)
@given(client_id=st.none() | names | st.just(""))
def test_frame_and_headers(api: str, version: int, client_id: str | None) -> None:
    request_header = kio(api, version, "request")
    response_header = kio(api, version, "response")
    asked = next(c for n, c in vars(request_header).items() if n.endswith("Request"))
    answered = next(c for n, c in vars(response_header).items() if n.endswith("Response"))
    header = make(
        asked.__header_schema__,
        request_api_key=1,
        request_api_version=version,
        correlation_id=7,
        client_id=client_id,
    )
    schema = {"fetch": FETCHES, "produce": PRODUCES, "broker_heartbeat": BROKER_HEARTBEATS}[api]
    row = {
        "api_version": version,
        "client_id": client_id,
        "max_wait_ms": 1,
        "acks": 1,
        "broker_id": 1,
        "error_code": 0,
        "has_response": True,
        "partitions": [],
    }
    batch = one_row(schema.arrow_schema, row)

    def overhead(side: str) -> int:
        whole = getattr(wire_size, f"{api}_{side}_bytes")(batch).to_pylist()[0]
        body = getattr(wire_size, f"{api}_{side}_body_bytes")(batch).to_pylist()[0]
        return int(whole - body)

    assert overhead("request") == 4 + size(header)
    assert overhead("response") == 4 + size(answered.__header_schema__(correlation_id=7))
