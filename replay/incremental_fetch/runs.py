"""What the topics of a full FETCH take, kept up while partitions come, go and move.

Only the runs of topics matter (``topics``), not the order within one. A partition leaves where it
stands or is put at the end, nothing else happens, so a run need not know in which order its
partitions are, nor which they are: each partition knows its run. Runs that meet when the one
between them ends become one; the smaller then points at the larger, and whoever looks for its run
follows the pointers and shortens them (union-find). Each change costs the same however many
partitions there are.
"""

from __future__ import annotations

import numpy as np

from kip_replay.replay.kafka.messages.encoding import Ints

from .partitions import Partitions
from .topics import TopicTotals, length_varint_bytes

_NONE = -1
#: So many partitions and fewer take one byte to count.
_SHORT = 126
#: So many partitions are put at the end one by one, which is faster than in vectors.
_FEW = 12


class TopicRuns:
    """Runs of adjacent partitions of one topic.

    A partition goes by its slot (``followed``). ``topics`` is the topic of each partition in order.
    """

    def __init__(self, numbering: Partitions, slots: Ints, topics: Ints) -> None:
        self._numbering = numbering
        self._topic: list[int] = []
        self._length: list[int] = []
        self._before: list[int] = []
        self._after: list[int] = []
        self._joined: list[int] = []
        self._tail = _NONE
        self._run_of: dict[int, int] = {}
        self._totals = [*TopicTotals()]
        self.append(slots, topics)

    def __len__(self) -> int:
        """Partitions."""
        return len(self._run_of)

    @property
    def totals(self) -> TopicTotals:
        """What the topics take."""
        return TopicTotals(*self._totals)

    @property
    def is_worn(self) -> bool:
        """So many runs have come and gone that it is time to begin anew."""
        return len(self._topic) > 4 * len(self._run_of) + 1000

    def append(self, slots: Ints, topics: Ints) -> None:
        """Partitions that are not there come to the end, in this order."""
        n = len(slots)
        if n <= _FEW:
            for slot, topic in zip(slots.tolist(), topics.tolist(), strict=True):
                self._append(slot, topic)
            return
        starts = np.append(0, np.flatnonzero(topics[1:] != topics[:-1]) + 1)
        lengths = np.diff(starts, append=n).tolist()
        of_runs = topics[starts].tolist()
        first, tail = len(self._topic), self._tail
        goes_on = tail != _NONE and self._topic[tail] == of_runs[0]
        runs = [tail] if goes_on else []
        if goes_on:
            self._resize(tail, lengths[0])
            topics, of_runs = topics[lengths[0] :], of_runs[1:]
        end = first + len(of_runs)
        runs += range(first, end)
        self._run_of.update(zip(slots.tolist(), np.repeat(runs, lengths).tolist(), strict=True))
        if not of_runs:
            return
        self._topic += of_runs
        self._length += lengths[goes_on:]
        self._joined += range(first, end)
        self._before += [tail, *range(first, end - 1)]
        self._after += [*range(first + 1, end), _NONE]
        if tail != _NONE:
            self._after[tail] = first
        self._tail = end - 1
        self._count(self._numbering.totals(topics), 1)

    def _append(self, slot: int, topic: int) -> None:
        run, tail = self._tail, self._tail
        if tail != _NONE and self._topic[tail] == topic:
            self._resize(tail, 1)
        else:
            self._tail = run = len(self._topic)
            self._topic.append(topic)
            self._length.append(1)
            self._joined.append(run)
            self._before.append(tail)
            self._after.append(_NONE)
            if tail != _NONE:
                self._after[tail] = run
            self._count(self._numbering.totals_of_runs([topic]), 1)
        self._run_of[slot] = run

    def remove(self, slots: Ints) -> None:
        """Partitions go."""
        closed: list[int] = []
        run_of, lengths = self._run_of, self._length
        for slot in slots.tolist():
            run = self._find(run_of.pop(slot))
            length = lengths[run]
            if length == 1:
                lengths[run] = 0
                closed.append(self._topic[run])
                self._close(run, closed)
            elif length > _SHORT:
                self._resize(run, -1)
            else:
                lengths[run] = length - 1
        if closed:
            self._count(self._numbering.totals_of_runs(closed), -1)

    def _find(self, run: int) -> int:
        joined = self._joined
        while joined[run] != run:
            joined[run] = run = joined[joined[run]]
        return run

    def _resize(self, run: int, by: int) -> None:
        """A run that stays changes its length."""
        length = self._length[run]
        self._length[run] = length + by
        more = length_varint_bytes(length + by) - length_varint_bytes(length)
        if more:
            self._count(TopicTotals(length_varint_bytes=more), 1)

    def _close(self, run: int, closed: list[int]) -> None:
        """Take out a run that is empty; its neighbours may be of one topic."""
        before, after = self._take_out(run)
        if before == _NONE or after == _NONE or self._topic[before] != self._topic[after]:
            return
        small, large = sorted((before, after), key=self._length.__getitem__)
        length = self._length[small]
        self._resize(small, 1 - length)
        self._length[small] = 0
        closed.append(self._topic[small])
        self._take_out(small)
        self._joined[small] = large
        self._resize(large, length)

    def _take_out(self, run: int) -> tuple[int, int]:
        before, after = self._before[run], self._after[run]
        if before != _NONE:
            self._after[before] = after
        if after != _NONE:
            self._before[after] = before
        if run == self._tail:
            self._tail = before
        return before, after

    def _count(self, totals: TopicTotals, times: int) -> None:
        for place, value in enumerate(totals):
            self._totals[place] += times * value
