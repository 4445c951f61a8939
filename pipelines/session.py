"""The one place that starts Spark: with Delta Lake, in UTC, and silent.

Settings stand in conf/spark-defaults.conf, each with its reason. Under spark-submit the JVM is
already there and what its command line set stays; started from Python, the JVM is launched here.
On a cluster this project's code is sent to the executors (pipelines/code_archive.py).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TypeAlias

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from kip_replay.pipelines import code_archive, delta_jars

# Made at set-up by pipelines/class_archive.py; where it is missing, starting takes longer.
CLASS_ARCHIVE = delta_jars.SPARK_JARS_DIR.parent / "spark-classes.jsa"

SettingValue: TypeAlias = str | int | float | bool


class SparkStartError(RuntimeError):
    """Spark could not be started; the message is one sentence for the user."""


def spark_session(
    app_name: str,
    *,
    warehouse: str | Path | None = None,
    conf_overrides: Mapping[str, SettingValue] | None = None,
) -> SparkSession:
    """The session to use: the active one if there is one, else a new one.

    `conf_overrides` wins over the command line of spark-submit, which wins over
    conf/spark-defaults.conf. An active session keeps its settings, but for the overrides that can
    be changed while it runs.
    """
    overrides = {key: _as_text(value) for key, value in (conf_overrides or {}).items()}
    active = SparkSession.getActiveSession()
    if active is not None:
        for key, value in overrides.items():
            if active.conf.isModifiable(key):
                active.conf.set(key, value)
        return active

    if warehouse is not None:
        overrides["spark.sql.warehouse.dir"] = str(Path(warehouse).absolute())
    overrides["spark.app.name"] = app_name
    settings = read_settings()
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM and waits there
        SparkContext._ensure_initialized()
        del settings["spark.driver.memory"]  # too late for it
        settings |= dict(SparkConf().getAll())
    settings |= overrides

    if settings["spark.master"].startswith("local"):
        # Workers on this machine are this interpreter, not whichever python3 comes first.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    if _jvm_is_running():
        _require_delta(settings["spark.sql.extensions"])
    else:
        _launch_jvm(settings)
    builder = SparkSession.Builder()
    for key, value in settings.items():
        builder.config(key, value)
    session = builder.getOrCreate()
    code_archive.ship(session)
    return session


def conf_dir() -> Path:
    """The folder of this project's settings."""
    return code_archive.code_root() / code_archive.SETTINGS


def read_settings(path: Path | None = None) -> dict[str, str]:
    """Settings of a file in the form of spark-defaults.conf: key, blanks, value; # comments."""
    path = path or conf_dir() / "spark-defaults.conf"
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return dict(pairs)


def _as_text(value: SettingValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _jvm_is_running() -> bool:
    # It outlives a session of this process that was stopped.
    return SparkContext._gateway is not None


def _require_delta(extensions: str) -> None:
    jvm = SparkContext._jvm
    assert jvm is not None, "a running JVM is connected"
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(extensions.split(",")[0]):
        raise SparkStartError(
            "Delta's jars are not on Spark's class path: use the spark-submit of .venv after "
            f"`make setup`, or add --packages {delta_jars.maven_coordinates()}."
        )


def _launch_jvm(settings: Mapping[str, str]) -> None:
    """Starts the JVM and its SparkContext, showing what the JVM says only if it does not come up.

    Spark's own launch would let through lines that no setting silences ("Using incubator
    modules", Ivy's report).
    """
    # The Spark of this Python: another one has other jars, and none of Delta's.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    if settings["spark.master"].startswith("local"):
        # Machines whose host name does not resolve, or only to a loopback address, start too.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    conf.set("spark.driver.extraJavaOptions", java_options(settings))
    if not delta_jars.are_installed():
        print(
            "Delta's jars are not set up (`make setup` does it once): asking Maven Central.",
            file=sys.stderr,
        )
        conf.set("spark.jars.packages", delta_jars.maven_coordinates())

    # They print every failed analysis as JSON, besides raising it.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)

    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as jvm_stderr:
        relay = _Relay(os.fdopen(read_end, "rb"))
        try:
            gateway = launch_gateway(conf, {"stderr": jvm_stderr})
        except PySparkRuntimeError as error:
            raise SparkStartError(_reason_of_failure(relay.held_back)) from error
    relay.open()
    SparkContext(gateway=gateway, conf=conf)


def java_options(settings: Mapping[str, str]) -> str:
    """The options that need a path of this clone, before those that the settings have."""
    options = [f"-Dlog4j2.configurationFile={(conf_dir() / 'log4j2.properties').as_uri()}"]
    if CLASS_ARCHIVE.is_file():
        # auto: an archive of another Java or of other jars is ignored, and -Xlog: without a word.
        options += [f'"-XX:SharedArchiveFile={CLASS_ARCHIVE}"', "-Xshare:auto", "-Xlog:cds=off"]
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
                os.write(2, line)  # not sys.stderr: that is what an inherited stderr would do
            else:
                self.held_back.append(line.decode(errors="replace").rstrip())


def _reason_of_failure(lines: list[str]) -> str:
    """The line that tells why: an exception if there is one, else the first complaint."""
    thrown = [line for line in lines if line.startswith("Exception in ")]
    told = [line for line in lines if line and not line.startswith("WARNING")]
    if thrown or not told:
        told = [*thrown, "it gave no reason"]
    return f"Spark did not start (it needs Java 17 or later, JAVA_HOME or on the PATH): {told[0]}"
