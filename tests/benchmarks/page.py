"""docs/performance.md, printed from what was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

from .contenders import CORES, cores_of
from .engines import Rate, Scale
from .processes import Run
from .skew import Skew
from .tables import table as _table
from .whole_job import WholeJob
from .whole_job_page import job_sections

MB = 1_000_000
_PACKAGES = ("pyspark", "delta-spark", "pyarrow", "msgspec", "duckdb", "polars", "orjson")

_WORDS = {
    "duckdb_columns": "DuckDB, `->>` a column: 17 columns to Parquet",
    "duckdb_paths": "DuckDB, one `json_extract_string`: the same",
    "duckdb_transform": "DuckDB, one `json_transform`: the same",
    "polars": "Polars, two JSON paths to Parquet",
    "spark": "Spark `from_json`: 17 columns to Parquet",
    "orjson": "orjson loop, parsing only",
    "simdjson": "simdjson, two fields of each line: a limit",
    "line_parser": "**ours**: `LineParser`, typed Arrow rows",
    "ingest": "**ours**: `kip-replay ingest`, all Delta tables",
}
OURS = "ingest"


class Input(NamedTuple):
    """A log that contenders read, how fast it was written, and their runs by name."""

    shape: str
    log_bytes: int
    lines: int
    written_mb_per_second: float
    runs: Mapping[str, Sequence[Run]]

    def rate(self, name: str) -> float:
        """MB of log a second, of the work alone: the median of the runs."""
        return self.log_bytes / MB / median(run.work.seconds for run in self.runs[name])

    def peak_mb(self, name: str) -> float:
        """The most memory that any run held."""
        return max(run.peak_bytes for run in self.runs[name]) / MB

    def spread(self, name: str) -> float:
        """How many times as long as the fastest run the slowest took."""
        seconds = [run.work.seconds for run in self.runs[name]]
        return max(seconds) / min(seconds)

    def start_s(self, name: str) -> float:
        """Start, imports and checks: the process less the work."""
        return median(run.process_s - run.work.seconds for run in self.runs[name])


class Jobs(NamedTuple):
    """Whole runs: on logs that grow, on a small one, and rules on skewed keys."""

    growth: Sequence[WholeJob]
    starts: Sequence[WholeJob]
    skews: Sequence[Skew]


def page(
    read: Sequence[Input],
    written_mb_per_second: float,
    rates: Sequence[Rate],
    scales: Sequence[Scale],
    jobs: Jobs,
    quick: bool,
) -> str:
    """The whole page."""
    runs = len(next(iter(read[0].runs.values())))
    return "\n".join(
        [
            "# Performance",
            "",
            "Printed by `make bench`; figures are of one machine on one day, ratios travel better.",
            *(["", "**A quick run**: small inputs, few repetitions."] if quick else []),
            "",
            *_machine(),
            "",
            "## Where this stands",
            "",
            *_goals(read, rates),
            "",
            "## Reading logs",
            "",
            "The same file on the same cores, each contender in a process of its own, "
            f"{_times(runs)} in turns; medians. MB are 10^6 bytes of uncompressed log. What a "
            "contender wrote is read back: all have every line and the same sum of `totalTimeMs`. "
            "*Spread* is the slowest run over the fastest: far from 1, something else was running. "
            "*Start* (interpreter, imports, JVM, Spark, reading back) is not in MB/s. *Peak* is "
            "the largest sum of resident memory of the process and its children; pages that "
            "they share count more than once.",
            "",
            "Only ours reads bodies: partitions of FETCHes and PRODUCEs, sizes on the wire, "
            "a digest of each line; `kip-replay ingest` also looks for lines read twice and writes "
            "Delta tables in transactions.",
            *(line for log in read for line in _reading(log)),
            "",
            "## Replaying",
            "",
            "Pure `replay/` on one core, Arrow batches in and out, the engines as jobs run them. "
            "Partition-states: what full FETCHes would list. Simulated "
            "FETCHes: of both variants that are simulated. Heartbeats: a recording has few among "
            "many other events, so its rows are told too.",
            "",
            *_table(
                ("rule", "input", "unit", "units", "units/s", "input rows/s", "of the goal"),
                "lllrrrr",
                (
                    (
                        f"`{rate.rule}`",
                        rate.what,
                        rate.unit,
                        f"{rate.units:,}",
                        _number(rate.per_second),
                        _number(rate.rows_per_second),
                        _share(rate.per_second / rate.goal),
                    )
                    for rate in rates
                ),
            ),
            "",
            "## incremental_fetch from 1,000 partitions on",
            "",
            "KIP-227's example: one broker leads all partitions, two followers and a consumer "
            "fetch; some partitions get a record before each round. Means per FETCH, from "
            "each client's third on. The protocol's claim is bytes in O(partition changes), not "
            "O(partitions): the last group, where ten partitions change whatever there is, shows "
            "it; milliseconds of parsing and replay are ours (all four variants at once). The log "
            f"is generated at {written_mb_per_second:,.0f} MB/s (full FETCHes).",
            "",
            *_table(
                (
                    "FETCHes",
                    "partitions",
                    "active",
                    "bytes on the wire",
                    "bytes of the line",
                    "parse ms",
                    "replay ms",
                ),
                "lrrrrrr",
                (
                    (
                        "incremental" if scale.sessions else "full",
                        f"{scale.partitions:,}",
                        f"{scale.active:,}",
                        f"{scale.wire_bytes:,.0f}",
                        f"{scale.line_bytes:,.0f}",
                        f"{scale.parse_ms:,.2f}",
                        f"{scale.replay_ms:,.2f}",
                    )
                    for scale in scales
                ),
            ),
            "",
            *job_sections(jobs.growth, jobs.starts, jobs.skews),
            "",
        ]
    )


def _machine() -> list[str]:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    java = re.search(r'version "([^"]+)"', said.stderr)
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return [
        f"Machine: {model[1] if model else platform.machine()}, {os.cpu_count()} cores of which "
        f"{CORES} are used, {memory:.0f} GB of memory, {platform.system()}; "
        f"Python {platform.python_version()}, Java {java[1] if java else 'unknown'}; {versions}."
    ]


def _goals(read: Sequence[Input], rates: Sequence[Rate]) -> list[str]:
    rows = []
    for log in read:
        rows += [
            _goal(f"ingest, {log.shape} lines", f"4 x {words}", log.rate(OURS) / log.rate(peer), 4)
            for peer, words in (
                ("duckdb_columns", "DuckDB, `->>` a column"),
                (_fastest_duckdb(log), "DuckDB at its fastest"),
            )
        ]
        rows.append(
            _goal(
                f"ingest, {log.shape} lines",
                "10 x Spark `from_json`",
                log.rate(OURS) / log.rate("spark"),
                10,
            )
        )
    for rule in dict.fromkeys(rate.rule for rate in rates):
        rows.append(_rule_goal([rate for rate in rates if rate.rule == rule]))
    missed = sum(row[-1] != "met" for row in rows)
    return [
        f"{missed} of {len(rows)} goals are missed. A rule is judged by the generated input that "
        "it is slowest on.",
        "",
        *_table(("what", "goal", "now", ""), "llll", rows),
    ]


def _rule_goal(rates: Sequence[Rate]) -> tuple[str, str, str, str]:
    generated = [rate for rate in rates if not rate.what.startswith("recorded")]
    slowest = min(generated, key=lambda rate: rate.per_second)
    fastest = max(generated, key=lambda rate: rate.per_second)
    now = _number(slowest.per_second)
    if fastest is not slowest:
        now += f" to {_number(fastest.per_second)}"
    goal = f"{_number(slowest.goal)} {slowest.unit} a second"
    return f"`{slowest.rule}`", goal, now, _met(slowest.per_second / slowest.goal)


def _goal(what: str, goal: str, ratio: float, wanted: float) -> tuple[str, str, str, str]:
    return what, goal, _ratio(ratio), _met(ratio / wanted)


def _met(share: float) -> str:
    return "met" if share >= 1 else f"**missed**, {_times_short(1 / share)} short"


def _fastest_duckdb(log: Input) -> str:
    return max((name for name in log.runs if name.startswith("duckdb")), key=log.rate)


def _reading(log: Input) -> Iterable[str]:
    line_bytes = log.log_bytes / log.lines
    fastest = _fastest_duckdb(log)
    yield ""
    yield (
        f"**{log.shape}** lines: {log.log_bytes / MB:,.0f} MB, {log.lines:,} lines of "
        f"{line_bytes:,.0f} bytes (written by the generator at "
        f"{log.written_mb_per_second:,.0f} MB/s)."
    )
    yield ""
    heads = ("", "cores", "MB/s", "spread", "lines/s", "start s", "peak MB")
    ratios = ("`kip-replay ingest` is", f"{_WORDS[fastest].split(':')[0]} is")
    yield from _table(
        (*heads, *ratios),
        "lrrrrrrrr",
        (
            (
                _WORDS[name],
                str(cores_of(name)),
                f"{log.rate(name):,.0f}",
                f"{log.spread(name):.2f}",
                _number(log.rate(name) * MB / line_bytes),
                f"{log.start_s(name):.1f}",
                f"{log.peak_mb(name):,.0f}",
                _ratio(log.rate(OURS) / log.rate(name)),
                _ratio(log.rate(fastest) / log.rate(name)),
            )
            for name in log.runs
        ),
    )


def _number(value: float) -> str:
    """Three digits that count."""
    digits = max(0, 2 - len(str(int(value))) + 1)
    if value >= 1000:
        scale = 10 ** (len(str(int(value))) - 3)
        return f"{round(value / scale) * scale:,.0f}"
    return f"{value:.{digits}f}"


def _ratio(ratio: float) -> str:
    return f"{_number(ratio) if ratio >= 1 else f'{ratio:.2g}'} x"


def _share(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


def _times_short(factor: float) -> str:
    return f"{factor:,.1f} times" if factor < 10 else f"{factor:,.0f} times"


def _times(runs: int) -> str:
    return "once" if runs == 1 else f"{runs} times"
