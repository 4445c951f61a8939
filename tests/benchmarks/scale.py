"""Measures whole runs on logs of 21 to 336 MB, and beside an older version and DuckDB.

    PYTHONPATH=tests python -m benchmarks.scale --before REVISION

Prints docs/performance.md from ``performance.md`` beside this file; what was not measured is ``-``.
Figures go to ``scaling.json`` beside the page, run by run, and ``--render`` prints it from them.
Logs lie under ``--logs`` and are made once. CPU seconds and memory are of all processes of a run
together.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
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
#: ``--profile`` replays in one process, and prints what each rule takes.
ENGINES = {
    "local": ("--engine", "local"),
    "one process": ("--engine", "local", "--profile"),
    "spark": ("--engine", "spark"),
}
#: Sweeps can be left out: what no setting shortens is the replay without one.
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
HOURS, HOUR_MB, HOURLY = 12, 4, Load(produce_ms=1500)
#: What runs in turns with the older version: the shipped sample, which takes seconds, and 84 MB.
SAMPLE, TURNS = REPOSITORY / "data" / "samples" / "metadata-4.0", 3
#: The machine's cores for all that is measured, and how often processes are looked at.
_CORES, _EVERY_S = 2, 0.25
#: A line of what ``--profile`` prints: the part, seconds on the clock and of CPU, rows.
_PART = re.compile(r"([a-z].*?)  +[\d.]+  +([\d.]+)  +[\d,]+")
#: Linux tells each process's share of a page (PSS); the shares add up to what is really taken.
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
#: What DuckDB alone takes to read the fields of the same lines that any report would need.
_PLAIN = """
SELECT api, client_id, count(*), quantile_cont(total_ms, 0.99)
FROM (SELECT fields ->> '$.requestHeader.requestApiKeyName' AS api,
        fields ->> '$.requestHeader.clientId' AS client_id,
        CAST(fields ->> '$.totalTimeMs' AS DOUBLE) AS total_ms
    FROM (SELECT regexp_extract(line, 'request:(.*) \\(kafka', 1) AS fields
        FROM read_csv('{logs}', columns = {{'line': 'VARCHAR'}}, sep = '\x01', quote = '',
            escape = '', header = FALSE, max_line_size = 100_000_000, parallel = FALSE)))
GROUP BY ALL
"""
_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "msgspec", "duckdb")
_TEXT = Path(__file__).with_name("performance.md")


class Run(NamedTuple):
    """What a process and its children took and printed; memory is their most at one moment."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    printed: str


def run(command: Sequence[str | Path], code: Path | None = None) -> Run:
    """Runs a command on two cores; ``code``: the folder of the package, if it is not this one."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        env={**os.environ, **({"PYTHONPATH": str(code)} if code else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=code or REPOSITORY,
        preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES]),
        start_new_session=True,  # by which its children are known
    )
    cpu_s, peak, is_over = [0.0], [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(_EVERY_S):
            used = [*_processes(process.pid)]
            cpu_s.append(sum(cpu for cpu, _ in used))
            peak.append(sum(pss for _, pss in used))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    is_over.set()
    thread.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):  # 3: a check fell short, and took its time all the same
        sys.exit(f"{command} ended with status {process.returncode}: {printed[-800:]}")
    # Those of a JVM that outlives its parent are seen in the samples alone.
    return Run(seconds, max(used.ru_utime + used.ru_stime, *cpu_s), max(peak) / MB, printed)


def _processes(session: int) -> Iterator[tuple[float, int]]:
    """CPU seconds of a session's processes, with their ended children, and their bytes."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if os.getsid(int(process.name)) == session:
                times = (process / "stat").read_text().rpartition(")")[2].split()[11:15]
                share = _PSS.search((process / "smaps_rollup").read_text())
                cpu_s = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
                yield cpu_s, int(share[1]) * 1024 if share else 0


