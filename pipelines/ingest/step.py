"""Request logs into the warehouse: every line once, and all accounted for.

Theory of operation
-------------------
1. Files are found (``log_files``) and surveyed (``survey``): what is new in them, lines, byte
   ranges. What the warehouse has read of a node, under whatever name, is not read again.
2. Tasks parse byte ranges in parallel, each line once (``kafka.request_log``), and write the rows
   of each table to Parquet files where they will stay (``parse_task``). No table knows of them yet.
   Those with lines whose stamps cannot be right parse once more without them (``second_parse``).
   Where lines show that a log is another node's, or none is a request (``checks``), these are
   deleted and it ends.
3. A line that was read before, in this run or an earlier one, is *repeated* and becomes no row.
   Where spans of time overlap, lines are compared, and tasks that have repeated ones parse once
   more without them (``second_parse``). Of copies in one run the least (source_file,
   line_number) is kept; one that an earlier run kept stays.
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
from typing import Any

import pyarrow as pa

from kip_replay.pipelines import progress
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.checks import (
    notes_of,
    refusals,
    unread_lines,
    unreadable,
    warnings_of,
    wrong_logs,
    zookeeper,
)
from kip_replay.pipelines.ingest.line_accounting import (
    Counts,
    FileKey,
    NodeKey,
    Times,
    balanced,
    contents_read,
    file_key,
    file_of,
)
from kip_replay.pipelines.ingest.log_files import LogFile, OnDisk, find_log_files, on_disk
from kip_replay.pipelines.ingest.parse_task import (
    Parsed,
    ParseTask,
    Senders,
    Span,
    joined,
    parse_task,
    tasks_of,
)
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.second_parse import (
    kept_files,
    overlaps,
    rejecting,
    span_of,
    stray_stamps,
    without_repeated,
)
from kip_replay.pipelines.ingest.survey import ParsedRange, Survey, SurveySettings, survey
from kip_replay.pipelines.storage import filesystem_of
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.pipelines.warehouse.steps import (
    Step,
    StepKind,
    contents_of,
    fingerprint,
    readings_of,
)
from kip_replay.pipelines.warehouse.tables import Warehouse, Writing
from kip_replay.replay.kafka.request_log.layouts.reader import LINE_BYTES_MAX
from kip_replay.replay.log_tables import LOG_TABLES, IngestedFiles, Requests

STEP = Step(name="ingest", kind=StepKind.BY_TIME, writes=LOG_TABLES)
#: Nobody waits for a second task before the first has had this much to do.
_TASK_BYTES_MIN = 32 << 20
#: Tasks per core, so that one that takes longer leaves the others something to do meanwhile.
_TASKS_PER_CORE = 2
#: A line read before may have been read in another time zone, if the manifest was corrected since:
#: zones lie up to 26 hours apart, and the two passes of an hour less.
_SLACK_US = 27 * 3_600_000_000
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class IngestSettings(SurveySettings):
    """Configures how logs are read; conf/defaults.toml says what each is.

    None changes a row of a readable log.
    """

    line_bytes_max: int = LINE_BYTES_MAX
    survey_on_driver_bytes_max: int = 1 << 30
    task_bytes_max: int = 512 << 20
    node_gap_minutes_max: float = 10.0


@dataclass(frozen=True, kw_only=True)
class LinesRead(Counts):
    """Counts what became of the lines of a recording in this run."""

    recording: str
    files_read: int
    files_known: int
    bytes_read: int
    unread: tuple[str, ...] = ()

    @property
    def rejected_share(self) -> float:
        """Divides by the lines that are requests or should be; 0 where none are."""
        return self.rejected / max(self.lines - self.other, 1)


Say = Callable[[str], object]


def ingest(
    recordings: Sequence[Recording],
    engine: Engine,
    settings: IngestSettings = IngestSettings(),
    say: Say = print,
    listed: Sequence[LogFile] = (),
) -> list[LinesRead]:
    """Reads the recordings' logs into the warehouse; what it holds of them already stays.

    ``listed``: their files, where they were looked for already. Raises UserError where a recording
    cannot be read as one, IngestError where line accounting does not balance, WriteConflictError.
    """
    warehouse = engine.warehouse
    files = {file: on_disk(file) for file in listed or find_log_files(*recordings)}
    # Files of epochs after ``done`` are what a killed run has committed.
    names = [recording.name for recording in recordings]
    done = warehouse.epochs(IngestedFiles, STEP.name, names)  # first, or rows may be older
    ingested = warehouse.rows(IngestedFiles, names).to_pylist()
    return _Ingest(recordings, engine, settings, say, files, ingested, done).run()


@dataclass(frozen=True)
class _Ingest:
    """One ingest: what it was given, its files as they are on disk, and what is read already."""

    recordings: Sequence[Recording]
    engine: Engine
    settings: IngestSettings
    say: Say
    files: Mapping[LogFile, OnDisk]
    ingested: Rows
    done: Mapping[str, int]

    def run(self) -> list[LinesRead]:
        unchanged = self._unchanged()
        surveys = self._surveyed([file for file in self.files if file not in unchanged])
        for recording in self.recordings:
            self._check(recording, [s for s in surveys if s.file.recording == recording.name])
        for warning in warnings_of(surveys, self.ingested):
            self.say(f"warning: {warning}")
        noted = {(*file_key(row), row["content_hash"]) for row in self.ingested}
        fresh = [s for s in surveys if not s.is_known or _is_noted_anew(s, noted)]
        known = Counter(f.recording for f in (*unchanged, *(s.file for s in surveys if s.is_known)))
        for recording in self.recordings:
            mine = [s for s in surveys if s.file.recording == recording.name]
            self._announce(recording, mine, known[recording.name])
        counts, parsed = self._ingest_files(fresh) if fresh else ({}, [])
        done = {n: epoch for n, epoch in self.done.items() if n not in _names(fresh)}
        _complete(self.engine.warehouse, done)
        read = []
        for recording in self.recordings:
            new = [s for s in surveys if s.file.recording == recording.name and not s.is_known]
            lines = LinesRead(
                **vars(sum((counts[file_of(s.file)] for s in new), Counts())),
                recording=recording.name,
                files_read=len(new),
                files_known=known[recording.name],
                bytes_read=sum(s.bytes_read for s in new),
                unread=tuple(unread_lines(parsed, recording.name)),
            )
            self.say(
                f"ingest {lines.recording}: lines read {lines.lines:,} = requests "
                f"{lines.requests:,} + other {lines.other:,} + rejected {lines.rejected:,} + "
                f"repeated {lines.repeated:,}"
            )
            read.append(lines)
        return read

    def _unchanged(self) -> set[LogFile]:
        """Finds files that are as they were when they were read, which are not opened again.

        Whatever they are called by now; but for empty ones, which may be all that a node has.
        """
        as_read = {
            (r["recording"], r["node_id"], r["disk_bytes"], r["modified_at"])
            for r in self.ingested
            if r["disk_bytes"]
        }
        return {f for f, disk in self.files.items() if (f.recording, f.node_id, *disk) in as_read}

    def _check(self, recording: Recording, surveys: Sequence[Survey]) -> None:
        """Raises UserError where a recording's files do not look like one whole recording."""
        ingested = [row for row in self.ingested if row["recording"] == recording.name]
        gap_minutes_max, final = self.settings.node_gap_minutes_max, self.settings.final
        for text in refusals(recording, surveys, gap_minutes_max, ingested, final):
            raise UserError(text)

    def _surveyed(self, files: Sequence[LogFile]) -> list[Survey]:
        """Surveys each file, in their order: on the driver's cores, or on all where large."""
        known = contents_read(self.ingested)
        survey_file = partial(survey, settings=self.settings, known=known)
        total = sum(self.files[file].bytes for file in files)
        progress.stage("survey", total, "B")
        if total > self.settings.survey_on_driver_bytes_max:
            return self.engine.run(survey_file, files)
        # Hashing, inflating and reading let other threads run.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            surveys = []
            for file, surveyed in zip(files, pool.map(survey_file, files), strict=True):
                surveys.append(surveyed)
                progress.done(self.files[file].bytes)
            return surveys

    def _announce(self, recording: Recording, surveys: Sequence[Survey], known: int) -> None:
        new = [s for s in surveys if not s.is_known]
        parts = []
        if new:
            size = sum(s.bytes_read for s in new) / 1e6
            lines = sum(s.lines for s in new)
            parts.append(f"{_number(len(new), 'file')}, {size:,.1f} MB, {_number(lines, 'line')}")
        if known:
            parts.append(f"{_number(known, 'file')} known already")
        for note in ("; ".join(parts), *notes_of(surveys)):
            self.say(f"ingest {recording.name}: {note}")

    # --- parse, drop what is repeated, commit

    def _ingest_files(
        self, surveys: Sequence[Survey]
    ) -> tuple[dict[FileKey, Counts], list[Parsed]]:
        """Ingests files; returns what became of their lines, and what tasks have parsed."""
        warehouse = self.engine.warehouse
        done = {name: self.done[name] for name in _names(surveys)}
        writing = warehouse.writing(STEP.name, done, LOG_TABLES)
        tasks = self._tasks([survey for survey in surveys if not survey.is_known], writing.files())
        progress.stage("read logs")
        progress.running(", ".join(done))
        parsed = self.engine.run(parse_task, tasks)
        undecided = {file_of(s.file) for s in surveys if not s.fold_is_known}
        stepping = {file for file, t in _times(parsed).items() if t.is_stepping} - undecided
        strays = stray_stamps(self.engine, _data_files(parsed), stepping)
        sounder = rejecting(tasks, strays, _unsound(parsed))
        again = {task.task: task for task in self.engine.run(parse_task, sounder)}
        parsed = [again.get(task.task, task) for task in parsed]
        counts = balanced(surveys, [task.counts for task in parsed])
        spans = overlaps(
            [*(task.spans for task in parsed), _earlier_spans(warehouse, surveys, done)],
            _slack_us(surveys, self.ingested),
        )
        senders = sum((task.senders for task in parsed), Counter())
        self._check_parsed(parsed, counts, senders)
        if spans or any(count.rejected for count in counts.values()):
            numbered = {task.number: task for task in (*tasks, *sounder)}
            parsed = without_repeated(self.engine, numbered, parsed, spans, done)
            counts = balanced(surveys, [task.counts for task in parsed])
        added = _ingested_files(writing, surveys, self.files, counts, _times(parsed))
        _commit(writing, _data_files(parsed), added, done)
        for text in (text for r in self.recordings for text in zookeeper(r.name, senders)):
            self.say(f"warning: {text}")
        if newer := sum((task.newer_versions for task in parsed), Counter()):
            self.say(f"warning: {newer_versions_warning(newer)}")
        return counts, parsed

    def _check_parsed(
        self, parsed: Sequence[Parsed], counts: Mapping[FileKey, Counts], senders: Senders
    ) -> None:
        """Raises UserError, with what was written deleted, for another node's log or no request."""
        wrong = [text for r in self.recordings for text in wrong_logs(r, senders)]
        known = {row["recording"] for row in self.ingested if row["requests"]}
        wrong += unreadable(parsed, counts, known)
        if wrong:
            for file in _data_files(parsed):
                path = f"{self.engine.warehouse.path}/{file.table}/{file.path}"
                filesystem, place = filesystem_of(path)
                filesystem.delete_file(place)
            raise UserError(wrong[0])

    def _tasks(self, surveys: Sequence[Survey], files: TableFiles) -> list[ParseTask]:
        settings, total = self.settings, sum(s.bytes_read for s in surveys)
        # Spark, which knows how many cores a cluster has, is not started for what one core can do.
        cores = 1 if total <= min(_TASK_BYTES_MIN, settings.task_bytes_max) else self.engine.cores
        ranges = [part for s in surveys for part in _ranges(s, cores, settings.range_bytes)]
        wanted = min(cores * _TASKS_PER_CORE, ceil(total / _TASK_BYTES_MIN))
        count = max(1, wanted, ceil(total / settings.task_bytes_max))
        return tasks_of(ranges, count, files, settings.line_bytes_max)


