"""A manifest to start from, for a folder of logs that has none, to be corrected.

Node ids are what lines say, and guessed from names of files where they say nothing. A node
describes its own configs only (``ConfigHelper``), a vote names the voter that it is sent to,
clients reach a broker where METADATA says that it is, and write to a partition's leader.
"""

import json
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.checks import what_they_are
from kip_replay.pipelines.ingest.log_files import LogFile, in_archive
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.overview import Overview, look_at
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.ingest.survey import Survey
from kip_replay.pipelines.storage import Place, name_within
from kip_replay.replay.kafka.request_log.layouts import LineReader, NodeBy
from kip_replay.replay.kafka.request_log.layouts.labels import labels
from kip_replay.replay.kafka.request_log.line import json_of, stamp_of

#: ``ConfigResource.Type`` of a broker's configs and of its loggers.
_OF_BROKER = (4, 8)
#: Clients' METADATA is older than their requests, so not every write has to agree.
_SHARE_MIN = 0.9


@dataclass
class NodeEvidence:
    """Evidence of lines, by which a log's node is known.

    Of the node: ids that are its ``own``, the local ends of its connections and its writes by stamp
    and partition. Of the cluster: brokers by address, and leaders by partition.
    """

    own: Counter[int] = field(default_factory=Counter)
    ends: set[str] = field(default_factory=set)
    writes: list[tuple[bytes, Any]] = field(default_factory=list)
    brokers: set[tuple[str, int]] = field(default_factory=set)
    leaders: list[tuple[bytes, Any, int]] = field(default_factory=list)


def evidence_in(lines: Iterable[bytes]) -> NodeEvidence:
    evidence = NodeEvidence()
    for line in lines:
        with suppress(msgspec.DecodeError, AttributeError, LookupError, TypeError, ValueError):
            _note(evidence, stamp_of(line), msgspec.json.decode(json_of(line)))
    return evidence


def _note(evidence: NodeEvidence, stamp: bytes, line: Any) -> None:
    key, response = line["requestHeader"]["requestApiKey"], line["response"]
    evidence.ends.add(line["connection"].partition("-")[0])
    if key == 0:
        for partition, state in _partitions(response["responses"], "partitionResponses", "index"):
            evidence.writes += [(stamp, partition)] if state["errorCode"] == 0 else []
    elif key == 3:
        for broker in response["brokers"]:
            evidence.brokers.add((f"{broker['host']}:{broker['port']}", broker["nodeId"]))
        for partition, state in _partitions(response["topics"], "partitions", "partitionIndex"):
            evidence.leaders.append((stamp, partition, state["leaderId"]))
    elif key == 32:
        for result in response["results"]:
            name, is_own = result["resourceName"], result["resourceType"] in _OF_BROKER
            evidence.own.update([int(name)] if is_own and name and result["errorCode"] == 0 else [])
    elif key in (52, 53) and response["errorCode"] == 0 and line["request"]["voterId"] >= 0:
        evidence.own[line["request"]["voterId"]] += 1


def _partitions(topics: Any, name: str, index: str) -> Iterator[tuple[Any, Any]]:
    for topic in topics:
        for partition in topic[name]:
            for known in filter(None, (topic.get("name"), topic.get("topicId"))):
                yield (known, partition[index]), partition


def own_ids(logs: Sequence[NodeEvidence]) -> list[int | None]:
    """Returns each log's node id, None where its lines do not have it."""
    brokers: dict[str, set[int]] = defaultdict(set)
    leaders: dict[Any, list[tuple[bytes, int]]] = defaultdict(list)
    for address, node_id in (broker for log in logs for broker in log.brokers):
        brokers[address].add(node_id)
    for stamp, partition, leader in sorted(state for log in logs for state in log.leaders):
        leaders[partition].append((stamp, leader))

    def led_at(stamp: bytes, partition: Any) -> set[int]:
        at = bisect(states := leaders.get(partition, []), (stamp, 1 << 31))
        return {leader for _, leader in states[max(at - 1, 0) : at + 1]}

    ids = []
    for log in logs:
        reached = _only(map(brokers.get, log.ends))
        led = _only(led_at(*write) for write in log.writes)
        likely = [_most(votes) for votes in (log.own, reached, led)]
        ids.append(next((node_id for node_id in likely if node_id is not None), None))
    return ids


