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

from kip_replay.replay.kafka import messages
from kip_replay.replay.kafka.messages import request_bytes, response_bytes
from kip_replay.replay.log_tables import BROKER_HEARTBEATS, FETCHES, PRODUCES

Row = dict[str, Any]
MILLISECOND = datetime.timedelta(milliseconds=1)


def make(cls: Any, **fields: object) -> Any:
    """An entity from those fields that its version has."""
    return cls(**{k: v for k, v in fields.items() if k in cls.__dataclass_fields__})


def made_if(cls: Any, rows: list[Row], **fields: object) -> tuple[Any, ...]:
    """An entity for each row, if the version has them at all."""
    return () if cls is None else tuple(make(cls, **fields, **row) for row in rows)


def size(entity: Any) -> int:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return len(buffer.getvalue())


def uuid_of(text: str | None) -> uuid.UUID | None:
    return None if text is None else uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def made_of(
    cls: Any, partitions: list[Row], field: str, partition: Callable[[Any], Any]
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


def tags(module: Any, partition: Row) -> Row:
    """The tagged fields that are there and that the version has."""
    made = {}
    for name, (class_name, columns) in TAGS.items():
        values = {field: partition.get(column) for field, column in columns.items()}
        if hasattr(module, class_name) and None not in values.values():
            made[name] = getattr(module, class_name)(**values)
    return made


def records(partition: Row) -> bytes | None:
    n = partition["record_bytes"]
    return None if n is None else b"x" * n


# --- a row as kio's entity


def fetch_request_of(module: Any, row: Row) -> Any:
    def partition(p: Row) -> Any:
        directory_id = uuid_of(p["replica_directory_id"])
        return make(module.FetchPartition, **p | {"replica_directory_id": directory_id})

    state = getattr(module, "ReplicaState", None)
    topic, forgotten = module.FetchTopic, getattr(module, "ForgottenTopic", None)
    return make(
        module.FetchRequest,
        **row,
        max_wait=row["max_wait_ms"] * MILLISECOND,
        replica_state=state and make(state, **row),
        topics=made_of(topic, row["request_partitions"], "partitions", partition),
        forgotten_topics_data=forgotten
        and made_of(forgotten, row["forgotten_partitions"], "partitions", itemgetter("partition")),
    )


def fetch_response_of(module: Any, row: Row) -> Any:
    def fetched(p: Row) -> Any:
        aborted = p["aborted_transactions"]
        transaction = module.AbortedTransaction(producer_id=1, first_offset=2)
        of_kio = {
            "partition_index": p["partition"],
            "error_code": ErrorCode(p["error_code"]),
            "aborted_transactions": None if aborted is None else (transaction,) * aborted,
            "records": records(p),
        }
        plain = {name: value for name, value in p.items() if name not in TAGS}
        return make(module.PartitionData, **plain | of_kio | tags(module, p))

    topic = module.FetchableTopicResponse
    return make(
        module.FetchResponse,
        throttle_time=0 * MILLISECOND,
        error_code=ErrorCode(row["error_code"]),
        session_id=row["response_session_id"],
        responses=made_of(topic, row["response_partitions"], "partitions", fetched),
        node_endpoints=made_if(getattr(module, "NodeEndpoint", None), row["node_endpoints"]),
    )


def produce_request_of(module: Any, row: Row) -> Any:
    def sent(p: Row) -> Any:
        return make(module.PartitionProduceData, index=p["partition"], records=records(p))

    return make(
        module.ProduceRequest,
        transactional_id=row["transactional_id"],
        acks=row["acks"],
        timeout=row["timeout_ms"] * MILLISECOND,
        topic_data=made_of(module.TopicProduceData, row["partitions"], "partition_data", sent),
    )


def produce_response_of(module: Any, row: Row) -> Any:
    error = getattr(module, "BatchIndexAndErrorMessage", None)

    def returned(p: Row) -> Any:
        return make(
            module.PartitionProduceResponse,
            index=p["partition"],
            error_code=ErrorCode(p["error_code"]),
            base_offset=p["base_offset"],
            log_start_offset=p["log_start_offset"],
            record_errors=made_if(error, p["record_errors"], batch_index=1),
            error_message=p["error_message"],
            **tags(module, p),
        )

    topic = module.TopicProduceResponse
    return make(
        module.ProduceResponse,
        responses=made_of(topic, row["partitions"], "partition_responses", returned),
        node_endpoints=made_if(getattr(module, "NodeEndpoint", None), row["node_endpoints"]),
    )


def heartbeat_request_of(module: Any, row: Row) -> Any:
    directory, cordoned = (uuid.UUID(int=1),), row["cordoned_log_dirs"]
    return make(
        module.BrokerHeartbeatRequest,
        broker_id=1,
        broker_epoch=row["broker_epoch"],
        current_metadata_offset=2,
        want_fence=True,
        want_shut_down=False,
        offline_log_dirs=directory * (row["offline_log_dirs"] or 0),
        cordoned_log_dirs=None if cordoned is None else directory * cordoned,
    )


def heartbeat_response_of(module: Any, _: Row) -> Any:
    return make(
        module.BrokerHeartbeatResponse,
        throttle_time=0 * MILLISECOND,
        error_code=ErrorCode(0),
        is_caught_up=True,
        is_fenced=False,
        should_shut_down=False,
    )


heartbeat = st.fixed_dictionaries(
    {
        "broker_id": st.just(1),
        "broker_epoch": int64,
        "error_code": st.just(0),
        "offline_log_dirs": st.none() | st.integers(1, 200),
        "cordoned_log_dirs": st.none() | st.integers(0, 200),
    }
)
#: One for each version; of three that follow one another, each has another.
CLIENT_IDS = (None, "", "größe")


@pytest.mark.parametrize(
    ("api", "table", "versions", "rows", "entity_of"),
    [
        ("fetch", FETCHES, range(4, 19), fetch_request, fetch_request_of),
        ("fetch", FETCHES, range(4, 19), fetch_response, fetch_response_of),
        ("produce", PRODUCES, range(3, 14), produce, produce_request_of),
        ("produce", PRODUCES, range(3, 14), produce, produce_response_of),
        ("broker_heartbeat", BROKER_HEARTBEATS, range(3), heartbeat, heartbeat_request_of),
        ("broker_heartbeat", BROKER_HEARTBEATS, range(3), heartbeat, heartbeat_response_of),
    ],
)
@given(data=st.data())
def test_size(api: str, table: Any, versions: range, rows: Any, entity_of: Any, data: Any) -> None:
    row = data.draw(rows)
    side = "request" if "request" in entity_of.__name__ else "response"
    count = request_bytes if side == "request" else response_bytes
    for version in versions:
        entity = entity_of(importlib.import_module(f"kio.schema.{api}.v{version}.{side}"), row)
        client_id = CLIENT_IDS[version % len(CLIENT_IDS)]
        header = make(
            entity.__header_schema__,
            request_api_key=1,
            request_api_version=version,
            correlation_id=7,
            client_id=client_id,
        )
        batch = one_row(table.arrow_schema, {**row, "api_version": version, "client_id": client_id})
        sizes = count(getattr(messages, api.upper()), batch).to_pylist()
        assert sizes == [4 + size(header) + size(entity)], version
