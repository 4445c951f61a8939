"""Surveys excerpts of a recording's logs, and says what is wrong before an hour's run is begun.

The survey and its checks are those of a run, of the head and the tail of each file, so that a plan
takes seconds. These excerpts are parsed too, for who logged which
requests, and which nodes they name.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import ceil
from typing import NamedTuple

import pyarrow as pa

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.checks import (
    OF_BROKERS,
    OF_CONTROLLERS,
    notes_of,
    refusals,
    unread_lines,
    unreadable,
    warnings_of,
    wrong_logs,
    zookeeper,
)
from kip_replay.pipelines.ingest.log_bytes import LogBytes, is_compressed, unpacked_size
from kip_replay.pipelines.ingest.log_files import LogFile, files_of, on_disk, shared
from kip_replay.pipelines.ingest.parse_task import (
    METADATA_FETCH,
    TOPIC_FETCH,
    Parsed,
    Senders,
    Span,
    note,
)
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.ingest.survey import ParsedRange, Survey, span_us, survey
from kip_replay.pipelines.warehouse.data_files import microseconds, moment
from kip_replay.replay.kafka.request_log import LineParser, Rows
from kip_replay.replay.kafka.request_log.layouts import LineReader


@dataclass
class Excerpts(LogBytes):
    """Whole lines at the head and the tail of a file, of a small one all of it.

    A compressed one has to be unpacked from its start: of one that is larger, on disk, than
    ``unpacked_bytes_max``, the end is not seen. ``log_bytes``: of the file, unpacked, about;
    ``parts`` are what was read.
    """

    excerpt_bytes: int = 1 << 20
    unpacked_bytes_max: int = 1 << 26
    disk_bytes: int = 0
    log_bytes: int = 0
    is_end_seen: bool = True
    parts: list[bytes] = field(default_factory=list)

    def chunks(self) -> Iterator[bytes]:
        head, tail = self._ends()
        parts = [head]
        if tail or not self.is_end_seen:
            parts = [head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]]
        self.parts = [part for part in parts if part]
        yield from self.parts

    def _ends(self) -> tuple[bytes, bytes]:
        """Reads head and tail; there is no tail where the head is all."""
        is_packed = self.disk_bytes > 0 and is_compressed(self.path)
        self.is_end_seen = not is_packed or self.disk_bytes <= self.unpacked_bytes_max
        self.log_bytes = size = unpacked_size(self.path) if is_packed else self.disk_bytes
        part = self.excerpt_bytes
        head_bytes = size if size <= 3 * part else 2 * part
        spans: list[tuple[int, int | None]] = [(0, None if is_packed else head_bytes)]
        if not is_packed and head_bytes < size:
            spans.append((size - part, size))
        head, tail = b"", b""
        for start, end in spans:
            log, at = LogBytes(self.path, start, end), start
            for chunk in log.chunks():
                at += len(chunk)
                if len(head) < head_bytes:
                    head += chunk
                elif not self.is_end_seen:
                    break
                else:
                    tail = (tail + chunk)[-part:]
            self.damage = log.damage
        if self.is_end_seen:
            self.log_bytes = at
        return head, tail


class Look(NamedTuple):
    """A file as far as it was looked at."""

    survey: Survey
    excerpts: Excerpts


def look_at(file: LogFile, excerpt_bytes: int, unpacked_bytes_max: int) -> Look:
    """Surveys excerpts; the last time is when the file was modified if its end was not seen.

    Raises UserError.
    """
    excerpts = Excerpts(file.path, 0, None, None, excerpt_bytes, unpacked_bytes_max)
    excerpts.disk_bytes, modified_at = on_disk(file)
    of_file = survey(file, log=excerpts)
    if of_file.first_us and not excerpts.is_end_seen:
        of_file = replace(of_file, last_us=microseconds(modified_at))
    return Look(of_file, excerpts)


# --- the overview

#: Parsed in about half a second, over all files; of one file at least, and at most, thrice this.
_SAMPLE_BYTES, _PART_BYTES_MIN, _PART_BYTES_MAX = 24 << 20, 64 << 10, 1 << 20
#: This many files are parsed in part, evenly among all; of others only stamps are read.
_PARSED_FILES = 128
#: Compressed bytes that are unpacked for their tails, in some seconds.
_UNPACKED_BYTES = 64 << 20
#: What only brokers and controllers send: its client's version is Kafka's.
_BY_KAFKA = OF_CONTROLLERS - {"VOTE", "BEGIN_QUORUM_EPOCH", "ENVELOPE"}
#: A broker whose log begins later or ends earlier than all others is worth a word.
_OUTSIDE_SHARE, _OUTSIDE_US = 0.1, 15_000_000
#: Brokers replicate all the time: nothing for so long is no pause.
_BETWEEN_FILES_US = 120_000_000
#: What a cluster's logs have, by role, unless nobody did such a thing: rules rest on it.
_BY_ROLE = {"broker": ("FETCH", "METADATA", "PRODUCE"), "controller": ("BROKER_HEARTBEAT", "FETCH")}


@dataclass
class NodeOverview:
    """A node in excerpts. ``shown_role`` is what its APIs show; ``apis`` counts requests by API and
    version."""

    node: Node
    looks: Sequence[Look]
    shown_role: str = ""
    apis: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def role(self) -> str:
        """Returns the role that the manifest states, else that its APIs show; empty if neither."""
        return self.node.role or self.shown_role

    @property
    def log_bytes(self) -> int:
        """Uncompressed bytes, about."""
        return sum(look.excerpts.log_bytes for look in self.looks)

    @property
    def span(self) -> Span | None:
        return span_us(look.survey for look in self.looks)

    @property
    def is_end_seen(self) -> bool:
        return all(look.excerpts.is_end_seen for look in self.looks)

    @property
    def is_sample(self) -> bool:
        """Returns whether lines were left out."""
        parts = (part for look in self.looks for part in look.excerpts.parts)
        return self.log_bytes > sum(map(len, parts))


@dataclass
class Overview:
    """A recording in excerpts.

    ``refused`` are sentences that a run would stop with, ``problems`` those it would work with.
    ``without_log``: nodes that others or the manifest name, and how ``log_gaps`` says it.
    ``absent``: of a role, APIs that none of its nodes logged. ``kafka_versions``: of brokers and
    controllers that sent requests.
    """

    recording: Recording
    nodes: list[NodeOverview] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    without_log: dict[int, str] = field(default_factory=dict)
    absent: dict[str, list[str]] = field(default_factory=dict)
    kafka_versions: set[str] = field(default_factory=set)
    brokers_seen: set[int] = field(default_factory=set)
    metadata_replicas_seen: set[int] = field(default_factory=set)
    #: Rows of some tables, of all excerpts.
    rows: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    of_zookeeper: list[str] = field(default_factory=list)
    #: Bytes of PRODUCEs by client id, and clients with versions that are deprecated, of excerpts.
    produced: Counter[str] = field(default_factory=Counter)
    deprecated: set[str] = field(default_factory=set)

    @property
    def log_bytes(self) -> int:
        return sum(node.log_bytes for node in self.nodes)

    @property
    def of_brokers(self) -> Span | None:
        """Spans the time in which all brokers logged; standby controllers have little to log."""
        spans = [span for node in self.nodes if "broker" in node.role and (span := node.span)]
        first, last = (max(s[0] for s in spans), min(s[1] for s in spans)) if spans else (1, 0)
        return (first, last) if first <= last else None


def overview(recording: Recording, node_gap_minutes_max: float) -> Overview:
    """Surveys excerpts of every log of a recording, and says what is wrong with them."""
    seen = Overview(recording)
    looks = _looks(_files_of(recording, seen.refused), seen.refused)
    for node in recording.nodes:
        mine = [look for look in looks if look.survey.file.node_id == node.node_id]
        seen.nodes.append(NodeOverview(node, mine))
    surveys = [look.survey for look in looks]
    parsed = Parsed(0)
    for node_overview in seen.nodes:
        _parse(seen, node_overview, parsed)
    _look_at_senders(seen, parsed.senders)
    seen.refused += refusals(recording, surveys, node_gap_minutes_max)
    if not seen.refused:
        seen.refused += unreadable([parsed], parsed.counts)
    seen.refused += wrong_logs(recording, parsed.senders)
    seen.problems += [*seen.of_zookeeper, *warnings_of(surveys), *notes_of(surveys)]
    seen.problems += unread_lines([parsed], recording.name)
    if (span := span_us(surveys)) and not seen.refused:
        seen.problems += (text for node in seen.nodes for text in _gaps(node, span))
    seen.problems += (text for node in seen.nodes for text in _other_role(node))
    seen.without_log = _without_log(seen)
    seen.absent = _absent(seen)
    return seen


def _files_of(recording: Recording, refused: list[str]) -> list[LogFile]:
    files = []
    for node in recording.nodes:
        try:
            files += files_of(node, recording)
        except UserError as error:
            refused.append(str(error))
    refused += shared(files)
    return files


def _looks(files: Sequence[LogFile], refused: list[str]) -> list[Look]:
    """Surveys excerpts of files, the fewer bytes the more files; ``refused`` takes what fails."""
    count = max(len(files), 1)
    part_bytes = min(max(_SAMPLE_BYTES // (3 * count), _PART_BYTES_MIN), _PART_BYTES_MAX)
    every = ceil(count / _PARSED_FILES)

    def look(number: int, file: LogFile) -> Look | str:
        try:
            seen = look_at(file, part_bytes, _UNPACKED_BYTES // count)
        except UserError as error:
            return str(error)
        if number % every:
            seen.excerpts.parts.clear()
        return seen

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = [*pool.map(look, range(count), files)]
    refused += [text for text in looks if isinstance(text, str)]
    return [seen for seen in looks if not isinstance(seen, str)]


def _parse(seen: Overview, node: NodeOverview, parsed: Parsed) -> None:
    """Parses the excerpts of a node's files."""
    parser = LineParser(seen.recording.name, node.node.node_id, node.node.timezone)
    for of_file, excerpts in node.looks:
        file, text = of_file.file, b"".join(excerpts.parts)[: of_file.end]
        lines = LineReader(file.timezone, of_file.framing).read(text.splitlines(), 1)
        rows = parser.parse_batch(lines, [file.source_file] * len(lines.lines))
        note(parsed, ParsedRange(file, 0, 0, 1, None), {file.source_file: lines}, rows, rows)
        _look_at_rows(seen, node, rows)


