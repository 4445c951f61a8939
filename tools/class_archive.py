"""An archive of Spark's loaded classes, made at set-up, that halves the time to a first result.

A short job of Spark spends most of its seconds on loading and verifying 20,000 classes. Java can
write them to a file in the form in which it keeps them in memory (class data sharing) and map that
file at the next start. The JVM checks the archive against its own build and the class path, and
starts without it if they differ: nothing but time depends on it.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from kip_replay.jobs import run
from kip_replay.pipelines.engines.session import CLASS_ARCHIVE
from tools.delta_jars import SPARK_JARS_DIR

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "samples" / "metadata-4.1"


def is_current() -> bool:
    newest_jar = max(path.stat().st_mtime for path in (SPARK_JARS_DIR, *SPARK_JARS_DIR.iterdir()))
    return CLASS_ARCHIVE.is_file() and CLASS_ARCHIVE.stat().st_mtime >= newest_jar


def create() -> int:
    """Runs a sample and archives the classes that it loaded; returns the status of the run."""
    CLASS_ARCHIVE.unlink(missing_ok=True)  # an archive cannot be made on top of another
    # Renamed when complete: a JVM may have the old one mapped, and a cut one must not be found.
    new_archive = CLASS_ARCHIVE.with_suffix(".new")
    # spark-submit's own; -Xlog: it would list every class that it leaves out.
    os.environ["SPARK_SUBMIT_OPTS"] = f'"-XX:ArchiveClassesAtExit={new_archive}" -Xlog:disable'
    with tempfile.TemporaryDirectory() as warehouse:
        status = run.main([str(SAMPLE), "--warehouse", warehouse, "--engine", "spark"])
    if (gateway := SparkContext._gateway) is None:
        return status
    # The archive is written when the JVM ends, and it ends when its input does.
    gateway.proc.stdin.close()
    # A file cut short (a full disk) would crash the JVMs that map it.
    if gateway.proc.wait() == 0 and new_archive.is_file():
        new_archive.replace(CLASS_ARCHIVE)
    else:
        new_archive.unlink(missing_ok=True)
    return status


if __name__ == "__main__":
    sys.exit(0 if is_current() else create())
