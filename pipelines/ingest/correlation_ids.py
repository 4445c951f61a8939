"""Whether correlation ids contradict the stamp of a line.

A broker reads one request at a time from a connection (``SocketServer`` mutes it until the response
is sent), and clients number what they send (``NetworkClient``, librdkafka): on a connection,
correlation ids and stamps rise together from line to line. So a later id with an earlier stamp is a
contradiction; and so is the next id more than half an hour later, when the connection had long been
closed (``connections.max.idle.ms``, ten minutes). What came inside an ENVELOPE has the ids of other
connections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kip_replay.pipelines.ingest.stamps import (
    APART_S,
    BACK_S,
    NEIGHBOURS,
    Doubt,
    Stray,
    Suspect,
    second_of,
    shown,
)
from kip_replay.replay.kafka.request_log.envelope import decode_envelope
from kip_replay.replay.kafka.request_log.line import split_line, without_line_end
from kip_replay.replay.kafka.request_log.reasons import Unreadable

#: Lines before a suspect among which one of its connection is looked for.
_LINES_BEFORE = 1000
#: More suspects of a file are not looked into.
SUSPECTS_MAX = 100
#: Ids further apart may have been requests of other times: the log was off, or others were sent to.
_NEXT_IDS = 10


class _Request(NamedTuple):
    line_number: int
    connection: str
    correlation_id: int
    second: int


def contradicted(
    suspects: Collection[Suspect], strays: Collection[int], lines: Iterable[tuple[int, bytes]]
) -> list[Stray]:
    """Those of the first ``SUSPECTS_MAX`` suspects whose stamps cannot be.

    ``lines``: the file's lines with their numbers, in order. Those in ``strays`` prove nothing.
    """
    looked_into = sorted(suspects, key=lambda suspect: suspect.line_number)[:SUSPECTS_MAX]
    wanted = {
        number
        for suspect in looked_into
        for number in range(
            suspect.line_number - _LINES_BEFORE, suspect.line_number + NEIGHBOURS + 1
        )
    }
    requests = {
        number: request
        for number, line in lines
        if number in wanted and number not in strays and (request := _request(number, line))
    }
    found = ((suspect, _contradiction(suspect, requests)) for suspect in looked_into)
    return [Stray(suspect.line_number, why) for suspect, why in found if why]


def _request(line_number: int, line: bytes) -> _Request | None:
    try:
        stamp, json = split_line(without_line_end(line))
        second = second_of(stamp)
        envelope = decode_envelope(json)
    except Unreadable:
        return None
    if envelope.is_forwarded:
        return None
    correlation_id = envelope.request_header.correlation_id
    return _Request(line_number, envelope.connection, correlation_id, second)


def _contradiction(suspect: Suspect, requests: Mapping[int, _Request]) -> str | None:
    here = requests.get(suspect.line_number)
    if here is None:
        return None
    if suspect.doubt is Doubt.first:
        others = range(suspect.line_number + 1, suspect.line_number + NEIGHBOURS + 1)
    else:
        others = range(suspect.line_number - 1, suspect.line_number - _LINES_BEFORE - 1, -1)
    other = next(
        (r for n in others if (r := requests.get(n)) and r.connection == here.connection), None
    )
    if other is None:
        return None
    earlier, later = (here, other) if suspect.doubt is Doubt.first else (other, here)
    ids = (later.correlation_id - earlier.correlation_id) % 2**32
    seconds = later.second - earlier.second
    goes_back = 0 < ids < 2**31 and seconds < -BACK_S
    if goes_back or (0 < ids <= _NEXT_IDS and seconds > APART_S):
        return (
            f"{shown(here.second)} has the correlation id {here.correlation_id} on a connection "
            f"that has {other.correlation_id} at {shown(other.second)}"
        )
    return None
