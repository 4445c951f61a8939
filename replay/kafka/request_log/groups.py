"""Reads what members of groups do, and which partitions they have, from eight APIs.

``group_requests``: who joins, synchronizes, sends heartbeats to and leaves a group. Source:
``JoinGroup``, ``SyncGroup``, ``Heartbeat``, ``LeaveGroup`` and
``ConsumerGroupHeartbeat{Request,Response}.json`` (KIP-848); why a member joins again or leaves is
KIP-800's.

``group_assignments``. Source: ``OffsetCommitRequest.json`` (a consumer commits all its partitions
that have a position), ``SyncGroup{Request,Response}.json``, ``DescribeGroupsResponse.json`` and
``ConsumerGroupDescribeResponse.json``. Assignments of the classic protocol are bytes
(``ConsumerProtocolAssignment.json``); those of other protocols (Kafka Connect) give no row.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from struct import error as TooShort
from struct import unpack_from
from typing import Any

from msgspec import structs

from kip_replay.replay.log_tables import GroupRequest

from .line import Envelope
from .reading import Reader, Row, TypedRows

#: ConsumerGroupHeartbeatRequest.json: to leave for good, and to leave as a static member.
_LEAVING = (-1, -2)
_REMOTE_HOST = re.compile(r":\d+-(.*):\d+-\d+(?:-\d+)?$", re.DOTALL)
_CONSUMER = "consumer"
#: Topic id, topic, partition and the offset that was committed.
_Partitions = Iterable[tuple[str | None, str | None, int, int | None]]


def _rows(*requests: GroupRequest) -> TypedRows:
    return {"group_requests": [*map(structs.astuple, requests)]}


_JOIN_GROUP = """
JoinGroupRequest request
  GroupId string 0+, MemberId string 0+, Reason string 8+ nullableVersions=8+ default=null
JoinGroupResponse response
  ErrorCode int16 0+, GenerationId int32 0+, MemberId string 0+, Members []raw 0+
"""


def _joined(request: Any, response: Any, _: Envelope) -> TypedRows:
    if request is None:
        return {}
    row = GroupRequest(request.group_id, request.member_id, "join", reason=request.reason)
    if response is not None:
        # A new member gets its id.
        row.member_id = response.member_id or request.member_id
        row.generation, row.error_code = response.generation_id, response.error_code
        row.members = len(response.members) or None
    return _rows(row)


_HEARTBEAT = """
HeartbeatRequest request
  GroupId string 0+, GenerationId int32 0+, MemberId string 0+
HeartbeatResponse response
  ErrorCode int16 0+
"""


def _heartbeat(request: Any, response: Any, _: Envelope) -> TypedRows:
    return _rows(in_generation("heartbeat", request, response)) if request else {}


def in_generation(
    action: str, request: Any, response: Any, assigned: int | None = None
) -> GroupRequest:
    """A request whose member names the generation that it is in."""
    return GroupRequest(
        request.group_id,
        request.member_id,
        action,
        sent_generation=request.generation_id,
        error_code=None if response is None else response.error_code,
        assigned=assigned,
    )


_LEAVE_GROUP = """
LeaveGroupRequest request
  GroupId string 0+, MemberId string 0-2
  Members []MemberIdentity 3+
    MemberId string 3+, Reason string 5+ nullableVersions=5+ default=null
LeaveGroupResponse response
  ErrorCode int16 0+
  Members []MemberResponse 3+
    MemberId string 3+, ErrorCode int16 3+
"""


def _left(request: Any, response: Any, _: Envelope) -> TypedRows:
    if request is None:
        return {}
    error_code = None if response is None else response.error_code
    reasons, errors = {request.member_id: None}, {}
    if request.members is not None:
        # A static member may be named by its instance alone: then its id is empty.
        reasons = {member.member_id: member.reason for member in request.members}
        returned = response.members or () if response and not error_code else ()
        errors = {member.member_id: member.error_code for member in returned}
    rows = [GroupRequest(request.group_id, id_, "leave", reason=r) for id_, r in reasons.items()]
    for row in rows:
        row.error_code = errors.get(row.member_id, error_code)
    return _rows(*rows)


_CONSUMER_GROUP_HEARTBEAT = """
ConsumerGroupHeartbeatRequest request
  GroupId string 0+, MemberId string 0+, MemberEpoch int32 0+ min=-2
ConsumerGroupHeartbeatResponse response
  ErrorCode int16 0+, MemberId string 0+ nullableVersions=0+ default=null
  MemberEpoch int32 0+ min=-2
  Assignment Assignment 0+ nullableVersions=0+ default=null
    TopicPartitions []TopicPartitions 0+
      Partitions []int32 0+
"""


def _consumer_heartbeat(request: Any, response: Any, _: Envelope) -> TypedRows:
    if request is None:
        return {}
    epoch = request.member_epoch
    action = "leave" if epoch in _LEAVING else "heartbeat" if epoch else "join"
    row = GroupRequest(request.group_id, request.member_id, action, "consumer", epoch)
    if response is not None:
        row.member_id = request.member_id or response.member_id or ""
        row.generation, row.error_code = response.member_epoch, response.error_code
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            row.assigned = sum(len(topic.partitions) for topic in topics)
    return _rows(row)


_OFFSET_COMMIT = """
OffsetCommitRequest request
  GroupId string 0+, MemberId string 1+
  Topics []OffsetCommitRequestTopic 0+
    Name string 0-9, TopicId uuid 10+
    Partitions []OffsetCommitRequestPartition 0+
      PartitionIndex int32 0+, CommittedOffset int64 0+
