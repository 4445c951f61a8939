"""What was read, for the template: a line for each recording, nodes and rejected lines beneath."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.data import RecordingReport
from kip_replay.pipelines.report.logs import EXAMPLE_CHARACTERS, NodeRead, Rejected
from kip_replay.pipelines.report.sections import version
from kip_replay.pipelines.report.view import Column, Row, Table
from kip_replay.replay.request_log.reasons import Reason

#: Recordings whose nodes are listed.
MOST_RECORDINGS = 20


def view(recordings: Sequence[RecordingReport]) -> dict[str, Any]:
    """One table of all recordings, and the nodes and rejected lines of each."""
    return {
        "table": _table(recordings),
        "recordings": [_recording(one) for one in recordings[:MOST_RECORDINGS]],
        "left_out": words.count(len(recordings) - MOST_RECORDINGS, "further recording")
        if len(recordings) > MOST_RECORDINGS
        else None,
    }


def _table(recordings: Sequence[RecordingReport]) -> Table:
    return Table(
        "Recordings",
        [
            Column("recording"),
            Column("Kafka", "left"),
            Column("from (UTC)", "left"),
            Column("span"),
            *map(Column, ("bytes", "lines", "requests", "rejected", "repeated")),
            Column("contents", "left"),
        ],
        [_row(one) for one in recordings],
    )


def _row(recording: RecordingReport) -> Row:
    first, last = _bounds(recording.logs.nodes)
    return Row(
        recording.name,
        [
            (version(recording) or "").removeprefix("Kafka ") or "not in the logs",
            f"{first:%Y-%m-%d %H:%M:%S}" if first else words.NOT_KNOWN,
            words.seconds((last - first).total_seconds()) if first and last else words.NOT_KNOWN,
            words.size(sum(node.bytes_read for node in recording.logs.nodes)),
            *(words.number(value) for value in recording.logs.lines_read),
            recording.logs.contents,
        ],
    )


def _bounds(nodes: Sequence[NodeRead]) -> tuple[datetime | None, datetime | None]:
    starts = [node.first_at for node in nodes if node.first_at]
    ends = [node.last_at for node in nodes if node.last_at]
    return min(starts, default=None), max(ends, default=None)


def _recording(recording: RecordingReport) -> dict[str, Any]:
    lines, requests, rejected, repeated = recording.logs.lines_read
    return {
        "name": recording.name,
        "lines": [words.number(value) for value in (lines, requests, rejected, repeated)],
        "balanced": lines == requests + rejected + repeated,
        "nodes": _nodes(recording.logs.nodes),
        "rejected": [_rejected(found) for found in recording.logs.rejected],
    }


def _nodes(nodes: Sequence[NodeRead]) -> Table:
    names = ("files", "lines", "requests", "rejected", "repeated", "from", "until (UTC)")
    return Table(
        "Nodes",
        [Column("node"), *map(Column, names)],
        [
            Row(
                str(node.node_id),
                [
                    *(
                        words.number(getattr(node, name))
                        for name in ("files", "lines_read", "requests", "rejected", "repeated")
                    ),
                    f"{node.first_at:%H:%M:%S}" if node.first_at else words.NOT_KNOWN,
                    f"{node.last_at:%H:%M:%S}" if node.last_at else words.NOT_KNOWN,
                ],
            )
            for node in nodes
        ],
    )


def _rejected(rejected: Rejected) -> dict[str, Any]:
    known = Reason.__members__.get(rejected.reason)
    return {
        "reason": rejected.reason,
        "sentence": known.value if known else None,
        "count": words.count(rejected.count, "line"),
        "examples": [
            {
                "node_id": str(line.node_id),
                "source_file": line.source_file,
                "line_number": words.number(line.line_number),
                "line": words.shortened(line.line, EXAMPLE_CHARACTERS),
                "bytes": words.count(line.line_bytes, "byte"),
            }
            for line in rejected.examples
        ],
    }
