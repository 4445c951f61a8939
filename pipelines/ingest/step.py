"""Request logs into the warehouse: every line once, and the books balanced.

Theory of operation
-------------------
1. Files are found (``log_files``) and surveyed (``survey``): what is new in them, lines, byte
   ranges. What the warehouse has read of a node, under whatever name, is not read again.
2. Tasks parse byte ranges in parallel, each line once (``replay.request_log``), and write the rows
   of each table to Parquet files where they will stay (``parse_task``). No table knows of them yet.
3. A line that was read before, in this run or an earlier one, is *repeated* and becomes no row.
   Where spans of time overlap, lines are compared, and files that have repeated ones written anew
   (``overlaps``, ``repeated_lines``). Of copies in one run the least (source_file, line_number) is
   kept; one that an earlier run kept stays.
4. Files are committed, each table in one transaction (``delta_commits``): first what hangs on a
   request, then ``requests``, last ``ingested_files``, which says that the files are in.

Killed anywhere, the same run again gives the same tables: what a run has committed that
``ingested_files`` does not know of is taken out before anything else is done.

The books: for each file, lines counted by the survey = requests + rejected + repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TypeVar

import pyarrow as pa
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest import anonymity
from kip_replay.pipelines.ingest.line_accounting import (
    Books,
    Counts,
    FileKey,
    Node,
    balanced,
    file_of,
)
from kip_replay.pipelines.ingest.log_files import LogFile, disk_bytes, find_log_files
from kip_replay.pipelines.ingest.overlaps import Span, overlaps
from kip_replay.pipelines.ingest.parse_range import LINE_BYTES_MAX, ParsedRange, joined
from kip_replay.pipelines.ingest.parse_task import ParseTask, parse_or_error, tasks_of
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.repeated_lines import without_repeated
from kip_replay.pipelines.ingest.survey import RANGE_BYTES, Survey, survey_or_error
from kip_replay.pipelines.ingest.survey_checks import check_recording, notes_of, warnings_of
from kip_replay.pipelines.warehouse import commits as delta_commits
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.request_log import Pseudonyms
from kip_replay.replay.schema import INGESTED_FILES, LOG_TABLES, REQUESTS
from pyspark.sql import SparkSession

#: Nobody waits for a second task before the first has had this much to do.
_TASK_BYTES_MIN = 32 << 20
#: Tasks per core, so that one that takes longer leaves the others something to do meanwhile.
_TASKS_PER_CORE = 2
#: A line read before may have been read in another time zone, if the manifest was corrected since:
#: zones lie up to 26 hours apart. In one zone, the two passes of an hour do by two hours at most.
_ZONE_SLACK_US = 27 * 3_600_000_000
_FOLD_SLACK_US = 2 * 3_600_000_000
_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class IngestSettings:
    """How logs are read. None of these changes a row of a readable log.

    ``final``: logs do not grow any more, so a last line without its end is read as it is.
    Logs of at most ``survey_on_driver_bytes_max`` (compressed) are surveyed without Spark.
    A task parses ``task_bytes_max`` (uncompressed) at most, and writes a file per table.
    ``tasks``: parse in so many tasks.
    """

    final: bool = True
    range_bytes: int = RANGE_BYTES
    line_bytes_max: int = LINE_BYTES_MAX
    survey_on_driver_bytes_max: int = 1 << 30
    task_bytes_max: int = 512 << 20
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
    pseudonyms: Pseudonyms | None = None,
) -> list[LinesRead]:
    """Reads the recordings' logs into the warehouse; what it holds of them already stays.

    With ``pseudonyms``, names and lines are replaced before anything is written (``anonymity``).
    ``say`` takes progress, a line of text at a time. Raises UserError where a recording cannot be
    read as one, IngestError where the books do not balance, WriteConflictError.
    """
    anonymity.require_key(warehouse, pseudonyms)
    files = [file for recording in recordings for file in find_log_files(recording)]
    books = _books(warehouse, recordings)
    surveys = _surveyed(spark, files, books, settings, pseudonyms)
    for recording in recordings:
        of_recording = [s for s in surveys if s.file.recording == recording.name]
        check_recording(recording, of_recording, settings.node_gap_minutes_max)
    for warning in warnings_of(surveys):
        say(f"warning: {warning}")

    with warehouse.exclusively("ingest"):
        anonymity.require_key(warehouse, pseudonyms)  # another run may have been faster
        now = _books(warehouse, recordings)
        if now != books:
            books, surveys = now, _surveyed(spark, files, now, settings, pseudonyms)
        fresh = [s for s in surveys if not s.is_known]
        for recording in recordings:
            _announce(recording, surveys, fresh, say)
        counts = (
            _ingest_files(spark, fresh, books, warehouse, settings, pseudonyms) if fresh else {}
        )
    read = [_lines_read(recording, surveys, fresh, counts) for recording in recordings]
    for lines in read:
        say(
            f"ingest {lines.recording}: lines read {lines.lines_read:,} = requests "
            f"{lines.requests:,} + rejected {lines.rejected:,} + repeated {lines.repeated:,}"
        )
    return read


def _books(warehouse: Warehouse, recordings: Sequence[Recording]) -> Books:
    path = warehouse.path_of(INGESTED_FILES)
    if not delta_commits.exists(path):
        return Books.of([])
    names = [recording.name for recording in recordings]
    return Books.of(delta_commits.rows(path, names).to_pylist())


# --- survey


def _surveyed(
    spark: SparkSession,
    files: Sequence[LogFile],
    books: Books,
    settings: IngestSettings,
    pseudonyms: Pseudonyms | None,
) -> list[Survey]:
    """A survey of each file, in the order given: on the driver's cores, or on all where large."""
    known = {(file.recording, file.node_id): books.known(file) for file in files}
    one = partial(
        survey_or_error,
        range_bytes=settings.range_bytes,
        known=known,
        final=settings.final,
        pseudonyms=pseudonyms,
    )
    if disk_bytes(files) <= settings.survey_on_driver_bytes_max:
        # Hashing, inflating and reading let other threads run.
        with ThreadPoolExecutor(spark.sparkContext.defaultParallelism) as pool:
            return [_raised(result) for result in pool.map(one, files)]
    return _on_cluster(spark, one, files)


