"""The partitions that FETCHes list, a batch of FETCHes at a time and a column at a time.

Every list of a batch stands behind the one before it in flat arrays: row i of the batch has the
elements ``starts[i]:starts[i + 1]``. What later only has to be added up (bytes, runs of topics) is
added up here, for all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.kafka.messages.encoding import Bools, Ints, varint_sizes
from kip_replay.replay.kafka.messages.fetch import (
    CURRENT_LEADER_TAG_BYTES,
    EPOCH_END_OFFSET_TAG_BYTES,
)

from .partitions import Partitions
from .topics import TopicTotals

#: Stands for null, and for "was never told": no value that Kafka writes.
ABSENT = -(2**63)
_NO_HIGH_WATERMARK = 2**63 - 1
_NO_EPOCH = -(2**31)

#: Rows of ``Asked.values``. The draft's requests know all but the epochs.
EPOCHS = 3
#: Rows of ``Told.values``.
ERROR, HIGH_WATERMARK, LAST_STABLE_OFFSET, LOG_START_OFFSET = range(4)


class Listed:
    """One list column of a batch. ``partitions`` are numbers, ``topics`` too (``Partitions``)."""

    def __init__(self, array: pa.ListArray, numbering: Partitions) -> None:
        lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        self._starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=self._starts[1:])
        self.starts: list[int] = self._starts.tolist()
        self.is_there: list[bool] = array.is_valid().to_pylist()
        flat = array.flatten()
        self._flat = dict(zip([f.name for f in flat.type], flat.flatten(), strict=True))
        self._number(numbering)

    def row(self, number: int) -> slice:
        """Where the elements of a row stand."""
        return slice(self.starts[number], self.starts[number + 1])

    def length(self, number: int) -> int | None:
        """How many partitions a row lists; None: it has no list."""
        if not self.is_there[number]:
            return None
        return self.starts[number + 1] - self.starts[number]

    def totals(self, number: int) -> TopicTotals:
        """What the topics of a row take, as listed."""
        return TopicTotals(*self._totals[number])

    def _number(self, numbering: Partitions) -> None:
        indexes, keys = self.ints("partition"), _keys(self._flat["topic_id"], self._flat["topic"])
        n = len(indexes)
        begins = np.zeros(n + 1, np.bool_)
        begins[self._starts] = True
        if n > 1:
            begins[1:n] |= pc.not_equal(keys.slice(1), keys.slice(0, n - 1)).to_numpy(
                zero_copy_only=False
            )
        runs = np.flatnonzero(begins[:n])
        lengths = np.diff(runs, append=n)
        of_runs = numbering.topic_numbers(keys.take(pa.array(runs)))
        self.topics: Ints = np.repeat(of_runs, lengths)
        self.partitions = numbering.numbers(self.topics, indexes)
        summed = np.zeros((len(runs) + 1, 4), np.int64)
        np.cumsum(
            np.stack(
                [
                    np.ones(len(runs), np.int64),
                    numbering.topic_utf8_bytes.take(of_runs),
                    numbering.topic_varint_bytes.take(of_runs),
                    varint_sizes(lengths + 1),
                ],
                axis=1,
            ),
            axis=0,
            out=summed[1:],
        )
        self._totals = np.diff(summed[np.searchsorted(runs, self._starts)], axis=0).tolist()

    def ints(self, name: str, absent: int = ABSENT) -> Ints:
        """A column of integers, null as ``absent``."""
        column = self._flat[name]
        if column.null_count:
            column = column.cast(pa.int64()).fill_null(absent)
        values: Ints = column.to_numpy(zero_copy_only=False)
        return values

    def present(self, name: str) -> Bools | None:
        """Where a column has a value; None: nowhere."""
        column = self._flat[name]
        if column.null_count == len(column):
            return None
        present: Bools = column.is_valid().to_numpy(zero_copy_only=False)
        return present

    def stacked(self, *rows: Ints) -> Ints:
        """Columns one below the other."""
        values = np.empty((len(rows), len(self.partitions)), np.int64)
        for row, column in zip(values, rows, strict=True):
            row[:] = column
        return values

    def sums(self, values: Ints | Bools) -> list[int]:
        """Sums of an element's value over each row."""
        summed = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=summed[1:])
        sums: list[int] = np.diff(summed[self._starts]).tolist()
        return sums


