"""How far a leader's log reaches after each append, as far as base offsets show it."""

from collections.abc import Sequence

import msgspec
import numpy as np

from ..log_gaps import LogGap
from .inputs import FETCH, PRODUCE
from .log import NOWHERE, NULL, Array, Log, by_partition, last_of, no_longs, running_max, segments
from .unlogged import BOUNDED_US, Unlogged

_NEVER = 1 << 62


class Appends(msgspec.Struct):
    """By partition: the largest end offset that was logged, and the least that the log end can be.

    ``markers_since_us`` is the first PRODUCE of a transaction, ``sent`` what followers fetched last
    (by seat: term, offset, and bytes in the response).
    """

    logged_end: Array = msgspec.field(default_factory=no_longs)
    log_end: Array = msgspec.field(default_factory=no_longs)
    markers_since_us: Array = msgspec.field(default_factory=no_longs)
    sent: Array = msgspec.field(default_factory=lambda: np.empty((0, 1, 3), np.int64))
    unlogged: dict[int, Unlogged] = {}

    def grow(self, partitions: int, seats: int) -> None:
        new = partitions - len(self.log_end)
        self.logged_end, self.log_end = (
            np.append(column, np.zeros(new, np.int64)) for column in (self.logged_end, self.log_end)
        )
        self.markers_since_us = np.append(self.markers_since_us, np.full(new, _NEVER))
        more = ((0, new), (0, seats - self.sent.shape[1]), (0, 0))
        self.sent = np.pad(self.sent, more, constant_values=NOWHERE)

    def follow(
        self,
        log: Log,
        terms: Array,
        leads: Array,
        begun_us: Array,
        is_transactional: Array,
        recent: Sequence[Log],
        holes: Sequence[LogGap] = (),
    ) -> None:
        """Fill in ``log_end``; ``begun_us`` is when handlers of PRODUCEs began.

        A batch without a base offset holds one record at the least. What was counted for it may
        have been too much: it may have been appended behind the next that is logged. ``recent``:
        rows of the batches before that are not settled, and maybe more. ``holes``: of the log.
        """
        segment, begin = segments(log.partition)
        is_produce, is_first = log.kind == PRODUCE, begin == np.arange(len(begin))
        partitions = log.partition[is_first]
        known = self.logged_end[partitions]
        logged = np.where(is_produce & (log.base_offset >= 0), log.base_offset + 1, NOWHERE)
        logged_end = logged.copy()
        logged_end[is_first] = np.maximum(logged[is_first], known)
        logged_end = running_max(segment, logged_end)
        before = np.append(0, logged_end)[: len(logged)]
        before[is_first] = known
        rises = logged > before
        is_blind = is_produce & (log.base_offset == NULL) & (leads != 0)
        counted = np.cumsum(is_blind)
        since = last_of(rises | is_first)
        carried = np.where(rises[since], 0, (self.log_end[partitions] - known)[segment])
        log.log_end[:] = logged_end + counted - counted[since] + is_blind[since] + carried
        is_marked = is_produce & (is_transactional == 1)
        np.minimum.at(self.markers_since_us, log.partition[is_marked], log.at_us[is_marked])
        blind = set(log.partition[is_blind].tolist()) if is_blind.any() else set()
        if self.unlogged:
            blind |= self.unlogged.keys() & set(partitions.tolist())
        for p in sorted(blind):
            rows = slice(*np.searchsorted(log.partition, [p, p + 1]).tolist())
            part = Log(*(column[rows] for column in log))
            columns = (terms[rows], begun_us[rows], is_blind[rows], is_transactional[rows] == 1)
            self._place(p, part, *columns, recent, holes)
        ends = np.append(is_first[1:], True)[: len(begin)]
        self.logged_end[partitions], self.log_end[partitions] = logged_end[ends], log.log_end[ends]
        self._note_sent(log, terms)

    def _note_sent(self, log: Log, terms: Array) -> None:
        is_fetch = log.kind == FETCH
        is_listed = is_fetch & (log.offset != NULL)
        some = log.partition[is_listed], log.seat[is_listed]
        self.sent[*some, 0], self.sent[*some, 1] = terms[is_listed], log.offset[is_listed]
        record_bytes = np.maximum(log.record_bytes[is_fetch], 0)
        self.sent[log.partition[is_fetch], log.seat[is_fetch], 2] = record_bytes

    def _place(
        self,
        p: int,
        log: Log,
        terms: Array,
        begun_us: Array,
        is_blind: Array,
        is_marked: Array,
        recent: Sequence[Log],
        holes: Sequence[LogGap],
    ) -> None:
        """Take rows of a partition with batches that log no base offset one by one."""
        one, begin = self.unlogged.get(p), 0
        is_new = one is None
        before = np.append(self.log_end[p], log.log_end)
        if one is None:
            begin = int(np.argmax(is_blind))
            one = self.unlogged[p] = Unlogged(int(terms[begin]))
            self._recall(one, p, by_partition(*recent, log.at(np.arange(begin))), log.at_us[begin])
        for r in range(len(terms)):
            if terms[r] < one.term:
                continue
            if terms[r] > one.term:
                one.begin_term(int(terms[r]))
            at_us, size = int(log.at_us[r]), _known(log.record_bytes[r])
            if r >= begin:
                _skip(one, at_us, holes, is_new=is_new and r == begin)
            if log.kind[r] == FETCH:
                one.fetch(at_us, int(log.seat[r]), _known(log.offset[r]), size or 0)
            elif log.kind[r] == PRODUCE and r >= begin:
                one.has_markers |= bool(is_marked[r])
                base = _known(log.base_offset[r])
                if is_blind[r] or (base is not None and base >= 0):
                    handled = int(begun_us[r]), at_us
                    one.append(int(log.order[r]), *handled, base, size, int(before[r]))

    def _recall(self, one: Unlogged, p: int, log: Log, at_us: int) -> None:
        """Where followers stand, and the batches of the last seconds: their offsets are logged."""
        one.has_markers = bool(self.markers_since_us[p] <= at_us)
        for seat, (term, offset, record_bytes) in enumerate(self.sent[p].tolist()):
            if term == one.term:
                one.sent[seat] = offset, record_bytes
        is_recent = (log.partition == p) & (log.kind == PRODUCE) & (log.base_offset >= 0)
        some = log.at(is_recent & (log.at_us > at_us - BOUNDED_US))
        for order, us, base, size in np.stack(
            [some.order, some.at_us, some.base_offset, some.record_bytes], axis=1
        ).tolist():
            one.append(order, us, us, base, _known(size), base)

    def forget(self, settled: Log) -> None:
        for p, one in self.unlogged.items():
            for order in settled.order[settled.partition == p].tolist():
                one.waiting.pop(order, None)


def _skip(one: Unlogged, at_us: int, holes: Sequence[LogGap], *, is_new: bool) -> None:
    """At a hole nothing sent before places batches; seconds bound an ``is_new`` one, the first."""
    begun = sum(hole.after_us <= at_us for hole in holes)
    since_us = at_us - BOUNDED_US if is_new else at_us
    is_in = any(hole.after_us <= at_us and since_us <= hole.before_us for hole in holes)
    if is_in or (begun > one.holes and not is_new):
        one.skip()
    one.holes = begun


def _known(value: int) -> int | None:
    return None if value == NULL else int(value)
