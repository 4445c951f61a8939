"""What is behind a failure that no step foresaw, as a sentence; else its traceback, in a file."""

import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

from kip_replay.pipelines.printable import visible
from kip_replay.pipelines.storage import is_uri
from kip_replay.pipelines.warehouse.damage import DamagedTableError, require_readable
from kip_replay.pipelines.warehouse.disk_space import is_disk_full, is_memory_full


def no_space(warehouse: str) -> str:
    return (
        f"there is no space left on the disk of the warehouse {warehouse}, or on that of "
        f"temporary files ({tempfile.gettempdir()}): make some and run the same command again, "
        "which completes what is missing"
    )


def known_cause(error: Exception, warehouse: str) -> str | None:
    """What is behind an error in other words: a disk, memory, rights, a damaged file."""
    if is_disk_full(error):
        return no_space(warehouse)
    if is_memory_full(error):
        return (
            "there is not enough memory, or the system has ended a process for it: run the same "
            "command again with more of it free (spark.driver.memory is the share of Java), which "
            "completes what is missing"
        )
    if isinstance(error, PermissionError | NotADirectoryError | IsADirectoryError):
        return f"{error.filename} cannot be used ({error.strerror}): correct its rights or its name"
    if warehouse == tempfile.gettempdir():  # no warehouse was named
        return None
    try:
        require_readable(warehouse)
    except DamagedTableError as damage:
        return str(damage)
    return None


def keep_traceback(name: str, warehouse: str) -> Path:
    """Writes the traceback under the warehouse, or where temporary files go if that fails."""
    text = traceback.format_exc()
    file_name = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.log"
    own = [] if is_uri(warehouse) else [Path(warehouse) / "_logs"]
    for folder in (*own, Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file_name).write_text(text, encoding="utf-8")
            return folder / file_name
        except OSError:
            continue
    for line in text.splitlines():
        print(visible(line), file=sys.stderr)
    return Path("stderr")
