"""Numbers instead of names: every topic and partition that a broker's log mentions gets one.

In the order in which they are first seen; from then on a list of partitions is an array of
integers.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..kafka.messages.encoding import Ints, varint_sizes
from ..kafka.messages.fetch_pieces import TopicTotals

#: Bytes of a name that is not known.
_NOT_KNOWN = -1
#: The length of a run of this many partitions takes more than a byte.
LONG_RUN = 127
#: How many lists have their totals remembered.
_REMEMBERED = 10_000


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
        self.topic_of: Ints = np.zeros(0, np.int64)
        self.index_of: Ints = np.zeros(0, np.int64)
        self._number_of_topic: dict[str, int] = {}
        #: The last list that was numbered, packed, and its numbers.
        self._last: tuple[Ints, Ints] = self.topic_of, self.topic_of
        #: By topic: bytes of the name of its id in UTF-8, or ``_NOT_KNOWN``; None: topics
        #: or names came since they were counted.
        self._name_bytes: Ints | None = None
        #: Totals of short lists, by their topics: sessions list the same few again and again.
        self._totals: dict[bytes, TopicTotals] = {}
        #: The same of names: number of runs, and bytes.
        self._named: dict[tuple[bytes, bool], tuple[int, int | None]] = {}

    def name_of(self, topic: int, by_id: bool) -> str | None:
        """Returns what a topic goes by, or the name of its id; None: not known."""
        key = self.topics[topic]
        return self.names.get(key) if by_id else key

    def names_of(self, partitions: Ints, by_id: bool) -> list[tuple[str | None, int]]:
        """Returns topic name (None: not known) and index of some partitions."""
        names = [self.name_of(topic, by_id) for topic in self.topic_of[partitions].tolist()]
        return list(zip(names, self.index_of[partitions].tolist(), strict=True))

    def add_names(self, names: Mapping[str, str]) -> None:
        """Takes names of topic ids."""
        self.names.update(names)
        self._name_bytes = None

    def named(self, topics: Ints, by_id: bool) -> tuple[int, int | None]:
        """Counts runs of topics, and the bytes of their names; None: a name is not known."""
        key = topics.tobytes(), by_id
        if self._name_bytes is None:
            names = [self.name_of(topic, by_id=True) for topic in range(len(self.topics))]
            utf8_bytes = [_NOT_KNOWN if name is None else len(name.encode()) for name in names]
            self._name_bytes = np.array(utf8_bytes, np.int64)
            self._named = {}
        named = self._named.get(key)
        if named is None:
            runs = topics.take(ends_of_runs(topics))
            sizes = (self._name_bytes if by_id else self.topic_bytes[:, 0]).take(runs).tolist()
            named = len(runs), None if _NOT_KNOWN in sizes else sum(sizes)
            if len(topics) < LONG_RUN and len(self._named) < _REMEMBERED:
                self._named[key] = named
        return named

    def topic_numbers(self, keys: pa.Array) -> Ints:
        """Returns the number of each topic of an Arrow array of strings."""
        encoded = pc.dictionary_encode(keys)
        topics = encoded.dictionary.to_pylist()
        self.add_topics(topics)
        numbers = np.array([self._number_of_topic[topic] for topic in topics], np.int64)
        codes: Ints = encoded.indices.to_numpy(zero_copy_only=False)
        return numbers.take(codes)

    def add_topics(self, keys: Iterable[str]) -> None:
        """Numbers the topics that have no number yet."""
        new = [key for key in dict.fromkeys(keys) if key not in self._number_of_topic]
        if new:
            self._name_bytes = None
            self.topics += new
            self._number_of_topic = {key: number for number, key in enumerate(self.topics)}
            utf8_bytes = np.array([len(key.encode()) for key in new])
            more = np.stack([utf8_bytes, varint_sizes(utf8_bytes + 1)], axis=1)
            self.topic_bytes = np.concatenate([self.topic_bytes, more])

    def totals(self, topics: Ints) -> TopicTotals:
        """Counts what the topics of a list of partitions take, from each one's topic in order."""
        if len(topics) >= LONG_RUN:
            return self._count(topics)
        key = topics.tobytes()
        totals = self._totals.get(key)
        if totals is None:
            totals = self._count(topics)
            if len(self._totals) < _REMEMBERED:
                self._totals[key] = totals
        return totals

    def _count(self, topics: Ints) -> TopicTotals:
        ends = ends_of_runs(topics)
        sizes = self.topic_bytes.take(topics.take(ends), axis=0)
        utf8_bytes, varint_bytes = np.add.reduce(sizes).tolist()
        length_varint_bytes = len(ends)
        if len(topics) >= LONG_RUN:
            length_varint_bytes = int(varint_sizes(np.diff(ends, prepend=-1) + 1).sum())
        return TopicTotals(len(ends), utf8_bytes, varint_bytes, length_varint_bytes)

    def numbers(self, topics: Ints, indexes: Ints) -> Ints:
        """Returns the number of each partition, from its topic's number and its index."""
        keys = _packed(topics, indexes)
        if not len(keys):
            return keys
        # Full FETCHes, and responses to them, mostly list the same.
        if not np.array_equal(keys, self._last[0]):
            self._last = keys, self._numbers(pa.array(keys))
        return self._last[1]

    def _numbers(self, keys: pa.Array) -> Ints:
        numbers = pc.index_in(keys, pa.array(_packed(self.topic_of, self.index_of)))
        if numbers.null_count:
            new = keys.filter(numbers.is_null()).unique().to_numpy()
            self.topic_of = np.append(self.topic_of, new >> 32)
            self.index_of = np.append(self.index_of, new.astype(np.int32))
            return self._numbers(keys)
        number_of_key: Ints = numbers.to_numpy().astype(np.int64)
        return number_of_key


def _packed(topics: Ints, indexes: Ints) -> Ints:
    return topics << 32 | indexes & 0xFFFFFFFF


def ends_of_runs(topics: Ints) -> Ints:
    """Finds where runs of a topic end in a list of partitions, from each one's topic."""
    is_end = np.empty(len(topics), np.bool_)
    is_end[-1:] = True
    np.not_equal(topics[1:], topics[:-1], out=is_end[:-1])
    ends: Ints = is_end.nonzero()[0]
    return ends
