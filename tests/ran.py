"""A command as a process; work that ends between two commits; folders that all workers read."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.tables import Warehouse


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Returns a folder of this run of pytest, which the first that asks for it fills."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    made = folder.with_suffix(".made")
    with FileLock(folder.with_suffix(".lock")):
        if not made.exists():
            make(folder)
            made.touch()
    return folder


def warehouse_of(factory: pytest.TempPathFactory, name: str, *places: Path) -> Warehouse:
    """All recordings of folders, from raw logs to report.html, by the local engine; made once."""
    from kip_replay.jobs import run  # takes a second

    def make(folder: Path) -> None:
        recordings = sorted(str(path) for place in places for path in place.iterdir())
        assert run.main([*recordings, "--warehouse", str(folder), "--engine=local", "--quiet"]) == 0

    return Warehouse(made_once(factory, name, make))


def ran(
    *command: object, cwd: Path | None = None, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What it printed, and its status, in this environment and more."""
    words, variables = [*map(str, command)], os.environ | environment
    pipes = {"capture_output": True, "text": True}
    return subprocess.run(words, cwd=cwd, env=variables, check=check, **pipes)


class Killed(BaseException):
    """What no handler takes for an error."""


def killed() -> None:
    raise Killed


@contextmanager
def at_commit(number: int, happens: Callable[[], object]) -> Iterator[None]:
    """Something happens before the commit of this number, from 0, and only once."""
    numbers, commit = count(), commits.commit

    def counted(*args: Any, **kwargs: Any) -> None:
        if next(numbers) == number:
            happens()
        commit(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "commit", counted)
        yield


def is_killed(number: int, work: Callable[[], Any]) -> bool:
    """Runs ``work`` until the commit with this number, from 1; whether it came to that."""
    try:
        with at_commit(number - 1, killed):
            work()
    except Killed:
        return True
    return False
