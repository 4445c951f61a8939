"""A naive reader of what min_isr_acks reads: json.loads a line, straight to the rule's events.

Like ``naive_log``, it shares no code with ``kafka.request_log`` nor with ``pipelines``, so that a
golden test which passes here and rows that equal Spark's are a differential test of both.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from kip_replay.replay.min_isr_acks import ACKS_SCHEMA, variants
from kip_replay.replay.min_isr_acks.closed_loop_replay import ProducersReact
from kip_replay.replay.min_isr_acks.events import (
    KIND_ORDER,
    MIN_INSYNC_REPLICAS,
    PROGRESS_US_MAX,
    SILENCE,
    SILENCE_US,
    Event,
    Kind,
    Partition,
    batch_of,
)
from kip_replay.replay.min_isr_acks.holes import NO_HOLES, Holes
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks

from .naive_log import METADATA_TOPIC_ID, Line, lines_of_recording

#: Consumers fetch what is produced; without and with fetch sessions.
WITH_CONSUMERS = ("sessions-off", "sessions-on")
RECORDINGS = (
    "acks-varying",
    "acks-slow-follower",
    "acks-two-replicas",
    "acks-not-enough",
    "mixed-4.2",
    *WITH_CONSUMERS,
)
PRODUCE, FETCH, METADATA, CREATE_TOPICS, DESCRIBE_CONFIGS = 0, 1, 3, 19, 32
INCREMENTAL_ALTER_CONFIGS, ALTER_PARTITION, BROKER_HEARTBEAT = 44, 56, 63
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
CONSUMER = -1
_OPERATIONS = {0: "set", 1: "delete"}
Row = dict[str, Any]


@cache
def events_of(recording: str) -> dict[int, list[Event]]:
    """The events of every node that was sent a PRODUCE, in the order of the rule."""
    return events_in(lines_of_recording(recording))


def events_in(lines: list[Line]) -> dict[int, list[Event]]:
    """The events of every node that was sent a PRODUCE, of some lines."""
    leaders = {line.node_id for line in lines if line.api == PRODUCE}
    own: dict[int, list[Event]] = defaultdict(list)
    shared: list[Event] = []
    for line in lines:
        api = line.api
        if api == PRODUCE:
            own[line.node_id].append(_produce(line))
        elif api == FETCH:
            _fetch(line, own)
        elif line.what["response"]:
            shared.extend(_facts(line, api))
    shared.extend(_heartbeats([line for line in lines if line.api == BROKER_HEARTBEAT]))
    return {
        node: sorted([*own[node], *shared], key=lambda event: event[:3]) for node in sorted(leaders)
    }


@cache
def rows_of(recording: str, sweep: tuple[int, ...] = ()) -> list[Row]:
    return [
        row for node, events in events_of(recording).items() for row in replay(node, events, sweep)
    ]


def replay(
    node: int, events: list[Event], sweep: tuple[int, ...] = (), holes: Holes = NO_HOLES
) -> list[Row]:
    increments = [batch_of(events[at : at + 1500]) for at in range(0, len(events), 1500)]
    replay = MinIsrAcks(node, variants(sweep), holes=holes)
    emitted = [one.acks for one in (*map(replay.feed, increments), replay.finish())]
    rows: list[Row] = pa.Table.from_batches(emitted, ACKS_SCHEMA).to_pylist()
    return rows


@cache
def reacting_rows_of(recording: str) -> list[Row]:
    """Rows of producers that react, of every leader of a recording."""
    rows: list[Row] = []
    for node, events in events_of(recording).items():
        react = ProducersReact(node, partial(MinIsrAcks, node, variants(), None))
        emitted = [react.feed(batch_of(events))[1], react.finish()[1]]
        rows += pa.Table.from_batches(emitted).to_pylist()
    return rows


def _handled(line: Line) -> int:
    return line.dequeued_us + round(line.what["localTimeMs"] * 1000)


def _event(at_us: int, kind: Kind, request_id: str, **columns: Any) -> Event:
    return Event(at_us, KIND_ORDER[kind], request_id, kind.value, **columns)


def _produce(line: Line) -> Event:
    request, response = line.what["request"], line.what["response"]
    responded = {
        (topic.get("name"), topic.get("topicId"), partition["index"]): partition
        for topic in (response["responses"] if response else ())
        for partition in topic["partitionResponses"]
    }
    partitions = []
    for topic in request["topicData"]:
        for sent in topic["partitionData"]:
            key = (topic.get("name"), topic.get("topicId"), sent["index"])
            partition_response = responded.get(key, {})
            partitions.append(
                Partition(
                    *key,
                    record_bytes=sent["recordsSizeInBytes"],
                    base_offset=partition_response.get("baseOffset"),
                    error_code=partition_response.get("errorCode"),
                )
            )
    return _event(
        line.dequeued_us,
        Kind.PRODUCE,
        line.digest,
        received_us=line.received_us,
        dequeued_us=line.dequeued_us,
        handled_us=_handled(line),
        built_us=line.built_us,
        client_id=line.what["requestHeader"]["clientId"],
        connection=line.what["connection"],
        acks=request["acks"],
        timeout_us=request["timeoutMs"] * 1000,
        is_transactional=request["transactionalId"] is not None,
        partitions=partitions,
    )


def _fetch(line: Line, own: dict[int, list[Event]]) -> None:
    request, response = line.what["request"], line.what["response"]
    state = request.get("replicaState", {})
    replica = state.get("replicaId", request.get("replicaId", -1))
    if response.get("errorCode"):
        return
    if replica < 0:
        if replica == CONSUMER:
            own[line.node_id].append(_consumer_fetch(line))
        return
    responses = {
        (topic["topicId"], partition["partitionIndex"]): partition
        for topic in response["responses"]
        for partition in topic["partitions"]
    }
    if any(topic["topicId"] == METADATA_TOPIC_ID for topic in request["topics"]):
        (requested,) = request["topics"][0]["partitions"]
        (responded,) = responses.values()
        if responded["errorCode"] == 0:
            own[replica].append(
                _event(
                    line.received_us,
                    Kind.METADATA_FETCH,
                    line.digest,
                    received_us=line.received_us,
                    built_us=line.built_us,
                    replica_id=line.node_id,
                    fetch_offset=requested["fetchOffset"],
                    high_watermark=responded["highWatermark"],
                )
            )
        return
    requested = [
        Partition(
            None,
            topic["topicId"],
            partition["partition"],
            fetch_offset=partition["fetchOffset"],
            leader_epoch=partition["currentLeaderEpoch"],
            is_refused=_is_refused(responses.get((topic["topicId"], partition["partition"]))),
        )
        for topic in request["topics"]
        for partition in topic["partitions"]
    ]
    handled = _handled(line)
    own[line.node_id].append(
        _event(
            line.dequeued_us + min((handled - line.dequeued_us) // 2, PROGRESS_US_MAX),
            Kind.FETCH,
            line.digest,
            dequeued_us=line.dequeued_us,
            handled_us=handled,
            built_us=line.built_us,
            replica_id=replica,
            replica_epoch=state.get("replicaEpoch", -1),
            session_id=response["sessionId"],
            partitions=requested,
        )
    )


def _consumer_fetch(line: Line) -> Event:
    request = line.what["request"]
    listed = [
        Partition(topic.get("topic"), topic.get("topicId"), partition["partition"])
        for topic in request["topics"]
        for partition in topic["partitions"]
    ]
    forgotten = [
        Partition(topic.get("topic"), topic.get("topicId"), number, is_forgotten=True)
        for topic in request.get("forgottenTopicsData", ())
        for number in topic["partitions"]
    ]
    return _event(
        _handled(line),
        Kind.CONSUMER_FETCH,
        line.digest,
        built_us=line.built_us,
        session_id=line.what["response"].get("sessionId", 0),
        is_full=request.get("sessionEpoch", -1) in (0, -1),
        min_bytes=request["minBytes"],
        partitions=listed + forgotten,
    )


def _is_refused(partition_response: dict[str, Any] | None) -> bool:
    return partition_response is not None and (
        partition_response["errorCode"] != 0 or "divergingEpoch" in partition_response
    )


def _facts(line: Line, api: int) -> Iterator[Event]:
    if api == METADATA:
        yield from _metadata(line)
    elif api == ALTER_PARTITION:
        yield from _alter_partition(line)
    elif api in (CREATE_TOPICS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS):
        for index, (name, operation, value) in enumerate(_configs(line, api)):
            yield _event(
                line.built_us,
                Kind.CONFIG,
                f"{line.digest} {index:04}",
                built_us=None if api == CREATE_TOPICS else line.built_us,
                replica_id=line.node_id,
                name=name,
                operation=operation,
                value=value,
            )


def _metadata(line: Line) -> Iterator[Event]:
    responded = []
    for topic in line.what["response"]["topics"]:
        if topic["name"] and topic.get("topicId"):
            yield _event(
                -1, Kind.TOPIC, topic["topicId"], name=topic["name"], value=topic["topicId"]
            )
        responded += [
            Partition(
                topic["name"],
                topic.get("topicId"),
                partition["partitionIndex"],
                leader_epoch=partition["leaderEpoch"],
                leader_id=partition["leaderId"],
                isr=partition["isrNodes"],
                replicas=partition["replicaNodes"],
            )
            for partition in topic["partitions"]
            if partition["errorCode"] == 0
        ]
    yield _event(
        line.built_us, Kind.METADATA, line.digest, replica_id=line.node_id, partitions=responded
    )


def _alter_partition(line: Line) -> Iterator[Event]:
    if line.what["response"]["errorCode"]:
        return
    requested = [
        Partition(
            None,
            topic["topicId"],
            partition["partitionIndex"],
            isr=[replica["brokerId"] for replica in partition["newIsrWithEpochs"]],
        )
        for topic in line.what["request"]["topics"]
        for partition in topic["partitions"]
    ]
    committed = [
        Partition(
            None,
            topic["topicId"],
            partition["partitionIndex"],
            isr=None if partition["errorCode"] else partition["isr"],
        )
        for topic in line.what["response"]["topics"]
        for partition in topic["partitions"]
    ]
    yield _event(line.dequeued_us, Kind.ISR_ASKED, line.digest, partitions=requested)
    yield _event(line.built_us, Kind.ISR_ANSWERED, line.digest, partitions=committed)


def _configs(line: Line, api: int) -> Iterator[tuple[str, str, str | None]]:
    request, response = line.what["request"], line.what["response"]
    if api == CREATE_TOPICS:
        created = {topic["name"] for topic in response["topics"] if topic["errorCode"] == 0}
        for topic in request["topics"]:
            for config in topic["configs"]:
                if config["name"] == MIN_INSYNC_REPLICAS and topic["name"] in created:
                    yield topic["name"], "set", config["value"]
        return
    describes = api == DESCRIBE_CONFIGS
    results = response["results" if describes else "responses"]
    fine = {(r["resourceType"], r["resourceName"]) for r in results if r["errorCode"] == 0}
    for resource in results if describes else request["resources"]:
        of = (resource["resourceType"], resource["resourceName"])
        if of not in fine or of[0] not in (TOPIC_RESOURCE, BROKER_RESOURCE):
            continue
        for config in resource["configs"]:
            if config["name"] == MIN_INSYNC_REPLICAS:
                operation = "describe" if describes else _OPERATIONS[config["configOperation"]]
                yield of[1] if of[0] == TOPIC_RESOURCE else "", operation, config["value"]


def _heartbeats(lines: list[Line]) -> Iterator[Event]:
    """All heartbeats without an error, also those that repeat the last."""
    brokers: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        if line.what["response"]["errorCode"] == 0:
            brokers[line.what["request"]["brokerId"]].append(line)
    for broker, beats in brokers.items():
        beats.sort(key=lambda line: line.dequeued_us)
        gaps = [after.dequeued_us - line.dequeued_us for line, after in pairwise(beats)]
        for line, gap in zip(beats, [*gaps, None], strict=True):
            silent = gap is None or gap > SILENCE_US
            yield _event(
                line.dequeued_us,
                Kind.HEARTBEAT,
                line.digest,
                dequeued_us=line.dequeued_us,
                built_us=line.built_us,
                replica_id=broker,
                replica_epoch=line.what["request"]["brokerEpoch"],
                want_shut_down=line.what["request"]["wantShutDown"],
                is_fenced=line.what["response"]["isFenced"],
                operation=SILENCE if silent else None,
            )
