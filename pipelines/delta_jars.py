"""Where Delta Lake's jars are: beside Spark's own, or to be fetched by Spark when it starts.

pip installs Delta's Python side only. Set-up (``tools/delta_jars.py``) puts the jars beside
Spark's, on the class path of whatever starts this Spark; elsewhere each start asks Maven Central.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pyspark
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

SPARK_JARS_DIR = Path(pyspark.__file__).parent / "jars"

# Names what was added to SPARK_JARS_DIR, so that another version can take it away again.
MANIFEST = SPARK_JARS_DIR / "delta-jars.txt"


def maven_coordinates() -> str:
    """What `spark-submit --packages` needs for the installed delta-spark, by its own account."""
    options = configure_spark_with_delta_pip(SparkSession.Builder())._options
    return str(options["spark.jars.packages"])


def are_installed() -> bool:
    """Whether the jars of the installed delta-spark lie beside those of Spark."""
    delta_spark = f"delta-spark_*-{version('delta-spark')}.jar"
    return MANIFEST.is_file() and any(SPARK_JARS_DIR.glob(delta_spark))
