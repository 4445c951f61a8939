"""Line accounting: which files are in, and what became of each of their lines.

For each file, lines read = requests + other + rejected + repeated. A line of several parts counts
as one there; physical lines, which the survey has counted on its own, show that none was left out.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kip_replay.pipelines.errors import IngestError
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.survey import Content, Survey
from kip_replay.pipelines.warehouse.data_files import microseconds

#: What names a file in every log table: recording, node id and source file.
FileKey = tuple[str, int, str]
NodeKey = tuple[str, int]

#: Further apart than this are neighbouring stamps at stray lines, or where clocks were set.
STEP_US = 60_000_000


def file_of(file: LogFile) -> FileKey:
    """A file as the tables name it."""
    return file.recording, file.node_id, file.source_file


def file_key(row: Mapping[str, Any]) -> FileKey:
    """Returns the key of a row of ``ingested_files``."""
    return row["recording"], row["node_id"], row["source_file"]


@dataclass(frozen=True)
class Counts:
    """Counts what became of lines; ``physical`` are those that held them.

    ``outside``: requests outside of --from and --until, which were not read.
    """

    requests: int = 0
    rejected: int = 0
    repeated: int = 0
    other: int = 0
    physical: int = 0
    outside: int = 0

    def __add__(self, more: "Counts") -> "Counts":
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(more), strict=True)))

    @property
    def lines(self) -> int:
        return self.requests + self.rejected + self.repeated + self.other


@dataclass(frozen=True)
class Times:
    """Keeps times of requests: first arrival, last completion, first arrival that rules read.

    Repeated ones count. UTC microseconds since 1970. ``ends_us``: completion in the first and the
    last line; ``is_stepping``: whether any of them ``has_step``.
    """

    first_received_us: int | None = None
    last_completed_us: int | None = None
    first_event_us: int | None = None
    ends_us: tuple[int, ...] = ()
    is_stepping: bool = False

    def with_other(self, other: "Times") -> "Times":
        """Adds lines that follow these."""
        ends = self.ends_us + other.ends_us
        return Times(
            _known(min, self.first_received_us, other.first_received_us),
            _known(max, self.last_completed_us, other.last_completed_us),
            _known(min, self.first_event_us, other.first_event_us),
            ends[:1] + ends[-1:],
            self.is_stepping
            or other.is_stepping
            or has_step(self.ends_us[-1:] + other.ends_us[:1]),
        )


def has_step(times_us: ArrayLike) -> bool:
    """Returns whether times go back by more than a minute."""
    return bool(np.any(np.diff(times_us) < -STEP_US))


def _known(choose: Callable[[list[int]], int], *times: int | None) -> int | None:
    known = [time for time in times if time is not None]
    return choose(known) if known else None


def contents_read(rows: Iterable[Mapping[str, Any]]) -> dict[NodeKey, set[Content]]:
    """Returns what was read of each node, whatever the files' names, by ``ingested_files``."""
    contents: dict[NodeKey, set[Content]] = defaultdict(set)
    for row in rows:
        end = (row["first_byte"] or 0) + row["bytes_read"]
        contents[row["recording"], row["node_id"]].add(Content(end, row["content_hash"]))
    return contents


def balanced(
    surveys: Sequence[Survey], counts: Iterable[Mapping[FileKey, Counts]]
) -> dict[FileKey, Counts]:
    """Adds up the lines of each file, as tasks counted. Raises IngestError if any is lost."""
    whole = {file_of(survey.file): Counts() for survey in surveys}
    for of_task in counts:
        for file, count in of_task.items():
            whole[file] += count
    for survey in surveys:
        count = whole[file_of(survey.file)]
        if count.physical != survey.lines or min(vars(count).values()) < 0:
            raise IngestError(
                f"{survey.file.source_file} of recording {survey.file.recording!r} had "
                f"{survey.lines:,} lines when it was surveyed, and {count.physical:,} when it was "
                "read: nothing was written; if it is still being written to, run again"
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
