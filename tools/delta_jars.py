"""Delta Lake's jars, for whoever reads ``format("delta")``: fetched once, at set-up.

pip installs Delta's Python side only. Put beside Spark's own jars, they are on the class path of
whatever starts this Spark (``kip-replay``, ``spark-submit``, a notebook) with no option given.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from kip_replay.pipelines.engines.session import SPARK_HOME

SPARK_JARS_DIR = SPARK_HOME / "jars"
# Names what was added to SPARK_JARS_DIR, so that another version can take it away again.
MANIFEST = SPARK_JARS_DIR / "delta-jars.txt"
# In the form of sha256sum. Ivy compares a jar with a checksum of the server that it came from.
CHECKSUMS = Path(__file__).with_suffix(".sha256")


def install() -> None:
    delta_spark = f"delta-spark_*-{version('delta-spark')}.jar"
    if MANIFEST.is_file() and any(SPARK_JARS_DIR.glob(delta_spark)):
        return
    if MANIFEST.is_file():
        for name in MANIFEST.read_text().split():
            (SPARK_JARS_DIR / name).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as ivy_dir:
        _resolve(Path(ivy_dir))
        # Ivy names a jar <organisation>_<artifact>-<version>.jar; Spark's folder has no prefix.
        jars = {jar: jar.name.split("_", 1)[1] for jar in Path(ivy_dir, "jars").glob("*.jar")}
        _require_known(jars)
        # The manifest first: a copy that is cut short is then taken away by the next attempt.
        MANIFEST.write_text("".join(f"{name}\n" for name in sorted(jars.values())))
        for jar, name in jars.items():
            shutil.copyfile(jar, SPARK_JARS_DIR / name)


def _require_known(jars: Mapping[Path, str]) -> None:
    """Stops unless every jar is, byte for byte, one that ``CHECKSUMS`` names."""
    known = {line.split()[1]: line.split()[0] for line in CHECKSUMS.read_text().splitlines()}
    for jar, name in sorted(jars.items()):
        if hashlib.sha256(jar.read_bytes()).hexdigest() != known.get(name):
            raise SystemExit(
                f"{name} is not the jar that this program was tested with ({CHECKSUMS}): "
                "nothing was installed"
            )


def _resolve(ivy_dir: Path) -> None:
    """Lets spark-submit resolve the jars into `ivy_dir`/jars, for a program that does nothing."""
    options = configure_spark_with_delta_pip(SparkSession.Builder())._options
    packages = options["spark.jars.packages"]
    # What Spark ships is neither fetched (74 of 87 MB) nor laid beside it in another version.
    shipped = {jar.stem.rsplit("-", 1)[0] for jar in SPARK_JARS_DIR.glob("*.jar")}
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--conf", f"spark.jars.ivy={ivy_dir}"]
    submit += ["--exclude-packages", ",".join(f"*:{artifact}" for artifact in sorted(shipped))]
    submit += ["--packages", packages, str(Path(__file__).with_name("__init__.py"))]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(submit, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        reasons = [line.strip() for line in lines if "Exception" in line or "not found" in line]
        raise SystemExit(
            f"Delta's jars ({packages}) could not be fetched from Maven Central: "
            f"{reasons[-1] if reasons else 'spark-submit gave no reason'}"
        )


if __name__ == "__main__":
    install()
