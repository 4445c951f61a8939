"""Reads the state of a cluster from lines: leaders, ISRs, topics, brokers, offsets, producers.

Source: the message schemas of each API. ALTER_PARTITION with a partition error returns ``isr: []``,
which is no empty ISR: null here.
"""

from typing import Any

from .frequent import METADATA_TOPIC
from .line import Envelope
from .reading import Reader, Row, TypedRows

_ALTER_PARTITION = """
AlterPartitionRequest request
  Topics []TopicData 0+
    TopicName string 0-1, TopicId uuid 2+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+, LeaderEpoch int32 0+, NewIsr []int32 0-2
      NewIsrWithEpochs []BrokerState 3+
        BrokerId int32 3+
      PartitionEpoch int32 0+
AlterPartitionResponse response
  ErrorCode int16 0+
  Topics []TopicData 0+
    TopicName string 0-1, TopicId uuid 2+
    Partitions []PartitionData 0+
      PartitionIndex int32 0+, ErrorCode int16 0+, LeaderId int32 0+, LeaderEpoch int32 0+
      Isr []int32 0+, PartitionEpoch int32 0+
"""
_METADATA = """
MetadataRequest request
  Topics []raw 0+ nullableVersions=0+ default=null
MetadataResponse response
  Brokers []Broker 0+
    NodeId int32 0+, Rack string 0+ nullableVersions=0+ default=null
  Topics []Topic 0+
    ErrorCode int16 0+, Name string 0+ nullableVersions=0+ default=null column=topic_name
    TopicId uuid 10+, IsInternal bool 0+ default=false
    Partitions []Partition 0+
      ErrorCode int16 0+, PartitionIndex int32 0+, LeaderId int32 0+
      LeaderEpoch int32 0+ default=-1, ReplicaNodes []int32 0+, IsrNodes []int32 0+
"""
#: ``UUID.ZERO_UUID``: METADATA returns it where it has no id.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def _id(topic: Any) -> str | None:
    return None if topic.topic_id == _NO_ID else topic.topic_id


def _name(topic: Any) -> str:
    return topic.topic_name or _id(topic) or ""


def _partitions(body: Any) -> dict[tuple[str, int], tuple[Any, Any]]:
    """Topic and partition by name and index; the first of those that are listed twice."""
    partitions: dict[tuple[str, int], tuple[Any, Any]] = {}
    for topic in body.topics if body else ():
        for partition in topic.partitions:
            partitions.setdefault((_name(topic), partition.partition_index), (topic, partition))
    return partitions


def _alter_partition(request: Any, response: Any, _: Envelope) -> TypedRows:
    """One row per partition requested, or returned where the log has no request."""
    requested, returned = _partitions(request), _partitions(response)
    error = response.error_code if response else None
    rows = []
    for key, (topic, _) in (requested if request else returned).items():
        before, after = (bodies.get(key, (None, None))[1] for bodies in (requested, returned))
        rows.append(_altered(topic, before, after, error))
    return {"isr_changes": rows}


def _altered(topic: Any, requested: Any, returned: Any, error: int | None) -> Row:
    """The returned state where there was no error, else the requested one."""
    granted = returned if returned and returned.error_code == 0 else None
    state = granted or requested or returned
    requested_isr = None
    if requested:
        with_epochs = requested.new_isr_with_epochs or ()
        requested_isr = [*(requested.new_isr or ()), *(broker.broker_id for broker in with_epochs)]
    return (
        _name(topic),
        topic.topic_id,
        state.partition_index,
        granted.leader_id if granted else None,
        state.leader_epoch,
        state.partition_epoch,
        None,
        requested_isr,
        granted.isr if granted else None,
        returned.error_code if returned else error,
    )


def _metadata(request: Any, response: Any, envelope: Envelope) -> TypedRows:
    topics: dict[str, Row] = {}
    for topic in response.topics if response else ():
        topics.setdefault(_name(topic), _topic(topic))
    # Null is all topics, and so is an empty list before version 1.
    is_old = envelope.request_header.api_version == 0
    of_all_topics = request is not None and request.topics == ([] if is_old else None)
    brokers = response.brokers if response else ()
    return {
        "isr_changes": [_partition(*pair) for pair in _partitions(response).values()],
        "topics": [*topics.values()],
        "brokers": [(broker.node_id, broker.rack, of_all_topics) for broker in brokers],
    }


