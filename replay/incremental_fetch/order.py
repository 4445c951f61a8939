"""The order in which a client lists its partitions in a full FETCH, as far as a log tells.

A full FETCH shows it. Between two, with incremental ones, it has to be followed. A replica fetcher
puts a partition at the end when it has taken records of it, and with the first answer after it was
added (``AbstractFetcherThread.processFetchRequest``, ``PartitionStates.updateAndMoveToEnd``). A
consumer since Kafka 4.0 lists the elements of a hash set (``AbstractFetch.prepareFetchRequests``):
they stay where they are; here those that are added come to the end. On the wire of an incremental
FETCH none of this shows, and only the grouping of adjacent partitions of a topic follows from it.

The order is a list as long as full FETCHes follow one another (each is read whole anyway). The
first change that comes alone turns it into ranks and runs, and from then on a change costs the same
however many partitions there are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kip_replay.replay.kafka.messages.encoding import Bools, Ints

from .partitions import Partitions
from .runs import TopicRuns
from .topics import TopicTotals

NO_SLOTS: Ints = np.zeros(0, np.int64)


class FullOrder:
    """The partitions of a full FETCH in order, by slot, and what their topics take.

    ``topics_of`` gives the topics of slots.
    """

    def __init__(self, numbering: Partitions, topics_of: Callable[[Ints], Ints]) -> None:
        self._numbering = numbering
        self._topics_of = topics_of
        self._listed: Ints = NO_SLOTS
        self._totals = TopicTotals()
        #: None: the order is ``_listed``. Else ranks by slot, -1 for who is not there.
        self._runs: TopicRuns | None = None
        self._rank: Ints = NO_SLOTS
        self._last = 0
        #: To be put at the end once the client has the answer, that is before its next FETCH.
        self.taken: Ints = NO_SLOTS
        #: Who was not answered yet: ``marked``, or, after a full FETCH, all but ``marked``.
        self.marked: set[int] = set()
        self.all_fresh = False

    def __len__(self) -> int:
        return len(self._listed) if self._runs is None else len(self._runs)

    @property
    def totals(self) -> TopicTotals:
        """What the topics of a full FETCH take."""
        return self._totals if self._runs is None else self._runs.totals

    def list_anew(self, slots: Ints, totals: TopicTotals) -> None:
        """A full FETCH lists them."""
        self._listed, self._totals = slots, totals
        self._runs, self.taken = None, NO_SLOTS
        self.marked.clear()
        self.all_fresh = True

    def keys(self) -> Ints:
        """All partitions in order."""
        if self._runs is None:
            return self._listed
        slots = np.flatnonzero(self._rank >= 0)
        return slots[np.argsort(self._rank[slots])]

    def change(self, removed: Ints, added: Ints) -> None:
        """Partitions go, and others come to the end."""
        if not len(removed) and not len(added):
            return
        runs = self._followed(int(added.max(initial=-1)))
        runs.remove(removed)
        self._rank[removed] = -1
        self.marked.difference_update(removed.tolist())
        runs.append(added, self._topics_of(added))
        self._put_last(added)
        if not self.all_fresh:
            self.marked.update(added.tolist())

    def take(self, slots: Ints, has_records: Bools, is_follower: bool) -> None:
        """The client is told of partitions: a follower puts some at the end before it goes on."""
        if is_follower:
            fresh = self._are_fresh(slots)
            self.taken = slots[has_records] if fresh is None else slots[has_records | fresh]
        self._answered(slots)

    def settle(self) -> None:
        """The client has the answer."""
        taken, self.taken = self.taken, NO_SLOTS
        if not len(taken):
            return
        if self._runs is None and 4 * len(taken) >= len(self._listed):
            self._settle_many(taken)
            return
        runs = self._followed(-1)
        runs.remove(taken)
        runs.append(taken, self._topics_of(taken))
        self._put_last(taken)
        if runs.is_worn:
            self.relist(self.keys())

    def _settle_many(self, taken: Ints) -> None:
        moves = np.zeros(int(self._listed.max()) + 1, np.bool_)
        moves[taken] = True
        self.relist(np.concatenate([self._listed[~moves[self._listed]], taken]))

    def renumber(self, slot_of: Ints) -> None:
        """Slots are numbered anew: ``slot_of`` says as what."""
        self._listed, self._totals, self._runs = slot_of[self.keys()], self.totals, None
        self.marked = set(slot_of[list(self.marked)].tolist()) if self.marked else set()
        self.taken = slot_of[self.taken]

    def relist(self, slots: Ints) -> None:
        """The order is this one; nothing else has happened."""
        self._runs, self._listed = None, slots
        self._totals = self._numbering.totals(self._topics_of(slots))

    # --- who was not answered yet

    def _are_fresh(self, slots: Ints) -> Bools | None:
        """Which of them; None: none."""
        if not self.all_fresh and not self.marked:
            return None
        if not self.marked:
            return np.ones(len(slots), np.bool_)
        marked = map(self.marked.__contains__, slots.tolist())
        return np.fromiter(marked, np.bool_, len(slots)) ^ self.all_fresh

    def _answered(self, slots: Ints) -> None:
        if self.all_fresh:
            if len(slots) < len(self):
                self.marked.update(slots.tolist())
            if max(len(slots), len(self.marked)) == len(self):
                self.marked.clear()
                self.all_fresh = False
        elif self.marked:
            self.marked.difference_update(slots.tolist())

    # --- ranks and runs

    def _followed(self, slot_max: int) -> TopicRuns:
        """From now on by ranks and runs, which have room for a slot."""
        if self._runs is None:
            listed = self._listed
            self._rank = np.full(max(int(listed.max(initial=-1)), slot_max) + 1, -1, np.int64)
            self._rank[listed] = np.arange(len(listed))
            self._last = len(listed)
            self._runs = TopicRuns(self._numbering, listed, self._topics_of(listed))
            self._listed = NO_SLOTS
        if slot_max >= len(self._rank):
            room = slot_max + 16 + slot_max // 2
            more = np.full(room - len(self._rank), -1, np.int64)
            self._rank = np.concatenate([self._rank, more])
        return self._runs

    def _put_last(self, slots: Ints) -> None:
        self._rank[slots] = np.arange(self._last, self._last + len(slots))
        self._last += len(slots)
