"""Measure everything and print docs/performance.md; ``--quick`` in less than two minutes."""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from recorded_logs import REPOSITORY

from . import engines, page, real_lines, whole_job
from .contenders import CONTENDERS, Work, cores_of, use_cores
from .processes import run

PAGE = REPOSITORY / "docs" / "performance.md"
MB = whole_job.MB


def main() -> int:
    """Run the benchmarks named on the command line; all of them write the page."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs, one run each")
    parser.add_argument("--out", type=Path, help="the page (a quick run prints it unless said)")
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    size = (40 if quick else 200) * MB
    runs = 1 if quick else 3

    cores = os.sched_getaffinity(0)
    use_cores(1)  # rules are measured in this process
    rates = engines.rates(quick, 1.0 if quick else 5.0)
    _say("rules", "measured")
    os.sched_setaffinity(0, cores)
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
        read = [_read(shape, Path(folder), size, runs) for shape in real_lines.SHAPES]
        jobs = [*whole_job.whole_jobs(Path(folder), quick)]
    text = page.page(read, rates, jobs, quick)
    out = arguments.out or (None if quick else PAGE)
    if out is not None:
        out.write_text(text, encoding="utf-8")
    print(text)
    return 0


def _read(shape: str, folder: Path, size: int, runs: int) -> page.Input:
    """All contenders on one log, in turns, so that a slow minute hits all of them."""
    log = folder / f"{shape}.log"
    shapes = real_lines.templates(_recordings(), shape)
    lines = real_lines.write_log(log, shapes, size)
    found: dict[str, list[page.Read]] = {name: [] for name in CONTENDERS}
    for number in range(runs):
        for name in CONTENDERS:
            out = folder / "out"
            command = ["-m", "benchmarks.contenders", name, str(log), str(out)]
            done = run(command, cores_of(name))
            if done.status:
                raise RuntimeError(f"{name} failed: {done.printed[-20:]}")
            one = page.Read(Work(**json.loads(done.printed[-1][1])), done)
            shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
            found[name].append(one)
            _say(f"{shape} {number + 1}/{runs} {name}", f"{one.work.seconds:.2f} s")
    log_bytes = log.stat().st_size
    log.unlink()
    _check(lines, found)
    return page.Input(shape, log_bytes, lines, found)


def _check(lines: int, found: dict[str, list[page.Read]]) -> None:
    """Everybody read every line, and the same durations."""
    read = {(one.work.rows, one.work.total_us) for runs in found.values() for one in runs}
    if len(read) != 1 or {rows for rows, _ in read} != {lines}:
        raise RuntimeError(f"of {lines} lines, contenders read (lines, total_us): {read}")


def _recordings() -> list[Path]:
    places = (REPOSITORY / "data" / "samples", REPOSITORY / "tests" / "recordings")
    return sorted(folder for place in places for folder in place.iterdir() if folder.is_dir())


def _say(what: str, figure: str) -> None:
    print(f"{what}: {figure}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
