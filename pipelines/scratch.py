"""The folder of a run for what it needs while it runs: Spark's blocks, Java's extracts, spilt rows.

A run that ends removes it. One that is killed cannot, so the next run does: whoever uses a folder
holds a lock on it, which the system releases with the process, so that no pid is needed.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from kip_replay.pipelines.errors import UserError

_PREFIX = "kip-replay-run-"


@cache
def run_folder() -> Path:
    """The folder, made at the first call; also removes those of runs that were killed."""
    root = Path(tempfile.gettempdir())
    try:
        _clear(root)
        folder, lock = _locked(root)
    except OSError as error:
        raise UserError(
            f"the folder of temporary files {root} cannot be used ({error.strerror}): correct its "
            "rights, or name another with TMPDIR"
        ) from error
    atexit.register(_remove, folder, lock)
    return folder


def _locked(root: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=root))
        with suppress(FileNotFoundError):  # cleared by another run, before there was a lock
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, lock
            os.close(lock)


def _clear(root: Path) -> None:
    """Removes the folders of this user that nobody holds."""
    for folder in root.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # no folder, not this user's, in use, or gone meanwhile
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
