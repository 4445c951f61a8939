"""A process that ends between two commits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from kip_replay.pipelines.warehouse import commits


class Killed(BaseException):
    """Stands for the end of the process."""


def is_killed(number: int, work: Callable[[], Any]) -> bool:
    """Runs ``work`` until the commit with this number; whether it came to that."""
    real, made = commits.commit, count(1)

    def guarded(*args: Any) -> None:
        if next(made) == number:
            raise Killed
        real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "commit", guarded)
        try:
            work()
        except Killed:
            return True
    return False
