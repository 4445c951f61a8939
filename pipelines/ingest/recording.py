"""A recording: the request logs of one cluster over one span of time, and what they do not hold.

It is described by ``recording.json`` in its folder (docs/manifest.md), by ``--node ID=PATH``
options, or by both; then the options win. What a rule needs besides, its folder declares.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.manifest import (
    ENTRIES,
    MANIFEST,
    Manifest,
    RuleFacts,
    entries_of,
    is_id,
    node_entry,
    read_manifest,
    require_name,
    rule_facts,
    version,
)
from kip_replay.pipelines.storage import Place, place_of


@dataclass(frozen=True)
class Node:
    """A controller or broker whose request log is part of the recording.

    ``log`` holds files, globs or folders, relative to the recording's folder or absolute.
    ``timezone`` is the zone of this node's stamps, ``role`` is what the manifest says or ``None``.
    ``is_anywhere``: the log may lie outside of the recording's folder, since the user wrote so.
    ``clock_offset_ms`` is added to its stamps: it corrects a clock that was off.
    ``node_by``: of a log of several nodes, the field (or, as (), what is before the line) and
    its value that make a line this node's.
    """

    node_id: int
    role: str | None
    log: tuple[str, ...]
    timezone: str
    clock_offset_ms: int = 0
    node_by: tuple[tuple[str, ...], str] | None = None
    is_anywhere: bool = field(default=False, compare=False, kw_only=True)

    @property
    def is_controller(self) -> bool:
        """The manifest says so; a node without a role counts as neither."""
        return self.role is not None and "controller" in self.role


@dataclass(frozen=True)
class Recording:
    """Describes a recording: its name, its logs, and what the logs do not hold.

    ``facts``: what the manifest has under the keys that rules declare, by rule and key.
    """

    name: str
    timezone: str
    nodes: tuple[Node, ...]
    path: Place | None = None
    kafka_version: str | None = None
    voters: tuple[int, ...] | None = None
    facts: RuleFacts = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(sorted(node.node_id for node in self.nodes))

    @property
    def controller_ids(self) -> tuple[int, ...]:
        return tuple(sorted(node.node_id for node in self.nodes if node.is_controller))


@dataclass(frozen=True)
class RecordingOptions:
    """Holds options about a recording; every field that is set wins over the manifest.

    ``nodes`` are texts ``ID=PATH`` where PATH is a file, a glob or a folder, relative to the
    current folder. Of any number of recordings: ``allow_outside``, a manifest may name logs outside
    of its folder; ``since`` and ``until``, ISO 8601, in the recording's zone unless they have one.
    """

    nodes: tuple[str, ...] = ()
    name: str | None = None
    timezone: str | None = None
    kafka_version: str | None = None
    voters: tuple[int, ...] | None = None
    allow_outside: bool = field(default=False, compare=False)
    since: str | None = field(default=None, compare=False)
    until: str | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return self != RecordingOptions()

    def span(self, zone: str) -> tuple[datetime | None, datetime | None]:
        since, until = _time("--from", self.since, zone), _time("--until", self.until, zone)
        if since and until and since >= until:
            raise UserError(f"--from {self.since} is not before --until {self.until}: correct one")
        return since, until


def load_recordings(
    paths: Sequence[str | Place],
    options: RecordingOptions = RecordingOptions(),
    of_each: Callable[..., Iterable[Recording]] = map,
) -> list[Recording]:
    """Returns the recordings at ``paths``, or the one of ``options.nodes``. Raises UserError."""
    if not paths and not options.nodes:
        raise UserError(
            "no recording given: name a folder that holds recording.json, or the logs themselves "
            "with --node ID=PATH"
        )
    if options and len(paths) > 1:
        raise UserError(
            "--node, --name, --timezone, --kafka-version and --voters describe one recording, but "
            f"{len(paths)} are given: pass one recording, or write them into each recording.json"
        )
    recordings = [*of_each(partial(load_recording, options=options), paths or (None,))]
    for name, count in Counter(recording.name for recording in recordings).items():
        if count > 1:
            raise UserError(
                f"{count} of the recordings are named {name!r}: give each its own name in "
                "recording.json, since tables hold recordings apart by name"
            )
    return recordings


def load_recording(
    path: str | Place | None, options: RecordingOptions = RecordingOptions()
) -> Recording:
    """Returns the recording of a folder or a manifest, options applied. Raises UserError."""
    folder, whole = read_manifest(path, needed=not options.nodes)
    manifest = entries_of(whole)
    timezone = options.timezone or manifest.timezone
    nodes = _nodes_of_manifest(manifest, timezone, options.allow_outside)
    nodes.update(_nodes_of_options(options, timezone, nodes))
    name = options.name or manifest.name or (folder.name if folder else None)
    if not name:
        raise UserError("the recording has no name: pass --name NAME")
    require_name(name)
    _check_nodes(nodes.values(), name)
    zone = timezone or next(iter(nodes.values())).timezone
    since, until = options.span(zone)
    stated = None if manifest.voters is None else _unique_ids(manifest.voters)
    voters = options.voters or stated
    _check_voters(voters or (), nodes.values(), name)
    return Recording(
        name=name,
        timezone=zone,
        nodes=tuple(nodes[node_id] for node_id in sorted(nodes)),
        path=folder,
        kafka_version=version(options.kafka_version or manifest.kafka_version),
        voters=voters,
        facts=rule_facts(whole),
        extra={k: v for k, v in whole.items() if k not in ENTRIES},
        since=since,
        until=until,
    )


def _time(option: str, text: str | None, zone: str) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(
            f"{option} {text!r} is not a time: write it as 2026-11-20T20:30 (in the zone of the "
            "recording) or 2026-11-20T19:30Z"
        ) from None


def voters_from_text(listed: str) -> tuple[int, ...]:
    """Reads ``1,2,3`` as (1, 2, 3). Raises UserError for anything else."""
    try:
        voters = _unique_ids(int(part) for part in listed.split(","))
    except ValueError:
        voters = ()
    if not voters or not all(map(is_id, voters)):
        raise UserError(
            f"--voters {listed!r} is not a list of node ids: write for instance --voters 1,2,3"
        )
    return voters


def _nodes_of_manifest(
    manifest: Manifest, timezone: str | None, allow_outside: bool
) -> dict[int, Node]:
    nodes: dict[int, Node] = {}
    for number, unchecked in enumerate(manifest.nodes, start=1):
        entry = node_entry(unchecked, number)
        if entry.node_id in nodes:
            raise UserError(
                f"{MANIFEST} lists node {entry.node_id} twice: merge the entries, 'log' may be a "
                "list"
            )
        nodes[entry.node_id] = Node(
            node_id=entry.node_id,
            role=entry.role and entry.role.replace(" ", ""),
            log=(entry.log,) if isinstance(entry.log, str) else tuple(entry.log),
            timezone=entry.timezone or timezone or "",
            is_anywhere=allow_outside,
            clock_offset_ms=entry.clock_offset_ms,
            node_by=_node_by(entry.node_by),
        )
    return nodes


def _node_by(entry: Mapping[str, str] | None) -> tuple[tuple[str, ...], str] | None:
    """Reads ``{"prefix": VALUE}`` or ``{"a.field": VALUE}`` as its path and value."""
    if entry is None:
        return None
    ((name, value),) = entry.items()
    return (() if name == "prefix" else tuple(name.split(".")), value)


def _nodes_of_options(
    options: RecordingOptions, timezone: str | None, known: Mapping[int, Node]
) -> dict[int, Node]:
    nodes: dict[int, Node] = {}
    for option in options.nodes:
        id_text, equals, path = option.partition("=")
        is_id_text = re.fullmatch(r" *\d{1,10} *", id_text, re.ASCII)
        if not (equals and path and is_id_text) or "\0" in path:
            raise UserError(
                f"--node {option!r} is not ID=PATH: write for instance --node "
                "11=logs/broker-11/kafka-request.log"
            )
        node_id = int(id_text)
        if not is_id(node_id):
            raise UserError(f"--node {option!r} has an id beyond those of Kafka: correct it")
        if node_id in nodes:
            raise UserError(
                f"--node names node {node_id} twice: pass a glob or a folder for several files"
            )
        # Absolute, so that it is not looked for in the recording's folder.
        place = place_of(path)
        log = (str(place.expanduser().absolute() if isinstance(place, Path) else place),)
        before = known.get(node_id) or Node(node_id, None, log, timezone or "")
        zone = options.timezone or before.timezone
        nodes[node_id] = replace(before, log=log, timezone=zone, is_anywhere=True)
    return nodes


def _check_nodes(nodes: Collection[Node], recording: str) -> None:
    """Raises UserError where there are none, or the time zone of one is not known."""
    if not nodes:
        raise UserError(
            f"recording {recording!r} names no nodes: list them under 'nodes' in {MANIFEST}, or "
            "pass --node ID=PATH for each"
        )
    if not all(node.timezone for node in nodes):
        raise UserError(
            f"the time zone of recording {recording!r} is not known, and request logs do not have "
            f"it: set 'timezone' in {MANIFEST} or pass --timezone, such as --timezone Europe/Berlin"
        )
    for node in nodes:
        _check_zone(node, recording)


def _check_zone(node: Node, recording: str) -> None:
    try:
        ZoneInfo(node.timezone)
    except (KeyError, ValueError, OSError):  # unknown, not a name, a folder of the zone database
        raise UserError(
            f"node {node.node_id} of recording {recording!r} has an unknown time zone "
            f"{node.timezone!r}: use an IANA name such as UTC or Europe/Berlin"
        ) from None


def _check_voters(voters: Collection[int], nodes: Collection[Node], recording: str) -> None:
    """Raises UserError for voters that cannot be the quorum's, as far as nodes have roles."""
    others = {node.node_id for node in nodes if node.role and not node.is_controller}
    controllers = {node.node_id for node in nodes if node.is_controller}
    known = controllers | {node.node_id for node in nodes if not node.role}
    wrong = sorted(others.intersection(voters))
    if voters and not wrong and not controllers.issubset(voters):
        wrong = sorted(set(voters) - known)
    if wrong:
        raise UserError(
            f"voters of recording {recording!r} are controllers, which {_ids(wrong)} is not: "
            f"its nodes with that role are {_ids(controllers) or 'none'}, correct 'voters' in "
            f"{MANIFEST} or --voters"
        )


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _unique_ids(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(ids)))
