"""One fetch session, seen from both ends: which partitions go over the wire, and in which order.

The client (``FetchSessionHandler``) lists what is new, in the order in which its builder has it,
then what is altered, in the order in which partitions came into the session. The broker
(``FetchSession``) has its own order: that of the full response, new ones at the end, and whoever is
answered with records goes to the end (``IncrementalFetchContext``), so that the next ones get their
share of ``maxBytes``. Both are kept as ranks: a FETCH costs what it changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .recorded import AskedPartition, PartitionKey, ToldPartition

_MAX_EPOCH = 2**31 - 1


class Changes(NamedTuple):
    """What a FETCH changes in the set of partitions that its sender fetches.

    ``added`` is in the order in which the sender lists them; the others have none here.
    ``replaced`` says whose place a partition takes: the same name and index, another topic id. Such
    a partition is among ``updated``, the one it replaces not among ``removed``.
    """

    added: Sequence[AskedPartition]
    updated: Sequence[AskedPartition]
    removed: Sequence[PartitionKey]
    replaced: dict[PartitionKey, PartitionKey]

    @property
    def keeps_the_set(self) -> bool:
        """No partition comes or goes."""
        return not (self.added or self.removed or self.replaced)


class RequestLists(NamedTuple):
    """What an incremental request lists, in order."""

    partitions: list[AskedPartition]
    forgotten: list[PartitionKey]


@dataclass
class FetchSession:
    """Orders, epoch and identity of a session. ``recorded_id``: its id, if the log has it."""

    uses_topic_ids: bool
    recorded_id: int | None
    next_epoch: int = 1
    _client: dict[PartitionKey, int] = field(default_factory=dict)
    _broker: dict[PartitionKey, int] = field(default_factory=dict)
    _last: int = 0

    @classmethod
    def of(
        cls,
        uses_topic_ids: bool,
        recorded_id: int | None,
        asked: Iterable[PartitionKey],
        told: Iterable[PartitionKey],
    ) -> FetchSession:
        """The session that a full FETCH creates, from the orders of its request and response."""
        session = cls(uses_topic_ids, recorded_id)
        for orders, keys in ((session._client, asked), (session._broker, told)):
            for key in keys:
                orders[key] = session._rank()
        return session

    def __len__(self) -> int:
        return len(self._broker)

    def request(self, changes: Changes) -> RequestLists:
        """Take a FETCH's changes; return what the client lists (``Builder.build``)."""
        replaced = sorted(changes.replaced.values(), key=self._client.__getitem__)
        removed = sorted(changes.removed, key=self._client.__getitem__)
        for key, old in changes.replaced.items():
            self._client[key] = self._client.pop(old)
        updated = sorted(changes.updated, key=lambda asked: self._client[asked.key])
        for key in removed:
            del self._client[key]
        for asked in changes.added:
            self._client[asked.key] = self._rank()
        lists = RequestLists([*changes.added, *updated], by_topic([*removed, *replaced]))
        self._update(lists)
        self.next_epoch = 1 if self.next_epoch == _MAX_EPOCH else self.next_epoch + 1
        return lists

    def in_order(
        self, told: Iterable[ToldPartition], not_read: Collection[PartitionKey]
    ) -> list[ToldPartition]:
        """In the order in which the broker answers: what it did not read stands at the end."""
        rank = self._broker
        return sorted(told, key=lambda t: (t.key in not_read, rank[t.key]))

    def rotate(self, answered: Iterable[ToldPartition]) -> None:
        """The broker has answered, in this order: whoever brings records goes to the end."""
        for partition in answered:
            if partition.has_records:
                self._broker[partition.key] = self._rank()

    def _update(self, lists: RequestLists) -> None:
        """``FetchSession.update``: adds what is new to the end, then forgets."""
        for asked in lists.partitions:
            if asked.key not in self._broker:
                self._broker[asked.key] = self._rank()
        for key in lists.forgotten:
            self._broker.pop(key, None)

    def _rank(self) -> int:
        self._last += 1
        return self._last


def by_topic(keys: Iterable[PartitionKey]) -> list[PartitionKey]:
    """Forgotten partitions travel topic by topic (``addToForgottenTopicMap``)."""
    topics: dict[str, list[PartitionKey]] = {}
    for key in keys:
        topics.setdefault(key[0], []).append(key)
    return [key for topic in topics.values() for key in topic]
