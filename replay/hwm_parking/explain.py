"""The open-loop check: could the rule have given the answer that was recorded? Kernels."""

from __future__ import annotations

from .compiled import kernel
from .completion import DIVERGING, HIGH_WATERMARK, RECORDS, SNAPSHOT, TIMEOUT, UNEXPLAINED
from .metadata_log import UNKNOWN_OFFSET, WAKE_SPREAD_US
from .records import BECAUSE_EMPTY_WAKE, BECAUSE_MIDDLE, NO_REASON, Rows
from .samples import bisect_right, value_at
from .state import NEVER, State

#: Stamps are cut to milliseconds, so two derived times of one event differ by up to this.
STAMP_SLACK_US = 2_000
#: The longest that the leader may take over an answer that is due and still be explained.
HANDLING_SLACK_US = 100_000


@kernel
def explain(state: State, rows: Rows, row: int) -> None:
    """Could the rule have given the recorded answer? Decides completion, and was it parked.

    ``unexplained`` unless what the answer shows had happened when it was built, nothing was due
    more than ``HANDLING_SLACK_US`` before, and the high watermark told was the leader's at some
    moment between the FETCH and its answer. A leader without a high watermark is still starting
    (election, first flush): its thread may be busy for longer.
    """
    rows.of[row].reason = NO_REASON
    if rows.of[row].is_diverging or rows.of[row].is_snapshot:
        rows.of[row].completion = DIVERGING if rows.of[row].is_diverging else SNAPSHOT
        rows.of[row].is_parked = 0
        return
    timeline, count = state.high_watermark, state.epoch[0].high_watermarks
    at, built = rows.of[row].dequeued_us, rows.of[row].built_us
    expires = at + rows.of[row].max_wait_us
    appended = _first_above(state, rows.of[row].fetch_offset, at)
    news = _news(state, rows, row)
    # What an answer shows by itself: records, a wait that was over, or news.
    if rows.of[row].record_bytes > 0:
        completion, cause = RECORDS, appended
    elif built >= expires - STAMP_SLACK_US:
        completion, cause = TIMEOUT, expires
    else:
        completion, cause = HIGH_WATERMARK, news
    due = expires
    if appended != NEVER:
        due = min(due, appended)
    if news != NEVER:
        due = min(due, news)
    told = rows.of[row].response_high_watermark
    explained = (
        cause != NEVER
        and cause <= built + STAMP_SLACK_US
        and (built <= due + HANDLING_SLACK_US or told == UNKNOWN_OFFSET)
        and value_at(timeline, count, at - STAMP_SLACK_US, UNKNOWN_OFFSET) <= told
        and told <= value_at(timeline, count, built + STAMP_SLACK_US, UNKNOWN_OFFSET)
    )
    rows.of[row].is_parked = 1 if (due if cause == NEVER else cause) > at else 0
    rows.of[row].completion = completion if explained else UNEXPLAINED
    if not explained:
        rows.of[row].reason = _why_not(state, rows, row)


@kernel
def _first_above(state: State, offset: int, since: int) -> int:
    """When, from a time on, the leader's log first ends above an offset; NEVER if it does not."""
    timeline, count = state.log_end_offset, state.epoch[0].log_end_offsets
    place = bisect_right(timeline.value, offset, 0, count)
    return max(timeline.at[place], since) if place < count else NEVER


@kernel
def _news(state: State, rows: Rows, row: int) -> int:
    """When the leader had a high watermark to tell that the replica did not know; else NEVER."""
    if not rows.of[row].hwm_aware:
        return NEVER
    timeline, count = state.high_watermark, state.epoch[0].high_watermarks
    at = rows.of[row].dequeued_us
    if rows.of[row].high_watermark < value_at(timeline, count, at, UNKNOWN_OFFSET):
        return at  # type: ignore[no-any-return]
    place = bisect_right(timeline.at, at, 0, count)
    return timeline.at[place] if place < count else NEVER


@kernel
def _why_not(state: State, rows: Rows, row: int) -> int:
    epoch = state.epoch[0]
    known = value_at(
        state.high_watermark, epoch.high_watermarks, rows.of[row].built_us, UNKNOWN_OFFSET
    )
    if known == UNKNOWN_OFFSET and epoch.epoch_start_offset < 0:
        return BECAUSE_MIDDLE
    return BECAUSE_EMPTY_WAKE if _woke_everyone(state, rows, row) else NO_REASON


@kernel
def _woke_everyone(state: State, rows: Rows, row: int) -> bool:
    """Was an answer that is early, empty and no news part of a wake of everyone who was parked?

    ``KafkaRaftClient.flushLeaderLog`` completes all FETCHes at or below the log end offset, also
    where the drain before it returned no batch. No KIP has that; the check is that nobody who was
    parked then stayed so.
    """
    built = rows.of[row].built_us
    if rows.of[row].record_bytes or built >= rows.of[row].dequeued_us + rows.of[row].max_wait_us:
        return False
    if rows.of[row].response_high_watermark > rows.of[row].high_watermark:
        return False
    for other in range(row + 1, state.epoch[0].taken):
        if (
            rows.of[other].built_us > built + WAKE_SPREAD_US
            and rows.of[other].dequeued_us < built - WAKE_SPREAD_US
            and not rows.of[other].is_decided
        ):
            return False
    return True
