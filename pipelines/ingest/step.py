"""Request logs into the warehouse: every line once, and all accounted for.

Theory of operation
-------------------
1. Files are found (``log_files``) and surveyed (``survey``): what is new in them, lines, byte
   ranges. What the warehouse has read of a node, under whatever name, is not read again.
2. Tasks parse byte ranges in parallel, each line once (``kafka.request_log``), and write the rows
   of each table to Parquet files where they will stay (``parse_task``). No table knows of them yet.
   Those with lines whose stamps cannot be right read once more and reject them (``stray_stamps``).
   Where lines show that a log is another node's (``whose_log``), or none is a request (``unread``),
   these are deleted and it ends.
3. A line that was read before, in this run or an earlier one, is *repeated* and becomes no row.
   Where spans of time overlap, lines are compared, and files that have repeated ones written anew
   (``overlaps``, ``repeated_lines``). Of copies in one run the least (source_file, line_number) is
   kept; one that an earlier run kept stays.
4. Files are committed, each table in one transaction (``warehouse.commits``): first what hangs on a
   request, then ``requests``, last ``ingested_files``, which says that the files are in.

Killed anywhere, the same run again gives the same tables: what a run has committed that
``ingested_files`` does not know of is taken out by the next one's commits.

Line accounting: for each file, lines counted by the survey = requests + rejected + repeated.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, TypeVar

import pyarrow as pa

from kip_replay.pipelines import progress
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest import anonymity
from kip_replay.pipelines.ingest.file_reading import Content
from kip_replay.pipelines.ingest.line_accounting import (
    Counts,
    FileKey,
    Node,
    Times,
    balanced,
    contents_read,
    file_key,
    file_of,
    read_spans,
)
from kip_replay.pipelines.ingest.log_files import LogFile, OnDisk, find_log_files, on_disk
from kip_replay.pipelines.ingest.overlaps import Span, overlaps
from kip_replay.pipelines.ingest.parse_range import ParsedRange, joined
from kip_replay.pipelines.ingest.parse_task import Parsed, ParseTask, parse_or_error, tasks_of
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.repeated_lines import kept_files, without_repeated
from kip_replay.pipelines.ingest.stray_stamps import Strays, rejecting, stray_stamps, stray_warnings
from kip_replay.pipelines.ingest.survey import RANGE_BYTES, Survey, SurveySettings, survey_or_error
from kip_replay.pipelines.ingest.survey_checks import (
    check_clock_offsets,
    check_recording,
    notes_of,
    rewritten,
    warnings_of,
)
from kip_replay.pipelines.ingest.unread import require_requests, unread_lines
from kip_replay.pipelines.ingest.whose_log import require_own, same_contents
from kip_replay.pipelines.warehouse.data_files import (
    DataFile,
    TableFiles,
    filesystem_of,
    microseconds,
)
from kip_replay.pipelines.warehouse.lineage import contents, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse, Writing
from kip_replay.replay.kafka.request_log import Pseudonyms
from kip_replay.replay.kafka.request_log.layouts.reader import LINE_BYTES_MAX
from kip_replay.replay.log_tables import INGESTED_FILES, LOG_TABLES, REQUESTS

#: The step of ``lineage``, and of the epochs of ``warehouse.commits``.
STEP = "ingest"
#: Nobody waits for a second task before the first has had this much to do.
_TASK_BYTES_MIN = 32 << 20
#: Tasks per core, so that one that takes longer leaves the others something to do meanwhile.
_TASKS_PER_CORE = 2
#: A line read before may have been read in another time zone, if the manifest was corrected since:
#: zones lie up to 26 hours apart. In one zone, the two passes of an hour do by two hours at most.
_ZONE_SLACK_US = 27 * 3_600_000_000
_FOLD_SLACK_US = 2 * 3_600_000_000
_Out = TypeVar("_Out")
#: Columns of ``ingested_files``, by what has them.
_OF_FILE = ("recording", "node_id", "source_file", "timezone", "clock_offset_ms")
_OF_SURVEY = ("content_hash", "bytes_read", "first_byte", "damage")
_OF_COUNTS = ("requests", "other", "rejected", "repeated")
#: Of ``ingested_files``.
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class IngestSettings:
    """How logs are read. None of these changes a row of a readable log.

    ``final``: logs do not grow any more, so a last line without its end is read as it is.
    Logs of at most ``survey_on_driver_bytes_max`` (compressed) are surveyed by threads of the
    driver, larger ones by tasks.
    A task parses ``task_bytes_max`` (uncompressed) at most, and writes a file per table.
    Gzip files are read until they have unpacked to more than ``gzip_ratio_max`` times their size.
    ``accept_stray_stamps``: lines are read even if their stamps cannot be where they stand.
    ``tasks``: tasks that parse.
    """

    final: bool = True
    range_bytes: int = RANGE_BYTES
    line_bytes_max: int = LINE_BYTES_MAX
    survey_on_driver_bytes_max: int = 1 << 30
    task_bytes_max: int = 512 << 20
    node_gap_minutes_max: float = 10.0
    gzip_ratio_max: float = 250.0
    accept_stray_stamps: bool = False
    tasks: int | None = None


@dataclass(frozen=True, kw_only=True)
class LinesRead(Counts):
    """What became of the lines of a recording in this run.

    ``unread`` says for each reason where the first line is that cannot be read.
    """

    recording: str
    files_read: int
    files_known: int
    bytes_read: int
    unread: tuple[str, ...] = ()

    @property
    def rejected_share(self) -> float:
        """Of the lines that are requests or should be; 0 where none are."""
        return self.rejected / max(self.lines - self.other, 1)


Say = Callable[[str], object]


def ingest(
    recordings: Sequence[Recording],
    engine: Engine,
    settings: IngestSettings = IngestSettings(),
    say: Say = print,
    pseudonyms: Pseudonyms | None = None,
    found: Sequence[LogFile] = (),
) -> list[LinesRead]:
    """Reads the recordings' logs into the warehouse; what it holds of them already stays.

    With ``pseudonyms``, names and lines are replaced before anything is written (``anonymity``).
    ``found``: the recordings' files, where they were looked for already.
    ``say`` takes progress, a line of text at a time. Raises UserError where a recording cannot be
    read as one, IngestError where line accounting does not balance, WriteConflictError.
    """
    warehouse = engine.warehouse
    anonymity.require_key(warehouse, pseudonyms)
    files = {file: on_disk(file) for file in found or find_log_files(*recordings)}
    # Files of epochs after ``done`` are what a killed run has committed.
    names = [recording.name for recording in recordings]
    rows, done = warehouse.rows_and_epochs(INGESTED_FILES, names, STEP)
    ingested = rows.to_pylist()
    check_clock_offsets(recordings, ingested)
    # A file that is as it was when it was read is not opened, whatever it is called by now; but for
    # an empty one, which may be all that a node has.
    as_read = {
        (r["recording"], r["node_id"], r["disk_bytes"], r["modified_at"])
        for r in ingested
        if r["disk_bytes"]
    }
    unchanged = {f for f, found in files.items() if (f.recording, f.node_id, *found) in as_read}
    changed = {file: found for file, found in files.items() if file not in unchanged}
    surveys = _surveyed(engine, changed, contents_read(ingested), settings, pseudonyms)
    for recording in recordings:
        of_recording = [s for s in surveys if s.file.recording == recording.name]
        known = read_spans([r for r in ingested if r["recording"] == recording.name])
        gap_minutes_max = settings.node_gap_minutes_max
        check_recording(recording, of_recording, gap_minutes_max, known, settings.final)
        hashes = [(file_of(s.file), s.content_hash) for s in of_recording if s.has_requests]
        hashes += [(file_key(row), row["content_hash"]) for row in ingested if row["requests"]]
        if copies := same_contents(recording, hashes):
            raise UserError(copies[0])
    for warning in (*warnings_of(surveys), *rewritten(surveys, ingested)):
        say(f"warning: {warning}")

    noted = {(*file_key(row), row["content_hash"]) for row in ingested}
    fresh = [s for s in surveys if not s.is_known or _is_noted_anew(s, noted)]
    for recording in recordings:
        _announce(recording, surveys, unchanged, say)
    counts: dict[FileKey, Counts] = {}
    parsed: list[Parsed] = []
    if fresh:
        counts, parsed, strays = _ingest_files(
            recordings, fresh, files, ingested, done, engine, settings, pseudonyms
        )
        for warning in (text for name in names for text in stray_warnings(strays, name)):
            say(f"warning: {warning}")
        if newer := sum((of.newer_versions for of in parsed), Counter()):
            say(f"warning: {newer_versions_warning(newer)}")
    _complete(warehouse, {n: epoch for n, epoch in done.items() if n not in _names(fresh)})
    read = [_lines_read(r, surveys, unchanged, counts, parsed) for r in recordings]
    for lines in read:
        say(
            f"ingest {lines.recording}: lines read {lines.lines:,} = requests "
            f"{lines.requests:,} + other {lines.other:,} + rejected {lines.rejected:,} + repeated "
            f"{lines.repeated:,}"
        )
    return read


def _is_noted_anew(survey: Survey, noted: Collection[tuple[object, ...]]) -> bool:
    """Whether all of a file is known under another name, or from before it was compressed.

    Then a row without lines notes the file, so that the next run need not open it. ``noted``: the
    names of files with their content hashes, each of which has one row.
    """
    is_new = (*file_of(survey.file), survey.content_hash) not in noted
    return is_new and survey.is_known and _is_read_whole(survey) and survey.end > 0


def _is_read_whole(survey: Survey) -> bool:
    """Whether nothing is left in a file to be read or noted."""
    is_whole = not survey.left_bytes and survey.damage is None and not survey.framing.is_part
    return is_whole and survey.fold_is_known


# --- survey


def _surveyed(
    engine: Engine,
    files: Mapping[LogFile, OnDisk],
    known: Mapping[Node, Collection[Content]],
    settings: IngestSettings,
    pseudonyms: Pseudonyms | None,
) -> list[Survey]:
    """A survey of each file, in the order given: on the driver's cores, or on all where large."""
    one = partial(
        survey_or_error,
        settings=SurveySettings(settings.range_bytes, settings.final, settings.gzip_ratio_max),
        known=known,
        pseudonyms=pseudonyms,
    )
    progress.stage("survey")
    total = sum(found.bytes for found in files.values())
    if total <= settings.survey_on_driver_bytes_max:
        # Hashing, inflating and reading let other threads run.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            surveys = []
            for (_, found), result in zip(files.items(), pool.map(one, files), strict=True):
                surveys.append(_raised(result))
                progress.done(found.bytes, total)
            return surveys
    progress.done(0, total)
    return [*map(_raised, engine.run(one, [*files]))]


