"""The part of docs/performance.md that is about whole jobs; ``python -m benchmarks.whole_job_page``
prints it alone.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import skew, whole_job
from .skew import Skew
from .tables import table
from .whole_job import WholeJob

MB = whole_job.MB


def job_sections(
    growth: Sequence[WholeJob], starts: Sequence[WholeJob], skews: Sequence[Skew]
) -> Iterator[str]:
    """Lines of the page."""
    yield from (
        "## The whole job",
        "",
        "`kip-replay run` from raw lines to the report, on lines of the recording "
        f"{whole_job.SOURCE} gone through over and over with fresh stamps, offsets and ids, in a "
        "process of its own on two cores. *Python worker*: the largest of them. A page of memory "
        "that processes share is counted once. *CPU s* are of all processes together: beside a "
        "busy neighbour they say more than seconds.",
        "",
        *_growth(growth),
        "",
        "Seconds of each stage, and of each rule in *replay*:",
        "",
        *_stages(growth),
        "",
        f"{_claim(growth)}",
        "",
        "## Start-up",
        "",
        f"The same on {whole_job.START_MB} MB. *Cold*: Linux was asked to forget every file of "
        "Java, Spark and Python before. *Warm*: the same once more into another warehouse. "
        "*Again*: once more into the same, where nothing is left to do. *Outside*: the "
        "interpreter, imports, and the end of the JVM.",
        "",
        *_stages(starts),
        "",
        "## One key with all the traffic",
        "",
        "A replay key is one task. Generated events through Spark and the seam, and four times as "
        "many of the same kind: a worker whose memory stays holds the rule's state, one whose "
        "memory grows holds the log.",
        "",
        *_skews(skews),
    )


def _growth(runs: Sequence[WholeJob]) -> Iterator[str]:
    heads = ("log", "MB", "requests", "seconds", "CPU s", "MB/s", "requests/s")
    memory = ("peak MB", "of it Java", "Python worker")
    yield from table(
        (*heads, *memory),
        "lrrrrrrrrr",
        (
            (
                run.name,
                f"{run.log_bytes / MB:,.0f}",
                f"{run.requests:,}",
                f"{run.process_s:,.0f}",
                f"{run.used.cpu_s:,.0f}",
                f"{run.log_bytes / MB / run.process_s:.2f}",
                f"{run.requests / run.process_s:,.0f}",
                *(f"{held / MB:,.0f}" for held in run.used[:3]),
            )
            for run in runs
        ),
    )


def _stages(runs: Sequence[WholeJob]) -> Iterator[str]:
    phases = list(dict.fromkeys(name for run in runs for name in run.phases_s))
    rules = list(dict.fromkeys(name for run in runs for name in run.rules_s))
    yield from table(
        ("", "in all", "CPU s", "outside", *phases, *(f"`{rule}`" for rule in rules)),
        "l" + "r" * (3 + len(phases) + len(rules)),
        (
            (
                run.name,
                f"{run.process_s:.1f}",
                f"{run.used.cpu_s:.1f}",
                f"{run.outside_s:.1f}",
                *(_seconds(run.phases_s.get(name)) for name in phases),
                *(_seconds(run.rules_s.get(name)) for name in rules),
            )
            for run in runs
        ),
    )


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _claim(runs: Sequence[WholeJob]) -> str:
    """What of the runs is fixed and what grows, by the first and the last."""
    first, last = runs[0], runs[-1]
    log_mb = (last.log_bytes - first.log_bytes) / MB
    each_s = (last.process_s - first.process_s) / log_mb
    fixed_s = first.process_s - each_s * first.log_bytes / MB
    return (
        f"From {first.name} to {last.name}, each further MB takes {each_s:.2f} s "
        f"({1 / each_s:.1f} MB/s) beside {fixed_s:.0f} s that every run takes; memory is "
        f"{last.used.total_bytes / first.used.total_bytes:.2f} times as much for "
        f"{last.log_bytes / first.log_bytes:.0f} times the log."
    )


def _skews(skews: Sequence[Skew]) -> Iterator[str]:
    heads = ("rule", "all traffic in", "times", "events", "MB in Arrow", "seconds")
    yield from table(
        (*heads, "Python worker MB", "Java MB"),
        "llrrrrrr",
        (
            (
                f"`{one.rule}`",
                one.what,
                str(one.times),
                f"{one.events:,}",
                f"{one.event_bytes / MB:,.0f}",
                f"{one.seconds:.1f}",
                f"{one.used.worker_bytes / MB:,.0f}",
                f"{one.used.java_bytes / MB:,.0f}",
            )
            for one in skews
        ),
    )


def main() -> None:
    """Measure and print the part alone."""
    parser = argparse.ArgumentParser(prog="benchmarks.whole_job_page", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 4 times a log, one skew")
    quick: bool = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as name:
        folder = Path(name)
        growth, starts = whole_job.growth(folder, quick), whole_job.starts(folder)
        lines = job_sections(growth, starts, skew.skews(folder, quick))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
