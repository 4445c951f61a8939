"""Request logs into the warehouse: every line once, and the books balanced.

Theory of operation
-------------------
1. Files are found and surveyed (``log_files``): size, content hash, lines, byte ranges. A file
   whose content is in ``ingested_files`` already is not read again.
2. Byte ranges are parsed in parallel, each line once (``replay.request_log``), into one wide row
   per line, which is kept until all tables are written.
3. A line that was read before, in this run or an earlier one, is *repeated* and becomes no row.
   Of copies in one run the least (source_file, line_number) is kept; one that an earlier run kept
   stays.
4. Tables are written, each in one transaction that adds only keys which are not there: first what
   hangs on a request, then ``requests``, last ``ingested_files``, which says that the files are in.

Killed anywhere, the same run again completes what is missing and nothing else: a typed row is there
or is added; a request that is there was preceded by its typed rows; and rows of a file that
``ingested_files`` does not account for are counted as that file's own instead of as repeated.

The books: for each file, lines counted by the survey = requests + rejected + repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from pipelines.books import (
    FILE,
    Books,
    Counts,
    FileKey,
    ParsedLines,
    balanced,
    check_lines,
    file_of,
    file_of_row,
)
from pipelines.errors import UserError
from pipelines.log_files import RANGE_BYTES, LogFile, Survey, disk_bytes, find_log_files, survey
from pipelines.log_tables import LISTS, STRUCTS, TABLES_OF_LINES, rows_of
from pipelines.parse_range import LINE_BYTES_MAX, ParsedRange, parse_range
from pipelines.recording import Recording
from pipelines.survey_checks import check_recording, warnings_of
from pipelines.warehouse import WRITERS, Warehouse
from replay.request_log import PARSED_LINE
from replay.schema import INGESTED_FILES, LOG_TABLES, REJECTED_LINES, REQUESTS, Table

_LINE = (*FILE, "line_number")
#: A line read before may have been read in another time zone, if the manifest was corrected since:
#: zones lie up to 26 hours apart.
_ZONE_SLACK_US = 27 * 3_600_000_000


@dataclass(frozen=True)
class IngestSettings:
    """How logs are read. None of these changes a row of a readable log.

    Logs of at most ``survey_on_driver_bytes_max`` (compressed) are surveyed without Spark; of logs
    of at most ``one_file_bytes_max`` (uncompressed) each table gets one file, without a shuffle.
    ``tasks``: parse in so many tasks instead of one per byte range.
    """

    range_bytes: int = RANGE_BYTES
    line_bytes_max: int = LINE_BYTES_MAX
    survey_on_driver_bytes_max: int = 64 << 20
    one_file_bytes_max: int = 128 << 20
    node_gap_minutes_max: float = 10.0
    tasks: int | None = None


@dataclass(frozen=True)
class LinesRead:
    """What became of the lines of a recording in this run: lines_read = the other three."""

    recording: str
    files_read: int
    files_known: int
    bytes_read: int
    lines_read: int
    requests: int
    rejected: int
    repeated: int
    warnings: tuple[str, ...] = ()

    @property
    def rejected_share(self) -> float:
        """Of the lines read; 0 where none were."""
        return self.rejected / self.lines_read if self.lines_read else 0.0


Say = Callable[[str], object]


def ingest(
    spark: SparkSession,
    recordings: Sequence[Recording],
    warehouse: Warehouse,
    settings: IngestSettings = IngestSettings(),
    say: Say = print,
) -> list[LinesRead]:
    """Reads the recordings' logs into the warehouse; what it holds of them already stays.

    ``say`` takes progress, a line of text at a time. Raises UserError where a recording cannot be
    read as one, IngestError where the books do not balance, WriteConflictError.
    """
    files = [file for recording in recordings for file in find_log_files(recording)]
    surveys = _surveyed(spark, files, settings)
    for recording in recordings:
        of_recording = [s for s in surveys if s.file.recording == recording.name]
        check_recording(recording, of_recording, settings.node_gap_minutes_max)
    for warning in warnings_of(surveys):
        say(f"warning: {warning}")

    with warehouse.exclusively("ingest"):
        books = Books.of(warehouse, files)
        fresh = [s for s in surveys if not books.holds(s)]
        for recording in recordings:
            _announce(recording, surveys, fresh, say)
        counts = _ingest_files(spark, fresh, books, warehouse, settings) if fresh else {}
    read = [_lines_read(recording, surveys, fresh, counts) for recording in recordings]
    for lines in read:
        say(
            f"ingest {lines.recording}: lines read {lines.lines_read:,} = requests "
            f"{lines.requests:,} + rejected {lines.rejected:,} + repeated {lines.repeated:,}"
        )
    return read


# --- survey


def _surveyed(
    spark: SparkSession, files: Sequence[LogFile], settings: IngestSettings
) -> list[Survey]:
    """A survey of each file, in the order given; one task a file where they are large.

    Small ones are read before Spark would have started its Python workers.
    """
    one = partial(_survey_or_error, range_bytes=settings.range_bytes)
    if disk_bytes(files) <= settings.survey_on_driver_bytes_max:
        surveyed: Iterable[Survey | UserError] = map(one, files)
    else:
        surveyed = spark.sparkContext.parallelize(files, len(files)).map(one).collect()
    return [_raised(result) for result in surveyed]


def _survey_or_error(file: LogFile, range_bytes: int) -> Survey | UserError:
    # An exception in a task would reach the user as a stack trace of the JVM.
    try:
        return survey(file, range_bytes)
    except UserError as error:
        return error


def _raised(result: Survey | UserError) -> Survey:
    if isinstance(result, UserError):
        raise result
    return result


# --- parse, drop what is repeated, write


def _ingest_files(
    spark: SparkSession,
    surveys: Sequence[Survey],
    books: Books,
    warehouse: Warehouse,
    settings: IngestSettings,
) -> dict[FileKey, Counts]:
    with ThreadPoolExecutor(WRITERS) as pool:
        # Empty tables are made while Python parses: neither waits for the other.
        tables_are_there = pool.submit(warehouse.create_missing_tables, LOG_TABLES)
        lines = _parsed(spark, surveys, settings).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            parsed = _counted(lines)
            check_lines(surveys, parsed)
            tables_are_there.result()
            near = _near(parsed)
            earlier = None if books.is_empty else _earlier_lines(warehouse, surveys, near)
            repeated = _repeated(lines, earlier).persist(StorageLevel.MEMORY_AND_DISK)
            dropped = _dropped_per_file(repeated)
            counts = balanced(surveys, parsed, dropped, books.unaccounted())
            kept = lines.join(repeated, on=list(_LINE), how="left_anti") if dropped else lines
            is_small = sum(s.bytes_read for s in surveys) <= settings.one_file_bytes_max
            insert = _Insert(warehouse, near, is_small, tables_are_new=books.is_empty)
            _write(kept, _tables_with_rows(parsed), insert, pool)
            insert(INGESTED_FILES, _ingested_files(spark, surveys, counts))
            repeated.unpersist()
            return counts
        finally:
            lines.unpersist()


def _parsed(spark: SparkSession, surveys: Sequence[Survey], settings: IngestSettings) -> DataFrame:
    """A row per line of ``PARSED_LINE``; task i parses the i-th largest byte range."""
    ranges = sorted(
        (ParsedRange.of(s, byte_range) for s in surveys for byte_range in s.ranges),
        key=lambda r: (-r.bytes_on_disk, r.source_file, r.first_line_number),
    )
    schema = from_arrow_schema(PARSED_LINE)

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                yield from parse_range(ranges[position], settings.line_bytes_max)

    tasks = settings.tasks or max(1, len(ranges))
    positions = spark.range(0, len(ranges), 1, tasks)
    return positions.mapInArrow(parse, schema)


def _counted(lines: DataFrame) -> dict[FileKey, ParsedLines]:
    completed_at = F.unix_micros("request.completed_at")
    per_file = lines.groupBy(*FILE).agg(
        *(F.count(name).alias(name) for name in STRUCTS),
        *(F.sum(F.size(name)).alias(name) for name in LISTS),
        F.min(completed_at).alias("first_us"),
        F.max(completed_at).alias("last_us"),
    )
    return {
        file_of_row(row): ParsedLines(
            requests=row["request"],
            rejected=row["rejected"],
            columns=frozenset(name for name in TABLES_OF_LINES if row[name]),
            first_us=row["first_us"],
            last_us=row["last_us"],
        )
        for row in per_file.collect()
    }


def _near(parsed: Mapping[FileKey, ParsedLines]) -> Callable[[str], Column]:
    """The condition on a time column that rows of these lines meet, whenever they were read."""
    firsts = [counted.first_us for counted in parsed.values() if counted.first_us is not None]
    lasts = [counted.last_us for counted in parsed.values() if counted.last_us is not None]
    if not firsts:
        return lambda column: F.lit(False)
    first = F.timestamp_micros(F.lit(min(firsts) - _ZONE_SLACK_US))
    last = F.timestamp_micros(F.lit(max(lasts) + _ZONE_SLACK_US))
    return lambda column: F.col(column).between(first, last)


def _earlier_lines(
    warehouse: Warehouse, surveys: Sequence[Survey], near: Callable[[str], Column]
) -> DataFrame:
    """recording and line_id of lines that the warehouse holds, as far as they can matter."""
    mine = F.col("recording").isin(sorted({s.file.recording for s in surveys}))
    requests = warehouse.read(REQUESTS).filter(mine & near("completed_at"))
    rejected = warehouse.read(REJECTED_LINES).filter(mine)
    return requests.select("recording", F.col("request_id").alias("line_id")).union(
        rejected.select("recording", "line_id")
    )


def _repeated(lines: DataFrame, earlier: DataFrame | None) -> DataFrame:
    """The place of every line that becomes no row, and whether it would be a rejected one."""
    here = lines.select(
        "line_id", *_LINE, F.col("rejected").isNotNull().alias("is_rejected"), F.lit(1).alias("run")
    )
    if earlier is not None:
        place = [F.lit(None).cast(here.schema[name].dataType).alias(name) for name in _LINE[1:]]
        before = earlier.select(
            "line_id", "recording", *place, F.lit(False).alias("is_rejected"), F.lit(0).alias("run")
        )
        here = here.unionByName(before)
    copies = Window.partitionBy("recording", "line_id")
    kept_first = copies.orderBy("run", "source_file", "line_number")
    return (
        here.withColumn("copy", F.row_number().over(kept_first))
        .filter((F.col("copy") > 1) & (F.col("run") == 1))
        .select(*_LINE, "is_rejected")
    )


def _dropped_per_file(repeated: DataFrame) -> dict[FileKey, tuple[int, int]]:
    """Repeated lines per file: requests, and such as could not be read."""
    per_file = repeated.groupBy(*FILE).agg(
        F.count("*").alias("lines"), F.count_if(F.col("is_rejected")).alias("rejected")
    )
    return {
        file_of_row(row): (row["lines"] - row["rejected"], row["rejected"])
        for row in per_file.collect()
    }


@dataclass(frozen=True)
class _Insert:
    """How rows of this run get into a table.

    ``near`` makes the condition on a time column that says where copies of these rows can be.
    """

    warehouse: Warehouse
    near: Callable[[str], Column]
    is_small: bool
    tables_are_new: bool

    def __call__(self, table: Table, rows: DataFrame) -> None:
        if self.is_small:
            rows = rows.coalesce(1)
        if self.tables_are_new:
            self.warehouse.append(table, rows, in_few_files=self.is_small)
            return
        names = {column.name for column in table.columns}
        time = next((name for name in ("completed_at", "at") if name in names), None)
        near = self.near(time) if time else None
        self.warehouse.insert_new(table, rows, near, in_few_files=self.is_small)


def _tables_with_rows(parsed: Mapping[FileKey, ParsedLines]) -> list[Table]:
    """Tables that get rows, unless all of them are repeated: others need no transaction."""
    columns = frozenset().union(*(of_file.columns for of_file in parsed.values()))
    return [table for column, table in TABLES_OF_LINES.items() if column in columns]


def _write(
    lines: DataFrame, tables: Sequence[Table], insert: _Insert, pool: ThreadPoolExecutor
) -> None:
    """All tables but ``ingested_files``; ``requests`` after what hangs on a request."""
    before = [
        pool.submit(insert, table, rows_of(table, lines))
        for table in tables
        if table is not REQUESTS
    ]
    for written in before:
        written.result()
    if REQUESTS in tables:
        insert(REQUESTS, rows_of(REQUESTS, lines))


def _ingested_files(
    spark: SparkSession, surveys: Sequence[Survey], counts: Mapping[FileKey, Counts]
) -> DataFrame:
    """A row per file: written last, they say that the files are in."""
    rows = [
        {
            "recording": s.file.recording,
            "node_id": s.file.node_id,
            "source_file": s.file.source_file,
            "content_hash": s.content_hash,
            "bytes_read": s.bytes_read,
            "lines_read": s.lines,
            "requests": counts[file_of(s.file)].requests,
            "rejected": counts[file_of(s.file)].rejected,
            "repeated": counts[file_of(s.file)].repeated,
        }
        for s in surveys
    ]
    schema = from_arrow_schema(INGESTED_FILES.arrow_schema)
    table = pa.Table.from_pylist(rows, schema=INGESTED_FILES.arrow_schema)
    return spark.createDataFrame(table, schema)


# --- what is said


def _announce(
    recording: Recording, surveys: Sequence[Survey], fresh: Sequence[Survey], say: Say
) -> None:
    known = [s for s in surveys if s.file.recording == recording.name and s not in fresh]
    new = [s for s in fresh if s.file.recording == recording.name]
    parts = []
    if new:
        size = sum(s.bytes_read for s in new) / 1e6
        lines = sum(s.lines for s in new)
        parts.append(f"{_number(len(new), 'file')}, {size:,.1f} MB, {_number(lines, 'line')}")
    if known:
        parts.append(f"{_number(len(known), 'file')} known already")
    say(f"ingest {recording.name}: {'; '.join(parts)}")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _lines_read(
    recording: Recording,
    surveys: Sequence[Survey],
    fresh: Sequence[Survey],
    counts: Mapping[FileKey, Counts],
) -> LinesRead:
    mine = [s for s in surveys if s.file.recording == recording.name]
    new = [s for s in fresh if s.file.recording == recording.name]
    total: Counter[str] = Counter()
    for of_file in new:
        total.update(vars(counts[file_of(of_file.file)]))
    return LinesRead(
        recording=recording.name,
        files_read=len(new),
        files_known=len(mine) - len(new),
        bytes_read=sum(s.bytes_read for s in new),
        lines_read=sum(s.lines for s in new),
        requests=total["requests"],
        rejected=total["rejected"],
        repeated=total["repeated"],
        warnings=tuple(warnings_of(mine)),
    )
