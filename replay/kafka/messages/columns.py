"""Reads columns of a record batch as NumPy arrays, nested lists as offsets and flat elements.

And sizes of Kafka's primitive encodings, of one value and of many. Source: ``org.apache.kafka
.common.utils.ByteUtils.sizeOfUnsignedVarint`` and KIP-482. Functions of many values take arrays of
one length, ``flexible`` also of length 1 for all of them.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UUID_BYTES = 16
#: First values that take one byte more.
_VARINT_STEPS = tuple(1 << bits for bits in (7, 14, 21, 28))


def unsigned_varint_bytes(n: int) -> int:
    """Bytes of ``n`` (0 <= n < 2**32) as an unsigned varint."""
    return max(1, (n.bit_length() + 6) // 7)


def records_field_bytes(n: int) -> int:
    """Bytes that a records field of ``n`` bytes takes in a flexible version."""
    return unsigned_varint_bytes(n + 1) + n


def varint_sizes(values: Ints) -> Ints:
    """``unsigned_varint_bytes`` of each value."""
    sizes = np.ones(len(values), np.int64)
    for step in _VARINT_STEPS:
        sizes += values >= step
    return sizes


def array_prefix(lengths: Ints, flexible: Bools) -> Ints:
    """Bytes before the elements of an array or the bytes of records; null takes what 0 takes."""
    return _prefix(lengths, flexible, 4)


def string_sizes(lengths: Ints, flexible: Bools) -> Ints:
    return _prefix(lengths, flexible, 2) + lengths


def tagged(sizes: Ints) -> Ints:
    """Bytes of tagged fields, from those of their values: tag (one byte below 128), size, value."""
    return 1 + varint_sizes(sizes) + sizes


def among(values: Ints, versions: range) -> Bools:
    within: Bools = (values >= versions.start) & (values < versions.stop)
    return within


def _prefix(lengths: Ints, flexible: Bools, classic_bytes: int) -> Ints:
    if not flexible.any():
        return np.full(len(lengths), classic_bytes, np.int64)
    return np.where(flexible, varint_sizes(lengths + 1), classic_bytes)


_Values = TypeVar("_Values", Ints, Bools)


class Columns:
    """Columns by name of an array of structs; one that is absent is all null."""

    def __init__(self, structs: pa.StructArray) -> None:
        self._structs = structs

    def __len__(self) -> int:
        return len(self._structs)

    def array(self, name: str) -> pa.Array:
        index = self._structs.type.get_field_index(name)
        return pa.nulls(len(self)) if index < 0 else pc.struct_field(self._structs, index)

    def present(self, name: str) -> Bools:
        return bools(self.array(name).is_valid())

    def ints(self, name: str, default: int = 0) -> Ints:
        array = self.array(name)
        if pa.types.is_null(array.type):
            return np.full(len(self), default, np.int64)
        filled = array.cast(pa.int64()).fill_null(default) if array.null_count else array
        values: Ints = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return values

    def true_or_present(self, name: str) -> Bools:
        array = self.array(name)
        is_flag = pa.types.is_boolean(array.type)
        return bools(array.fill_null(False)) if is_flag else self.present(name)

    def differ(self, name: str, default: int | bool | str | None) -> Bools:
        array = self.array(name)
        if array.null_count == len(array):
            return np.zeros(len(self), np.bool_)
        if default is None:
            return self.present(name)
        return bools(pc.not_equal(array, default).fill_null(False))

    def utf8_lengths(self, name: str) -> Ints:
        return _lengths(pc.binary_length(self.array(name).cast(pa.string())))

    def lengths(self, name: str) -> Ints:
        """Lengths of the arrays in a list column, or in a column of their lengths; 0 for null."""
        array = self.array(name)
        if not pa.types.is_list(array.type):
            return self.ints(name)
        return _lengths(pc.list_value_length(array))

    def nested(self, name: str) -> "Nested":
        """A list column, null as empty; a column that is absent has empty ones."""
        array, lengths = self.array(name), self.lengths(name)
        offsets = np.append(0, np.cumsum(lengths))
        elements = array.flatten() if pa.types.is_list(array.type) else pa.array([], pa.struct([]))
        return Nested(lengths, offsets, Columns(elements))


def bools(flags: pa.BooleanArray) -> Bools:
    values: Bools = flags.to_numpy(zero_copy_only=False)
    return values


def _lengths(lengths: pa.Int32Array) -> Ints:
    values: Ints = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return values


class Nested(NamedTuple):
    """A list column: each row's length, where it begins among the elements, and these."""

    lengths: Ints
    offsets: Ints
    flat: Columns

    def sums(self, values: Ints | Bools) -> Ints:
        """Sums a value of each element over each row."""
        running = np.concatenate(([0], np.cumsum(values)))
        sums: Ints = running[self.offsets[1:]] - running[self.offsets[:-1]]
        return sums

    def spread(self, values: _Values) -> _Values:
        """Repeats each row's value for its elements; a single value holds for all and stays."""
        spread: _Values = values if len(values) == 1 else np.repeat(values, self.lengths)
        return spread


def first_of_topic(partitions: Nested) -> Bools:
    """Marks elements that begin a topic: the first of a row, or of another than the one before."""
    first = np.zeros(len(partitions.flat), np.bool_)
    for name in ("topic_id", "topic"):
        array = partitions.flat.array(name)
        if len(array) > 1 and array.null_count < len(array):
            changes = pc.not_equal(array[1:].fill_null(""), array[:-1].fill_null(""))
            first[1:] |= changes.to_numpy(zero_copy_only=False)
    first[partitions.offsets[:-1][partitions.lengths > 0]] = True
    return first
