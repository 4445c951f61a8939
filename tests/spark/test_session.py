"""The session: times are UTC, and the terminal stays the jobs' own."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ran import ran
from small_logs import folder_of

from kip_replay.jobs import ingest
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.session import SPARK_HOME
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.replaying.replay import replay
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REPOSITORY = Path(__file__).resolve().parents[2]


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return ran(sys.executable, "-c", program, cwd=REPOSITORY, **environment)


def test_times_are_utc_whatever_the_machine_says(spark: "SparkSession") -> None:
    noon = spark.sql("SELECT unix_micros(timestamp'2025-07-01 12:00:00') AS noon").first()

    assert noon is not None
    expected = datetime(2025, 7, 1, 12, tzinfo=UTC).timestamp()
    assert noon.noon == expected * 1_000_000


@pytest.mark.slow
def test_what_kill_9_leaves_is_one_folder_that_the_next_run_removes(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from kip_replay.pipelines.engines.session import spark_session\n"
        "spark = spark_session('killed')\n"
        "assert spark.range(10_000).repartition(4).mapInArrow(lambda b: b, 'id long').count()\n"
    )
    killed = run_python(f"{code}os.kill(os.getpid(), signal.SIGKILL)\n", TMPDIR=str(tmp_path))
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("kip-replay-run-")
    ended = run_python(f"{code}spark.stop()\n", TMPDIR=str(tmp_path))
    assert (ended.returncode, [*tmp_path.iterdir()]) == (0, [])


def test_without_java_the_reason_is_one_sentence() -> None:
    finished = run_python(
        "from kip_replay.pipelines.engines.session import SparkStartError, spark_session\n"
        "try:\n"
        "    spark_session('no Java')\n"
        "except SparkStartError as error:\n"
        "    print(error)\n",
        JAVA_HOME="/nonexistent",
    )

    assert finished.stdout.startswith("Spark did not start (it needs Java 17 or later")
    assert "/nonexistent/bin/java" in finished.stdout
    assert finished.stdout.count("\n") == 1
    assert finished.stderr == ""


@pytest.mark.slow
def test_without_the_jars_of_delta_plain_files_are_read(tmp_path: Path) -> None:
    """As where nobody ran ``make setup``: a Spark that has only its own jars."""
    bare = tmp_path / "spark"
    bare.mkdir()
    for entry in SPARK_HOME.iterdir():
        if entry.name != "jars":
            (bare / entry.name).symlink_to(entry)
    (bare / "jars").mkdir()
    for jar in (SPARK_HOME / "jars").glob("*.jar"):
        if not jar.name.startswith("delta-"):
            (bare / "jars" / jar.name).symlink_to(jar)
    finished = run_python(
        "from pathlib import Path\n"
        "from kip_replay.pipelines.engines import session\n"
        f"session.SPARK_HOME = Path({str(bare)!r})\n"
        "spark = session.spark_session('bare')\n"
        f"spark.range(7).write.parquet({str(tmp_path / 'rows')!r})\n"
        f"print(spark.sql('SELECT count(*) FROM parquet.`{tmp_path / 'rows'}`').first()[0])\n"
        "spark.stop()\n",
        # A zone that a log line or a default could leak in from.
        TZ="America/New_York",
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "7\n", "")


# --- where memory is short ------------------------------------------------------------------------

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
def test_java_may_be_killed(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "warehouse"
    assert ingest.main([str(FREEZE), "--warehouse", str(path)]) == 0
    command = [sys.executable, "-m", "kip_replay.jobs.replay", str(FREEZE), "--warehouse", path]
    command += ["--engine", "spark", "--set", "spark.replay_bytes_min=0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        for line in process.stdout:
            if "incremental_fetch" in line:
                break
        os.kill(java_of(process.pid), signal.SIGKILL)
        *progress, said = process.communicate()[1].splitlines()
    assert process.returncode == 1
    assert said.startswith("error: there is not enough memory, or the system has ended a process")
    assert all(not line.strip() or line.startswith("replay:") for line in progress)
    warehouse = Warehouse(path)
    replay([load_recording(FREEZE)], Local(warehouse), RULES, {})
    assert {steps.name for steps in RULES} < {step for _, step in warehouse.lineage(["freeze-4.1"])}
