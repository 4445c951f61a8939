"""Finds which node logged a file by what its lines say; the names of files are guesses.

A node describes its own configs only (``ConfigHelper``), a vote names the voter that it is sent to,
clients reach a broker where METADATA says that it is, and write to a partition's leader.
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kip_replay.replay.kafka.request_log.line import json_of, stamp_of

_BROKER, _BROKER_LOGGER = 4, 8
#: Clients' METADATA is older than their requests, so not every write has to agree.
_SHARE_MIN = 0.9


@dataclass
class Said:
    """What lines say: ids that are the node's ``own``, the local ends of its connections and its
    writes by stamp and partition; and of the cluster, brokers by address and leaders by partition.
    """

    own: Counter[int] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    writes: list[tuple[bytes, Any]] = field(default_factory=list)
    brokers: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    leaders: dict[Any, list[tuple[bytes, int]]] = field(default_factory=lambda: defaultdict(list))


def said_by(lines: Iterable[bytes]) -> Said:
    said = Said()
    for line in lines:
        with suppress(msgspec.DecodeError, ArithmeticError, AttributeError, LookupError, TypeError):
            _note(said, stamp_of(line), msgspec.json.decode(json_of(line)))
    return said


def _note(said: Said, stamp: bytes, line: Any) -> None:
    key, response = line["requestHeader"]["requestApiKey"], line["response"]
    said.ends[line["connection"].partition("-")[0]] += 1
    if key == 0:
        for partition, of in _partitions(response["responses"], "partitionResponses", "index"):
            said.writes += [(stamp, partition)] if of["errorCode"] == 0 else []
    elif key == 3:
        for broker in response["brokers"]:
            said.brokers[f"{broker['host']}:{broker['port']}"].add(broker["nodeId"])
        for partition, of in _partitions(response["topics"], "partitions", "partitionIndex"):
            said.leaders[partition].append((stamp, of["leaderId"]))
    elif key in (32, 44):
        for of in response.get("results") or response["responses"]:
            types = (_BROKER, _BROKER_LOGGER) if key == 32 else (_BROKER_LOGGER,)
            if of["errorCode"] == 0 and of["resourceType"] in types and of["resourceName"]:
                said.own[int(of["resourceName"])] += 1
    elif key in (52, 53) and response["errorCode"] == 0 and line["request"]["voterId"] >= 0:
        said.own[line["request"]["voterId"]] += 1


def _partitions(topics: Any, name: str, index: str) -> Iterator[tuple[Any, Any]]:
    for topic in topics:
        for partition in topic[name]:
            for known in filter(None, (topic.get("name"), topic.get("topicId"))):
                yield (known, partition[index]), partition


def own_ids(logs: Sequence[Said]) -> list[int | None]:
    """Each log's node id, None where its lines do not say."""
    brokers: dict[str, set[int]] = defaultdict(set)
    leaders: dict[Any, list[tuple[bytes, int]]] = defaultdict(list)
    for said in logs:
        for address, ids in said.brokers.items():
            brokers[address] |= ids
        for partition, states in said.leaders.items():
            leaders[partition] += states
    leaders = {partition: sorted(states) for partition, states in leaders.items()}
    return [_own_id(said, brokers, leaders) for said in logs]


def _own_id(
    said: Said, brokers: dict[str, set[int]], leaders: dict[Any, list[tuple[bytes, int]]]
) -> int | None:
    reached: Counter[int] = Counter()
    for end, count in said.ends.items():
        if len(ids := brokers.get(end, set())) == 1:
            reached[min(ids)] += count
    led: Counter[int] = Counter()
    for stamp, partition in said.writes:
        states = leaders.get(partition, [])
        at = bisect(states, (stamp, 1 << 31))
        around = {leader for _, leader in states[max(at - 1, 0) : at + 1]}
        led.update(around if len(around) == 1 else ())
    for votes in (said.own, reached, led):
        for node_id, count in votes.most_common(1):
            if node_id >= 0 and count >= _SHARE_MIN * votes.total():
                return node_id
    return None
