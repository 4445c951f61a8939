"""The partitions of a client's fetch sessions, in arrays: a FETCH is compared with them as a whole.

Arrays stand for the maps of ``FetchSessionHandler`` and ``FetchSession``. A partition has a
*number* among all of a log, a *slot* in the arrays of its client, a *position* in a list of a
request or response (``Entries`` are both), and a *rank* in an order (``PartitionOrder``). What
Kafka's classes make of the same histories: tests/kafka_oracle.
"""

from typing import NewType, Protocol, Self, TypeVar

import msgspec
import numpy as np

from ..kafka.messages.columns import Bools, Ints

#: Rows of the values of requested partitions: fetchOffset, logStartOffset, maxBytes, and in one the
#: epochs of KIP-320 and KIP-595.
FETCH_OFFSET, FETCHER_LOG_START, MAX_BYTES, EPOCHS = range(4)
#: Rows of the values of returned partitions. The last is the high watermark as the broker caches
#: it, ``NOT_CACHED`` after an error.
ERROR, HIGH_WATERMARK, LAST_STABLE_OFFSET, LOG_START_OFFSET, CACHED_HIGH_WATERMARK = range(5)

#: Offsets of a ``CachedPartition`` before its first response; its high watermark after an error.
NOT_CACHED = -1
#: A value that Kafka never writes.
ABSENT = -(2**63)
_NEVER_RETURNED = np.array([[ABSENT]] * 3 + [[NOT_CACHED]] * 2)

#: Places of partitions in the arrays of their client, in the order in which they came.
Slots = NewType("Slots", Ints)
NO_SLOT = -1
NOTHING: Ints = np.zeros(0, np.int64)
NO_SLOTS = Slots(NOTHING)


class RequestLists(Protocol):
    """Lists of requests: positions, the number of the partition at each, and its rows."""

    positions: Ints
    partitions: Ints
    values: Ints


class ResponseLists(RequestLists, Protocol):
    """Lists of responses. ``not_read``: the partition's log was not looked at.

    ``brings``: it has records, an error, a preferred read replica (KIP-392) or a diverging epoch
    (KIP-595).
    """

    brings: Bools
    not_read: Bools


class Numbering(Protocol):
    """Topics of partitions by number, and their names (None: not known) and indexes."""

    topic_of: Ints

    def names_of(self, partitions: Ints, by_id: bool) -> list[tuple[str | None, int]]: ...


class Entries(msgspec.Struct, frozen=True, gc=False):
    """Entries of a list: positions, and the slots of the partitions there."""

    at: Ints
    slots: Slots

    def where(self, which: Ints | Bools) -> "Entries":
        return Entries(self.at[which], Slots(self.slots[which]))

    def joined(self, others: "Entries") -> "Entries":
        slots = Slots(np.concatenate([self.slots, others.slots]))
        return Entries(np.concatenate([self.at, others.at]), slots)


NO_ENTRIES = Entries(NOTHING, NO_SLOTS)


class ResponseChanges(msgspec.Struct, gc=False):
    """Changes that a response makes to a client's partitions, in which rows, and what it brings.

    ``not_read`` is None where all were read.
    """

    entries: Entries
    differs: Bools
    brings: Bools
    not_read: Bools | None

    @property
    def is_changed(self) -> Bools:
        """Tells which partitions are returned with any value other than last time."""
        is_changed: Bools = np.logical_or.reduce(self.differs[:CACHED_HIGH_WATERMARK])
        return is_changed


_NO_REQUESTED: Ints = np.zeros((EPOCHS + 1, 0), np.int64)
_NO_RETURNED: Ints = np.zeros((CACHED_HIGH_WATERMARK + 1, 0), np.int64)
_NO_FLAGS = _NO_RETURNED.astype(np.bool_)
_NO_RESPONSE = ResponseChanges(NO_ENTRIES, _NO_FLAGS, _NO_FLAGS[0], None)


