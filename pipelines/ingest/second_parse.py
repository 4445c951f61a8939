"""Parses once more what has lines that become no rows: stray ones, and those read before.

Kafka stamps a request when its response has been sent, so stamps rise from line to line, but for
moments between threads; where clocks are set or files were put together they step once, and stay.
A line whose stamp is more than a minute from those before and after it, which are not, was altered,
and would stretch a recording by years: it is rejected. All others stay, among them the first and
the last that a run reads of a file, those beside a gap, and files that do not show which pass of an
hour that occurs twice they are of.

Copies of a line have one time. So only where spans of time overlap, which mostly they do at their
ends alone, are lines looked at: texts compare their ids, in this run and with what the warehouse
holds, and tasks that have repeated lines parse once more without them.
Of copies in one run the least (source_file, line_number) stays; one that an earlier run kept stays.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pyarrow as pa

from kip_replay.pipelines.engines import Engine, Feed, Inputs, ParquetFiles
from kip_replay.pipelines.engines.text import Text, bound
from kip_replay.pipelines.ingest.line_accounting import STEP_US, FileKey, NodeKey, file_of
from kip_replay.pipelines.ingest.parse_task import Parsed, ParseTask, Span, hull, parse_task
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import DataFile, microseconds, moment
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import RejectedLines, Requests
from kip_replay.replay.table import INT, LONG, TEXT, Table

_STRAYS_QUERY = """
WITH lines AS (
    SELECT node_id, source_file, line_number, unix_micros(completed_at) AS at_us,
        lag(unix_micros(completed_at)) OVER of_file AS before_us,
        lead(unix_micros(completed_at)) OVER of_file AS after_us
    FROM requests
    WINDOW of_file AS (PARTITION BY node_id, source_file ORDER BY line_number, completed_at)
)
SELECT * FROM lines WHERE abs(after_us - before_us) <= $step_us
    AND abs(at_us - before_us) > $step_us AND abs(at_us - after_us) > $step_us
"""
_STRAYS = Text(bound(_STRAYS_QUERY, {"step_us": STEP_US}))
#: By file: numbers of lines, and what is wrong with their stamps.
Strays = Mapping[FileKey, Mapping[int, str]]


def stray_stamps(
    engine: Engine, written: Sequence[DataFile], stepping: Collection[FileKey]
) -> Strays:
    """Finds stray lines in files whose stamps step. ``written``: the Parquet files of the run."""
    strays: dict[FileKey, dict[int, str]] = {}
    schema = Requests.without(*Requests.partitioned_by)
    for recording in sorted({recording for recording, _, _ in stepping}):
        mine = [f for f in written if (f.table, f.recording) == (Requests.name, recording)]
        paths = [f"{engine.warehouse.uri_of(Requests)}/{file.path}" for file in mine]
        files = ParquetFiles(paths, schema, sum(file.size_bytes for file in mine))
        rows = engine.rows(_STRAYS, [], {Requests.name: files})
        for row in rows.sort_by([("line_number", "ascending")]).to_pylist():
            file = recording, row["node_id"], row["source_file"]
            if file in stepping:
                times = (moment(row[name]) for name in ("at_us", "before_us", "after_us"))
                why = "{:%F %T} is between {:%F %T} and {:%F %T} UTC".format(*times)
                strays.setdefault(file, {})[row["line_number"]] = why
    return strays


def rejecting(
    tasks: Sequence[ParseTask], strays: Strays, unsound: Mapping[FileKey, int]
) -> list[ParseTask]:
    """Makes tasks that read stray lines reject them, and all behind ``unsound`` ones."""
    again = []
    for task in tasks:
        ranges = tuple(
            replace(part, strays=tuple(strays.get(file, {}).items()), sound_until=unsound.get(file))
            for part in task.ranges
            for file in [file_of(part.file)]
        )
        if ranges != task.ranges:
            # What the task has written is not written again.
            again.append(replace(task, ranges=ranges, files=replace(task.files)))
    return again


# --- lines that were read before


def overlaps(
    readings: Sequence[Mapping[NodeKey, Sequence[Span]]], slack_us: Mapping[NodeKey, int]
) -> dict[NodeKey, list[Span]]:
    """Finds the spans in which lines of a node may have been read twice, none for most nodes.

    No reading has a line twice: what a task has read, or what the warehouse holds. ``slack_us``: by
    how much the times of two readings of one line can differ.
    """
    shared: dict[NodeKey, list[Span]] = {}
    for node in dict.fromkeys(node for reading in readings for node in reading):
        slack = slack_us.get(node, 0)
        whole = [hull(reading[node]) for reading in readings if node in reading]
        for span, other in combinations(whole, 2):
            last_begin, first_end = max(span[0], other[0]), min(span[1], other[1])
            if last_begin <= first_end + slack:
                both = sorted((last_begin, first_end))
                shared.setdefault(node, []).append((both[0] - slack, both[1] + slack))
    return shared


def without_repeated(
    engine: Engine,
    tasks: Mapping[int, ParseTask],
    parsed: Sequence[Parsed],
    spans: Mapping[NodeKey, Sequence[Span]],
    done: Mapping[str, int],
) -> list[Parsed]:
    """Has tasks that have repeated lines parse without them; returns what all tasks have parsed.

    ``spans``: where requests of a node can be repeated; rejected lines, which have no time, can be
    anywhere.
    """
    copies = Text.read(Path(__file__).with_name("repeated_lines.sql"))
    whole = {task.task: task for task in parsed}
    for recording in sorted({file.recording for task in parsed for file in task.files}):
        inputs = _inputs(engine.warehouse, recording, parsed, spans, done)
        mine = {
            number: replace(task, ranges=ranges, files=replace(task.files))
            for number, task in tasks.items()
            if (ranges := tuple(r for r in task.ranges if r.file.recording == recording))
        }
        parse = partial(_parse_again, mine)
        feed = Feed(work=parse, text=copies, recordings=[], key=["task"], inputs=inputs)
        for again in chain(*engine.feed(feed)):
            before = whole[again.task]
            others = [file for file in before.files if file.recording != recording]
            counts = before.counts | again.counts
            whole[again.task] = replace(before, files=others + again.files, counts=counts)
    return [*whole.values()]


def _parse_again(tasks: Mapping[int, ParseTask], batches: Iterator[pa.RecordBatch]) -> list[Parsed]:
    """Parses each task that has repeated lines, with what the text has of it."""
    repeated: dict[int, set[str]] = {}
    for number, line_id in (row.values() for batch in batches for row in batch.to_pylist()):
        repeated.setdefault(number, set()).add(line_id)
    return [parse_task(replace(tasks[n], repeated=frozenset(ids))) for n, ids in repeated.items()]


def kept_files(
    warehouse: Warehouse, table: Table, done: Mapping[str, int]
) -> list[Mapping[str, Any]]:
    """The table's files but for those that a killed run has left: of epochs after ``done``."""
    return [
        file
        for file in warehouse.files(table, done)
        if not commits.of_epochs_after([file], done[file["partition.recording"]])
    ]


