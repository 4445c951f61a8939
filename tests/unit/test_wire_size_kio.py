"""Sizes against kio's serializers: generated messages, every version that kio and Kafka share.

Messages are drawn as rows of the tables (``wire_messages``) and translated to kio's entities: a
field that a version lacks is left out there, and must not count here.
"""

import base64
import datetime
import importlib
import io
import uuid
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from wire_messages import fetch_request, fetch_response, int64, one_row, produce, topics

from kip_replay.replay.kafka.messages import (
    BROKER_HEARTBEAT,
    FETCH,
    PRODUCE,
    Api,
    request_bytes,
    response_bytes,
)
from kip_replay.replay.log_tables import BROKER_HEARTBEATS, FETCHES, PRODUCES
from kip_replay.replay.table import Table


def kio(api: str, version: int, side: str) -> Any:
    return importlib.import_module(f"kio.schema.{api}.v{version}.{side}")


def make(cls: Any, **fields: object) -> Any:
    """An entity from those fields that its version has."""
    return cls(**{k: v for k, v in fields.items() if k in cls.__dataclass_fields__})


def size(entity: Any) -> int:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return len(buffer.getvalue())


#: One for each version; of three that follow one another, each has another.
CLIENT_IDS = (None, "", "größe")


def check_request(api: Api, table: Table, row: dict[str, Any], version: int, entity: Any) -> None:
    """Frame, header and body of a request."""
    client_id = CLIENT_IDS[version % len(CLIENT_IDS)]
    header = make(
        entity.__header_schema__,
        request_api_key=1,
        request_api_version=version,
        correlation_id=7,
        client_id=client_id,
    )
    batch = one_row(table.arrow_schema, {**row, "api_version": version, "client_id": client_id})
    assert request_bytes(api, batch).to_pylist() == [4 + size(header) + size(entity)]


def check_response(api: Api, table: Table, row: dict[str, Any], version: int, entity: Any) -> None:
    """Frame, header and body of a response."""
    header = entity.__header_schema__(correlation_id=7)
    batch = one_row(table.arrow_schema, {**row, "api_version": version})
    assert response_bytes(api, batch).to_pylist() == [4 + size(header) + size(entity)]


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


def made_of(
    cls: Any, partitions: list[dict[str, Any]], field: str, partition: Callable[[Any], Any]
) -> tuple[Any, ...]:
    """An entity for each topic; ``field`` holds what ``partition`` makes of its partitions."""
    return tuple(
        make(
            cls,
            topic_id=uuid_of(topic_id),
            topic=name,
            name=name,
            **{field: tuple(map(partition, group))},
        )
        for topic_id, name, group in topics(partitions)
    )


@given(row=fetch_request)
def test_fetch_request(row: dict[str, Any]) -> None:
    for version in range(4, 19):
        check_fetch_request(version, row)


def check_fetch_request(version: int, row: dict[str, Any]) -> None:
    module = kio("fetch", version, "request")

    def partition(p: dict[str, Any]) -> Any:
        directory_id = uuid_of(p["replica_directory_id"])
        return make(module.FetchPartition, **p | {"replica_directory_id": directory_id})

    state = getattr(module, "ReplicaState", None)
    topic, forgotten = module.FetchTopic, getattr(module, "ForgottenTopic", None)
    entity = make(
        module.FetchRequest,
        **row,
        max_wait=milliseconds(row["max_wait_ms"]),
        replica_state=state and make(state, **row),
        topics=made_of(topic, row["request_partitions"], "partitions", partition),
        forgotten_topics_data=forgotten
        and made_of(forgotten, row["forgotten_partitions"], "partitions", itemgetter("partition")),
    )
    check_request(FETCH, FETCHES, row, version, entity)


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
    "snapshot_id": ("SnapshotId", {"epoch": "snapshot_epoch", "end_offset": "snapshot_end_offset"}),
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


@given(row=fetch_response)
def test_fetch_response(row: dict[str, Any]) -> None:
    for version in range(4, 19):
        check_fetch_response(version, row)


def check_fetch_response(version: int, row: dict[str, Any]) -> None:
    module = kio("fetch", version, "response")
    responses = made_of(
        module.FetchableTopicResponse,
        row["response_partitions"],
        "partitions",
        lambda p: fetched(module, p),
    )
    entity = make(
        module.FetchResponse,
        throttle_time=milliseconds(0),
        error_code=ErrorCode(row["error_code"]),
        session_id=row["response_session_id"],
        responses=responses,
        node_endpoints=endpoints(row, module),
    )
    check_response(FETCH, FETCHES, row, version, entity)


@given(row=produce)
def test_produce_request(row: dict[str, Any]) -> None:
    for version in range(3, 14):
        check_produce_request(version, row)


def check_produce_request(version: int, row: dict[str, Any]) -> None:
    module = kio("produce", version, "request")

    def sent(p: dict[str, Any]) -> Any:
        return make(module.PartitionProduceData, index=p["partition"], records=records(p))

    topic_data = made_of(module.TopicProduceData, row["partitions"], "partition_data", sent)
    entity = make(
        module.ProduceRequest,
        transactional_id=row["transactional_id"],
        acks=row["acks"],
        timeout=milliseconds(row["timeout_ms"]),
        topic_data=topic_data,
    )
    check_request(PRODUCE, PRODUCES, row, version, entity)


@given(row=produce)
def test_produce_response(row: dict[str, Any]) -> None:
    for version in range(3, 14):
        check_produce_response(version, row)


def check_produce_response(version: int, row: dict[str, Any]) -> None:
    module = kio("produce", version, "response")

    def returned(p: dict[str, Any]) -> Any:
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

    responses = made_of(
        module.TopicProduceResponse, row["partitions"], "partition_responses", returned
    )
    entity = make(
        module.ProduceResponse, responses=responses, node_endpoints=endpoints(row, module)
    )
    check_response(PRODUCE, PRODUCES, row, version, entity)


@pytest.mark.parametrize("version", range(3))
@given(
    offline=st.none() | st.integers(1, 200), cordoned=st.none() | st.integers(0, 200), epoch=int64
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
        "broker_id": 1,
        "error_code": 0,
        "offline_log_dirs": offline,
        "cordoned_log_dirs": cordoned,
    }
    check_request(BROKER_HEARTBEAT, BROKER_HEARTBEATS, row, version, request)
    check_response(BROKER_HEARTBEAT, BROKER_HEARTBEATS, row, version, response)
