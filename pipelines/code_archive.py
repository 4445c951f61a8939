"""This project's own code as one zip file: what a cluster's machines need of it.

On a cluster, rules and parsers run in Python workers on machines that have no clone. The session
sends them this archive (``ship``), so that executors always run the driver's own code. Nothing
needs to be named for that; whoever wants the driver itself to run from an archive (an image, a
scheduler that knows only files) writes one and gives it to spark-submit:

    python -m pipelines.code_archive replay.zip
    spark-submit --py-files replay.zip jobs/run.py ...

Python imports modules out of a zip, but templates and settings are files and want to be opened.
``code_root`` is the folder where they are: the clone, or the archive unpacked.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

PACKAGES = ("jobs", "pipelines", "replay")
#: Beside the packages: settings that jobs read.
SETTINGS = "conf"
_NAME = "kafka-protocol-replay.zip"
_LEFT_OUT = ("__pycache__",)
#: The least that zip can say: equal code gives an equal archive.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_folders: list[tempfile.TemporaryDirectory[str]] = []


@cache
def code_root() -> Path:
    """The folder that holds the packages and ``conf``."""
    root = Path(__file__).resolve().parent.parent
    if not root.is_file():
        return root
    folder = _own_folder()
    with zipfile.ZipFile(root) as archive:
        archive.extractall(folder)
    return folder


def write_archive(path: Path) -> Path:
    """Writes the archive to ``path``, which it returns."""
    root = code_root()
    files = [
        file
        for folder in (*PACKAGES, SETTINGS)
        for file in sorted((root / folder).rglob("*"))
        if file.is_file() and not any(part in _LEFT_OUT for part in file.parts)
    ]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            name = zipfile.ZipInfo(file.relative_to(root).as_posix(), _EPOCH)
            archive.writestr(name, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


def ship(spark: SparkSession) -> None:
    """Sends the code to executors on other machines; those of ``local`` share ours."""
    context = spark.sparkContext
    if context.getConf().get("spark.master", "local").startswith("local"):
        return
    # Executors that start later ask the driver for it then.
    context.addPyFile(str(write_archive(_own_folder() / _NAME)))


def _own_folder() -> Path:
    """An empty folder that is there until this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="kafka-protocol-replay-")
    _folders.append(folder)
    return Path(folder.name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m pipelines.code_archive FILE.zip")
    print(write_archive(Path(sys.argv[1])))
