"""KIP-926: when may the leader respond to a producer, under acks=all and acks=min.insync.replicas?

"Proposed Changes", sentence by sentence:

* "firstly check if current number of in-sync replicas is greater or equal to min.insync.replicas
  value, if not, throw NotEnoughReplicasException", as acks=all does: ``refusals``;
* acks=all waits "for the full set of in-sync replicas to acknowledge the record" ("Public
  Interfaces"): ``acknowledged`` by the high watermark;
* acks=-2 waits "for the number of min.insync.replicas acknowledge, and then respond to the
  producers": ``acknowledged`` by the copied offset, then ``responses``;
* "Allowing acks=min.insync.replicas producer to send idempotent/transactional data is acceptable":
  nothing here depends on that.

Both end after timeoutMs or when the leader is lost. What the log leaves open has a reason. Every
function takes all batches at once, an entry each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..log_gaps import LOG_GAP, LogGap
from . import reasons
from .brokers import Doubt
from .holes import WRITTEN_US_MAX
from .leadership import APPLY_US_MAX, DOUBTED, LOST_BEFORE, UNKNOWN_MIN_ISR
from .levels import Level, Stands, alone_since, passing
from .log import NOWHERE, NULL, Array, Log


class Batches(NamedTuple):
    """Batches, their rows in the log, and what was known at the append.

    ``least`` and ``most`` bound the base offset, NULL: not bounded. ``min_isr`` is that of a
    variant, ``recorded_min_isr`` as the recorded broker had it. A batch is followed until
    ``until_us``.
    """

    row: Array
    appended_us: Array
    deadline_us: Array
    until_us: Array
    base_offset: Array
    least: Array
    most: Array
    is_doubtful: Array
    leads: Array
    isr_size: Array
    min_isr: Array
    recorded_min_isr: Array
    lost_us: Array
    loss: Array


class Passed(NamedTuple):
    """When enough replicas had the batches, or NULL, and the rows by which; and reasons.

    From ``decided_us`` on that is certain; NULL if it is not yet.
    """

    row: Array
    at_us: Array
    responded_us: Array
    earliest_us: Array
    latest_us: Array
    reason: Array
    decided_us: Array


class Responses(NamedTuple):
    """When producers would have been responded to, and with which error.

    ``at_us`` and its bounds are NULL if unknown, for ``reason``, a position in ``REASONS``.
    ``passed_us``: when enough replicas had the batch, maybe after the response (a timeout), maybe
    before it (``consumers``).
    """

    at_us: Array
    earliest_us: Array
    latest_us: Array
    error: Array
    reason: Array
    passed_us: Array


def _reason(text: str) -> int:
    return reasons.REASONS.index(text)


def is_appended(b: Batches) -> Array:
    return np.where(b.base_offset == NULL, b.leads != 0, b.base_offset >= 0)


def refusals(b: Batches) -> tuple[Array, Array, Array]:
    """Which batches are responded to without an append (``Partition.appendRecordsToLeader``).

    And with which error, NULL if unknown, for which reason. With acks=all and acks=-2 alike.
    """
    is_small = b.isr_size < b.min_isr
    is_unknown = (b.min_isr == UNKNOWN_MIN_ISR) | (b.isr_size == NOWHERE)
    is_turned_away = (b.base_offset == NOWHERE) & (b.leads == 0)
    causes = (
        (b.min_isr == UNKNOWN_MIN_ISR, NULL, _reason(reasons.MIN_ISR_NOT_IN_LOG)),
        (is_turned_away, reasons.NOT_LEADER_OR_FOLLOWER, 0),
        (b.isr_size == NOWHERE, NULL, _reason(reasons.ISR_NOT_IN_LOG)),
        (is_small, reasons.NOT_ENOUGH_REPLICAS, 0),
        (b.base_offset == NULL, NULL, _reason(reasons.LEADER_LOST)),
        # min.insync.replicas as the recorded broker had it is the first variant's.
        (b.isr_size < b.recorded_min_isr, NULL, _reason(reasons.REFUSED_AS_RECORDED)),
    )
    conditions = [cause[0] for cause in causes]
    error = np.select(conditions, [cause[1] for cause in causes], NULL)
    reason = np.select(
        conditions, [cause[2] for cause in causes], _reason(reasons.NOTHING_APPENDED)
    )
    return is_unknown | is_small | ~is_appended(b), error, reason


def acknowledged(b: Batches, level: Level, log: Log, stands: Stands) -> Passed:
    """When a level passed the batches (``Partition.checkEnoughReplicasReachOffset``).

    acks=all: the high watermark; acks=-2: min.insync.replicas replicas, the leader among them. Not
    known where the base offset is not, and a follower stood between its bounds.
    """
    first = _followed(passing(level, stands, b.row, b.least), b, log)
    alone = _followed(alone_since(level, stands, b.row), b, log)
    last, reason = first, np.zeros(len(first), np.int64)
    is_logged = b.least == b.most
    if not is_logged.all():
        most = np.where(is_logged, b.least, b.most)
        last = _followed(passing(level, stands, b.row, most), b, log)
        is_same = (b.most >= b.least) & ~b.is_doubtful & (last != NOWHERE)
        for us in (log.at_us, log.earliest_us, log.latest_us):
            is_same &= us[first] == us[last]
        reason[~is_logged & (first != NOWHERE) & ~is_same] = _reason(reasons.OFFSET_NOT_IN_LOG)
        first = np.where(~is_logged & is_same, last, first)
    is_alone = (alone != NOWHERE) & ((first == NOWHERE) | (alone <= first))
    reason[is_alone] = 0
    row = np.where(is_alone, alone, np.where(reason == 0, first, NOWHERE))
    last = np.where(is_alone, alone, last)
    # No response before the handler of the PRODUCE is done.
    times = (log.at_us, level.responded_us, log.earliest_us, level.latest_us)
    clipped = (np.where(row == NOWHERE, NULL, np.maximum(us[row], b.appended_us)) for us in times)
    decided_us = np.where(last == NOWHERE, NULL, level.responded_us[last])
    return Passed(*[row, *clipped, reason, decided_us])


def _followed(row: Array, b: Batches, log: Log) -> Array:
    return np.where(log.at_us[row] <= b.until_us, row, NOWHERE)


def responses(
    b: Batches, passed: Passed, doubts: Sequence[Doubt], holes: Sequence[LogGap], front_us: int
) -> Responses:
    """The first of: enough replicas have it, leader lost, timed out (``DelayedProduce``).

    Never NOT_ENOUGH_REPLICAS_AFTER_APPEND: while the ISR is too small, the high watermark stands
    still, so that a producer times out.
    """
    is_refused, refused_error, refused_reason = refusals(b)
    is_blurred = (b.loss == DOUBTED) & (b.lost_us != NULL) & (b.lost_us <= b.appended_us)
    refused_error = np.where(is_blurred, NULL, refused_error)
    refused_reason = np.where(is_blurred, _reason(LOG_GAP), refused_reason)
    lost_us = np.where(b.lost_us == NULL, NULL, np.maximum(b.lost_us, b.appended_us))
    is_lost = (lost_us != NULL) & (lost_us < b.deadline_us)
    end_us = np.where(is_lost, lost_us, b.deadline_us)
    is_in_time = (passed.row != NOWHERE) & (passed.responded_us <= end_us)
    at_us = np.where(is_in_time, passed.responded_us, end_us)
    earliest_us = np.where(is_in_time, passed.earliest_us, at_us)
    latest_us = np.where(is_in_time, passed.latest_us, at_us + APPLY_US_MAX * is_lost)
    error = np.where(is_lost, reasons.NOT_LEADER_OR_FOLLOWER, reasons.REQUEST_TIMED_OUT)
    error = np.where(is_in_time, reasons.NONE, error)
    is_before = ~is_in_time & is_lost & (b.loss == LOST_BEFORE)
    reason = np.where(is_before, _reason(reasons.LEADER_LOST), passed.reason)
    is_doubted = ~is_in_time & is_lost & (b.loss == DOUBTED)
    reason = np.where(is_doubted & (reason == 0), _reason(LOG_GAP), reason)
    reason = np.where(reason == 0, _uncertain(b, at_us, error, doubts, front_us), reason)
    is_hidden = (reason == 0) & is_touched(b, at_us, holes)
    reason = np.where(is_hidden, _reason(LOG_GAP), reason)
    reason = np.where(is_refused, refused_reason, reason)
    error = np.where(is_refused, refused_error, np.where(reason == 0, error, NULL))
    times = (np.where(is_refused, b.appended_us, us) for us in (at_us, earliest_us, latest_us))
    known = (np.where(reason == 0, us, NULL) for us in times)
    is_gone = is_refused | (reason != 0) | (error == reasons.NOT_LEADER_OR_FOLLOWER)
    return Responses(*[*known, error, reason, np.where(is_gone, NULL, passed.at_us)])


def is_touched(b: Batches, at_us: Array, holes: Sequence[LogGap]) -> Array:
    """Whether lines of the leader are missing that were written between the appends and a time."""
    touched = np.zeros(len(at_us), bool)
    for hole in holes:
        touched |= (b.appended_us < hole.before_us) & (at_us > hole.after_us - WRITTEN_US_MAX)
    return touched


def _uncertain(
    b: Batches, at_us: Array, error: Array, doubts: Sequence[Doubt], front_us: int
) -> Array:
    """What the log's end or an unclear fencing leaves open."""
    is_ended = (error == reasons.REQUEST_TIMED_OUT) & (at_us > front_us)
    reason = np.where(is_ended, _reason(reasons.LOG_ENDED), 0)
    for since_us, until_us in doubts:
        is_fenced = (b.appended_us < until_us) & (since_us <= at_us) & (at_us <= until_us)
        reason[is_fenced & ~is_ended] = _reason(reasons.FENCED_WHEN)
    return reason
