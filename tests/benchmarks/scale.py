"""Measure whole runs on logs of 21 MB and 4, 16 and 64 times as much, and of other shapes.

    PYTHONPATH=tests python -m benchmarks.scale --out docs

Logs lie under ``--logs`` and are made once (``--prepare`` does nothing else). What would take
longer than ``--minutes`` allow is skipped, and says so. Figures go to ``scaling.json`` beside the
pages, run by run; ``--render`` prints the pages of it. CPU seconds are of all processes together, a
stage's are those used while it ran.
"""

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import deltalake

from . import pages
from .cluster import Load
from .long_recording import MB, append, write_hours, write_recording
from .processes import CORES, Run, empty_loop_s, run

ONCE_MB = 21
_INTERVALS = "lowest_acked_offset.broker_heartbeat_interval_ms"
#: Logs by name: size, load, and into how many files they are rotated. In turns, each size with both
#: engines, so that what is skipped is what takes longest; then what is unlike three busy brokers.
LOGS: dict[str, tuple[int, Load, int]] = {
    **{f"{times}x": (times * ONCE_MB, Load(), 0) for times in (1, 4, 16, 64)},
    "one partition": (4 * ONCE_MB, Load(partitions=1), 0),
    "sessions of 100,000": (10 * ONCE_MB, Load(partitions=100_000, leaders=1, busy=20), 0),
    "500 brokers": (5 * ONCE_MB, Load(brokers=500, partitions=1, producers=0), 0),
    "20,000 files": (4 * ONCE_MB, Load(), 25_000),
}
#: Rules run beside each other where there are processes; in one it shows what each takes.
ENGINES = {
    "local": ["local"],
    "one process": ["local", "--set", "local.processes=1"],
    "spark": ["spark"],
}
#: Those without which the pages say little, and the others.
FIRST_RUNS = [
    *((name, engine) for engine in ("local", "spark") for name in ("1x", "4x", "16x")),
    *((name, "one process") for name in ("4x", "16x")),
    *((f"500 brokers{swept}", "one process") for swept in ("", " without sweeps", " with one")),
]
RUNS = [
    *((name, "local") for name in [*LOGS][4:]),
    ("64x", "spark"),
]
#: Values of sweeps by what a run's name ends with.
_SWEPT = {
    " without sweeps": ("hwm_parking.max_wait_ms=[]", f"{_INTERVALS}=[]"),
    " with one": ("hwm_parking.max_wait_ms=[250]", f"{_INTERVALS}=[500]"),
}
#: A quiet cluster, so that 4 MB are a minute of its clock: an hour is a step of one minute.
HOURS, WEEK, HOUR_MB, HOURLY = 24, 168, 4, Load(produce_ms=1500)
#: What a run is expected to take, on two quiet cores.
_START_S, _S_PER_MB = 20, 0.15
_PHASE = re.compile(r"(\w[\w ]*?) (\d+\.\d+)(?:, |$)")
_RULE = re.compile(r"replay (\w+): ")
#: DuckDB reads the same lines into 17 columns, and no bodies.
_DUCKDB = """
import duckdb, sys
header = '{"requestApiKey":"INTEGER","requestApiVersion":"INTEGER","correlationId":"INTEGER",' \
    '"requestApiKeyName":"VARCHAR","clientId":"VARCHAR"}'
times = ",".join(f'"{n}TimeMs":"DOUBLE"' for n in ("total", "requestQueue", "local", "remote",
    "throttle", "responseQueue", "send"))
names = '"isForwarded":"BOOLEAN","connection":"VARCHAR","listener":"VARCHAR","principal":"VARCHAR"'
duckdb.connect(config={"threads": 2, "preserve_insertion_order": False}).execute(f'''
    COPY (SELECT strptime(line[2:24], '%Y-%m-%d %H:%M:%S,%g') AS completed_at,
        unnest(json_transform(line[instr(line, '{{') : -24],
            '{{"requestHeader":{header},{names},{times}}}'), recursive := true)
    FROM read_csv('{sys.argv[1]}/*.log', columns = {{'line': 'VARCHAR'}}, delim = '\\x01',
        quote = '', escape = '', header = false, auto_detect = false, max_line_size = 100000000))
    TO '{sys.argv[2]}' (FORMAT parquet)''')
"""


