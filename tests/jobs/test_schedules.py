"""The ready-made schedules parse, and every command in them is one that its job takes."""

import importlib
import json
import re
import shlex
from pathlib import Path

from kip_replay.jobs.main import JOBS

SCHEDULES = Path(__file__).resolve().parents[2] / "conf" / "schedules"


def require_taken(job: str, arguments: list[str]) -> None:
    """The job is one, and its parser takes the arguments: it raises UserError where it does not."""
    assert job in JOBS
    importlib.import_module(f"kip_replay.jobs.{job}").PARSER.parse_args(arguments)


def test_crontab() -> None:
    lines = (SCHEDULES / "crontab").read_text().splitlines()
    entries = [line for line in lines if re.match(r"[\d*]", line)]
    for entry in entries:
        time_and_command = re.fullmatch(r"((?:[\d*/]+ +){5})(.+)", entry)
        assert time_and_command
        command = time_and_command[2]
        assert not re.search(r"(?<!\\)%", command), "cron ends a command at a bare %"
        words = shlex.split(re.sub(r"\$\(.*?\)", "2026-11", command))
        job, *arguments = words[words.index("kip-replay") + 1 :]
        require_taken(job, arguments)
    assert len(entries) == 4


def test_airflow_dag() -> None:
    text = (SCHEDULES / "airflow_dag.py").read_text()
    compile(text, "airflow_dag.py", "exec")
    tasks = re.findall(r'\bjob\("(\w+)", f"(.+)"\)', text)
    for job, arguments in tasks:
        require_taken(job, arguments.split())
    assert len(tasks) == 4


def test_databricks_job() -> None:
    described = json.loads((SCHEDULES / "databricks_job.json").read_text())
    tasks = [task["python_wheel_task"] for task in described["tasks"] if "libraries" in task]
    for task in tasks:
        assert (task["package_name"], task["entry_point"]) == ("kip-replay", "kip-replay")
        require_taken(task["parameters"][0], task["parameters"][1:])
    assert len(tasks) == 3
