"""Locks of files on a local or shared disk: they hold between threads and between processes.

A lock dies with its process, so there is never one to clear away: that its file stays says nothing.
"""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kip_replay.pipelines.errors import WriteConflictError

#: For so long a job waits for another that does the same: reading gigabytes takes minutes.
WAIT_S = 900.0
_SECONDS_BETWEEN_LOOKS = 0.2
#: Locks of jobs that this process holds: to wait for oneself would be for ever.
_held: set[Path] = set()


@contextmanager
def queued(path: Path) -> Iterator[None]:
    """Lets one at a time in, of all threads and processes; for what takes seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def one_job(path: Path, what: str, where: str, wait_s: float = WAIT_S) -> Iterator[None]:
    """Lets one job at a time do ``what`` to the warehouse ``where``; others wait, and say so.

    Raises WriteConflictError after ``wait_s``, or at once if this very process is at it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + wait_s
    has_waited = False
    with path.open("w") as file:
        while not _taken(file):
            if path in _held or time.monotonic() >= until:
                raise WriteConflictError(
                    f"another {what} into the warehouse {where} is running: wait until it is done "
                    "and run this one again"
                )
            if not has_waited:
                print(f"waiting for another {what} into the warehouse {where}", file=sys.stderr)
            has_waited = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)


def _taken(file: IO[str]) -> bool:
    """Takes the lock, unless another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
