"""Values over time that the rule asks for: rising offsets, signs of progress, and a lowest value.

Each can be added to one by one or by whole arrays, and is pruned as the replay moves on, so that
memory is a span of the log. Arrays are of int64; times are microseconds since the epoch.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Above every offset and time.
HIGHEST = 2**62


if TYPE_CHECKING:
    _Array = array[int]
else:
    _Array = array


class Longs(_Array):
    """A growing column of int64, which bisect and NumPy read as it is."""

    def __new__(cls, values: list[int] | bytes = b"") -> Longs:
        """Of values, or of their bytes."""
        # array() is typed to return an array, but returns one of the class.
        return cast("Longs", super().__new__(cls, "q", values))

    def extend_by(self, values: Ints) -> None:
        """Add an array."""
        self.frombytes(np.ascontiguousarray(values, np.int64).tobytes())

    def numpy(self) -> Ints:
        """A copy as an array."""
        return np.array(self, np.int64)


def _longs() -> Longs:
    return Longs()


@dataclass
class Rising:
    """A value that never falls, and whose change it was: (at_us, value, node)."""

    at: Longs = field(default_factory=_longs)
    values: Longs = field(default_factory=_longs)
    nodes: Longs = field(default_factory=_longs)

    def add(self, at: int, value: int, node: int = -1) -> None:
        """From a time on the value is at least this; times that step back count as the last."""
        if not self.values or value > self.values[-1]:
            self.at.append(max(at, self.at[-1]) if self.at else at)
            self.values.append(value)
            self.nodes.append(node)

    def add_all(self, at: Ints, values: Ints, nodes: Ints | int = -1) -> Ints:
        """``add`` for each of some values, in their order. -> the places of those that rose."""
        if not len(at):
            return np.empty(0, np.int64)
        last = self.values[-1] if self.values else int(values.min()) - 1
        highest = np.maximum.accumulate(np.concatenate(([last], values)))
        rises = np.flatnonzero(values > highest[:-1])
        if not len(rises):
            return rises
        times = np.maximum.accumulate(at[rises])
        self.at.extend_by(np.maximum(times, self.at[-1]) if self.at else times)
        self.values.extend_by(values[rises])
        self.nodes.extend_by(np.broadcast_to(np.asarray(nodes), at.shape)[rises])
        return rises

    def value(self, at: int) -> int | None:
        """The value at a time; None before the first."""
        index = bisect_right(self.at, at)
        return self.values[index - 1] if index else None

    def values_at(self, at: Ints, default: int) -> Ints:
        """The value at each of some times; before the first the default."""
        index = np.searchsorted(self.at.numpy(), at, "right")
        return np.concatenate(([default], self.values.numpy()))[index]

    def reached(self, value: int) -> tuple[int, int] | None:
        """(when, by whom) the value was first at least this; None if it never was."""
        index = bisect_left(self.values, value)
        return (self.at[index], self.nodes[index]) if index < len(self.at) else None

    def all_reached(self, values: Ints) -> tuple[Ints, Ints]:
        """When and by whom each of some values was reached; ``HIGHEST`` if it never was."""
        index = np.searchsorted(self.values.numpy(), values)
        at = np.concatenate((self.at.numpy(), [HIGHEST]))[index]
        return at, np.concatenate((self.nodes.numpy(), [-1]))[index]

    def forget(self, before: int) -> None:
        """Drop what was over before a time, all but the value that holds then."""
        keep = max(0, bisect_right(self.at, before) - 1)
        del self.at[:keep], self.values[:keep], self.nodes[:keep]


@dataclass
class Lacks:
    """Until when a broker surely had nothing from an offset on, as some signs say."""

    offset: Longs = field(default_factory=_longs)
    until: Longs = field(default_factory=_longs)

    def add_all(self, offset: Ints, until: Ints) -> None:
        """Signs: until each time it lacks an offset."""
        if not len(offset):
            return
        if self.offset:
            offset = np.concatenate(([self.offset.pop()], offset))
            until = np.concatenate(([self.until.pop()], until))
        # What is said of an offset below the highest so far is nothing new.
        highest = np.maximum.accumulate(offset)
        news = offset == highest
        begins = np.concatenate(([True], highest[1:] != highest[:-1]))
        self.offset.extend_by(offset[begins])
        until = np.where(news, until, until.min())
        self.until.extend_by(np.maximum.reduceat(until, np.flatnonzero(begins)))

    def lacked_until(self, offsets: Ints) -> Ints:
        """The last time at which it surely lacked each of some offsets; 0 if no sign says so."""
        index = np.searchsorted(self.offset.numpy(), offsets, "right")
        return np.concatenate(([0], self.until.numpy()))[index]

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        keep = max(0, bisect_right(self.until, before) - 1)
        del self.offset[:keep], self.until[:keep]


@dataclass
class Signs:
    """What one kind of evidence says of one broker's progress.

    ``has``: from a time on it surely had everything up to an offset. ``lacks``: until a time it
    surely had nothing from an offset on.
    """

    has: Rising = field(default_factory=Rising)
    lacks: Lacks = field(default_factory=Lacks)

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        self.has.forget(before)
        self.lacks.forget(before)


@dataclass
class Samples:
    """Values measured at points in time; the one nearest in time counts, of two the earlier."""

    at: Longs = field(default_factory=_longs)
    values: Longs = field(default_factory=_longs)

    def add_all(self, at: Ints, values: Ints) -> None:
        """Add values, in their order; times may come slightly out of order."""
        times = np.concatenate((self.at.numpy(), at))
        order = np.argsort(times, kind="stable")
        self.at = Longs(times[order].tobytes())
        self.values = Longs(np.concatenate((self.values.numpy(), values))[order].tobytes())

    def nearest_until(self) -> list[int]:
        """Until when each value is the nearest, exclusive; the last is so for ever."""
        at = self.at.numpy()
        return [*((at[:-1] + at[1:]) // 2 + 1).tolist(), HIGHEST]

    def forget(self, before: int) -> None:
        """Drop what lies before a time, all but the last."""
        keep = max(0, bisect_left(self.at, before) - 1)
        del self.at[:keep], self.values[:keep]


@dataclass
class Lowest:
    """The lowest value among those who count, as ``BrokerHeartbeatManager.active`` keeps it.

    Setting a value costs O(log n), as in Kafka's sorted set.
    """

    by_node: dict[int, int] = field(default_factory=dict)
    in_order: list[tuple[int, int]] = field(default_factory=list)

    def set(self, node: int, value: int) -> None:
        """The node counts, with this value."""
        self.drop(node)
        self.by_node[node] = value
        insort(self.in_order, (value, node))

    def set_all(self, values: dict[int, int]) -> None:
        """``set`` for many nodes."""
        self.by_node.update(values)
        self.in_order = sorted((value, node) for node, value in self.by_node.items())

    def drop(self, node: int) -> None:
        """The node counts no more."""
        value = self.by_node.pop(node, None)
        if value is not None:
            del self.in_order[bisect_left(self.in_order, (value, node))]

    def lowest(self) -> int | None:
        """The lowest value; None if nobody counts."""
        return self.in_order[0][0] if self.in_order else None


class Climb(NamedTuple):
    """A value of each of several groups that never falls: before and after every change of one."""

    before: Ints
    after: Ints
    #: Each group's value at the end.
    ends: Ints


def climb(group: Ints, values: Ints, begins: Ints) -> Climb:
    """The highest value of its group so far, before and after each of ``values`` in their order.

    ``group`` are indices into ``begins``, the groups' values at the start.
    """
    groups = len(begins)
    who = np.concatenate((np.arange(groups), group))
    order = np.argsort(who.astype(np.int32), kind="stable")
    who, value = who[order], np.concatenate((begins, values))[order]
    low = int(value.min())
    span = int(value.max()) - low + 1
    if groups * span < HIGHEST:
        # Each group in a band of its own above the one before: one pass for all.
        band = who * span - low
        value = np.maximum.accumulate(value + band) - band
    else:
        first = np.searchsorted(who, np.arange(groups + 1))
        for begin, end in pairwise(first):
            value[begin:end] = np.maximum.accumulate(value[begin:end])
    after, before = np.empty_like(value), np.empty_like(value)
    after[order], before[order[1:]] = value, value[:-1]
    last = np.searchsorted(who, np.arange(groups), "right") - 1
    return Climb(before[groups:], after[groups:], value[last])


def lowest_after(climbed: Climb, group: Ints, counts: Bools, others: int | None) -> Ints | None:
    """The lowest value of the groups that count, after each change; None if nobody counts.

    ``others``: the lowest of those that do not change. Values never fall, so at any time the lowest
    is below all that come later: it is the lowest of what each change still to come changes from,
    and of what holds at the end.
    """
    if not counts.any():
        return None if others is None else np.full(len(group), others)
    floor = int(climbed.ends[counts].min())
    if others is not None:
        floor = min(floor, others)
    left = np.where(counts[group], climbed.before, HIGHEST)
    still_to_come = np.concatenate((left[1:], [floor]))
    return np.minimum.accumulate(still_to_come[::-1])[::-1]
