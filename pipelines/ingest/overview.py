"""Sums up samples of a recording's logs: nodes, spans, APIs, versions, and what is wrong.

Nothing is written, and no file is read further than ``sample`` does, so that an hour's run is not
spent on a log that lacks what was wanted of it.
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.line_accounting import file_of
from kip_replay.pipelines.ingest.log_files import LogFile, files_of, find_log_files
from kip_replay.pipelines.ingest.parse_task import Unread
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.ingest.sample import Sample, sampled
from kip_replay.pipelines.ingest.survey_checks import Span, check_spans, shown_span, some
from kip_replay.pipelines.ingest.unread import unread_sentence, what_they_are
from kip_replay.pipelines.ingest.whose_log import (
    OF_BROKERS,
    OF_CONTROLLERS,
    Senders,
    same_contents,
    senders_of,
    wrong_logs,
)
from kip_replay.replay.kafka.request_log import PARSED_LINE, LineParser
from kip_replay.replay.kafka.request_log.layouts import Lines

#: Parsed in about half a second, over all files; of one file at least, and at most, thrice this.
_SAMPLE_BYTES, _PART_BYTES_MIN, _PART_BYTES_MAX = 24 << 20, 64 << 10, 1 << 20
#: This many files are parsed in part, evenly among all; of others only stamps are read.
_PARSED_FILES = 128
#: Compressed bytes that are inflated for their tails, in some seconds.
_INFLATED_BYTES = 64 << 20
#: What only brokers and controllers send: its client's version is Kafka's.
_BY_KAFKA = OF_CONTROLLERS - {"VOTE", "BEGIN_QUORUM_EPOCH", "ENVELOPE"}


@dataclass
class NodeOverview:
    """A node in samples. ``lines`` is an estimate, ``shown_role`` what its APIs show.

    ``kafka_versions``: of the brokers and controllers that sent it requests. ``others``: lines that
    are no requests, by their logger.
    """

    node: Node
    samples: Sequence[Sample] = ()
    disk_bytes: int = 0
    log_bytes: int = 0
    lines: int = 0
    span: Span | None = None
    is_end_seen: bool = True
    shown_role: str | None = None
    apis: Counter[tuple[str, int]] = field(default_factory=Counter)
    kafka_versions: frozenset[str] = frozenset()
    others: Counter[str] = field(default_factory=Counter)

    @property
    def files(self) -> int:
        return len(self.samples)

    @property
    def role(self) -> str:
        """Returns the role that the manifest states, else that its APIs show; empty if neither."""
        return self.node.role or self.shown_role or ""


@dataclass
class Overview:
    """A recording in samples: ``rows`` are of ``PARSED_LINE``, of all nodes.

    ``refused`` are sentences that a run would stop with, ``problems`` those it would work with.
    ``parse_s``: CPU seconds that this machine took for ``rows``, which were ``sample_bytes``.
    """

    recording: Recording
    nodes: list[NodeOverview] = field(default_factory=list)
    rows: pa.Table = field(default_factory=PARSED_LINE.empty_table)
    refused: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sample_bytes: int = 0
    parse_s: float = 0.0

    @property
    def log_bytes(self) -> int:
        """Uncompressed bytes of all logs, about."""
        return sum(node.log_bytes for node in self.nodes)

    @property
    def span(self) -> Span | None:
        spans = [node.span for node in self.nodes if node.span]
        return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None

    @property
    def of_brokers(self) -> Span | None:
        """Spans the time in which all brokers logged; standby controllers have little to log."""
        spans = [node.span for node in self.nodes if node.span and "broker" in node.role]
        first, last = (max(s[0] for s in spans), min(s[1] for s in spans)) if spans else (1, 0)
        return (first, last) if first <= last else None

    @property
    def kafka_versions(self) -> list[str]:
        return sorted({version for node in self.nodes for version in node.kafka_versions})

    @property
    def brokers_seen(self) -> set[int]:
        fetching = self._replicas(of_metadata=False)
        return fetching | _ids(self.rows, "broker_heartbeat", "broker_id")

    @property
    def metadata_replicas_seen(self) -> set[int]:
        return self._replicas(of_metadata=True)

    def _replicas(self, of_metadata: bool) -> set[int]:
        fetches = self.rows.column("fetch").combine_chunks()
        chosen = pc.equal(pc.struct_field(fetches, "is_cluster_metadata"), of_metadata)
        return _ids(self.rows.filter(chosen), "fetch", "replica_id")


def _ids(rows: pa.Table, column: str, name: str) -> set[int]:
    values = pc.struct_field(rows.column(column).combine_chunks(), name).unique().to_pylist()
    return {value for value in values if value is not None and value >= 0}


def looked_at(recording: Recording) -> Overview:
    found = Overview(recording)
    files = {node: _files_of(node, found) for node in recording.nodes}
    if not found.refused:
        try:
            find_log_files(recording)
        except UserError as error:  # two nodes that claim one file
            found.refused.append(str(error))
    count = max(sum(map(len, files.values())), 1)
    part_bytes = min(max(_SAMPLE_BYTES // (3 * count), _PART_BYTES_MIN), _PART_BYTES_MAX)
    look = partial(_look, part_bytes=part_bytes, inflated_bytes_max=_INFLATED_BYTES // count)
    every = ceil(count / _PARSED_FILES)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = {node: pool.map(look, of_node) for node, of_node in files.items()}
        for node, of_node in looks.items():
            shown = [
                replace(each, lines=Lines()) if i % every and isinstance(each, Sample) else each
                for i, each in enumerate(of_node)
            ]
            _add(found, node, shown)
    return found


def _files_of(node: Node, found: Overview) -> list[LogFile]:
    try:
        return files_of(node, found.recording)
    except UserError as error:
        found.refused.append(str(error))
        return []


def _look(file: LogFile, part_bytes: int, inflated_bytes_max: int) -> Sample | str:
    try:
        return sampled(file, part_bytes, inflated_bytes_max)
    except (UserError, OSError) as error:
        return f"{file.source_file} cannot be read ({error}): correct its rights or its name"


def _add(found: Overview, node: Node, looks: Sequence[Sample | str]) -> None:
    found.refused += [look for look in looks if isinstance(look, str)]
    samples = [look for look in looks if isinstance(look, Sample)]
    parser = LineParser(found.recording.name, node.node_id, node.timezone)
    begin = time.thread_time()
    batches = [
        parser.parse_batch(look.lines, look.file.source_file)
        for look in samples
        if look.lines.lines
    ]
    found.parse_s += time.thread_time() - begin
    found.sample_bytes += sum(len(line) for look in samples for line in look.lines.lines)
    rows = pa.Table.from_batches(batches, PARSED_LINE)
    found.rows = pa.concat_tables([found.rows, rows])
    requests = rows.column("request").combine_chunks()
    names, versions = (
        pc.struct_field(requests, of).to_pylist() for of in ("api_name", "api_version")
    )
    apis = Counter(zip(names, versions, strict=True))
    del apis[None, None]
    sizes = ("disk_bytes", "log_bytes", "line_count")
    disk_bytes, log_bytes, lines = (sum(getattr(s, of) for s in samples) for of in sizes)
    times = [us for s in samples for us in (s.first_us, s.last_us) if us is not None]
    span = (min(times), max(times)) if times else None
    is_end_seen = all(sample.is_end_seen for sample in samples)
    roles = [("broker", OF_BROKERS), ("controller", OF_CONTROLLERS)]
    shown_role = ",".join(role for role, own in roles if own.intersection(names)) or None
    others = sum((sample.lines.others for sample in samples), Counter[str]())
    shown = apis, _kafka_versions(requests), others
    of_files = disk_bytes, log_bytes, lines, span, is_end_seen
    found.nodes.append(NodeOverview(node, samples, *of_files, shown_role, *shown))


def _kafka_versions(requests: pa.StructArray) -> frozenset[str]:
    is_own = pc.is_in(pc.struct_field(requests, "api_name"), pa.array(sorted(_BY_KAFKA)))
    versions = pc.struct_field(requests, "software_version").filter(is_own)
    return frozenset(version for version in versions.unique().to_pylist() if version)


#: Of lines that were looked at. A log with more is hardly a request log.
_REJECTED_SHARE = 0.01
#: A broker whose log lacks more of the span of all is worth a word.
_OUTSIDE_SHARE, _OUTSIDE_US = 0.1, 15_000_000
#: Brokers replicate all the time: nothing for so long is no pause.
_BETWEEN_FILES_US = 120_000_000


def overview(recording: Recording, node_gap_minutes_max: float) -> Overview:
    """Samples every log of a recording, and says what is wrong with them."""
    found = looked_at(recording)
    for each in found.nodes:
        of_node = pc.equal(found.rows.column("node_id"), each.node.node_id)
        found.problems += [*_of_files(each, found.rows.filter(of_node)), *_between_files(each)]
        found.problems += _other_role(each)
        if each.files and not each.apis and (each.log_bytes or not found.span):
            has = f": it has {what_they_are(each.others)}" if each.others else ""
            found.refused.append(
                f"the log of node {each.node.node_id} shows no request that can be read{has}"
            )
    samples = [sample for each in found.nodes if each.apis for sample in each.samples]
    contents = [(file_of(each.file), (*each.lines.lines,)) for each in samples if each.lines.lines]
    senders: Senders = sum(map(senders_of, found.rows.to_batches()), Counter())
    found.refused += same_contents(recording, contents) or wrong_logs(recording, senders)
    spans = {each.node.node_id: each.span for each in found.nodes if each.span}
    try:
        check_spans(recording, spans, round(node_gap_minutes_max * 60e6))
    except UserError as error:
        found.refused.append(str(error))
    else:
        if all(each.is_end_seen for each in found.nodes):
            found.problems += _not_together(found)
    versions, stated = found.kafka_versions, recording.kafka_version
    if len(versions) > 1 or not all(version.startswith(stated or "") for version in versions):
        found.problems.append(
            f"nodes call themselves Kafka {', '.join(versions)}"
            f"{f', and recording.json says {stated}' if stated else ''}: is it one cluster, at a "
            "time without an upgrade?"
        )
    idle = {each.node.node_id for each in found.nodes if each.files and not each.log_bytes}
    seen = found.brokers_seen | found.metadata_replicas_seen | {*(recording.voters or ())}
    silent = sorted(seen - {*recording.node_ids} | found.brokers_seen & idle)
    if silent:
        found.problems.append(
            f"no log of node {some(map(str, silent), 10)}, or an empty one, which the logs of "
            "others or 'voters' name: what only it logged stays unknown"
        )
    return found


def _other_role(each: NodeOverview) -> list[str]:
    stated, shown = each.node.role, each.shown_role
    if not stated or not shown or {*shown.split(",")} <= {*stated.split(",")}:
        return []
    return [
        f"node {each.node.node_id} is a {stated} in recording.json, and its log shows requests "
        f"that only a {shown.replace(',', ' and a ')} responds to"
    ]


def _of_files(each: NodeOverview, rows: pa.Table) -> list[str]:
    who = f"node {each.node.node_id}"
    empty = [s.file.source_file for s in each.samples if not s.log_bytes]
    problems = [f"{who}: empty: {some(empty)}"] if empty else []
    problems += [f"{who}: {s.file.source_file} {s.damage}" for s in each.samples if s.damage]
    rejected = pc.drop_null(rows.column("rejected"))
    if len(rejected) > _REJECTED_SHARE * len(rows):
        unread = rows.filter(rows.column("rejected").is_valid()).to_pylist()
        first = {row["rejected"]["reason"]: row for row in reversed(unread)}
        reasons = Counter(row["rejected"]["reason"] for row in unread).most_common(3)
        counted = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        problems.append(f"{who}: of {len(rows):,} lines looked at cannot be read: {counted}")
        problems += [f"{who}: {unread_sentence(Unread.of(first[reason]))}" for reason, _ in reasons]
    return problems


def _between_files(each: NodeOverview) -> list[str]:
    if "broker" not in each.role:  # a controller that is not active has nothing to log
        return []
    spans = sorted((s.first_us, s.last_us) for s in each.samples if s.first_us and s.last_us)
    return [
        f"node {each.node.node_id}: no file has {shown_span((before[1], after[0]))} UTC: is a "
        "rotated one missing?"
        for before, after in pairwise(spans)
        if after[0] - before[1] > _BETWEEN_FILES_US
    ]


def _not_together(found: Overview) -> list[str]:
    """A sentence per broker whose log lacks much of the time that others have."""
    if found.span is None:
        return []
    whole_us = found.span[1] - found.span[0]
    return [
        f"node {each.node.node_id} logged only from {shown_span(each.span)} UTC: was it down, its "
        "logger off, or is a rotated file missing?"
        for each in found.nodes
        if each.span and "broker" in each.role
        if whole_us - (each.span[1] - each.span[0]) > max(_OUTSIDE_SHARE * whole_us, _OUTSIDE_US)
    ]