def _raised(result: _Out | UserError) -> _Out:
    if isinstance(result, UserError):
        raise result
    return result


# --- parse, drop what is repeated, commit


def _ingest_files(
    recordings: Sequence[Recording],
    surveys: Sequence[Survey],
    files_on_disk: Mapping[LogFile, OnDisk],
    ingested: Rows,
    done: Mapping[str, int],
    engine: Engine,
    settings: IngestSettings,
    pseudonyms: Pseudonyms | None,
) -> tuple[dict[FileKey, Counts], list[Parsed], Strays]:
    """What became of each file's lines, what tasks found in them, and stray ones."""
    warehouse = engine.warehouse
    done = {name: done[name] for name in _names(surveys)}
    writing = warehouse.writing(STEP, done, LOG_TABLES)
    anonymity.mark(warehouse, pseudonyms)
    new = [survey for survey in surveys if not survey.is_known]
    tasks = _tasks(new, engine, writing.files(), settings, pseudonyms)
    progress.stage("read logs")
    progress.done(0, sum(s.bytes_read for s in surveys))
    parsed = _parsed(engine, tasks)
    strays = {} if settings.accept_stray_stamps else _strays(warehouse, surveys, parsed)
    again = {of.task: of for of in _parsed(engine, rejecting(tasks, strays, _unsound(parsed)))}
    parsed = [again.get(of.task, of) for of in parsed]
    counts = balanced(surveys, [of.counts for of in parsed])
    spans = overlaps(
        [*(of.spans for of in parsed), _earlier_spans(warehouse, surveys, done)],
        _slack_us(surveys, ingested),
    )
    try:
        require_own(recordings, sum((of.senders for of in parsed), Counter()))
        require_requests(parsed, counts, {r["recording"] for r in ingested if r["requests"]})
    except UserError:
        for file in (file for of in parsed for file in of.files):
            filesystem, place = filesystem_of(f"{writing.files().root}/{file.table}/{file.path}")
            filesystem.delete_file(place)
        raise
    files = [file for of in parsed for file in of.files]
    rejected = any(count.rejected for count in counts.values())
    if spans or rejected:
        files, changed = without_repeated(engine, parsed, spans, writing.files().name, done)
        counts = balanced(surveys, [counts, *changed])
    added = _ingested_files(writing, surveys, files_on_disk, counts, _times(parsed))
    _commit(writing, files, added, done)
    return counts, parsed, strays


def _parsed(engine: Engine, tasks: Sequence[ParseTask]) -> list[Parsed]:
    return [*map(_raised, engine.run(parse_or_error, tasks))]


def _unsound(parsed: Sequence[Parsed]) -> dict[FileKey, int]:
    """Where damaged files begin to give what was not in them, as far as lines show it."""
    lines: dict[FileKey, int] = {}
    for file, line in (item for of in parsed for item in of.unsound.items()):
        lines[file] = min(line, lines.get(file, line))
    return lines


def _strays(warehouse: Warehouse, surveys: Sequence[Survey], parsed: Sequence[Parsed]) -> Strays:
    """Stray lines of what was parsed, and is not committed yet."""
    undecided = {file_of(s.file) for s in surveys if not s.fold_is_known}
    stepping = {file for file, times in _times(parsed).items() if times.is_stepping} - undecided
    return stray_stamps(warehouse.path, [f for of in parsed for f in of.files], stepping)


def _complete(warehouse: Warehouse, done: Mapping[str, int]) -> None:
    """The last write of runs that were killed right before it."""
    lineage = warehouse.lineage(done)
    killed = {n: epoch for n, epoch in done.items() if epoch and (n, STEP) not in lineage}
    if killed:
        _commit(warehouse.writing(STEP, killed, LOG_TABLES), [], [], killed)


