"""One key that has all the traffic, through Spark: does a Python worker hold its state or its log?

A replay key is one task, however much of the log it has. Events are generated, written to Parquet
and fed through the seam from there, once and four times as many of the same kind. The
rule's state is the same in both, so the worker's memory has to be.

    python -m benchmarks.skew CASE TIMES FOLDER     one run, the last line it prints is JSON
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from recorded_logs import REPOSITORY

from kip_replay.replay.incremental_fetch.registration import RULE as INCREMENTAL_FETCH
from kip_replay.replay.min_isr_acks.registration import RULE as MIN_ISR_ACKS
from kip_replay.replay.rule import Rule, Settings

from . import inputs
from .kip_227 import NODE_ID, Example
from .memory import Used, Watch

RECORDING = "skew"
TIMES = (1, 4)


class Case(NamedTuple):
    """A skewed input: ``batches`` of it, as many times as said."""

    what: str
    rule: Rule
    batches: Callable[[int], Iterable[pa.RecordBatch]]


class Skew(NamedTuple):
    """One case at one size. ``event_bytes`` is what the events take in Arrow."""

    what: str
    rule: str
    times: int
    events: int
    event_bytes: int
    seconds: float
    used: Used


class SkewError(RuntimeError):
    """A run failed; the message ends with what it printed."""


def _session(partitions: int, active: int, rounds: int, sessions: bool) -> Iterable[pa.RecordBatch]:
    example = Example(partitions, active, rounds, sessions, followers=1, consumers=0)
    fetches = inputs.fetches_of(example)
    return [*fetches.first, *fetches.then]


CASES = {
    "session": Case(
        "one session of 100,000 partitions, 1 % active",
        INCREMENTAL_FETCH,
        lambda times: _session(100_000, 1_000, 100 * times, sessions=True),
    ),
    "full": Case(
        "one client, full FETCHes of 5,000 partitions",
        INCREMENTAL_FETCH,
        lambda times: _session(5_000, 50, 40 * times, sessions=False),
    ),
    "partition": Case(
        "one partition",
        MIN_ISR_ACKS,
        lambda times: inputs.produces(1, 10_000 * times),
    ),
    "leader": Case(
        "one leader of 500 partitions",
        MIN_ISR_ACKS,
        lambda times: inputs.produces(500, 200 * times),
    ),
}


def skews(folder: Path, quick: bool) -> list[Skew]:
    """All cases (a quick run: the first), at 1 and 4 times."""
    names = list(CASES)[:1] if quick else CASES
    return [_run(name, times, folder / "skew") for name in names for times in TIMES]


def _run(name: str, times: int, folder: Path) -> Skew:
    folder.mkdir()
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests")])
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.skew", name, str(times), str(folder)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watch = Watch(process.pid)
    printed, complaints = process.communicate()
    used = watch.ended()
    shutil.rmtree(folder)
    if process.returncode:
        raise SkewError(f"{name} failed: {complaints[-2000:]}")
    case = CASES[name]
    return Skew(case.what, case.rule.name, times, **json.loads(printed.splitlines()[-1]), used=used)


def _write(path: Path, case: Case, times: int) -> tuple[int, int]:
    """Events with their key, in small row groups; how many, and their bytes in Arrow."""
    key = {"recording": pa.scalar(RECORDING), "node_id": pa.scalar(NODE_ID, pa.int32())}
    events = event_bytes = 0
    schema = case.rule.input_schema
    for name in case.rule.key:
        schema = schema.append(pa.field(name, key[name].type))
    with pq.ParquetWriter(path, schema) as writer:
        for batch in case.batches(times):
            keys = [pa.repeat(key[name], batch.num_rows) for name in case.rule.key]
            whole = pa.RecordBatch.from_arrays([*batch.columns, *keys], schema=schema)
            writer.write_batch(whole, row_group_size=1000)
            events += batch.num_rows
            event_bytes += batch.nbytes
    return events, event_bytes


def main() -> None:
    """One run."""
    from kip_replay.pipelines.replaying.seam import replayed
    from kip_replay.pipelines.session import spark_session
    from kip_replay.pipelines.warehouse.data_files import TableFiles

    name, times, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    case = CASES[name]
    path = folder / "events.parquet"
    events, event_bytes = _write(path, case, times)
    conf = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2}
    spark = spark_session("skew", warehouse=folder, conf_overrides=conf)
    rows = spark.read.parquet(str(path))
    settings = Settings(voters={RECORDING: (1, 2, 3)})
    begin = time.perf_counter()
    replayed(case.rule, settings, rows, TableFiles(str(folder / "warehouse"), "part"))
    seconds = time.perf_counter() - begin
    told = {"events": events, "event_bytes": event_bytes, "seconds": seconds}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
