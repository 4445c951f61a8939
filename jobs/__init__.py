"""The commands: ``python -m jobs.run --help``, or ``spark-submit jobs/run.py --help``."""

import sys
from pathlib import Path


def _forget_folder_of_script() -> None:
    """Python finds modules beside the script first: jobs/replay.py would hide the package."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    folder = Path(script).resolve().parent if script else None
    if folder is not None and folder.name == __name__:
        sys.path[:] = [place for place in sys.path if Path(place).resolve() != folder]


_forget_folder_of_script()