def _names(surveys: Sequence[Survey]) -> list[str]:
    return list(dict.fromkeys(s.file.recording for s in surveys))


def _tasks(
    surveys: Sequence[Survey],
    engine: Engine,
    files: TableFiles,
    settings: IngestSettings,
    pseudonyms: Pseudonyms | None,
) -> list[ParseTask]:
    total = sum(s.bytes_read for s in surveys)
    # Spark, which knows how many cores a cluster has, is not started for what one core can do.
    is_small = total <= _TASK_BYTES_MIN and settings.tasks is None
    cores = 1 if is_small else engine.cores
    ranges = [part for s in surveys for part in _ranges(s, cores, settings.range_bytes)]
    wanted = min(cores * _TASKS_PER_CORE, ceil(total / _TASK_BYTES_MIN))
    count = settings.tasks or max(1, wanted, ceil(total / settings.task_bytes_max))
    return tasks_of(ranges, count, files, settings.line_bytes_max, pseudonyms)


def _ranges(of_file: Survey, cores: int, range_bytes: int) -> list[ParsedRange]:
    """Where a file may be cut.

    To read a part of a gzip stream one has to inflate all before it, which pays only as long as
    cores are idle otherwise.
    """
    ranges = [ParsedRange.of(of_file, byte_range) for byte_range in of_file.ranges]
    piece_bytes = ceil(of_file.bytes_read / cores) + range_bytes
    return joined(ranges, piece_bytes) if of_file.is_compressed else ranges


def _earlier_spans(
    warehouse: Warehouse, surveys: Sequence[Survey], done: Mapping[str, int]
) -> dict[Node, list[Span]]:
    """When the requests were completed that the warehouse holds of these nodes, by file."""
    nodes = {(s.file.recording, s.file.node_id) for s in surveys}
    spans: dict[Node, list[Span]] = {}
    for file in kept_files(warehouse, REQUESTS, done):
        first, last = file.get("min.completed_at"), file.get("max.completed_at")
        if first is None or last is None:
            continue
        span = (microseconds(first), microseconds(last))
        for recording, node_id in nodes:
            is_of_node = file["min.node_id"] <= node_id <= file["max.node_id"]
            if recording == file["partition.recording"] and is_of_node:
                spans.setdefault((recording, node_id), []).append(span)
    return spans


def _slack_us(surveys: Sequence[Survey], ingested: Rows) -> dict[Node, int]:
    """By how much the time of a line can differ from that of its copy, by node."""
    slack: dict[Node, int] = {}
    zones: dict[Node, set[str]] = defaultdict(set)
    for row in (*ingested, *(vars(survey.file) for survey in surveys)):
        zones[row["recording"], row["node_id"]].add(row["timezone"])
    for of_file in surveys:
        node = (of_file.file.recording, of_file.file.node_id)
        has_passes = of_file.second_pass_line is not None or not of_file.fold_is_known
        here = _ZONE_SLACK_US if len(zones[node]) > 1 else _FOLD_SLACK_US if has_passes else 0
        slack[node] = max(here, slack.get(node, 0))
    return slack


