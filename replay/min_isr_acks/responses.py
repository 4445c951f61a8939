"""When producers get their responses, and with which error (``DelayedProduce``)."""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..log_gaps import LOG_GAP, LogGap
from . import reasons
from .batches import SETTLE_US, Batch, Moment, Request
from .brokers import Doubt
from .events import NEVER, NULL
from .kip_926 import UNKNOWN
from .leadership import APPLY_US_MAX, CONTRADICTED, LOST_BEFORE, UNCERTAIN
from .topics import Array

#: Stamps are whole milliseconds: so far two of them may be off.
STAMP_US = 2_000
#: A FETCH or PRODUCE whose line is missing may have taken effect so long before it was written.
_WRITTEN_US_MAX = 1_000_000
_NUMBERS = (
    *("partition", "base_offset", "record_bytes", "error_code", "appended_us", "leads", "lost_us"),
    *("loss", "next_base_offset", "next_us", "is_next_certain", "marked_us", "carried_us"),
)


class Responses(NamedTuple):
    """When producers would have been responded to, with bounds, and with which error.

    NULL if unknown, for ``reason``, a position in ``REASONS``. ``enough_us``: when enough replicas
    had the batch, maybe after the response (a timeout), maybe before it (``consumers``); NULL in
    ``passed_us`` where that is not known or nobody has it. Of acknowledged ones, by whose FETCH.
    """

    at_us: Array
    earliest_us: Array
    latest_us: Array
    error: Array
    reason: Array
    enough_us: Array
    passed_us: Array
    follower_id: Array
    fetch_id: pa.Array


