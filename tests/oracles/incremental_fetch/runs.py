"""What the topics of a full FETCH take on the wire, kept up while partitions come, go and move.

In a FETCH, adjacent partitions of one topic travel under one topic; a topic that stands in two
places is written twice (``FetchRequest.Builder``, ``FetchResponse.toMessage``). So the size of a
full FETCH depends on the order of its partitions, but only through its *runs*: how long each
stretch of one topic is. A partition leaves where it stands or is put at the end, nothing else
happens, so a run need not know in which order its partitions are. Runs that meet when the one
between them ends become one, the smaller joining the larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kip_replay.replay.kafka.messages.fetch_pieces import fetch_pieces

from .recorded import PartitionKey

_NONE = -1


@dataclass
class TopicRuns:
    """Runs of adjacent partitions of one topic, and what they take at a FETCH version."""

    version: int
    #: Bytes of all runs, less their partitions and the number of runs.
    topics_bytes: int = 0
    _last_id: int = 0
    _tail: int = _NONE
    _run_of: dict[PartitionKey, int] = field(default_factory=dict)
    _members: dict[int, set[PartitionKey]] = field(default_factory=dict)
    _topic: dict[int, str] = field(default_factory=dict)
    _before: dict[int, int] = field(default_factory=dict)
    _after: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, version: int, keys: Iterable[PartitionKey]) -> TopicRuns:
        """The runs of a list."""
        runs = cls(version)
        for key in keys:
            runs.append(key)
        return runs

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Topic and length of each run, from the first."""
        run = next((run for run, before in self._before.items() if before == _NONE), _NONE)
        while run != _NONE:
            yield self._topic[run], len(self._members[run])
            run = self._after[run]

    def count_at(self, version: int) -> None:
        """Count the bytes at another version from now on."""
        if version != self.version:
            self.version = version
            self.topics_bytes = sum(map(self._bytes, self._members))

    def append(self, key: PartitionKey) -> None:
        """A partition that is not there comes to the end."""
        if self._tail == _NONE or self._topic[self._tail] != key[0]:
            self._open(key[0])
        self._join(self._tail, {key})

    def remove(self, key: PartitionKey) -> None:
        """A partition goes."""
        run = self._run_of.pop(key)
        self.topics_bytes -= self._bytes(run)
        self._members[run].remove(key)
        self.topics_bytes += self._bytes(run)
        if not self._members[run]:
            self._close(run)

    def move_to_end(self, key: PartitionKey) -> None:
        """A partition goes to the end."""
        self.remove(key)
        self.append(key)

    def _bytes(self, run: int) -> int:
        partitions = len(self._members[run])
        if not partitions:
            return 0
        return fetch_pieces(self.version).topic_bytes(len(self._topic[run].encode()), partitions)

    def _open(self, topic: str) -> None:
        self._last_id += 1
        run, before = self._last_id, self._tail
        self._topic[run], self._members[run] = topic, set()
        self._before[run], self._after[run] = before, _NONE
        if before != _NONE:
            self._after[before] = run
        self._tail = run

    def _join(self, run: int, keys: Iterable[PartitionKey]) -> None:
        self.topics_bytes -= self._bytes(run)
        for key in keys:
            self._members[run].add(key)
            self._run_of[key] = run
        self.topics_bytes += self._bytes(run)

    def _close(self, run: int) -> None:
        """Take out a run that is empty; its neighbours may be of one topic."""
        before, after = self._take_out(run)
        if before == _NONE or after == _NONE or self._topic[before] != self._topic[after]:
            return
        small, large = sorted((before, after), key=lambda r: (len(self._members[r]), r))
        keys = self._members[small]
        self.topics_bytes -= self._bytes(small)
        self._take_out(small)
        self._join(large, keys)

    def _take_out(self, run: int) -> tuple[int, int]:
        before, after = self._before.pop(run), self._after.pop(run)
        del self._topic[run], self._members[run]
        if before != _NONE:
            self._after[before] = after
        if after != _NONE:
            self._before[after] = before
        if run == self._tail:
            self._tail = before
        return before, after
