"""The partitions that FETCHes list, a batch of FETCHes at a time and a column at a time.

Every list of a batch is behind the one before it in flat arrays. What later only has to be
added up (bytes, runs of topics) is added up here, for all rows at once. Every topic and partition
that the log mentions has a number, in the order in which they are first seen (``Partitions``).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..kafka.messages.columns import Bools, Columns, Ints, varint_sizes
from ..kafka.messages.sizes import CURRENT_LEADER_TAG_BYTES, EPOCH_END_OFFSET_TAG_BYTES, TopicTotals
from ..model.cached_partitions import ABSENT, NO_SLOTS, CachedPartitions, Slots
from ..model.fetch_session import RequestChanges

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
        #: By topic: bytes of the name of its id in UTF-8, or ``_NOT_KNOWN``; None: topics
        #: or names came since they were counted.
        self._name_bytes: Ints | None = None
        #: Totals of short lists, by their topics: sessions list the same few again and again.
        self._totals: dict[bytes, TopicTotals] = {}
        #: What ``named`` counted, by its arguments.
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
        """Adds names of topic ids, which change what names take."""
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
        keys = pa.array(_packed(topics, indexes))
        numbers = pc.index_in(keys, pa.array(_packed(self.topic_of, self.index_of)))
        if numbers.null_count:
            new = keys.filter(numbers.is_null()).unique().to_numpy()
            self.topic_of = np.append(self.topic_of, new >> 32)
            self.index_of = np.append(self.index_of, new.astype(np.int32))
            return self.numbers(topics, indexes)
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


# --- what FETCHes list

_NO_HIGH_WATERMARK = 2**63 - 1
_NO_EPOCH = -(2**31)


class Listed:
    """A list column of a batch. ``partitions`` are numbers, ``topics`` too (``Partitions``)."""

    def __init__(self, array: pa.ListArray, numbering: Partitions) -> None:
        self._nested = Columns(pa.StructArray.from_arrays([array], ["listed"])).nested("listed")
        self._flat = self._nested.flat
        starts = self._nested.offsets.tolist()
        #: Where the elements of each row are.
        self.rows = list(map(slice, starts[:-1], starts[1:]))
        self.positions: Ints = np.arange(starts[-1])
        #: How many partitions each row lists; None: it has no list.
        self.lengths: list[int | None] = array.value_lengths().to_pylist()
        self._number(numbering)

    def _number(self, numbering: Partitions) -> None:
        """Numbers topics, once for each run of theirs, and partitions; adds up topics by row."""
        indexes, starts = self._flat.ints("partition"), self._nested.offsets
        keys, n = _keys(self._flat.array("topic_id"), self._flat.array("topic")), len(indexes)
        begins = np.zeros(n + 1, np.bool_)
        begins[starts] = True
        if n > 1:
            differ = pc.not_equal(keys.slice(1), keys.slice(0, n - 1))
            begins[1:n] |= differ.to_numpy(zero_copy_only=False)
        runs = np.flatnonzero(begins[:n])
        lengths = np.diff(runs, append=n)
        topics = numbering.topic_numbers(keys.take(pa.array(runs)))
        self.topics: Ints = np.repeat(topics, lengths)
        self.partitions = numbering.numbers(self.topics, indexes)
        topic_bytes = numbering.topic_bytes[topics]
        ones, varints = np.ones(len(runs), np.int64), varint_sizes(lengths + 1)
        summed = np.zeros((len(runs) + 1, 4), np.int64)
        np.cumsum(np.column_stack([ones, topic_bytes, varints]), axis=0, out=summed[1:])
        totals = np.diff(summed[np.searchsorted(runs, starts)], axis=0).tolist()
        #: What the topics of each row take, as listed.
        self.totals = list(map(TopicTotals._make, totals))

    def _ints(self, name: str) -> Ints:
        return self._flat.ints(name, ABSENT)

    def _sums(self, values: Ints | Bools) -> list[int]:
        """Sums a value of the elements over each row."""
        sums: list[int] = self._nested.sums(values).tolist()
        return sums


class Requested(Listed):
    """Partitions of requests, at ``versions`` by row. ``values``: ``model.cached_partitions``."""

    def __init__(self, array: pa.ListArray, numbering: Partitions, versions: Ints) -> None:
        super().__init__(array, numbering)
        version = self._nested.spread(versions)
        epochs = self._flat.ints("current_leader_epoch", _NO_EPOCH) << 32
        epochs |= self._flat.ints("last_fetched_epoch", _NO_EPOCH) & 0xFFFFFFFF
        has_high_watermark = (version >= 18) & (self._ints("high_watermark") != _NO_HIGH_WATERMARK)
        has_directory = (version >= 17) & self._flat.present("replica_directory_id")
        #: How many of each row have a tagged field: of the metadata log alone, in every client.
        self.tagged = self._sums(has_high_watermark | has_directory)
        self.values: Ints = np.stack([
            self._ints("fetch_offset"),
            self._ints("log_start_offset"),
            self._ints("partition_max_bytes"),
            epochs,
        ])  # fmt: skip


class Returned(Listed):
    """Partitions of responses. ``values``, ``brings``: ``model.cached_partitions``.

    ``not_read``: the broker did not look at the partition's log (``KafkaApis.handleFetchRequest``):
    its error comes with a list of aborted transactions, and one of reading without (null).
    ``more_bytes``: what a partition takes beyond an empty one, at versions that are ``flexible``
    (by row) or not; ``record_bytes``, ``errors`` and sums are by row.
    """

    def __init__(self, array: pa.ListArray, numbering: Partitions, flexible: Bools) -> None:
        super().__init__(array, numbering)
        errors, high_watermark = self._ints("error_code"), self._ints("high_watermark")
        failed = errors != 0
        self.values: Ints = np.stack([
            errors,
            high_watermark,
            self._ints("last_stable_offset"),
            self._ints("log_start_offset"),
            high_watermark,
        ])  # fmt: skip
        record_bytes = np.maximum(self._ints("record_bytes"), 0)
        aborted = np.maximum(self._ints("aborted_transactions"), 0)
        self.not_read: Bools = failed & self._flat.present("aborted_transactions")
        diverging = self._flat.present("diverging_epoch")
        self.has_records: Bools = record_bytes > 0
        self.brings: Bools = self.has_records | failed | diverging
        self.brings |= self._ints("preferred_read_replica") >= 0
        self.record_bytes = self._sums(record_bytes)
        self.errors = self._sums(failed)
        self.classic_bytes: Ints = record_bytes + 16 * aborted
        self.classic_bytes_sum = self._sums(self.classic_bytes)
        self.more_bytes = self._more_bytes(record_bytes, aborted, diverging, flexible)
        self.more_bytes_sum = self._sums(self.more_bytes)

    def _more_bytes(
        self, record_bytes: Ints, aborted: Ints, diverging: Bools, flexible: Bools
    ) -> Ints:
        if not flexible.any():
            return self.classic_bytes
        more: Ints = self.classic_bytes + aborted
        brings = np.flatnonzero(more)
        for lengths in (record_bytes, aborted):
            more[brings] += varint_sizes(lengths[brings] + 1) - 1
        for tag, size in (
            (diverging, EPOCH_END_OFFSET_TAG_BYTES),
            (self._flat.present("current_leader_id"), CURRENT_LEADER_TAG_BYTES),
            (self._flat.present("snapshot_epoch"), EPOCH_END_OFFSET_TAG_BYTES),
        ):
            more += size * tag
        if flexible.all():
            return more
        return np.where(self._nested.spread(flexible), more, self.classic_bytes)


class Lists(NamedTuple):
    """The three list columns of a batch."""

    requested: Requested
    forgotten: Listed
    returned: Returned


def _keys(topic_ids: pa.Array, topics: pa.Array) -> pa.Array:
    """Returns what each partition's topic goes by: its id, else its name."""
    keys = topic_ids
    if topic_ids.null_count == len(topic_ids):
        keys = topics
    elif topic_ids.null_count or pc.any(pc.equal(topic_ids, "")).as_py():
        has_id = pc.greater(pc.binary_length(topic_ids), 0).fill_null(False)
        keys = pc.if_else(has_id, topic_ids, topics)
    return keys.fill_null("") if keys.null_count else keys


