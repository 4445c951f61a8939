"""Reads who joins, synchronizes, sends heartbeats to and leaves a group: ``group_requests``.

Source: ``JoinGroup``, ``SyncGroup``, ``Heartbeat``, ``LeaveGroup`` and
``ConsumerGroupHeartbeat{Request,Response}.json`` (KIP-848); why a member joins again or leaves is
KIP-800's.
"""

from typing import Any, NamedTuple

from .bodies import Reader, TypedRows
from .envelope import Envelope

#: ConsumerGroupHeartbeatRequest.json: to leave for good, and to leave as a static member.
_LEAVING = (-1, -2)


class GroupRequest(NamedTuple):
    """What a row has of bodies; ``replay.log_tables`` says what each column is."""

    group_id: str
    member_id: str
    action: str
    protocol: str = "classic"
    sent_generation: int | None = None
    generation: int | None = None
    error_code: int | None = None
    members: int | None = None
    assigned: int | None = None
    reason: str | None = None


def _rows(*requests: GroupRequest) -> TypedRows:
    return {"group_requests": [*requests]}


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
        row = row._replace(
            # A new member gets its id.
            member_id=response.member_id or request.member_id,
            generation=response.generation_id,
            error_code=response.error_code,
            members=len(response.members) or None,
        )
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
    if request.members is None:
        return _rows(
            GroupRequest(request.group_id, request.member_id, "leave", error_code=error_code)
        )
    errors = {} if error_code else {of.member_id: of.error_code for of in response.members or ()}
    # A static member may be named by its instance alone: then its id is empty.
    members = {member.member_id: member.reason for member in request.members}
    return _rows(
        *(
            GroupRequest(
                request.group_id,
                member_id,
                "leave",
                error_code=errors.get(member_id, error_code),
                reason=reason,
            )
            for member_id, reason in members.items()
        )
    )


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
        row = row._replace(
            member_id=request.member_id or response.member_id or "",
            generation=response.member_epoch,
            error_code=response.error_code,
        )
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            row = row._replace(assigned=sum(len(topic.partitions) for topic in topics))
    return _rows(row)


READERS = {
    11: Reader(_JOIN_GROUP, _joined),
    12: Reader(_HEARTBEAT, _heartbeat),
    13: Reader(_LEAVE_GROUP, _left),
    68: Reader(_CONSUMER_GROUP_HEARTBEAT, _consumer_heartbeat),
}
