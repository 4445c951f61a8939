"""Drains without a batch, as the responses of a leader show them.

The active controller prepares records (``prepareAppend``) and allows to drain them when it has
applied them itself (``schedulePreparedAppend``). If ``controller.quorum.append.linger.ms`` is over
in between, because its thread stalls, ``KafkaRaftClient.maybeAppendBatches`` drains no batch, and
its ``flushLeaderLog`` completes all who are parked at the log's end all the same: early, empty. In
no KIP, and in every release.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from .explain import HANDLING_SLACK_US, LATE_STAMP_US, Causes, shown
from .kip_1166 import Completion
from .metadata_log import WAKE_SPREAD_US, RecordedFetch

#: What could not be drained is appended within this (the longest recorded took 176 ms).
DRAIN_APPEND_US = 250_000


def could_be_drained(row: RecordedFetch) -> bool:
    """Was it completed early and empty?"""
    is_valid = not (row.is_diverging or row.is_snapshot)
    return is_valid and shown(row) is Completion.HIGH_WATERMARK


class Drains:
    """Finds them in FETCHes that the leader completed, in order of built_us."""

    def __init__(self, rows: Sequence[RecordedFetch]) -> None:
        self._rows = rows

    @cached_property
    def _earliest_us(self) -> list[int]:
        """When the earliest FETCH was dequeued of those completed from each on."""
        dequeued = (row.dequeued_us for row in reversed(self._rows))
        return [*accumulate(dequeued, min)][::-1]

    def completed(self, row: RecordedFetch, causes: Causes) -> bool:
        """Did a drain without a batch complete a FETCH? The high watermark carried is not read.

        The response is early and empty, the high watermark had not moved, nobody who was parked
        stayed so, and the append follows.
        """
        built = row.built_us
        if not could_be_drained(row):
            return False
        appended = causes.get(Completion.RECORDS, built)
        # What moves once the records are there is no cause, however late its stamp.
        moved = causes.get(Completion.HIGH_WATERMARK, appended)
        return (
            built < appended <= built + DRAIN_APPEND_US
            and (moved >= appended or moved > built + LATE_STAMP_US)
            and self._all_completed(built)
        )

    def _all_completed(self, built: int) -> bool:
        """Were all who had been parked completed, empty, as fast as the thread can?"""
        first, last = (
            bisect_right(self._rows, at, key=lambda each: each.built_us)
            for at in (built, built + HANDLING_SLACK_US)
        )
        parked = built - WAKE_SPREAD_US
        stayed = self._earliest_us[last : last + 1]
        return (not stayed or stayed[0] >= parked) and not any(
            each.record_bytes and each.dequeued_us < parked for each in self._rows[first:last]
        )
