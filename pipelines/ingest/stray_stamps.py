"""Rejects lines whose stamp is more than a minute from those before and after it, which are not.

Kafka stamps a request when its response has been sent, so stamps rise from line to line, but for
moments between threads; where clocks are set or files were put together they step once, and stay.
A line that is alone elsewhere was altered, and would stretch a recording by years. All others
stay, among them the first and the last that a run reads of a file, those beside a gap, and
files that do not show which pass of an hour that occurs twice they are of.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from kip_replay.pipelines.ingest.line_accounting import FileKey, file_of
from kip_replay.pipelines.ingest.parse_task import ParseTask
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.storage import filesystem_of
from kip_replay.pipelines.warehouse.data_files import DataFile
from kip_replay.replay.log_tables import REQUESTS

#: Not where one line of JSON holds many: they have no order there.
_STRAYS = """
SELECT node_id, source_file, line_number,
  strftime(make_timestamp(at_us), '%Y-%m-%d %H:%M:%S') || ' is between '
    || strftime(make_timestamp(before_us), '%Y-%m-%d %H:%M:%S') || ' and '
    || strftime(make_timestamp(after_us), '%Y-%m-%d %H:%M:%S') || ' UTC'
FROM (
  SELECT node_id, source_file, line_number, epoch_us(completed_at) AS at_us,
    lag(at_us) OVER of_file AS before_us, lead(at_us) OVER of_file AS after_us
  FROM requests
  WHERE (node_id, source_file) NOT IN (
    SELECT (node_id, source_file) FROM requests
    GROUP BY node_id, source_file HAVING count(DISTINCT line_number) < count(*))
  WINDOW of_file AS (PARTITION BY node_id, source_file ORDER BY line_number))
WHERE abs(after_us - before_us) <= 60000000
  AND abs(at_us - before_us) > 60000000 AND abs(at_us - after_us) > 60000000
ORDER BY node_id, source_file, line_number
"""
#: By file: numbers of lines, and what is wrong with their stamps.
Strays = Mapping[FileKey, Mapping[int, str]]


def stray_stamps(root: str, written: Sequence[DataFile], stepping: Collection[FileKey]) -> Strays:
    """Looks into files whose stamps step. ``written``: the Parquet files of the run in ``root``."""
    found: dict[FileKey, dict[int, str]] = {}
    for recording in sorted({recording for recording, _, _ in stepping}):
        places = [
            filesystem_of(f"{root}/{REQUESTS.name}/{file.path}")
            for file in written
            if (file.table, file.recording) == (REQUESTS.name, recording)
        ]
        mine = [(node_id, name) for of, node_id, name in stepping if of == recording]
        rows = ds.dataset([place for _, place in places], filesystem=places[0][0])
        chosen = ds.field("source_file").isin(pa.array([name for _, name in mine]))
        with duckdb.connect(config={"temp_directory": str(run_folder() / "duckdb")}) as database:
            database.register("requests", rows.filter(chosen))
            for node_id, name, line, why in database.sql(_STRAYS).fetchall():
                if (node_id, name) in mine:
                    found.setdefault((recording, node_id, name), {})[line] = why
    return found


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


def stray_warnings(strays: Strays, recording: str) -> list[str]:
    return [
        f"{name} of recording {recording!r} has stamps more than a minute from those before "
        f"and after, in {len(lines):,} of its lines, first in line {min(lines):,} "
        f"({lines[min(lines)]}): they are rejected"
        for (of, _, name), lines in sorted(strays.items())
        if of == recording
    ]
