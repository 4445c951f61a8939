"""KIP-926: when may the leader respond to a producer, under acks=all and acks=min.insync.replicas?

"Proposed Changes", sentence by sentence:

* "firstly check if current number of in-sync replicas is greater or equal to min.insync.replicas
  value, if not, throw NotEnoughReplicasException", as acks=all does: ``is_refused``, ``refused``;
* acks=all waits "for the full set of in-sync replicas to acknowledge the record" ("Public
  Interfaces"): ``acks_all``;
* acks=-2 waits "for the number of min.insync.replicas acknowledge, and then respond to the
  producers": ``acks_min_isr``;
* "Allowing acks=min.insync.replicas producer to send idempotent/transactional data is acceptable":
  nothing here depends on that.

Both end after timeoutMs or when the leader is lost. What the log leaves open has a reason.
"""

from __future__ import annotations

from typing import NamedTuple

from kip_replay.replay.min_isr_acks.compiled import compiled
from kip_replay.replay.min_isr_acks.levels import COMMITTED, COPIED, level_of, passed, responded_at
from kip_replay.replay.min_isr_acks.ordering import least_of, most_of
from kip_replay.replay.min_isr_acks.partition_log import APPLY_US_MAX
from kip_replay.replay.min_isr_acks.reasons import (
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
)
from kip_replay.replay.min_isr_acks.state import NOWHERE, NULL, UNKNOWN_MIN_ISR, Array, Span, State

#: Positions in ``REASONS``, as compiled functions carry them.
_ISR_NOT_IN_LOG, _MIN_ISR_NOT_IN_LOG, _OFFSET_NOT_IN_LOG, _NOTHING_APPENDED = 1, 2, 3, 4
_REFUSED_AS_RECORDED, _LEADER_LOST, _FENCED_WHEN, _LOG_ENDED = 5, 6, 7, 8
#: The leader's own copy was enough.
ALONE = -2


class Response(NamedTuple):
    """When a producer would have been responded to for one partition, and with which error.

    Times are microseconds; ``at_us`` and its bounds are NULL if unknown, for ``reason`` (a code).
    ``passed_us``: when enough replicas had the batch, maybe after the response (a timeout), maybe
    before it (``consumers``); ``passing`` is how: a position, ``ALONE`` or NOWHERE.
    """

    at_us: int
    earliest_us: int
    latest_us: int
    error: int
    passed_us: int
    passing: int
    reason: int


@compiled
def _at(at_us: int, error: int, passed_us: int, passing: int) -> Response:
    return Response(at_us, at_us, at_us, error, passed_us, passing, 0)


@compiled
def _unknown(reason: int) -> Response:
    return Response(NULL, NULL, NULL, NULL, NULL, NOWHERE, reason)


# --- "firstly check if current number of in-sync replicas is greater or equal" -------------------


@compiled
def is_refused(s: State, b: int, variant: int) -> bool:
    """Whether a batch is responded to without an append, or may not have been appended."""
    batch, k = s.batches[b], s.batch_min_isrs[b, variant]
    if k == UNKNOWN_MIN_ISR or batch.isr < 0 or s.set_sizes[batch.isr] < k:
        return True
    if batch.base_offset == NULL:
        return bool(batch.leads == 0)
    return bool(batch.base_offset < 0)


@compiled
def refused(s: State, b: int, variant: int) -> Response:
    """The response for a batch that ``is_refused`` (``Partition.appendRecordsToLeader``)."""
    batch, k = s.batches[b], s.batch_min_isrs[b, variant]
    if k == UNKNOWN_MIN_ISR:
        return _unknown(_MIN_ISR_NOT_IN_LOG)
    if batch.base_offset != NULL and batch.base_offset < 0 and batch.leads == 0:
        return _at(batch.appended_us, NOT_LEADER_OR_FOLLOWER, NULL, NOWHERE)
    if batch.isr < 0:
        return _unknown(_ISR_NOT_IN_LOG)
    isr_size = s.set_sizes[batch.isr]
    if isr_size < k:
        return _at(batch.appended_us, NOT_ENOUGH_REPLICAS, NULL, NOWHERE)
    if batch.base_offset == NULL:
        return _unknown(_LEADER_LOST)
    # min.insync.replicas as the recorded broker had it is the first variant's.
    if isr_size < s.batch_min_isrs[b, 0]:
        return _unknown(_REFUSED_AS_RECORDED)
    return _unknown(_NOTHING_APPENDED)


# --- "If yes, we wait for the number of min.insync.replicas acknowledge, and then respond" -------


