"""A manifest to start from, for a folder of logs that has none: guessed, and to be corrected."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.checks import what_they_are
from kip_replay.pipelines.ingest.excerpts import look_at
from kip_replay.pipelines.ingest.log_bytes import WITHIN, members
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.overview import Overview
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.storage import Place, name_within
from kip_replay.replay.kafka.request_log.layouts.labels import Labels, labels

#: So much of a file is looked through, and a compressed one to its end up to so much.
_EXCERPT_BYTES = 1 << 20, 4 << 20
#: Rotated and compressed siblings of a log have its name up to here.
_STEM = re.compile(r"(?P<stem>.*?\.log)\b.*")
#: The last number of a name: ``broker-11``, ``kafka-0``.
_NUMBER = re.compile(r".*?(\d{1,9})\D*")
#: What containers have in their names besides: ids, and in ``/var/log/pods`` their restarts.
_IDS = re.compile(r"[_-](?:[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32,64})(?![0-9a-f])")
_RESTARTS = re.compile(r"\d+\.log")


def drafted(place: Place, timezone: str) -> tuple[Recording, list[str]]:
    """The logs below a folder as a recording, and sentences on what its names do not show.

    ``place`` may be a single log, or an archive. Raises UserError where there is no request log.
    """
    folder = place if place.is_dir() else place.parent
    name = folder.resolve().name
    logs: dict[tuple[int, Labels], set[str]] = {}
    unclear, others = [], []
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
        label_path, values = labels(b"".join(excerpts.parts), seen.framing)
        numbers = {value: _number(value) for value in values}
        if len(values) > 1:
            for value, node_id in numbers.items():
                if node_id is None:
                    unclear.append(f"{value!r} in {log} does not show which node it is: correct it")
                else:
                    logs.setdefault((node_id, Labels(label_path, (value,))), set()).add(log)
            continue
        of_names = (_node_id(Path(source_file)), *numbers.values())
        node_id = next((number for number in of_names if number is not None), None)
        if node_id is None:
            unclear.append(f"{log} does not show which node it is of, 0 is assumed: correct it")
        logs.setdefault((node_id or 0, Labels((), ())), set()).add(log)
    if not logs:
        what = "; ".join(others[:3]) or "it has no files"
        raise UserError(f"there is no request log in {place}: {what}")
    nodes = tuple(
        Node(i, None, tuple(sorted(of)), timezone, node_by=(path, values[0]) if values else None)
        for (i, (path, values)), of in sorted(logs.items())
    )
    counts = Counter(node.node_id for node in nodes)
    twice = [node_id for node_id, count in counts.items() if count > 1]
    unclear += [f"node {node_id} is drafted more than once: correct 'nodes'" for node_id in twice]
    unclear.append(f"'timezone' is taken to be {timezone}: write the zone of the brokers' clocks")
    several = [str(node.node_id) for node in nodes if len(node.log) > 1]
    if several:
        unclear.append(f"node {', '.join(several)} has logs of more than one name: is it one node?")
    return Recording(name, timezone, nodes, folder), list(dict.fromkeys(unclear))


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


def _node_id(name: Path) -> int | None:
    """The last number of the file's name before its ``.log``, else of the nearest folder's."""
    match = _STEM.fullmatch(name.name)
    stem = match["stem"] if match else name.name
    parts = name.parts[:-1] if _RESTARTS.fullmatch(stem) else (*name.parts[:-1], stem)
    return next((n for part in reversed(parts) if (n := _number(part)) is not None), None)


def _number(name: str) -> int | None:
    number = _NUMBER.fullmatch(_IDS.sub("", name))
    return int(number[1]) if number else None
