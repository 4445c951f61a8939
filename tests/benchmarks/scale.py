"""Measure whole runs on logs of 21 MB and 4 and 16 times as much, and of other shapes.

    PYTHONPATH=tests python -m benchmarks.scale

Prints docs/performance.md: ``texts/*.md`` have names where figures are, and what was not measured
is shown as ``-``. Figures go to ``scaling.json`` beside the pages, run by
run; ``--render`` prints the pages of it. Logs lie under ``--logs`` and are made once. CPU seconds
are of all processes together, a stage's are those used while it ran.
"""

import argparse
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import deltalake
from small_logs import REPOSITORY

from .cluster import Load
from .long_recording import MB, append, write_hours, write_recording

Figures = Mapping[str, Any]
ONCE_MB = 21
#: Logs by name: size and load.
LOGS = {
    **{f"{times}x": (times * ONCE_MB, Load()) for times in (1, 4, 16)},
    "one partition": (4 * ONCE_MB, Load(partitions=1)),
    "sessions of 100,000": (10 * ONCE_MB, Load(partitions=100_000, leaders=1, busy=20)),
    "500 brokers": (5 * ONCE_MB, Load(brokers=500, partitions=1, producers=0)),
}
#: Rules run beside each other where there are processes; in one it shows what each takes.
ENGINES = {
    "local": ("--engine", "local"),
    "one process": ("--engine", "local", "--set", "local.processes=1"),
    "spark": ("--engine", "spark"),
}
#: Without sweeps a rule's replay is its widest task.
NO_SWEEPS = (
    *("--set", "hwm_parking.max_wait_ms=[]"),
    *("--set", "lowest_acked_offset.broker_heartbeat_interval_ms=[]"),
)
RUNS: list[tuple[str, str, tuple[str, ...]]] = [
    *((name, engine, ()) for engine in ("local", "spark") for name in ("1x", "4x", "16x")),
    *((name, "one process", ()) for name in ("4x", "16x")),
    ("500 brokers", "one process", NO_SWEEPS),
    *((name, "local", ()) for name in ("one partition", "sessions of 100,000")),
]
#: A quiet cluster, so that 4 MB are a minute of its clock: an hour is a step of one minute.
HOURS, HOUR_MB, HOURLY = 24, 4, Load(produce_ms=1500)
#: The machine's cores for all that is measured, and how often processes are looked at.
_CORES, _EVERY_S = 2, 0.25
_PHASE = re.compile(r"(\w[\w ]*?) (\d+\.\d+)(?:, |$)")
_RULE = re.compile(r"replay (\w+): ")
#: Linux tells each process's share of a page (PSS); the shares add up to what is really taken.
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "msgspec", "duckdb")
_TEXTS = Path(__file__).with_name("texts")


class Sample(NamedTuple):
    """What a run's processes have used and hold, ``at_s`` after its begin."""

    at_s: float
    cpu_s: float
    bytes: int = 0
    largest_bytes: int = 0


class Run(NamedTuple):
    """One run: its status, what it printed and after how many seconds, and what it took."""

    status: int
    printed: list[tuple[float, str]]
    wall_s: float
    cpu_s: float
    samples: list[Sample]

    def cpu_until(self, at_s: float) -> float:
        """CPU seconds used until then, between samples in proportion to time."""
        after = bisect_left(self.samples, at_s, key=lambda sample: sample.at_s)
        if after == len(self.samples):
            return self.cpu_s
        before, later = self.samples[max(after - 1, 0)], self.samples[after]
        share = (at_s - before.at_s) / max(later.at_s - before.at_s, 1e-6)
        return before.cpu_s + min(max(share, 0.0), 1.0) * (later.cpu_s - before.cpu_s)

    def stages(self) -> dict[str, float]:
        """CPU seconds of each stage, by when the job's last line says that its phases began.

        A rule's replay is from the line that begins it to the next; ``rest`` is what comes before
        the first phase (imports, the engine) and after the last.
        """
        at_s, line = self.printed[-1] if self.printed else (0.0, "")
        if not line.startswith("seconds: "):
            return {}
        seconds = {name: float(text) for name, text in _PHASE.findall(line.partition(": ")[2])}
        at_s -= seconds.pop("in all")
        cpu = {"rest": self.cpu_until(at_s)}
        rules = [(m[0].rstrip(": "), at) for at, text in self.printed if (m := _RULE.match(text))]
        is_beside = any(re.match(r"processes: (?!1\b)", text) for _, text in self.printed)
        for name, length_s in seconds.items():
            parts = [(name, at_s)]
            if name == "replay" and rules and not is_beside:
                # What the phase does before its first rule counts as that rule's.
                parts = [(rules[0][0], at_s), *rules[1:]]
            ends = [*(at for _, at in parts[1:]), at_s + length_s]
            for (part, begin_s), end_s in zip(parts, ends, strict=True):
                cpu[part] = self.cpu_until(end_s) - self.cpu_until(begin_s)
            at_s += length_s
        cpu["rest"] += self.cpu_s - self.cpu_until(at_s)
        return cpu


