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

#: ``ConfigResource.Type`` of a broker's configs and of its loggers.
_OF_BROKER = (4, 8)
#: Clients' METADATA is older than their requests, so not every write has to agree.
_SHARE_MIN = 0.9


@dataclass
class Evidence:
    """What lines say: ids that are the node's ``own``, the local ends of its connections and its
    writes by stamp and partition; and of the cluster, brokers by address and leaders by partition.
    """

    own: Counter[int] = field(default_factory=Counter)
    ends: set[str] = field(default_factory=set)
    writes: list[tuple[bytes, Any]] = field(default_factory=list)
    brokers: set[tuple[str, int]] = field(default_factory=set)
    leaders: list[tuple[bytes, Any, int]] = field(default_factory=list)


def evidence_in(lines: Iterable[bytes]) -> Evidence:
    shown = Evidence()
    for line in lines:
        with suppress(msgspec.DecodeError, AttributeError, LookupError, TypeError, ValueError):
            _note(shown, stamp_of(line), msgspec.json.decode(json_of(line)))
    return shown


def _note(shown: Evidence, stamp: bytes, line: Any) -> None:
    key, response = line["requestHeader"]["requestApiKey"], line["response"]
    shown.ends.add(line["connection"].partition("-")[0])
    if key == 0:
        for partition, state in _partitions(response["responses"], "partitionResponses", "index"):
            shown.writes += [(stamp, partition)] if state["errorCode"] == 0 else []
    elif key == 3:
        for broker in response["brokers"]:
            shown.brokers.add((f"{broker['host']}:{broker['port']}", broker["nodeId"]))
        for partition, state in _partitions(response["topics"], "partitions", "partitionIndex"):
            shown.leaders.append((stamp, partition, state["leaderId"]))
    elif key == 32:
        for result in response["results"]:
            name, is_own = result["resourceName"], result["resourceType"] in _OF_BROKER
            shown.own.update([int(name)] if is_own and name and result["errorCode"] == 0 else [])
    elif key in (52, 53) and response["errorCode"] == 0 and line["request"]["voterId"] >= 0:
        shown.own[line["request"]["voterId"]] += 1


def _partitions(topics: Any, name: str, index: str) -> Iterator[tuple[Any, Any]]:
    for topic in topics:
        for partition in topic[name]:
            for known in filter(None, (topic.get("name"), topic.get("topicId"))):
                yield (known, partition[index]), partition


def own_ids(logs: Sequence[Evidence]) -> list[int | None]:
    """Each log's node id, None where its lines do not say."""
    brokers: dict[str, set[int]] = defaultdict(set)
    leaders: dict[Any, list[tuple[bytes, int]]] = defaultdict(list)
    for address, node_id in (broker for shown in logs for broker in shown.brokers):
        brokers[address].add(node_id)
    for stamp, partition, leader in sorted(state for shown in logs for state in shown.leaders):
        leaders[partition].append((stamp, leader))

    def led_at(stamp: bytes, partition: Any) -> set[int]:
        at = bisect(states := leaders.get(partition, []), (stamp, 1 << 31))
        return {leader for _, leader in states[max(at - 1, 0) : at + 1]}

    ids = []
    for shown in logs:
        reached = _only(map(brokers.get, shown.ends))
        led = _only(led_at(*write) for write in shown.writes)
        likely = [_most(votes) for votes in (shown.own, reached, led)]
        ids.append(next((node_id for node_id in likely if node_id is not None), None))
    return ids


def _only(choices: Iterable[set[int] | None]) -> Counter[int]:
    return Counter(min(ids) for ids in choices if ids and len(ids) == 1)


def _most(votes: Counter[int]) -> int | None:
    (best, count), *_ = *votes.most_common(1), (-1, 0)
    return best if best >= 0 and count >= _SHARE_MIN * votes.total() else None
