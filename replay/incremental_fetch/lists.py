"""The partitions that FETCHes list, a batch of FETCHes at a time and a column at a time.

Every list of a batch is behind the one before it in flat arrays. What later only has to be
added up (bytes, runs of topics) is added up here, for all rows at once.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..kafka.messages.columns import Columns
from ..kafka.messages.encoding import Bools, Ints, varint_sizes
from ..kafka.messages.fetch_pieces import (
    CURRENT_LEADER_TAG_BYTES,
    DIRECTORY_ID_TAG_BYTES,
    EPOCH_END_OFFSET_TAG_BYTES,
    HIGH_WATERMARK_TAG_BYTES,
    TopicTotals,
)
from ..model.cached_partitions import ABSENT, NOT_CACHED
from .partitions import Partitions

_NO_HIGH_WATERMARK = 2**63 - 1
_NO_EPOCH = -(2**31)

#: Row of ``Requested.values``: bytes of tagged fields.
TAGS = 4


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
        indexes, starts = self._flat.ints("partition"), self._nested.offsets
        keys, n = _keys(self._flat.array("topic_id"), self._flat.array("topic")), len(indexes)
        begins = np.zeros(n + 1, np.bool_)
        begins[starts] = True
        if n > 1:
            differ = pc.not_equal(keys.slice(1), keys.slice(0, n - 1))
            begins[1:n] |= differ.to_numpy(zero_copy_only=False)
        runs = np.flatnonzero(begins[:n])
        lengths = np.diff(runs, append=n)
        of_runs = numbering.topic_numbers(keys.take(pa.array(runs)))
        self.topics: Ints = np.repeat(of_runs, lengths)
        self.partitions = numbering.numbers(self.topics, indexes)
        topic_bytes = numbering.topic_bytes[of_runs]
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
        tags = HIGH_WATERMARK_TAG_BYTES * has_high_watermark
        tags += DIRECTORY_ID_TAG_BYTES * (
            (version >= 17) & self._flat.present("replica_directory_id")
        )
        self.values: Ints = np.stack([
            self._ints("fetch_offset"),
            self._ints("log_start_offset"),
            self._ints("partition_max_bytes"),
            epochs,
            tags,
        ])  # fmt: skip
        #: No partition has any, with the clients that there are.
        self.has_tags = bool(tags.any())

    def tag_bytes(self, at: Ints | slice) -> int:
        """Counts the bytes of partitions' tagged fields."""
        return int(self.values[TAGS, at].sum()) if self.has_tags else 0


class Returned(Listed):
    """Partitions of responses. ``values``, ``brings``: ``model.cached_partitions``.

    ``not_read``: the broker did not look at the partition's log (``KafkaApis.handleFetchRequest``):
    its error comes with a list of aborted transactions, and one of reading without (null).
    ``more_bytes``: what a partition takes beyond an empty one, at versions that are ``flexible``
    (by row) or not; ``record_bytes``, ``errors`` and ``more_bytes_sum`` are by row.
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
            np.where(failed, NOT_CACHED, high_watermark),
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
    requested: Requested
    forgotten: Listed
    returned: Returned


def _keys(topic_ids: pa.Array, topics: pa.Array) -> pa.Array:
    """Returns what each partition's topic goes by: its id, else its name."""
    if topic_ids.null_count == len(topic_ids):
        topic_ids, topics = topics, topics
    elif topic_ids.null_count or pc.any(pc.equal(topic_ids, "")).as_py():
        has_id = pc.greater(pc.binary_length(topic_ids), 0).fill_null(False)
        topic_ids = pc.if_else(has_id, topic_ids, topics)
    return topic_ids.fill_null("") if topic_ids.null_count else topic_ids