def _look_at_rows(seen: Overview, node: NodeOverview, rows: Rows) -> None:
    """Notes which requests there are, and what they say of who sent them."""
    for table in ("requests", "fetches", "isr_changes"):
        seen.rows[table].append(rows[table])
    names = ("api_name", "api_version", "software_version", "client_id", "request_bytes")
    columns = [rows["requests"].column(n).to_pylist() for n in (*names, "is_deprecated_version")]
    for api, version, of_kafka, client_id, size, is_deprecated in zip(*columns, strict=True):
        node.apis[str(api), version] += 1
        if api in _BY_KAFKA and of_kafka:
            seen.kafka_versions.add(of_kafka)
        if api == "PRODUCE":
            seen.produced[client_id or ""] += size or 0
        if is_deprecated:
            seen.deprecated.add(f"{client_id or ''} ({api} v{version})")
    beating = {*rows["broker_heartbeats"].column("broker_id").to_pylist()}
    seen.brokers_seen |= beating - {None}


def _look_at_senders(seen: Overview, senders: Senders) -> None:
    """Notes which nodes sent requests, and the roles of those that responded."""
    sent = {(api, sender) for (_, _, api, sender) in senders if sender >= 0}
    seen.brokers_seen |= {sender for api, sender in sent if api == TOPIC_FETCH}
    seen.metadata_replicas_seen |= {sender for api, sender in sent if api == METADATA_FETCH}
    seen.of_zookeeper = zookeeper(seen.recording.name, senders)
    roles = [("broker", OF_BROKERS), ("controller", OF_CONTROLLERS)]
    for node in seen.nodes:
        responded = {api for _, node_id, api, _ in senders if node_id == node.node.node_id}
        responded -= OF_CONTROLLERS if seen.of_zookeeper else set()
        node.shown_role = ",".join(role for role, own in roles if responded & own)