def _inputs(
    warehouse: Warehouse,
    recording: str,
    parsed: Sequence[Parsed],
    spans: Mapping[NodeKey, Sequence[Span]],
    done: Mapping[str, int],
) -> Inputs:
    """Returns the tables of the texts: files of this run and of earlier ones, and the spans."""
    here = [(f, task.task) for task in parsed for f in task.files if f.recording == recording]
    within = [span for (name, _), own in spans.items() if name == recording for span in own]
    inputs: dict[str, pa.Table | ParquetFiles] = {}
    for table in (Requests, RejectedLines):
        schema, uri = table.without(*table.partitioned_by), warehouse.uri_of(table)
        kept = kept_files(warehouse, table, {recording: done[recording]})
        if table is Requests:
            kept = [file for file in kept if _meets(file, within)]
        mine = [vars(file) for file, _ in here if file.table == table.name]
        for age, of_age in (("new", mine), ("kept", kept)):
            paths = [f"{uri}/{file['path']}" for file in of_age]
            size = sum(file["size_bytes"] for file in of_age)
            inputs[f"{age}_{table.name}"] = ParquetFiles(paths, schema, size)
    of_nodes = [
        {"node_id": node_id, "first_us": first_us, "last_us": last_us}
        for (name, node_id), of_node in spans.items()
        if name == recording
        for first_us, last_us in of_node
    ]
    tasks = [{"file": file.path.rpartition("/")[2], "task": task} for file, task in here]
    of_spans = pa.schema({"node_id": INT, "first_us": LONG, "last_us": LONG})
    of_tasks = pa.schema({"file": TEXT, "task": INT})
    return inputs | {
        "spans": pa.Table.from_pylist(of_nodes, of_spans),
        "tasks": pa.Table.from_pylist(tasks, of_tasks),
    }


def span_of(file: Mapping[str, Any]) -> Span | None:
    """Reads the span of a file's completions; None where Delta's log does not have it."""
    first, last = file.get("min.completed_at"), file.get("max.completed_at")
    return None if first is None or last is None else (microseconds(first), microseconds(last))


def _meets(file: Mapping[str, Any], spans: Sequence[Span]) -> bool:
    """Returns whether a file of requests can have a line completed within one of the spans."""
    if (of_file := span_of(file)) is None:
        return True
    # Delta states times to the millisecond: those after the last one may be in the file.
    from_us, until_us = of_file[0], of_file[1] + 1000
    return any(from_us <= last_us and first_us <= until_us for first_us, last_us in spans)
