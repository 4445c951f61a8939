"""Forks Spark's Python workers on this machine, with pyspark as it is installed.

Spark puts a zip of pyspark before it on the path, out of which every module takes longer to import;
and what this package imports is imported once, instead of in each worker.
"""

import sys

sys.path[:] = [place for place in sys.path if not place.endswith("pyspark.zip")]

from pyspark.daemon import manager  # noqa: E402

if __name__ == "__main__":
    manager()
