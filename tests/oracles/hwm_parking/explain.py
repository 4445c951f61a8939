"""The open-loop check: could the rule have given the answer that was recorded?"""

from __future__ import annotations

from collections.abc import Iterable

from .leader import Completion
from .metadata_log import UNKNOWN_OFFSET, WAKE_SPREAD_US, RecordedFetch, Timeline

#: Stamps are cut to milliseconds, so two derived times of one event differ by up to this.
STAMP_SLACK_US = 2_000
#: The longest that the leader may take over an answer that is due and still be explained.
HANDLING_SLACK_US = 100_000


def explain(
    row: RecordedFetch, log_end_offset: Timeline, high_watermark: Timeline
) -> tuple[Completion, bool]:
    """Could the rule have given the recorded answer? -> (completion, was it parked).

    ``unexplained`` unless what the answer shows had happened when it was built, nothing was due
    more than ``HANDLING_SLACK_US`` before, and the high watermark told was the leader's at some
    moment between the FETCH and its answer. A leader without a high watermark is still starting
    (election, first flush): its thread may be busy for longer.
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
    completion = _shown(row, causes)
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


def woke_everyone(row: RecordedFetch, others: Iterable[RecordedFetch]) -> bool:
    """Was an answer that is early, empty and no news part of a wake of everyone who was parked?

    ``KafkaRaftClient.flushLeaderLog`` completes all FETCHes at or below the log end offset, also
    where the drain before it returned no batch. No KIP has that; the check is that nobody who was
    parked then stayed so. ``others`` are the leader's answers around that time.
    """
    before, after = row.built_us - WAKE_SPREAD_US, row.built_us + WAKE_SPREAD_US
    early = row.told and not row.record_bytes and row.built_us < row.dequeued_us + row.max_wait_us
    no_news = row.response_high_watermark <= row.high_watermark
    return (
        early and no_news and not any(o.dequeued_us < before and o.built_us > after for o in others)
    )


def _shown(row: RecordedFetch, causes: dict[Completion, int]) -> Completion:
    """What an answer shows by itself: records, a wait that was over, or news."""
    if row.record_bytes > 0:
        return Completion.RECORDS
    if row.built_us >= causes[Completion.TIMEOUT] - STAMP_SLACK_US:
        return Completion.TIMEOUT
    return Completion.HIGH_WATERMARK