class Benchmark:
    """Where logs and figures are, and what was measured."""

    def __init__(self, logs: Path, out: Path) -> None:
        self.logs, self.out = logs, out
        self.figures: dict[str, Any] = {"machine": machine(), "loop_s": [loop_s()], "runs": []}
        self.figures |= {"growing": [], "tables": [], "before": [], "revision": "-", "plain": {}}

    def log(self, name: str) -> tuple[Path, dict[str, float]]:
        """The folder of a log, its MB and lines; written where it is not there."""
        folder = self.logs / re.sub(r"\W+", "-", name)
        done = folder.with_suffix(".json")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            mb, load = LOGS[name]
            done.write_text(json.dumps(write_recording(folder, mb * MB, load)))
        size, lines, _ = json.loads(done.read_text())
        return folder, {"mb": size / MB, "lines": lines}

    def run(self, name: str, engine: str, settings: Sequence[str]) -> None:
        recording, size = self.log(name)
        with TemporaryDirectory(dir=self.logs) as warehouse:
            figures = self.job(
                f"{engine} {name}", recording, warehouse, *ENGINES[engine], *settings
            )
        self.add("runs", {**figures, **size, "name": name, "engine": engine})

    def day(self) -> None:
        """Runs after each hour of half a day."""
        hours = self.logs / "hours"
        if not (done := hours.with_suffix(".json")).exists():
            shutil.rmtree(hours, ignore_errors=True)
            done.write_text(json.dumps(write_hours(hours, HOURS, HOUR_MB * MB, HOURLY)))
        with TemporaryDirectory(dir=self.logs) as folder:
            recording, warehouse = Path(folder) / "growing", Path(folder) / "warehouse"
            # What is recent is as long as an hour here.
            options = ["--engine", "local", "--growing", "--set", "replay.recent_minutes=1.2"]
            for hour in range(1, HOURS + 1):
                append(hours / f"hour-{hour:03d}", recording)
                name = f"hour {hour}"
                self.add(
                    "growing", {"name": name, **self.job(name, recording, warehouse, *options)}
                )
            self.figures["tables"] = tables(warehouse)

    def beside(self, revision: str) -> None:
        """Runs this version and an older one in turns, and keeps the least of each."""
        self.figures["revision"] = revision
        with TemporaryDirectory(dir=self.logs) as folder:
            code = Path(folder)
            (code / "kip_replay").mkdir()
            archive = subprocess.run(
                ["git", "archive", revision], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True
            )
            subprocess.run(
                ["tar", "x", "-C", code / "kip_replay"], input=archive.stdout, check=True
            )
            for name, turns in (("sample", TURNS), ("4x", 1)):
                recording = SAMPLE if name == "sample" else self.log(name)[0]
                took: dict[tuple[str, str], list[Run]] = {}
                for _ in range(turns):
                    for whose in ("before", "now"):
                        warehouse = code / f"w-{whose}"
                        shutil.rmtree(warehouse, ignore_errors=True)
                        job = ["-m", "kip_replay.jobs.main", "run", recording, "--engine", "local"]
                        job += ["--warehouse", warehouse]
                        for case in ("first", "nothing new"):
                            done = run(job, code if whose == "before" else None)
                            took.setdefault((case, whose), []).append(done)
                for case in ("first", "nothing new"):
                    figures = {
                        f"{figure}_{whose}": min(getattr(one, figure) for one in took[case, whose])
                        for figure in ("cpu_s", "wall_s", "peak_mb")
                        for whose in ("before", "now")
                    }
                    self.add("before", {"name": f"{name}, {case}", **figures})

    def plain(self, name: str) -> None:
        """DuckDB alone reads the lines of a log, on as many cores."""
        query = _PLAIN.format(logs=self.log(name)[0] / "*.log")
        done = run(["-c", f"import duckdb; duckdb.execute({query!r}).fetchall()"])
        self.figures["plain"][name] = done.cpu_s

    def job(self, name: str, recording: Path, warehouse: Path | str, *options: str) -> Figures:
        command = ["-m", "kip_replay.jobs.main", "run", recording, "--warehouse", warehouse]
        done = run([*command, *options])
        print(
            f"{name}: {done.wall_s:.1f} s, {done.cpu_s:.1f} CPU s, {done.peak_mb:,.0f} MB",
            flush=True,
        )
        phases = done.printed.rpartition("seconds: ")[2].partition(", in all")[0].split(", ")
        wall = {
            phase: float(seconds) for phase, _, seconds in (it.rpartition(" ") for it in phases)
        }
        cpu: Counter[str] = Counter()
        for part in filter(None, map(_PART.fullmatch, done.printed.splitlines())):
            cpu[part[1].removesuffix(f" {recording.name}")] += float(part[2])
        return {**done._asdict(), "printed": "", "phases": wall, "rules": cpu}

    def add(self, kind: str, figures: Figures) -> None:
        """Keeps what was measured, in the file too: a benchmark that is ended loses no run."""
        self.figures[kind].append(figures)
        (self.out / "scaling.json").write_text(json.dumps(self.figures) + "\n")


def loop_s() -> float:
    """Seconds of ten million additions: what the machine gives a process at this moment."""
    begin = time.perf_counter()
    for number in range(10_000_000):
        number + 1
    return time.perf_counter() - begin


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
    rows = []
    for log in sorted(warehouse.glob("*/_delta_log")):
        table = deltalake.DeltaTable(log.parent)
        on_disk = sum(1 for _ in log.parent.rglob("*.parquet"))
        commits = sum(entry.suffix == ".json" for entry in log.iterdir())
        rows.append((log.parent.name, len(table.file_uris()), on_disk, commits))
    return rows


