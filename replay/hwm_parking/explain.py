"""The open-loop check: could the rule have given the response that was recorded?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from .kip_1166 import UNKNOWN_OFFSET, Completion
from .metadata_log import WAKE_SPREAD_US, RecordedFetch
from .timelines import Timeline

#: Stamps are cut to milliseconds, so two derived times of one event differ by up to this.
STAMP_SLACK_US = 2_000
#: The longest that the leader may take over a response that is due and still be explained.
HANDLING_SLACK_US = 100_000


def explain(
    row: RecordedFetch, log_end_offset: Timeline, high_watermark: Timeline
) -> tuple[Completion, bool]:
    """Could the rule have given the recorded response? -> (completion, was it parked).

    ``unexplained`` unless what the response shows had happened when it was built, nothing was due
    more than ``HANDLING_SLACK_US`` before, and the high watermark it carries was the leader's at
    some moment between the FETCH and its response. A leader without a high watermark is still
    starting (election, first flush): its thread may be busy for longer.
    """
    at, built = row.dequeued_us, row.built_us
    if row.is_diverging or row.is_snapshot:
        return (Completion.DIVERGING if row.is_diverging else Completion.SNAPSHOT), False
    causes = {Completion.TIMEOUT: at + row.max_wait_us}
    appended = log_end_offset.first_above(row.fetch_offset, at)
    if appended is not None:
        causes[Completion.RECORDS] = appended
    if row.hwm_aware:
        behind = row.high_watermark < high_watermark.value(at)
        moved = at if behind else high_watermark.next_change(at)
        if moved is not None:
            causes[Completion.HIGH_WATERMARK] = moved
    completion = _shown(row)
    cause = causes.get(completion)
    due = min(causes.values())
    lowest = high_watermark.value(at - STAMP_SLACK_US)
    highest = high_watermark.value(built + STAMP_SLACK_US)
    explained = (
        cause is not None
        and cause <= built + STAMP_SLACK_US
        and (built <= due + HANDLING_SLACK_US or row.response_high_watermark == UNKNOWN_OFFSET)
        and lowest <= row.response_high_watermark <= highest
    )
    parked = (due if cause is None else cause) > at
    return (completion if explained else Completion.UNEXPLAINED), parked


def _shown(row: RecordedFetch) -> Completion:
    """What a response shows by itself: records, a wait that was over, or a high watermark."""
    if row.record_bytes > 0:
        return Completion.RECORDS
    if row.built_us >= row.dequeued_us + row.max_wait_us - STAMP_SLACK_US:
        return Completion.TIMEOUT
    return Completion.HIGH_WATERMARK


class Parked:
    """Who was parked when: from FETCHes that the leader completed, in order of built_us."""

    def __init__(self, rows: Sequence[RecordedFetch]) -> None:
        self._rows = rows

    @cached_property
    def _earliest_us(self) -> list[int]:
        """When the earliest FETCH was dequeued of those completed from each on."""
        dequeued = (row.dequeued_us for row in reversed(self._rows))
        return [*accumulate(dequeued, min)][::-1]

    def all_woken(self, row: RecordedFetch) -> bool:
        """Was an early, empty response without a new high watermark one of a wake of all parked?

        ``KafkaRaftClient.flushLeaderLog`` completes all FETCHes at or below the log end offset,
        also where the drain before it returned no batch. No KIP has that; the check is that no
        FETCH that was parked then stayed so.
        """
        early = row.built_us < row.dequeued_us + row.max_wait_us
        unchanged = row.response_high_watermark <= row.high_watermark
        if row.record_bytes or not early or not unchanged:
            return False
        after = row.built_us + WAKE_SPREAD_US
        later = bisect_right(self._rows, after, key=lambda each: each.built_us)
        stayed = self._earliest_us[later : later + 1]
        return not stayed or stayed[0] >= row.built_us - WAKE_SPREAD_US
