"""Offsets over time, as the rule looks them up. Times are microseconds since the epoch.

All are plain lists in order of time, and drop what is over, so that memory is a span of the log.
"""

from bisect import bisect_left, bisect_right

import msgspec


class Rising(msgspec.Struct):
    """A value that never falls, and the node that made it rise."""

    at: list[int] = []
    values: list[int] = []
    nodes: list[int] = []

    def add(self, at: int, value: int, node: int = -1) -> None:
        """From a time on the value is at least this; times that step back count as the last."""
        if not self.values or value > self.values[-1]:
            self.at.append(max(at, self.at[-1]) if self.at else at)
            self.values.append(value)
            self.nodes.append(node)

    def value(self, at: int) -> int | None:
        index = bisect_right(self.at, at)
        return self.values[index - 1] if index else None

    def reached(self, value: int) -> tuple[int, int] | None:
        """(when, by which node) the value was first at least this; None if it never was."""
        index = bisect_left(self.values, value)
        return (self.at[index], self.nodes[index]) if index < len(self.at) else None

    def forget(self, before: int) -> None:
        keep = max(0, bisect_right(self.at, before) - 1)
        del self.at[:keep], self.values[:keep], self.nodes[:keep]


class Lacks(msgspec.Struct):
    """Until when a broker surely had nothing from an offset on."""

    offsets: list[int] = []
    until: list[int] = []

    def add(self, offset: int, until: int) -> None:
        """Until a time the broker lacks an offset; one below the highest so far is nothing new."""
        if not self.offsets or offset > self.offsets[-1]:
            self.offsets.append(offset)
            self.until.append(until)
        elif offset == self.offsets[-1]:
            self.until[-1] = max(self.until[-1], until)

    def lacked_until(self, offset: int) -> int:
        """The last time; 0 if none is known."""
        index = bisect_right(self.offsets, offset)
        return self.until[index - 1] if index else 0

    def forget(self, before: int) -> None:
        keep = max(0, bisect_right(self.until, before) - 1)
        del self.offsets[:keep], self.until[:keep]


class Lowest(msgspec.Struct):
    """The ``lowest`` value of some nodes. Many have the same few, so it counts nodes by value."""

    by_node: dict[int, int] = {}
    counts: dict[int, int] = {}
    lowest: int | None = None

    def set(self, node: int, value: int) -> None:
        if self.by_node.get(node) != value:
            self.drop(node)
            self.by_node[node] = value
            self.counts[value] = self.counts.get(value, 0) + 1
            if self.lowest is None or value < self.lowest:
                self.lowest = value

    def drop(self, node: int) -> None:
        value = self.by_node.pop(node, None)
        if value is not None:
            self.counts[value] -= 1
            if not self.counts[value]:
                del self.counts[value]
                self.lowest = min(self.counts, default=None)
