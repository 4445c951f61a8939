"""Rejects lines whose stamp is more than a minute from those before and after it, which are not.

Kafka stamps a request when its response has been sent, so stamps rise from line to line, but for
moments between threads; where clocks are set or files were put together they step once, and stay.
A line that is alone elsewhere was altered, and would stretch a recording by years. All others
stay, among them the first and the last that a run reads of a file, those beside a gap, and
files that do not show which pass of an hour that occurs twice they are of.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kip_replay.pipelines.engines import Engine, ParquetFiles
from kip_replay.pipelines.engines.text import Text, bound
from kip_replay.pipelines.ingest.line_accounting import STEP_US, FileKey, file_of
from kip_replay.pipelines.ingest.parse_task import ParseTask
from kip_replay.pipelines.warehouse.data_files import DataFile, moment
from kip_replay.replay.log_tables import Requests

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
