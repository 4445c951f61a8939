"""Sizes of Kafka's primitive encodings, of one value and of many.

Source: ``org.apache.kafka.common.utils.ByteUtils.sizeOfUnsignedVarint`` and KIP-482. Functions of
many values take arrays of one length, ``flexible`` also of length 1 for all of them.
"""

import numpy as np
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
