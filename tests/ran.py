"""A command as a process, to its end."""

import os
import subprocess
from pathlib import Path


def ran(
    *command: object, cwd: Path | None = None, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What it printed, and its status, in this environment and more."""
    words, variables = [*map(str, command)], os.environ | environment
    pipes = {"capture_output": True, "text": True}
    return subprocess.run(words, cwd=cwd, env=variables, check=check, **pipes)
