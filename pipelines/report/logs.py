"""What was read: files, lines and versions of each node, and lines that could not be read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from kip_replay.pipelines.report.values import Row, Rows

#: Rejected lines shown for each reason, the characters of each, and reasons at most.
EXAMPLES, EXAMPLE_CHARACTERS, MOST_REASONS = 3, 200, 20
#: Kafka versions shown of one node's clients: a client may say anything it likes.
MOST_VERSIONS = 10


@dataclass(frozen=True)
class NodeRead:
    """What was read of one node."""

    node_id: int
    files: int
    bytes_read: int
    lines_read: int
    requests: int
    rejected: int
    repeated: int
    contents: str = ""
    first_at: datetime | None = None
    last_at: datetime | None = None


@dataclass(frozen=True)
class RejectedLine:
    """A line that could not be read, cut."""

    node_id: int
    source_file: str
    line_number: int
    line: str
    line_bytes: int


@dataclass(frozen=True)
class Rejected:
    """The lines rejected for one reason, with the first few of them."""

    reason: str
    count: int
    examples: tuple[RejectedLine, ...]


@dataclass(frozen=True)
class Logs:
    """What was read of one recording."""

    stated_version: str | None = None
    logged_versions: tuple[str, ...] = ()
    nodes: tuple[NodeRead, ...] = ()
    rejected: tuple[Rejected, ...] = ()

    @property
    def lines_read(self) -> tuple[int, int, int, int]:
        """Lines read, requests, rejected and repeated lines."""
        nodes = self.nodes
        return (
            sum(n.lines_read for n in nodes),
            sum(n.requests for n in nodes),
            sum(n.rejected for n in nodes),
            sum(n.repeated for n in nodes),
        )

    @property
    def contents(self) -> str:
        """16 hex digits over the contents of all files: the same logs have the same."""
        said = "\n".join(f"{n.node_id}:{n.contents}" for n in self.nodes)
        return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


# --- reading -------------------------------------------------------------------------------------


#: Per node: begin and end of its log, and the versions that Raft clients say of themselves.
SPANS = f"""
    SELECT recording, node_id, epoch_us(min(received_at)) AS first_us,
        epoch_us(max(completed_at)) AS last_us,
        list_sort(list(DISTINCT software_version) FILTER (
            software_version IS NOT NULL AND software_name = 'apache-kafka-java'
            AND starts_with(client_id, 'raft-client-')))[:{MOST_VERSIONS}] AS versions
    FROM requests GROUP BY recording, node_id"""
#: Per node what its files held.
FILES = """
    SELECT recording, node_id, count(*) AS files, sum(bytes_read) AS bytes_read,
        sum(lines_read) AS lines_read, sum(requests) AS requests, sum(rejected) AS rejected,
        sum(repeated) AS repeated,
        md5(array_to_string(list_sort(list(DISTINCT content_hash)), ',')) AS contents
    FROM ingested_files GROUP BY recording, node_id"""
#: Per recording and reason how many lines were rejected, and the first EXAMPLES of them.
REJECTED = f"""
    SELECT recording, reason, node_id, source_file, line_number, line_bytes,
        left(line, {EXAMPLE_CHARACTERS}) AS line, count(*) OVER of_reason AS n,
        row_number() OVER (of_reason ORDER BY node_id, source_file, line_number, line_id) AS rank
    FROM rejected_lines
    WINDOW of_reason AS (PARTITION BY recording, reason)
    QUALIFY rank <= {EXAMPLES}"""


# --- rows to values ------------------------------------------------------------------------------


def from_rows(rows: Rows, stated_version: str | None) -> Logs:
    """The values of one recording, of the rows of ``files``, ``spans`` and ``rejected``."""
    return Logs(
        stated_version=stated_version,
        logged_versions=tuple(sorted({v for row in rows["spans"] for v in row["versions"] or ()})),
        nodes=_nodes(rows),
        rejected=_rejected_by_reason(rows["rejected"]),
    )


def _nodes(rows: Rows) -> tuple[NodeRead, ...]:
    span_of = {row["node_id"]: row for row in rows["spans"]}
    sums = ("files", "bytes_read", "lines_read", "requests", "rejected", "repeated", "contents")
    found = []
    for row in sorted(rows["files"], key=lambda r: r["node_id"]):
        span = span_of.get(row["node_id"])
        found.append(
            NodeRead(
                node_id=row["node_id"],
                **{name: row[name] for name in sums},
                first_at=_utc(span["first_us"]) if span else None,
                last_at=_utc(span["last_us"]) if span else None,
            )
        )
    return tuple(found)


def _utc(micros: int) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)


def _rejected_by_reason(rows: Iterable[Row]) -> tuple[Rejected, ...]:
    by_reason: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: r["rank"]):
        by_reason.setdefault(row["reason"] or "", []).append(row)
    every = [
        Rejected(reason, found[0]["n"], tuple(_rejected_line(row) for row in found))
        for reason, found in by_reason.items()
    ]
    every.sort(key=lambda one: (-one.count, one.reason))
    return tuple(every[:MOST_REASONS])


def _rejected_line(row: Row) -> RejectedLine:
    return RejectedLine(
        row["node_id"],
        row["source_file"] or "",
        row["line_number"],
        row["line"] or "",
        row["line_bytes"] or 0,
    )
