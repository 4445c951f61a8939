"""A fifth rule, the least that works, and the project with it in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from small_logs import REPOSITORY

NAME = "sooner_fetches"
_TOY = Path(__file__).resolve().parent


def install(root: Path) -> Path:
    """The project in ``root`` as a package of its own, and in it the toy's two folders."""
    for top in ("conf", "jobs", "pipelines"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / top, root / "kip_replay" / top, ignore=ignored)
    shutil.copy(REPOSITORY / "__init__.py", root / "kip_replay")
    (root / "kip_replay" / "replay").mkdir()
    for each in (REPOSITORY / "replay").iterdir():  # linked: what is compiled is kept beside it
        (root / "kip_replay" / "replay" / each.name).symlink_to(each)
    for side in ("pipelines", "replay"):
        shutil.copytree(_TOY / side, root / "kip_replay" / side, dirs_exist_ok=True)
    return root


def python(installed: Path, *arguments: str | Path) -> str:
    """What Python prints there. 3: a check failed, which a log of a few seconds leads to."""
    environment = {**os.environ, "PYTHONPATH": f"{installed}:{REPOSITORY}"}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout
