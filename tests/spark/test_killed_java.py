"""The system ends Java where memory is short: the job says so, and the next one completes it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from recorded_logs import folder_of

from kip_replay.jobs import ingest
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.replaying.replay import replay
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.damage import require_whole
from kip_replay.pipelines.warehouse.tables import Warehouse

FREEZE = folder_of("freeze-4.1")


def java_of(session: int) -> int:
    """The process of Java that a process in a session of its own has started."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and (process / "comm").read_text() == "java\n":
                return int(process.name)
        except OSError:
            continue
    raise LookupError("no Java")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for Java in /proc")
def test_java_may_be_killed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "warehouse"
    assert ingest.main([str(FREEZE), "--warehouse", str(path)]) == 0
    command = [sys.executable, "-m", "kip_replay.jobs.replay", str(FREEZE), "--warehouse", path]
    command += ["--quiet", "--engine", "spark"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        for line in process.stdout:
            if "incremental_fetch" in line:
                break
        os.kill(java_of(process.pid), signal.SIGKILL)
        said = process.communicate()[1]
    assert process.returncode == 1
    assert said.startswith("error: there is not enough memory, or the system has ended a process")
    assert said.count("\n") == 1
    require_whole(str(path))
    warehouse = Warehouse(path)
    replay([load_recording(FREEZE)], Local(warehouse), RULES, {})
    assert {steps.name for steps in RULES} < {step for _, step in warehouse.lineage(["freeze-4.1"])}
