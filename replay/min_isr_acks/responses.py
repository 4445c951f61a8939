"""When producers get their responses, and with which error (``DelayedProduce``)."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..log_gaps import LOG_GAP, LogGap
from . import reasons
from .batches import SETTLE_US, Batch, Moment, Request
from .brokers import Doubt
from .events import NEVER, NULL
from .holes import WRITTEN_US_MAX
from .kip_926 import UNKNOWN
from .leadership import APPLY_US_MAX, CONTRADICTED, DOUBTED, LOST_BEFORE
from .topics import Array

#: Stamps are whole milliseconds: so far two of them may be off.
STAMP_US = 2_000
_NUMBERS = (
    *("partition", "base_offset", "record_bytes", "error_code", "appended_us", "leads", "lost_us"),
    *("loss", "next_base_offset", "next_us", "is_next_certain", "marked_us", "carried_us"),
)


class Passed(NamedTuple):
    """When enough replicas had the batches, and the moments by which; NULL where not."""

    at_us: Array
    responded_us: Array
    earliest_us: Array
    latest_us: Array
    follower_id: Array
    fetch_id: pa.Array


class Refusals(NamedTuple):
    """Which batches are refused, with acks=all and acks=-2 alike.

    And with which error, NULL if unknown, for ``reason``, a position in ``REASONS``.
    """

    is_refused: Array
    error: Array
    reason: Array


class Responses(NamedTuple):
    """When producers would have been responded to, with bounds, and with which error.

    NULL if unknown, for ``reason``, a position in ``REASONS``. ``passed_us``: when enough replicas
    had the batch, maybe after the response (a timeout), maybe before it (``consumers``).
    """

    at_us: Array
    earliest_us: Array
    latest_us: Array
    error: Array
    reason: Array
    passed_us: Array


class Finalized:
    """Batches that nothing changes any more, an entry each, with columns of their requests."""

    def __init__(
        self, requests: Sequence[Request], batches: Sequence[Batch], moments: dict[int, Moment]
    ) -> None:
        counts = [one.end - one.first for one in requests]
        self.request = np.repeat(np.arange(len(requests)), counts)
        self.first = np.cumsum([0, *counts[:-1]])
        self.columns = dict(zip(Request._fields, zip(*requests, strict=True), strict=True))
        numbers = np.array([*map(attrgetter(*_NUMBERS), batches)], np.int64)
        self.b: dict[str, Array] = dict(zip(_NUMBERS, numbers.T.copy(), strict=True))
        self.isrs = [one.isr for one in batches]
        sizes = [UNKNOWN if one is None else len(one) for one in self.isrs]
        self.b["isr_size"] = np.array(sizes, np.int64)
        self.min_isrs = np.array([one.min_isrs for one in batches], np.int64)
        self.completed = np.array([one.completed for one in batches], np.int64)
        self.copies = np.array([one.copies for one in batches], np.int64)
        self.needed = np.array([one.needed for one in batches], np.int64)
        self.missing = [one.missing for one in batches]
        handled_us, carried_us = self.b["appended_us"], self.b["carried_us"]
        is_carried = (carried_us > handled_us) & (carried_us < NEVER)
        self.appended_us = np.where(is_carried, carried_us, handled_us)
        self.lost_us = self.b["lost_us"]
        self.deadline_us = handled_us + np.maximum(self.of_requests("timeout_us"), 0)
        self.acks, self.received_us = self.of_requests("acks"), self.of_requests("received_us")
        self._numbers = np.array(sorted(moments), np.int64)
        known = [moments[one] for one in self._numbers.tolist()]
        self._moments = np.array([one[:-1] for one in known], np.int64).reshape(-1, 5)
        self._fetch_ids = pa.array([one.fetch_id for one in known], pa.string())

    def of_requests(self, name: str) -> Array:
        """Numbers of the requests, an entry per batch."""
        values: Array = np.array(self.columns[name], np.int64)[self.request]
        return values

    def passed(self, position: int) -> Passed:
        """When the batches were completed under a requirement; not before the append."""
        number = self.completed[:, position]
        is_one = number != UNKNOWN
        place = np.searchsorted(self._numbers, number[is_one])
        columns = np.full((5, len(number)), NULL)
        columns[:, is_one] = self._moments[place].T
        for times in columns[:4]:
            times[is_one] = np.maximum(times[is_one], self.appended_us[is_one])
        places = np.full(len(number), UNKNOWN)
        places[is_one] = place
        return Passed._make([*columns, self._fetch_ids.take(pa.array(places, mask=~is_one))])

    @property
    def is_appended(self) -> Array:
        base_offset = self.b["base_offset"]
        return np.where(base_offset == NULL, self.b["leads"] != 0, base_offset >= 0)

    def refusals(self, min_isr: Array) -> Refusals:
        """What is responded to without an append (``Partition.appendRecordsToLeader``)."""
        base_offset, size, leads = self.b["base_offset"], self.b["isr_size"], self.b["leads"]
        is_small, is_unknown = size < min_isr, (min_isr == UNKNOWN) | (size == UNKNOWN)
        is_blurred = (self.b["loss"] == DOUBTED) & (self.lost_us <= self.appended_us)
        causes = (
            (is_blurred, NULL, LOG_GAP),
            (min_isr == UNKNOWN, NULL, reasons.MIN_ISR_NOT_IN_LOG),
            ((base_offset == UNKNOWN) & (leads == 0), reasons.NOT_LEADER_OR_FOLLOWER, None),
            (size == UNKNOWN, NULL, reasons.ISR_NOT_IN_LOG),
            (is_small, reasons.NOT_ENOUGH_REPLICAS, None),
            ((base_offset == NULL) & (leads == 0), NULL, reasons.LEADER_LOST),
            (base_offset == NULL, NULL, reasons.OFFSET_NOT_IN_LOG),
            # min.insync.replicas as the recorded broker had it is the first variant's.
            (size < self.min_isrs[:, 0], NULL, reasons.REFUSED_AS_RECORDED),
        )
        conditions = [cause[0] for cause in causes]
        error = np.select(conditions, [cause[1] for cause in causes], NULL)
        reason = np.select(
            conditions,
            [_reason(cause[2]) for cause in causes],
            _reason(reasons.NOTHING_APPENDED),
        )
        return Refusals(is_unknown | is_small | (base_offset < 0), error, reason)

    def responses(
        self,
        passed: Passed,
        refusals: Refusals,
        front_us: int,
        doubts: Iterable[Doubt],
        gaps: Sequence[LogGap],
    ) -> Responses:
        """The first of: enough replicas have it, leader lost, timed out (``DelayedProduce``).

        Never NOT_ENOUGH_REPLICAS_AFTER_APPEND: while the ISR is too small, the high watermark
        stands still, so that a producer times out.
        """
        is_refused = refusals.is_refused
        lost_us = np.where(self.lost_us == NULL, NULL, np.maximum(self.lost_us, self.appended_us))
        is_lost = (lost_us != NULL) & (lost_us < self.deadline_us)
        end_us = np.where(is_lost, lost_us, self.deadline_us)
        is_in_time = (passed.at_us != NULL) & (passed.responded_us <= end_us)
        at_us = np.where(is_in_time, passed.responded_us, end_us)
        earliest_us = np.where(is_in_time, passed.earliest_us, at_us)
        latest_us = np.where(is_in_time, passed.latest_us, at_us + APPLY_US_MAX * is_lost)
        error = np.where(is_lost, reasons.NOT_LEADER_OR_FOLLOWER, reasons.REQUEST_TIMED_OUT)
        error = np.where(is_in_time, reasons.NONE, error)
        is_ended = (error == reasons.REQUEST_TIMED_OUT) & (at_us > front_us)
        is_fenced = np.zeros(len(at_us), bool)
        for since_us, until_us in doubts:
            is_fenced |= (self.appended_us < until_us) & (since_us <= at_us) & (at_us <= until_us)
        loss = np.where(~is_in_time & is_lost, self.b["loss"], 0)
        causes = {
            reasons.LEADER_LOST: loss == LOST_BEFORE,
            reasons.CONTRADICTED: loss == CONTRADICTED,
            reasons.LOG_ENDED: (loss != DOUBTED) & is_ended,
            reasons.FENCED_WHEN: (loss != DOUBTED) & is_fenced,
            LOG_GAP: (loss == DOUBTED) | self.is_hidden(at_us, gaps),
        }
        reason = np.select([*causes.values()], [_reason(one) for one in causes])
        reason = np.where(is_refused, refusals.reason, reason)
        error = np.where(is_refused, refusals.error, np.where(reason == 0, error, NULL))
        times = [
            np.where(is_refused, self.appended_us, us) for us in (at_us, earliest_us, latest_us)
        ]
        times[1] = np.maximum(times[1] - STAMP_US, self.received_us)
        times[2] += STAMP_US
        known = (np.where(reason == 0, us, NULL) for us in times)
        is_gone = is_refused | (reason != 0) | (error == reasons.NOT_LEADER_OR_FOLLOWER)
        return Responses._make([*known, error, reason, np.where(is_gone, NULL, passed.at_us)])

    def is_hidden(self, at_us: Array, gaps: Sequence[LogGap]) -> Array:
        """Whether lines of the leader are missing that were written between appends and a time."""
        hidden = np.zeros(len(at_us), bool)
        for gap in gaps:
            hidden |= (self.appended_us < gap.before_us) & (at_us > gap.after_us - WRITTEN_US_MAX)
        return hidden

    def last_offset(self, gaps: Sequence[LogGap]) -> Array:
        """One below the next batch's, NULL where others may lie between."""
        next_us = self.b["next_us"]
        is_certain = (self.b["is_next_certain"] != 0) & (self.b["next_base_offset"] != NULL)
        is_certain &= self.b["marked_us"] > np.maximum(next_us, self.appended_us + SETTLE_US)
        for gap in gaps:
            is_certain &= (self.appended_us >= gap.before_us) | (
                next_us < gap.after_us - WRITTEN_US_MAX
            )
        return np.where(is_certain, self.b["next_base_offset"] - 1, NULL)


def _reason(text: str | None) -> int:
    return reasons.REASONS.index(text)
