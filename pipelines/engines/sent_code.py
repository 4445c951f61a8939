"""Stands for the package in the zip that executors are sent: unpacks it beside the zip, once.

Texts and settings are files beside the modules, which a module in a zip does not have.
"""

import importlib
import shutil
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path


def unpacked(archive: Path) -> Path:
    """The folder with what an archive holds, whole: another task may unpack it as well."""
    folder = archive.with_suffix("")
    if not folder.exists():
        own = tempfile.mkdtemp(dir=archive.parent)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(own)
        with suppress(OSError):  # it is there by now
            Path(own).rename(folder)
        shutil.rmtree(own, ignore_errors=True)
    return folder


if __name__ == "kip_replay":
    sys.path.insert(0, str(unpacked(Path(__file__).parent) / "code"))
    del sys.modules[__name__]  # whoever imports this gets the package
    importlib.import_module(__name__)