class CachedPartitions:
    """The partitions of a client, with what it last requested of them and what was returned last.

    That is ``FetchSessionHandler.sessionPartitions`` and the ``CachedPartition``s of a session, a
    column each. ``end``: the slots in use; ``size``: the partitions. Slots of partitions that have
    gone are not used again until ``renumber``.
    """

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.restore(NOTHING, _NO_REQUESTED, _NO_RETURNED)

    def restore(self, numbers: Ints, requested: Ints, returned: Ints) -> None:
        """Replaces all partitions by these, in slots 0, 1, ..."""
        self.end = self.size = len(numbers)
        self._numbers, self.requested, self.returned = numbers, requested, returned
        #: By number; all numbers from the last index on have its ``NO_SLOT``.
        self._slot_of: Ints = np.full(int(numbers.max(initial=-1)) + 2, NO_SLOT, np.int32)
        self._slot_of[numbers] = np.arange(self.end)

    def slots_of(self, numbers: Ints) -> Slots:
        """Returns the slot of each partition, ``NO_SLOT`` where it has none."""
        return Slots(self._slot_of.take(numbers, mode="clip"))

    def numbers_of(self, slots: Slots) -> Ints:
        return self._numbers.take(slots)

    def slots(self) -> Slots:
        """Returns the slots of all partitions, in the order in which they came."""
        slots = self.slots_of(self._numbers[: self.end])
        return Slots(np.flatnonzero(slots == np.arange(self.end)))

    def add(self, requested: RequestLists, at: Ints) -> Entries:
        """Adds the partitions listed at some positions, as never returned yet."""
        numbers, room = requested.partitions[at], len(self._numbers)
        beyond = int(numbers.max(initial=-1)) + 2 - len(self._slot_of)
        if beyond > 0:
            more = max(beyond, len(self._slot_of))
            self._slot_of = np.pad(self._slot_of, (0, more), constant_values=NO_SLOT)
        slots = Slots(np.arange(self.end, self.end + len(at)))
        self.end, self.size = self.end + len(at), self.size + len(at)
        if self.end > room:
            more = max(self.end, 2 * room, 8) - room
            self._numbers = np.pad(self._numbers, (0, more))
            self.requested = np.pad(self.requested, ((0, 0), (0, more)))
            self.returned = np.pad(self.returned, ((0, 0), (0, more)))
        self._numbers[slots], self._slot_of[numbers] = numbers, slots
        self.requested[:, slots], self.returned[:, slots] = requested.values[:, at], _NEVER_RETURNED
        return Entries(at, slots)

    def update(self, requested: RequestLists, entries: Entries) -> tuple[Entries, Bools]:
        """Remembers what is requested; returns the entries that changed, and in which rows."""
        now = _columns(requested.values, entries.at)
        differs = self.requested.take(entries.slots, axis=1) != now
        which = np.logical_or.reduce(differs).nonzero()[0]
        if len(which) < len(entries.at):
            entries, now, differs = entries.where(which), now.take(which, 1), differs[:, which]
        self.requested[:, entries.slots] = now
        return entries, differs

    def entries_of(self, lists: RequestLists, listed: slice) -> tuple[Entries, Ints]:
        """Finds entries of a list among these partitions, and positions of those that are not."""
        slots = self.slots_of(lists.partitions[listed])
        entries = Entries(lists.positions[listed], slots)
        if NO_SLOT not in slots.tolist():
            return entries, NOTHING
        is_cached = slots != NO_SLOT
        return entries.where(is_cached), entries.at[~is_cached]

    def remove(self, slots: Slots) -> None:
        self._slot_of[self.numbers_of(slots)] = NO_SLOT
        self.size -= len(slots)

    def respond(self, returned: ResponseLists, listed: slice, has_errors: bool) -> ResponseChanges:
        """Compares a response with the ones before, and remembers its values."""
        if listed.start == listed.stop:
            return _NO_RESPONSE
        entries, _ = self.entries_of(returned, listed)
        at, slots = entries.at, entries.slots
        now, not_read = _columns(returned.values, at), None
        differs = self.returned.take(slots, axis=1) != now
        self.returned[:, slots] = now
        if has_errors:
            self.returned[CACHED_HIGH_WATERMARK, slots[now[ERROR] != 0]] = NOT_CACHED
            not_read = returned.not_read[at]
            if not not_read.any():
                not_read = None
        return ResponseChanges(entries, differs, returned.brings[at], not_read)

    def renumber(self) -> Slots:
        """Gives up the slots of partitions that have gone; returns the old slot of each new one."""
        kept = self.slots()
        self.restore(self.numbers_of(kept), self.requested[:, kept], self.returned[:, kept])
        return kept


_Rows = TypeVar("_Rows", Ints, Bools)


def _columns(rows: _Rows, at: Ints) -> _Rows:
    """Returns the columns at ascending positions, without a copy where they are adjacent."""
    if len(at) and at[-1] - at[0] == len(at) - 1:
        return rows[:, at[0] : at[-1] + 1]
    return rows.take(at, axis=1)


class PartitionOrder(msgspec.Struct, array_like=True):
    """The order of a session's partitions (a linked map in Kafka): their ranks, by slot."""

    ranks: Ints
    last: int = 0

    @classmethod
    def listing(cls, slots: Slots) -> Self:
        order = cls(np.zeros(int(slots.max(initial=-1)) + 1, np.int64))
        order.move_last(slots)
        return order

    def sort(self, entries: Entries) -> Entries:
        if len(entries.at) < 2:
            return entries
        return entries.where(self.ranks[entries.slots].argsort())

    def move_last(self, slots: Slots) -> None:
        """Puts partitions at the end, in this order."""
        if len(slots):
            first, self.last = self.last, self.last + len(slots)
            self._set(slots, np.arange(first, self.last))

    def replace(self, slots: Slots, by: Slots) -> None:
        """Puts partitions in the places of others."""
        self._set(by, self.ranks[slots])

    def renumber(self, kept: Slots) -> None:
        self.ranks = self.ranks[kept]

    def _set(self, slots: Slots, ranks: Ints) -> None:
        try:
            self.ranks[slots] = ranks
        except IndexError:  # rare: there is no room for it
            end, room = int(slots.max()) + 1, len(self.ranks)
            self.ranks = np.pad(self.ranks, (0, max(end, 2 * room) - room))
            self.ranks[slots] = ranks
