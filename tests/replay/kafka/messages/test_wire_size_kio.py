"""Sizes against kio's serializers: generated messages, every version that kio and Kafka share.

Messages are drawn as rows of the tables (``wire_messages``) and translated to kio's entities: a
field that a version lacks is left out there, and must not count here.
"""

import base64
import datetime
import importlib
import io
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from wire_messages import fetch_request, fetch_response, int64, one_row, produce, topics

from kip_replay.replay.kafka import messages
from kip_replay.replay.kafka.messages import request_bytes, response_bytes
from kip_replay.replay.kafka.messages.schemas import ERROR_NAMES
from kip_replay.replay.log_tables import BrokerHeartbeats, Fetches, Produces

Row = dict[str, Any]
MILLISECOND = datetime.timedelta(milliseconds=1)
DURATIONS = ("max_wait_ms", "timeout_ms")


def test_error_codes_have_kafka_s_names() -> None:
    assert {code.value: code.name.upper() for code in ErrorCode} == ERROR_NAMES


def make(cls: Any, **fields: object) -> Any:
    """An entity from those fields that its version has."""
    return cls(**{k: v for k, v in fields.items() if k in cls.__dataclass_fields__})


def made_if(cls: Any, row: Row, name: str, **fields: object) -> tuple[Any, ...]:
    """An entity for each of a row's list, if the version has them at all."""
    return () if cls is None else tuple(make(cls, **fields, **each) for each in row.get(name, ()))


def size(entity: Any) -> int:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return len(buffer.getvalue())


def uuid_of(text: str | None) -> uuid.UUID | None:
    return None if text is None else uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def named(topic_id: str, name: str) -> Row:
    return {"topic_id": uuid_of(topic_id), "topic": name, "name": name}


def by_topic(module: Any, topic: str, field: str, partition: str, rows: list[Row]) -> Any:
    """An entity for each topic, whose ``field`` holds one for each of its partitions."""
    cls, of = getattr(module, topic), getattr(module, partition)
    return tuple(
        make(cls, **named(*names), **{field: tuple(make(of, **of_kio(module, p)) for p in run)})
        for *names, run in topics(rows)
    )


#: kio's tagged field: its class, the fields of that, and how our columns of them begin.
TAGS = {
    "current_leader": ("LeaderIdAndEpoch", ("leader_id", "leader_epoch"), "current_"),
    "diverging_epoch": ("EpochEndOffset", ("epoch", "end_offset"), "diverging_"),
    "snapshot_id": ("SnapshotId", ("epoch", "end_offset"), "snapshot_"),
}


def tags(module: Any, partition: Row) -> Row:
    """The tagged fields that are there and that the version has."""
    made = {}
    for name, (class_name, fields, prefix) in TAGS.items():
        values = {field: partition.get(prefix + field) for field in fields}
        if hasattr(module, class_name) and None not in values.values():
            made[name] = getattr(module, class_name)(**values)
    return made


def of_kio(module: Any, row: Row) -> Row:
    """A row, or a partition in one, under kio's names too and in its types."""
    values = {name: value for name, value in row.items() if name not in TAGS} | tags(module, row)
    values |= {name[:-3]: row[name] * MILLISECOND for name in row if name in DURATIONS}
    values |= dict.fromkeys(("partition_index", "index"), row.get("partition"))
    size, aborted = row.get("record_bytes"), row.get("aborted_transactions")
    if aborted is not None:
        aborted = (module.AbortedTransaction(producer_id=1, first_offset=2),) * aborted
    return values | {
        "throttle_time": 0 * MILLISECOND,
        "error_code": ErrorCode(row.get("error_code", 0)),
        "records": None if size is None else b"x" * size,
        "aborted_transactions": aborted,
        "replica_directory_id": uuid_of(row.get("replica_directory_id")),
        "node_endpoints": made_if(getattr(module, "NodeEndpoint", None), row, "node_endpoints"),
        "record_errors": made_if(
            getattr(module, "BatchIndexAndErrorMessage", None), row, "record_errors", batch_index=1
        ),
    }


# --- a row as kio's entity


def fetch_request_of(module: Any, row: Row) -> Any:
    state, forgotten = (getattr(module, n, None) for n in ("ReplicaState", "ForgottenTopic"))
    asked = row["request_partitions"]
    gone = [
        {**named(*names), "partitions": tuple(p["partition"] for p in run)}
        for *names, run in topics(row["forgotten_partitions"])
    ]
    return make(
        module.FetchRequest,
        **of_kio(module, row),
        replica_state=state and make(state, **row),
        topics=by_topic(module, "FetchTopic", "partitions", "FetchPartition", asked),
        forgotten_topics_data=forgotten and tuple(make(forgotten, **each) for each in gone),
    )


def fetch_response_of(module: Any, row: Row) -> Any:
    names = ("FetchableTopicResponse", "partitions", "PartitionData")
    made = {"responses": by_topic(module, *names, row["response_partitions"])}
    made["session_id"] = row["response_session_id"]
    return make(module.FetchResponse, **of_kio(module, row) | made)


def produce_request_of(module: Any, row: Row) -> Any:
    names = ("TopicProduceData", "partition_data", "PartitionProduceData")
    sent = by_topic(module, *names, row["partitions"])
    return make(module.ProduceRequest, **of_kio(module, row), topic_data=sent)


def produce_response_of(module: Any, row: Row) -> Any:
    names = ("TopicProduceResponse", "partition_responses", "PartitionProduceResponse")
    returned = by_topic(module, *names, row["partitions"])
    return make(module.ProduceResponse, **of_kio(module, row), responses=returned)


def heartbeat_request_of(module: Any, row: Row) -> Any:
    directory, cordoned = (uuid.UUID(int=1),), row["cordoned_log_dirs"]
    flags = {"current_metadata_offset": 2, "want_fence": True, "want_shut_down": False}
    flags["offline_log_dirs"] = directory * (row["offline_log_dirs"] or 0)
    flags["cordoned_log_dirs"] = None if cordoned is None else directory * cordoned
    return make(module.BrokerHeartbeatRequest, **row | flags)


def heartbeat_response_of(module: Any, row: Row) -> Any:
    flags = {"is_caught_up": True, "is_fenced": False, "should_shut_down": False}
    return make(module.BrokerHeartbeatResponse, **of_kio(module, row), **flags)


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
        ("fetch", Fetches, range(4, 19), fetch_request, fetch_request_of),
        ("fetch", Fetches, range(4, 19), fetch_response, fetch_response_of),
        ("produce", Produces, range(3, 14), produce, produce_request_of),
        ("produce", Produces, range(3, 14), produce, produce_response_of),
        ("broker_heartbeat", BrokerHeartbeats, range(3), heartbeat, heartbeat_request_of),
        ("broker_heartbeat", BrokerHeartbeats, range(3), heartbeat, heartbeat_response_of),
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
