"""The ready-made schedules parse, and every command in them is one that its job understands."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCHEDULES = Path(__file__).resolve().parents[2] / "conf" / "schedules"
FIELD = r"(?:\*|\d+)(?:/\d+)?"
CRON_LINE = re.compile(rf"((?:{FIELD}\s+){{5}})(.+)")
#: The largest value of minute, hour, day, month, weekday.
LARGEST = (59, 23, 31, 12, 7)


def require_understood(module: str, arguments: list[str]) -> None:
    """The job's own parser takes the arguments; it raises UserError where it does not."""
    parser = importlib.import_module(f"jobs.{module}").PARSER
    parser.parse_args(arguments)


def require_jobs(command: str) -> list[str]:
    """The jobs that a shell command runs, each of which understands its arguments."""
    words = shlex.split(re.sub(r"\$\(.*?\)", "2026-11", command).replace("$", ""))
    starts = [place for place, word in enumerate(words) if word == "-m"]
    for start in starts:
        name = words[start + 1]
        assert name.startswith("jobs."), command
        require_understood(name.removeprefix("jobs."), words[start + 2 :])
    return [words[start + 1] for start in starts]


def cron_entries() -> list[tuple[str, str]]:
    lines = (SCHEDULES / "crontab").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    variables = [line for line in wanted if re.match(r"[A-Z]+=", line)]
    entries = [CRON_LINE.fullmatch(line) for line in wanted if line not in variables]
    assert all(entries)
    names = {line.partition("=")[0] for line in variables}
    used = {name for entry in entries if entry for name in re.findall(r"\$([A-Z]+)", entry[2])}
    assert used <= names
    return [(entry[1], entry[2]) for entry in entries if entry]


def test_cron_times_are_times() -> None:
    for times, _ in cron_entries():
        for field, largest in zip(times.split(), LARGEST, strict=True):
            assert field == "*" or int(field) <= largest


def test_cron_runs_hourly_and_maintains_nightly() -> None:
    # cron ends a command at a % that is not escaped.
    assert not [line for _, line in cron_entries() if re.search(r"(?<!\\)%", line)]
    jobs = [job for _, line in cron_entries() for job in require_jobs(line.replace("\\%", "%"))]
    assert jobs == ["jobs.run", "jobs.run", "jobs.check", "jobs.maintain"]


class Recorded:
    """Stands in for Airflow's classes: keeps what they are told, and how tasks follow."""

    made: list[Recorded]

    def __init__(self, **told: Any) -> None:
        self.told = told
        self.before: list[Recorded] = []
        type(self).made.append(self)

    def __rshift__(self, other: Recorded) -> Recorded:
        other.before.append(self)
        return other

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    "bash", ["airflow.providers.standard.operators.bash", "airflow.operators.bash"]
)
def test_airflow_runs_hourly_and_maintains_nightly(
    bash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag, operator = (type(name, (Recorded,), {"made": []}) for name in ("DAG", "BashOperator"))
    packages = [bash.rsplit(".", n)[0] for n in range(1, bash.count(".") + 1)]
    for name in [*packages, bash]:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["airflow"].DAG = dag  # type: ignore[attr-defined]
    sys.modules[bash].BashOperator = operator  # type: ignore[attr-defined]
    runpy.run_path(str(SCHEDULES / "airflow_dag.py"))
    assert [made.told["schedule"] for made in dag.made] == ["7 * * * *", "15 2 * * *"]
    assert all(made.told["max_active_runs"] == 1 for made in dag.made)
    tasks = {made.told["task_id"]: made for made in operator.made}
    assert [require_jobs(task.told["bash_command"]) for task in tasks.values()] == [
        ["jobs.run"],
        ["jobs.check"],
        ["jobs.maintain"],
    ]
    assert tasks["maintain"].before == [tasks["check"]]


def test_databricks_runs_hourly_and_maintains_nightly() -> None:
    job = json.loads((SCHEDULES / "databricks_job.json").read_text())
    assert job["schedule"]["quartz_cron_expression"] == "0 7 * * * ?"
    parameters = {parameter["name"] for parameter in job["parameters"]}
    clusters = {cluster["job_cluster_key"] for cluster in job["job_clusters"]}
    done: set[str] = set()
    ran = []
    for task in job["tasks"]:
        assert {other["task_key"] for other in task.get("depends_on", [])} <= done
        done.add(task["task_key"])
        if "spark_python_task" not in task:
            continue
        assert task["job_cluster_key"] in clusters
        script = task["spark_python_task"]
        assert (SCHEDULES.parents[1] / script["python_file"]).is_file()
        named = re.findall(r"\{\{job\.parameters\.(\w+)\}\}", " ".join(script["parameters"]))
        assert set(named) <= parameters
        require_understood(Path(script["python_file"]).stem, script["parameters"])
        ran.append(script["python_file"])
    assert ran == ["jobs/run.py", "jobs/check.py", "jobs/maintain.py"]
