"""A command as a process, to its end; and work that ends between two commits."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kip_replay.pipelines.warehouse import commits


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
