"""Drains without a batch, as the responses of a leader show them.

The active controller prepares records (``prepareAppend``) and allows to drain them when it has
applied them itself (``schedulePreparedAppend``). If ``controller.quorum.append.linger.ms`` is over
in between, because its thread stalls, ``KafkaRaftClient.maybeAppendBatches`` drains no batch, and
its ``flushLeaderLog`` completes all who are parked at the log's end all the same: early, empty. In
no KIP, and in every release.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from .explain import HANDLING_SLACK_US, LATE_STAMP_US, Causes, shown
from .kip_1166 import Completion
from .metadata_log import WAKE_SPREAD_US, RecordedFetch

#: What could not be drained is appended within this (the longest recorded took 176 ms).
DRAIN_APPEND_US = 250_000


def completed_by_drain(row: RecordedFetch, causes: Causes, rows: Sequence[RecordedFetch]) -> bool:
    """Did a drain without a batch complete a FETCH? The high watermark carried is not read.

    The response is early and empty, the high watermark had not moved, nobody who was parked
    stayed so or got records, and the append follows. ``rows``: all FETCHes that the leader
    completed about that time, in order of built_us.
    """
    built = row.built_us
    # What moves once the records are there is no cause, however late its stamp.
    appended = causes.get(Completion.RECORDS, built)
    moved = causes.get(Completion.HIGH_WATERMARK, appended)
    if (
        shown(row) is not Completion.HIGH_WATERMARK
        or not built < appended <= built + DRAIN_APPEND_US
        or (moved < appended and moved <= built + LATE_STAMP_US)
    ):
        return False
    later = rows[bisect_right(rows, built, key=attrgetter("built_us")) :]
    parked = (each for each in later if each.dequeued_us < built - WAKE_SPREAD_US)
    latest = built + HANDLING_SLACK_US
    return not any(each.record_bytes or each.built_us > latest for each in parked)
