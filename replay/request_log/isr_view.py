"""ALTER_PARTITION and METADATA: a partition's leader and ISR, and topics.

Source: ``AlterPartition{Request,Response}.json``, ``MetadataResponse.json``. ALTER_PARTITION with
a partition error returns ``isr: []``, which is no empty ISR: null here.
"""

from collections.abc import Sequence

import msgspec

from .bodies import Fields, Row, TypedRows, decode
from .envelope import Envelope, Int16, Int32

ALTER_PARTITION = 56
METADATA = 3


class _BrokerState(Fields, frozen=True):
    broker_id: Int32


class _RequestPartition(Fields, frozen=True):
    partition_index: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    new_isr: list[Int32] | None = None
    new_isr_with_epochs: list[_BrokerState] | None = None

    @property
    def isr(self) -> Sequence[int]:
        if self.new_isr_with_epochs is not None:
            return [state.broker_id for state in self.new_isr_with_epochs]
        return self.new_isr or ()


class _ResponsePartition(Fields, frozen=True):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    isr: tuple[Int32, ...] = ()
    partition_epoch: Int32 = -1


class _Topic(Fields, frozen=True):
    topic_name: str | None = None
    topic_id: str | None = None

    @property
    def name(self) -> str:
        return self.topic_name or self.topic_id or ""


class _RequestTopic(_Topic, frozen=True, kw_only=True):
    partitions: list[_RequestPartition]


class _ResponseTopic(_Topic, frozen=True, kw_only=True):
    partitions: list[_ResponsePartition]


class _AlterRequest(Fields, frozen=True):
    topics: list[_RequestTopic]


class _AlterResponse(Fields, frozen=True):
    error_code: Int16 = 0
    topics: tuple[_ResponseTopic, ...] = ()


class _MetadataPartition(Fields, frozen=True):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    leader_epoch: Int32 = -1


class _MetadataTopic(Fields, frozen=True):
    error_code: Int16
    partitions: list[_MetadataPartition]
    name: str | None = None
    topic_id: str | None = None
    is_internal: bool = False


class _MetadataResponse(Fields, frozen=True):
    topics: list[_MetadataTopic]


_alter_request = msgspec.json.Decoder(_AlterRequest)
_alter_response = msgspec.json.Decoder(_AlterResponse)
_metadata_response = msgspec.json.Decoder(_MetadataResponse)

_Key = tuple[str, int]
#: ``UUID.ZERO_UUID``: METADATA returns it where it knows no id.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def read_alter_partition(envelope: Envelope) -> TypedRows:
    """One row per partition requested, or returned where the log has no request.

    A top-level error is each partition's.
    """
    request = decode(envelope.request, _alter_request)
    response = decode(envelope.response, _alter_response)
    returned = {
        (topic.name, partition.partition_index): (topic, partition)
        for topic in (response.topics if response else ())
        for partition in topic.partitions
    }
    rows: dict[_Key, Row] = {}
    if request is None:
        rows = {
            key: _altered(topic, None, result, None) for key, (topic, result) in returned.items()
        }
    for topic in request.topics if request else ():
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            result = returned[key][1] if key in returned else None
            error = response.error_code if response else None
            rows.setdefault(key, _altered(topic, partition, result, error))
    return TypedRows(isr_changes=list(rows.values()))


def _altered(
    topic: _Topic,
    requested: _RequestPartition | None,
    returned: _ResponsePartition | None,
    error: int | None,
) -> Row:
    """The returned state where there was no error, else the requested one."""
    good = returned if returned and returned.error_code == 0 else None
    state = good or requested or returned
    assert state is not None
    return (
        topic.name,
        topic.topic_id,
        state.partition_index,
        good.leader_id if good else None,
        state.leader_epoch,
        state.partition_epoch,
        None,
        requested.isr if requested else None,
        good.isr if good else None,
        returned.error_code if returned else error,
    )


def read_metadata(envelope: Envelope) -> TypedRows:
    """Every topic and partition of the response."""
    response = decode(envelope.response, _metadata_response)
    topics: dict[str, Row] = {}
    partitions: dict[_Key, Row] = {}
    for topic in response.topics if response else ():
        topic_id = None if topic.topic_id == _NO_ID else topic.topic_id
        name = topic.name or topic_id or ""
        topics.setdefault(name, _topic(topic, name, topic_id))
        for partition in topic.partitions:
            key = (name, partition.partition_index)
            partitions.setdefault(key, _partition(partition, name, topic_id))
    return TypedRows(isr_changes=list(partitions.values()), topics=list(topics.values()))


def _partition(partition: _MetadataPartition, name: str, topic_id: str | None) -> Row:
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


def _topic(topic: _MetadataTopic, name: str, topic_id: str | None) -> Row:
    known = bool(topic.partitions)
    return (
        name,
        topic_id,
        len(topic.partitions) if known else None,
        len(topic.partitions[0].replica_nodes) if known else None,
        topic.is_internal,
        topic.error_code,
    )
