"""When producers get their responses, and with which error; or why the log leaves that open.

A batch is first refused or appended (``refusal``). If it is appended, the response comes with the
first of enough replicas, the loss of the leader, and the timeout (``model.partition``).
"""

from typing import NamedTuple

from ..log_gaps import LOG_GAP, Gaps
from ..model import STAMP_US
from ..model.partition import Errors, delayed_produce, has_enough_in_sync
from .isr import APPLY_US_MAX, Loss
from .produces import REORDER_US_MAX, WRITTEN_US_MAX, Acknowledgement, Append, OpenBatch, Request

ISR_NOT_IN_LOG = "the ISR at the append is not in the log"
MIN_ISR_NOT_IN_LOG = "min.insync.replicas of the topic is not in the log"
OFFSET_NOT_IN_LOG = "the base offset is not in the log"
NOTHING_APPENDED = "nothing was appended, and the ISR was large enough: see recorded_error"
REFUSED_AS_RECORDED = "nothing was appended, but would have been with this min.insync.replicas"
ACKS_0 = "acks=0 waits for nobody"
LOG_ENDED = "the log ended before the response"

#: Recorded errors of refused batches that the rule decides anew; it takes all others as they are.
DECIDED = (Errors.NONE, Errors.NOT_ENOUGH_REPLICAS, Errors.INVALID_REQUIRED_ACKS)


class Refusal(NamedTuple):
    """The error with which a batch was not appended, or why that is unknown."""

    error: int | None
    reason: str | None = None


class Latency(NamedTuple):
    """From the arrival of a PRODUCE to its response, with bounds; None: acks=0, or unknown."""

    ms: float | None = None
    earliest_ms: float | None = None
    latest_ms: float | None = None

    @classmethod
    def between(cls, received_us: int, at_us: int, earliest_us: int, latest_us: int) -> "Latency":
        """Makes that of a response at a time, within bounds; stamps leave ``STAMP_US`` open."""
        return cls(
            (at_us - received_us) / 1000,
            max(earliest_us - STAMP_US - received_us, 0) / 1000,
            (latest_us + STAMP_US - received_us) / 1000,
        )

    def or_slower(self, other: "Latency") -> "Latency":
        """Returns that of a request with both partitions: it waits for the slowest."""
        if self.ms is None or other.ms is None:
            return Latency()
        return Latency._make(max(ms or 0, more or 0) for ms, more in zip(self, other, strict=True))


class ProduceResponse(NamedTuple):
    """The response to a batch under one kind of acks, or why it is unknown.

    ``enough_us``: when enough replicas had the batch, maybe after the response (a timeout), maybe
    before it (``Consumers``). ``passed_us`` is the same, None if the response is unknown, a refusal
    or the loss of the leader. ``follower_id`` and ``fetch_id``: by whose FETCH.
    """

    reason: str | None
    enough_us: int | None
    is_acknowledged: bool = False
    latency: Latency = Latency()
    error: int | None = None
    passed_us: int | None = None
    follower_id: int | None = None
    fetch_id: str | None = None


