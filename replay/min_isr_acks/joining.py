"""Followers outside the ISR that hold the high watermark: caught up, and may join.

``Partition.shouldWaitForReplicaToJoinIsr`` and ``isReplicaIsrEligible``: unfenced, not stopping,
and the epoch it fetches with is its. A broker of which no heartbeat is in the log fetches, so it is
taken for unfenced.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .inputs import PRODUCE
from .levels import LAG_US_MAX, Stands
from .log import FOLDED, NOWHERE, Array, Log, keyed, running_max


class Fetches(NamedTuple):
    """FETCHes of followers, listing a partition or not, by session and then in order."""

    session: Array
    order: Array
    at_us: Array

    def before(self, session: Array, order: Array) -> Array:
        """When sessions fetched last before events; anything for sessions that never did."""
        codes, coded = np.unique(self.session, return_inverse=True)
        asked = keyed(np.searchsorted(codes, session), order)
        found: Array = self.at_us[np.searchsorted(keyed(coded, self.order), asked) - 1]
        return found

    def since(self, order: int, sessions: Array) -> "Fetches":
        """Those from an event on, and of each session that is named the last one before."""
        is_last = np.append(self.session[1:] != self.session[:-1], True)
        is_last[:-1] |= self.order[1:] >= order
        kept = (self.order >= order) | (is_last & np.isin(self.session, sessions))
        return Fetches(*(column[kept] for column in self))


def merged(parts: Sequence[Fetches]) -> Fetches:
    """FETCHes of increments that follow one another."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    places = np.argsort(columns[0], kind="stable")
    return Fetches(*(column[places] for column in columns))


#: What each broker was from an event on: whether unfenced, and its epoch.
Standings = tuple[int, dict[int, tuple[bool, int | None]]]


def caught_up_us(log: Log, stands: Stands, fetches: Fetches) -> Array:
    """When each follower was caught up last, as known at each row, a column per seat."""
    begin_us = int(log.at_us.min()) - 2 * LAG_US_MAX
    end_before = np.append(NOWHERE, log.log_end[:-1])
    is_append = (log.kind == PRODUCE) & (log.base_offset != NOWHERE)
    found = np.empty(stands.fetch.shape, np.int64)
    for seat in range(stands.fetch.shape[1]):
        fetch, offset = stands.fetch[:, seat], stands.offset[:, seat]
        is_own = fetch == np.arange(len(fetch))
        shown_us = np.where(is_own & (offset >= log.log_end), log.at_us, begin_us - 1)
        shown_us = np.where(is_own & (log.kind == FOLDED), log.caught_up_us, shown_us)
        # Whoever stood at the end until now had all that there was when it fetched last.
        rows = np.flatnonzero(is_append & (fetch != NOWHERE) & (offset >= end_before))
        shown_us[rows] = fetches.before(log.session[fetch[rows]], log.order[rows])
        since_begin = np.maximum(shown_us - begin_us, NOWHERE)
        found[:, seat] = running_max(stands.segment, since_begin) + begin_us
    return found


def joins_of(
    log: Log, stands: Stands, caught_up: Array, brokers: Array, standings: Sequence[Standings]
) -> Array:
    """Who of the followers (``brokers``) outside the maximal ISR is caught up and may join it."""
    joins: Array = (stands.fetch != NOWHERE) & ~stands.members
    for seat in np.flatnonzero(joins.any(axis=0)).tolist():
        is_recent = log.at_us - caught_up[:, seat] <= LAG_US_MAX
        joins[:, seat] &= is_recent | (stands.offset[:, seat] >= log.log_end)
        rows = np.flatnonzero(joins[:, seat])
        epoch = log.epoch[stands.fetch[rows, seat]]
        joins[rows, seat] = _eligible(log.order[rows], epoch, brokers[rows, seat], standings)
    return joins


def _eligible(order: Array, epoch: Array, broker: Array, standings: Sequence[Standings]) -> Array:
    eligible = np.ones(len(order), bool)
    for begin, known in standings if len(order) else ():
        for one, (is_unfenced, now) in known.items():
            some = (order >= begin) & (broker == one)
            is_same = (epoch[some] < 0) | (now is None) | (epoch[some] == now)
            eligible[some] = is_unfenced & is_same
    return eligible
