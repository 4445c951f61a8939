from typing import Any

from .bodies import Reader, Row, TypedRows
from .envelope import Envelope
from .frequent import METADATA_TOPIC

_API_VERSIONS = """
ApiVersionsResponse response
  FinalizedFeaturesEpoch int64 0+ default=-1
"""
_BROKER_REGISTRATION = """
BrokerRegistrationRequest request
  BrokerId int32 0+
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
    """Reads API_VERSIONS, whose epoch is of the node itself."""

    def rows(_: Any, response: Any, __: Envelope) -> TypedRows:
        if response is None or response.finalized_features_epoch < 0:
            return TypedRows()
        row = (node_id, "finalized_features_epoch", response.finalized_features_epoch, None)
        return TypedRows(metadata_offsets=[row])

    return Reader(_API_VERSIONS, rows)


def _broker_registration(request: Any, response: Any, _: Envelope) -> TypedRows:
    """The offset of the registration, if it was one."""
    if request is None or response is None or response.error_code or response.broker_epoch < 0:
        return TypedRows()
    row = (request.broker_id, "broker_epoch", response.broker_epoch, None)
    return TypedRows(metadata_offsets=[row])


def _describe_quorum(_: Any, response: Any, __: Envelope) -> TypedRows:
    rows: list[Row] = []
    for topic in response.topics if response else ():
        for partition in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and partition.error_code == 0:
                rows += _quorum(partition)
    return TypedRows(metadata_offsets=rows)


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


API_VERSIONS = 18
READERS = {
    55: Reader(_DESCRIBE_QUORUM, _describe_quorum),
    62: Reader(_BROKER_REGISTRATION, _broker_registration),
}
