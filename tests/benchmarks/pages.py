"""docs/performance.md and docs/scaling.md, of the figures that ``scale`` measured.

``texts/*.md`` have names where figures stand. What was not measured is shown as ``-``.
"""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "msgspec", "duckdb")
_TEXTS = Path(__file__).with_name("texts")
#: The fleet: 1,000 brokers log 10 TB a day; each FETCHes the metadata log four times a second and
#: sends a heartbeat every two seconds.
_BROKERS, _DAY_MB = 1_000, 10_000_000
_HOUR_MB = _DAY_MB / 24
_CONTROLLER_LINES = 3600 * (4 * (_BROKERS + 2) + _BROKERS / 2)
#: Until all brokers of a generated log run.
_START_S = 4
#: US dollars: a core for an hour, of a general-purpose machine; a GB in a bucket for a month.
_CORE_HOUR, _GB_MONTH = 0.048, 0.023
_ENGINES = {
    "local": "`--engine local`",
    "one process": "`--engine local --set local.processes=1`",
    "spark": "`--engine spark`",
}
Figures = Mapping[str, Any]


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


def written(figures: Figures) -> dict[str, str]:
    fields = {
        "machine": figures["machine"],
        "skipped": "; ".join(figures["skipped"]) or "nothing",
        "loop": _range(each["loop_s"] for each in [*figures["runs"], *figures["growing"]]),
        "runs": "\n\n".join(_runs(figures["runs"], engine) for engine in _ENGINES),
        "further": _further(figures["runs"]),
        "beside": _beside(figures["beside"]),
        "growing": _growing(figures["growing"]),
        "tables": _tables(figures["tables"]),
        **_fleet(figures["runs"]),
    }
    return {text.name: text.read_text().format_map(fields) for text in _TEXTS.glob("*.md")}


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose first column is text; figures are shown as short as they are known."""
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *([*map(_shown, row)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else value
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def _range(values: Iterable[float]) -> str:
    every = [*values] or [0.0]
    return f"{min(every):.2f} to {max(every):.2f} s"


def _stages(runs: Sequence[Figures]) -> list[str]:
    return list(dict.fromkeys(name for each in runs for name in each["stages"]))


def _measured(of: Sequence[Figures], heads: Mapping[str, str]) -> str:
    """A table with a row for each run; ``heads``: of its figures, by their names in it."""
    names = _stages(of)
    rows = (
        [
            each["name"] if each["is_done"] else f"{each['name']} (not ended)",
            *(each[name] for name in list(heads)[1:]),
            *(each["stages"].get(name) for name in names),
        ]
        for each in of
    )
    return _table([*heads.values(), *(name.replace("replay ", "") for name in names)], rows)


def _runs(runs: Sequence[Figures], engine: str) -> str:
    heads = {"name": "log", "mb": "MB", "lines": "lines", "wall_s": "s", "cpu_s": "CPU s"}
    heads |= {"peak_mb": "all MB", "largest_mb": "largest"}
    of = [each for each in runs if each["engine"] == engine]
    return f"{_ENGINES[engine]}:\n\n{_measured(of, heads)}"


def _beside(readers: Sequence[Figures]) -> str:
    if not readers:
        return "Not measured this time."
    rows = (
        [
            *(each["name"], each["mb"], each["wall_s"], each["mb"] / each["wall_s"]),
            *(each["cpu_s"], 1000 * each["cpu_s"] / each["mb"], each["peak_mb"]),
        ]
        for each in readers
    )
    return _table(("", "MB", "s", "MB/s", "CPU s", "CPU s a GB", "all MB"), rows)


def _growing(growing: Sequence[Figures]) -> str:
    shown = {"hour 1", "hour 2", "hour 8", "hour 24", "a week in bulk", "one hour more"}
    heads = {"name": "after", "wall_s": "s", "cpu_s": "CPU s", "peak_mb": "all MB"}
    return _measured([each for each in growing if each["name"] in shown], heads)


def _tables(tables: Sequence[Sequence[Any]]) -> str:
    every = ["all", *(sum(column) for column in [*zip(*tables, strict=True)][1:])]
    most = sorted(tables, key=lambda row: -row[2])[:12]
    return _table(("table", "files", "files on disk", "commits kept"), [every, *most])


def _slope(runs: Sequence[Figures], engine: str, name: str, of: str = "") -> float | None:
    """What a further MB takes, from 4x to 16x (or the largest two that were measured)."""
    sizes = [
        each
        for each in runs
        if each["engine"] == engine and each["is_done"] and each["name"] in ("1x", "4x", "16x")
    ]
    if len(sizes) < 2:
        return None
    small, large = ((each[of] if of else each).get(name, 0.0) for each in sizes[-2:])
    return float((large - small) / (sizes[-1]["mb"] - sizes[-2]["mb"]))


def _further(runs: Sequence[Figures]) -> str:
    """CPU seconds of a further GB."""
    stages = _stages(runs)

    def of_gb(engine: str, name: str, of: str = "") -> float | None:
        slope = _slope(runs, engine, name, of)
        return None if slope is None else 1000 * slope

    rows = (
        [engine, all_s, *(of_gb(engine, name, "stages") for name in stages)]
        for engine in _ENGINES
        if (all_s := of_gb(engine, "cpu_s")) is not None
    )
    return _table(["engine", "all", *(name.replace("replay ", "") for name in stages)], rows)


def _controller_minutes(runs: Sequence[Figures], name: str = "500 brokers") -> dict[str, float]:
    """An hour of the active controller, by rule: FETCHes are counted, heartbeats timed."""
    named = (each for each in runs if each["name"] == name and each["is_done"])
    of = next((each for each in named if each["engine"] == "one process"), None)
    if of is None:
        return {"hwm_parking": 0.0, "lowest_acked_offset": 0.0}
    hour_of = {
        "hwm_parking": _CONTROLLER_LINES / of["lines"],
        "lowest_acked_offset": _BROKERS / 500 * 3600 / (of["clock_s"] - _START_S),
    }
    return {rule: of["stages"][f"replay {rule}"] * times / 60 for rule, times in hour_of.items()}


def _fleet(runs: Sequence[Figures]) -> dict[str, str]:
    """What the fleet takes; the controller's tasks are those of the log of 500 brokers."""
    cpu_s = _slope(runs, "spark", "cpu_s") or _slope(runs, "local", "cpu_s") or 0.0
    shuffled, kept = (
        _slope(runs, "spark", name) or 0.0 for name in ("shuffled_mb", "warehouse_mb")
    )
    alone = _controller_minutes(runs, "500 brokers without sweeps")
    # A swept value is a task of its own, beside the rule itself.
    both = _controller_minutes(runs, "500 brokers with one")
    minutes = {rule: max(alone[rule], both[rule] - alone[rule]) for rule in both}
    fetch_s, acks_s = (
        (_slope(runs, "one process", f"replay {rule}", "stages") or 0.0) * _HOUR_MB / _BROKERS
        for rule in ("incremental_fetch", "min_isr_acks")
    )
    widest, core_hours = max(minutes.values()), cpu_s * _DAY_MB / 3600
    kept_gb = kept * _DAY_MB / 1000
    values = {
        "cpu_s_per_mb": cpu_s,
        "core_hours": core_hours,
        "cores": core_hours / 24,
        "cores_busy": core_hours / 24 * 2,
        "hour_minutes_64": cpu_s * _HOUR_MB / 64 / 60,
        "shuffle_gb": shuffled * _HOUR_MB / 1000,
        "shuffled": shuffled,
        "kept": kept,
        "kept_gb": kept_gb,
        "compute_dollars": core_hours * _CORE_HOUR,
        "storage_dollars": kept_gb * _GB_MONTH,
        "controller_lines": _CONTROLLER_LINES / 1e6,
        "hwm_minutes": minutes["hwm_parking"],
        "lowest_minutes": minutes["lowest_acked_offset"],
        "hwm_alone": alone["hwm_parking"],
        "lowest_alone": alone["lowest_acked_offset"],
        "widest_minutes": widest,
        "widest_hours_10": widest * 10 / 60,
        "fetch_seconds": fetch_s,
        "acks_seconds": acks_s,
        "fetch_seconds_10": fetch_s * 10,
        "acks_seconds_10": acks_s * 10,
    }
    peaks = {each["engine"]: each["largest_mb"] / 1000 for each in runs if each["name"] == "16x"}
    values |= {f"largest_{engine}_gb": peaks.get(engine, 0.0) for engine in ("local", "spark")}
    prices = {"core_hour": f"{_CORE_HOUR}", "gb_month": f"{_GB_MONTH}"}
    return prices | {name: _shown(value or None) for name, value in values.items()}
