"""The ready-made schedules parse, and every command in them is one that its job takes."""

import datetime as datetime_module
import importlib
import json
import re
import runpy
import shlex
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import jinja2
import pytest
from growing import ArrivingLogs
from ran import ran
from small_logs import REPOSITORY

from kip_replay.jobs import run
from kip_replay.jobs.main import JOBS
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES, Lineage, QualityFailures, QualityResult

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


@pytest.mark.parametrize("spark", ["", "spark_default"])
def test_airflow_dag(spark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Airflow's classes as they are called, and Jinja's rendering."""
    made: list[dict[str, Any]] = []

    class Operator:
        def __init__(self, **given: Any) -> None:
            made.append(given)

        def __rshift__(self, other: Self) -> Self:
            return other

    modules = {"airflow": {"DAG": lambda *_, **__: nullcontext()}}
    modules["airflow.providers.standard.operators.bash"] = {"BashOperator": Operator}
    submit = "airflow.providers.apache.spark.operators.spark_submit"
    modules[submit] = {"SparkSubmitOperator": Operator}
    for name, of in modules.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**of))
    monkeypatch.setenv("KIP_REPLAY_SPARK", spark)
    runpy.run_path(str(SCHEDULES / "airflow_dag.py"))
    assert len(made) == 4
    times = {"data_interval_end": datetime(2026, 12, 2, tzinfo=UTC), "macros": datetime_module}
    for task in made:
        texts = task.get("application_args") or [task["bash_command"]]
        words = [jinja2.Template(text).render(times) for text in texts]
        assert ("application" in task) == (bool(spark) and task["task_id"] == "run")
        if "application" in task:
            assert task["conn_id"] == spark
            home = task["application"].removesuffix("/jobs/main.py")
            assert (REPOSITORY / task["properties_file"].removeprefix(f"{home}/")).is_file()
        else:
            words = shlex.split(words[0])[1:]
        require_taken(words[0], words[1:])
        assert "{{" not in " ".join(words)
        assert words[1].endswith("prod-2026-11") == ("--final" in words)


def test_databricks_job() -> None:
    described = json.loads((SCHEDULES / "databricks_job.json").read_text())
    tasks = [task["python_wheel_task"] for task in described["tasks"] if "libraries" in task]
    for task in tasks:
        assert (task["package_name"], task["entry_point"]) == ("kip-replay", "kip-replay")
        require_taken(task["parameters"][0], task["parameters"][1:])
    assert len(tasks) == 3
    assert described["parameters"][1]["default"].startswith("s3://"), "a Volume holds no table"


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NAME = "sessions-on"
#: Longer than the longest request of the recording (3.2 s).
SETTINGS = (
    *("--set", "replay.late_after_s=4", "--set", "replay.evidence_s=2"),
    *("--set", "quality.data_docs=false"),
)


def submitted(*arguments: str) -> str:
    """What ``spark-submit jobs/run.py`` prints."""
    command = Path(sys.executable).with_name("spark-submit"), "jobs/run.py", *arguments
    # What libraries free twice ends the driver with 139.
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONMALLOC": "debug"}
    conf = python | {"SPARK_CONF_DIR": "conf"}
    done = ran(*command, cwd=REPOSITORY, **conf)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(warehouse: Warehouse, table: Table) -> list[str]:
    """All rows, without what tells in which order they were read."""
    found = warehouse.rows(table, [NAME]).to_pylist()
    return sorted(repr({**row, "source_file": None, "line_number": None}) for row in found)


@pytest.mark.slow
def test_two_increments_and_the_end_give_the_tables_of_one_run(
    spark: "SparkSession", tmp_path: Path
) -> None:
    logs = ArrivingLogs(NAME, tmp_path, [0.15, 0.2, 0.25])
    logs.pieces[0][11] = b"no request\n" + logs.pieces[0][11]
    growing, whole = (Warehouse(tmp_path / name) for name in ("growing", "whole"))
    to_growing = (str(logs.folder), "--warehouse", growing.path, *SETTINGS)

    for number in (0, 1):
        logs.arrive(number)
        for node, coming in logs.pieces[number + 1].items():
            with (logs.folder / f"node-{node}.log").open("ab") as log:
                log.write(coming[:100])  # half of a line that is still being written
        printed = submitted(*to_growing, "--growing")
        [said] = re.findall(f"replay {NAME} until 2026-11-20 20:4(.*)", printed)
        assert all(rule.name in said for rule in RULES)
    logs.arrive(2)
    printed = submitted(*to_growing, "--final")
    assert "engine: spark (under spark-submit" in printed

    assert run.main([str(logs.folder), "--warehouse", whole.path, *SETTINGS]) == 0
    left_out = {IngestedFiles, Lineage, QualityResult, QualityFailures}
    for table in TABLES.values():
        if table not in left_out:
            assert rows(growing, table) == rows(whole, table), table.name
    assert rows(growing, QualityResult)
