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
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from pipelines.errors import IngestError, UserError
from pipelines.log_files import RANGE_BYTES, LogFile, Survey, disk_bytes, find_log_files, survey
from pipelines.parse_range import LINE_BYTES_MAX, ParsedRange, parse_range
from pipelines.recording import Recording
from pipelines.survey_checks import check_recording, warnings_of
from pipelines.warehouse import WRITERS, Warehouse
from replay.request_log import PARSED_LINE
from replay.schema import (
    BROKER_HEARTBEATS,
    CONFIGS,
    FETCHES,
    INGESTED_FILES,
    ISR_CHANGES,
    LOG_TABLES,
    METADATA_WRITES,
    PRODUCES,
    REJECTED_LINES,
    REQUESTS,
    TOPICS,
    Table,
)

#: Typed tables by the struct of the wide row that holds their columns ...
_STRUCTS = {
    "fetch": FETCHES,
    "produce": PRODUCES,
    "broker_heartbeat": BROKER_HEARTBEATS,
    "metadata_write": METADATA_WRITES,
}
#: ... or by the list of structs.
_LISTS = {"isr_changes": ISR_CHANGES, "topics": TOPICS, "configs": CONFIGS}
_FILE = ("recording", "node_id", "source_file")
_LINE = (*_FILE, "line_number")
#: A line read before may have been read in another time zone, if the manifest was corrected since:
#: zones lie up to 26 hours apart.
_ZONE_SLACK_US = 27 * 3_600_000_000

FileKey = tuple[str, int, str]  # recording, node id, source file


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
        books = _Books.of(warehouse, files)
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


# --- what the warehouse holds already


@dataclass(frozen=True)
class _Books:
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
    def of(warehouse: Warehouse, files: Sequence[LogFile]) -> _Books:
        mine = F.col("recording").isin(sorted({file.recording for file in files}))
        mine = mine & F.col("source_file").isin(sorted({file.source_file for file in files}))
        if not any(warehouse.exists(table) for table in LOG_TABLES):
            return _Books(warehouse, mine, frozenset(), {}, is_empty=True)
        warehouse.create_missing_tables(LOG_TABLES)
        ingested = warehouse.read(INGESTED_FILES).filter(mine).collect()
        accounted: dict[FileKey, tuple[int, int]] = {}
        for row in ingested:
            requests, rejected = accounted.get(_file_key(row), (0, 0))
            accounted[_file_key(row)] = (requests + row["requests"], rejected + row["rejected"])
        contents = frozenset((_file_key(row), row["content_hash"]) for row in ingested)
        return _Books(warehouse, mine, contents, accounted, is_empty=False)

    def holds(self, of_file: Survey) -> bool:
        """Whether this content has been read under this name."""
        return (_key_of(of_file.file), of_file.content_hash) in self.contents

    def unaccounted(self) -> dict[FileKey, tuple[int, int]]:
        """Requests and rejected lines of a file that nothing accounts for: a killed run's."""
        if self.is_empty:
            return {}
        there: list[dict[FileKey, int]] = []
        for table in (REQUESTS, REJECTED_LINES):
            per_file = self.warehouse.read(table).filter(self.mine).groupBy(*_FILE).count()
            there.append({_file_key(row): row["count"] for row in per_file.collect()})
        requests, rejected = there
        return {
            file: (
                requests.get(file, 0) - self.accounted.get(file, (0, 0))[0],
                rejected.get(file, 0) - self.accounted.get(file, (0, 0))[1],
            )
            for file in requests.keys() | rejected.keys() | self.accounted.keys()
        }


def _file_key(row: Row) -> FileKey:
    return row["recording"], row["node_id"], row["source_file"]


def _key_of(file: LogFile) -> FileKey:
    return file.recording, file.node_id, file.source_file


# --- parse, drop what is repeated, write


@dataclass(frozen=True)
class _Counts:
    requests: int
    rejected: int
    repeated: int