class LeaderEvidence(NamedTuple):
    """The evidence that decides responses: the last event of the log, and gaps in logs."""

    node_id: int
    front_us: int
    gaps: Gaps

    def respond(
        self,
        request: Request,
        batch: OpenBatch,
        by: Acknowledgement | None,
        refused: Refusal | None,
    ) -> ProduceResponse:
        """Returns the response by what comes first: refusal, enough replicas, a loss, timeout."""
        appended_us = batch.appended_us
        enough_us = None if by is None else max(by.at_us, appended_us)
        passed_us, completing = None, None
        earliest_us = latest_us = at_us = appended_us
        if refused is not None:
            error, reason = refused
        else:
            responded_us = None if by is None else max(by.responded_us, appended_us)
            lost_us = None if batch.loss is None else max(batch.lost_us, appended_us)
            at_us, error = delayed_produce(responded_us, lost_us, batch.deadline_us)
            reason = self._unknown(batch, at_us, error)
            earliest_us, latest_us, passed_us = at_us, at_us, enough_us
            if error is Errors.NOT_LEADER_OR_FOLLOWER:
                latest_us, passed_us = at_us + APPLY_US_MAX, None
            elif error is Errors.NONE and by is not None:
                earliest_us = max(by.earliest_us, appended_us)
                latest_us, completing = max(by.latest_us, appended_us), by
        if reason is not None:
            return ProduceResponse(reason, enough_us)
        is_acknowledged = error == Errors.NONE
        if request.gets_response:
            latency = Latency.between(request.event.received_us, at_us, earliest_us, latest_us)
        else:
            latency, error = Latency(), None
        by_whom = (completing.follower_id, completing.fetch_id) if completing else ()
        return ProduceResponse(
            None, enough_us, is_acknowledged, latency, error, passed_us, *by_whom
        )

    def _unknown(self, batch: OpenBatch, at_us: int, error: Errors) -> str | None:
        """Returns why it is not known what came first; None: it is known."""
        if error is Errors.NOT_LEADER_OR_FOLLOWER and batch.loss is not Loss.LEADER:
            return batch.loss
        if error is Errors.REQUEST_TIMED_OUT and at_us > self.front_us:
            return LOG_ENDED
        return LOG_GAP if self.is_hidden(batch.appended_us, at_us) else None

    def is_hidden(self, appended_us: int, at_us: int) -> bool:
        """Tells whether lines of the leader are missing that were written between two times."""
        return self.gaps.touch(self.node_id, appended_us, at_us + WRITTEN_US_MAX)

    def visible_us(self, batch: OpenBatch, enough_us: int | None) -> int | None:
        """Returns when the high watermark passed a batch; None where the log may lack that."""
        if enough_us is None or self.is_hidden(batch.appended_us, enough_us):
            return None
        return enough_us if enough_us <= batch.lost_us else None

    def last_offset(self, batch: OpenBatch) -> int | None:
        """Returns one below the next base offset, None where other records may lie between."""
        next_us, appended_us = batch.next_us, batch.appended_us
        if not batch.is_next_certain or batch.next_base_offset is None:
            return None
        if batch.marked_us <= max(next_us, appended_us + REORDER_US_MAX):
            return None
        # A PRODUCE whose line is missing may have been appended just before the next one.
        is_open = self.is_hidden(appended_us, next_us + 1)
        return None if is_open else batch.next_base_offset - 1


def refusal(batch: OpenBatch, min_isr: int | None) -> Refusal | None:
    """Returns with which error a batch was not appended, whatever acks, or why that is unknown.

    None: it was appended (``Partition.appendRecordsToLeader``).
    """
    append, recorded = batch.append, batch.error_code
    isr_size = None if batch.isr is None else len(batch.isr)
    is_known = isr_size is not None and min_isr is not None
    is_short = is_known and not has_enough_in_sync(isr_size or 0, min_isr or 0)
    if append is Append.PLACED and is_known and not is_short:
        return None
    if append is Append.REFUSED and recorded is not None and recorded not in DECIDED:
        # Whatever acks are: the broker refused it before it looked at the ISR.
        return Refusal(recorded)
    if batch.loss is Loss.HIDDEN and batch.lost_us <= batch.appended_us:
        return Refusal(None, LOG_GAP)
    if min_isr is None:
        return Refusal(None, MIN_ISR_NOT_IN_LOG)
    if append is Append.REFUSED and not batch.leads:
        return Refusal(Errors.NOT_LEADER_OR_FOLLOWER)
    if isr_size is None:
        return Refusal(None, ISR_NOT_IN_LOG)
    if is_short:
        return Refusal(Errors.NOT_ENOUGH_REPLICAS)
    if append is Append.NO_RESPONSE:
        return Refusal(None, OFFSET_NOT_IN_LOG if batch.leads else Loss.LEADER_BEFORE)
    in_force = batch.variants[0].min_isr
    if in_force is not None and not has_enough_in_sync(isr_size, in_force):
        return Refusal(None, REFUSED_AS_RECORDED)
    return Refusal(None, NOTHING_APPENDED)