@compiled
def acks_all(s: State, b: int, variant: int, timeout_us: int) -> Response:
    """acks=all: the high watermark passes the batch (``Partition.checkEnoughReplicasReachOffset``).

    Never NOT_ENOUGH_REPLICAS_AFTER_APPEND: while the ISR is too small, the high watermark stands
    still, so that a producer times out.
    """
    return _first_of(s, b, variant, COMMITTED, timeout_us)


@compiled
def acks_min_isr(s: State, b: int, variant: int, timeout_us: int) -> Response:
    """acks=-2: min.insync.replicas replicas have the batch, the leader among them."""
    return _first_of(s, b, variant, COPIED, timeout_us)


@compiled
def _first_of(s: State, b: int, variant: int, which: int, timeout_us: int) -> Response:
    """The first of: enough replicas have it, leader lost, timed out (``DelayedProduce``)."""
    batch = s.batches[b]
    passing, reason = _passing(s, b, variant, which)
    if reason:
        return _unknown(reason)
    appended_us, lost_us = batch.appended_us, batch.lost_us
    deadline_us = appended_us + timeout_us
    passed_us = NULL
    if passing != NOWHERE:
        span = _span(s, b, variant, which, passing)
        if passing == ALONE and span.at_us <= appended_us:
            return _at(appended_us, NONE, appended_us, ALONE)
        # No response before the handler of the PRODUCE is done.
        passed_us = max(span.at_us, appended_us)
        if passing != ALONE:
            span = responded_at(s, passing)
        at_us = max(span.at_us, appended_us)
        if at_us <= (deadline_us if lost_us == NULL else min(deadline_us, lost_us)):
            earliest_us = max(span.earliest_us, appended_us)
            latest_us = max(span.latest_us, appended_us)
            return Response(at_us, earliest_us, latest_us, NONE, passed_us, passing, 0)
    if lost_us != NULL and lost_us < deadline_us:
        if batch.lost_when_unknown:
            return _unknown(_LEADER_LOST)
        latest_us = lost_us + APPLY_US_MAX
        return Response(lost_us, lost_us, latest_us, NOT_LEADER_OR_FOLLOWER, NULL, NOWHERE, 0)
    return _at(deadline_us, REQUEST_TIMED_OUT, passed_us, passing)


@compiled
def visible_us(s: State, b: int, variant: int) -> int:
    """When consumers could see an appended batch, whatever its producer received, or NULL."""
    appended_us = s.batches[b].appended_us
    passing, _ = _passing(s, b, variant, COMMITTED)
    if passing == NOWHERE:
        return NULL
    return int(max(_span(s, b, variant, COMMITTED, passing).at_us, appended_us))


# --- what the log leaves open --------------------------------------------------------------------


@compiled
def certain(response: Response, appended_us: int, doubts: Array, front_us: int) -> Response:
    """Take back what the log's end or an unclear fencing leaves open.

    ``doubts`` has a row for each: since when and until when (``brokers.Doubt``).
    """
    if response.at_us == NULL:
        return response
    if response.error == REQUEST_TIMED_OUT and response.at_us > front_us:
        return _unknown(_LOG_ENDED)
    for i in range(len(doubts)):
        if appended_us < doubts[i, 1] and doubts[i, 0] <= response.at_us <= doubts[i, 1]:
            return _unknown(_FENCED_WHEN)
    return response


@compiled
def _passing(s: State, b: int, variant: int, which: int) -> tuple[int, int]:
    """When a level passed a batch, and a reason where its unlogged base offset leaves it open."""
    batch = s.batches[b]
    if batch.base_offset != NULL and batch.base_offset < 0:
        return NOWHERE, 0
    level = level_of(s, batch.level_set, variant, which)
    least, most = least_of(s, b), most_of(s, b)
    first = passed(s, level, least)
    alone_us = s.alone[b, 2 * variant + which].at_us
    if alone_us != NULL:
        at_append = alone_us <= batch.appended_us
        if at_append or first == NOWHERE or alone_us <= s.passings[first].at_us:
            return ALONE, 0
    if least == most or first == NOWHERE:
        return first, 0
    if most == NULL or most < least or batch.is_doubtful:
        return NOWHERE, _OFFSET_NOT_IN_LOG
    last = passed(s, level, most)
    if last != NOWHERE:
        one, other = s.passings[first], s.passings[last]
        same = one.at_us == other.at_us and one.earliest_us == other.earliest_us
        if same and one.latest_us == other.latest_us:
            return last, 0
    return NOWHERE, _OFFSET_NOT_IN_LOG


@compiled
def _span(s: State, b: int, variant: int, which: int, passing: int) -> Span:
    """When enough replicas had a batch, however it is known."""
    one = s.alone[b, 2 * variant + which]
    if passing == ALONE:
        return Span(one.at_us, one.earliest_us, one.latest_us)
    other = s.passings[passing]
    return Span(other.at_us, other.earliest_us, other.latest_us)
