"""What a producer is told of one batch: with acks=all, and with acks=min.insync.replicas.

``partition_log`` says when the high watermark and the copied offset passed which offset.
From that follow the two answers, with the errors and in the order of Kafka's ``appendRecords`` and
``DelayedProduce``; KIP-926 has the same errors. What the log leaves open has a reason.
"""

from __future__ import annotations

from typing import NamedTuple

from oracles.min_isr_acks.partition_log import APPLY_US_MAX, Batch, Passing, Span, moment

#: Kafka's error codes (org.apache.kafka.common.protocol.Errors).
NONE = 0
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
INVALID_REQUIRED_ACKS = 21

ISR_NOT_IN_LOG = "the ISR at the append is not in the log"
MIN_ISR_NOT_IN_LOG = "min.insync.replicas of the topic is not in the log"
OFFSET_NOT_IN_LOG = "acks=0 logs no base offset, and a follower's FETCH leaves it open"
NOTHING_APPENDED = "nothing was appended, and the ISR was large enough: why is not in the log"
REFUSED_AS_RECORDED = "nothing was appended, but would have been with this min.insync.replicas"
LEADER_LOST = "the leader was lost meanwhile, and the log does not tell when"
FENCED_WHEN = "a broker was fenced meanwhile, and the log leaves open which append did it"
LOG_ENDED = "the log ended before the answer"


class Answer(NamedTuple):
    """What a producer would have been told of one partition: when and which error.

    ``span`` None: not known, for ``reason``. ``passed_us``: when the offset was passed, if it was,
    maybe before consumers were answered first, maybe after the answer; ``passing`` says how.
    """

    span: Span | None
    error: int | None
    passed_us: int | None = None
    passing: Passing | None = None
    reason: str | None = None


def refused(batch: Batch, index: int, recorded_k: int | None) -> Answer | None:
    """What is answered before an append, or None where the batch was and would be appended.

    ``recorded_k`` is min.insync.replicas as the recorded broker had it.
    """
    k = batch.min_isrs[index]
    if k is None:
        return Answer(None, None, reason=MIN_ISR_NOT_IN_LOG)
    if batch.base_offset is not None and batch.base_offset < 0 and batch.leads is False:
        return Answer(moment(batch.appended_us), NOT_LEADER_OR_FOLLOWER)
    if batch.isr is None:
        return Answer(None, None, reason=ISR_NOT_IN_LOG)
    if len(batch.isr) < k:
        return Answer(moment(batch.appended_us), NOT_ENOUGH_REPLICAS)
    if batch.base_offset is None and batch.leads is False:
        return Answer(None, None, reason=LEADER_LOST)
    if batch.base_offset is None or batch.base_offset >= 0:
        return None
    too_few = recorded_k is not None and len(batch.isr) < recorded_k
    return Answer(None, None, reason=REFUSED_AS_RECORDED if too_few else NOTHING_APPENDED)


def acks_all(batch: Batch, index: int, timeout_us: int) -> Answer:
    """acks=all: the high watermark passes the batch (``checkEnoughReplicasReachOffset``)."""
    if batch.all_at_append[index]:
        return _at_append(batch)
    passing, reason = _passed(batch, index, committed=True)
    answer = _answered(batch, passing, reason, timeout_us)
    if answer.error == NONE and passing is not None and passing.isr_size < passing.min_isr:
        return answer._replace(error=NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    return answer


def acks_min_isr(batch: Batch, index: int, timeout_us: int) -> Answer:
    """acks=-2: min.insync.replicas replicas have the batch (KIP-926)."""
    if batch.min_isrs[index] == 1:
        return _at_append(batch)
    passing, reason = _passed(batch, index, committed=False)
    return _answered(batch, passing, reason, timeout_us)


def visible_us(batch: Batch, index: int) -> int | None:
    """When consumers could see an appended batch, however its producer was answered."""
    if batch.all_at_append and batch.all_at_append[index]:
        return batch.appended_us
    passing, _ = _passed(batch, index, committed=True)
    return None if passing is None else max(passing.span.at_us, batch.appended_us)


def _at_append(batch: Batch) -> Answer:
    at = moment(batch.appended_us)
    return Answer(at, NONE, at.at_us, Passing(at, len(batch.isr or ()), 1, ()))


def _passed(batch: Batch, index: int, *, committed: bool) -> tuple[Passing | None, str | None]:
    """When a level passed a batch; what an unlogged base offset leaves open has a reason."""
    if batch.base_offset is not None and batch.base_offset < 0:
        return None, None
    levels = batch.levels[index]
    level = levels.committed if committed else levels.copied
    least, most = batch.bounds
    first = level.passed(least)
    if least == most or first is None:
        return first, None
    if most is None or most < least or batch.is_doubtful:
        return None, OFFSET_NOT_IN_LOG
    last = level.passed(most)
    if last is not None and first.span == last.span:
        return first, None
    return None, OFFSET_NOT_IN_LOG


def _answered(batch: Batch, passing: Passing | None, reason: str | None, timeout_us: int) -> Answer:
    """The first of: passed, leader lost, timed out."""
    if reason is not None:
        return Answer(None, None, reason=reason)
    deadline = batch.appended_us + timeout_us
    lost = batch.lost_us
    passed_us = None
    if passing is not None:
        # Nobody is answered before the handler of the PRODUCE is done.
        passed_us = max(passing.span.at_us, batch.appended_us)
        answers = Span(*(max(at, batch.appended_us) for at in passing.answers))
        if answers.at_us <= min(deadline, deadline if lost is None else lost):
            return Answer(answers, NONE, passed_us, passing)
    if lost is not None and lost < deadline:
        if batch.lost_when_unknown:
            return Answer(None, None, reason=LEADER_LOST)
        return Answer(Span(lost, lost, lost + APPLY_US_MAX), NOT_LEADER_OR_FOLLOWER)
    return Answer(moment(deadline), REQUEST_TIMED_OUT, passed_us, passing)
