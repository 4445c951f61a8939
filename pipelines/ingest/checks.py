"""Says what is wrong with logs: what stops a run, and what it and a plan warn of.

A node whose stamps are read in the wrong zone lies hours beside the others; replayed, it would give
numbers that look real. So nodes must have logged at the same time. Lines that give no request are
named for what they are, instead of advice that does not fit them.

Swapped logs would be replayed as if they were right. No node replicates from itself or requests its
own vote. A controller that knows no leader may send itself a FETCH, which fails: only successful
ones count. Some APIs only brokers respond to, others only controllers. Where none of this decides,
no warning is printed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kip_replay.pipelines.ingest.line_accounting import (
    Counts,
    FileKey,
    file_key,
    file_of,
    read_spans,
)
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.parse_task import (
    METADATA_FETCH,
    TOPIC_FETCH,
    Parsed,
    Senders,
    Span,
    Unread,
    hull,
)
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.ingest.survey import Survey, span_us
from kip_replay.pipelines.warehouse.data_files import microseconds, moment
from kip_replay.replay.kafka.request_log import RejectReason

_MINUTE_US = 60_000_000
_SHOWN_CHARACTERS, _LOGGERS_SHOWN = 120, 3
#: Lines are written in the order of completion, within some of this.
_OUT_OF_ORDER_US = 1_000_000
#: Zones differ by half and whole hours (a few by quarters), from UTC-12 to UTC+14.
_OFFSETS_MINUTES = sorted(range(-26 * 60, 26 * 60 + 1, 30), key=abs)

#: APIs (requestApiKeyName) that only controllers, and only brokers, respond to.
OF_CONTROLLERS = {METADATA_FETCH, "ALLOCATE_PRODUCER_IDS", "ALTER_PARTITION", "BEGIN_QUORUM_EPOCH"}
OF_CONTROLLERS |= {"BROKER_HEARTBEAT", "BROKER_REGISTRATION", "CONTROLLER_REGISTRATION"}
OF_CONTROLLERS |= {"ENVELOPE", "FETCH_SNAPSHOT", "VOTE"}
OF_BROKERS = {TOPIC_FETCH, "FIND_COORDINATOR", "HEARTBEAT", "INIT_PRODUCER_ID", "JOIN_GROUP"}
OF_BROKERS |= {"LIST_OFFSETS", "METADATA", "OFFSET_COMMIT", "PRODUCE"}
#: APIs that no KRaft broker has: its controllers have ZooKeeper for their log.
OF_ZOOKEEPER = {"LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA"}
_ROLES = {"broker": (OF_BROKERS, OF_CONTROLLERS), "controller": (OF_CONTROLLERS, OF_BROKERS)}
#: Fewer, or a smaller share of what nodes sent, prove nothing: addresses change hands.
_REQUESTS_MIN, _SHARE_MIN = 3, 0.001
_WAY_OUT = f"give each node its own in {MANIFEST} or by --node"


def refusals(
    recording: Recording,
    surveys: Sequence[Survey],
    gap_minutes_max: float,
    ingested: Sequence[Mapping[str, Any]] = (),
    final: bool = True,
) -> Iterator[str]:
    """Yields what a run stops at: a clock that was corrected, a log without requests, of another
    time, or that of two nodes.

    ``ingested``: what has been read of the recording before. A log that was rotated a moment ago is
    empty, so that one without a whole line is no error for a node that is known, or unless it is
    ``final``. Nor is one without a byte where another node has logged: there may have been nothing.
    """
    yield from _corrected_clocks(recording, ingested)
    nodes: dict[int, list[Survey]] = {}
    for survey in sorted(surveys, key=lambda survey: survey.file.node_id):
        nodes.setdefault(survey.file.node_id, []).append(survey)
    known = read_spans(ingested)
    is_logged = bool(known) or any(survey.has_requests for survey in surveys)
    for node_id, files in nodes.items():
        may_follow = node_id in known or not (final or any(file.end for file in files))
        may_follow |= is_logged and not any(f.end + f.left_bytes or f.damage for f in files)
        if not may_follow and not any(file.has_requests for file in files):
            yield _without_requests(recording, node_id, files)
    spans = {node_id: span for node_id, files in nodes.items() if (span := span_us(files))}
    if known and not any(survey.first_byte or survey.is_known for survey in surveys):
        new = [span for node_id, span in spans.items() if node_id in known]
        # Older files of one node may come later.
        if new and (len(known) > 1 or min(new) > max(known.values())):
            yield from _of_other_times(recording.name, hull([*known.values()]), hull(new))
    for node_id, span in known.items():
        spans[node_id] = hull([span, spans.get(node_id, span)])
    yield from _apart(recording, spans, round(gap_minutes_max * _MINUTE_US))
    hashes = [(file_of(s.file), s.content_hash) for s in surveys if s.has_requests]
    hashes += [(file_key(row), row["content_hash"]) for row in ingested if row["requests"]]
    yield from same_contents(hashes)


def _corrected_clocks(recording: Recording, ingested: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a sentence for each node of which lines were read with another clock offset."""
    for node in recording.nodes:
        read = {row["clock_offset_ms"] or 0 for row in ingested if row["node_id"] == node.node_id}
        for before in read - {node.clock_offset_ms}:
            yield (
                f"node {node.node_id} of recording {recording.name!r} was read with "
                f"clock_offset_ms {before}, and recording.json now has {node.clock_offset_ms}: "
                f"delete what was read (kip-replay recordings delete {recording.name} with this "
                "--warehouse) and run again, or give the recording another name"
            )