def page(figures: Figures) -> str:
    """The page of the figures."""
    runs = figures["runs"]
    fields = {
        "machine": figures["machine"],
        "loop": " and ".join(f"{seconds:.2f} s" for seconds in figures["loop_s"]),
        "revision": figures["revision"],
        "before": _before(figures["before"]),
        "ratios": _ratios(runs, figures["plain"]),
        "runs": "\n\n".join(_runs(runs, engine) for engine in ENGINES),
        "growing": _growing(figures["growing"]),
        "tables": _tables(figures["tables"]),
    }
    return _TEXT.read_text().format_map(fields)


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


def _before(rows: Sequence[Figures]) -> str:
    heads = ["run", "CPU s before", "now", "**ratio**", "s before", "now", "**ratio**"]
    heads += ["MB before", "now", "**ratio**"]
    lines = []
    for row in rows:
        line: list[Any] = [row["name"]]
        for figure in ("cpu_s", "wall_s", "peak_mb"):
            before, now = row[f"{figure}_before"], row[f"{figure}_now"]
            line += [before, now, now / before]
        lines.append(line)
    return _table(heads, lines)


def _ratios(runs: Sequence[Figures], plain: Mapping[str, float]) -> str:
    """Spark by local, and local by DuckDB alone, for each log that both ran on."""
    by = {(row["engine"], row["name"]): row for row in runs}
    rows = []
    for name, duckdb_cpu_s in plain.items():
        spark, local = by["spark", name], by["local", name]
        ratios = [spark[figure] / local[figure] for figure in ("wall_s", "cpu_s", "peak_mb")]
        rows.append([name, *ratios, duckdb_cpu_s, local["cpu_s"] / duckdb_cpu_s])
    heads = ["log", "Spark by local: s", "CPU s", "MB", "DuckDB alone: CPU s", "local by DuckDB"]
    return _table(heads, rows)


def _measured(rows: Sequence[Figures], heads: Mapping[str, str], details: str) -> str:
    """A table with a row for each run: figures under ``heads``, and those of its parts."""
    parts = list(dict.fromkeys(name for row in rows for name in row[details]))
    lines = ([*(row[n] for n in heads), *(row[details].get(n) for n in parts)] for row in rows)
    return _table([*heads.values(), *(part.replace("replay ", "") for part in parts)], lines)


def _runs(runs: Sequence[Figures], engine: str) -> str:
    heads = {"name": "log", "mb": "MB", "lines": "lines", "wall_s": "s", "cpu_s": "CPU s"}
    heads |= {"peak_mb": "MB of memory"}
    rows = [row for row in runs if row["engine"] == engine]
    details = "rules" if engine == "one process" else "phases"
    return f"`{' '.join(ENGINES[engine])}`:\n\n{_measured(rows, heads, details)}"


def _growing(growing: Sequence[Figures]) -> str:
    heads = {"name": "after", "wall_s": "s", "cpu_s": "CPU s", "peak_mb": "MB of memory"}
    shown = ("hour 1", "hour 2", "hour 6", "hour 12")
    return _measured([row for row in growing if row["name"] in shown], heads, "phases")


def _tables(tables: Sequence[Sequence[Any]]) -> str:
    every = ["all", *(sum(column) for column in [*zip(*tables, strict=True)][1:])]
    most = sorted(tables, key=lambda row: -row[2])[:6]
    return _table(("table", "files", "files on disk", "commits kept"), [every, *most])


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("scale", description=__doc__, formatter_class=form)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where page and figures go")
    parser.add_argument("--logs", type=Path, default=Path("/tmp/kafka-bench"))
    parser.add_argument(
        "--before", default="", help="a revision of this repository to run in turns"
    )
    parser.add_argument("--only", default="", help="what is named so, such as 'local 4x|day'")
    parser.add_argument("--render", action="store_true", help="print the page of figures only")
    arguments = parser.parse_args()
    logs, out = arguments.logs.resolve(), arguments.out.resolve()
    for folder in (logs, out):
        folder.mkdir(parents=True, exist_ok=True)
    if not arguments.render:
        benchmark = Benchmark(logs, out)
        if arguments.before and re.search(arguments.only, "before"):
            benchmark.beside(arguments.before)
        for name, engine, settings in RUNS:
            if re.search(arguments.only, f"{engine} {name}"):
                benchmark.run(name, engine, settings)
        for name in ("1x", "4x", "16x"):
            if re.search(arguments.only, f"plain {name}"):
                benchmark.plain(name)
        if re.search(arguments.only, "day"):
            benchmark.day()
        benchmark.add("loop_s", loop_s())
    measured = json.loads((out / "scaling.json").read_text())
    (out / "performance.md").write_text(page(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
