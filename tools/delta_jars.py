"""Delta Lake's jars: fetched once, at set-up, and kept where Spark looks by itself.

pip installs Delta's Python side only. Left alone, every start of Spark would ask Ivy for the jars
(2 s and 40 lines, and a network). Put beside Spark's own jars they are on the class path of
whatever starts this Spark (`python -m jobs.run`, `spark-submit`, a notebook) with no option given.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from kip_replay.pipelines.delta_jars import (
    MANIFEST,
    SPARK_JARS_DIR,
    are_installed,
    maven_coordinates,
)


class DeltaJarsError(RuntimeError):
    """Delta's jars could not be fetched; the message is for the user."""


def install() -> list[str]:
    """Fetches Delta's jars from Maven Central and returns the file names added; [] if present."""
    if are_installed():
        return []
    _remove()
    with tempfile.TemporaryDirectory() as ivy_dir:
        _resolve(Path(ivy_dir))
        # Ivy names a jar <organisation>_<artifact>-<version>.jar; Spark's folder has no prefix.
        found = {jar: jar.name.split("_", 1)[1] for jar in Path(ivy_dir, "jars").glob("*.jar")}
        # The manifest first: a copy that is cut short is then taken away by the next attempt.
        MANIFEST.write_text("".join(f"{name}\n" for name in sorted(found.values())))
        for jar, name in found.items():
            shutil.copyfile(jar, SPARK_JARS_DIR / name)
    return sorted(found.values())


def _remove() -> None:
    if not MANIFEST.is_file():
        return
    for name in MANIFEST.read_text().split():
        (SPARK_JARS_DIR / name).unlink(missing_ok=True)
    MANIFEST.unlink()


def _resolve(ivy_dir: Path) -> None:
    """Lets spark-submit resolve the jars into `ivy_dir`/jars, as a job without set-up would."""
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.jars.packages", maven_coordinates())
    # What Spark ships is neither fetched (74 of 87 MB) nor laid beside it in another version.
    shipped = {jar.stem.rsplit("-", 1)[0] for jar in SPARK_JARS_DIR.glob("*.jar")}
    conf.set("spark.jars.excludes", ",".join(f"*:{artifact}" for artifact in sorted(shipped)))
    conf.set("spark.jars.ivy", str(ivy_dir))
    # Ivy reports at length on both streams: kept, and shown only if it fails.
    with tempfile.TemporaryFile() as report:
        try:
            gateway = launch_gateway(conf, {"stdout": report, "stderr": report})
        except PySparkRuntimeError as error:
            report.seek(0)
            lines = report.read().decode(errors="replace").splitlines()
            reasons = [line.strip() for line in lines if "Exception" in line or "not found" in line]
            raise DeltaJarsError(
                f"Delta's jars ({maven_coordinates()}) could not be fetched from Maven Central: "
                + (reasons[-1] if reasons else "spark-submit gave no reason")
            ) from error
        process = gateway.proc
        gateway.shutdown()
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    import sys

    try:
        install()
    except DeltaJarsError as error:
        sys.exit(str(error))
