"""One fetch session, seen from both ends: which partitions go over the wire, and in which order.

The client (``FetchSessionHandler``) lists what is new, in the order in which its builder has it,
then what is altered, in the order in which partitions came into the session. The broker
(``FetchSession``) has its own order: that of the full response, new ones at the end, and whoever is
answered with records goes to the end (``IncrementalFetchContext``), so that the next ones get their
share of ``maxBytes``. Both are kept as ranks by slot (``followed``): a FETCH costs what it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kip_replay.replay.kafka.messages.encoding import Bools, Ints

from .followed import Changes, News
from .lists import Told
from .partitions import Partitions

_MAX_EPOCH = 2**31 - 1


class RequestLists(NamedTuple):
    """What an incremental request lists, in order: positions, and numbers of partitions.

    ``for_draft``: which of ``partitions`` are updates that the draft's request lists too.
    """

    partitions: Ints
    forgotten: list[int]
    for_draft: Bools


class Asking(NamedTuple):
    """A FETCH's changes with the slots that they got (``FollowedPartitions.ask``)."""

    changes: Changes
    added_slots: Ints
    replaced_slots: Ints


@dataclass
class FetchSession:
    """Orders, epoch and identity of a session. ``recorded_id``: its id, if the log has it.

    ``client`` and ``broker`` are ranks by slot; what they say of slots of partitions that have gone
    means nothing.
    """

    uses_topic_ids: bool
    recorded_id: int | None
    client: Ints
    broker: Ints
    last: int
    next_epoch: int = 1

    @classmethod
    def of(
        cls, uses_topic_ids: bool, recorded_id: int | None, asked: Ints, told: Ints
    ) -> FetchSession:
        """The session that a full FETCH creates, from the orders of its request and response."""
        n, room = len(asked), int(asked.max(initial=-1)) + 1
        client, broker = np.zeros(room, np.int64), np.zeros(room, np.int64)
        client[asked] = broker[told] = np.arange(n)
        return cls(uses_topic_ids, recorded_id, client, broker, n)

    def request(
        self, asking: Asking, numbering: Partitions, partition_of_slot: Ints
    ) -> RequestLists:
        """Take a FETCH's changes; return what the client lists (``Builder.build``)."""
        self.next_epoch = 1 if self.next_epoch == _MAX_EPOCH else self.next_epoch + 1
        changes = asking.changes
        if changes.keeps_the_set:
            if len(changes.updated) < 2:
                return RequestLists(changes.updated, [], changes.updated_for_draft)
            order = self.client[changes.updated_slots].argsort()
            return RequestLists(changes.updated[order], [], changes.updated_for_draft[order])
        self._make_room(len(partition_of_slot))
        old = np.array([old for _, old in changes.replaced], np.int64)
        forgotten = [*self._in_client_order(changes.removed), *self._in_client_order(old)]
        self.client[asking.replaced_slots] = self.client[old]
        took = np.array([at for at, _ in changes.replaced], np.int64)
        updated = np.concatenate([changes.updated, took])
        slots = np.concatenate([changes.updated_slots, asking.replaced_slots])
        for_draft = np.append(changes.updated_for_draft, np.zeros(len(took), np.bool_))
        order = self.client[slots].argsort()
        self.client[asking.added_slots] = self._ranks(len(asking.added_slots))
        self._update(asking, slots[order])
        not_for_draft = np.zeros(len(changes.added), np.bool_)
        return RequestLists(
            np.concatenate([changes.added, updated[order]]),
            by_topic(partition_of_slot[forgotten].tolist(), numbering),
            np.concatenate([not_for_draft, for_draft[order]]),
        )

    def in_order(self, news: News, which: Bools) -> tuple[Ints, Ints]:
        """What is answered, in the broker's order: what it did not read stands at the end.

        Positions and slots.
        """
        chosen = which.nonzero()[0]
        at, slots = news.at[chosen], news.slots[chosen]
        if len(chosen) < 2:
            return at, slots
        rank = self.broker[slots]
        if news.not_read is not None:
            order = np.lexsort((rank, news.not_read[chosen]))
        elif not np.count_nonzero(rank[1:] < rank[:-1]):
            return at, slots
        else:
            order = rank.argsort()
        return at[order], slots[order]

    def rotate(self, told: Told, at: Ints, slots: Ints) -> None:
        """The broker has answered, in this order: whoever brings records goes to the end."""
        slots = slots[told.has_records[at]]
        self.broker[slots] = self._ranks(len(slots))

    def renumber(self, kept: Ints) -> None:
        """The slots that there are now are these old ones."""
        self._make_room(int(kept.max(initial=-1)) + 1)
        self.client, self.broker = self.client[kept], self.broker[kept]

    def _in_client_order(self, slots: Ints) -> list[int]:
        in_order: list[int] = slots[self.client[slots].argsort()].tolist()
        return in_order

    def _update(self, asking: Asking, updated_slots: Ints) -> None:
        """``FetchSession.update``: what is new to the broker comes to the end, as listed."""
        new = updated_slots[np.isin(updated_slots, asking.replaced_slots)]
        for slots in (asking.added_slots, new):
            self.broker[slots] = self._ranks(len(slots))

    def _ranks(self, n: int) -> Ints:
        first, self.last = self.last, self.last + n
        return np.arange(first, first + n)

    def _make_room(self, slots: int) -> None:
        if slots > len(self.client):
            more = np.zeros(max(slots, 2 * len(self.client)) - len(self.client), np.int64)
            self.client = np.concatenate([self.client, more])
            self.broker = np.concatenate([self.broker, more])


def by_topic(partitions: Iterable[int], numbering: Partitions) -> list[int]:
    """Forgotten partitions travel topic by topic (``addToForgottenTopicMap``)."""
    topics: dict[int, list[int]] = {}
    for partition in partitions:
        topics.setdefault(int(numbering.topic_of[partition]), []).append(partition)
    return [partition for listed in topics.values() for partition in listed]
