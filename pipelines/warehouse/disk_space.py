"""Whether a failure, in Python, Java or a worker, comes of a disk or a memory that is full."""

import errno
from collections.abc import Iterator

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


def is_memory_full(error: BaseException) -> bool:
    """Whether the error, or one that led to it, says that memory was short, or a process gone."""
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
