"""ALTER_PARTITION and METADATA: a partition's leader and ISR, topics, and brokers.

Source: ``AlterPartition{Request,Response}.json``, ``MetadataResponse.json``. ALTER_PARTITION with
a partition error returns ``isr: []``, which is no empty ISR: null here.
"""

from typing import Any

import msgspec

from .bodies import At, Body, Row, Structs, TypedRows, decode_request, decode_response
from .envelope import Envelope, Int16, Int32

ALTER_PARTITION = 56
METADATA = 3

_topic_key = {"topic_name": At("0-1", str, None), "topic_id": At("2+", str, None)}
_alter_request = Body(
    topics=Structs(
        **_topic_key,
        partitions=Structs(
            partition_index=Int32,
            leader_epoch=Int32,
            new_isr=At("0-2", list[Int32], None),
            new_isr_with_epochs=At("3+", Structs(broker_id=Int32), None),
            partition_epoch=Int32,
        ),
    )
)
_alter_response = Body(
    error_code=Int16,
    topics=Structs(
        **_topic_key,
        partitions=Structs(
            partition_index=Int32,
            error_code=Int16,
            leader_id=Int32,
            leader_epoch=Int32,
            isr=list[Int32],
            partition_epoch=Int32,
        ),
    ),
)
_metadata_request = Body(topics=(list[msgspec.Raw] | None, None))
_metadata_response = Body(
    brokers=Structs(node_id=Int32, rack=(str | None, None)),
    topics=Structs(
        error_code=Int16,
        name=(str | None, None),
        topic_id=At("10+", str, None),
        is_internal=(bool, False),
        partitions=Structs(
            error_code=Int16,
            partition_index=Int32,
            leader_id=Int32,
            leader_epoch=(Int32, -1),
            replica_nodes=list[Int32],
            isr_nodes=list[Int32],
        ),
    ),
)

_Key = tuple[str, int]
#: ``UUID.ZERO_UUID``: METADATA returns it where it knows no id.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def read_alter_partition(envelope: Envelope) -> TypedRows:
    """One row per partition requested, or returned where the log has no request."""
    request = decode_request(envelope, _alter_request)
    response = decode_response(envelope, _alter_response)
    returned = {
        (_name(topic), partition.partition_index): (topic, partition)
        for topic in (response.topics if response else ())
        for partition in topic.partitions
    }
    rows: dict[_Key, Row] = {}
    if request is None:
        rows = {key: _altered(topic, None, of, None) for key, (topic, of) in returned.items()}
    error = response.error_code if response else None
    for topic in request.topics if request else ():
        for partition in topic.partitions:
            key = (_name(topic), partition.partition_index)
            _, result = returned.get(key, (None, None))
            rows.setdefault(key, _altered(topic, partition, result, error))
    return TypedRows(isr_changes=list(rows.values()))


def _name(topic: Any) -> str:
    return topic.topic_name or topic.topic_id or ""


def _altered(topic: Any, requested: Any, returned: Any, error: int | None) -> Row:
    """The returned state where there was no error, else the requested one."""
    good = returned if returned and returned.error_code == 0 else None
    state = good or requested or returned
    return (
        _name(topic),
        topic.topic_id,
        state.partition_index,
        good.leader_id if good else None,
        state.leader_epoch,
        state.partition_epoch,
        None,
        _requested_isr(requested) if requested else None,
        good.isr if good else None,
        returned.error_code if returned else error,
    )


def _requested_isr(partition: Any) -> list[int]:
    if partition.new_isr_with_epochs is not None:
        return [state.broker_id for state in partition.new_isr_with_epochs]
    return partition.new_isr or []


def read_metadata(envelope: Envelope) -> TypedRows:
    request = decode_request(envelope, _metadata_request)
    response = decode_response(envelope, _metadata_response)
    topics: dict[str, Row] = {}
    partitions: dict[_Key, Row] = {}
    for topic in response.topics if response else ():
        topic_id = None if topic.topic_id == _NO_ID else topic.topic_id
        name = topic.name or topic_id or ""
        topics.setdefault(name, _topic(topic, name, topic_id))
        for partition in topic.partitions:
            key = (name, partition.partition_index)
            partitions.setdefault(key, _partition(partition, name, topic_id))
    # Null is all topics, and so is an empty list before version 1.
    is_old = envelope.request_header.request_api_version == 0
    of_all_topics = request is not None and (
        request.topics == [] if is_old else request.topics is None
    )
    return TypedRows(
        isr_changes=list(partitions.values()),
        topics=list(topics.values()),
        brokers=[
            (broker.node_id, broker.rack, of_all_topics)
            for broker in (response.brokers if response else ())
        ],
    )


def _partition(partition: Any, name: str, topic_id: str | None) -> Row:
    return (
        name,
        topic_id,
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        None,
        partition.replica_nodes,
        None,
        partition.isr_nodes if partition.error_code == 0 else None,
        partition.error_code,
    )


def _topic(topic: Any, name: str, topic_id: str | None) -> Row:
    known = bool(topic.partitions)
    return (
        name,
        topic_id,
        len(topic.partitions) if known else None,
        len(topic.partitions[0].replica_nodes) if known else None,
        topic.is_internal,
        topic.error_code,
    )
