"""What is wrong with a recording already, by samples of its logs: one sentence each."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.line_accounting import file_of
from kip_replay.pipelines.ingest.overview import NodeOverview, Overview, looked_at
from kip_replay.pipelines.ingest.parse_task import Unread
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.survey_checks import check_spans, shown_span
from kip_replay.pipelines.ingest.unread import unread_sentence, what_they_are
from kip_replay.pipelines.ingest.whose_log import Senders, same_contents, senders_of, wrong_logs

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
        if each.files and not each.apis:
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
    seen = found.brokers_seen | found.metadata_replicas_seen | {*(recording.voters or ())}
    silent = sorted(seen - {*recording.node_ids})
    if silent:
        found.problems.append(
            f"no log of node {_some(map(str, silent), 10)}, which the logs of others or 'voters' "
            "name: what only it logged stays unknown"
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
    """Sentences on the files of a node; ``rows`` are of its lines."""
    who = f"node {each.node.node_id}"
    empty = [s.file.source_file for s in each.samples if not s.disk_bytes]
    said = [f"{who}: empty: {_some(empty)}"] if empty else []
    said += [f"{who}: {s.file.source_file} {s.damage}" for s in each.samples if s.damage]
    rejected = pc.drop_null(rows.column("rejected"))
    if len(rejected) > _REJECTED_SHARE * len(rows):
        unread = rows.filter(rows.column("rejected").is_valid()).to_pylist()
        first = {row["rejected"]["reason"]: row for row in reversed(unread)}
        reasons = Counter(row["rejected"]["reason"] for row in unread).most_common(3)
        counted = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        said.append(f"{who}: of {len(rows):,} lines looked at cannot be read: {counted}")
        said += [f"{who}: {unread_sentence(Unread.of(first[reason]))}" for reason, _ in reasons]
    return said


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


def _some(names: Iterable[str], most: int = 3) -> str:
    every = [*names]
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
