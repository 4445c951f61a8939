"""docs/performance.md, printed from what was measured."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

from .processes import CORES, Run
from .readers import Work, cores_of
from .rules import Rate
from .whole_job import MB, SOURCE, WholeJob

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "msgspec", "duckdb")

_WORDS = {
    "duckdb_transform": "DuckDB, one `json_transform`: 17 columns to Parquet",
    "line_parser": "**ours**: `LineParser`, typed Arrow rows",
    "ingest": "**ours**: `kip-replay ingest`, all Delta tables",
}
OURS = "ingest"

_PAGE = """# Performance

Printed by `make bench`; figures are of one machine on one day, ratios travel better.{quick}

{machine}

## Reading logs

The same file on the same cores, each contender in a process of its own, {times} in turns; medians.
MB are 10^6 bytes of uncompressed log. What a contender wrote is read back: all have every line and
the same sum of `totalTimeMs`. *Spread* is the slowest run over the fastest: far from 1, something
else was running. *Start* (interpreter, imports, reading back) is not in MB/s.

Only ours reads bodies: partitions of FETCHes and PRODUCEs, sizes on the wire, a digest of each
line; `kip-replay ingest` also looks for lines read twice and writes Delta tables in transactions.
{reading}
## Replaying

Pure `replay/` on one core, Arrow batches in and out. Partition-states: what full FETCHes would
list. Simulated FETCHes: of both variants that are simulated. `min_isr_acks` is timed with its
sweep and with producers that react.

{rules}

## The whole job

`kip-replay run` from raw lines to the report, on lines of the recording {source} gone through over
and over with fresh stamps, offsets and ids, in a process of its own on two cores; *again*: once
more, where nothing is left to do. A page of memory that processes share is counted once. *CPU s*
are of all processes together: beside a busy neighbour they say more than seconds. *Outside*: the
interpreter and imports.

{jobs}

{claim}
"""


class Read(NamedTuple):
    """What a contender has done, and what that took."""

    work: Work
    run: Run


class Input(NamedTuple):
    """A log that contenders read, and their runs by name."""

    shape: str
    log_bytes: int
    lines: int
    runs: Mapping[str, Sequence[Read]]

    def rate(self, name: str) -> float:
        """MB of log a second, of the work alone: the median of the runs."""
        return self.log_bytes / MB / median(one.work.seconds for one in self.runs[name])


def page(
    read: Sequence[Input], rates: Sequence[Rate], jobs: Sequence[WholeJob], quick: bool
) -> str:
    runs = len(next(iter(read[0].runs.values())))
    return _PAGE.format(
        quick="\n\n**A quick run**: small inputs, few repetitions." if quick else "",
        machine=_machine(),
        times="once" if runs == 1 else f"{runs} times",
        reading="\n".join(line for log in read for line in _reading(log)),
        rules="\n".join(_rules(rates)),
        source=SOURCE,
        jobs="\n".join(_jobs(jobs)),
        claim=_claim(jobs),
    )


def table(heads: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a table; ``align`` has an ``l`` or an ``r`` for each column."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('--:' if a == 'r' else '---' for a in align)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _machine() -> str:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    java = re.search(r'version "([^"]+)"', printed.stderr)
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"Machine: {model[1] if model else platform.machine()}, {os.cpu_count()} cores of which "
        f"{CORES} are used, {memory:.0f} GB of memory, {platform.system()}; "
        f"Python {platform.python_version()}, Java {java[1] if java else 'unknown'}; {versions}."
    )


def _reading(log: Input) -> Iterator[str]:
    line_bytes = log.log_bytes / log.lines
    size = f"{log.log_bytes / MB:,.0f} MB, {log.lines:,} lines of {line_bytes:,.0f} bytes"
    yield f"\n**{log.shape}** lines: {size}.\n"
    rows = []
    for name, runs in log.runs.items():
        seconds = [one.work.seconds for one in runs]
        start_s = median(one.run.process_s - one.work.seconds for one in runs)
        peak_mb = max(one.run.peak_bytes for one in runs) / MB
        ratio = log.rate(OURS) / log.rate(name)
        figures = f"{log.rate(name):,.0f}", f"{max(seconds) / min(seconds):.2f}", f"{start_s:.1f}"
        rows.append(
            (_WORDS[name], str(cores_of(name)), *figures, f"{peak_mb:,.0f}", f"{ratio:.2f} x")
        )
    heads = ("", "cores", "MB/s", "spread", "start s", "peak MB", "`kip-replay ingest` is")
    yield from table(heads, "lrrrrrr", rows)
    yield ""


def _rules(rates: Sequence[Rate]) -> Iterator[str]:
    rows = ([f"`{rate.rule}`", *rate[1:3], *(f"{n:,.0f}" for n in rate[3:])] for rate in rates)
    yield from table(("rule", "input", "unit", "units", "units/s", "input rows/s"), "lllrrr", rows)


def _jobs(jobs: Sequence[WholeJob]) -> Iterator[str]:
    phases = list(dict.fromkeys(name for job in jobs for name in job.phases_s))
    rules = list(dict.fromkeys(name for job in jobs for name in job.rules_s))
    heads = ("log", "MB", "requests", "seconds", "CPU s", "peak MB", "outside")
    rows = (
        (
            job.name,
            f"{job.log_bytes / MB:,.0f}",
            f"{job.requests:,}",
            f"{job.run.process_s:,.1f}",
            f"{job.run.cpu_s:,.1f}",
            f"{job.run.peak_bytes / MB:,.0f}",
            f"{job.outside_s:.1f}",
            *(_seconds(job.phases_s.get(name)) for name in phases),
            *(_seconds(job.rules_s.get(name)) for name in rules),
        )
        for job in jobs
    )
    columns = (*heads, *phases, *(f"`{rule}`" for rule in rules))
    yield from table(columns, "l" + "r" * (len(columns) - 1), rows)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _claim(jobs: Sequence[WholeJob]) -> str:
    """What is fixed and what grows, by the shortest and the longest log."""
    first = min(jobs, key=lambda job: job.log_bytes)
    last = max(jobs, key=lambda job: job.log_bytes)
    log_mb = (last.log_bytes - first.log_bytes) / MB
    each = (last.run.cpu_s - first.run.cpu_s) / log_mb
    fixed = first.run.cpu_s - each * first.log_bytes / MB
    return (
        f"From {first.name} to {last.name}, each further MB takes {each:.2f} CPU s beside "
        f"{fixed:.0f} CPU s that every run takes; memory is "
        f"{last.run.peak_bytes / first.run.peak_bytes:.2f} times as much for "
        f"{last.log_bytes / first.log_bytes:.0f} times the log."
    )
