"""Numbers instead of names: every topic and partition that a broker's log mentions gets one.

Topics are numbered, and partitions, in the order in which they are first seen; both numbers stay
what they are. From then on a list of partitions is an array of integers.

A partition's number stands at ``base of its topic + its index``: two steps into arrays, no search.
Topics have room for the next power of two of partitions; an index beyond ``_FAR``, which no cluster
has, goes through a dict, so that one odd line costs no memory.
"""

from collections.abc import Iterable
from operator import sub

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.kafka.messages.encoding import Ints, unsigned_varint_bytes
from kip_replay.replay.kafka.messages.fetch_pieces import TopicTotals

_NO_NUMBER = -1
_FAR = 1 << 17


class Partitions:
    """The topics and partitions of one broker's log, by number."""

    def __init__(self) -> None:
        #: A topic's id, or its name where the FETCH version has no ids.
        self.topics: list[str] = []
        #: By topic: bytes of ``topics`` in UTF-8, and of the varint before them.
        self.topic_bytes: list[tuple[int, int]] = []
        #: Names by topic id, as far as they are known.
        self.names: dict[str, str] = {}
        #: By partition number: its topic's number, and its index.
        self.topic_of: Ints = np.zeros(64, np.int64)
        self.index_of: Ints = np.zeros(64, np.int64)
        self._partitions = 0
        self._number_of_topic: dict[str, int] = {}
        self._base: Ints = np.zeros(0, np.int64)
        self._room: Ints = np.zeros(0, np.int64)
        self._table: Ints = np.zeros(0, np.int64)
        self._far: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return self._partitions

    # --- topics

    def name_of(self, topic: int, by_id: bool) -> str | None:
        """A topic's name: what it goes by, or the name of its id; None: not known."""
        key = self.topics[topic]
        return self.names.get(key) if by_id else key

    def topic_numbers(self, keys: pa.Array) -> Ints:
        """The number of each topic of an Arrow array of strings."""
        encoded = pc.dictionary_encode(keys)
        found = encoded.dictionary.to_pylist()
        self.add_topics(found)
        numbers = np.array([self._number_of_topic[key] for key in found], np.int64)
        codes: Ints = encoded.indices.to_numpy(zero_copy_only=False)
        return numbers.take(codes)

    def add_topics(self, keys: Iterable[str]) -> None:
        """Number the topics that have no number yet."""
        for key in keys:
            if key in self._number_of_topic:
                continue
            self._number_of_topic[key] = len(self.topics)
            self.topics.append(key)
            utf8_bytes = len(key.encode())
            self.topic_bytes.append((utf8_bytes, unsigned_varint_bytes(utf8_bytes + 1)))
        more = np.zeros(len(self.topics) - len(self._base), np.int64)
        if len(more):
            self._base = np.concatenate([self._base, more])
            self._room = np.concatenate([self._room, more])

    def totals(self, topics: Ints) -> TopicTotals:
        """What the topics of a list of partitions take, from each partition's topic in order."""
        runs, lengths = runs_of(topics)
        utf8_bytes = varint_bytes = length_varint_bytes = 0
        for topic, length in zip(runs, lengths, strict=True):
            utf8, varint = self.topic_bytes[topic]
            utf8_bytes += utf8
            varint_bytes += varint
            length_varint_bytes += 1 if length < 127 else unsigned_varint_bytes(length + 1)
        return TopicTotals(len(runs), utf8_bytes, varint_bytes, length_varint_bytes)

    # --- partitions

    def numbers(self, topics: Ints, indexes: Ints) -> Ints:
        """The number of each partition, from its topic's number and its index."""
        if not len(topics):
            return np.zeros(0, np.int64)
        if ((indexes >= self._room.take(topics)) | (indexes < 0)).any():
            far = (indexes >= _FAR) | (indexes < 0)
            if far.any():
                return self._numbers_with_far(topics, indexes, far)
            self._make_room(topics, indexes)
        at = self._base.take(topics) + indexes
        numbers = self._table.take(at)
        new = np.flatnonzero(numbers < 0)
        if len(new):
            new = new[np.sort(np.unique(at[new], return_index=True)[1])]
            self._table[at[new]] = self._new_numbers(topics[new], indexes[new])
            numbers = self._table.take(at)
        return numbers

    def _new_numbers(self, topics: Ints, indexes: Ints) -> Ints:
        first, end = self._partitions, self._partitions + len(topics)
        if end > len(self.topic_of):
            grown = max(end, 2 * len(self.topic_of))
            self.topic_of = np.resize(self.topic_of, grown)
            self.index_of = np.resize(self.index_of, grown)
        self.topic_of[first:end], self.index_of[first:end] = topics, indexes
        self._partitions = end
        return np.arange(first, end)

    def _make_room(self, topics: Ints, indexes: Ints) -> None:
        """Give topics whose partitions do not fit a new stretch of the table."""
        needed = np.zeros(len(self.topics), np.int64)
        np.maximum.at(needed, topics, indexes + 1)
        stretches, base = [self._table], len(self._table)
        for topic in np.flatnonzero(needed > self._room).tolist():
            stretch = np.full(1 << int(needed[topic] - 1).bit_length(), _NO_NUMBER, np.int64)
            before, room = int(self._base[topic]), int(self._room[topic])
            stretch[:room] = self._table[before : before + room]
            stretches.append(stretch)
            self._base[topic], self._room[topic] = base, len(stretch)
            base += len(stretch)
        self._table = np.concatenate(stretches)

    def _numbers_with_far(self, topics: Ints, indexes: Ints, far: np.ndarray) -> Ints:
        numbers = np.empty(len(topics), np.int64)
        numbers[~far] = self.numbers(topics[~far], indexes[~far])
        for at in np.flatnonzero(far).tolist():
            key = int(topics[at]), int(indexes[at])
            if key not in self._far:
                self._far[key] = int(self._new_numbers(topics[at, None], indexes[at, None])[0])
            numbers[at] = self._far[key]
        return numbers


def runs_of(topics: Ints) -> tuple[list[int], list[int]]:
    """Topic and length of each run of a list of partitions, from each partition's topic."""
    n = len(topics)
    if n < 2:
        return topics.tolist(), [1] * n
    ends = (topics[1:] != topics[:-1]).nonzero()[0]
    lasts = [*ends.tolist(), n - 1]
    return [*topics.take(ends).tolist(), int(topics[-1])], list(map(sub, lasts, [-1, *lasts]))
