"""Begins Spark's Python workers, before anything else of this package is imported.

For executors, to whom a zip of the code is sent, it stands for the package in it (``kip_replay``):
it unpacks the zip beside it, once. Texts and settings are files beside the modules, which a module
in a zip does not have.

On this machine it is the program that forks workers, with pyspark as it is installed: Spark puts a
zip of pyspark before it on the path, out of which every module takes longer to import; and what
this package imports is imported once, instead of in each worker.
"""

import importlib
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

if __name__ == "kip_replay":
    archive = Path(__file__).parent
    folder = archive.with_suffix("")
    if not folder.exists():
        own = Path(tempfile.mkdtemp(dir=archive.parent))
        zipfile.ZipFile(archive).extractall(own)
        with suppress(OSError):  # another worker was first
            own.rename(folder)
    sys.path.insert(0, str(folder / "code"))
    del sys.modules[__name__]  # whoever imports this gets the package
    importlib.import_module(__name__)
elif __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith("pyspark.zip")]
    importlib.import_module("pyspark.daemon").manager()
