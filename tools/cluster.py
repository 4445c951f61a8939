"""A Spark cluster on one machine: a standalone master and workers, each a process of its own.

Spark's ``local[*]`` runs everything in one JVM, which hides what a cluster needs: code that is
shipped, closures that pickle, files that all machines see.

    python -m tools.cluster run ...    kip-replay run ... on a cluster that then ends

``connect_server`` is a server of Spark Connect, to which the jobs are clients without Java.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kip_replay.pipelines.engines.session import SPARK_HOME, java_options, read_settings
from kip_replay.pipelines.rule_files import conf_dir

HOST = "127.0.0.1"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_MASTER_UP = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_UP = re.compile(r"Successfully registered with (master) ")
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SERVER_UP = re.compile(r"Spark Connect server started at: \S*?(\d+)\s")
_START_S_MAX = 60.0
_STOP_S_MAX = 10.0


class ClusterError(RuntimeError):
    """The cluster did not come up; the message is one sentence for the user."""


@contextmanager
def standalone(folder: Path, *as_user: str) -> Iterator[str]:
    """A cluster on free ports for as long as the block lasts; gives the master's URL.

    Two workers have a core and 1 GB each; logs and work folders are in ``folder``. ``as_user``: a
    command that runs the rest of its line as another user. Raises ClusterError.
    """
    with ExitStack() as running:
        address = ["--host", HOST, "--port", "0", "--webui-port", "0"]
        java = [*as_user, str(SPARK_HOME / "bin" / "spark-class")]
        log = folder / "master.log"
        url = running.enter_context(_daemon(log, _MASTER_UP, *java, _MASTER, *address))
        offer = ["--cores", "1", "--memory", "1g"]
        for number in (1, 2):
            place = ["--work-dir", str(folder / f"worker-{number}")]
            log = folder / f"worker-{number}.log"
            running.enter_context(
                _daemon(log, _WORKER_UP, *java, _WORKER, *address, *offer, *place, url)
            )
        yield url


@contextmanager
def connect_server(folder: Path, *options: str) -> Iterator[str]:
    """A server of Spark Connect on a free port, of two cores; gives what SPARK_REMOTE is to name.

    ``options``: of spark-submit. Raises ClusterError.
    """
    # It runs the tasks itself.
    submit = ["env", "SPARK_DAEMON_MEMORY=2g", f"PYSPARK_PYTHON={sys.executable}"]
    submit += [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += ["--conf", "spark.connect.grpc.binding.port=0", "--conf", "spark.ui.enabled=false"]
    submit += ["--conf", f"spark.sql.warehouse.dir={folder / 'spark-warehouse'}", *options]
    log = folder / "connect.log"
    with _daemon(log, _SERVER_UP, *submit, "--class", _SERVER, "spark-internal") as port:
        yield f"sc://{HOST}:{port}"


def submit_command(master: str, job: Sequence[str], *options: str) -> list[str]:
    """The command that runs a job with its arguments on a cluster, with spark-submit's options."""
    settings = conf_dir() / "cluster" / "standalone.conf"
    java = java_options(read_settings(settings))
    executors = java_options(read_settings(settings), is_driver=False)
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master]
    submit += ["--properties-file", str(settings), "--driver-java-options", java]
    submit += ["--conf", f"spark.executor.extraJavaOptions={executors}", *options]
    return [*submit, str(conf_dir().parent / "jobs" / "main.py"), *job]


def submit_environment() -> dict[str, str]:
    """Returns the environment of ``submit_command``: this Spark, this Python."""
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    ours = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": python}
    return {**_spark_environment(), **ours, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}


@contextmanager
def _daemon(log: Path, is_up: re.Pattern[str], *command: str) -> Iterator[str]:
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env=_spark_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield _wait_for(process, log, is_up)
    finally:
        process.terminate()  # a worker then ends its executors
        try:
            process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _spark_environment() -> dict[str, str]:
    # Daemons hand their environment on to executors: what makes this code importable stays here.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # They only pass messages on: compiled well or not is the same to them.
    java = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
    own |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": java}
    return own | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": HOST}


def _wait_for(process: subprocess.Popen[bytes], log: Path, pattern: re.Pattern[str]) -> str:
    deadline = time.monotonic() + _START_S_MAX
    while time.monotonic() < deadline:
        match = pattern.search(log.read_text(errors="replace"))
        if match:
            return match[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    lines = log.read_text(errors="replace").strip().splitlines() or ["it logged nothing"]
    raise ClusterError(f"Spark's {log.stem} did not start: {lines[-1]} (the whole log: {log})")


def main(job: Sequence[str]) -> int:
    """Runs one job on a cluster of its own; returns the job's status."""
    with (
        tempfile.TemporaryDirectory(prefix="spark-cluster-") as folder,
        standalone(Path(folder)) as master,
    ):
        command, environment = submit_command(master, job), submit_environment()
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ClusterError as error:
        sys.exit(f"error: {error}")
