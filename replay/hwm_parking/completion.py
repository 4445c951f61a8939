"""Why a FETCH was answered."""

from __future__ import annotations

from enum import StrEnum


class Completion(StrEnum):
    """Why a FETCH was answered."""

    RECORDS = "records"
    HIGH_WATERMARK = "high_watermark"
    TIMEOUT = "timeout"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"
    ERROR = "error"
    UNEXPLAINED = "unexplained"


#: The same as numbers, for kernels.
RECORDS, HIGH_WATERMARK, TIMEOUT, DIVERGING, SNAPSHOT, ERROR, UNEXPLAINED = range(7)
