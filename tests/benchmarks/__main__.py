"""Measure everything and print docs/performance.md; ``--quick`` in less than two minutes."""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from recorded_logs import REPOSITORY, folder_of

from . import page, rules, whole_job
from .long_recording import write_recording
from .processes import run, use_cores
from .readers import READERS, Work, cores_of

PAGE = REPOSITORY / "docs" / "performance.md"
#: Recordings whose lines are read: of 1 KB, and of full FETCHes of many partitions.
READ = ("mixed-4.2", "sessions-off")


def main() -> int:
    """Run the benchmarks; all of them write the page."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs, one run each")
    parser.add_argument("--out", type=Path, help="the page (a quick run prints it unless said)")
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    size = (40 if quick else 200) * whole_job.MB

    cores = os.sched_getaffinity(0)
    use_cores(1)  # rules are measured in this process
    rates = rules.rates(1.0 if quick else 5.0)
    os.sched_setaffinity(0, cores)
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
        read = [_read(name, Path(folder), size, 1 if quick else 3) for name in READ]
        jobs = [*whole_job.whole_jobs(Path(folder), quick)]
    text = page.page(read, rates, jobs, quick)
    out = arguments.out or (None if quick else PAGE)
    if out is not None:
        out.write_text(text, encoding="utf-8")
    print(text)
    return 0


def _read(name: str, folder: Path, size: int, runs: int) -> page.Input:
    """All readers on one recording, in turns, so that a slow minute hits all of them."""
    recording, out = folder / name, folder / "out"
    log_bytes, lines = write_recording(recording, folder_of(name), size)
    found: dict[str, list[page.Read]] = {reader: [] for reader in READERS}
    for number in range(runs):
        for reader in READERS:
            done = run(
                ["-m", "benchmarks.readers", reader, str(recording), str(out)], cores_of(reader)
            )
            if done.status:
                raise RuntimeError(f"{reader} failed: {done.printed[-20:]}")
            one = page.Read(Work(**json.loads(done.printed[-1][1])), done)
            shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
            found[reader].append(one)
            print(f"{name} {number + 1}/{runs} {reader}: {one.work.seconds:.2f} s", file=sys.stderr)
    shutil.rmtree(recording)
    read = {(one.work.rows, one.work.total_us) for of in found.values() for one in of}
    if len(read) != 1 or {rows for rows, _ in read} != {lines}:
        raise RuntimeError(f"of {lines} lines, readers found (lines, total_us): {read}")
    return page.Input(name, log_bytes, lines, found)


if __name__ == "__main__":
    sys.exit(main())
