"""Stands for the package in the zip that executors are sent: unpacks it beside the zip, once.

Texts and settings are files beside the modules, which a module in a zip does not have.
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
