"""Values over time that the rule asks for: rising offsets, signs of progress, and a lowest value.

All are plain lists and dicts, pruned as the replay moves on, so that memory is a span of the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field


@dataclass
class Rising:
    """A value that never falls, and whose change it was: (at_us, value, node)."""

    at: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)

    def add(self, at: int, value: int, node: int = -1) -> None:
        """From a time on the value is at least this; times that step back count as the last."""
        if not self.values or value > self.values[-1]:
            self.at.append(max(at, self.at[-1]) if self.at else at)
            self.values.append(value)
            self.nodes.append(node)

    def value(self, at: int) -> int | None:
        """The value at a time; None before the first."""
        index = bisect_right(self.at, at)
        return self.values[index - 1] if index else None

    def reached(self, value: int) -> tuple[int, int] | None:
        """(when, by whom) the value was first at least this; None if it never was."""
        index = bisect_left(self.values, value)
        return (self.at[index], self.nodes[index]) if index < len(self.at) else None

    def forget(self, before: int) -> None:
        """Drop what was over before a time, all but the value that holds then."""
        keep = max(0, bisect_right(self.at, before) - 1)
        del self.at[:keep], self.values[:keep], self.nodes[:keep]


@dataclass
class Signs:
    """What one kind of evidence says of one broker's progress.

    ``has``: from a time on it surely had everything up to an offset. ``lacks``: until a time it
    surely had nothing from an offset on.
    """

    has: Rising = field(default_factory=Rising)
    lacks_from: list[int] = field(default_factory=list)
    lacks_until: list[int] = field(default_factory=list)

    def add(self, at: int, offset: int, lacks_from: int, lacks_until: int) -> None:
        """A sign: at ``at`` it has ``offset``, until ``lacks_until`` it lacks ``lacks_from``."""
        self.has.add(at, offset)
        if not self.lacks_from or lacks_from > self.lacks_from[-1]:
            self.lacks_from.append(lacks_from)
            self.lacks_until.append(lacks_until)
        elif lacks_from == self.lacks_from[-1]:
            self.lacks_until[-1] = max(self.lacks_until[-1], lacks_until)

    def lacked_until(self, offset: int) -> int | None:
        """The last time at which it surely lacked an offset; None if no sign says so."""
        index = bisect_right(self.lacks_from, offset)
        return self.lacks_until[index - 1] if index else None

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        self.has.forget(before)
        keep = max(0, bisect_right(self.lacks_until, before) - 1)
        del self.lacks_from[:keep], self.lacks_until[:keep]


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

    def drop(self, node: int) -> None:
        """The node counts no more."""
        value = self.by_node.pop(node, None)
        if value is not None:
            del self.in_order[bisect_left(self.in_order, (value, node))]

    def lowest(self) -> int | None:
        """The lowest value; None if nobody counts."""
        return self.in_order[0][0] if self.in_order else None


class Samples:
    """Values measured at points in time; the one nearest in time is asked for."""

    def __init__(self) -> None:
        self._at: list[int] = []
        self._values: list[int] = []

    def add(self, at: int, value: int) -> None:
        """Add a value; times may come slightly out of order."""
        index = bisect_right(self._at, at)
        self._at.insert(index, at)
        self._values.insert(index, value)

    def nearest(self, at: int) -> int | None:
        """The value nearest in time, the earlier of two as near; None if there is none."""
        if not self._at:
            return None
        after = bisect_left(self._at, at)
        if after == len(self._at) or (
            after > 0 and at - self._at[after - 1] <= self._at[after] - at
        ):
            after -= 1
        return self._values[after]

    def forget(self, before: int) -> None:
        """Drop what lies before a time, all but the last."""
        keep = max(0, bisect_left(self._at, before) - 1)
        del self._at[:keep], self._values[:keep]