def _only(choices: Iterable[set[int] | None]) -> Counter[int]:
    return Counter(min(ids) for ids in choices if ids and len(ids) == 1)


def _most(votes: Counter[int]) -> int | None:
    (best, count), *_ = *votes.most_common(1), (-1, 0)
    return best if best >= 0 and count >= _SHARE_MIN * votes.total() else None


# --- the manifest

#: So much of a file is looked through, and a compressed one to its end up to so much.
_EXCERPT_BYTES = 1 << 20, 4 << 20
#: Rotated and compressed siblings of a log have its name up to here.
_STEM = re.compile(r"(?P<stem>.*?\.log)\b.*")
#: The last number of a name: ``broker-11``, ``kafka-0``.
_NUMBER = re.compile(r".*?(\d{1,9})\D*")
_OF_ROLE = re.compile(r"(?i).*?(?:broker|controller)s?[-_.]?(\d{1,9})(?!\d)")
#: What containers have in their names besides: ids, and in ``/var/log/pods`` their restarts.
_IDS = re.compile(r"[_-](?:[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32,64})(?![0-9a-f])")
_RESTARTS = re.compile(r"\d+\.log")

#: What a name has before its number, which tells kafka-broker-0 from kafka-controller-0.
_Name = tuple[str, int]


class _Log(NamedTuple):
    """Files of one name, or what a label selects of them: its number, and evidence of lines."""

    log: str
    node_by: NodeBy | None
    number: _Name | None
    evidence: NodeEvidence


def drafted(place: Place, timezone: str) -> tuple[Recording, list[str]]:
    """Returns the logs below a folder as a recording, and sentences on what names do not show.

    ``place`` may be a single log, or an archive. Raises UserError where there is no request log.
    """
    folder = place if place.is_dir() else place.parent
    name = folder.resolve().name
    logs: list[_Log] = []
    unclear, others = list[str](), list[str]()
    for path, source_file in _files(place, folder):
        try:
            file = LogFile(name, 0, timezone, source_file, path)
            seen, excerpts = look_at(file, *_EXCERPT_BYTES)
        except UserError as error:
            others.append(str(error))
            continue
        if not seen.has_requests:
            what = f"holds {what_they_are(seen.others)}" if seen.end else "is empty"
            others.append(f"{source_file} {what}")
            continue
        logs += _logs_in(seen, b"".join(excerpts.parts))
    if not logs:
        what = "; ".join(others[:3]) or "it has no files"
        raise UserError(f"there is no request log in {place}: {what}")
    entries: dict[Node, set[str]] = {}
    for node_id, entry in zip(_ids(logs, unclear), logs, strict=True):
        by = (entry.node_by.path, entry.node_by.value) if entry.node_by else None
        entries.setdefault(Node(node_id, None, (), timezone, node_by=by), set()).add(entry.log)
    in_order = sorted(entries.items(), key=lambda entry: (entry[0].node_id, entry[0].node_by or ()))
    nodes = tuple(replace(node, log=tuple(sorted(names))) for node, names in in_order)
    counts = Counter(node.node_id for node in nodes)
    twice = [node_id for node_id, count in counts.items() if count > 1]
    unclear += [f"node {node_id} is drafted more than once: correct 'nodes'" for node_id in twice]
    unclear.append(f"'timezone' is taken to be {timezone}: write the zone of the brokers' clocks")
    return Recording(name, timezone, nodes, folder), list(dict.fromkeys(unclear))


def _logs_in(seen: Survey, text: bytes) -> Iterator[_Log]:
    """Yields the log that a file's excerpt is of, or one for each label that tells nodes apart."""
    source_file, timezone = seen.file.source_file, seen.file.timezone
    match = _STEM.fullmatch(Path(source_file).name)
    log = str(Path(source_file).with_name(f"{match['stem']}*")) if match else source_file
    label_path, values = labels(text, seen.framing)
    for value in values if len(values) > 1 else (None,):
        by = NodeBy(label_path, value) if value else None
        lines = LineReader(timezone, replace(seen.framing, node_by=by))
        number = _number(value) if value else _path_number(Path(source_file))
        number = number or next(filter(None, map(_number, values)), None)
        yield _Log(log, by, number, evidence_in(lines.read(text.splitlines(), 1).requests()))


