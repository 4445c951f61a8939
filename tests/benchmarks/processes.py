"""Runs a contender in a process of its own and watches what it and all its children use."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from .contenders import Work
from .memory import Used, Watch


class Run(NamedTuple):
    """One run: the work, the seconds of the whole process with its start, and what it used."""

    work: Work
    process_s: float
    used: Used


def run(name: str, log: Path, out: Path) -> Run:
    """Run a contender on the cores that it may use. Raises RuntimeError with what it printed."""
    command = [sys.executable, "-m", "benchmarks.contenders", name, str(log), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    begin = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=out.parent,
    )
    watch = Watch(process.pid)
    printed, complaints = process.communicate()
    process_s = time.perf_counter() - begin
    used = watch.ended()
    if process.returncode:
        raise RuntimeError(f"{name} failed: {complaints[-2000:]}")
    return Run(Work(**json.loads(printed.splitlines()[-1])), process_s, used)
