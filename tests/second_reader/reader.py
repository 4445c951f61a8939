"""Reads raw log lines a second time, knowing nothing of the product: what an operator would count.

Each method is of something that the page says, in the words of Kafka's request log. Times are UTC
microseconds since 1970, a percentile the value of rank floor(q * (n - 1)). What there is once has
an empty key.
"""

import calendar
import gzip
import json
import lzma
import re
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Rows: TypeAlias = Mapping[tuple[Any, ...], tuple[Any, ...]]

_MARK = "Completed request:"
#: What changes metadata in the recordings here.
_WRITES = {"CREATE_TOPICS", "DELETE_TOPICS", "INCREMENTAL_ALTER_CONFIGS", "CREATE_PARTITIONS"}
#: APIs whose responses are searched for errors.
_WITH_ERRORS = {"FETCH", "PRODUCE", "INIT_PRODUCER_ID", "METADATA", "ALTER_PARTITION", *_WRITES}
_WITH_ERRORS |= {"BROKER_HEARTBEAT", "HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT"}
_WITH_ERRORS |= {"JOIN_GROUP", "SYNC_GROUP", "LEAVE_GROUP"}
#: Client ids of controllers and brokers, and of the product's own recorder.
_NODE = re.compile(
    r"(raft-client-|AddPartitionsManager-client-)?\d+|broker-\d+-\D.*|kip-replay-record"
)
#: KIP-896: the lowest versions that 4.0 serves. JOIN_GROUP is served from 0 again since 4.0.1.
_LOWEST = """PRODUCE 3 FETCH 4 LIST_OFFSETS 1 OFFSET_COMMIT 2 OFFSET_FETCH 1 CREATE_TOPICS 2
DELETE_TOPICS 1 OFFSET_FOR_LEADER_EPOCH 2 DESCRIBE_CONFIGS 1 DESCRIBE_ACLS 1 CREATE_ACLS 1"""


class Line(NamedTuple):
    """A request, with when it came, left the queue, was responded to and sent."""

    node: int
    api: str
    version: int
    client: str
    sent: Any
    returned: Any
    body: Mapping[str, Any]
    received: int
    dequeued: int
    built: int
    completed: int

    @property
    def replica(self) -> int:
        state = self.sent.get("replicaState") or {}
        return int(state.get("replicaId", self.sent.get("replicaId", -1)))

    @property
    def records(self) -> int:
        parts = (p for topic in self.returned["responses"] for p in topic["partitions"])
        return sum(p.get("recordsSizeInBytes") or 0 for p in parts)

    @property
    def errors(self) -> set[int]:
        """Error codes anywhere in the response."""
        return {int(c) for c in re.findall(r'"errorCode": (-?[1-9]\d*)', json.dumps(self.returned))}


def percentile(values: Iterable[float], q: float) -> float | None:
    ranked = sorted(values)
    return ranked[int(q * (len(ranked) - 1))] if ranked else None


def _line(node: int, text: str) -> Line:
    body = json.loads(text[text.index(_MARK) + len(_MARK) : text.rindex("}") + 1])
    seconds = calendar.timegm(time.strptime(text[1:20], "%Y-%m-%d %H:%M:%S"))
    completed = 1000 * (1000 * seconds + int(text[21:24]))

    def us(*names: str) -> int:
        return sum(round(1000 * body[f"{name}TimeMs"]) for name in names)

    received, built = completed - us("total"), completed - us("responseQueue", "send")
    times = received, received + us("requestQueue"), built, completed
    head = body["requestHeader"]
    named = head["requestApiKeyName"], head["requestApiVersion"], head["clientId"] or ""
    return Line(node, *named, body["request"], body["response"], body, *times)