def run(options: Sequence[str]) -> Run:
    """Runs ``kip-replay`` in a process of its own."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "kip_replay.jobs.main", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
        preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES]),
        start_new_session=True,  # by which its children are known
    )
    samples, is_over = [Sample(0.0, 0.0)], threading.Event()

    def watch() -> None:
        while not is_over.wait(_EVERY_S):
            used = [*_processes(process.pid)]
            if used:
                cpu_s, held = sum(cpu for cpu, _ in used), [pss for _, pss in used]
                at_s = time.perf_counter() - begin
                samples.append(Sample(at_s, max(cpu_s, samples[-1].cpu_s), sum(held), max(held)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert process.stdout is not None
    printed = [(time.perf_counter() - begin, line.rstrip("\n")) for line in process.stdout]
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    is_over.set()
    thread.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = max(used.ru_utime + used.ru_stime, samples[-1].cpu_s)
    return Run(process.returncode, printed, seconds, cpu_s, samples)


def _processes(session: int) -> Iterator[tuple[float, int]]:
    """CPU seconds of a session's processes, with their ended children, and bytes that they hold."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if os.getsid(int(process.name)) == session:
                times = (process / "stat").read_text().rpartition(")")[2].split()[11:15]
                found = _PSS.search((process / "smaps_rollup").read_text())
                cpu_s = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
                yield cpu_s, int(found[1]) * 1024 if found else 0


class Benchmark:
    """Where logs and figures are, and what was measured."""

    def __init__(self, logs: Path, out: Path) -> None:
        self.logs, self.out = logs, out
        self.figures: dict[str, Any] = {"machine": machine(), "runs": [], "growing": []}
        self.figures["tables"] = []

    def log(self, name: str) -> tuple[Path, dict[str, float]]:
        """The folder of a log, its MB, lines and seconds; written where it is not there."""
        folder = self.logs / re.sub(r"\W+", "-", name)
        done = folder.with_suffix(".json")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            mb, load = LOGS[name]
            done.write_text(json.dumps(write_recording(folder, mb * MB, load)))
        size, lines, seconds = json.loads(done.read_text())
        return folder, {"mb": size / MB, "lines": lines, "clock_s": seconds}

    def run(self, name: str, engine: str, settings: Sequence[str]) -> None:
        recording, size = self.log(name)
        with TemporaryDirectory(dir=self.logs) as folder:
            warehouse = Path(folder) / "warehouse"
            options = [str(recording), "--warehouse", str(warehouse), *ENGINES[engine], *settings]
            figures = self.job(f"{engine} {name}", options)
            kept = sum(file.stat().st_size for file in warehouse.rglob("*.parquet"))
        figures |= {"name": name, "engine": engine, "warehouse_mb": kept / MB}
        self.figures["runs"].append(figures | size)
        self.save()

    def day(self) -> None:
        """Runs after each hour of a day."""
        hours = self.logs / "hours"
        if not (done := hours.with_suffix(".json")).exists():
            shutil.rmtree(hours, ignore_errors=True)
            done.write_text(json.dumps(write_hours(hours, HOURS, HOUR_MB * MB, HOURLY)))
        with TemporaryDirectory(dir=self.logs) as folder:
            recording, warehouse = Path(folder) / "growing", Path(folder) / "warehouse"
            options = [str(recording), "--warehouse", str(warehouse), "--engine", "local"]
            # What is recent is as long as an hour here.
            options += ["--growing", "--set", "replay.recent_minutes=1.2"]
            for hour in range(1, HOURS + 1):
                append(hours / f"hour-{hour:03d}", recording)
                name = f"hour {hour}"
                self.figures["growing"].append({"name": name, **self.job(name, options)})
                self.save()
            self.figures["tables"] = tables(warehouse)
        self.save()

    def job(self, name: str, options: Sequence[str]) -> dict[str, Any]:
        done = run(["run", *options])
        # 3: a check fell short, and took its time all the same.
        if done.status not in (0, 3):
            sys.exit(f"{name} ended with status {done.status}: {done.printed[-8:]}")
        peak, largest = (max(column) for column in list(zip(*done.samples, strict=True))[2:])
        memory = f"{peak / MB:,.0f} MB"
        print(f"{name}: {done.wall_s:.1f} s, {done.cpu_s:.1f} CPU s, {memory}", flush=True)
        figures = {"wall_s": done.wall_s, "cpu_s": done.cpu_s, "stages": done.stages()}
        return figures | {"peak_mb": peak / MB, "largest_mb": largest / MB}

    def save(self) -> None:
        (self.out / "scaling.json").write_text(json.dumps(self.figures) + "\n")


