"""The kernel of closed loops and estimates: events to come, and values of the log over time.

Times are microseconds since the epoch. All classes are Structs, which a replay saves between
increments; they forget what is over, so that memory is bounded by a span of the log.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class EventQueue(msgspec.Struct, Generic[T], array_like=True):
    """Events to come, in the order of (time, kind, event)."""

    heap: list[tuple[int, int, T]] = []

    def push(self, at: int, kind: int, event: T) -> None:
        heappush(self.heap, (at, kind, event))

    def is_before_all(self, at: int) -> bool:
        """Says whether what happens at a time comes before all events."""
        return not self.heap or at < self.heap[0][0]

    def until(self, until: int) -> Iterable[tuple[int, int, T]]:
        """Removes and yields what is due up to a time, inclusive, and what that pushes up to it."""
        # Most calls find nothing due.
        return self._due(until) if self.heap and self.heap[0][0] <= until else ()

    def _due(self, until: int) -> Iterator[tuple[int, int, T]]:
        while self.heap and self.heap[0][0] <= until:
            yield heappop(self.heap)


class Samples(msgspec.Struct, Generic[T], array_like=True):
    """Values measured at points in time, of which the nearest counts: nothing is random."""

    at: list[int] = []
    values: list[T] = []

    def add(self, at: int, value: T) -> None:
        index = bisect_right(self.at, at)
        self.at.insert(index, at)
        self.values.insert(index, value)

    def nearest(self, at: int) -> T | None:
        """Returns the value nearest in time, the earlier of two as near; None if there is none."""
        times = self.at
        after = bisect_left(times, at)
        if after == len(times):
            return self.values[-1] if times else None
        if after and at - times[after - 1] <= times[after] - at:
            after -= 1
        return self.values[after]

    def forget(self, before: int) -> None:
        """Drops the values before a time but the last of them, which may still be the nearest."""
        keep = max(0, bisect_left(self.at, before) - 1)
        del self.at[:keep], self.values[:keep]


class Timeline(Samples[T], Generic[T], array_like=True):
    """Values that each hold from their time on, to the next."""

    def value(self, at: int) -> T | None:
        index = bisect_right(self.at, at)
        return self.values[index - 1] if index else None

    def valid(self, at: int) -> tuple[T, int] | None:
        """Returns the value at a time, and since when; before all times the first value."""
        index = max(0, bisect_right(self.at, at) - 1)
        return (self.values[index], self.at[index]) if self.at else None

    def next_change(self, since: int) -> int | None:
        index = bisect_right(self.at, since)
        return self.at[index] if index < len(self.at) else None


class Rising(Timeline[int], array_like=True):
    """An offset that never falls, and the node that made it rise."""

    nodes: list[int] = []

    def add(self, at: int, value: int, node: int = -1) -> None:
        """Notes that the offset is at least this; a time that goes back counts as the last one."""
        if not self.values or value > self.values[-1]:
            self.at.append(max(at, self.at[-1]) if self.at else at)
            self.values.append(value)
            self.nodes.append(node)

    def reached(self, value: int) -> tuple[int, int] | None:
        """Returns when, and by which node, the offset was first at least this; None if never."""
        index = bisect_left(self.values, value)
        return (self.at[index], self.nodes[index]) if index < len(self.at) else None

    def first_above(self, value: int, since: int) -> int | None:
        """Returns the first time, not before ``since``, at which the offset is above a value."""
        index = bisect_right(self.values, value)
        return max(self.at[index], since) if index < len(self.at) else None

    def forget(self, before: int) -> None:
        keep = max(0, bisect_right(self.at, before) - 1)
        del self.at[:keep], self.values[:keep], self.nodes[:keep]


def forget(state: msgspec.Struct, before: int) -> None:
    """Calls ``forget`` of all parts of a state that have it, also in its lists and dicts."""
    for name in state.__struct_fields__:
        value = getattr(state, name)
        values = list(value.values()) if isinstance(value, dict) else value
        for part in values if isinstance(values, list) else [value]:
            if hasattr(part, "forget"):
                part.forget(before)
            elif isinstance(part, msgspec.Struct):
                forget(part, before)