def _without_log(seen: Overview) -> dict[int, str]:
    listed = {node.node.node_id for node in seen.nodes}
    idle = {n.node.node_id for n in seen.nodes if n.looks and not n.log_bytes}
    named = seen.brokers_seen | seen.metadata_replicas_seen | {*(seen.recording.voters or ())}
    evidence = dict.fromkeys(named - listed, "no_log")
    evidence |= dict.fromkeys(seen.brokers_seen & idle, "logger_off")
    return dict(sorted(evidence.items()))


def _absent(seen: Overview) -> dict[str, list[str]]:
    absent: dict[str, list[str]] = {}
    for role, names in _BY_ROLE.items():
        if not any(n.apis for n in seen.nodes) or (role == "controller" and seen.of_zookeeper):
            continue  # nothing was read, or there are none
        logged = {api for node in seen.nodes if role in node.role for api, _ in node.apis}
        if missing := [name for name in names if name not in logged]:
            absent[role] = missing
    return absent


def _other_role(node: NodeOverview) -> Iterator[str]:
    stated, responded = node.node.role, node.shown_role
    if stated and not {*responded.split(",")} <= {*stated.split(","), ""}:
        yield (
            f"node {node.node.node_id} is a {stated} in recording.json, and its log shows requests "
            f"that only a {responded.replace(',', ' and a ')} responds to"
        )


def _gaps(node: NodeOverview, whole: Span) -> Iterator[str]:
    """Yields when a broker logged nothing, between its files or while others did."""
    spans = sorted(span for look in node.looks if (span := span_us([look.survey])))
    if "broker" not in node.role or not node.is_end_seen or not spans:
        return  # a controller that is not active has nothing to log
    at_ends_us = max(_OUTSIDE_SHARE * (whole[1] - whole[0]), _OUTSIDE_US)
    limits = [at_ends_us, *[_BETWEEN_FILES_US] * (len(spans) - 1), at_ends_us]
    edges = [whole[0], *(us for span in spans for us in span), whole[1]]
    for begin, end, limit_us in zip(edges[::2], edges[1::2], limits, strict=True):
        if end - begin > limit_us:
            yield (
                f"node {node.node.node_id}: no file has {moment(begin):%F %T} to "
                f"{moment(end):%F %T} UTC: was it down, its logger off, or is a rotated file gone?"
            )
