"""The one place that starts Spark: with Delta Lake, in UTC, and silent; or connects to a server.

Settings are in conf/spark-defaults.conf, each with its reason; what the command line of
spark-submit set stays. A server of Spark Connect (SPARK_REMOTE) takes those that it lets be set.
Executors on a cluster get this project's code from here. Only whoever reads ``format("delta")``
needs Delta's jars (``make setup`` puts them beside Spark's, or ``--packages``).
"""

import logging
import os
import sys
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import pyspark
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from kip_replay.pipelines.errors import SparkStartError
from kip_replay.pipelines.printable import visible
from kip_replay.pipelines.rule_files import ROOT, conf_dir
from kip_replay.pipelines.scratch import run_folder
from kip_replay.pipelines.storage import is_uri

SPARK_HOME = Path(pyspark.__file__).parent

_CATALOG = "spark.sql.catalog.spark_catalog"


def spark_session(
    app_name: str,
    *,
    warehouse: str | Path | None = None,
    conf_overrides: Mapping[str, str] | None = None,
    has_metastore: bool = False,
) -> SparkSession:
    """The session to use: of a server, the active one if there is one, else a new one.

    `conf_overrides` wins over the command line of spark-submit, which wins over
    conf/spark-defaults.conf. An active session keeps its settings. What is named in a session that
    ``has_metastore`` stays, unless spark-submit says otherwise.
    """
    if is_connect():
        return _connected()
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    overrides = {**(conf_overrides or {}), "spark.app.name": app_name}
    settings = read_settings()
    if has_metastore:  # Hive's, or names would end with the session
        settings["spark.sql.catalogImplementation"] = "hive"
    elif warehouse is not None and not is_uri(str(warehouse)):
        overrides["spark.sql.warehouse.dir"] = str(Path(warehouse).absolute())
    settings = _with_jvm(settings, overrides)
    if not settings["spark.master"].startswith("local") and warehouse is not None:
        settings = _event_log(str(warehouse)) | settings
    builder = SparkSession.Builder()
    for key, value in settings.items():
        builder.config(key, value)
    session = builder.getOrCreate()
    if not settings["spark.master"].startswith("local"):
        _send_code(session)
    return session


@cache
def _connected() -> SparkSession:
    """A session of a server, or a platform's own: memory, jars and Python are what they are."""
    try:
        session = SparkSession.Builder().getOrCreate()
        assert session.version, "a server says so"
    except (PySparkException, ImportError) as error:
        raise SparkStartError(
            f"Spark Connect cannot be used ({error}): SPARK_REMOTE names a server that runs, as "
            "sc://HOST:15002, and pip install 'kip-replay[connect]' brings what its clients need"
        ) from error
    settings = {k: v for k, v in read_settings().items() if k.startswith("spark.sql.")}
    del settings[_CATALOG]  # a server has its own
    configure(session, settings)
    _send_code(session)
    return session


def _event_log(warehouse: str) -> dict[str, str]:
    """Settings of a log for Spark's history server, beside the tables if Spark can write there."""
    folder = Path(warehouse, "_logs", "spark").absolute()
    with suppress(OSError):
        if not is_uri(warehouse):  # Spark has no client of stores
            folder.mkdir(parents=True, exist_ok=True)
            return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri()}
    return {}


def describe(session: SparkSession, text: str) -> None:
    """Says what the next jobs are of: in Spark's web page and event log, of a server as a tag."""
    if not is_connect():
        session.sparkContext.setJobDescription(text)
    elif text:
        session.clearTags()
        session.addTag(text.replace(",", ";"))


def is_connect() -> bool:
    """Returns whether sessions are those of a Spark Connect server, as SPARK_REMOTE names one."""
    return "SPARK_REMOTE" in os.environ or is_remote()


def configure(session: SparkSession, settings: Mapping[str, Any]) -> None:
    """Sets what a platform lets be set: a serverless one has its own shuffles."""
    for key, value in settings.items():
        with suppress(PySparkException):
            session.conf.set(key, value)


