"""Reads columns of a record batch as NumPy arrays, nested lists as offsets and flat elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .encoding import UUID_BYTES, Bools, Ints, array_prefix, string_sizes, tagged

_Values = TypeVar("_Values", Ints, Bools)


class Columns:
    """Columns by name of a record batch or of a struct; a column that is absent is all null."""

    def __init__(self, source: pa.RecordBatch | pa.StructArray) -> None:
        self._source = source
        self._schema = source.schema if isinstance(source, pa.RecordBatch) else source.type

    def __len__(self) -> int:
        return len(self._source)

    def array(self, name: str) -> pa.Array:
        """The column, nulls of its parent included."""
        index = self._schema.get_field_index(name)
        if index < 0:
            return pa.nulls(len(self))
        if isinstance(self._source, pa.RecordBatch):
            return self._source.column(index)
        return pc.struct_field(self._source, index)

    def present(self, name: str) -> Bools:
        """Where the column is not null."""
        present: Bools = self.array(name).is_valid().to_numpy(zero_copy_only=False)
        return present

    def ints(self, name: str, default: int = 0) -> Ints:
        """An integer column as int64."""
        array = self.array(name)
        if pa.types.is_null(array.type):
            return np.full(len(self), default, np.int64)
        filled = array.cast(pa.int64()).fill_null(default) if array.null_count else array
        values: Ints = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return values

    def flags(self, name: str) -> Bools:
        """A boolean column, null as false."""
        array = self.array(name)
        if pa.types.is_null(array.type):
            return np.zeros(len(self), np.bool_)
        flags: Bools = array.fill_null(False).to_numpy(zero_copy_only=False)
        return flags

    def utf8_lengths(self, name: str) -> Ints:
        """Bytes of each string in UTF-8, 0 for null."""
        array = self.array(name)
        if array.null_count == len(array):
            return np.zeros(len(self), np.int64)
        lengths: Ints = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64)

    def nested(self, name: str) -> Nested:
        """A list column, null as empty."""
        array = self.array(name)
        if pa.types.is_null(array.type):
            return Nested(np.zeros(len(self) + 1, np.int64), Columns(pa.array([], pa.struct([]))))
        return nested(array)


@dataclass(frozen=True)
class Nested:
    """Elements of a list column one after the other; row i holds ``offsets[i]:offsets[i + 1]``."""

    offsets: Ints
    flat: Columns

    @property
    def lengths(self) -> Ints:
        """Elements of each row."""
        lengths: Ints = np.diff(self.offsets)
        return lengths

    def sums(self, of_elements: Ints) -> Ints:
        """Sum over the elements of each row."""
        running = np.concatenate(([0], np.cumsum(of_elements)))
        sums: Ints = running[self.offsets[1:]] - running[self.offsets[:-1]]
        return sums

    def spread(self, of_rows: _Values) -> _Values:
        """A value of each row, for each of its elements."""
        spread: _Values = np.repeat(of_rows, self.lengths)
        return spread


def nested(array: pa.ListArray) -> Nested:
    """Offsets and elements of a list array; null lists are empty."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Nested(offsets, Columns(array.flatten()))


def topics_bytes(partitions: Nested, by_id: Bools, flexible: Bools) -> Ints:
    """Bytes per row of its topics array, less what the partitions themselves take.

    ``by_id`` and ``flexible`` are per row: topics go by id (16 bytes) or by name.
    """
    first = _first_of_topic(partitions)
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(first)))
    by_id_each, flexible_each = partitions.spread(by_id), partitions.spread(flexible)
    names = string_sizes(partitions.flat.utf8_lengths("topic"), flexible_each)
    sizes = np.where(by_id_each, UUID_BYTES, names) + flexible_each
    sizes *= first
    sizes[starts] += array_prefix(counts, flexible_each[starts])
    return partitions.sums(sizes) + array_prefix(partitions.sums(first.astype(np.int64)), flexible)


def _first_of_topic(partitions: Nested) -> Bools:
    """Which elements begin a topic: the first of a row, or another topic than the one before."""
    first = np.zeros(len(partitions.flat), np.bool_)
    for name in ("topic_id", "topic"):
        array = partitions.flat.array(name)
        if len(array) > 1 and array.null_count < len(array):
            changes = pc.not_equal(array[1:].fill_null(""), array[:-1].fill_null(""))
            first[1:] |= changes.to_numpy(zero_copy_only=False)
    first[partitions.offsets[:-1][partitions.lengths > 0]] = True
    return first


def node_endpoints_bytes(columns: Columns) -> Ints:
    """Bytes per row of the tagged field ``nodeEndpoints`` (KIP-951), 0 where it is empty."""
    endpoints = columns.nested("node_endpoints")
    flexible = np.ones(len(endpoints.flat), np.bool_)
    sizes = string_sizes(endpoints.flat.utf8_lengths("host"), flexible)
    sizes += string_sizes(endpoints.flat.utf8_lengths("rack"), flexible) + 4 + 4 + 1
    lengths = endpoints.lengths
    value = array_prefix(lengths, np.ones(len(lengths), np.bool_)) + endpoints.sums(sizes)
    return np.where(lengths > 0, tagged(value), 0)
