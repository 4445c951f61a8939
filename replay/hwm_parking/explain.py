"""The open-loop check: could the rule have given the response that was recorded?"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from ..model.raft import UNKNOWN_OFFSET, Completion
from .metadata_log import WAKE_SPREAD_US, RecordedFetch
from .timelines import Timeline

#: Stamps are cut to milliseconds, so two derived times of one event differ by up to this.
STAMP_SLACK_US = 2_000
#: A line is stamped once its JSON is built: a stall before that makes all its derived times late.
LATE_STAMP_US = 25_000
#: The longest that the leader takes over a response that is due, unless its thread stalls.
HANDLING_SLACK_US = 100_000

#: What could not be drained is appended within this (the longest recorded took 176 ms).
DRAIN_APPEND_US = 250_000

#: When each cause that the rule knows would have completed a FETCH.
Causes = dict[Completion, int]


def causes_of(row: RecordedFetch, log_end_offset: Timeline, high_watermark: Timeline) -> Causes:
    """What completes a FETCH by the rule, whatever its response carries."""
    at = row.dequeued_us
    causes = {Completion.TIMEOUT: at + row.max_wait_us}
    appended = log_end_offset.first_above(row.fetch_offset, at)
    if appended is not None:
        causes[Completion.RECORDS] = appended
    if row.hwm_aware:
        behind = row.high_watermark < high_watermark.value(at)
        moved = at if behind else high_watermark.next_change(at)
        if moved is not None:
            causes[Completion.HIGH_WATERMARK] = moved
    return causes


def explain(
    row: RecordedFetch, causes: Causes, high_watermark: Timeline, handled: Timeline
) -> tuple[Completion, bool]:
    """Could the rule have given the recorded response? -> (completion, was it parked).

    ``unexplained`` unless what the response shows had happened when it was built, the high
    watermark it carries was the leader's at some moment between the FETCH and its response, and
    nothing that was due was kept back. A single thread handles one event after the other, so who
    is late waits for it, however long it stalls, as long as no FETCH that came after what was due
    is completed first (``handled``: the latest of those completed until a time). A leader without
    a high watermark is still starting (election, first flush), and busy.
    """
    completion = shown(row)
    if completion in (Completion.DIVERGING, Completion.SNAPSHOT):
        return completion, False
    at, built, carried = row.dequeued_us, row.built_us, row.response_high_watermark
    cause = causes.get(completion)
    # A wait begins once the thread parks the FETCH, before it handles one that came later.
    parked_us = min(built, handled.first_above(at, at) or built)
    due = min((causes | {Completion.TIMEOUT: parked_us + row.max_wait_us}).values())
    # A response that carries a move shows that the FETCH which caused it was handled before.
    slack = LATE_STAMP_US if carried > high_watermark.value(at) else STAMP_SLACK_US
    explained = (
        cause is not None
        and cause <= built + slack
        and (
            built <= due + HANDLING_SLACK_US
            or (cause <= due + HANDLING_SLACK_US and handled.value(built) <= due)
            or carried == UNKNOWN_OFFSET
        )
        and carries_one_of_its_wait(row, high_watermark)
    )
    parked = (due if cause is None else cause) > at
    return (completion if explained else Completion.UNEXPLAINED), parked


def carries_one_of_its_wait(row: RecordedFetch, high_watermark: Timeline) -> bool:
    """Was the high watermark carried the leader's at some moment of the FETCH's wait?"""
    lowest = high_watermark.value(row.dequeued_us - LATE_STAMP_US)
    highest = high_watermark.value(row.built_us + LATE_STAMP_US)
    return lowest <= row.response_high_watermark <= highest


def woken_by(row: RecordedFetch, causes: Causes) -> Completion | None:
    """What the Raft thread handled when it built a response: an append, or a high watermark.

    None if it was another thread, if records were there already, or if it took too long for that.
    The high watermark carried is not read.
    """
    completion = shown(row)
    cause = causes.get(completion)
    if completion is Completion.TIMEOUT or cause is None:
        return None
    if completion is Completion.RECORDS and cause <= row.dequeued_us:
        return None
    handled = cause - LATE_STAMP_US <= row.built_us <= cause + HANDLING_SLACK_US
    return completion if handled else None


def shown(row: RecordedFetch) -> Completion:
    """What a response shows by itself: records, a wait that was over, or a high watermark."""
    if row.is_diverging or row.is_snapshot:
        return Completion.DIVERGING if row.is_diverging else Completion.SNAPSHOT
    if row.record_bytes > 0:
        return Completion.RECORDS
    if row.built_us >= row.dequeued_us + row.max_wait_us - STAMP_SLACK_US:
        return Completion.TIMEOUT
    return Completion.HIGH_WATERMARK


def completed_by_drain(row: RecordedFetch, causes: Causes, rows: Sequence[RecordedFetch]) -> bool:
    """Did a drain without a batch complete a FETCH? The high watermark carried is not read.

    The active controller prepares records (``prepareAppend``) and allows to drain them when it has
    applied them itself (``schedulePreparedAppend``). If ``controller.quorum.append.linger.ms`` is
    over in between, because its thread stalls, ``KafkaRaftClient.maybeAppendBatches`` drains no
    batch, and its ``flushLeaderLog`` completes all who are parked at the log's end all the same. In
    no KIP, and in every release. The response is early and empty, the high watermark had not moved,
    nobody who was parked stayed so or got records, and the append follows. ``rows``: all FETCHes
    that the leader completed about that time, in order of built_us.
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