def _is_noted_anew(survey: Survey, noted: Collection[tuple[object, ...]]) -> bool:
    """Returns whether a file was read under another name, or before it was compressed."""
    is_new = (*file_of(survey.file), survey.content_hash) not in noted
    return is_new and survey.is_known and _is_read_whole(survey) and survey.end > 0


def _is_read_whole(survey: Survey) -> bool:
    """Returns whether nothing is left in a file to be read or noted."""
    is_whole = not survey.left_bytes and survey.damage is None and not survey.framing.is_part
    return is_whole and survey.fold_is_known


def _data_files(parsed: Iterable[Parsed]) -> list[DataFile]:
    return [file for task in parsed for file in task.files]


def _unsound(parsed: Sequence[Parsed]) -> dict[FileKey, int]:
    """Finds the lines from which on damaged files hold what was not in them."""
    lines: dict[FileKey, int] = {}
    for file, line in (item for task in parsed for item in task.unsound.items()):
        lines[file] = min(line, lines.get(file, line))
    return lines


def _complete(warehouse: Warehouse, done: Mapping[str, int]) -> None:
    """Makes the last write of runs that were killed right before it."""
    lineage = warehouse.lineage(done)
    killed = {n: epoch for n, epoch in done.items() if epoch and (n, STEP.name) not in lineage}
    if killed:
        _commit(warehouse.writing(STEP.name, killed, LOG_TABLES), [], [], killed)


