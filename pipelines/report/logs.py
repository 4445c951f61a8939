"""What was read: files, lines and versions of each node, and lines that could not be read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

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


def spans(requests: DataFrame) -> DataFrame:
    """Per node: begin and end of its log, and the versions that Raft clients say of themselves."""
    is_raft_client = F.col("client_id").startswith("raft-client-") & (
        F.col("software_name") == "apache-kafka-java"
    )
    versions = F.collect_set(F.when(is_raft_client, F.col("software_version")))
    return requests.groupBy("recording", "node_id").agg(
        # As integers: a timestamp would be shown in this machine's zone.
        F.unix_micros(F.min("received_at")).alias("first_us"),
        F.unix_micros(F.max("completed_at")).alias("last_us"),
        F.slice(F.sort_array(versions), 1, MOST_VERSIONS).alias("versions"),
    )


def files(ingested: DataFrame) -> DataFrame:
    """Per node what its files held."""
    sums = ("bytes_read", "lines_read", "requests", "rejected", "repeated")
    return ingested.groupBy("recording", "node_id").agg(
        F.count("*").alias("files"),
        *(F.sum(name).alias(name) for name in sums),
        F.md5(F.concat_ws(",", F.sort_array(F.collect_set("content_hash")))).alias("contents"),
    )


def rejected(lines: DataFrame) -> DataFrame:
    """Per recording and reason how many, and the first EXAMPLES of them."""
    of_reason = Window.partitionBy("recording", "reason")
    first = of_reason.orderBy("node_id", "source_file", "line_number", "line_id")
    return lines.select(
        *("recording", "reason", "node_id", "source_file", "line_number", "line_bytes"),
        F.substring("line", 1, EXAMPLE_CHARACTERS).alias("line"),
        F.row_number().over(first).alias("rank"),
        F.count("*").over(of_reason).alias("n"),
    ).where(F.col("rank") <= EXAMPLES)


# --- rows to values ------------------------------------------------------------------------------


def from_rows(rows: Rows, stated_version: str | None) -> Logs:
    """The values of one recording, of the rows of ``files``, ``spans`` and ``rejected``."""
    return Logs(
        stated_version=stated_version,
        logged_versions=tuple(sorted({v for row in rows["spans"] for v in row["versions"]})),
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