def _on_cluster(
    spark: SparkSession, work: Callable[[_In], _Out | UserError], parts: Sequence[_In]
) -> list[_Out]:
    """A task for each part; a few results for each come back."""
    results = spark.sparkContext.parallelize(parts, len(parts)).map(work).collect()
    return [_raised(result) for result in results]


def _raised(result: _Out | UserError) -> _Out:
    if isinstance(result, UserError):
        raise result
    return result


# --- parse, drop what is repeated, commit


def _ingest_files(
    spark: SparkSession,
    surveys: Sequence[Survey],
    books: Books,
    warehouse: Warehouse,
    settings: IngestSettings,
    pseudonyms: Pseudonyms | None,
) -> dict[FileKey, Counts]:
    run = _begin_run(warehouse)
    anonymity.mark(warehouse, pseudonyms)
    name = delta_commits.file_name_of_run(run)
    cores = spark.sparkContext.defaultParallelism
    tasks = _tasks(surveys, name, warehouse, settings, cores, pseudonyms)
    parse = parse_or_error
    # For a single task, Spark's Python worker would take longer to start than the driver to parse.
    parsed = [_raised(parse(tasks[0]))] if len(tasks) == 1 else _on_cluster(spark, parse, tasks)
    counts = balanced(surveys, [of.counts for of in parsed])
    spans = overlaps(
        [batch for of in parsed for batch in of.batches],
        _earlier_spans(warehouse, surveys),
        _slack_us(surveys, books),
    )
    files = [file for of in parsed for file in of.files]
    rejected = any(count.rejected for count in counts.values())
    if spans or rejected:
        files, changed = without_repeated(spark, warehouse, parsed, spans, name)
        counts = balanced(surveys, [counts, *changed])
    _commit(warehouse, run, files, _ingested_files(warehouse, name, surveys, counts))
    return counts


def undo_killed_run(warehouse: Warehouse) -> int:
    """Takes out what a killed run has left in the log tables; the last run's number.

    To be called before anything writes the files of these tables anew, which makes them lose the
    names that tell their run; under ``warehouse.exclusively("ingest")``.
    """
    there = [table for table in LOG_TABLES if warehouse.exists(table)]
    runs = {table: delta_commits.run_of(warehouse.path_of(table)) for table in there}
    done = runs.get(INGESTED_FILES, 0)
    for table, run in runs.items():
        if run > done:
            delta_commits.undo(warehouse.path_of(table), run)
    return max(runs.values(), default=0)


