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
from kip_replay.pipelines.ingest.log_bytes import WITHIN, members
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.overview import Overview, look_at
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.storage import Place, name_within
from kip_replay.replay.kafka.request_log.layouts import LineReader, NodeBy
from kip_replay.replay.kafka.request_log.layouts.labels import Labels, labels
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
    """Files of one name, or what a label selects of them: the number in it, and what lines say."""

    log: str
    label: Labels
    number: _Name | None
    shown: Evidence


def drafted(place: Place, timezone: str) -> tuple[Recording, list[str]]:
    """The logs below a folder as a recording, and sentences on what its names do not show.

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
        match = _STEM.fullmatch(Path(source_file).name)
        log = str(Path(source_file).with_name(f"{match['stem']}*")) if match else source_file
        text = b"".join(excerpts.parts)
        label_path, values = labels(text, seen.framing)
        for value in values if len(values) > 1 else (None,):
            by = value and NodeBy(label_path, value)
            lines = LineReader(timezone, replace(seen.framing, node_by=by or None))
            number = _number(value) if value else _of_path(Path(source_file))
            number = number or next(filter(None, map(_number, values)), None)
            label = Labels(label_path, (value,)) if value else Labels((), ())
            shown = evidence_in(lines.read(text.splitlines(), 1).requests())
            logs.append(_Log(log, label, number, shown))
    if not logs:
        what = "; ".join(others[:3]) or "it has no files"
        raise UserError(f"there is no request log in {place}: {what}")
    entries: dict[tuple[int, Labels], set[str]] = {}
    for node_id, entry in zip(_ids(logs, unclear), logs, strict=True):
        entries.setdefault((node_id, entry.label), set()).add(entry.log)
    nodes = tuple(
        Node(i, None, tuple(sorted(of)), timezone, node_by=(path, values[0]) if values else None)
        for (i, (path, values)), of in sorted(entries.items())
    )
    counts = Counter(node.node_id for node in nodes)
    twice = [node_id for node_id, count in counts.items() if count > 1]
    unclear += [f"node {node_id} is drafted more than once: correct 'nodes'" for node_id in twice]
    unclear.append(f"'timezone' is taken to be {timezone}: write the zone of the brokers' clocks")
    return Recording(name, timezone, nodes, folder), list(dict.fromkeys(unclear))


def _ids(logs: Sequence[_Log], unclear: list[str]) -> Iterator[int]:
    """The ids that lines say, then those of logs of the same name, then numbers of names."""
    stated = own_ids([log.shown for log in logs])
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
                what = f"{log.label.values[0]!r} in {log.log}" if log.label.values else log.log
                unclear.append(
                    f"{what} does not show which node it is of, {node_id} is assumed: correct it"
                )
            named[log.number] = node_id
            taken.add(node_id)
        yield node_id


def manifest_of(found: Overview) -> dict[str, Any]:
    manifest: dict[str, Any] = {"name": found.recording.name}
    if len(found.kafka_versions) == 1:
        (manifest["kafka_version"],) = found.kafka_versions
    manifest["timezone"] = found.recording.timezone
    manifest["voters"] = _voters(found)
    manifest["nodes"] = [
        {
            "node_id": each.node.node_id,
            **({"role": each.role} if each.role else {}),
            "log": each.node.log[0] if len(each.node.log) == 1 else [*each.node.log],
            **({"node_by": {".".join(by[0]) or "prefix": by[1]}} if by else {}),
        }
        for each in found.nodes
        for by in [each.node.node_by]
    ]
    return manifest


def _voters(found: Overview) -> list[int]:
    """Controllers, and what else replicates the metadata log without being a broker."""
    brokers = {n.node.node_id for n in found.nodes if "broker" in n.role} | found.brokers_seen
    controllers = {n.node.node_id for n in found.nodes if "controller" in n.role}
    return sorted(controllers | (found.metadata_replicas_seen - brokers))


def manifest_text(manifest: dict[str, Any]) -> str:
    """As JSON, a node a line."""
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
            inside = members(path)
        except OSError:
            inside = None
        if inside is None:
            yield str(path), name
        for member in inside or ():
            yield f"{path}{WITHIN}{member}", f"{name}{WITHIN}{member}"


def _of_path(name: Path) -> _Name | None:
    """That of the file's name before its ``.log``, else of the nearest folder's."""
    match = _STEM.fullmatch(name.name)
    stem = match["stem"] if match else name.name
    parts = name.parts[:-1] if _RESTARTS.fullmatch(stem) else (*name.parts[:-1], stem)
    return next(filter(None, map(_number, reversed(parts))), None)


def _number(name: str) -> _Name | None:
    """What is before a number, and it: behind the name of a role, else the last one."""
    bare = _IDS.sub("", name)
    number = _OF_ROLE.match(bare) or _NUMBER.fullmatch(bare)
    return (bare[: number.start(1)], int(number[1])) if number else None
