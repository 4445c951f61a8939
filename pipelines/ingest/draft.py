"""A manifest to start from, for a folder of logs that has none: guessed, and to be corrected."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.log_bytes import LogBytes
from kip_replay.pipelines.ingest.overview import Overview
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.replay.kafka.request_log.line import MARKER

#: So much of a file shows whether it is a request log, compressed or not.
_HEAD_BYTES = 1 << 20
#: Rotated and compressed siblings of a log have its name up to here.
_STEM = re.compile(r"(?P<stem>.*?\.log)\b.*")
#: The last number of a name: ``broker-11``, ``kafka-0``.
_NUMBER = re.compile(r".*?(\d{1,9})\D*")


def drafted(folder: Path) -> tuple[Recording, list[str]]:
    """The logs below a folder as a recording, and sentences on what its names do not show.

    Stamps are taken for UTC. Raises UserError where there is no request log.
    """
    logs: dict[int, set[str]] = {}
    unclear = []
    for file in _request_logs(folder):
        name = file.relative_to(folder)
        match = _STEM.fullmatch(name.name)
        log = str(name.with_name(f"{match['stem']}*")) if match else str(name)
        node_id = _node_id(name)
        if node_id is None:
            unclear.append(f"the names of {log} do not show which node it is of: add it to 'nodes'")
        else:
            logs.setdefault(node_id, set()).add(log)
    if not logs and not unclear:
        raise UserError(f"there is no request log below {folder}: name a folder with some")
    nodes = tuple(Node(i, None, tuple(sorted(of)), "UTC") for i, of in sorted(logs.items()))
    unclear.append("'voters' are taken for all controllers: write those of the quorum")
    unclear.append("'timezone' is assumed to be UTC: write the zone of the brokers' clocks")
    several = [str(node.node_id) for node in nodes if len(node.log) > 1]
    if several:
        unclear.append(f"node {', '.join(several)} has logs of more than one name: is it one node?")
    return Recording(folder.resolve().name, "UTC", nodes, folder), list(dict.fromkeys(unclear))


def manifest_of(found: Overview) -> dict[str, Any]:
    """The manifest of a drafted recording, with what its logs have shown."""
    manifest: dict[str, Any] = {"name": found.recording.name}
    if len(found.kafka_versions) == 1:
        manifest["kafka_version"] = found.kafka_versions[0]
    manifest["timezone"] = found.recording.timezone
    if voters := _voters(found):
        manifest["voters"] = voters
    manifest["nodes"] = [
        {
            "node_id": each.node.node_id,
            **({"role": each.role} if each.role else {}),
            "log": each.node.log[0] if len(each.node.log) == 1 else [*each.node.log],
        }
        for each in found.nodes
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


def _request_logs(folder: Path) -> list[Path]:
    """Files below a folder that hold request lines, by name."""
    named = sorted(path for path in folder.rglob("*.log*") if path.is_file())
    return [path for path in named if _shows_requests(path)]


def _shows_requests(path: Path) -> bool:
    try:
        return any(MARKER in chunk for chunk in LogBytes(str(path), 0, _HEAD_BYTES).chunks())
    except OSError:
        return False


def _node_id(name: Path) -> int | None:
    """The last number of the file's name before its ``.log``, else of the nearest folder's."""
    match = _STEM.fullmatch(name.name)
    stem = match["stem"] if match else name.name
    for part in (stem, *reversed(name.parts[:-1])):
        if number := _NUMBER.fullmatch(part):
            return int(number[1])
    return None