def _ids(logs: Sequence[_Log], unclear: list[str]) -> Iterator[int]:
    """Yields node ids: those in lines, then of logs of the same name, then numbers of names."""
    stated = own_ids([log.evidence for log in logs])
    taken = {node_id for node_id in stated if node_id is not None}
    named: dict[_Name | None, int] = {}
    for log, node_id in zip(logs, stated, strict=True):
        if node_id is not None and log.number:
            named.setdefault(log.number, node_id)
    for log, node_id in zip(logs, stated, strict=True):
        if node_id is None and (node_id := named.get(log.number)) is None:
            node_id = log.number[1] if log.number else 0
            if node_id in taken or not log.number:
                node_id = next(free for free in count() if free not in taken)
                what = f"{log.node_by.value!r} in {log.log}" if log.node_by else log.log
                unclear.append(
                    f"{what} does not show which node it is of, {node_id} is assumed: correct it"
                )
            named[log.number] = node_id
            taken.add(node_id)
        yield node_id


def manifest_of(seen: Overview) -> dict[str, Any]:
    manifest: dict[str, Any] = {"name": seen.recording.name}
    if len(seen.kafka_versions) == 1:
        (manifest["kafka_version"],) = seen.kafka_versions
    manifest["timezone"] = seen.recording.timezone
    manifest["voters"] = _voters(seen)
    manifest["nodes"] = [
        {
            "node_id": node.node.node_id,
            **({"role": node.role} if node.role else {}),
            "log": node.node.log[0] if len(node.node.log) == 1 else [*node.node.log],
            **({"node_by": {".".join(by[0]) or "prefix": by[1]}} if by else {}),
        }
        for node in seen.nodes
        for by in [node.node.node_by]
    ]
    return manifest


def _voters(seen: Overview) -> list[int]:
    """Returns controllers, and what else replicates the metadata log without being a broker."""
    brokers = {n.node.node_id for n in seen.nodes if "broker" in n.role} | seen.brokers_seen
    controllers = {n.node.node_id for n in seen.nodes if "controller" in n.role}
    return sorted(controllers | (seen.metadata_replicas_seen - brokers))


def manifest_text(manifest: dict[str, Any]) -> str:
    """Prints a manifest as JSON, a node a line."""
    nodes = ",\n".join(f"    {json.dumps(node)}" for node in manifest["nodes"])
    rest = {name: value for name, value in manifest.items() if name != "nodes"}
    head = "".join(f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in rest.items())
    return f'{{\n{head}  "nodes": [\n{nodes}\n  ]\n}}\n'


def _files(place: Place, folder: Place) -> Iterator[tuple[str, str]]:
    below: Iterable[Place] = place.rglob("*") if place.is_dir() else [place]
    for path in sorted(below, key=str):
        name = name_within(path, folder) or ""
        is_hidden = any(part.startswith(".") for part in name.split("/"))
        if is_hidden or not path.is_file() or path.name == MANIFEST:
            continue
        try:
            yield from in_archive(path, name, "*", "the draft").items()
        except UserError:
            yield str(path), name


def _path_number(name: Path) -> _Name | None:
    """Returns the number of a file's name before its ``.log``, else of the nearest folder's."""
    match = _STEM.fullmatch(name.name)
    stem = match["stem"] if match else name.name
    parts = name.parts[:-1] if _RESTARTS.fullmatch(stem) else (*name.parts[:-1], stem)
    return next(filter(None, map(_number, reversed(parts))), None)


def _number(name: str) -> _Name | None:
    """Returns a number and what is before it: behind the name of a role, else the last one."""
    bare = _IDS.sub("", name)
    number = _OF_ROLE.match(bare) or _NUMBER.fullmatch(bare)
    return (bare[: number.start(1)], int(number[1])) if number else None