def _ingest_files(
    spark: SparkSession,
    surveys: Sequence[Survey],
    books: _Books,
    warehouse: Warehouse,
    settings: IngestSettings,
) -> dict[FileKey, _Counts]:
    with ThreadPoolExecutor(WRITERS) as pool:
        # Empty tables are made while Python parses: neither waits for the other.
        tables_are_there = pool.submit(warehouse.create_missing_tables, LOG_TABLES)
        lines = _parsed(spark, surveys, settings).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            parsed = _counted(lines)
            _check_lines(surveys, parsed)
            tables_are_there.result()
            near = _near(parsed)
            earlier = None if books.is_empty else _earlier_lines(warehouse, surveys, near)
            repeated = _repeated(lines, earlier).persist(StorageLevel.MEMORY_AND_DISK)
            dropped = _dropped_per_file(repeated)
            counts = _balanced(surveys, parsed, dropped, books.unaccounted())
            kept = lines.join(repeated, on=list(_LINE), how="left_anti") if dropped else lines
            is_small = sum(s.bytes_read for s in surveys) <= settings.one_file_bytes_max
            insert = _Insert(warehouse, near, is_small, tables_are_new=books.is_empty)
            _write(kept, _tables_with_rows(parsed), insert, pool)
            _commit(spark, surveys, counts, warehouse)
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


@dataclass(frozen=True)
class _Parsed:
    """Of a file: requests and rejected lines as parsed, repeated or not.

    ``holds`` are the other columns of the wide row that any line has something in. Stamps of the
    first and last request are UTC microseconds since 1970.
    """

    requests: int = 0
    rejected: int = 0
    holds: frozenset[str] = frozenset()
    first_us: int | None = None
    last_us: int | None = None


def _counted(lines: DataFrame) -> dict[FileKey, _Parsed]:
    completed_at = F.unix_micros("request.completed_at")
    per_file = lines.groupBy(*_FILE).agg(
        F.count("request").alias("requests"),
        F.count("rejected").alias("rejected"),
        F.min(completed_at).alias("first_us"),
        F.max(completed_at).alias("last_us"),
        *(F.bool_or(F.col(name).isNotNull()).alias(name) for name in _STRUCTS),
        *(F.bool_or(F.size(name) > 0).alias(name) for name in _LISTS),
    )
    return {
        _file_key(row): _Parsed(
            row["requests"],
            row["rejected"],
            frozenset(name for name in (*_STRUCTS, *_LISTS) if row[name]),
            row["first_us"],
            row["last_us"],
        )
        for row in per_file.collect()
    }


def _check_lines(surveys: Sequence[Survey], parsed: Mapping[FileKey, _Parsed]) -> None:
    """Raises IngestError unless every line that the survey counted was parsed, once."""
    for of_file in surveys:
        counted = parsed.get(_key_of(of_file.file), _Parsed())
        if counted.requests + counted.rejected != of_file.lines:
            raise IngestError(
                f"{of_file.file.source_file} of recording {of_file.file.recording!r} had "
                f"{of_file.lines:,} lines when it was surveyed, but {counted.requests:,} requests "
                f"and {counted.rejected:,} rejected lines were read from it: nothing was written; "
                "if it is still being written to, run again"
            )


def _near(parsed: Mapping[FileKey, _Parsed]) -> Callable[[str], Column]:
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
    per_file = repeated.groupBy(*_FILE).agg(
        F.count("*").alias("lines"), F.count_if(F.col("is_rejected")).alias("rejected")
    )
    return {
        _file_key(row): (row["lines"] - row["rejected"], row["rejected"])
        for row in per_file.collect()
    }