class Asked(Listed):
    """Partitions of requests.

    ``values``: fetch offset, log start offset, maximum bytes, and both epochs in one. ``tags``: 1
    for a directory id, 2 for a high watermark that is sent; ``tagged`` counts them by row.
    """

    def __init__(self, array: pa.ListArray, numbering: Partitions) -> None:
        super().__init__(array, numbering)
        epochs = self.ints("current_leader_epoch", _NO_EPOCH).astype(np.int64) << 32
        epochs |= self.ints("last_fetched_epoch", _NO_EPOCH).astype(np.int64) & 0xFFFFFFFF
        self.values = self.stacked(
            self.ints("fetch_offset"),
            self.ints("log_start_offset"),
            self.ints("partition_max_bytes"),
            epochs,
        )
        self.tags = self._tags()
        self.tagged = None if self.tags is None else self._tagged(self.tags)

    def tagged_of(self, at: Ints) -> tuple[int, int]:
        """How many of some partitions have a directory id, and a high watermark."""
        if self.tags is None:
            return 0, 0
        tags = self.tags[at]
        return int((tags & 1).sum()), int((tags >> 1).sum())

    def _tags(self) -> Ints | None:
        directories = self.present("replica_directory_id")
        high_watermarks = self.ints("high_watermark") != _NO_HIGH_WATERMARK
        if directories is None and not high_watermarks.any():
            return None
        tags: Ints = 2 * high_watermarks.astype(np.int64)
        if directories is not None:
            tags += directories
        return tags

    def _tagged(self, tags: Ints) -> list[tuple[int, int]]:
        return list(zip(self.sums(tags & 1), self.sums(tags >> 1), strict=True))


class Told(Listed):
    """Partitions of responses.

    ``values``: error code, high watermark, last stable offset, log start offset. ``speaks``: a
    session answers the partition whatever it was told before. ``more_bytes``: what it takes beyond
    one that brings nothing, at versions that are ``flexible`` (by row) or not.
    """

    def __init__(self, array: pa.ListArray, numbering: Partitions, flexible: Bools) -> None:
        super().__init__(array, numbering)
        errors = self.ints("error_code")
        self.values = self.stacked(
            errors,
            self.ints("high_watermark"),
            self.ints("last_stable_offset"),
            self.ints("log_start_offset"),
        )
        record_bytes = np.maximum(self.ints("record_bytes"), 0)
        self.has_records: Bools = record_bytes > 0
        self.speaks = self.has_records | (errors != 0) | (self.ints("preferred_read_replica") >= 0)
        diverging = self.present("diverging_epoch")
        if diverging is not None:
            self.speaks |= diverging
        self.record_bytes = self.sums(record_bytes)
        self.errors = self.sums(errors != 0)
        self.more_bytes = self._more_bytes(record_bytes, diverging, flexible)
        self.more_bytes_sum = self.sums(self.more_bytes)
        self.more_bytes_of_draft = record_bytes + 16 * self._aborted

    def _more_bytes(self, record_bytes: Ints, diverging: Bools | None, flexible: Bools) -> Ints:
        aborted = self._aborted = np.maximum(self.ints("aborted_transactions"), 0)
        classic: Ints = record_bytes + 16 * aborted
        if not flexible.any():
            return classic
        more: Ints = classic + aborted
        brings = np.flatnonzero(more)
        for lengths in (record_bytes, aborted):
            more[brings] += varint_sizes(lengths[brings] + 1) - 1
        for tag, size in (
            (diverging, EPOCH_END_OFFSET_TAG_BYTES),
            (self.present("current_leader_id"), CURRENT_LEADER_TAG_BYTES),
            (self.present("snapshot_epoch"), EPOCH_END_OFFSET_TAG_BYTES),
        ):
            if tag is not None:
                more += size * tag
        if flexible.all():
            return more
        return np.where(np.repeat(flexible, np.diff(self._starts)), more, classic)


@dataclass(frozen=True)
class Lists:
    """All lists of a batch of FETCHes."""

    asked: Asked
    forgotten: Listed
    told: Told


def _keys(topic_ids: pa.Array, topics: pa.Array) -> pa.Array:
    """What each partition's topic goes by: its id, else its name."""
    if topic_ids.null_count == len(topic_ids):
        topic_ids, topics = topics, topics
    elif topic_ids.null_count or pc.any(pc.equal(topic_ids, "")).as_py():
        has_id = pc.greater(pc.binary_length(topic_ids), 0).fill_null(False)
        topic_ids = pc.if_else(has_id, topic_ids, topics)
    return topic_ids.fill_null("") if topic_ids.null_count else topic_ids
