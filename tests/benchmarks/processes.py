"""Runs a contender in a process of its own and watches the memory of it and all its children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from .contenders import CORES, Work

_EVERY_S = 0.05


class Run(NamedTuple):
    """One run: the work, the whole process with its start, and the most memory it held at once."""

    work: Work
    process_s: float
    peak_bytes: int


class ContenderError(RuntimeError):
    """A contender failed; the message ends with what it printed."""


def run(name: str, log: Path, out: Path) -> Run:
    """Run a contender on the cores that it may use. Raises ``ContenderError``."""
    command = [sys.executable, "-m", "benchmarks.contenders", name, str(log), str(out)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "POLARS_MAX_THREADS": str(CORES),
    }
    begin = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=out.parent,
    )
    watch = _Watch(process.pid)
    printed, complaints = process.communicate()
    process_s = time.perf_counter() - begin
    peak = watch.ended()
    if process.returncode:
        raise ContenderError(f"{name} failed: {complaints[-2000:]}")
    return Run(Work(**json.loads(printed.splitlines()[-1])), process_s, peak)


class _Watch:
    """Adds up the resident memory of a process and its children every 50 ms.

    Pages that processes share count once for each (Python workers are forked): an upper bound.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ended(self) -> int:
        self._over.set()
        self._thread.join()
        return self._peak

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._peak = max(self._peak, sum(map(_resident_bytes, _tree(self._pid))))


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):  # gone meanwhile
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    tree = [root]
    for pid in tree:
        tree += children.get(pid, [])
    return tree


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