def _names(surveys: Sequence[Survey]) -> list[str]:
    return list(dict.fromkeys(s.file.recording for s in surveys))


def _ranges(of_file: Survey, cores: int, range_bytes: int) -> Sequence[ParsedRange]:
    """Cuts a file into ranges.

    To read a part of a gzip stream one has to inflate all before it, which pays only as long as
    cores are idle otherwise.
    """
    part_bytes = ceil(of_file.bytes_read / cores) + range_bytes
    return joined(of_file.ranges, part_bytes) if of_file.is_compressed else of_file.ranges


def _earlier_spans(
    warehouse: Warehouse, surveys: Sequence[Survey], done: Mapping[str, int]
) -> dict[NodeKey, list[Span]]:
    """Reads, by file, when the requests were completed that the warehouse has of these nodes."""
    nodes = {(s.file.recording, s.file.node_id) for s in surveys}
    spans: dict[NodeKey, list[Span]] = {}
    for file in kept_files(warehouse, Requests, done):
        if (span := span_of(file)) is None:
            continue
        for recording, node_id in nodes:
            is_of_node = file["min.node_id"] <= node_id <= file["max.node_id"]
            if recording == file["partition.recording"] and is_of_node:
                spans.setdefault((recording, node_id), []).append(span)
    return spans


