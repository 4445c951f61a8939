"""Values over time: measured at points, or held from one change to the next."""

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

import msgspec

from ..model.raft import UNKNOWN_OFFSET

T = TypeVar("T")


class Samples(msgspec.Struct, Generic[T], array_like=True):
    """Values measured at points in time; the nearest one counts."""

    at: list[int] = []
    values: list[T] = []

    def add(self, at: int, value: T) -> None:
        index = bisect_right(self.at, at)
        self.at.insert(index, at)
        self.values.insert(index, value)

    def nearest(self, at: int) -> T | None:
        """The value nearest in time, the earlier of two as near; None if there is none."""
        times = self.at
        if not times:
            return None
        after = bisect_left(times, at)
        if after and (after == len(times) or at - times[after - 1] <= times[after] - at):
            after -= 1
        return self.values[after]

    def forget(self, before: int) -> None:
        """Drop what lies before a time, all but the last."""
        keep = max(0, bisect_left(self.at, before) - 1)
        del self.at[:keep], self.values[:keep]


class Timeline(Samples[int], array_like=True):
    """Offsets of the leader, e.g. its log end offset: each holds from its time on, none falls."""

    def add(self, at: int, value: int) -> None:
        """Add the next value; the log may show it late, so not in the order of time."""
        self.at.append(at)
        self.values.append(value)

    def value(self, at: int) -> int:
        index = bisect_right(self.at, at)
        return self.values[index - 1] if index else UNKNOWN_OFFSET

    def first_above(self, value: int, since: int) -> int | None:
        """When, from a time on, the value is first above another."""
        index = bisect_right(self.values, value)
        return max(self.at[index], since) if index < len(self.at) else None

    def next_change(self, since: int) -> int | None:
        index = bisect_right(self.at, since)
        return self.at[index] if index < len(self.at) else None
