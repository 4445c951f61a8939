"""Where a client's partitions stand in its arrays: slots, in the order in which partitions came.

Slots of partitions that have gone are not used again until all are numbered anew.
"""

from typing import Self

import msgspec
import numpy as np

from ..kafka.messages.encoding import Ints

#: No slot.
NONE = -1
NO_SLOTS: Ints = np.zeros(0, np.int64)


class Slots:
    def __init__(self) -> None:
        #: By partition; the last is that of all that are beyond.
        self._slot_of: Ints = np.full(1, NONE, np.int32)
        self._partition: Ints = np.zeros(8, np.int64)
        #: Slots in use and gone ones together, and partitions that there are.
        self.end = 0
        self.here = 0

    @property
    def partitions(self) -> Ints:
        """The partition of each slot, gone ones included."""
        return self._partition[: self.end]

    def of(self, partitions: Ints) -> Ints:
        """The slot of each partition, ``NONE`` where it has none."""
        return self._slot_of.take(partitions, mode="clip")

    def all(self) -> Ints:
        """All slots of partitions that there are, in the order in which they came."""
        return np.flatnonzero(self.of(self.partitions) == np.arange(self.end))

    def add(self, partitions: Ints) -> Ints:
        """New slots for partitions that have none."""
        beyond = int(partitions.max(initial=-1)) + 2 - len(self._slot_of)
        if beyond > 0:
            more = max(beyond, len(self._slot_of))
            self._slot_of = np.pad(self._slot_of, (0, more), constant_values=NONE)
        first, self.end = self.end, self.end + len(partitions)
        if self.end > len(self._partition):
            self._partition = np.resize(self._partition, max(self.end, 2 * len(self._partition)))
        slots = np.arange(first, self.end)
        self._partition[first : self.end] = partitions
        self._slot_of[partitions] = slots
        self.here += len(partitions)
        return slots

    def remove(self, slots: Ints) -> None:
        self._slot_of[self._partition[slots]] = NONE
        self.here -= len(slots)


class Ranks(msgspec.Struct, array_like=True):
    """An order of slots: their ranks; those of slots that are not in it mean nothing."""

    by_slot: Ints
    last: int

    @classmethod
    def of(cls, slots: Ints) -> Self:
        ranks = cls(np.zeros(int(slots.max(initial=-1)) + 1, np.int64), 0)
        ranks.put_last(slots)
        return ranks

    def sort(self, values: Ints, slots: Ints) -> Ints:
        return values if len(slots) < 2 else values[self.by_slot[slots].argsort()]

    def put_last(self, slots: Ints) -> None:
        """Slots come to the end, in this order."""
        if len(slots):
            first, self.last = self.last, self.last + len(slots)
            self._set(slots, np.arange(first, self.last))

    def replace(self, slots: Ints, by: Ints) -> None:
        """Slots take the places of others."""
        self._set(by, self.by_slot[slots])

    def renumber(self, kept: Ints) -> None:
        """The slots that there are now are these old ones."""
        self.by_slot = self.by_slot[kept]

    def _set(self, slots: Ints, ranks: Ints) -> None:
        end, room = int(slots.max(initial=-1)) + 1, len(self.by_slot)
        if end > room:
            self.by_slot = np.pad(self.by_slot, (0, max(end, 2 * room) - room))
        self.by_slot[slots] = ranks