OffsetCommitResponse response
  Topics []OffsetCommitResponseTopic 0+
    Name string 0-9, TopicId uuid 10+
    Partitions []OffsetCommitResponsePartition 0+
      PartitionIndex int32 0+, ErrorCode int16 0+
"""


def _commit(request: Any, response: Any, envelope: Envelope) -> Iterator[Row]:
    # Without a member, it is somebody who resets offsets.
    if request is not None and request.member_id:
        errors = {
            (topic.topic_id, topic.name, partition.partition_index): partition.error_code
            for topic in (response.topics if response else ())
            for partition in topic.partitions
        }
        partitions = [
            (*key, None if errors.get(key) != 0 else partition.committed_offset)
            for topic in request.topics
            for partition in topic.partitions
            for key in [(topic.topic_id, topic.name, partition.partition_index)]
        ]
        yield _of_sender(envelope, request, partitions)


_SYNC_GROUP = """
SyncGroupRequest request
  GroupId string 0+, GenerationId int32 0+, MemberId string 0+
  ProtocolType string 5+ nullableVersions=5+ default=null
SyncGroupResponse response
  ErrorCode int16 0+, Assignment bytes 0+
"""


def _synced(request: Any, response: Any, envelope: Envelope) -> TypedRows:
    if request is None:
        return {}
    is_assigned = response and not response.error_code
    is_consumer = request.protocol_type in (None, _CONSUMER)
    assigned = [*_assigned(response.assignment)] if is_assigned and is_consumer else []
    count = len(assigned[0]) if assigned else None
    return {
        "group_assignments": [_of_sender(envelope, request, partitions) for partitions in assigned],
        **_rows(in_generation("sync", request, response, count)),
    }


_DESCRIBE_GROUPS = """
DescribeGroupsResponse response
  Groups []DescribedGroup 0+
    ErrorCode int16 0+, GroupId string 0+, ProtocolType string 0+
    Members []DescribedGroupMember 0+
      MemberId string 0+, ClientId string 0+, ClientHost string 0+, MemberAssignment bytes 0+
"""


def _described(_: Any, response: Any, __: Envelope) -> Iterator[Row]:
    for group in response.groups if response else ():
        for member in group.members if group.protocol_type == _CONSUMER else ():
            for partitions in _assigned(member.member_assignment):
                yield _described_member(group, member, partitions)


_CONSUMER_GROUP_DESCRIBE = """
ConsumerGroupDescribeResponse response
  Groups []DescribedGroup 0+
    ErrorCode int16 0+, GroupId string 0+
    Members []Member 0+
      MemberId string 0+, ClientId string 0+, ClientHost string 0+
      Assignment Assignment 0+
        TopicPartitions []TopicPartitions 0+
          TopicId uuid 0+, TopicName string 0+, Partitions []int32 0+
"""


def _described_consumers(_: Any, response: Any, __: Envelope) -> Iterator[Row]:
    for group in response.groups if response else ():
        for member in group.members:
            partitions = [
                (topic.topic_id, topic.topic_name, partition, None)
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            ]
            yield _described_member(group, member, partitions)


def _of_sender(envelope: Envelope, request: Any, partitions: _Partitions) -> Row:
    remote = _REMOTE_HOST.search(envelope.connection)
    host = remote[1] if remote else None
    sender = envelope.request_header.client_id, host
    return (request.group_id, request.member_id, *sender, partitions)


def _described_member(group: Any, member: Any, partitions: _Partitions) -> Row:
    # InetAddress.toString: a slash before the address.
    host = member.client_host.rpartition("/")[2]
    return (group.group_id, member.member_id, member.client_id, host, partitions)


def _assigned(encoded: str) -> Iterator[list[tuple[None, str, int, None]]]:
    """Decodes the partitions in a ``ConsumerProtocolAssignment``; nothing where it is none."""
    partitions = []
    try:
        data = b64decode(encoded)
        _, topics = unpack_from(">hi", data)
        at = 6
        for _ in range(topics):
            (length,) = unpack_from(">h", data, at)
            name, at = data[at + 2 : at + 2 + length].decode(), at + 2 + length
            (count,) = unpack_from(">i", data, at)
            numbers = unpack_from(f">{count}i", data, at + 4)
            partitions += [(None, name, number, None) for number in numbers]
            at += 4 + 4 * count
    except (TooShort, ValueError):
        return
    yield partitions


def _reader(text: str, read: Callable[[Any, Any, Envelope], Iterator[Row]]) -> Reader:
    def rows(request: Any, response: Any, envelope: Envelope) -> TypedRows:
        # A response may name a member twice.
        members = {row[:2]: row for row in read(request, response, envelope)}
        return {"group_assignments": [*members.values()]}

    return Reader(text, rows)


READERS = {
    8: _reader(_OFFSET_COMMIT, _commit),
    11: Reader(_JOIN_GROUP, _joined),
    12: Reader(_HEARTBEAT, _heartbeat),
    13: Reader(_LEAVE_GROUP, _left),
    14: Reader(_SYNC_GROUP, _synced),
    15: _reader(_DESCRIBE_GROUPS, _described),
    68: Reader(_CONSUMER_GROUP_HEARTBEAT, _consumer_heartbeat),
    69: _reader(_CONSUMER_GROUP_DESCRIBE, _described_consumers),
}