def _begin_run(warehouse: Warehouse) -> int:
    """A new run's number, after every table is there as it should be."""
    warehouse.create_missing_tables(LOG_TABLES)
    for table in LOG_TABLES:
        delta_commits.add_missing_columns(warehouse.path_of(table), table)
    return undo_killed_run(warehouse) + 1


def _tasks(
    surveys: Sequence[Survey],
    file_name: str,
    warehouse: Warehouse,
    settings: IngestSettings,
    cores: int,
    pseudonyms: Pseudonyms | None,
) -> list[ParseTask]:
    ranges = [part for s in surveys for part in _ranges(s, cores, settings.range_bytes)]
    total = sum(s.bytes_read for s in surveys)
    wanted = min(cores * _TASKS_PER_CORE, ceil(total / _TASK_BYTES_MIN))
    count = settings.tasks or max(1, wanted, ceil(total / settings.task_bytes_max))
    folder, line_bytes_max = warehouse.folder, settings.line_bytes_max
    return tasks_of(ranges, count, file_name, folder, line_bytes_max, pseudonyms)


def _ranges(of_file: Survey, cores: int, range_bytes: int) -> list[ParsedRange]:
    """Where a file may be cut.

    Whoever reads a piece of a gzip stream has to inflate all before it, which pays only as long as
    cores are idle otherwise.
    """
    ranges = [ParsedRange.of(of_file, byte_range) for byte_range in of_file.ranges]
    piece_bytes = ceil(of_file.bytes_read / cores) + range_bytes
    return joined(ranges, piece_bytes) if of_file.is_gzip else ranges


def _earlier_spans(warehouse: Warehouse, surveys: Sequence[Survey]) -> dict[Node, list[Span]]:
    """When the requests were completed that the warehouse holds of these nodes, by file."""
    nodes = {(s.file.recording, s.file.node_id) for s in surveys}
    spans: dict[Node, list[Span]] = {}
    for file in delta_commits.spans(warehouse.path_of(REQUESTS)):
        for recording, node_id in nodes:
            if recording == file.recording and file.node_ids[0] <= node_id <= file.node_ids[1]:
                spans.setdefault((recording, node_id), []).append(file.span_us)
    return spans


def _slack_us(surveys: Sequence[Survey], books: Books) -> dict[Node, int]:
    """By how much the time of a line can differ from that of its copy, by node."""
    slack: dict[Node, int] = {}
    for of_file in surveys:
        node = (of_file.file.recording, of_file.file.node_id)
        zones = books.timezones.get(node, frozenset()) | {of_file.file.timezone}
        has_passes = of_file.second_pass_line is not None or not of_file.fold_is_known
        here = _ZONE_SLACK_US if len(zones) > 1 else _FOLD_SLACK_US if has_passes else 0
        slack[node] = max(here, slack.get(node, 0))
    return slack


def _commit(
    warehouse: Warehouse, run: int, files: Iterable[DataFile], ingested: Sequence[DataFile]
) -> None:
    """All tables, ``requests`` after what hangs on a request, ``ingested_files`` last."""
    by_table: dict[str, list[DataFile]] = {}
    for file in files:
        by_table.setdefault(file.table, []).append(file)
    typed = [t for t in LOG_TABLES if t not in (REQUESTS, INGESTED_FILES)]
    for table in (*typed, REQUESTS):
        if table.name in by_table:
            delta_commits.commit(warehouse.path_of(table), by_table[table.name], run)
    delta_commits.commit(warehouse.path_of(INGESTED_FILES), ingested, run)


def _ingested_files(
    warehouse: Warehouse,
    file_name: str,
    surveys: Sequence[Survey],
    counts: Mapping[FileKey, Counts],
) -> list[DataFile]:
    """A row per file: committed last, they say that the files are in."""
    files = TableFiles(warehouse.folder, file_name)
    for s in surveys:
        count = counts[file_of(s.file)]
        row = {
            "recording": s.file.recording,
            "node_id": s.file.node_id,
            "source_file": s.file.source_file,
            "content_hash": s.content_hash,
            "bytes_read": s.bytes_read,
            "lines_read": s.lines,
            "requests": count.requests,
            "rejected": count.rejected,
            "repeated": count.repeated,
            "first_byte": s.first_byte,
            "timezone": s.file.timezone,
        }
        rows = pa.RecordBatch.from_pylist([row], schema=INGESTED_FILES.arrow_schema)
        files.write(INGESTED_FILES, rows)
    return files.ended()


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
    for note in notes_of([s for s in surveys if s.file.recording == recording.name]):
        say(f"ingest {recording.name}: {note}")


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
