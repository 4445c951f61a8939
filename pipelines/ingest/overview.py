"""Surveys excerpts of a recording's logs, and says what is wrong before an hour's run is begun.

The survey and its checks are those of a run. Excerpts are parsed too, and the rows are looked into.
"""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil

import duckdb
import pyarrow as pa

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.checks import (
    notes_of,
    refusals,
    some,
    unread_lines,
    unreadable,
    warnings_of,
)
from kip_replay.pipelines.ingest.excerpts import Look, look_at
from kip_replay.pipelines.ingest.line_accounting import Counts
from kip_replay.pipelines.ingest.log_files import LogFile, files_of, shared
from kip_replay.pipelines.ingest.parse_range import ParsedRange
from kip_replay.pipelines.ingest.parse_task import Parsed, Span, note
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.ingest.survey import span_us
from kip_replay.pipelines.ingest.whose_log import (
    METADATA_FETCH,
    OF_BROKERS,
    OF_CONTROLLERS,
    TOPIC_FETCH,
    Senders,
    wrong_logs,
)
from kip_replay.pipelines.warehouse.data_files import moment
from kip_replay.replay.kafka.request_log import LineParser, Rows
from kip_replay.replay.kafka.request_log.layouts import LineReader
from kip_replay.replay.log_tables import LINE_TABLES

#: Parsed in about half a second, over all files; of one file at least, and at most, thrice this.
_SAMPLE_BYTES, _PART_BYTES_MIN, _PART_BYTES_MAX = 24 << 20, 64 << 10, 1 << 20
#: This many files are parsed in part, evenly among all; of others only stamps are read.
_PARSED_FILES = 128
#: Compressed bytes that are unpacked for their tails, in some seconds.
_UNPACKED_BYTES = 64 << 20
#: What only brokers and controllers send: its client's version is Kafka's.
_BY_KAFKA = OF_CONTROLLERS - {"VOTE", "BEGIN_QUORUM_EPOCH", "ENVELOPE"}
#: Of lines that were looked at. A log with more is hardly a request log.
_REJECTED_SHARE = 0.01
#: A broker whose log begins later or ends earlier than all others is worth a word.
_OUTSIDE_SHARE, _OUTSIDE_US = 0.1, 15_000_000
#: Brokers replicate all the time: nothing for so long is no pause.
_BETWEEN_FILES_US = 120_000_000
_REQUESTS = """
    SELECT node_id, api_name, api_version, count(*),
        list(DISTINCT software_version) FILTER (software_version <> '')
    FROM requests GROUP BY ALL ORDER BY count(*) DESC, 1, 2, 3"""
_BEATING = "SELECT DISTINCT broker_id FROM broker_heartbeats WHERE broker_id IS NOT NULL"


@dataclass
class NodeOverview:
    """A node in excerpts. ``shown_role`` is what its APIs show; ``apis`` with their requests."""

    node: Node
    looks: Sequence[Look]
    shown_role: str = ""
    apis: dict[str, int] = field(default_factory=dict)

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


