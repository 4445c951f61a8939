"""The partitions that one client fetches, in the order in which a full FETCH lists them.

A full FETCH shows its order. Between two, with incremental ones, it has to be followed. A replica
fetcher puts a partition at the end when it has taken records of it, and with the first response
after it was added (``AbstractFetcherThread.processFetchRequest``,
``PartitionStates.updateAndMoveToEnd``). A consumer since Kafka 4.0 lists the elements of a hash set
(``AbstractFetch.prepareFetchRequests``): they stay where they are; here those that are added come
to the end. Only the grouping of adjacent partitions of a topic follows from it.
"""

import numpy as np

from ..kafka.messages.columns import Bools, Ints
from ..kafka.messages.sizes import TopicTotals
from ..model.cached_partitions import NO_SLOTS, CachedPartitions, Slots
from ..model.fetch_session import RequestChanges
from . import lists
from .lists import LONG_RUN, Partitions


class FollowedPartitions(CachedPartitions):
    """A client's partitions. ``order``: in which a full FETCH lists them, before its last response.

    ``moves``: what goes to the end once the client has that response. ``is_fresh``, by slot: no
    response has had the partition yet. ``unplaced``: of how many, at the beginning, the order is
    not known, as it is older than the log.
    """

    def __init__(self, numbering: Partitions) -> None:
        super().__init__(numbering)
        self.numbering: Partitions = numbering
        self.order, self.moves, self.unplaced = NO_SLOTS, NO_SLOTS, 0
        self.is_fresh: Bools = np.zeros(0, np.bool_)
        #: None: not counted since the order changed.
        self._totals: tuple[TopicTotals, TopicTotals] | None = None

    def list_anew(self, order: Slots, totals: TopicTotals) -> None:
        """Replaces the order by that of a full FETCH, of whose topics the totals are known."""
        self.order, self.moves, self.unplaced = order, NO_SLOTS, 0
        self.is_fresh = np.ones(self.end, np.bool_)
        self._totals = totals, totals

    def take_over(self, requested: lists.Requested, listed: slice) -> None:
        """Begins with what a session had before the log, in an order that is not known."""
        self.order = self.add(requested, requested.positions[listed]).slots
        self.is_fresh, self.unplaced, self._totals = np.zeros(self.end, np.bool_), self.end, None

    def change(self, changes: RequestChanges) -> None:
        """Changes the order as the client does: by the response it has had, then by its FETCH."""
        if len(self.moves):
            # What is at the end already stays there.
            if self.order[-len(self.moves) :].tobytes() != self.moves.tobytes():
                self._move(self.moves, self.moves)
            self.moves = NO_SLOTS
        if not changes.keeps_the_set:
            self.is_fresh = np.append(self.is_fresh, np.ones(self.end - len(self.is_fresh), bool))
            gone = np.concatenate([changes.removed, changes.replaced])
            added = changes.added.joined(changes.replacing)
            self._move(Slots(gone), added.slots)

    def move_returned(self, slots: Slots, has_records: Bools) -> None:
        """Notes which partitions a follower puts at the end once it has this response."""
        self.moves = Slots(slots[has_records | self.is_fresh[slots]])
        self.is_fresh[slots] = False

    def order_returned(self, not_read: Ints) -> Slots:
        """Returns the order of a full response: what the broker did not read comes last."""
        last = np.isin(self.numbers_of(self.order), not_read)
        return Slots(np.concatenate([self.order[~last], self.order[last]]))

    def _move(self, removed: Slots, added: Slots) -> None:
        is_removed = np.zeros(self.end, np.bool_)
        is_removed[removed] = True
        kept = ~is_removed[self.order]
        if self.unplaced:
            self.unplaced = int(np.count_nonzero(kept[: self.unplaced]))
        self.order, self._totals = Slots(np.concatenate([self.order[kept], added])), None

    @property
    def totals(self) -> tuple[TopicTotals, TopicTotals]:
        """Counts what topics of a full FETCH take, at least and at most: its order may be open."""
        if self._totals is None:
            topics = self.topics_of(self.order)
            totals = self.numbering.totals(topics)
            self._totals = (totals, totals) if self.unplaced < 2 else self._bounds(topics)
        return self._totals

    def _bounds(self, topics: Ints) -> tuple[TopicTotals, TopicTotals]:
        unplaced = self.unplaced
        first, rest = topics[:unplaced], topics[unplaced:]
        # Least: each topic together, and last the one that goes on behind.
        together = first[np.lexsort((first, np.isin(first, rest[:1])))]
        least = self.numbering.totals(np.concatenate([together, rest]))
        # Most: none beside another of its topic, as long as there are others between them.
        numbers, counts = np.unique(first, return_counts=True)
        apart = np.repeat(numbers, np.minimum(counts, unplaced - counts + 1))
        sizes = self.numbering.topic_bytes.take(apart, axis=0).sum(axis=0).tolist()
        behind = self.numbering.totals(rest) if len(rest) else TopicTotals()
        runs = len(apart), *sizes, len(apart) + unplaced // LONG_RUN
        return least, TopicTotals(*map(sum, zip(runs, behind, strict=True)))

    def topics_of(self, slots: Slots) -> Ints:
        return self.numbering.topic_of.take(self.numbers_of(slots))

    def renumber(self) -> Slots:
        place = np.zeros(self.end, np.int64)
        kept = super().renumber()
        place[kept] = np.arange(self.end)
        self.order, self.moves = Slots(place[self.order]), Slots(place[self.moves])
        self.is_fresh = self.is_fresh[kept]
        return kept