class Finalized:
    """Batches that nothing changes any more, an entry each, with columns of their requests.

    ``front_us``: the log's last event. ``gaps`` are of the leader's log.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        batches: Sequence[Batch],
        moments: dict[int, Moment],
        front_us: int,
        doubts: Sequence[Doubt],
        gaps: Sequence[LogGap],
    ) -> None:
        self._front_us, self._doubts, self._gaps = front_us, doubts, gaps
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

    @property
    def is_appended(self) -> Array:
        base_offset = self.b["base_offset"]
        return np.where(base_offset == NULL, self.b["leads"] != 0, base_offset >= 0)

    def refusals(self, min_isr: Array) -> tuple[Array, Array, Array]:
        """What is responded to without an append (``Partition.appendRecordsToLeader``).

        Which batches, with acks=all and acks=-2 alike, with which error, and why it is unknown.
        """
        base_offset, size, leads = self.b["base_offset"], self.b["isr_size"], self.b["leads"]
        recorded = self.b["error_code"]
        is_small, is_unknown = size < min_isr, (min_isr == UNKNOWN) | (size == UNKNOWN)
        is_blurred = (self.b["loss"] == UNCERTAIN) & (self.lost_us <= self.appended_us)
        # Whatever acks are: the broker refused it before it looked at the ISR.
        is_read = (
            (base_offset == UNKNOWN) & (recorded != NULL) & ~np.isin(recorded, reasons.DECIDED)
        )
        causes = (
            (is_read, recorded, None),
            (is_blurred, NULL, LOG_GAP),
            (min_isr == UNKNOWN, NULL, reasons.MIN_ISR_NOT_IN_LOG),
            ((base_offset == UNKNOWN) & (leads == 0), reasons.NOT_LEADER_OR_FOLLOWER, None),
            (size == UNKNOWN, NULL, reasons.ISR_NOT_IN_LOG),
            (is_small, reasons.NOT_ENOUGH_REPLICAS, None),
            ((base_offset == NULL) & (leads == 0), NULL, reasons.LEADER_LOST),
            (base_offset == NULL, NULL, reasons.OFFSET_NOT_IN_LOG),
            # min.insync.replicas as the recorded broker had it is the first variant's.
            (size < self.min_isrs[:, 0], NULL, reasons.REFUSED_AS_RECORDED),
            (np.True_, NULL, reasons.NOTHING_APPENDED),
        )
        conditions, errors, why = zip(*causes, strict=True)
        error = np.select(conditions, errors)
        reason = np.select(conditions, [*map(reasons.REASONS.index, why)])
        return is_unknown | is_small | (base_offset < 0), error, reason

    def responses(self, position: int, refusals: tuple[Array, Array, Array]) -> Responses:
        """The first of: enough replicas have it, leader lost, timed out (``DelayedProduce``).

        Enough is what the requirement at a position says. Never NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        while the ISR is too small, the high watermark stands still, so that a producer times out.
        """
        number = self.completed[:, position]
        is_one = number != UNKNOWN
        place = np.searchsorted(self._numbers, number[is_one])
        moments = np.full((5, len(number)), NULL)
        moments[:, is_one] = self._moments[place].T
        moments[:4, is_one] = np.maximum(moments[:4, is_one], self.appended_us[is_one])
        enough_us, responded_us, first_us, last_us, follower_id = moments
        is_refused, refused_with, refused_for = refusals
        lost_us = np.where(self.lost_us == NULL, NULL, np.maximum(self.lost_us, self.appended_us))
        is_lost = (lost_us != NULL) & (lost_us < self.deadline_us)
        end_us = np.where(is_lost, lost_us, self.deadline_us)
        is_in_time = is_one & (responded_us <= end_us)
        at_us = np.where(is_in_time, responded_us, end_us)
        earliest_us = np.where(is_in_time, first_us, at_us)
        latest_us = np.where(is_in_time, last_us, at_us + APPLY_US_MAX * is_lost)
        error = np.where(is_lost, reasons.NOT_LEADER_OR_FOLLOWER, reasons.REQUEST_TIMED_OUT)
        error = np.where(is_in_time, reasons.NONE, error)
        is_ended = (error == reasons.REQUEST_TIMED_OUT) & (at_us > self._front_us)
        is_fenced = np.zeros(len(at_us), bool)
        for since_us, until_us in self._doubts:
            is_fenced |= (self.appended_us < until_us) & (since_us <= at_us) & (at_us <= until_us)
        loss = np.where(~is_in_time & is_lost, self.b["loss"], 0)
        causes = {
            reasons.LEADER_LOST: loss == LOST_BEFORE,
            reasons.CONTRADICTED: loss == CONTRADICTED,
            reasons.LOG_ENDED: (loss != UNCERTAIN) & is_ended,
            reasons.FENCED_WHEN: (loss != UNCERTAIN) & is_fenced,
            LOG_GAP: (loss == UNCERTAIN) | self.is_hidden(at_us),
        }
        reason = np.select([*causes.values()], [*map(reasons.REASONS.index, causes)])
        reason = np.where(is_refused, refused_for, reason)
        error = np.where(is_refused, refused_with, np.where(reason == 0, error, NULL))
        times = [
            np.where(is_refused, self.appended_us, us) for us in (at_us, earliest_us, latest_us)
        ]
        times[1] = np.maximum(times[1] - STAMP_US, self.received_us)
        times[2] += STAMP_US
        known = (np.where(reason == 0, us, NULL) for us in times)
        is_gone = is_refused | (reason != 0) | (error == reasons.NOT_LEADER_OR_FOLLOWER)
        passed_us, is_by = np.where(is_gone, NULL, enough_us), error == reasons.NONE
        places = np.zeros(len(number), np.int64)
        places[is_one] = place
        fetch_id = self._fetch_ids.take(pa.array(places, mask=~is_by))
        follower_id = np.where(is_by, follower_id, NULL)
        return Responses._make([*known, error, reason, enough_us, passed_us, follower_id, fetch_id])

    def is_hidden(self, at_us: Array) -> Array:
        """Whether lines of the leader are missing that were written between appends and a time."""
        hidden = np.zeros(len(at_us), bool)
        for gap in self._gaps:
            hidden |= (self.appended_us < gap.before_us) & (at_us > gap.after_us - _WRITTEN_US_MAX)
        return hidden

    def last_offset(self) -> Array:
        """One below the next batch's, NULL where others may lie between."""
        next_us = self.b["next_us"]
        is_certain = (self.b["is_next_certain"] != 0) & (self.b["next_base_offset"] != NULL)
        is_certain &= self.b["marked_us"] > np.maximum(next_us, self.appended_us + SETTLE_US)
        for gap in self._gaps:
            is_certain &= (self.appended_us >= gap.before_us) | (
                next_us < gap.after_us - _WRITTEN_US_MAX
            )
        return np.where(is_certain, self.b["next_base_offset"] - 1, NULL)
