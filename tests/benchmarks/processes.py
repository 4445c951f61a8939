"""Runs a command in a process of its own and watches what it and all its children use."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from recorded_logs import REPOSITORY

from .contenders import use_cores
from .memory import Used, Watch


class Run(NamedTuple):
    """One run: its status, what it printed and after how many seconds, how long it took in all."""

    status: int
    printed: list[tuple[float, str]]
    process_s: float
    used: Used


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
    )
    watch = Watch(process.pid)
    assert process.stdout is not None
    printed = [(time.perf_counter() - begin, line.rstrip("\n")) for line in process.stdout]
    status = process.wait()
    return Run(status, printed, time.perf_counter() - begin, watch.ended())
