"""Explains a failure that no step foresaw in a sentence; else writes its traceback to a file."""

import errno
import sys
import tempfile
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kip_replay.pipelines.printable import visible
from kip_replay.pipelines.storage import is_uri
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.tables import Warehouse, made_anew
from kip_replay.replay.tables import TABLES

#: No space, the user's share of it used up, a file larger than the user may write.
_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: How the system says them; Java and workers hand on the words alone.
_WORDS = ("No space left on device", "Disk quota exceeded", "File too large")

#: What Python, Java, Arrow, zstd and the system say where there is no more memory, and where the
#: system has ended a worker, what starts workers ("Stream closed"), or Java for it.
_WORDS_OF_MEMORY = (
    "Cannot allocate memory",
    "MemoryError",
    "OutOfMemoryError",
    "Python worker exited unexpectedly",
    "process pool was terminated abruptly",
    "java.io.IOException: Stream closed",
    "Resource temporarily unavailable",
    "ZSTD_DCtx create failed",
    "bad_alloc",
    "malloc of size",
    "realloc of size",
)


def no_space(warehouse: str) -> str:
    return (
        f"there is no space left on the disk of the warehouse {warehouse}, or on that of "
        f"temporary files ({tempfile.gettempdir()}): make some and run the same command again, "
        "which completes what is missing"
    )


def known_cause(error: Exception, warehouse: str) -> str | None:
    """Explains an error in other words: a disk, memory, rights, a damaged file."""
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
    return _damage(warehouse)


def _damage(warehouse_path: str) -> str | None:
    """Reads the tables of a warehouse, those of a store no further than their logs.

    Returns a sentence about the first that cannot be read.
    """
    warehouse = Warehouse(warehouse_path)
    for table in filter(warehouse.exists, TABLES.values()):
        uri = warehouse.uri_of(table)
        try:
            rows = commits.dataset(DeltaTable(uri), uri, table)
            for _ in () if is_uri(uri) else rows.to_batches():
                pass
        except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            return f"{uri} cannot be read ({reason}): {made_anew(table, uri)}"
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


def is_memory_full(error: BaseException) -> bool:
    """Returns whether the error, or its cause, is that memory was short, or a process gone."""
    return any(
        isinstance(cause, MemoryError | ConnectionRefusedError)
        or _is_java_gone(cause)
        or any(words in str(cause) for words in _WORDS_OF_MEMORY)
        for cause in causes(error)
    )


def _is_java_gone(error: BaseException) -> bool:
    """A call that nobody returned from: what Java has thrown itself has a trace."""
    kinds = [kind.__name__ for kind in type(error).__mro__]  # py4j need not be there
    return "Py4JNetworkError" in kinds or (kinds[0] == "Py4JError" and "Trace:" not in str(error))


def is_disk_full(error: BaseException) -> bool:
    return any(
        (isinstance(cause, OSError) and cause.errno in _ERRNOS)
        or any(words in str(cause) for words in _WORDS)
        for cause in causes(error)
    )


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that led to it."""
    seen: set[int] = set()
    next_one: BaseException | None = error
    while next_one is not None and id(next_one) not in seen:
        seen.add(id(next_one))
        yield next_one
        next_one = next_one.__cause__ or next_one.__context__