def _partition(topic: Any, partition: Any) -> Row:
    return (
        _name(topic),
        _id(topic),
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        None,
        partition.replica_nodes,
        None,
        partition.isr_nodes if partition.error_code == 0 else None,
        partition.error_code,
    )


def _topic(topic: Any) -> Row:
    partitions = topic.partitions
    sizes = (len(partitions), len(partitions[0].replica_nodes)) if partitions else (None, None)
    return (_name(topic), _id(topic), *sizes, topic.is_internal, topic.error_code)


# --- how far nodes have come in the metadata log

_API_VERSIONS = """
ApiVersionsResponse response
  FinalizedFeaturesEpoch int64 0+ default=-1
"""
_BROKER_REGISTRATION = """
BrokerRegistrationRequest request
  BrokerId int32 0+, Rack string 0+ nullableVersions=0+ default=null
BrokerRegistrationResponse response
  ErrorCode int16 0+, BrokerEpoch int64 0+ default=-1
"""
_DESCRIBE_QUORUM = """
DescribeQuorumResponse response
  Topics []TopicData 0+
    TopicName string 0+
    Partitions []PartitionData 0+
      ErrorCode int16 0+, LeaderId int32 0+, LeaderEpoch int32 0+, HighWatermark int64 0+
      CurrentVoters []ReplicaState 0+
        ReplicaId int32 0+, LogEndOffset int64 0+
      Observers []ReplicaState 0+
        ReplicaId int32 0+, LogEndOffset int64 0+
"""


def api_versions(node_id: int) -> Reader:
    """Reads API_VERSIONS, whose epoch shows how far the node itself is."""

    def rows(_: Any, response: Any, __: Envelope) -> TypedRows:
        if response is None or response.finalized_features_epoch < 0:
            return {}
        row = (node_id, "finalized_features_epoch", response.finalized_features_epoch, None)
        return {"metadata_offsets": [row]}

    return Reader(_API_VERSIONS, rows)


def _broker_registration(request: Any, response: Any, _: Envelope) -> TypedRows:
    """The offset of the registration, if it was one, and the broker's rack."""
    if request is None or response is None or response.error_code or response.broker_epoch < 0:
        return {}
    row = (request.broker_id, "broker_epoch", response.broker_epoch, None)
    return {"metadata_offsets": [row], "brokers": [(request.broker_id, request.rack, False)]}


def _describe_quorum(_: Any, response: Any, __: Envelope) -> TypedRows:
    rows: list[Row] = []
    for topic in response.topics if response else ():
        for partition in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and partition.error_code == 0:
                rows += _quorum(partition)
    return {"metadata_offsets": rows}


def _quorum(partition: Any) -> list[Row]:
    epoch = partition.leader_epoch
    rows: list[Row] = []
    if partition.high_watermark >= 0:
        rows.append((partition.leader_id, "high_watermark", partition.high_watermark, epoch))
    # A node whose disk was replaced is listed once per directory: it is where the newest log is.
    ends: dict[int, int] = {}
    for replica in (*partition.current_voters, *partition.observers):
        ends[replica.replica_id] = max(ends.get(replica.replica_id, -1), replica.log_end_offset)
    rows += [(node, "log_end_offset", end, epoch) for node, end in ends.items() if end >= 0]
    return rows


# --- producers

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
        return {"producer_ids": [(transactional_id, None, None, None)]}
    returned = (response.producer_id, response.producer_epoch, response.error_code)
    return {"producer_ids": [(transactional_id, *returned)]}


API_VERSIONS = 18
READERS = {
    3: Reader(_METADATA, _metadata),
    22: Reader(_INIT_PRODUCER_ID, _producer_id),
    55: Reader(_DESCRIBE_QUORUM, _describe_quorum),
    56: Reader(_ALTER_PARTITION, _alter_partition),
    62: Reader(_BROKER_REGISTRATION, _broker_registration),
}