class Benchmark:
    """Where logs and figures are, which code runs, and how long all may take."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.logs, self.only, self.out = given.logs, re.compile(given.only), given.out
        self.path = [str(given.code)] if given.code else []
        self.deadline = time.monotonic() + 60 * given.minutes
        self.figures: dict[str, Any] = {"machine": pages.machine()}
        self.figures |= {of: [] for of in ("runs", "beside", "growing", "tables", "skipped")}

    def log(self, name: str) -> tuple[Path, dict[str, float]]:
        """The folder of a log, its MB, lines and seconds; written where it is not there."""
        folder = self.logs / re.sub(r"\W+", "-", name)
        done = folder.with_suffix(".json")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            mb, load, files = LOGS[name]
            done.write_text(json.dumps(write_recording(folder, mb * MB, load, files)))
        size, lines, seconds = json.loads(done.read_text())
        return folder, {"mb": size / MB, "lines": lines, "clock_s": seconds}

    def hours(self) -> Path:
        """A folder for each hour of a week, and of one hour more."""
        folder = self.logs / "hours"
        done = folder.with_suffix(".json")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            done.write_text(json.dumps(write_hours(folder, WEEK + 1, HOUR_MB * MB, HOURLY)))
        return folder

    def measure(self) -> None:
        """Measures everything, what the pages need most first."""
        for name, engine in FIRST_RUNS:
            self.run(name, engine)
        self.beside()
        self.day()
        for name, engine in RUNS:
            self.run(name, engine)
        self.week()

    def run(self, name: str, engine: str) -> None:
        swept = next((ending for ending in _SWEPT if name.endswith(ending)), "")
        log = name.removesuffix(swept)
        mb = LOGS[log][0]
        if not self.is_wanted(f"{engine} {name}", _START_S + mb * _S_PER_MB):
            return
        recording, size = self.log(log)
        with TemporaryDirectory(dir=self.logs) as folder:
            warehouse = Path(folder) / "warehouse"
            options = [str(recording), "--warehouse", str(warehouse), "--engine"]
            options += ENGINES[engine]
            for setting in _SWEPT.get(swept, ()):
                options += ["--set", setting]
            figures = self.job(f"{engine} {name}", "run", options)
            kept = sum(file.stat().st_size for file in warehouse.rglob("*.parquet"))
        figures |= {"name": name, "engine": engine, "warehouse_mb": kept / MB}
        self.figures["runs"].append(figures | size)
        self.save()

    def beside(self) -> None:
        """Reads the same lines with DuckDB and with ``kip-replay ingest``."""
        if not self.is_wanted("beside DuckDB", 60):
            return
        recording, size = self.log("16x")
        with TemporaryDirectory(dir=self.logs) as folder:
            duckdb = self.job("DuckDB", "", ["-c", _DUCKDB, str(recording), f"{folder}/out"])
            options = [str(recording), "--warehouse", f"{folder}/w", "--engine", "local"]
            ours = self.job("ingest", "ingest", options)
        named = {"DuckDB, 17 columns": duckdb, "`kip-replay ingest`, all tables": ours}
        self.figures["beside"] = [{"name": n, **size, **f} for n, f in named.items()]
        self.save()

    def day(self) -> None:
        """Runs after each hour of a day."""
        if self.is_wanted("growing day", HOURS * 6):
            with TemporaryDirectory(dir=self.logs) as folder:
                for hour in range(1, HOURS + 1):
                    append(self.hours() / f"hour-{hour:03d}", Path(folder) / "growing")
                    self.grow(Path(folder), f"hour {hour}")
                self.figures["tables"] = tables(Path(folder) / "warehouse")
            self.save()

    def week(self) -> None:
        """Runs on a week in bulk, and then on one hour more."""
        if self.is_wanted("growing week", _START_S + WEEK * HOUR_MB * _S_PER_MB):
            with TemporaryDirectory(dir=self.logs) as folder:
                for hour in range(1, WEEK + 1):
                    append(self.hours() / f"hour-{hour:03d}", Path(folder) / "growing")
                self.grow(Path(folder), "a week in bulk")
                append(self.hours() / f"hour-{WEEK + 1:03d}", Path(folder) / "growing")
                self.grow(Path(folder), "one hour more")

    def grow(self, folder: Path, name: str) -> None:
        options = ["--warehouse", str(folder / "warehouse"), "--engine", "local", "--growing"]
        options += ["--set", "replay.recent_minutes=1.2"]  # as long as what is an hour here
        figures = self.job(name, "run", [str(folder / "growing"), *options])
        self.figures["growing"].append({"name": name, **figures})
        self.save()

    def is_wanted(self, name: str, expected_s: float) -> bool:
        left_s = self.deadline - time.monotonic()
        if not self.only.search(name):
            return False
        if left_s < expected_s:
            say(f"skipped: {name} takes about {expected_s:.0f} s, {max(left_s, 0):.0f} s are left")
            self.figures["skipped"].append(name)
        return left_s >= expected_s

    def job(self, name: str, command: str, options: Sequence[str]) -> dict[str, Any]:
        of_main = ["-m", "kip_replay.jobs.main", command] if command else []
        loop_s, left_s = empty_loop_s(), self.deadline - time.monotonic()
        with TemporaryDirectory(dir=self.logs) as events:
            done = run([*of_main, *options], CORES, self.path, left_s, events)
            shuffled = shuffled_bytes(Path(events))
        # 3: a check fell short, and took its time all the same.
        is_done = done.status in (0, 3)
        if not is_done:
            say(
                f"{name} ended with status {done.status}: {[text for _, text in done.printed[-8:]]}"
            )
        memory = f"{done.peak_bytes / MB:,.0f} MB"
        say(f"{name}: {done.process_s:.1f} s, {done.cpu_s:.1f} CPU s, {memory}")
        figures = {"is_done": is_done, "wall_s": done.process_s, "cpu_s": done.cpu_s}
        figures |= {"peak_mb": done.peak_bytes / MB, "largest_mb": done.largest_bytes / MB}
        figures |= {"shuffled_mb": shuffled / MB, "loop_s": loop_s}
        return figures | {"stages": stages(done) if is_done else {}}

    def save(self) -> None:
        (self.out / "scaling.json").write_text(json.dumps(self.figures, indent=1) + "\n")


def stages(done: Run) -> dict[str, float]:
    """CPU seconds of each stage, by when the job's last line says that its phases began.

    A rule's replay is from the line that begins it to the next; ``rest`` is what comes before the
    first phase (imports, the engine) and after the last.
    """
    at_s, line = done.printed[-1] if done.printed else (0.0, "")
    if not line.startswith("seconds: "):
        return {}
    seconds = {name: float(text) for name, text in _PHASE.findall(line.partition(": ")[2])}
    at_s -= seconds.pop("in all")
    cpu = {"rest": done.cpu_until(at_s)}
    rules = [(m[0].rstrip(": "), at) for at, text in done.printed if (m := _RULE.match(text))]
    is_beside = any(text.startswith("processes: ") and text[11] != "1" for _, text in done.printed)
    for name, length_s in seconds.items():
        parts = [(name, at_s)]
        if name == "replay" and rules and not is_beside:
            # What the phase does before its first rule counts as that rule's.
            parts = [(rules[0][0], at_s), *rules[1:]]
        ends = [*(at for _, at in parts[1:]), at_s + length_s]
        for (part, begin_s), end_s in zip(parts, ends, strict=True):
            cpu[part] = done.cpu_until(end_s) - done.cpu_until(begin_s)
        at_s += length_s
    cpu["rest"] += done.cpu_s - done.cpu_until(at_s)
    return cpu


def shuffled_bytes(events: Path) -> int:
    """What Spark's tasks wrote for others to read, of its event log."""
    written = 0
    for file in events.rglob("*"):
        if file.is_file():
            for line in file.read_text(errors="replace").splitlines():
                if '"SparkListenerTaskEnd"' in line:
                    with suppress(KeyError, TypeError, ValueError):
                        metrics = json.loads(line)["Task Metrics"]["Shuffle Write Metrics"]
                        written += metrics["Shuffle Bytes Written"]
    return written


