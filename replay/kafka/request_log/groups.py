"""Which partitions members of consumer groups have, from four APIs: ``group_assignments``.

Source: ``OffsetCommitRequest.json`` (a consumer commits all its partitions that have a position),
``SyncGroup{Request,Response}.json``, ``DescribeGroupsResponse.json`` and
``ConsumerGroupDescribeResponse.json``. Assignments of the classic protocol are bytes
(``ConsumerProtocolAssignment.json``); those of other protocols (Kafka Connect) give no row.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from struct import error as TooShort
from struct import unpack_from
from typing import Any

import msgspec

from .bodies import At, Body, Row, Structs, TypedRows, decode_request, decode_response
from .envelope import Envelope, Int16, Int32

_REMOTE_HOST = re.compile(r":\d+-(.*):\d+-\d+(?:-\d+)?$", re.DOTALL)
_CONSUMER = "consumer"


class _Topic(msgspec.Struct, rename="camel", frozen=True):
    topic_id: str
    topic_name: str
    partitions: list[Int32]


class _Assignment(msgspec.Struct, rename="camel", frozen=True):
    topic_partitions: list[_Topic]


_commit = Body(
    group_id=str,
    member_id=At("1+", str, ""),
    topics=Structs(
        name=At("0-9", str, None),
        topic_id=At("10+", str, None),
        partitions=Structs(partition_index=Int32),
    ),
)
_sync = Body(group_id=str, member_id=str, protocol_type=At("5+", str | None, None))
_synced = Body(error_code=Int16, assignment=str)
_described = Body(
    groups=Structs(
        error_code=Int16,
        group_id=str,
        protocol_type=str,
        members=Structs(member_id=str, client_id=str, client_host=str, member_assignment=str),
    )
)
_described_consumers = Body(
    groups=Structs(
        error_code=Int16,
        group_id=str,
        members=Structs(
            member_id=str,
            client_id=str,
            client_host=str,
            assignment=_Assignment,
        ),
    )
)
_Partitions = Iterable[tuple[str | None, str | None, int]]


def _read_commit(envelope: Envelope) -> Iterator[Row]:
    request = decode_request(envelope, _commit)
    # Without a member, it is somebody who resets offsets.
    if request is not None and request.member_id:
        partitions = [
            (topic.topic_id, topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ]
        yield _of_sender(envelope, request, partitions)


def _read_sync(envelope: Envelope) -> Iterator[Row]:
    request, response = decode_request(envelope, _sync), decode_response(envelope, _synced)
    if request is None or response is None or response.error_code:
        return
    if request.protocol_type in (None, _CONSUMER):
        yield from (_of_sender(envelope, request, of) for of in _assigned(response.assignment))


def _read_described(envelope: Envelope) -> Iterator[Row]:
    response = decode_response(envelope, _described)
    for group in response.groups if response else ():
        for member in group.members if group.protocol_type == _CONSUMER else ():
            for partitions in _assigned(member.member_assignment):
                yield _described_member(group, member, partitions)


def _read_described_consumers(envelope: Envelope) -> Iterator[Row]:
    response = decode_response(envelope, _described_consumers)
    for group in response.groups if response else ():
        for member in group.members:
            partitions = [
                (topic.topic_id, topic.topic_name, partition)
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            ]
            yield _described_member(group, member, partitions)


_READERS: dict[int, Callable[[Envelope], Iterator[Row]]] = {
    8: _read_commit,
    14: _read_sync,
    15: _read_described,
    69: _read_described_consumers,
}
API_KEYS = tuple(_READERS)


def read(envelope: Envelope) -> TypedRows:
    rows = _READERS[envelope.request_header.request_api_key](envelope)
    # A response may name a member twice.
    return TypedRows(group_assignments=list({row[:2]: row for row in rows}.values()))


def _of_sender(envelope: Envelope, request: Any, partitions: _Partitions) -> Row:
    remote = _REMOTE_HOST.search(envelope.connection)
    host = remote[1] if remote else None
    sender = envelope.request_header.client_id, host
    return (request.group_id, request.member_id, *sender, _structs(partitions))


def _described_member(group: Any, member: Any, partitions: _Partitions) -> Row:
    # InetAddress.toString: a slash before the address.
    host = member.client_host.rpartition("/")[2]
    return (group.group_id, member.member_id, member.client_id, host, _structs(partitions))


def _structs(partitions: _Partitions) -> list[dict[str, Any]]:
    names = ("topic_id", "topic", "partition")
    return [dict(zip(names, each, strict=True)) for each in partitions]


def _assigned(encoded: str) -> Iterator[list[tuple[None, str, int]]]:
    """The partitions in ``ConsumerProtocolAssignment``; nothing where it is none."""
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
            partitions += [(None, name, number) for number in numbers]
            at += 4 + 4 * count
    except (TooShort, ValueError):
        return
    yield partitions
