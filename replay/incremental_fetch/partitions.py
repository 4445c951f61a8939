"""Numbers instead of names: every topic and partition that a broker's log mentions gets one.

In the order in which they are first seen; from then on a list of partitions is an array of
integers. A list is coded by Arrow first, so that each partition in it is looked up once.
"""

from collections.abc import Iterable
from operator import sub

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..kafka.messages.encoding import Ints, unsigned_varint_bytes, varint_sizes
from ..kafka.messages.fetch_pieces import TopicTotals


class Partitions:
    """The topics and partitions of one broker's log, by number."""

    def __init__(self) -> None:
        #: A topic's id, or its name where the FETCH version has no ids.
        self.topics: list[str] = []
        #: By topic: bytes of ``topics`` in UTF-8, and of the varint before them.
        self.topic_bytes: Ints = np.zeros((0, 2), np.int64)
        #: Names by topic id, as far as they are known.
        self.names: dict[str, str] = {}
        #: By partition number: its topic's number, and its index.
        self.topic_of: Ints = np.zeros(64, np.int64)
        self.index_of: Ints = np.zeros(64, np.int64)
        self._number_of_topic: dict[str, int] = {}
        #: By topic's number and index, packed.
        self._number_of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._number_of)

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
        new = [key for key in dict.fromkeys(keys) if key not in self._number_of_topic]
        if new:
            self.topics += new
            self._number_of_topic = {key: number for number, key in enumerate(self.topics)}
            utf8_bytes = np.array([len(key.encode()) for key in new])
            more = np.stack([utf8_bytes, varint_sizes(utf8_bytes + 1)], axis=1)
            self.topic_bytes = np.concatenate([self.topic_bytes, more])

    def totals(self, topics: Ints) -> TopicTotals:
        """What the topics of a list of partitions take, from each partition's topic in order."""
        runs, lengths = runs_of(topics)
        utf8_bytes, varint_bytes = self.topic_bytes.take(runs, axis=0).sum(axis=0).tolist()
        # Mostly one byte: a run of 127 partitions or more is rare.
        more = sum(unsigned_varint_bytes(n + 1) - 1 for n in lengths if n >= 127)
        return TopicTotals(len(runs), utf8_bytes, varint_bytes, len(runs) + more)

    def numbers(self, topics: Ints, indexes: Ints) -> Ints:
        """The number of each partition, from its topic's number and its index."""
        keys = topics << 32 | indexes.astype(np.int64) & 0xFFFFFFFF
        coded = pa.array(keys).dictionary_encode()
        found, known = coded.dictionary.to_numpy(), len(self)
        number_of = self._number_of
        numbers = [number_of.setdefault(key, len(number_of)) for key in found.tolist()]
        if len(self) > len(self.topic_of):
            grown = max(len(self), 2 * len(self.topic_of))
            self.topic_of = np.resize(self.topic_of, grown)
            self.index_of = np.resize(self.index_of, grown)
        if len(self) > known:
            self.topic_of[numbers], self.index_of[numbers] = found >> 32, found.astype(np.int32)
        codes: Ints = coded.indices.to_numpy()
        return np.array(numbers, np.int64).take(codes)


def runs_of(topics: Ints) -> tuple[list[int], list[int]]:
    """Topic and length of each run of a list of partitions, from each partition's topic."""
    n = len(topics)
    if n < 2:
        return topics.tolist(), [1] * n
    ends = (topics[1:] != topics[:-1]).nonzero()[0]
    lasts = [*ends.tolist(), n - 1]
    return [*topics.take(ends).tolist(), int(topics[-1])], list(map(sub, lasts, [-1, *lasts]))
