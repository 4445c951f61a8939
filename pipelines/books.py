"""The books of ingest: which files are in, and what became of each of their lines.

For each file, the lines that the survey counted = requests + rejected + repeated. What a killed run
left behind shows as rows of ``requests`` and ``rejected_lines`` that no row of ``ingested_files``
accounts for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from pipelines.errors import IngestError
from pipelines.log_files import LogFile, Survey
from pipelines.warehouse import Warehouse
from replay.schema import INGESTED_FILES, LOG_TABLES, REJECTED_LINES, REQUESTS

#: What names a file in every log table.
FILE = ("recording", "node_id", "source_file")
FileKey = tuple[str, int, str]


def file_of_row(row: Row) -> FileKey:
    """The file that a row with the columns ``FILE`` is about."""
    return row["recording"], row["node_id"], row["source_file"]


def file_of(file: LogFile) -> FileKey:
    """A file as the tables name it."""
    return file.recording, file.node_id, file.source_file


@dataclass(frozen=True)
class ParsedLines:
    """Of a file: requests and rejected lines as parsed, repeated or not.

    ``columns`` of the wide row are those that any line has something in. Stamps of the first and
    last request are UTC microseconds since 1970.
    """

    requests: int = 0
    rejected: int = 0
    columns: frozenset[str] = frozenset()
    first_us: int | None = None
    last_us: int | None = None


@dataclass(frozen=True)
class Counts:
    """What became of a file's lines."""

    requests: int
    rejected: int
    repeated: int


@dataclass(frozen=True)
class Books:
    """What the warehouse accounts for, of files with the names of this run's.

    ``contents``: (file, content hash) in ``ingested_files``; ``accounted``: requests and rejected
    lines of a file that rows there account for. ``is_empty``: no log table is there yet, so that
    nothing can be repeated from an earlier run.
    """

    warehouse: Warehouse
    mine: Column
    contents: frozenset[tuple[FileKey, str]]
    accounted: Mapping[FileKey, tuple[int, int]]
    is_empty: bool

    @staticmethod
    def of(warehouse: Warehouse, files: Sequence[LogFile]) -> Books:
        """What there is on files of these names, whatever they held then."""
        mine = F.col("recording").isin(sorted({file.recording for file in files}))
        mine = mine & F.col("source_file").isin(sorted({file.source_file for file in files}))
        if not any(warehouse.exists(table) for table in LOG_TABLES):
            return Books(warehouse, mine, frozenset(), {}, is_empty=True)
        warehouse.create_missing_tables(LOG_TABLES)
        ingested = warehouse.read(INGESTED_FILES).filter(mine).collect()
        accounted: dict[FileKey, tuple[int, int]] = {}
        for row in ingested:
            requests, rejected = accounted.get(file_of_row(row), (0, 0))
            accounted[file_of_row(row)] = (requests + row["requests"], rejected + row["rejected"])
        contents = frozenset((file_of_row(row), row["content_hash"]) for row in ingested)
        return Books(warehouse, mine, contents, accounted, is_empty=False)

    def holds(self, of_file: Survey) -> bool:
        """Whether this content has been read under this name."""
        return (file_of(of_file.file), of_file.content_hash) in self.contents

    def unaccounted(self) -> dict[FileKey, tuple[int, int]]:
        """Requests and rejected lines of a file that nothing accounts for: a killed run's."""
        if self.is_empty:
            return {}
        there: list[dict[FileKey, int]] = []
        for table in (REQUESTS, REJECTED_LINES):
            per_file = self.warehouse.read(table).filter(self.mine).groupBy(*FILE).count()
            there.append({file_of_row(row): row["count"] for row in per_file.collect()})
        requests, rejected = there
        return {
            file: (
                requests.get(file, 0) - self.accounted.get(file, (0, 0))[0],
                rejected.get(file, 0) - self.accounted.get(file, (0, 0))[1],
            )
            for file in requests.keys() | rejected.keys() | self.accounted.keys()
        }


def check_lines(surveys: Sequence[Survey], parsed: Mapping[FileKey, ParsedLines]) -> None:
    """Raises IngestError unless every line that the survey counted was parsed, once."""
    for of_file in surveys:
        counted = parsed.get(file_of(of_file.file), ParsedLines())
        if counted.requests + counted.rejected != of_file.lines:
            raise IngestError(
                f"{of_file.file.source_file} of recording {of_file.file.recording!r} had "
                f"{of_file.lines:,} lines when it was surveyed, but {counted.requests:,} requests "
                f"and {counted.rejected:,} rejected lines were read from it: nothing was written; "
                "if it is still being written to, run again"
            )


def balanced(
    surveys: Sequence[Survey],
    parsed: Mapping[FileKey, ParsedLines],
    dropped: Mapping[FileKey, tuple[int, int]],
    unaccounted: Mapping[FileKey, tuple[int, int]],
) -> dict[FileKey, Counts]:
    """What each file adds to the books. Raises IngestError if that is not all of its lines.

    A repeated line that stands in the warehouse as this file's own, from a run that was killed
    before it could say so, is this file's request after all.
    """
    counts: dict[FileKey, Counts] = {}
    for of_file in surveys:
        file = file_of(of_file.file)
        lines = parsed.get(file, ParsedLines())
        requests_dropped, rejected_dropped = dropped.get(file, (0, 0))
        requests_there, rejected_there = unaccounted.get(file, (0, 0))
        count = Counts(
            requests=lines.requests - requests_dropped + requests_there,
            rejected=lines.rejected - rejected_dropped + rejected_there,
            repeated=requests_dropped + rejected_dropped - requests_there - rejected_there,
        )
        total = count.requests + count.rejected + count.repeated
        if total != of_file.lines or min(count.requests, count.rejected, count.repeated) < 0:
            raise IngestError(
                f"the lines of {of_file.file.source_file} of recording "
                f"{of_file.file.recording!r} do not add up: {of_file.lines:,} read, {count}; "
                "were rows of requests or ingested_files deleted? Nothing was written"
            )
        counts[file] = count
    return counts
