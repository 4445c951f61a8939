"""The order in which a client lists its partitions in a full FETCH, and what their topics take.

A full FETCH shows its order. Between two, with incremental ones, it has to be followed. A replica
fetcher puts a partition at the end when it has taken records of it, and with the first response
after it was added (``AbstractFetcherThread.processFetchRequest``,
``PartitionStates.updateAndMoveToEnd``). A consumer since Kafka 4.0 lists the elements of a hash set
(``AbstractFetch.prepareFetchRequests``): they stay where they are; here those that are added come
to the end. Only the grouping of adjacent partitions of a topic follows from it.
"""

from collections.abc import Callable

import numpy as np

from ..kafka.messages.encoding import Bools, Ints
from ..kafka.messages.fetch_pieces import TopicTotals
from .slots import NO_SLOTS


class FullOrder:
    """The partitions of a full FETCH in order, by slot. ``totals_of``: what topics of slots take.

    ``moves``: partitions to be put at the end once the client has the response, that is before its
    next FETCH. ``is_fresh``, by slot: no response has had the partition yet.
    """

    def __init__(self, totals_of: Callable[[Ints], TopicTotals]) -> None:
        self._totals_of = totals_of
        self.slots: Ints = NO_SLOTS
        #: None: not counted since the order changed.
        self._totals: TopicTotals | None = TopicTotals()
        self.moves: Ints = NO_SLOTS
        self.is_fresh: Bools = np.zeros(0, np.bool_)
        #: So many at the beginning stand in an order that is not known.
        self.unplaced = 0

    @property
    def totals(self) -> TopicTotals:
        if self._totals is None:
            self._totals = self._totals_of(self.slots)
        return self._totals

    def list_anew(self, slots: Ints, totals: TopicTotals) -> None:
        self.slots, self._totals, self.moves, self.unplaced = slots, totals, NO_SLOTS, 0
        self.is_fresh = np.ones(int(slots.max(initial=-1)) + 1, np.bool_)

    def take_over(self, slots: Ints) -> None:
        """Partitions were listed before the log began, in an order that is not known."""
        self.list_anew(slots, self._totals_of(slots))
        self.is_fresh[slots] = False
        self.unplaced = len(slots)

    def change(self, removed: Ints, added: Ints) -> None:
        """Partitions go, and others come to the end."""
        more = int(added.max(initial=-1)) + 1 - len(self.is_fresh)
        if more > 0:
            self.is_fresh = np.pad(self.is_fresh, (0, more + len(self.is_fresh) // 2))
        self.is_fresh[added] = True
        self._move(removed, added)

    def respond(self, slots: Ints, has_records: Bools, is_follower: bool) -> None:
        """A response has these partitions: a follower puts some at the end before it goes on."""
        if is_follower:
            self.moves = slots[has_records | self.is_fresh[slots]]
            self.is_fresh[slots] = False

    def settle(self) -> None:
        """The client has the response."""
        if len(self.moves):
            self._move(self.moves, self.moves)
            self.moves = NO_SLOTS

    def renumber(self, slot_of: Ints) -> None:
        """Slots are numbered anew: ``slot_of`` has the new ones by the old."""
        fresh = slot_of[np.flatnonzero(self.is_fresh)]
        self.is_fresh = np.zeros(int(slot_of.max(initial=-1)) + 1, np.bool_)
        self.is_fresh[fresh[fresh >= 0]] = True
        self.moves, self.slots = slot_of[self.moves], slot_of[self.slots]

    def relist(self, slots: Ints) -> None:
        """The order is this one; nothing else has happened."""
        self.slots, self._totals = slots, None

    def _move(self, removed: Ints, added: Ints) -> None:
        stays = np.ones(len(self.is_fresh), np.bool_)
        stays[removed] = False
        kept = stays[self.slots]
        self.unplaced = int(np.count_nonzero(kept[: self.unplaced]))
        self.relist(np.concatenate([self.slots[kept], added]))
