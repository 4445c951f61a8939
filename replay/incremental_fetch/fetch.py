"""A FETCH of the log as what it changes: where every protocol starts from."""

import numpy as np

from ..kafka.messages.encoding import Ints
from ..kafka.messages.fetch_pieces import TopicTotals
from .cache import Occurrence
from .lists import Listed, Lists
from .recorded import RecordedFetch
from .session import change
from .sizes import sizes_of
from .streams import Stream

#: Events with the number of the cache that each is in.
Events = list[tuple[int, Occurrence]]


class Fetch:
    """A FETCH of a stream whose partitions are known, or that lists them all.

    ``changes`` and ``response`` (``session``, ``followed``) are already part of what the stream
    follows, and it does not matter any more whether it was recorded as a full FETCH or not.
    ``requesting`` and ``events``: caches of which it requests a session, and what they do at once.
    """

    def __init__(self, stream: Stream, row: RecordedFetch, lists: Lists) -> None:
        self.stream, self.row, self.followed = stream, row, stream.followed
        self.requesting: list[int] = []
        self.events: Events = []
        self.requested, self.returned = lists.requested, lists.returned
        self.listed = lists.requested.rows[row.number]
        self.forgotten: Ints = lists.forgotten.partitions[lists.forgotten.rows[row.number]]
        self.sizes = sizes_of(row)
        followed, order = self.followed, self.followed.order
        if not row.is_full:
            order.settle()
        forgotten = None if row.is_full else self.forgotten
        self.changes = changes = change(
            followed, self.requested, self.listed, forgotten, row.uses_topic_ids
        )
        if row.is_full:
            slots = changes.listed_slots
            if not changes.keeps_the_set:
                slots = followed.slots.of(self.requested.partitions[self.listed])
            order.list_anew(slots, self.requested.totals[row.number])
        elif not changes.keeps_the_set:
            order.change(
                np.concatenate([changes.removed, changes.replaced]),
                np.concatenate([changes.added_slots, changes.replacing_slots]),
            )
        sent_us, waited_us = row.dequeued_us - stream.built_us, row.built_us - row.dequeued_us
        has_waited = waited_us >= sent_us
        self.response = followed.respond(self.returned, row.number, row.uses_topic_ids, has_waited)

    def topics(self, listed: Listed, at: Ints) -> TopicTotals:
        """What the topics of some positions take."""
        if self.is_as_recorded(listed, at):
            return listed.totals[self.row.number]
        return self.followed.numbering.totals(listed.topics[at])

    def more_bytes(self, at: Ints) -> int:
        """What returned partitions take beyond empty ones."""
        if len(at) == self.row.response_partitions:
            return self.returned.more_bytes_sum[self.row.number]
        return int(np.add.reduce(self.returned.more_bytes[at]))

    def is_as_recorded(self, listed: Listed, at: Ints) -> bool:
        """Positions are all of the recorded list, in its order."""
        n, row = len(at), listed.rows[self.row.number]
        return n == row.stop - row.start and (n < 2 or not np.count_nonzero(at[1:] < at[:-1]))