def warnings_of(
    surveys: Sequence[Survey], ingested: Sequence[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """Yields a sentence per file of which not everything can be relied upon.

    One that is neither what was read under its name (``ingested``), grown, nor its successor, which
    begins where that one ended, was replaced.
    """
    last_us: dict[FileKey, int] = {}
    for row in ingested:
        if row["last_completed_at"] is not None and row["disk_bytes"] is not None:
            last = microseconds(row["last_completed_at"])
            last_us[file_key(row)] = max(last, last_us.get(file_key(row), last))
    for survey in surveys:
        name = f"{survey.file.source_file} of recording {survey.file.recording!r}"
        if survey.damage:
            yield f"{name} {survey.damage}: the lines before are read, what follows is lost"
        if not survey.fold_is_known:
            yield (
                f"{name} holds stamps of an hour that occurs twice in {survey.file.timezone} and "
                "does not show which of the two it is: the first is assumed"
            )
        span = None if survey.first_byte else span_us([survey])
        read_us = last_us.get(file_of(survey.file))
        if span is not None and read_us is not None and span[0] < read_us - _OUT_OF_ORDER_US:
            yield (
                f"{name} no longer begins with what was read of it, though it is of the same time: "
                "lines that were read stay, and only those that are new are added"
            )


def notes_of(surveys: Sequence[Survey]) -> list[str]:
    halves = [
        f"{survey.file.source_file} does not end with a line end: its last {survey.left_bytes:,} "
        "bytes are left for a later run, or for one with --final"
        for survey in surveys
        if survey.left_bytes and survey.damage is None
    ]
    empty = [s.file.source_file for s in surveys if not s.end + s.left_bytes]
    return [*halves, f"empty: {some(empty)}"] if empty else halves


def some(names: Iterable[str], most: int = 3) -> str:
    every = [*names]
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def _without_requests(recording: Recording, node_id: int, files: Sequence[Survey]) -> str:
    names = some(file.file.source_file for file in files)
    log = f"the log of node {node_id} of recording {recording.name!r} ({names})"
    if damages := [file.damage for file in files if file.damage]:
        return f"{log} {damages[0]}"
    others: Counter[str] = sum((Counter(file.others) for file in files), Counter())
    is_empty = not any(file.end + file.left_bytes for file in files)
    return (
        f"{log} {'is empty' if is_empty else f'holds {what_they_are(others)}'}: set "
        "kafka.request.logger to DEBUG on that node, or correct its 'log' in the manifest or --node"
    )


def _of_other_times(name: str, known: Span, new: Span) -> Iterator[str]:
    """Yields a sentence about files that have none of what was read, and do not follow it."""
    if len(_groups({0: known, 1: new}, _MINUTE_US)) > 1:
        yield (
            f"recording {name!r} was read from {_shown_span(known)} UTC, and these logs are of "
            f"{_shown_span(new)} UTC, with none of what was read: give them a name of their own in "
            "recording.json, or by --name"
        )


def _apart(recording: Recording, spans: Mapping[int, Span], gap_max_us: int) -> Iterator[str]:
    """Yields a sentence if nodes lie apart: a wrong zone, most often. ``spans`` by node id."""
    groups = _groups(spans, gap_max_us)
    if len(groups) < 2:
        return
    group = min(groups, key=lambda nodes: (len(nodes), nodes))
    here = hull([spans[node_id] for node_id in group])
    others = [spans[node_id] for node_id in spans if node_id not in group]
    there = hull(others)
    offset = _likely_offset_minutes(here, others)
    who = "node " + ", ".join(str(node_id) for node_id in group)
    hint = (
        "no shift by half hours brings them together: are these logs of another day?"
        if offset is None
        else f"its stamps look {abs(offset) / 60:g} h off, set nodes[].timezone of {who} in "
        "recording.json, or --timezone if it is all of them"
    )
    zones = " and ".join(
        sorted({node.timezone for node in recording.nodes if node.node_id in group})
    )
    yield (
        f"{who} of recording {recording.name!r} logged from {_shown_span(here)} UTC (read as "
        f"{zones}) but the other nodes from {_shown_span(there)} UTC: {hint}"
    )


def _groups(spans: Mapping[int, Span], gap_max_us: int) -> list[list[int]]:
    """Groups nodes whose spans overlap or nearly do, directly or through others."""
    groups: list[list[int]] = []
    reaches = 0
    for node_id in sorted(spans, key=lambda node_id: spans[node_id]):
        first, last = spans[node_id]
        if groups and first <= reaches + gap_max_us:
            groups[-1].append(node_id)
            reaches = max(reaches, last)
        else:
            groups.append([node_id])
            reaches = last
    return [sorted(group) for group in groups]


def _likely_offset_minutes(here: Span, others: Sequence[Span]) -> int | None:
    """Returns how far to move ``here`` to overlap the others most; the least if several do."""

    def overlap_us(minutes: int) -> int:
        first, last = (us + minutes * _MINUTE_US for us in here)
        return sum(max(0, min(last, end) - max(first, begin) + 1) for begin, end in others)

    best = max(_OFFSETS_MINUTES, key=overlap_us)
    return best if overlap_us(best) else None


def _shown_span(span: Span) -> str:
    """Prints a span to the minute, in UTC."""
    first, last = (moment(us) for us in span)
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"


# --- lines that are no requests


def what_they_are(loggers: Mapping[str, int]) -> str:
    """Describes lines of other loggers, the most frequent ones by name."""
    if not loggers:
        return "no line of kafka.request.logger at DEBUG"
    most = Counter(loggers).most_common(_LOGGERS_SHOWN)
    named = ", ".join(f"{name} ({count:,})" for name, count in most)
    more = ", ..." if len(loggers) > _LOGGERS_SHOWN else ""
    return f"lines of other loggers ({named}{more}) and none of kafka.request.logger at DEBUG"


def unread_lines(parsed: Sequence[Parsed], recording: str) -> list[str]:
    """Returns a sentence for each reason: the first line of a recording that cannot be read."""
    first: dict[str, Unread] = {}
    unread = [(name, line) for task in parsed for (name, _), line in task.unread.items()]
    for line in (line for name, line in unread if name == recording):
        first[line.reason] = min(first.get(line.reason, line), line)
    return [_unread_sentence(line) for _, line in sorted(first.items())]


def _unread_sentence(line: Unread) -> str:
    """Names a line, why it cannot be read, and its beginning, without what terminals obey."""
    why = RejectReason[line.reason].value + (f" ({line.detail})" if line.detail else "")
    begin = f" It begins: {ascii(line.line[:_SHOWN_CHARACTERS])[1:-1]}" if line.line else ""
    return f"{line.source_file} line {line.line_number:,} ({line.reason}): {why}{begin}"


def unreadable(
    parsed: Sequence[Parsed], counts: Mapping[FileKey, Counts], known: Collection[str] = ()
) -> Iterator[str]:
    """Yields a sentence per recording not ``known`` of whose lines not one is a request."""
    for recording in sorted({name for name, _, _ in counts}.difference(known)):
        total = sum((c for (name, *_), c in counts.items() if name == recording), Counts())
        if total.requests + total.repeated or not (total.lines or total.outside):
            continue
        if total.outside:
            yield (
                f"none of the {total.outside:,} requests of recording {recording!r} was completed "
                "in that time: correct --from and --until, or the time zone"
            )
            continue
        lines = "; ".join(unread_lines(parsed, recording)) or "they are lines of other loggers"
        yield (
            f"of {total.lines:,} lines of recording {recording!r} none can be read as a request, "
            f"so nothing was written: {lines}"
        )


# --- whose a log is

_Sent = Counter[tuple[str, int]]


def zookeeper(recording: str, senders: Senders) -> list[str]:
    """Says that a cluster is one of ZooKeeper, where its brokers' logs show it and no KRaft."""
    apis = {api for name, _, api, _ in senders if name == recording}
    if not apis & OF_ZOOKEEPER or apis & {METADATA_FETCH, "BROKER_HEARTBEAT"}:
        return []
    return [
        f"recording {recording!r} is of a ZooKeeper cluster (its brokers were sent "
        f"{', '.join(sorted(apis & OF_ZOOKEEPER))}): its controller is one of the brokers, so no "
        "log of a controller is missing, and what rests on KRaft's metadata log is unknown"
    ]


def wrong_logs(recording: Recording, senders: Senders) -> Iterator[str]:
    """Yields which nodes were given a log that is not theirs, what shows it, and whose it is."""
    sent: dict[tuple[str, int], _Sent] = {}
    for (name, node_id, api, sender), count in senders.items():
        sent.setdefault((name, node_id), Counter())[api, sender] = count
    of_node = {
        node: sent.get((recording.name, node.node_id), Counter()) for node in recording.nodes
    }
    proofs = {node: proof for node, own in of_node.items() if (proof := _proof_against(node, own))}
    for node, proof in proofs.items():
        others = [n for n in of_node if n != node and not _proof_against(n, of_node[node])]
        others = [n for n in others if n in proofs] or others
        whose = " or ".join(f"node {n.node_id}" for n in others) or "another node"
        yield (
            f"the log given for node {node.node_id} of recording {recording.name!r} "
            f"({', '.join(node.log)}) is that of {whose}: it has {proof}; {_WAY_OUT}"
        )


def _proof_against(node: Node, sent: _Sent) -> str | None:
    """Proves that a log is not this node's, by what it has; None where it may be."""
    own = Counter({key: count for key, count in sent.items() if key[1] == node.node_id})
    by_nodes = sum(count for (_, sender), count in sent.items() if sender >= 0)
    if own.total() >= max(_REQUESTS_MIN, _SHARE_MIN * by_nodes):
        (((api, _), _),) = own.most_common(1)
        return f"{own.total():,} requests of node {node.node_id} itself ({api})"
    its, others = _ROLES.get(node.role or "", (set(), set()))
    foreign = Counter({key: count for key, count in sent.items() if key[0] in others})
    if foreign.total() >= _REQUESTS_MIN and its.isdisjoint(api for api, _ in sent):
        (((api, _), _),) = foreign.most_common(1)
        return f"{foreign.total():,} requests that no {node.role} responds to ({api})"
    return None


def same_contents(contents: Iterable[tuple[FileKey, str]]) -> Iterator[str]:
    """Yields which nodes of a recording were given copies of one file."""
    first: dict[str, FileKey] = {}
    for (name, node_id, file), content in contents:
        _, other, copied = first.setdefault(content, (name, node_id, file))
        if other != node_id:
            yield (
                f"the logs given for node {other} and node {node_id} of recording {name!r} "
                f"({copied}, {file}) have the same content: {_WAY_OUT}"
            )