def _with_jvm(settings: dict[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Starts the JVM, unless it runs; the settings of a session in it."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM and waits there
        SparkContext._ensure_initialized()
        del settings["spark.driver.memory"]  # too late for it
        settings |= dict(SparkConf().getAll())
    settings |= overrides

    is_local = settings["spark.master"].startswith("local")
    if is_local:
        # Workers on this machine are this interpreter, not whichever python3 comes first.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings.setdefault("spark.python.daemon.module", f"{__package__}.workers")
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    if SparkContext._gateway is None:  # a JVM outlives a session of this process that was stopped
        settings["spark.driver.extraJavaOptions"] = java_options(settings)
        if is_local and "SPARK_LOCAL_DIRS" not in os.environ:
            settings.setdefault("spark.local.dir", str(run_folder()))
        _launch_jvm(settings)
    jvm = SparkContext._jvm
    assert jvm is not None, "a running JVM is connected"
    # Spark passes over an extension that it does not find, but not over a catalog.
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(settings[_CATALOG]):
        settings[_CATALOG] = "builtin"
    return settings


def read_settings(path: Path | None = None) -> dict[str, str]:
    """Settings of a file in the form of spark-defaults.conf: key, blanks, value; # comments."""
    path = path or conf_dir() / "spark-defaults.conf"
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return dict(pairs)


def _send_code(session: SparkSession) -> None:
    """Sends executors the packages with their files (``workers``), also those that come later."""
    path = run_folder() / "kip_replay.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        archive.write(Path(__file__).with_name("workers.py"), "kip_replay.py")
        for part in ("__init__.py", "jobs", "pipelines", "replay", "conf"):
            for file in (ROOT / part, *(ROOT / part).rglob("*.*")):
                if file.is_file() and file.suffix != ".pyc":
                    archive.write(file, f"code/kip_replay/{file.relative_to(ROOT)}")
    own_path = sys.path[:]
    session.addArtifacts(str(path), pyfile=True)
    sys.path[:] = own_path  # the driver goes on with its own files


def _launch_jvm(settings: Mapping[str, str]) -> None:
    """Starts the JVM, showing what it says only if it does not come up: no setting silences it."""
    # The Spark of this Python: another one has other jars.
    os.environ["SPARK_HOME"] = str(SPARK_HOME)
    if settings["spark.master"].startswith("local"):
        # Machines whose host name does not resolve, or only to a loopback address, start too.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))

    # They print every failed analysis as JSON, besides raising it.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    # Where the JVM was killed, these print tracebacks beside the job's sentence.
    of_40 = getattr(accumulators, "AccumulatorServer", None)
    server: Any = getattr(accumulators, "AccumulatorTCPServer", of_40)
    server.handle_error = lambda *_: None
    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")

    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as jvm_stderr:
        relay = _Relay(os.fdopen(read_end, "rb"))
        elsewhere, tempfile.tempdir = tempfile.tempdir, str(run_folder())
        try:
            gateway = launch_gateway(conf, {"stderr": jvm_stderr})
        except PySparkRuntimeError as error:
            raise SparkStartError(_reason_of_failure(relay.held_back)) from error
        finally:
            tempfile.tempdir = elsewhere
    relay.open()
    SparkContext._ensure_initialized(gateway=gateway)


def java_options(settings: Mapping[str, str], is_driver: bool = True) -> str:
    """The options that need a path of this machine, before those that the settings have."""
    options = [
        f"-Dlog4j2.configurationFile={(conf_dir() / 'log4j2.properties').as_uri()}",
        "-XX:-UsePerfData",  # a file for each JVM, in a place of its own
    ]
    options += [f'"-Djava.io.tmpdir={run_folder()}"'] if is_driver else []
    return " ".join([*options, settings.get("spark.driver.extraJavaOptions", "")])


class _Relay:
    """Passes the JVM's stderr on to ours, from the moment it is opened; holds it back before."""

    def __init__(self, source: IO[bytes]) -> None:
        self.held_back: list[str] = []
        self._source = source
        self._is_open = threading.Event()
        # A daemon: it ends with the JVM, which ends after this interpreter.
        threading.Thread(target=self._run, name="jvm-stderr", daemon=True).start()

    def open(self) -> None:
        self._is_open.set()

    def _run(self) -> None:
        for line in self._source:
            if self._is_open.is_set():
                # Not sys.stderr: that is what an inherited stderr would do.
                text = line.decode(errors="replace").rstrip("\r\n").split("\t")
                os.write(2, "\t".join(map(visible, text)).encode() + b"\n")
            else:
                self.held_back.append(line.decode(errors="replace").rstrip())


def _reason_of_failure(lines: list[str]) -> str:
    """The line with the cause: an exception if there is one, else the first complaint."""
    thrown = [line for line in lines if line.startswith("Exception in ")]
    causes = [line for line in lines if line and not line.startswith("WARNING")]
    if thrown or not causes:
        causes = [*thrown, "it gave no reason"]
    return f"Spark did not start (it needs Java 17 or later, JAVA_HOME or on the PATH): {causes[0]}"
