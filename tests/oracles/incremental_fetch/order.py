"""The order in which a client lists its partitions in a full FETCH, as far as a log tells.

A full FETCH shows it. Between two, with incremental ones, it has to be followed. A replica fetcher
puts a partition at the end when it has taken records of it, and with the first answer after it was
added (``AbstractFetcherThread.processFetchRequest``, ``PartitionStates.updateAndMoveToEnd``). A
consumer since Kafka 4.0 lists the elements of a hash set (``AbstractFetch.prepareFetchRequests``):
they stay where they are; here those that are added come to the end. On the wire of an incremental
FETCH none of this shows, and only the grouping of adjacent partitions of a topic follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .recorded import PartitionKey
from .runs import TopicRuns


@dataclass
class FullOrder:
    """The partitions of a full FETCH in order, and their topics' runs."""

    runs: TopicRuns
    _rank: dict[PartitionKey, int] = field(default_factory=dict)
    _last: int = 0
    #: To be put at the end once the client has the answer, that is before its next FETCH.
    _taken: list[PartitionKey] = field(default_factory=list)
    #: Added, and not answered yet.
    _fresh: set[PartitionKey] = field(default_factory=set)

    @classmethod
    def of(cls, version: int, keys: Iterable[PartitionKey]) -> FullOrder:
        """As a full FETCH lists them."""
        order = cls(TopicRuns(version))
        for key in keys:
            order.append(key)
        return order

    def __len__(self) -> int:
        return len(self._rank)

    def keys(self) -> list[PartitionKey]:
        """All partitions in order."""
        return sorted(self._rank, key=self._rank.__getitem__)

    def append(self, key: PartitionKey) -> None:
        """A partition comes."""
        self._last += 1
        self._rank[key] = self._last
        self._fresh.add(key)
        self.runs.append(key)

    def remove(self, key: PartitionKey) -> None:
        """A partition goes."""
        del self._rank[key]
        self._fresh.discard(key)
        self.runs.remove(key)

    def take(self, key: PartitionKey, has_records: bool, is_follower: bool) -> None:
        """The client is told of a partition: a follower puts it at the end before it goes on."""
        if is_follower and (has_records or key in self._fresh):
            self._taken.append(key)
        self._fresh.discard(key)

    def settle(self) -> None:
        """The client has the answer."""
        for key in self._taken:
            if key in self._rank:
                self._last += 1
                self._rank[key] = self._last
                self.runs.move_to_end(key)
        self._taken = []
