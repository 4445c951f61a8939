"""Which errors come of a full disk or a full memory, by what Python, Java, Arrow and zstd say."""

import errno

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from kip_replay.jobs._failures import is_disk_full, is_memory_full

DISK = [
    OSError(errno.ENOSPC, "written"),
    OSError(errno.EFBIG, "written"),
    RuntimeError("java.io.IOException: No space left on device"),
]
MEMORY = [
    MemoryError(),
    pa.ArrowMemoryError("malloc of size 64 failed"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    OSError("ZSTD_DCtx create failed"),
    RuntimeError("java.lang.OutOfMemoryError: Java heap space"),
    ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
    Py4JNetworkError("Answer from Java side is empty"),
    Py4JError("An error occurred while calling o49.sc"),
    RuntimeError("SparkException: Python worker exited unexpectedly (crashed)"),
]


@pytest.mark.parametrize("error", [*DISK, *MEMORY], ids=str)
def test_what_led_to_an_error_is_found(error: Exception) -> None:
    with pytest.raises(ValueError, match="the replay failed") as raised:
        raise ValueError("the replay failed") from error
    assert is_disk_full(raised.value) == (error in DISK)
    assert is_memory_full(raised.value) == (error in MEMORY)