def _commit(
    writing: Writing,
    files: Sequence[DataFile],
    ingested: Sequence[DataFile],
    done: Mapping[str, int],
) -> None:
    """All tables, ``requests`` after what hangs on a request, ``ingested_files`` last."""
    writing.begin({INGESTED_FILES: done})
    typed = [t for t in LOG_TABLES if t not in (REQUESTS, INGESTED_FILES)]
    for table in (*typed, REQUESTS):
        writing.append(table, files, done)
    writing.append(INGESTED_FILES, ingested, done)
    rows = writing.warehouse.rows(INGESTED_FILES, done).to_pylist()
    writing.end({name: fingerprint(of) for name, of in contents(rows, done).items()})


def _times(parsed: Iterable[Parsed]) -> dict[FileKey, Times]:
    """The times of each file's requests, over all tasks."""
    whole: dict[FileKey, Times] = {}
    for of in parsed:
        for file, times in of.times.items():
            whole[file] = whole.get(file, Times()).with_other(times)
    return whole


def _ingested_files(
    writing: Writing,
    surveys: Sequence[Survey],
    files_on_disk: Mapping[LogFile, OnDisk],
    counts: Mapping[FileKey, Counts],
    times: Mapping[FileKey, Times],
) -> list[DataFile]:
    """A row per file: committed last, they state that the files are in."""
    rows = []
    for s in surveys:
        count, time = counts[file_of(s.file)], times.get(file_of(s.file), Times())
        found = files_on_disk[s.file] if _is_read_whole(s) else None
        stated = (s.file, _OF_FILE), (s, _OF_SURVEY), (count, _OF_COUNTS)
        row = {name: getattr(of, name) for of, names in stated for name in names} | {
            "lines_read": count.lines,
            "ingest_epoch": writing.epochs[s.file.recording],
            "first_received_at": time.first_received_us,
            "last_completed_at": time.last_completed_us,
            "first_event_at": time.first_event_us,
            "disk_bytes": found.bytes if found else None,
            "modified_at": found.modified_at if found else None,
        }
        rows.append(row)
    files = writing.files()
    files.write(INGESTED_FILES, pa.RecordBatch.from_pylist(rows, INGESTED_FILES.arrow_schema))
    return files.closed()


# --- messages


def _announce(
    recording: Recording, surveys: Sequence[Survey], unchanged: Collection[LogFile], say: Say
) -> None:
    new = [s for s in surveys if s.file.recording == recording.name and not s.is_known]
    known = _known(recording, surveys, unchanged)
    parts = []
    if new:
        size = sum(s.bytes_read for s in new) / 1e6
        lines = sum(s.lines for s in new)
        parts.append(f"{_number(len(new), 'file')}, {size:,.1f} MB, {_number(lines, 'line')}")
    if known:
        parts.append(f"{_number(known, 'file')} known already")
    say(f"ingest {recording.name}: {'; '.join(parts)}")
    for note in notes_of([s for s in surveys if s.file.recording == recording.name]):
        say(f"ingest {recording.name}: {note}")


def newer_versions_warning(newer: Mapping[tuple[int, int], int]) -> str:
    """The sentence about versions that the message schemas do not know, from their requests."""
    versions = ", ".join(
        f"API key {key} version {version} ({_number(count, 'request')})"
        for (key, version), count in sorted(newer.items())
    )
    return (
        f"newer than the message schemas, so fields they add are not read and bytes on the wire "
        f"are null: {versions}"
    )


def _known(recording: Recording, surveys: Sequence[Survey], unchanged: Collection[LogFile]) -> int:
    files = [*unchanged, *(s.file for s in surveys if s.is_known)]
    return sum(file.recording == recording.name for file in files)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _lines_read(
    recording: Recording,
    surveys: Sequence[Survey],
    unchanged: Collection[LogFile],
    counts: Mapping[FileKey, Counts],
    parsed: Sequence[Parsed],
) -> LinesRead:
    new = [s for s in surveys if s.file.recording == recording.name and not s.is_known]
    total = sum((counts[file_of(s.file)] for s in new), Counts())
    return LinesRead(
        **vars(total),
        recording=recording.name,
        files_read=len(new),
        files_known=_known(recording, surveys, unchanged),
        bytes_read=sum(s.bytes_read for s in new),
        unread=tuple(unread_lines(parsed, recording.name)),
    )