def _varint(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _text(text: str | None) -> int:
    size = len((text or "").encode())
    return _varint(size + 1) + size


def _listed(line: Line, topics: Sequence[Any], size_of: Callable[[Any], int]) -> int:
    size = _varint(len(topics) + 1)
    for topic in topics:
        size += 16 if line.version >= 13 else _text(topic["topic"])
        size += _varint(len(topic["partitions"]) + 1) + sum(map(size_of, topic["partitions"])) + 1
    return size


def _sent_bytes(line: Line) -> int:
    """Bytes of a FETCH from version 12 on, with its frame and header."""
    sent, tags = line.sent, {"replicaDirectoryId": 18, "highWatermark": 10}
    size = 15 + len(line.client.encode()) + 4 * (line.version < 15) + 21
    size += _listed(line, sent["topics"], lambda p: 33 + sum(tags[tag] for tag in tags if tag in p))
    size += _listed(line, sent["forgottenTopicsData"], lambda p: 4)
    size += _text(sent["rackId"]) + 1 + 15 * ("replicaState" in sent)
    cluster = _text(sent.get("clusterId"))
    return size + (1 + _varint(cluster) + cluster) * ("clusterId" in sent)


def _returned_bytes(line: Line) -> int:
    def size_of(p: Mapping[str, Any]) -> int:
        aborted, records = p["abortedTransactions"] or (), p.get("recordsSizeInBytes") or 0
        size = 35 + _varint(len(aborted) + 1) + 17 * len(aborted) + _varint(records + 1) + records
        tags = {"currentLeader": 11, "divergingEpoch": 15, "snapshotId": 15}
        return size + sum(tags[tag] for tag in tags if tag in p)

    size, nodes = 20 + _listed(line, line.returned["responses"], size_of), _varint(2)
    for node in line.returned.get("nodeEndpoints", ()):
        nodes += 9 + _text(node["host"]) + _text(node["rack"])
    return size + (1 + _varint(nodes) + nodes) * ("nodeEndpoints" in line.returned)


def _produce_bytes(line: Line) -> tuple[int, int]:
    """Bytes of a PRODUCE both ways, from version 9 on."""

    def size(topics: Sequence[Any], key: str, size_of: Callable[[Any], int]) -> int:
        size = _varint(len(topics) + 1)
        for topic in topics:
            size += 16 if line.version >= 13 else _text(topic["name"])
            size += _varint(len(topic[key]) + 1) + sum(map(size_of, topic[key])) + 1
        return size

    def returned(p: Mapping[str, Any]) -> int:
        return 32 + _text(p["errorMessage"]) + 11 * ("currentLeader" in p)

    def sent(p: Mapping[str, Any]) -> int:
        return 5 + _varint(p["recordsSizeInBytes"] + 1) + int(p["recordsSizeInBytes"])

    out = 22 + len(line.client.encode()) + _text(line.sent["transactionalId"])
    out += size(line.sent["topicData"], "partitionData", sent)
    if not line.returned:  # acks=0
        return out, 0
    nodes = _varint(2)
    for node in line.returned.get("nodeEndpoints", ()):
        nodes += 9 + _text(node["host"]) + _text(node["rack"])
    back = 14 + (1 + _varint(nodes) + nodes) * ("nodeEndpoints" in line.returned)
    return out, back + size(line.returned["responses"], "partitionResponses", returned)


def _shared(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Shares an amount out by weights, in the order of names: each ends at its whole number."""
    total, parts, before, up_to = sum(weights.values()), {}, 0, 0
    for name in sorted(weights):
        up_to += weights[name]
        parts[name], before = amount * up_to // total - before, amount * up_to // total
    return parts


class Recording:
    """The lines of a folder, in the order of their responses, and what they say."""

    def __init__(self, folder: Path) -> None:
        manifest = json.loads((folder / "recording.json").read_text())
        self.facts = manifest.get("facts", {})
        self.read, lines = Counter[int](), list[Line]()
        for node in manifest["nodes"]:
            log = (folder / node["log"]).read_bytes()
            log = lzma.decompress(log) if node["log"].endswith(".xz") else gzip.decompress(log)
            texts = log.decode().splitlines()
            self.read[node["node_id"]] = len(texts)
            lines += [_line(node["node_id"], text) for text in texts if _MARK in text]
        self.lines = sorted(lines, key=lambda line: line.built)
        self.controllers = {n["node_id"] for n in manifest["nodes"] if n["role"] == "controller"}
        self.names = {
            topic["topicId"]: topic["name"]
            for line in self.of("METADATA", "CREATE_TOPICS")
            for topic in line.returned["topics"]
            if topic.get("topicId")
        }
        began, self.ended = min(x.received for x in lines), max(x.completed for x in lines)
        self.span_s = (self.ended - began) / 1e6
        metadata_log = "AAAAAAAAAAAAAAAAAAAAAQ"
        self.names[metadata_log] = "__cluster_metadata"
        asked = [
            (line, [t.get("topicId") for t in line.sent["topics"]]) for line in self.of("FETCH")
        ]
        self.fetches = [line for line, topics in asked if metadata_log not in topics]
        self.raft = [x for x, topics in asked if metadata_log in topics and not x.errors]
        self.heartbeats = self.of("BROKER_HEARTBEAT")
        self.acks_all = [line for line in self.of("PRODUCE") if line.sent["acks"] == -1]

    def of(self, *apis: str) -> list[Line]:
        return [line for line in self.lines if line.api in apis]

    def parts(self, topics: Iterable[Any], key: str = "partitions") -> Iterator[tuple[str, Any]]:
        """Partitions in a body, each with the name of its topic."""
        for topic in topics:
            name = topic.get("topic") or topic.get("name") or topic["topicId"]
            yield from ((self.names.get(name, name), part) for part in topic[key])

    def nodes(self) -> Rows:
        """By node: lines, requests, first arrival, last completion."""
        times = defaultdict(list)
        for line in self.lines:
            times[line.node].append((line.received, line.completed))
        return {
            (node,): (self.read[node], len(of_node), min(of_node)[0], max(t for _, t in of_node))
            for node, of_node in times.items()
        }

    def rates(self) -> Rows:
        """By API: requests a second; of FETCH median and 99th percentile in ms without waiting for
        data, of PRODUCE those with acks=all."""
        took = {"PRODUCE": [line.body["totalTimeMs"] for line in self.acks_all]}
        fetches = [line.body for line in self.of("FETCH")]
        took["FETCH"] = [body["totalTimeMs"] - body["remoteTimeMs"] for body in fetches]
        return {
            (api,): (n / self.span_s, *(percentile(took.get(api, ()), q) for q in (0.5, 0.99)))
            for api, n in Counter(line.api for line in self.lines).items()
        }

    def clients(self) -> Rows:
        """Who is no node and sends more than API_VERSIONS (client id, principal and host), and how
        many of these Kafka 4.0 no longer serves."""
        lowest = {api: int(version) for api, version in re.findall(r"(\w+) (\d+)", _LOWEST)}
        is_at_risk: dict[Any, bool] = defaultdict(bool)
        for line in self.lines:
            is_node = line.body["isForwarded"] or _NODE.fullmatch(line.client)
            if line.api != "API_VERSIONS" and not is_node:
                host = line.body["connection"].split("-")[1].rsplit(":", 1)[0]
                client = line.client, line.body["principal"], host
                is_at_risk[client] |= line.version < lowest.get(line.api, 0)
        return {(): (len(is_at_risk), sum(is_at_risk.values()))}

    def bytes(self, line: Line) -> tuple[int | None, int | None]:
        if line.body["isForwarded"]:
            return None, None
        match line.api:
            case "FETCH":
                return _sent_bytes(line), _returned_bytes(line)
            case "PRODUCE":
                return _produce_bytes(line)
            case "BROKER_HEARTBEAT":
                folders = [*map(line.sent.get, ("offlineLogDirs", "cordonedLogDirs"))]
                tags = sum(
                    2 + _varint(len(of) + 1) + 16 * len(of) for of in folders if of is not None
                )
                return 38 + len(line.client.encode()) + tags, 19
        return None, None

    def usage(self) -> Rows:
        """By principal, client and API: requests, bytes both ways, of records, and errors."""
        sums = defaultdict[Any, Counter[str]](Counter)
        for line in self.lines:
            size = self.bytes(line)
            row = {"sent": size[0] or 0, "returned": size[1] or 0}
            row["records"] = sum(records for _, records in self.listed(line))
            row["errors"] = len(line.errors) if line.api in _WITH_ERRORS else 0
            key = line.body["principal"], line.client or "-", line.api
            sums[key].update({"requests": 1, **row})
        names = ("requests", "sent", "returned", "records", "errors")
        return {key: tuple(row[name] for name in names) for key, row in sums.items()}

    def listed(self, line: Line) -> list[tuple[str, int]]:
        """Topics of the partitions in a FETCH or PRODUCE, with the bytes of their records."""
        if line.api == "PRODUCE":
            parts = self.parts(line.sent["topicData"], "partitionData")
            return [(topic, p["recordsSizeInBytes"]) for topic, p in parts]
        if line.api != "FETCH":
            return []
        lists = line.sent["topics"], line.sent["forgottenTopicsData"]
        sent = [(topic, 0) for of in lists for topic, _ in self.parts(of)]
        returned = self.parts(line.returned["responses"])
        return sent + [(topic, p.get("recordsSizeInBytes") or 0) for topic, p in returned]

    def topics(self) -> Rows:
        """By principal, client, API and topic: requests that list it; bytes both ways, its records
        and of the rest a share by its partitions; and bytes of records."""
        sums = defaultdict[Any, Counter[str]](Counter)
        for line in self.lines:
            listed, records = self.listed(line), Counter[str]()
            for topic, n in listed:
                records[topic] += n
            weights = Counter(topic for topic, _ in listed) or {"-": 1}
            carried = [
                records if line.api == api else Counter[str]() for api in ("PRODUCE", "FETCH")
            ]
            sizes = [*zip(self.bytes(line), carried, strict=True)]
            shares = [_shared((size or 0) - own.total(), weights) for size, own in sizes]
            for topic in weights:
                sent, returned = (
                    of[topic] + own[topic] for of, own in zip(shares, carried, strict=True)
                )
                row = {"requests": 1, "sent": sent, "returned": returned, "records": records[topic]}
                sums[line.body["principal"], line.client or "-", line.api, topic].update(row)
        names = ("requests", "sent", "returned", "records")
        return {key: tuple(row[name] for name in names) for key, row in sums.items()}

    def findings(self) -> Rows:
        """By code and subject, of how many: which findings there are, by the limits that are
        documented, but for incidents; idle polling, tiny batches and growing lag are in none."""
        rows = {
            ("lagging_follower", str(follower)): (last, waits)
            for (follower,), (last, waits, ms) in self.slowest_replicas().items()
            if last >= max(10, 0.9 * waits) and (ms or 0) >= 5
        }
        costs = Counter[str]()
        for (_, client), (both_ways, records, *_) in self.fetched().items():
            costs[client] += both_ways - records
        with_session = {line.client for line in self.fetches if line.sent["sessionEpoch"] >= 0}
        for client, cost in costs.items():
            if cost >= max(0.5 * costs.total(), 1e4 * self.span_s) and client not in with_session:
                rows["no_fetch_session", client] = cost, costs.total()
        return rows

    def slowest_replicas(self) -> Rows:
        """By follower: acks=all writes that waited for it last, of those that waited for it and for
        another, and how long these took in ms (median of ten or more).

        The leader responds when the last in-sync follower has the batch: it waited for those that
        fetched beyond it before. Stamps are whole milliseconds: 2 ms later is before, too.
        """
        reached: dict[Any, dict[int, list[tuple[int, int]]]] = defaultdict(dict)
        for line in sorted(self.fetches, key=lambda line: line.dequeued):
            if line.replica >= 0 and not line.returned["errorCode"]:
                for topic, p in self.parts(line.sent["topics"]):
                    past = reached[line.node, topic, p["partition"]].setdefault(line.replica, [])
                    if not past or p["fetchOffset"] > past[-1][0]:
                        past.append((p["fetchOffset"], line.dequeued))
        waits, lasts = Counter[int](), defaultdict(list)
        for line in self.acks_all:
            for topic, p in self.parts(line.returned["responses"], "partitionResponses"):
                had = []
                for follower, past in reached[line.node, topic, p["index"]].items():
                    place = bisect_right(past, p["baseOffset"], key=lambda reach: reach[0])
                    if place < len(past) and past[place][1] <= line.built + 2000:
                        had.append((past[place][1], follower))
                if len(had) > 1 and not p["errorCode"]:
                    waits.update(follower for _, follower in had)
                    lasts[max(had)[1]].append((max(had)[0] - line.dequeued) / 1000)
        middle = {f: percentile(of_f, 0.5) for f, of_f in lasts.items() if len(of_f) >= 10}
        return {(f,): (len(lasts[f]), n, middle.get(f)) for f, n in waits.items()}

    def lags(self) -> Rows:
        """By client and topic: how many records its consumers fell further behind, and are behind.

        A FETCH of a session names what has changed: offset and high watermark are those last named.
        """
        offsets, marks, firsts = dict[Any, int](), dict[Any, int](), dict[Any, int]()
        for line in self.fetches:
            consumer = line.client, line.node, line.body["connection"]
            for topic, p in self.parts(line.sent["topics"]) if line.replica < 0 else ():
                offsets[*consumer, topic, p["partition"]] = p["fetchOffset"]
            for topic, p in self.parts(line.returned["responses"]):
                key = *consumer, topic, p["partitionIndex"]
                if not p["errorCode"] and p["highWatermark"] >= 0 and key in offsets:
                    marks[key] = p["highWatermark"]
                    firsts.setdefault(key, p["highWatermark"] - offsets[key])
        grown, behind = Counter[Any](), Counter[Any]()
        for key, mark in marks.items():
            behind[key[0], key[3]] += mark - offsets[key]
            grown[key[0], key[3]] += mark - offsets[key] - firsts[key]
        return {key: (grown[key], n) for key, n in behind.items()}

    def steady(self) -> Rows:
        """From when all brokers are unfenced first until the first of them wishes to shut down;
        else until the last line of the controllers that heartbeats went to."""
        unfenced = dict[int, int]()
        for line in self.heartbeats:
            if not (line.returned["errorCode"] or line.returned["isFenced"]):
                unfenced.setdefault(line.sent["brokerId"], line.built)
        asked = {line.node for line in self.heartbeats}
        ended = max(line.completed for line in self.lines if line.node in asked) + 1
        shut = (line.received for line in self.heartbeats if line.sent["wantShutDown"])
        return {(): (max(unfenced.values()), min(shut, default=ended))}

    def fetch_rates(self) -> Rows:
        """Of the steady phase: bytes a second of FETCHes of topic partitions and of responses that
        were built in it, and FETCHes a second of the metadata log."""
        ((begin, end),) = self.steady().values()
        inside = [line for line in self.fetches if begin <= line.dequeued < end]
        size = sum(_sent_bytes(x) + _returned_bytes(x) * (x.built < end) for x in inside)
        raft = sum(begin <= line.dequeued < end for line in self.raft)
        return {(): (size * 1e6 / (end - begin), raft * 1e6 / (end - begin))}

    def fetched(self) -> Rows:
        """By node and client, of FETCHes of topic partitions: bytes both ways, of records among
        them, session requests refused, and sessions that were not found any more."""
        sums = defaultdict[Any, Counter[str]](Counter)
        for line in self.fetches:
            code, is_new = line.returned["errorCode"], line.sent["sessionEpoch"] == 0
            both_ways = _sent_bytes(line) + _returned_bytes(line)
            is_refused = is_new and not code and not line.returned["sessionId"]
            row = {"bytes": both_ways, "records": line.records, "refused": is_refused}
            sums[line.node, line.client].update(row | {"evicted": code == 70})
        return {key: tuple(row.values()) for key, row in sums.items()}

    def across_zones(self) -> Rows:
        """Bytes a second of records to consumers in the steady phase: those from another zone, and
        those of the busiest broker; and redirects to a replica."""
        ((begin, end),) = self.steady().values()
        racks, zones = self.facts.get("racks", {}), self.facts.get("client_racks", {})
        brokers, across = defaultdict[int, float](float), 0.0
        for line in self.fetches:
            if line.replica < 0 and begin <= line.dequeued and line.built < end:
                zone = line.sent["rackId"] or zones.get(line.client)
                rate = line.records * 1e6 / (end - begin)
                brokers[line.node] += rate
                across += rate * (zone not in (None, racks.get(str(line.node))))
        parts = [p for line in self.fetches for _, p in self.parts(line.returned["responses"])]
        redirects = sum(p["preferredReadReplica"] >= 0 for p in parts)
        return {(): (across, max(brokers.values(), default=0), redirects)}

    def acks_all_ms(self) -> Rows:
        """How long PRODUCEs with acks=all took until the response: median and 90th percentile."""
        took = [(line.built - line.received) / 1000 for line in self.acks_all]
        return {(): (percentile(took, 0.5), percentile(took, 0.9))}

    def writes(self) -> Rows:
        """Changes of metadata that the active controller made."""
        return {(): (sum(x.node in self.controllers and not x.errors for x in self.of(*_WRITES)),)}

    def denied_ms(self) -> float:
        """How long after the response to its CREATE_TOPICS a METADATA still had no such topic."""
        created, deleted = dict[str, int](), dict[str, int]()
        for line in self.of("CREATE_TOPICS"):
            named = (t["name"] for t in line.returned["topics"] if not t["errorCode"])
            created |= dict.fromkeys(named, line.built) if line.node in self.controllers else {}
        for line in self.of("DELETE_TOPICS"):
            named = (t["name"] or self.names[t["topicId"]] for t in line.returned["responses"])
            deleted |= dict.fromkeys(named, line.received)
        denials = [
            line.dequeued - created.get(topic["name"], line.dequeued)
            for line in self.of("METADATA")
            for topic in line.returned["topics"]
            if topic["errorCode"] == 3 and line.built < deleted.get(topic["name"], self.ended)
        ]
        return max(denials, default=0) / 1000
