"""Memory and processor time of a process and all its children, each page counted once.

Processes share libraries, so sums of resident memory say too much. Linux tells each process's share
of a page (PSS); the shares add up to what is really taken.
"""

import os
import re
import threading
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

_EVERY_S = 0.5
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


class Used(NamedTuple):
    """The most bytes held at once, and CPU seconds but for the last half one of a process."""

    peak_bytes: int
    cpu_s: float


class _Process(NamedTuple):
    pid: int
    parent: int
    cpu_ticks: int


class Watch:
    """Looks every half second, until ``ended``."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak_bytes = 0
        self._ticks: dict[int, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ended(self) -> Used:
        self._over.set()
        self._thread.join()
        return Used(self._peak_bytes, sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK"))

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            processes = _tree(self._pid)
            self._ticks |= {process.pid: process.cpu_ticks for process in processes}
            held_bytes = sum(_held_bytes(process.pid) for process in processes)
            self._peak_bytes = max(self._peak_bytes, held_bytes)


def _tree(root: int) -> list[_Process]:
    """A process and all that it started, directly or not."""
    children: defaultdict[int, list[_Process]] = defaultdict(list)
    found: list[_Process] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # gone meanwhile
            continue
        process = _Process(int(stat.parent.name), int(fields[1]), int(fields[11]) + int(fields[12]))
        children[process.parent].append(process)
        if process.pid == root:
            found.append(process)
    for process in found:
        found += children[process.pid]
    return found


def _held_bytes(pid: int) -> int:
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) * 1024 if found else 0