def _balanced(
    surveys: Sequence[Survey],
    parsed: Mapping[FileKey, _Parsed],
    dropped: Mapping[FileKey, tuple[int, int]],
    unaccounted: Mapping[FileKey, tuple[int, int]],
) -> dict[FileKey, _Counts]:
    """What each file adds to the books. Raises IngestError if that is not all of its lines.

    A repeated line that stands in the warehouse as this file's own, from a run that was killed
    before it could say so, is this file's request after all.
    """
    counts: dict[FileKey, _Counts] = {}
    for of_file in surveys:
        file = _key_of(of_file.file)
        lines = parsed.get(file, _Parsed())
        requests_dropped, rejected_dropped = dropped.get(file, (0, 0))
        requests_there, rejected_there = unaccounted.get(file, (0, 0))
        count = _Counts(
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
            self.warehouse.append(table, rows)
            return
        names = {column.name for column in table.columns}
        time = next((name for name in ("completed_at", "at") if name in names), None)
        near = self.near(time) if time else None
        self.warehouse.insert_new(table, rows, near, in_few_files=self.is_small)


def _tables_with_rows(parsed: Mapping[FileKey, _Parsed]) -> set[str]:
    """Names of the tables that get rows, unless all are repeated: others need no transaction."""
    columns = frozenset().union(*(file.holds for file in parsed.values()))
    names = {table.name for name, table in (_STRUCTS | _LISTS).items() if name in columns}
    if any(file.requests for file in parsed.values()):
        names.add(REQUESTS.name)
    if any(file.rejected for file in parsed.values()):
        names.add(REJECTED_LINES.name)
    return names


def _write(
    lines: DataFrame, with_rows: set[str], insert: _Insert, pool: ThreadPoolExecutor
) -> None:
    """Every log table but ``ingested_files``; ``requests`` after all that hangs on a request."""
    tables = [(table, rows) for table, rows in tables_of(lines) if table.name in with_rows]
    before = [pool.submit(insert, *table) for table in tables if table[0] is not REQUESTS]
    for written in before:
        written.result()
    for table, rows in tables:
        if table is REQUESTS:
            insert(table, rows)


def tables_of(lines: DataFrame) -> list[tuple[Table, DataFrame]]:
    """The tables that wide rows (``PARSED_LINE``) hold, each with its rows."""
    request_id = F.col("line_id").alias("request_id")
    about = ("recording", request_id, "node_id")
    place = ("source_file", "line_number")
    requests = lines.filter("request is not null").select(*about, *place, "request.*")
    rejected = lines.filter("rejected is not null").select(
        "recording", "line_id", "node_id", *place, "rejected.*"
    )
    structs = [
        (table, lines.filter(F.col(name).isNotNull()).select(*about, f"{name}.*"))
        for name, table in _STRUCTS.items()
    ]
    lists = [
        (table, lines.filter(F.size(name) > 0).select(*about, F.inline(name)))
        for name, table in _LISTS.items()
    ]
    return [(REQUESTS, requests), (REJECTED_LINES, rejected), *structs, *lists]


def _commit(
    spark: SparkSession,
    surveys: Sequence[Survey],
    counts: Mapping[FileKey, _Counts],
    warehouse: Warehouse,
) -> None:
    rows = [
        {
            "recording": s.file.recording,
            "node_id": s.file.node_id,
            "source_file": s.file.source_file,
            "content_hash": s.content_hash,
            "bytes_read": s.bytes_read,
            "lines_read": s.lines,
            "requests": counts[_key_of(s.file)].requests,
            "rejected": counts[_key_of(s.file)].rejected,
            "repeated": counts[_key_of(s.file)].repeated,
        }
        for s in surveys
    ]
    schema = from_arrow_schema(INGESTED_FILES.arrow_schema)
    table = pa.Table.from_pylist(rows, schema=INGESTED_FILES.arrow_schema)
    warehouse.insert_new(INGESTED_FILES, spark.createDataFrame(table, schema))


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
    counts: Mapping[FileKey, _Counts],
) -> LinesRead:
    mine = [s for s in surveys if s.file.recording == recording.name]
    new = [s for s in fresh if s.file.recording == recording.name]
    total: Counter[str] = Counter()
    for of_file in new:
        total.update(vars(counts[_key_of(of_file.file)]))
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