def tables(warehouse: Path) -> list[tuple[str, int, int, int]]:
    found = []
    for log in sorted(warehouse.glob("*/_delta_log")):
        table = deltalake.DeltaTable(log.parent)
        on_disk = sum(1 for _ in log.parent.rglob("*.parquet"))
        commits = sum(entry.suffix == ".json" for entry in log.iterdir())
        found.append((log.parent.name, len(table.file_uris()), on_disk, commits))
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("scale", description=__doc__, formatter_class=form)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where pages and figures go")
    parser.add_argument("--logs", type=Path, default=Path("/tmp/kafka-bench"))
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--only", default="", help="what is named so, such as 'local 4x|day'")
    parser.add_argument("--code", type=Path, help="the folder of another kip_replay to measure")
    parser.add_argument("--prepare", action="store_true", help="write the logs, and nothing else")
    parser.add_argument("--render", action="store_true", help="print the pages of figures only")
    given = parser.parse_args()
    given.out, given.logs = given.out.resolve(), given.logs.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    given.logs.mkdir(parents=True, exist_ok=True)
    benchmark = Benchmark(given)
    if given.prepare:
        for name in LOGS:
            benchmark.log(name)
        benchmark.hours()
        return 0
    if not given.render:
        benchmark.measure()
    for page, text in pages.written(json.loads((given.out / "scaling.json").read_text())).items():
        (given.out / page).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
