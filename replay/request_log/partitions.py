"""Partitions under topics, as bodies have them, to partitions that carry their topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .arrow_rows import Positions, list_of, lists_in

if TYPE_CHECKING:
    from collections.abc import Sequence

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Partitions:
    """All partitions of all rows one after the other, ``lengths`` of them in each row.

    ``flat`` is what a topic lists: structs, or plain partition indexes.
    """

    lengths: Positions
    topic_id: pa.StringArray
    topic: pa.StringArray
    flat: pa.Array
    lacking: Bools  # rows with a topic that has neither id nor name, or no list of partitions

    def ints(self, name: str, default: int | None = None) -> pa.Array:
        """A field of each partition, with Kafka's default where it was not written."""
        array = pc.struct_field(self.flat, name)
        return array if default is None else array.fill_null(default)

    def lists(self, flat: pa.StructArray, absent: Bools) -> pa.ListArray:
        """One list per row of something made of each partition."""
        return list_of(self.lengths, flat, absent)

    def lacks(self, *required: str) -> Bools:
        """Rows with a partition that lacks a required field."""
        nulls = np.zeros(len(self.flat), np.bool_)
        for name in required:
            array = pc.struct_field(self.flat, name)
            if array.null_count:
                nulls |= array.is_null().to_numpy(zero_copy_only=False)
        return self.lacking | any_in_row(self.lengths, nulls)


def any_in_row(lengths: Positions, of_elements: Bools) -> Bools:
    """Rows with an element for which it holds."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    found = np.zeros(len(lengths), np.bool_)
    found[rows[of_elements]] = True
    return found


def partitions_of(topics: pa.ListArray, name: str, partitions: str) -> Partitions:
    """Flattens a list of topics: ``name`` is their name's field, ``partitions`` their list's.

    Null lists have no partitions.
    """
    topics_per_row, topic = lists_in(topics)
    inner = pc.struct_field(topic, partitions)
    per_topic, flat = lists_in(inner)
    row_of_topic = np.repeat(np.arange(len(topics)), topics_per_row)
    lengths = np.bincount(row_of_topic, weights=per_topic, minlength=len(topics))
    parent = pa.array(np.repeat(np.arange(len(topic)), per_topic))
    ids, names = pc.struct_field(topic, "topicId"), pc.struct_field(topic, name)
    nameless = pc.and_(ids.is_null(), names.is_null())
    lacking = pc.or_(nameless, inner.is_null()).to_numpy(zero_copy_only=False)
    return Partitions(
        lengths.astype(np.int64),
        ids.take(parent),
        names.take(parent),
        flat,
        any_in_row(topics_per_row, lacking),
    )


def lacks_fields(body: pa.StructArray, required: Sequence[str]) -> Bools:
    """Rows whose body is there but lacks a required field."""
    lacking = np.zeros(len(body), np.bool_)
    for name in required:
        lacking |= pc.struct_field(body, name).is_null().to_numpy(zero_copy_only=False)
    present: Bools = body.is_valid().to_numpy(zero_copy_only=False)
    return lacking & present
