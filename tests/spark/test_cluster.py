"""A real cluster: a master, two workers and two executors, each a process of its own.

What runs there must not find the clone by accident: the workers' Python has the packages of this
one and nothing else, so that only what the job sends makes ``kip_replay`` importable. Nor the
driver's files: they run as a user who may not read them, and logs and warehouse are in a bucket.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from object_store import SECRET, assert_no_secret, job, served, uploaded
from put_rows import assert_same
from ran import ran
from small_logs import folder_of

from tools import cluster

pytestmark = pytest.mark.slow
FOLDER = folder_of("failover-4.0")
LOGS = "s3a://bucket/logs/failover-4.0"
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@pytest.fixture(scope="module")
def worker_python() -> Iterator[Path]:
    """An interpreter with this one's packages, but not with what is installed from the clone."""
    version = f"python3.{sys.version_info.minor}"
    found = (Path(sys.base_prefix) / "bin" / version, shutil.which(version, path="/usr/bin"))
    base = next((each for each in found if each and _runs_as_nobody("test", "-x", each)), None)
    if base is None:
        pytest.skip("needs root, and a Python that every user may run")
    with tempfile.TemporaryDirectory(prefix="environment-") as name:
        Path(name).chmod(0o755)
        subprocess.run([base, "-m", "venv", "--without-pip", name], check=True)
        [packages] = Path(name).glob("lib/python*/site-packages")
        # Folders named in a .pth file are searched, the .pth files in them are not read.
        own = [place for place in sys.path if place.endswith("site-packages")]
        (packages / "packages.pth").write_text("".join(f"{place}\n" for place in own))
        yield Path(name) / "bin" / "python"


def _runs_as_nobody(*command: object) -> bool:
    tried = [*AS_NOBODY, *map(str, command)]
    with suppress(OSError):
        return not subprocess.run(tried, capture_output=True, check=False).returncode
    return False


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of the cluster's logs and work, which belong to its user; pytest's folders are closed."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        Path(name).chmod(0o755)
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.fixture
def master(worker_python: Path, folder: Path) -> Iterator[str]:
    with served(folder), cluster.standalone(folder, *AS_NOBODY) as url:
        uploaded(FOLDER, LOGS.replace("s3a", "s3"))
        yield url


def submit(
    master: str, python: Path, folder: Path, happens: Callable[[], object], *job: str
) -> str:
    """Runs a job from a private ``folder``; something happens when replays begin."""
    private = folder / "private"
    private.mkdir(mode=0o700)
    environment = cluster.submit_environment()
    environment |= {"PYSPARK_PYTHON": str(python), "TMPDIR": str(private)}
    settings = ["--conf", "spark.sql.shuffle.partitions=3"]
    with subprocess.Popen(
        cluster.submit_command(master, job, *settings),
        cwd=private,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("replay hwm_parking"):
                happens()
    assert process.returncode == 0, said + "".join(f.read_text() for f in private.glob("*.log"))
    assert SECRET not in said
    return said


def test_workers_find_neither_the_code_nor_the_logs_by_themselves(worker_python: Path) -> None:
    """The tests below prove something only if this holds."""
    tried = subprocess.run(
        [*AS_NOBODY, str(worker_python), "-c", "import pyarrow, msgspec, kip_replay.replay"],
        env={},
        cwd=worker_python.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'kip_replay'" in tried.stderr


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("disk") / "warehouse"
    done = job("run", FOLDER, "--warehouse", path, "--engine", "local")
    assert done.returncode == 0, done.stderr
    return path


def kill_worker(folder: Path) -> None:
    """Kills a worker and its executor, with the Python processes of its tasks."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            place = str((process / "cwd").readlink())
            if str(folder) in place or f"--work-dir\0{folder}" in command:
                os.kill(int(process.name), signal.SIGKILL)


def test_tables_of_a_cluster_in_a_bucket_are_those_of_one_process_on_a_disk(
    master: str, worker_python: Path, folder: Path, on_disk: Path
) -> None:
    """Though a worker is killed when replays begin."""
    warehouse = "s3a://bucket/warehouse"
    happens = partial(kill_worker, folder / "worker-1")
    said = submit(master, worker_python, folder, happens, "run", LOGS, "--warehouse", warehouse)
    assert "report: s3://bucket/warehouse/report.html" in said
    assert not _runs_as_nobody("ls", folder / "private")
    assert_same(on_disk, warehouse)
    assert_no_secret(folder)


def test_a_cluster_has_texts_of_ours_and_leaves_a_log_to_look_at(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from kip_replay.pipelines import progress\n"
        "from kip_replay.pipelines.engines.session import spark_session\n"
        "from kip_replay.pipelines.engines.spark import Spark\n"
        "from kip_replay.pipelines.replaying.rule_texts import texts_of\n"
        "from kip_replay.pipelines.rules import RULES\n"
        "from kip_replay.pipelines.warehouse.tables import Warehouse\n"
        "path, master = sys.argv[1:]\n"
        "progress.stage('read texts')\n"
        "at = {'spark.master': master, 'spark.executor.memory': '512m'}\n"
        "at['spark.eventLog.compress'] = 'false'\n"
        "session = spark_session('logged', warehouse=path, conf_overrides=at)\n"
        "names = [rule.name for rule in RULES]\n"
        "assert Spark(Warehouse(path)).run(texts_of, names) == [*map(texts_of, names)]\n"
        "session.stop()\n"
    )
    with cluster.standalone(tmp_path) as url:
        done = ran(sys.executable, "-c", program, tmp_path, url, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    # A folder of files that begin with events_, or one file.
    logs = [log for log in (tmp_path / "_logs" / "spark").rglob("*") if log.is_file()]
    events = b"".join(log.read_bytes() for log in logs)
    assert b'"spark.job.description":"read texts"' in events
