"""A manifest to start from, for a folder of logs that has none, to be corrected.

Node ids are what lines say (``own_ids``), and guessed from names where they say nothing.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.checks import what_they_are
from kip_replay.pipelines.ingest.excerpts import look_at
from kip_replay.pipelines.ingest.log_bytes import WITHIN, members
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.overview import Overview
from kip_replay.pipelines.ingest.own_ids import Evidence, evidence_in, own_ids
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.storage import Place, name_within
from kip_replay.replay.kafka.request_log.layouts import LineReader, NodeBy
from kip_replay.replay.kafka.request_log.layouts.labels import Labels, labels

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
