"""Reports what was read: files, lines and versions of each node, and unreadable lines."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from duckdb import DuckDBPyConnection

from kip_replay.pipelines.replaying.clock_words import sentences
from kip_replay.pipelines.replaying.gap_words import gap_sentences
from kip_replay.pipelines.report import marks, words
from kip_replay.pipelines.report.marks import Row, Table
from kip_replay.replay.kafka.request_log.line import Reason

#: Rejected lines shown for each reason, the characters of each, and reasons at most.
EXAMPLES, EXAMPLE_CHARACTERS, MOST_REASONS = 3, 200, 20
#: Kafka versions shown of one node's clients: a client may send any.
MOST_VERSIONS = 10

#: Per node what its files held, when its log begins and ends, and the versions of Raft clients.
FILES = f"""
    WITH spans AS (
        SELECT recording, node_id, list_sort(list(DISTINCT software_version) FILTER (
                software_version IS NOT NULL AND software_name = 'apache-kafka-java'
                AND starts_with(client_id, 'raft-client-')))[:{MOST_VERSIONS}] AS versions
        FROM requests GROUP BY recording, node_id)
    SELECT recording, node_id, count(*) AS files, sum(bytes_read) AS bytes_read,
        sum(lines_read) AS lines_read, sum(requests) AS requests, sum(other) AS other,
        sum(rejected) AS rejected, sum(repeated) AS repeated,
        epoch_us(min(first_received_at)) AS first_us,
        epoch_us(max(last_completed_at)) AS last_us,
        any_value(versions) AS versions,
        list_sort(list(DISTINCT damage) FILTER (damage IS NOT NULL)) AS damage,
        md5(array_to_string(list_sort(list(DISTINCT content_hash)), ',')) AS contents
    FROM ingested_files LEFT JOIN spans USING (recording, node_id)
    GROUP BY recording, node_id ORDER BY recording, node_id"""
#: How many lines were rejected for each reason, the most first, and the first few of them.
REJECTED = f"""
    SELECT recording, coalesce(reason, '') AS reason, count(*) AS n,
        min({{'node_id': node_id, 'source_file': coalesce(source_file, ''),
            'line_number': line_number, 'line_id': line_id,
            'line': coalesce(left(line, {EXAMPLE_CHARACTERS}), ''),
            'line_bytes': coalesce(line_bytes, 0)}}, {EXAMPLES}) AS examples
    FROM rejected_lines GROUP BY recording, coalesce(reason, '')
    ORDER BY recording, n DESC, coalesce(reason, '')"""
#: How far each node's clock was ahead of another's.
CLOCKS = "FROM clock_bounds ORDER BY recording, node_id"


@dataclass(frozen=True)
class Logs:
    """Holds what was read of a recording: rows of ``FILES``, ``REJECTED``, ``CLOCKS``, ``GAPS``."""

    recording: str
    stated_version: str | None = None
    nodes: Sequence[Row] = ()
    rejected: Sequence[Row] = ()
    clocks: Sequence[Row] = ()
    gaps: Sequence[Row] = ()

    @property
    def warnings(self) -> list[str]:
        """Warns of lines that are missing or not read, and of clocks that are apart."""
        damaged = [
            f"a log of node {node['node_id']} {damage}"
            for node in self.nodes
            for damage in node.get("damage") or ()
        ]
        rejected = sum(row["n"] for row in self.rejected)
        if rejected:
            of = f"{rejected:,} of {self.lines[0]:,} lines"
            damaged.append(f"{of} could not be read: they are listed under What was read")
        return [*damaged, *gap_sentences(self.gaps), *sentences(self.clocks)]

    @property
    def notes(self) -> list[str]:
        """Names logs that are empty without being a gap."""
        lacking = {gap["node_id"] for gap in self.gaps}
        idle = (n["node_id"] for n in self.nodes if not n["requests"])
        why = "it was down, or is a controller without requests while another one was active"
        return [f"the log of node {each} is empty: {why}" for each in idle if each not in lacking]

    @property
    def facts(self) -> list[str]:
        """Describes what was recorded, in a few words each."""
        first = min((n["first_us"] for n in self.nodes if n["first_us"] is not None), default=None)
        last = max((n["last_us"] for n in self.nodes if n["last_us"] is not None), default=None)
        found = [self.version] if self.version else []
        if first is not None and last is not None:
            span = words.seconds((last - first) / 1_000_000)
            found.append(f"{span} from {_time(first, '%Y-%m-%d %H:%M:%S')} UTC")
        found.append(words.count(len(self.nodes), "node"))
        lines, requests = self.lines[:2]
        found.append(f"{words.count(requests, 'request')} in {words.count(lines, 'line')}")
        return found

    @property
    def version(self) -> str | None:
        """The Kafka version, as the manifest states it and as the logs show it."""
        versions = sorted({version for node in self.nodes for version in node["versions"] or ()})
        logged, stated = ", ".join(versions), self.stated_version
        if stated is None:
            return f"Kafka {logged}" if logged else None
        if not logged or versions == [stated]:
            return f"Kafka {stated}"
        return f"Kafka {stated} as stated, {logged} in the logs"

    @property
    def lines(self) -> list[int]:
        """Lines read, requests, lines of other loggers, rejected and repeated lines."""
        columns = ("lines_read", "requests", "other", "rejected", "repeated")
        return [sum(node[column] for node in self.nodes) for column in columns]

    @property
    def contents(self) -> str:
        """16 hex digits over the contents of all files: the same logs have the same."""
        nodes = "\n".join(f"{node['node_id']}:{node['contents']}" for node in self.nodes)
        return hashlib.blake2b(nodes.encode(), digest_size=8).hexdigest()

    @property
    def reasons(self) -> list[tuple[str, str, int, Sequence[Row]]]:
        """Lists each reason of rejected lines: its meaning, their number, and the first few."""
        means = {name: reason.value for name, reason in Reason.__members__.items()}
        return [
            (row["reason"], means.get(row["reason"], ""), row["n"], row["examples"])
            for row in self.rejected[:MOST_REASONS]
        ]

    @property
    def table(self) -> Table:
        counts = ("files", "lines_read", "requests", "other", "rejected", "repeated")
        cells = []
        for node in self.nodes:
            ends = [_time(node[end], "%H:%M:%S") for end in ("first_us", "last_us")]
            numbers = (words.number(node[name]) for name in counts)
            cells.append([str(node["node_id"]), *numbers, *ends, self._clock(node)])
        columns = ["node", "files", "lines", *counts[2:], "from", "until (UTC)", "clock ahead by"]
        note = "lines = requests + other + rejected + repeated; other lines are of other loggers"
        return Table("Nodes", note, columns, [False] * len(columns), cells)

    def _clock(self, node: Row) -> str:
        """Bounds of how far a node's clock is ahead of the active controller's."""
        found = [row for row in self.clocks if row["node_id"] == node["node_id"]]
        ends = [row[end] for row in found for end in ("offset_earliest_ms", "offset_latest_ms")]
        if None in ends or not ends:
            return words.NOT_KNOWN if found or not self.clocks else "reference"
        return " to ".join(f"{end / 1000:.2f}" for end in ends) + " s"


def read(
    database: DuckDBPyConnection,
    gaps: pa.Table,
    recordings: Sequence[str],
    stated_versions: Mapping[str, str],
) -> list[Logs]:
    """Reads the logs of those recordings that are there, in their order."""
    queries = (marks.rows(database, sql) for sql in (FILES, REJECTED, CLOCKS))
    found = [*map(marks.grouped, (*queries, gaps.to_pylist()))]
    return [
        Logs(name, stated_versions.get(name), *(of.get(name, []) for of in found))
        for name in recordings
        if name in found[0]
    ]


def _time(micros: int | None, form: str) -> str:
    if micros is None:
        return words.NOT_KNOWN
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime(form)
