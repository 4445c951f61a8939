"""A week of a small cluster, hour by hour: does an hour's run grow with what is there already?

Each hour is a cut of a real recording once more, as its nodes' rotated files: a short
burst, then silence. After 1, 24 and 168 hours, the runs of the next two hours are measured as a
schedule starts them: ``kip-replay run --growing``, without and with checks of the tables. The hours
between are read and replayed some at once.

    PYTHONPATH=tests python -m benchmarks.growing_week > week.md
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from recorded_logs import REPOSITORY, folder_of

from .long_recording import Source
from .tables import table
from .whole_job import MB, SOURCE, WholeJob, run_job

HOUR_MS = 3_600_000
AFTER_HOURS = (1, 24, 168)
_WITHOUT_CHECKS = ("--set", "quality.in_run=false")


class Hour(NamedTuple):
    """The run of an hour: the job, the Spark jobs, and how long an empty loop took before it."""

    job: WholeJob
    spark_jobs: int
    loop_s: float


class Week:
    """A recording that grows by an hour at a time, and its warehouse."""

    def __init__(self, folder: Path, hour_bytes: int) -> None:
        self.recording, self.warehouse = folder / "week", folder / "warehouse"
        self._events = folder / "events"
        self._source = Source(folder_of(SOURCE))
        self._source.cut(0.5, hour_bytes)
        self.hours = self._bytes = self._lines = 0
        self.recording.mkdir()
        self._source.write_manifest(self.recording, ".*")

    def write_hour(self) -> None:
        paths = [self.recording / f"{log}.{self.hours:04}" for log in self._source.logs]
        written, lines = self._source.repeat(self.hours, self.hours * HOUR_MS, paths)
        self.hours += 1
        self._bytes += written
        self._lines += lines

    def catch_up(self, hours: int, at_once: int) -> None:
        """Reads and replays until so many hours are there."""
        while self.hours < hours:
            for _ in range(min(at_once, hours - self.hours)):
                self.write_hour()
            for job in ("ingest", "replay"):
                words = [str(self.recording), "--growing", "--warehouse", str(self.warehouse)]
                command = [sys.executable, "-m", f"kip_replay.jobs.{job}", *words]
                subprocess.run(command, cwd=REPOSITORY, stdout=sys.stderr, check=True)

    def run_hour(self, *options: str) -> Hour:
        self.write_hour()
        self._events.mkdir(exist_ok=True)
        logged = {"enabled": "true", "compress": "false", "dir": self._events.as_uri()}
        words = [f"--conf spark.eventLog.{key}={value}" for key, value in logged.items()]
        loop_s = _loop_s()
        job = run_job(
            f"{self.hours - 1} -> {self.hours}",
            self.recording,
            self.warehouse,
            (self._bytes, self._lines),
            ("--growing", *options),
            PYSPARK_SUBMIT_ARGS=" ".join([*words, "pyspark-shell"]),
        )
        return Hour(job, sum(_spark_jobs(self._events)), loop_s)


def _spark_jobs(folder: Path) -> Iterator[int]:
    """Jobs in Spark's event logs, which are removed."""
    for path in [*folder.rglob("*")]:
        if path.is_file():
            with path.open(errors="replace") as lines:
                yield sum(line.startswith('{"Event":"SparkListenerJobStart"') for line in lines)
            path.unlink()


def _loop_s() -> float:
    """Ten million turns of an empty loop: the machine's own drift."""
    begin = time.perf_counter()
    for _ in range(10_000_000):
        pass
    return time.perf_counter() - begin


def hours_of_a_week(
    folder: Path, after_hours: Sequence[int], hour_bytes: int, at_once: int
) -> Iterator[Hour]:
    """Runs without and with checks after so many hours."""
    week = Week(folder, hour_bytes)
    for hours in after_hours:
        week.catch_up(hours, at_once)
        yield week.run_hour(*_WITHOUT_CHECKS)
        yield week.run_hour()


def week_table(hours: Sequence[Hour]) -> Iterator[str]:
    """Lines of Markdown."""
    phases = list(dict.fromkeys(name for hour in hours for name in hour.job.phases_s))
    heads = ("hours", "log MB", "seconds", "CPU s", "Spark jobs", "loop s", "outside")
    yield from table(
        (*heads, *phases),
        "l" + "r" * (len(heads) - 1 + len(phases)),
        (
            (
                job.name,
                f"{job.log_bytes / MB:,.0f}",
                f"{job.process_s:.1f}",
                f"{job.used.cpu_s:.1f}",
                str(spark_jobs),
                f"{loop_s:.2f}",
                f"{job.outside_s:.1f}",
                *(f"{job.phases_s[name]:.1f}" if name in job.phases_s else "" for name in phases),
            )
            for job, spark_jobs, loop_s in hours
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.growing_week", description=__doc__)
    parser.add_argument("--after", type=int, nargs="+", default=AFTER_HOURS, help="hours")
    parser.add_argument("--mb", type=float, default=0.5, help="of log an hour")
    parser.add_argument("--at-once", type=int, default=24, help="hours of a run between")
    parser.add_argument("--folder", type=Path, help="where to leave recording and warehouse")
    given = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as name:
        folder = given.folder or Path(name)
        folder.mkdir(exist_ok=True)
        hours = [*hours_of_a_week(folder, given.after, round(given.mb * MB), given.at_once)]
    print("\n".join(week_table(hours)))


if __name__ == "__main__":
    main()