class FollowedPartitions(CachedPartitions):
    """The partitions that a client fetches, in the order in which a full FETCH lists them.

    A full FETCH shows its order. Between two, with incremental ones, it has to be followed. A
    replica fetcher puts a partition at the end when it has taken records of it, and with the first
    response after it was added (``AbstractFetcherThread.processFetchRequest``,
    ``PartitionStates.updateAndMoveToEnd``). A consumer since Kafka 4.0 lists the elements of a hash
    set (``AbstractFetch.prepareFetchRequests``): they stay where they are; here those that are
    added come to the end. Only the grouping of adjacent partitions of a topic follows from it.

    ``order`` is that before the last response, ``moves`` what goes to the end once the client has
    that response. ``is_fresh``, by slot: no response has had the partition yet. ``unplaced``: of
    how many, at the beginning, the order is not known, as it is older than the log.
    """

    def __init__(self, numbering: Partitions) -> None:
        super().__init__(numbering)
        self.numbering: Partitions = numbering
        self.order, self.moves, self.unplaced = NO_SLOTS, NO_SLOTS, 0
        self.is_fresh: Bools = np.zeros(0, np.bool_)
        #: None: not counted since the order changed.
        self._totals: tuple[TopicTotals, TopicTotals] | None = None

    def list_anew(self, order: Slots, totals: TopicTotals) -> None:
        """Replaces the order by that of a full FETCH, of whose topics the totals are known."""
        self.order, self.moves, self.unplaced = order, NO_SLOTS, 0
        self.is_fresh = np.ones(self.end, np.bool_)
        self._totals = totals, totals

    def take_over(self, requested: Requested, listed: slice) -> None:
        """Begins with what a session had before the log, in an order that is not known."""
        self.order = self.add(requested, requested.positions[listed]).slots
        self.is_fresh, self.unplaced, self._totals = np.zeros(self.end, np.bool_), self.end, None

    def change(self, changes: RequestChanges) -> None:
        """Changes the order as the client does: by the response it has had, then by its FETCH."""
        if len(self.moves):
            # What is at the end already stays there.
            if self.order[-len(self.moves) :].tobytes() != self.moves.tobytes():
                self._move(self.moves, self.moves)
            self.moves = NO_SLOTS
        if not changes.keeps_the_set:
            self.is_fresh = np.append(self.is_fresh, np.ones(self.end - len(self.is_fresh), bool))
            gone = np.concatenate([changes.removed, changes.replaced])
            added = changes.added.joined(changes.replacing)
            self._move(Slots(gone), added.slots)

    def move_returned(self, slots: Slots, has_records: Bools) -> None:
        """Notes which partitions a follower puts at the end once it has this response."""
        self.moves = Slots(slots[has_records | self.is_fresh[slots]])
        self.is_fresh[slots] = False

    def order_returned(self, not_read: Ints) -> Slots:
        """Returns the order of a full response: what the broker did not read comes last."""
        last = np.isin(self.numbers_of(self.order), not_read)
        return Slots(np.concatenate([self.order[~last], self.order[last]]))

    def _move(self, removed: Slots, added: Slots) -> None:
        is_removed = np.zeros(self.end, np.bool_)
        is_removed[removed] = True
        kept = ~is_removed[self.order]
        if self.unplaced:
            self.unplaced = int(np.count_nonzero(kept[: self.unplaced]))
        self.order, self._totals = Slots(np.concatenate([self.order[kept], added])), None

    @property
    def totals(self) -> tuple[TopicTotals, TopicTotals]:
        """Counts what topics of a full FETCH take, at least and at most: its order may be open."""
        if self._totals is None:
            topics = self.topics_of(self.order)
            totals = self.numbering.totals(topics)
            self._totals = (totals, totals) if self.unplaced < 2 else self._bounds(topics)
        return self._totals

    def _bounds(self, topics: Ints) -> tuple[TopicTotals, TopicTotals]:
        unplaced = self.unplaced
        first, rest = topics[:unplaced], topics[unplaced:]
        # Least: each topic together, and last the one that goes on behind.
        together = first[np.lexsort((first, np.isin(first, rest[:1])))]
        least = self.numbering.totals(np.concatenate([together, rest]))
        # Most: none beside another of its topic, as long as there are others between them.
        numbers, counts = np.unique(first, return_counts=True)
        apart = np.repeat(numbers, np.minimum(counts, unplaced - counts + 1))
        sizes = self.numbering.topic_bytes.take(apart, axis=0).sum(axis=0).tolist()
        behind = self.numbering.totals(rest) if len(rest) else TopicTotals()
        runs = len(apart), *sizes, len(apart) + unplaced // LONG_RUN
        return least, TopicTotals(*map(sum, zip(runs, behind, strict=True)))

    def topics_of(self, slots: Slots) -> Ints:
        return self.numbering.topic_of.take(self.numbers_of(slots))

    def renumber(self) -> Slots:
        place = np.zeros(self.end, np.int64)
        kept = super().renumber()
        place[kept] = np.arange(self.end)
        self.order, self.moves = Slots(place[self.order]), Slots(place[self.moves])
        self.is_fresh = self.is_fresh[kept]
        return kept
