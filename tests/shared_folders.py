"""Folders that one worker of pytest makes and all of them read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


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
