"""A naive reader for ``lowest_acked_offset``: json.loads a line, one line an ``Event``.

It shares no code with ``kafka.request_log``. Beside the rule's input it reads what the rule never
sees: brokers' METADATA responses, which show for each moment whether a topic was visible there, and
those of DESCRIBE_QUORUM. What clients noted down is no truth about a broker: their library polls
whichever broker it likes (of metadata-4.1's polls nearly all reached broker 12).
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from notation.heartbeats import in_order
from notation.recorded import replay_of as parking_of
from recorded_logs import folder_of

from kip_replay.replay.hwm_parking import variants
from kip_replay.replay.lowest_acked_offset import events
from kip_replay.replay.lowest_acked_offset.events import NOT_SENT, Event

from .naive_log import Line, lines_of_recording, metadata_fetch, recording

METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, ALTER_CONFIGS = 3, 18, 19, 20, 44
DESCRIBE_QUORUM, BROKER_HEARTBEAT = 55, 63
WRITES = {CREATE_TOPICS, DELETE_TOPICS, ALTER_CONFIGS}
UNKNOWN_TOPIC = 3


class Poll(NamedTuple):
    """A METADATA to a broker: the topics requested (None: all), and those that it knew."""

    dequeued_us: int
    built_us: int
    requested: frozenset[str] | None
    shown: frozenset[str]


class Observed(NamedTuple):
    """A recording: the rule's input, and the truth beside it.

    ``applied``: by broker, (last offset of an image, when its publishers had run on it), in order.
    """

    events: list[Event]
    polls: dict[int, list[Poll]]
    high_watermarks: list[tuple[int, int]]
    created: dict[str, str]
    deleted_us: dict[str, int]
    applied: dict[int, list[tuple[int, int]]]


@cache
def observed(name: str) -> Observed:
    folder = folder_of(name)
    manifest = json.loads((folder / "recording.json").read_text())
    lines = lines_of_recording(name)
    brokers = {n["node_id"] for n in manifest["nodes"] if n["role"] == "broker"}
    events = [event for line in lines if (event := _event(line, brokers)) is not None]
    events += _learned(name)
    polls: dict[int, list[Poll]] = {broker: [] for broker in brokers}
    for line in lines:
        if line.node_id in brokers and line.api == METADATA:
            polls[line.node_id].append(_poll(line))
    return Observed(
        in_order(events),
        {
            broker: sorted(found, key=lambda poll: poll.dequeued_us)
            for broker, found in polls.items()
        },
        [found for line in lines if line.node_id not in brokers for found in _high_watermark(line)],
        {line.digest: _name(line) for line in lines if line.api == CREATE_TOPICS},
        {
            name: line.received_us
            for line in lines
            if line.api == DELETE_TOPICS and line.node_id in brokers
            for name in line.what["request"]["topicNames"]
        },
        {broker: _applied(folder / f"applied-{broker}.txt") for broker in brokers},
    )


def _applied(file: Path) -> list[tuple[int, int]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(offset), int(at)) for offset, at in map(str.split, lines)]


def _event(line: Line, brokers: set[int]) -> Event | None:
    api, request, response = line.api, line.what["request"], line.what["response"]
    if api == BROKER_HEARTBEAT:
        return _clocked(
            line,
            events.HEARTBEAT,
            error_code=response["errorCode"],
            connection=line.what["connection"],
            broker_id=request["brokerId"],
            broker_epoch=request["brokerEpoch"],
            offset=request["currentMetadataOffset"],
            want_fence=request["wantFence"],
            want_shut_down=request["wantShutDown"],
            is_fenced=response["isFenced"],
        )
    if api in WRITES:
        return _write(line, api)
    if api == API_VERSIONS and line.node_id in brokers:
        epoch = response.get("finalizedFeaturesEpoch", -1)
        return _clocked(
            line, events.API_VERSIONS, error_code=0, broker_id=line.node_id, offset=epoch
        )
    fetch = metadata_fetch(line)
    if fetch is None:
        return None
    return _clocked(
        line,
        events.FETCH,
        error_code=fetch.error_code,
        broker_id=fetch.replica_id,
        offset=fetch.fetch_offset,
        leader_epoch=fetch.leader_epoch,
        last_fetched_epoch=fetch.last_fetched_epoch,
        high_watermark=NOT_SENT if fetch.api_version < 18 else fetch.high_watermark,
        is_diverging=fetch.is_diverging or fetch.is_snapshot,
        response_high_watermark=fetch.response_high_watermark,
        correlation_id=fetch.correlation_id,
    )


def _clocked(line: Line, kind: str, **fields: Any) -> Event:
    local_us = round(line.what["localTimeMs"] * 1000)
    return Event(
        line.built_us,
        kind,
        line.digest,
        line.node_id,
        received_us=line.received_us,
        dequeued_us=line.dequeued_us,
        handled_us=line.dequeued_us + local_us,
        **fields,
    )


def _write(line: Line, api: int) -> Event:
    request, response, header = (line.what[k] for k in ("request", "response", "requestHeader"))
    results = response["topics" if api == CREATE_TOPICS else "responses"]
    key = "resourceName" if api == ALTER_CONFIGS else "name"
    granted = {result[key] for result in results if result["errorCode"] == 0}
    topics = request["topics"] if api == CREATE_TOPICS else []
    created = [topic for topic in topics if topic["name"] in granted]
    return _clocked(
        line,
        events.WRITE,
        error_code=0,
        connection=line.what["connection"],
        api_name=header["requestApiKeyName"],
        client_id=header["clientId"],
        correlation_id=header["correlationId"],
        is_forwarded=line.what["isForwarded"],
        validate_only=request.get("validateOnly", False),
        written=len(granted),
        partitions=sum(t["numPartitions"] for t in created),
        topics=[topic["name"] for topic in created] or sorted(granted),
        replicas=[_replicas(topic) for topic in created],
        configs=sum(len(t["configs"]) for t in created),
    )


def _replicas(topic: dict[str, Any]) -> int:
    if topic["assignments"]:
        return sum(len(partition["brokerIds"]) for partition in topic["assignments"])
    replicas: int = topic["numPartitions"] * topic["replicationFactor"]
    return max(0, replicas)


def _learned(name: str) -> Iterator[Event]:
    """When replicas learned, as hwm_parking has it: recorded, without and with KIP-1166."""
    log = recording(name)
    for node, fetches in log.fetches.items():
        for row in parking_of(node, log.voters, variants(), [fetches]).lag:
            if row["learned_at"] is not None:
                names = ("variant", "leader_epoch", "replica_id", "high_watermark")
                yield Event(
                    row["learned_at"],
                    events.LEARNED,
                    "/".join(str(row[n]) for n in names),
                    node,
                    error_code=0,
                    broker_id=row["replica_id"],
                    high_watermark=row["high_watermark"],
                    variant=row["variant"],
                )


def _poll(line: Line) -> Poll:
    requested, returned = line.what["request"]["topics"], line.what["response"]["topics"]
    return Poll(
        line.dequeued_us,
        line.built_us,
        None if requested is None else frozenset(topic["name"] for topic in requested),
        frozenset(topic["name"] for topic in returned if topic["errorCode"] != UNKNOWN_TOPIC),
    )


def _high_watermark(line: Line) -> Iterator[tuple[int, int]]:
    if line.api == DESCRIBE_QUORUM and line.what["response"]["topics"]:
        partition = line.what["response"]["topics"][0]["partitions"][0]
        if partition["errorCode"] == 0:
            yield line.built_us, partition["highWatermark"]


def _name(line: Line) -> str:
    name: str = line.what["request"]["topics"][0]["name"]
    return name