def machine() -> str:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    java = re.search(r'version "([^"]+)"', printed.stderr)
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB of "
        f"memory, {platform.system()}; Python {platform.python_version()}, "
        f"Java {java[1] if java else '-'}; {versions}"
    )


def tables(warehouse: Path) -> list[tuple[str, int, int, int]]:
    """Each table with its files, files on disk and commits."""
    found = []
    for log in sorted(warehouse.glob("*/_delta_log")):
        table = deltalake.DeltaTable(log.parent)
        on_disk = sum(1 for _ in log.parent.rglob("*.parquet"))
        commits = sum(entry.suffix == ".json" for entry in log.iterdir())
        found.append((log.parent.name, len(table.file_uris()), on_disk, commits))
    return found


def pages(figures: Figures) -> dict[str, str]:
    """The pages of figures, by name."""
    runs = figures["runs"]
    fields = {
        "machine": figures["machine"],
        "runs": "\n\n".join(_runs(runs, engine) for engine in ENGINES),
        "further": _further(runs),
        "growing": _growing(figures["growing"]),
        "tables": _tables(figures["tables"]),
    }
    return {text.name: text.read_text().format_map(fields) for text in _TEXTS.glob("*.md")}


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose first column is text; figures are shown as short as they are known."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *([*map(_shown, row)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(value: Any) -> str:
    if value is None or value != value:
        return "-"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else value
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def _stages(runs: Sequence[Figures]) -> list[str]:
    return list(dict.fromkeys(name for each in runs for name in each["stages"]))


def _measured(of: Sequence[Figures], heads: Mapping[str, str]) -> str:
    """A table with a row for each run; ``heads``: of its figures, by their names in it."""
    names = _stages(of)
    rows = ([*(each[n] for n in heads), *(each["stages"].get(n) for n in names)] for each in of)
    return _table([*heads.values(), *(name.replace("replay ", "") for name in names)], rows)


def _runs(runs: Sequence[Figures], engine: str) -> str:
    heads = {"name": "log", "mb": "MB", "lines": "lines", "wall_s": "s", "cpu_s": "CPU s"}
    heads |= {"peak_mb": "all MB", "largest_mb": "largest"}
    of = [each for each in runs if each["engine"] == engine]
    return f"`{' '.join(ENGINES[engine])}`:\n\n{_measured(of, heads)}"


def _growing(growing: Sequence[Figures]) -> str:
    heads = {"name": "after", "wall_s": "s", "cpu_s": "CPU s", "peak_mb": "all MB"}
    shown = ("hour 1", "hour 2", "hour 8", "hour 24")
    return _measured([each for each in growing if each["name"] in shown], heads)


def _tables(tables: Sequence[Sequence[Any]]) -> str:
    every = ["all", *(sum(column) for column in [*zip(*tables, strict=True)][1:])]
    most = sorted(tables, key=lambda row: -row[2])[:12]
    return _table(("table", "files", "files on disk", "commits kept"), [every, *most])


def _slope(runs: Sequence[Figures], engine: str, name: str) -> float:
    """What a further MB takes, from 4x to 16x: of a figure, else of the stage of that name."""
    sizes = {each["name"]: each for each in runs if each["engine"] == engine}
    if not {"4x", "16x"} <= sizes.keys():
        return math.nan
    small, large = sizes["4x"], sizes["16x"]
    less, more = (each.get(name, each["stages"].get(name, 0.0)) for each in (small, large))
    return float((more - less) / (large["mb"] - small["mb"]))


def _further(runs: Sequence[Figures]) -> str:
    """CPU seconds of a further GB."""
    stages = _stages(runs)
    rows = (
        [engine, *(1000 * _slope(runs, engine, name) for name in ("cpu_s", *stages))]
        for engine in ENGINES
    )
    return _table(["engine", "all", *(name.replace("replay ", "") for name in stages)], rows)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("scale", description=__doc__, formatter_class=form)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where pages and figures go")
    parser.add_argument("--logs", type=Path, default=Path("/tmp/kafka-bench"))
    parser.add_argument("--only", default="", help="what is named so, such as 'local 4x|day'")
    parser.add_argument("--render", action="store_true", help="print the pages of figures only")
    given = parser.parse_args()
    logs, out = given.logs.resolve(), given.out.resolve()
    for folder in (logs, out):
        folder.mkdir(parents=True, exist_ok=True)
    if not given.render:
        benchmark = Benchmark(logs, out)
        for name, engine, settings in RUNS:
            if re.search(given.only, f"{engine} {name}"):
                benchmark.run(name, engine, settings)
        if re.search(given.only, "day"):
            benchmark.day()
    for page, text in pages(json.loads((out / "scaling.json").read_text())).items():
        (out / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
