"""The partitions that one client fetches, and what its last FETCH and response had of each.

What was last requested and returned stands in arrays, a column per partition (``slots``); a FETCH
is compared with it as a whole. Places in a FETCH's lists are positions in the batch (``lists``).
"""

from typing import NamedTuple

import numpy as np

from ..kafka.messages.encoding import Bools, Ints
from ..kafka.messages.fetch_pieces import TopicTotals
from . import lists
from .full_order import FullOrder
from .partitions import LONG_RUN, Partitions
from .slots import NO_SLOTS, NONE, Slots

#: As if this had been returned: no header, and nothing that a session has cached.
_NEVER_RETURNED = np.array([[lists.ABSENT]] * 3 + [[lists.NOT_CACHED]] * 2)


class Response(NamedTuple):
    """What a response has of followed partitions.

    ``at``: positions in the response's list, and their ``slots``. ``before`` and ``now``: the rows
    of ``Returned.values``, in the last response that had the partition and in this one.
    ``is_changed``: another header (error and offsets). ``not_read``: the broker did not look at the
    partition's log, so that it stands behind all that were read; None: it read all.
    """

    at: Ints
    slots: Ints
    before: Ints
    now: Ints
    is_changed: Bools
    not_read: Bools | None


_NO_VALUES = np.zeros((5, 0), np.int64)
NO_RESPONSE = Response(NO_SLOTS, NO_SLOTS, _NO_VALUES, _NO_VALUES, np.zeros(0, np.bool_), None)


class FollowedPartitions:
    """All partitions of one client: the order of its full FETCH, the last values by slot."""

    def __init__(self, numbering: Partitions) -> None:
        self.numbering = numbering
        self.slots = Slots()
        self.order = FullOrder(self.totals_of)
        self.requested: Ints = np.zeros((5, 8), np.int64)
        self.returned: Ints = np.zeros((5, 8), np.int64)
        self.has_tags = False
        #: ``least_and_most`` of an order.
        self._bounds: tuple[Ints, tuple[TopicTotals, TopicTotals]]
        self._bounds = NO_SLOTS, (TopicTotals(), TopicTotals())

    def __len__(self) -> int:
        return self.slots.here

    def topics_of(self, slots: Ints) -> Ints:
        return self.numbering.topic_of.take(self.partitions_of(slots))

    def totals_of(self, slots: Ints) -> TopicTotals:
        """What the topics of a list of partitions take."""
        return self.numbering.totals(self.topics_of(slots))

    def partitions_of(self, slots: Ints) -> Ints:
        return self.slots.partitions.take(slots)

    def names_of(self, partitions: Ints, by_id: bool) -> list[tuple[str | None, int]]:
        """Topic name and index of some partitions; None: not known."""
        topics, indexes = self.numbering.topic_of[partitions], self.numbering.index_of[partitions]
        names = [self.numbering.name_of(topic, by_id) for topic in topics.tolist()]
        return list(zip(names, indexes.tolist(), strict=True))

    def by_topic(self, slots: Ints) -> Ints:
        """The partitions of some slots, topic by topic (``addToForgottenTopicMap``)."""
        topics = self.topics_of(slots).tolist()
        place = {topic: number for number, topic in enumerate(dict.fromkeys(topics))}
        order = np.array([place[topic] for topic in topics], np.int64).argsort(kind="stable")
        return self.partitions_of(slots)[order]

    def take_over(self, requested: lists.Requested, listed: slice) -> None:
        """A session had these partitions before the log began; what was sent is not known."""
        self.order.take_over(self.add(requested, np.arange(listed.start, listed.stop)))

    def least_and_most(self) -> tuple[TopicTotals, TopicTotals]:
        """What the topics of the full FETCH take, whatever the order of those without a place."""
        slots, k = self.order.slots, self.order.unplaced
        if self._bounds[0] is not slots:
            topics = self.topics_of(slots)
            first, rest = topics[:k], topics[k:]
            # Least: each topic together, and last the one that goes on behind.
            together = first[np.lexsort((first, np.isin(first, rest[:1])))]
            least = self.numbering.totals(np.concatenate([together, rest]))
            # Most: none beside another of its topic, as long as there are others between them.
            numbers, counts = np.unique(first, return_counts=True)
            apart = np.repeat(numbers, np.minimum(counts, k - counts + 1))
            sizes = self.numbering.topic_bytes.take(apart, axis=0).sum(axis=0).tolist()
            behind = self.numbering.totals(rest) if len(rest) else TopicTotals()
            runs = len(apart), *sizes, len(apart) + k // LONG_RUN
            most = TopicTotals(*map(sum, zip(runs, behind, strict=True)))
            self._bounds = slots, (least, most)
        return self._bounds[1]

    def update(self, slots: Ints, requested: lists.Requested, at: Ints) -> None:
        """A request lists partitions with these values."""
        self.requested[:, slots] = requested.values[:, at]
        self.has_tags |= requested.has_tags

    def add(self, requested: lists.Requested, at: Ints) -> Ints:
        """Partitions come, as listed; their slots."""
        slots, room = self.slots.add(requested.partitions[at]), self.requested.shape[1]
        if self.slots.end > room:
            grown = (0, 0), (0, max(self.slots.end, 2 * room) - room)
            self.requested = np.pad(self.requested, grown)
            self.returned = np.pad(self.returned, grown)
        self.returned[:, slots] = _NEVER_RETURNED
        self.update(slots, requested, at)
        return slots

    def tag_bytes(self) -> int:
        """Bytes of the tagged fields with which all partitions are requested."""
        return int(self.requested[lists.TAGS, self.slots.all()].sum()) if self.has_tags else 0

    def respond(self, returned: lists.Returned, row: int) -> Response:
        """Compare a row's response with the ones before, and remember it.

        Partitions that are not followed count for nothing.
        """
        listed = returned.rows[row]
        if listed.start == listed.stop:
            return NO_RESPONSE
        partitions = returned.partitions[listed]
        slots = self.slots.of(partitions)
        at = np.arange(listed.start, listed.stop)
        known = slots != NONE
        if np.count_nonzero(known) < len(known):
            at, slots = at[known], slots[known]
        before, now = self.returned.take(slots, axis=1), lists.columns(returned.values, at)
        differs = before[: lists.CACHED_HIGH_WATERMARK] != now[: lists.CACHED_HIGH_WATERMARK]
        is_changed = np.logical_or.reduce(differs)
        changed = is_changed.nonzero()[0]
        self.returned[:, slots[changed]] = now[:, changed]
        not_read = returned.not_read[at] if returned.errors[row] else None
        if not_read is not None and not not_read.any():
            not_read = None
        return Response(at, slots, before, now, is_changed, not_read)

    def renumber(self) -> Ints:
        """Give up the slots of partitions that have gone; the old slot of each new one."""
        kept = self.slots.all()
        slot_of = np.full(self.slots.end + 1, NONE, np.int64)
        slot_of[kept] = np.arange(len(kept))
        partitions = self.partitions_of(kept)
        self.order.renumber(slot_of)
        self.slots = Slots()
        self.slots.add(partitions)
        self.requested, self.returned = self.requested[:, kept], self.returned[:, kept]
        return kept
