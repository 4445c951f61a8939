"""Runs a command in a process of its own and watches what it and all its children use.

Processes share libraries, so sums of resident memory say too much. Linux tells each process's share
of a page (PSS); the shares add up to what is really taken.
"""

import os
import re
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recorded_logs import REPOSITORY

#: Of the machine, for all that is measured.
CORES = 2
_EVERY_S = 0.25
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
_TICKS = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """What a session's processes have used and hold, ``at_s`` after its begin."""

    at_s: float
    cpu_s: float
    bytes: int = 0
    largest_bytes: int = 0


class Run(NamedTuple):
    """One run: its status, what it printed and after how many seconds, and what it took.

    ``cpu_s`` and ``peak_bytes`` (the most held at once) are of all its processes together,
    ``largest_bytes`` is the most that one of them held.
    """

    status: int
    printed: list[tuple[float, str]]
    process_s: float
    cpu_s: float
    peak_bytes: int
    largest_bytes: int
    samples: list[Sample]

    def cpu_until(self, at_s: float) -> float:
        """CPU seconds used until then, between samples in proportion to time."""
        after = bisect_left(self.samples, at_s, key=lambda sample: sample.at_s)
        if after == len(self.samples):
            return self.cpu_s
        before, later = self.samples[max(after - 1, 0)], self.samples[after]
        share = (at_s - before.at_s) / max(later.at_s - before.at_s, 1e-6)
        return before.cpu_s + min(max(share, 0.0), 1.0) * (later.cpu_s - before.cpu_s)


def run(
    arguments: Sequence[str],
    cores: int = CORES,
    path: Sequence[str] = (),
    limit_s: float | None = None,
    events: str = "",
) -> Run:
    """Runs Python with these arguments on so many cores.

    What lies in ``path`` is imported first; after ``limit_s`` it is killed, with its children.
    Spark's event log goes into the folder ``events``.
    """
    begin = time.perf_counter()
    settings = f"--conf spark.eventLog.enabled={str(bool(events)).lower()}"
    settings += f" --conf spark.eventLog.compress=false --conf spark.eventLog.dir=file://{events}"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell",
    }
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
        preexec_fn=lambda: use_cores(cores),
        start_new_session=True,  # by which its children are known
    )
    samples, is_over = [Sample(0.0, 0.0)], threading.Event()

    def watch() -> None:
        while not is_over.wait(_EVERY_S):
            used = [*_processes(process.pid)]
            if used:
                cpu_s, held = sum(cpu for cpu, _ in used), [pss for _, pss in used]
                at_s = time.perf_counter() - begin
                samples.append(Sample(at_s, max(cpu_s, samples[-1].cpu_s), sum(held), max(held)))
            if limit_s is not None and time.perf_counter() - begin > limit_s:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert process.stdout is not None
    printed = [(time.perf_counter() - begin, line.rstrip("\n")) for line in process.stdout]
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    is_over.set()
    thread.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = max(used.ru_utime + used.ru_stime, samples[-1].cpu_s)
    peak, largest = (max(column) for column in list(zip(*samples, strict=True))[2:])
    return Run(process.returncode, printed, seconds, cpu_s, peak, largest, samples)


def use_cores(count: int) -> None:
    """From now on this process, and what it starts, has so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def empty_loop_s() -> float:
    """Seconds of ten million turns of nothing: how fast, and how busy, the machine is."""
    begin = time.perf_counter()
    for _ in range(10_000_000):
        pass
    return time.perf_counter() - begin


def _processes(session: int) -> Iterator[tuple[float, int]]:
    """CPU seconds of a session's processes, with their ended children, and bytes that they hold."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if os.getsid(int(process.name)) == session:
                times = (process / "stat").read_text().rpartition(")")[2].split()[11:15]
                found = _PSS.search((process / "smaps_rollup").read_text())
                yield sum(map(int, times)) / _TICKS, int(found[1]) * 1024 if found else 0
