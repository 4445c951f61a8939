"""All partitions of a node: each row of its log falls under a condition of its partition."""

from collections.abc import Sequence

import msgspec
import numpy as np

from .inputs import FETCH, METADATA, PRODUCE
from .leadership import APPLY_US_MAX, Change, Condition, Fact, Isr, Leadership
from .log import ALL, NOWHERE, NULL, Array, Log, no_longs


class Leaderships(msgspec.Struct):
    """All partitions of a node, and the conditions that rows refer to."""

    node_id: int
    all: list[Leadership] = []
    conditions: list[Condition] = []
    current: Array = msgspec.field(default_factory=no_longs)
    _leads: Array = msgspec.field(default_factory=no_longs)
    _epochs: Array = msgspec.field(default_factory=no_longs)

    def add(self, more: Sequence[Isr]) -> None:
        """Partitions of which nothing is known yet but min.insync.replicas."""
        zeros = np.zeros(len(more), np.int64)
        columns = (self.current, self._leads, self._epochs)
        self.current, self._leads, self._epochs = (np.append(one, zeros) for one in columns)
        for min_isrs in more:
            self.all.append(Leadership(self.node_id, min_isrs))
            self._note(len(self.all) - 1)

    def compact(self, log: Log) -> None:
        """Leave out the conditions that neither rows nor partitions refer to any more."""
        if len(self.conditions) > 2 * (len(self.all) + len(log.order)):
            places = np.append(self.current, log.condition)
            kept, places = np.unique(places, return_inverse=True)
            self.conditions = [self.conditions[place] for place in kept.tolist()]
            self.current, log.condition[:] = np.split(places, [len(self.current)])

    def _note(self, p: int) -> int:
        """The condition that a partition is in now."""
        one = self.all[p]
        sets, numbers = (one.isr, one.requested, one.previous), (one.leads, one.term, one.replicas)
        if one.noted != (*sets, *numbers, one.min_isrs):
            one.noted, self._leads[p] = (*sets, *numbers, one.min_isrs), one.leads
            condition = one.condition()
            if not self.conditions or self.conditions[self.current[p]] != condition:
                self.current[p] = len(self.conditions)
                self.conditions.append(condition)
        return int(self.current[p])

    @property
    def brokers(self) -> Array:
        """Followers' ids by partition, a column per seat, NOWHERE if it is free."""
        width = max([1, *(len(one.seats) for one in self.all)])
        table = [one.seats + [NOWHERE] * (width - len(one.seats)) for one in self.all]
        return np.array(table, np.int64).reshape(-1, width)

    def seats_of(self, partitions: Array, brokers: Array) -> Array:
        """Seats of followers at partitions, new ones for those that have none."""
        seats = self._seats_of(partitions, brokers)
        if (seats == NOWHERE).any():
            for p, broker in sorted({*zip(partitions.tolist(), brokers.tolist(), strict=True)}):
                self.all[p].seat(broker)
            seats = self._seats_of(partitions, brokers)
        return seats

    def _seats_of(self, partitions: Array, brokers: Array) -> Array:
        table = self.brokers[partitions] == brokers[:, None]
        return np.where(table.any(axis=1), table.argmax(axis=1), NOWHERE)

    def follow(
        self, log: Log, epochs: Array, details: Array, facts: Sequence[Fact | Change]
    ) -> None:
        """Fill in ``condition`` and ``loss``; rows that change nothing become of no kind (0).

        ``log`` is by partition; ``epochs`` are those of FETCHes that were noted, else -1;
        ``details``: positions in ``facts``, NOWHERE for PRODUCEs and FETCHes.
        """
        if not len(details):
            return
        begins = np.flatnonzero(np.append(True, log.partition[1:] != log.partition[:-1]))
        partitions, ends = log.partition[begins], np.append(begins[1:], len(details))
        log.condition[:] = self.current[log.partition]
        watched = np.maximum.reduceat(details, begins) != NOWHERE
        watched |= self._leads[partitions] != 1
        watched |= np.maximum.reduceat(epochs, begins) > self._epochs[partitions]
        for i in np.flatnonzero(watched).tolist():
            rows = slice(begins[i], ends[i])
            part = Log(*(column[rows] for column in log))
            self._follow_one(int(partitions[i]), part, epochs[rows], details[rows], facts)

    def _follow_one(
        self, p: int, log: Log, epochs: Array, details: Array, facts: Sequence[Fact | Change]
    ) -> None:
        one, n, begin = self.all[p], len(details), 0
        for r in [*np.flatnonzero(details != NOWHERE).tolist(), n]:
            if one.leads != 1 and begin < r:
                self._lead_if_shown(p, log, epochs, begin, r)
            if begin < r:
                one.leader_epoch = max(one.leader_epoch, int(epochs[begin:r].max()))
                self._epochs[p] = one.leader_epoch
            if r == n:
                break
            at_us, kind, fact = int(log.at_us[r]), int(log.kind[r]), facts[details[r]]
            moves = fact(one, at_us) if callable(fact) else one.take(at_us, kind, fact)
            log.condition[r:] = self._note(p)
            if kind == METADATA and moves and isinstance(fact, Fact):
                one.name_leader(at_us, fact)
                log.condition[r + 1 :] = self._note(p)
            log.kind[r], log.loss[r] = ALL if moves else 0, one.loss
            one.loss, begin = 0, r + 1

    def _lead_if_shown(self, p: int, log: Log, epochs: Array, begin: int, end: int) -> None:
        """From the first row on that only a leader can have."""
        one, rows = self.all[p], slice(begin, end)
        is_noted = (log.kind[rows] == FETCH) & (log.offset[rows] != NULL)
        is_append = (log.kind[rows] == PRODUCE) & (log.base_offset[rows] >= 0)
        if one.leads == 0:
            # It may not have applied everywhere yet that it does not lead any more.
            is_append &= log.at_us[rows] - one.lost_us > APPLY_US_MAX
        shown = np.flatnonzero(is_append | (is_noted & (epochs[rows] > one.lost_epoch)))
        if len(shown):
            one.lead()
            log.condition[begin + int(shown[0]) :] = self._note(p)
