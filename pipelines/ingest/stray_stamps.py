"""Finds lines whose stamps cannot be where they are: a digit was altered, or a line misplaced.

Kafka stamps a request when its response has been sent, so stamps rise from line to line, but for
moments between threads. They jump, and stay, where the log was off, where clocks change or where
files were put together. A *stray* stamp is alone out of place: outside of the span between the
medians of the five requests before and the five after it in its file, and further than steps there
are usual,

* by more than half an hour; or
* by more than 30 s ahead of both: time cannot run ahead for one line; or
* by more than 2 s, where the request before or after it on its connection contradicts it. A broker
  reads one request at a time from a connection (``SocketServer`` mutes it until the response is
  sent) and clients number what they send, so ids and stamps rise together. What came inside an
  ENVELOPE has the ids of other connections.

The first and the last line that a run reads of a file are stray if their connection contradicts
them, or has the next ids more than half an hour away, when it had long been closed
(``connections.max.idle.ms``, ten minutes). Without that they stay: so where a growing log is cut
can decide on a line at the cut. Files of less than six requests stay as they are, as do those that
do not show which pass of an hour that occurs twice they are of.

Tasks see whether stamps step at all (``line_accounting.has_step``). Only files where they do are
looked into, and tasks that have read stray lines parse once more.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from kip_replay.pipelines.ingest.line_accounting import FileKey, file_of
from kip_replay.pipelines.ingest.parse_task import ParseTask
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.storage import filesystem_of
from kip_replay.pipelines.warehouse.data_files import DataFile
from kip_replay.replay.log_tables import REQUESTS

_SQL = Path(__file__).with_suffix(".sql")
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
            for node_id, name, line, why in database.sql(_SQL.read_text()).fetchall():
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
        f"{name} of recording {recording!r} has stamps that cannot be where they are, in "
        f"{len(lines):,} of its lines, first in line {min(lines):,} ({lines[min(lines)]}): they "
        "are rejected, unless ingest.accept_stray_stamps is set"
        for (of, _, name), lines in sorted(strays.items())
        if of == recording
    ]
