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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recorded_logs import REPOSITORY

#: Of the machine, for all that is measured.
CORES = 2
_EVERY_S = 0.5
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


class Run(NamedTuple):
    """One run: its status, what it printed and after how many seconds, and what it took.

    ``cpu_s`` and ``peak_bytes`` (the most held at once) are of all its processes together.
    """

    status: int
    printed: list[tuple[float, str]]
    process_s: float
    cpu_s: float
    peak_bytes: int


def run(arguments: Sequence[str], cores: int) -> Run:
    """Runs Python with these arguments on so many cores; benchmarks can be imported."""
    path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
        preexec_fn=lambda: use_cores(cores),
        start_new_session=True,  # by which its children are known
    )
    held_bytes, is_over = [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(_EVERY_S):
            held_bytes.append(_held_bytes(process.pid))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert process.stdout is not None
    printed = [(time.perf_counter() - begin, line.rstrip("\n")) for line in process.stdout]
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    is_over.set()
    thread.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = used.ru_utime + used.ru_stime
    return Run(process.returncode, printed, seconds, cpu_s, max(held_bytes))


def use_cores(count: int) -> None:
    """From now on this process, and what it starts, has so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def _held_bytes(session: int) -> int:
    """Bytes that the processes of a session hold, those that ended meanwhile left out."""
    held = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if os.getsid(int(process.name)) == session:
                found = _PSS.search((process / "smaps_rollup").read_text())
                held += int(found[1]) * 1024 if found else 0
    return held