@dataclass
class Overview:
    """A recording in excerpts: ``rows`` are of all nodes.

    ``refused`` are sentences that a run would stop with, ``problems`` those it would work with.
    ``kafka_versions``: of the brokers and controllers that sent requests. ``parse_s``: CPU seconds
    that this machine took for ``rows``, which were ``sample_bytes``.
    """

    recording: Recording
    nodes: list[NodeOverview] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    kafka_versions: list[str] = field(default_factory=list)
    brokers_seen: set[int] = field(default_factory=set)
    metadata_replicas_seen: set[int] = field(default_factory=set)
    sample_bytes: int = 0
    parse_s: float = 0.0

    @property
    def log_bytes(self) -> int:
        return sum(node.log_bytes for node in self.nodes)

    @property
    def of_brokers(self) -> Span | None:
        """Spans the time in which all brokers logged; standby controllers have little to log."""
        spans = [span for node in self.nodes if "broker" in node.role and (span := node.span)]
        first, last = (max(s[0] for s in spans), min(s[1] for s in spans)) if spans else (1, 0)
        return (first, last) if first <= last else None

    def database(self) -> duckdb.DuckDBPyConnection:
        """Opens a database with the rows by table."""
        database = duckdb.connect()
        for table in LINE_TABLES:
            names = table.arrow_schema.names
            batches = [rows[table.name].select(names) for rows in self.rows]
            database.register(table.name, pa.Table.from_batches(batches, table.arrow_schema))
        return database


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
    _look_into_rows(seen, parsed.senders)
    seen.refused += refusals(recording, surveys, node_gap_minutes_max)
    if not seen.refused:
        seen.refused += unreadable([parsed], parsed.counts)
    seen.refused += wrong_logs(recording, parsed.senders)
    seen.problems += [*warnings_of(surveys), *notes_of(surveys)]
    if unread := [*_unread(seen, parsed)]:
        seen.problems += [*unread, *unread_lines([parsed], recording.name)]
    if (span := span_us(surveys)) and not seen.refused:
        seen.problems += (text for node in seen.nodes for text in _gaps(node, span))
    seen.problems += (text for node in seen.nodes for text in _other_role(node))
    seen.problems += _of_cluster(seen)
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
    for survey, excerpts in node.looks:
        file, text = survey.file, b"".join(excerpts.parts)[: survey.end]
        lines = LineReader(file.timezone, survey.framing).read(text.splitlines(), 1)
        begin = time.thread_time()
        rows = parser.parse_batch(lines, [file.source_file] * len(lines.lines))
        seen.parse_s += time.thread_time() - begin
        seen.sample_bytes += sum(map(len, lines.lines))
        note(parsed, ParsedRange(file, 0, 0, 1, None), {file.source_file: lines}, rows, rows)
        seen.rows.append(rows)


def _unread(seen: Overview, parsed: Parsed) -> Iterator[str]:
    """Yields the nodes of which too many lines cannot be read."""
    for node_id in seen.recording.node_ids:
        total = sum((c for (_, of, _), c in parsed.counts.items() if of == node_id), Counts())
        lines = total.requests + total.rejected
        if total.rejected > _REJECTED_SHARE * lines:
            yield f"node {node_id}: {total.rejected:,} of {lines:,} lines looked at cannot be read"


def _look_into_rows(seen: Overview, senders: Senders) -> None:
    """Notes who sent requests and in which versions."""
    nodes, versions = {node.node.node_id: node for node in seen.nodes}, set[str]()
    with seen.database() as database:
        for node_id, api, version, count, of_kafka in database.sql(_REQUESTS).fetchall():
            nodes[node_id].apis[f"{api} v{version}"] = count
            versions.update(of_kafka if api in _BY_KAFKA and of_kafka else ())
        seen.brokers_seen.update(node_id for (node_id,) in database.sql(_BEATING).fetchall())
    seen.kafka_versions = sorted(versions)
    sent = {(api, sender) for (_, _, api, sender) in senders if sender >= 0}
    seen.brokers_seen |= {sender for api, sender in sent if api == TOPIC_FETCH}
    seen.metadata_replicas_seen |= {sender for api, sender in sent if api == METADATA_FETCH}
    for node_id, node in nodes.items():
        shown = {api for _, of, api, _ in senders if of == node_id}
        roles = [("broker", OF_BROKERS), ("controller", OF_CONTROLLERS)]
        node.shown_role = ",".join(role for role, own in roles if shown & own)


def _of_cluster(seen: Overview) -> Iterator[str]:
    """Yields what nodes say of the cluster that the manifest does not."""
    versions, stated = seen.kafka_versions, seen.recording.kafka_version
    if len(versions) > 1 or not all(version.startswith(stated or "") for version in versions):
        yield (
            f"nodes call themselves Kafka {', '.join(versions)}"
            f"{f', and recording.json says {stated}' if stated else ''}: is it one cluster, at a "
            "time without an upgrade?"
        )
    idle = {n.node.node_id for n in seen.nodes if n.looks and not n.log_bytes}
    named = seen.brokers_seen | seen.metadata_replicas_seen | {*(seen.recording.voters or ())}
    if silent := sorted(named - {*seen.recording.node_ids} | seen.brokers_seen & idle):
        yield (
            f"no log of node {some(map(str, silent), 10)}, or an empty one, which the logs of "
            "others or 'voters' name: what only it logged stays unknown"
        )


def _other_role(node: NodeOverview) -> Iterator[str]:
    stated, shown = node.node.role, node.shown_role
    if stated and not {*shown.split(",")} <= {*stated.split(","), ""}:
        yield (
            f"node {node.node.node_id} is a {stated} in recording.json, and its log shows requests "
            f"that only a {shown.replace(',', ' and a ')} responds to"
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
