"""Line accounting: which files are in, and what became of each of their lines.

For each file, the lines that the survey counted = requests + rejected + repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kip_replay.pipelines.errors import IngestError
from kip_replay.pipelines.ingest.file_reading import Content
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.survey import Survey
from kip_replay.pipelines.warehouse.data_files import microseconds

#: What names a file in every log table: recording, node id and source file.
FileKey = tuple[str, int, str]
Node = tuple[str, int]


def file_of(file: LogFile) -> FileKey:
    """A file as the tables name it."""
    return file.recording, file.node_id, file.source_file


def file_key(row: Mapping[str, Any]) -> FileKey:
    """The same of a row of ``ingested_files``."""
    return row["recording"], row["node_id"], row["source_file"]


@dataclass(frozen=True)
class Counts:
    """What became of lines."""

    requests: int = 0
    rejected: int = 0
    repeated: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.requests + other.requests,
            self.rejected + other.rejected,
            self.repeated + other.repeated,
        )

    @property
    def lines(self) -> int:
        """All of them."""
        return self.requests + self.rejected + self.repeated


@dataclass(frozen=True)
class Times:
    """Of requests: first arrival, last completion, and first arrival of one that rules read.

    Repeated ones count. UTC microseconds since 1970.
    """

    first_received_us: int | None = None
    last_completed_us: int | None = None
    first_event_us: int | None = None

    def with_other(self, other: Times) -> Times:
        """Of both together."""
        return Times(
            _known(min, self.first_received_us, other.first_received_us),
            _known(max, self.last_completed_us, other.last_completed_us),
            _known(min, self.first_event_us, other.first_event_us),
        )


def _known(choose: Callable[[list[int]], int], *times: int | None) -> int | None:
    known = [time for time in times if time is not None]
    return choose(known) if known else None


@dataclass(frozen=True)
class LineAccounting:
    """What the warehouse has read: contents and time zones, by node."""

    contents: Mapping[Node, frozenset[Content]]
    timezones: Mapping[Node, frozenset[str | None]]

    @staticmethod
    def of(rows: Iterable[Mapping[str, object]]) -> LineAccounting:
        """From rows of ``ingested_files``."""
        contents: dict[Node, set[Content]] = {}
        timezones: dict[Node, set[str | None]] = {}
        for row in rows:
            node = (str(row["recording"]), int(str(row["node_id"])))
            first_byte, bytes_read = (
                int(str(row.get(n) or 0)) for n in ("first_byte", "bytes_read")
            )
            content = Content(first_byte + bytes_read, str(row["content_hash"]))
            contents.setdefault(node, set()).add(content)
            zone = row.get("timezone")
            timezones.setdefault(node, set()).add(None if zone is None else str(zone))
        return LineAccounting(
            {node: frozenset(read) for node, read in contents.items()},
            {node: frozenset(zones) for node, zones in timezones.items()},
        )

    def known(self, file: LogFile) -> frozenset[Content]:
        """What has been read of the file's node, whatever the files were called."""
        return self.contents.get((file.recording, file.node_id), frozenset())


def balanced(
    surveys: Sequence[Survey], counts: Iterable[Mapping[FileKey, Counts]]
) -> dict[FileKey, Counts]:
    """What became of each file's lines, from what tasks counted in turn.

    Raises IngestError unless every line that the survey counted is there, once.
    """
    whole = {file_of(survey.file): Counts() for survey in surveys}
    for of_task in counts:
        for file, count in of_task.items():
            whole[file] += count
    for survey in surveys:
        count = whole[file_of(survey.file)]
        if count.lines != survey.lines or min(vars(count).values()) < 0:
            raise IngestError(
                f"{survey.file.source_file} of recording {survey.file.recording!r} had "
                f"{survey.lines:,} lines when it was surveyed, but {count.requests:,} requests, "
                f"{count.rejected:,} rejected and {count.repeated:,} repeated lines were read from "
                "it: nothing was written; if it is still being written to, run again"
            )
    return whole


def read_spans(rows: Iterable[Mapping[str, Any]]) -> dict[int, tuple[int, int]]:
    """First arrival and last completion by node, of rows of ingested_files; UTC microseconds."""
    spans: dict[int, tuple[int, int]] = {}
    for row in rows:
        if row["first_received_at"] is None:
            continue
        first_us = microseconds(row["first_received_at"])
        last_us = microseconds(row["last_completed_at"])
        before = spans.get(row["node_id"], (first_us, last_us))
        spans[row["node_id"]] = (min(before[0], first_us), max(before[1], last_us))
    return spans
