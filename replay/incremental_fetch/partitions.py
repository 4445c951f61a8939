"""Numbers instead of names: every topic and partition that a broker's log mentions gets one.

Topics are numbered, and partitions, in the order in which they are first seen; both numbers stay
what they are. From then on a list of partitions is an array of integers, and what is known of a
partition stands at a place in an array.

A partition's number is looked up at ``base of its topic + its index``: two steps into arrays, with
no search. Topics have room for the next power of two of partitions; an index beyond ``_FAR``, which
no cluster has, goes through a dict, so that one odd line costs no memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.kafka.messages.encoding import Ints, unsigned_varint_bytes, varint_sizes

from .topics import TopicTotals, length_varint_bytes

#: No name, no number.
UNKNOWN = -1
_FAR = 1 << 17


class Partitions:
    """The topics and partitions of one broker's log, by number."""

    def __init__(self) -> None:
        #: A topic's id, or its name where the FETCH version has no ids.
        self.topics: list[str] = []
        #: Bytes of ``topics`` in UTF-8, and of the varint before them.
        self.topic_utf8_bytes: Ints = np.zeros(0, np.int64)
        self.topic_varint_bytes: Ints = np.zeros(0, np.int64)
        #: The same, both for each topic.
        self.topic_bytes: list[tuple[int, int]] = []
        #: By partition number: its topic's number, and its index.
        self.topic_of: Ints = np.zeros(64, np.int64)
        self.index_of: Ints = np.zeros(64, np.int64)
        self._partitions = 0
        self._number_of_topic: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._name_bytes: Ints = np.zeros(0, np.int64)
        self._base: Ints = np.zeros(0, np.int64)
        self._room: Ints = np.zeros(0, np.int64)
        self._table: Ints = np.zeros(0, np.int64)
        self._far: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return self._partitions

    # --- topics

    def name(self, names: Mapping[str, str]) -> None:
        """Topic ids are of these names."""
        self._names.update(names)
        for topic_id in names:
            if topic_id in self._number_of_topic:
                self._note_name(self._number_of_topic[topic_id])

    @property
    def names(self) -> Mapping[str, str]:
        """Names by topic id, as far as they have been told."""
        return self._names

    def name_of(self, topic: int, by_id: bool) -> str | None:
        """A topic's name: what it goes by, or, of an id, what it was told to be; else None."""
        key = self.topics[topic]
        return self._names.get(key) if by_id else key

    def name_bytes(self, by_id: bool) -> Ints:
        """Bytes of each topic's ``name_of`` in UTF-8, ``UNKNOWN`` of None."""
        return self._name_bytes if by_id else self.topic_utf8_bytes

    def topic_numbers(self, keys: pa.Array) -> Ints:
        """The number of each topic of an Arrow array of strings."""
        encoded = pc.dictionary_encode(keys)
        known = self._number_of_topic
        found = encoded.dictionary.to_pylist()
        new = [key for key in found if key not in known]
        if new:
            self.add_topics(new)
        numbers = np.array([known[key] for key in found], np.int64)
        codes: Ints = encoded.indices.to_numpy(zero_copy_only=False)
        return numbers.take(codes)

    def add_topics(self, keys: list[str]) -> None:
        """Topics that have no number yet get one."""
        for key in keys:
            self._number_of_topic[key] = len(self.topics)
            self.topics.append(key)
        unknown = np.full(len(keys), UNKNOWN, np.int64)
        self._name_bytes = np.concatenate([self._name_bytes, unknown])
        for topic in range(len(self.topics) - len(keys), len(self.topics)):
            self._note_name(topic)
        utf8_bytes = np.array([len(key.encode()) for key in keys], np.int64)
        lengths = [(n, unsigned_varint_bytes(n + 1)) for n in utf8_bytes.tolist()]
        self.topic_bytes += lengths
        self.topic_utf8_bytes = np.concatenate([self.topic_utf8_bytes, utf8_bytes])
        varints = varint_sizes(utf8_bytes + 1)
        self.topic_varint_bytes = np.concatenate([self.topic_varint_bytes, varints])
        nothing = np.zeros(len(keys), np.int64)
        self._base = np.concatenate([self._base, nothing])
        self._room = np.concatenate([self._room, nothing])

    def _note_name(self, topic: int) -> None:
        name = self._names.get(self.topics[topic])
        if name is not None:
            self._name_bytes[topic] = len(name.encode())

    def totals(self, topics: Ints) -> TopicTotals:
        """What the topics of a list of partitions take, from each partition's topic in order."""
        n = len(topics)
        if n == 0:
            return TopicTotals()
        if n <= 16:
            return self._totals_of_few(topics.tolist())
        starts = np.flatnonzero(topics[1:] != topics[:-1]) + 1
        ends = np.append(starts, n)
        runs = topics.take(np.append(0, starts))
        lengths = np.diff(ends, prepend=0)
        return TopicTotals(
            len(runs),
            int(self.topic_utf8_bytes.take(runs).sum()),
            int(self.topic_varint_bytes.take(runs).sum()),
            int(varint_sizes(lengths + 1).sum()),
        )

    def totals_of_runs(self, topics: list[int]) -> TopicTotals:
        """Of runs of one partition each, from their topics."""
        utf8_bytes = varint_bytes = 0
        for topic in topics:
            utf8, varint = self.topic_bytes[topic]
            utf8_bytes, varint_bytes = utf8_bytes + utf8, varint_bytes + varint
        return TopicTotals(len(topics), utf8_bytes, varint_bytes, len(topics))

    def _totals_of_few(self, topics: list[int]) -> TopicTotals:
        runs = utf8_bytes = varint_bytes = length_bytes = 0
        before, length = UNKNOWN, 0
        for topic in topics:
            if topic != before:
                length_bytes += length_varint_bytes(length)
                runs, before, length = runs + 1, topic, 0
                utf8, varint = self.topic_bytes[topic]
                utf8_bytes, varint_bytes = utf8_bytes + utf8, varint_bytes + varint
            length += 1
        length_bytes += length_varint_bytes(length)
        return TopicTotals(runs, utf8_bytes, varint_bytes, length_bytes)

    # --- partitions

    def numbers(self, topics: Ints, indexes: Ints) -> Ints:
        """The number of each partition, from its topic's number and its index."""
        if not len(topics):
            return np.zeros(0, np.int64)
        room = self._room.take(topics)
        if ((indexes >= room) | (indexes < 0)).any():
            far = (indexes >= _FAR) | (indexes < 0)
            if far.any():
                return self._numbers_with_far(topics, indexes, far)
            self._make_room(topics, indexes)
        at = self._base.take(topics)
        at += indexes
        numbers = self._table.take(at)
        if np.count_nonzero(numbers < 0):
            new = np.flatnonzero(numbers < 0)
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
            stretch = np.full(1 << int(needed[topic] - 1).bit_length(), UNKNOWN, np.int64)
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
                self._far[key] = int(
                    self._new_numbers(topics[at : at + 1], indexes[at : at + 1])[0]
                )
            numbers[at] = self._far[key]
        return numbers
