"""Where nodes stood in the metadata log, from three APIs: ``metadata_offsets``.

Source: ``ApiVersionsResponse.json``, ``BrokerRegistration{Request,Response}.json``,
``DescribeQuorumResponse.json``.

- API_VERSIONS, ``finalizedFeaturesEpoch``: on a broker the offset of its current metadata image
  (``KRaftMetadataCache.features``), on a controller only that of the last change of a feature. A
  line does not show which of the two its node is, so both get one kind. A broker takes up the new
  image before it has done what follows from it (making 192 partitions took one 4 s), so this runs
  ahead of ``currentMetadataOffset`` in its heartbeats, never behind.
- BROKER_REGISTRATION, ``brokerEpoch``: the offset of the registration's own record
  (``ClusterControlManager.registerBroker``). A process that registers once more keeps its epoch:
  the offset is then that of its first registration.
- DESCRIBE_QUORUM: the leader's high watermark and every replica's log end offset, both exclusive.

-1 is "unknown" in all of them: no row.
"""

from typing import Any

from .bodies import Body, Row, Structs, TypedRows, decode_request, decode_response
from .envelope import Envelope, Int16, Int32, Int64
from .fetch_view import METADATA_TOPIC

API_VERSIONS = 18
DESCRIBE_QUORUM = 55
BROKER_REGISTRATION = 62

_api_versions = Body(finalized_features_epoch=(Int64, -1))
_registration = Body(broker_id=Int32)
_registered = Body(error_code=Int16, broker_epoch=(Int64, -1))
_replicas = Structs(replica_id=Int32, log_end_offset=Int64)
_describe_quorum = Body(
    topics=Structs(
        topic_name=str,
        partitions=Structs(
            error_code=Int16,
            leader_id=Int32,
            leader_epoch=Int32,
            high_watermark=Int64,
            current_voters=_replicas,
            observers=_replicas,
        ),
    )
)


def read_api_versions(envelope: Envelope, node_id: int) -> TypedRows:
    response = decode_response(envelope, _api_versions)
    if response is None or response.finalized_features_epoch < 0:
        return TypedRows()
    row = (node_id, "finalized_features_epoch", response.finalized_features_epoch, None)
    return TypedRows(metadata_offsets=[row])


def read_broker_registration(envelope: Envelope) -> TypedRows:
    """The offset of the registration, if it was one."""
    request = decode_request(envelope, _registration)
    response = decode_response(envelope, _registered)
    if request is None or response is None or response.error_code or response.broker_epoch < 0:
        return TypedRows()
    return TypedRows(
        metadata_offsets=[(request.broker_id, "broker_epoch", response.broker_epoch, None)]
    )


def read_describe_quorum(envelope: Envelope) -> TypedRows:
    response = decode_response(envelope, _describe_quorum)
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