def _slack_us(surveys: Sequence[Survey], ingested: Rows) -> dict[NodeKey, int]:
    """Returns by how much the time of a line can differ from that of its copy, by node."""
    slack: dict[NodeKey, int] = {}
    zones: dict[NodeKey, set[str]] = defaultdict(set)
    for row in (*ingested, *(vars(s.file) for s in surveys)):
        zones[row["recording"], row["node_id"]].add(row["timezone"])
    for of_file in surveys:
        node = (of_file.file.recording, of_file.file.node_id)
        has_passes = of_file.second_pass_line is not None or not of_file.fold_is_known
        slack[node] = max(slack.get(node, 0), _SLACK_US * (has_passes or len(zones[node]) > 1))
    return slack


def _commit(
    writing: Writing,
    files: Sequence[DataFile],
    ingested: Sequence[DataFile],
    done: Mapping[str, int],
) -> None:
    """Commits all tables, ``requests`` after what hangs on a request, ``ingested_files`` last."""
    writing.begin({IngestedFiles: done})
    typed = [t for t in LOG_TABLES if t not in (Requests, IngestedFiles)]
    for table in (*typed, Requests):
        writing.append(table, files, done)
    writing.append(IngestedFiles, ingested, done)
    readings = readings_of(writing.warehouse, done)
    writing.end({name: fingerprint(contents_of(rows)) for name, rows in readings.items()})


def _times(parsed: Iterable[Parsed]) -> dict[FileKey, Times]:
    whole: dict[FileKey, Times] = {}
    for task in parsed:
        for file, times in task.times.items():
            whole[file] = whole.get(file, Times()).with_other(times)
    return whole


def _ingested_files(
    writing: Writing,
    surveys: Sequence[Survey],
    files_on_disk: Mapping[LogFile, OnDisk],
    counts: Mapping[FileKey, Counts],
    times: Mapping[FileKey, Times],
) -> list[DataFile]:
    rows = []
    for s in surveys:
        count, time = counts[file_of(s.file)], times.get(file_of(s.file), Times())
        disk = files_on_disk[s.file] if _is_read_whole(s) else None
        # What of these is a column goes by its name.
        row = {**vars(s.file), **vars(s), **vars(count)} | {
            "bytes_read": s.bytes_read,
            "lines_read": count.lines,
            "ingest_epoch": writing.epochs[s.file.recording],
            "first_received_at": time.first_received_us,
            "last_completed_at": time.last_completed_us,
            "first_event_at": time.first_event_us,
            "disk_bytes": disk.bytes if disk else None,
            "modified_at": disk.modified_at if disk else None,
        }
        rows.append(row)
    files = writing.files()
    files.write(IngestedFiles, pa.RecordBatch.from_pylist(rows, IngestedFiles.arrow_schema))
    return files.closed()


# --- messages


def newer_versions_warning(newer: Mapping[tuple[int, int], int]) -> str:
    """Makes the sentence about versions that the message schemas do not know."""
    versions = ", ".join(
        f"API key {key} version {version} ({_number(count, 'request')})"
        for (key, version), count in sorted(newer.items())
    )
    return (
        f"newer than the message schemas, so fields they add are not read and bytes on the wire "
        f"are null: {versions}"
    )


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
