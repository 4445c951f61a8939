"""How many topics a message with all partitions has, kept up while partitions come, go and move.

In a FETCH, adjacent partitions of one topic travel under one topic; a topic that stands in two
places is written twice (``FetchRequest.Builder``, ``FetchResponse.toMessage``). So the size of a
full FETCH depends on the order of its partitions, but only through its *runs*: how long each
stretch of one topic is. A partition leaves where it stands and is put at the end, nothing else
happens, and a run need not know in which order its partitions are. Each step is O(1); runs that
meet when the one between them ends are merged as in union-find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from .recorded import PartitionKey

_NONE = -1


@dataclass
class TopicRuns:
    """Runs of adjacent partitions of one topic. Plain values: ids of runs are numbers."""

    _last_id: int = 0
    _tail: int = _NONE
    _run_of: dict[PartitionKey, int] = field(default_factory=dict)
    _topic: dict[int, str] = field(default_factory=dict)
    _count: dict[int, int] = field(default_factory=dict)
    _before: dict[int, int] = field(default_factory=dict)
    _after: dict[int, int] = field(default_factory=dict)
    _merged_into: dict[int, int] = field(default_factory=dict)
    #: How many runs there are of each topic and length: what a size follows from.
    _shapes: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Iterable[PartitionKey]) -> TopicRuns:
        """The runs of a list."""
        runs = cls()
        for key in keys:
            runs.append(key)
        return runs

    def __len__(self) -> int:
        return len(self._count)

    def append(self, key: PartitionKey) -> None:
        """A partition that is not there comes to the end."""
        tail = self._tail
        if tail != _NONE and self._topic[tail] == key[0]:
            self._resize(tail, 1)
        else:
            self._last_id += 1
            tail = self._tail = self._open(self._last_id, key[0])
        self._run_of[key] = tail

    def remove(self, key: PartitionKey) -> None:
        """A partition goes."""
        run = self._find(self._run_of.pop(key))
        self._resize(run, -1)
        if not self._count[run]:
            self._close(run)

    def move_to_end(self, key: PartitionKey) -> None:
        """A partition goes to the end."""
        self.remove(key)
        self.append(key)

    def bytes(self, topic_bytes: Callable[[str, int], int]) -> int:
        """Sum over the runs, from what a topic with so many partitions takes."""
        return sum(n * topic_bytes(topic, count) for (topic, count), n in self._shapes.items())

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Topic and length of each run, from the first."""
        run = next((run for run, before in self._before.items() if before == _NONE), _NONE)
        while run != _NONE:
            yield self._topic[run], self._count[run]
            run = self._after[run]

    def _open(self, run: int, topic: str) -> int:
        before = self._tail
        self._topic[run], self._count[run] = topic, 0
        self._before[run], self._after[run] = before, _NONE
        if before != _NONE:
            self._after[before] = run
        self._resize(run, 1)
        return run

    def _close(self, run: int) -> None:
        before, after = self._before.pop(run), self._after.pop(run)
        del self._topic[run], self._count[run]
        self._link(before, after)
        if run == self._tail:
            self._tail = before
        if before != _NONE and after != _NONE and self._topic[before] == self._topic[after]:
            self._merge(before, after)

    def _merge(self, run: int, other: int) -> None:
        """``other`` stands right behind ``run`` and is of the same topic."""
        moved = self._count[other]
        self._resize(other, -moved)
        self._resize(run, moved)
        self._merged_into[other] = run
        self._link(run, self._after.pop(other))
        del self._topic[other], self._count[other], self._before[other]
        if other == self._tail:
            self._tail = run

    def _link(self, before: int, after: int) -> None:
        if before != _NONE:
            self._after[before] = after
        if after != _NONE:
            self._before[after] = before

    def _resize(self, run: int, by: int) -> None:
        topic, count = self._topic[run], self._count[run]
        self._shape(topic, count, -1)
        self._shape(topic, count + by, 1)
        self._count[run] = count + by

    def _shape(self, topic: str, count: int, by: int) -> None:
        if not count:
            return
        left = self._shapes.get((topic, count), 0) + by
        if left:
            self._shapes[topic, count] = left
        else:
            del self._shapes[topic, count]

    def _find(self, run: int) -> int:
        merged = self._merged_into
        while run in merged:
            if merged[run] in merged:
                merged[run] = merged[merged[run]]
            run = merged[run]
        return run
