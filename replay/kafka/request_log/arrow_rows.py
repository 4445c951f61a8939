"""Arrow arrays of structs and lists, built from columns at once and spread over more rows."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Bools = NDArray[np.bool_]
Columns = dict[str, pa.Array]


def struct_of(type_: pa.StructType, columns: Mapping[str, pa.Array]) -> pa.StructArray:
    """A struct array, no row null. ``columns`` has every field of the type, cast if need be."""
    arrays = [columns[field.name].cast(field.type) for field in type_]
    return pa.StructArray.from_arrays(arrays, fields=[*type_])


def struct_rows(type_: pa.StructType, rows: Sequence[tuple[Any, ...]]) -> pa.StructArray:
    """A struct array from tuples of the fields, in order."""
    values = list(zip(*rows, strict=True)) if rows else [()] * type_.num_fields
    arrays = [pa.array(v, field.type) for field, v in zip(type_, values, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def list_rows(
    type_: pa.StructType,
    rows: Mapping[int, Sequence[tuple[Any, ...]]],
    shared: Mapping[str, pa.Array],
    n: int,
) -> pa.ListArray:
    """``n`` lists of structs: ``rows[i]`` at row i (ascending), elsewhere empty."""
    others = [field for field in type_ if field.name not in shared]
    # Many lines can have the very same rows, which are made once.
    different = [(), *{id(row): row for row in rows.values()}.values()]
    places = {id(row): place for place, row in enumerate(different)}
    elements = struct_rows(pa.struct(others), [*chain.from_iterable(different)])
    lists = list_of(np.array([*map(len, different)]), elements)
    of_rows = np.zeros(n, np.int64)
    of_rows[[*rows]] = [places[id(row)] for row in rows.values()]
    lengths, own = lists_in(lists.take(pa.array(of_rows)))
    columns = dict(zip(own.type.names, own.flatten(), strict=True))
    parent = pa.array(np.repeat(np.arange(n), lengths))
    columns |= {name: column.take(parent) for name, column in shared.items()}
    return list_of(lengths, struct_of(type_, columns))


def list_of(lengths: Positions, flat: pa.Array, absent: Bools | None = None) -> Any:
    """A list array of ``lengths`` over ``flat``; ``absent`` rows (of length 0) are null."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = None if absent is None or not absent.any() else pa.array(absent)
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=pa.list_(flat.type), mask=mask)


def lists_in(array: pa.ListArray) -> tuple[Positions, pa.Array]:
    """Lengths (null as 0) and elements one after the other."""
    lengths = np.diff(array.offsets.to_numpy()).astype(np.int64)
    if array.null_count:
        lengths[nulls_of(array)] = 0
    return lengths, array.flatten()


def scatter(array: pa.Array, positions: Positions, n: int) -> pa.Array:
    """``n`` rows with ``array[i]`` at ``positions[i]``, null elsewhere."""
    if np.array_equal(positions, np.arange(n)):
        return array
    indices, absent = np.zeros(n, np.int64), np.ones(n, np.bool_)
    indices[positions] = np.arange(len(positions))
    absent[positions] = False
    return array.take(pa.array(indices, mask=absent))


def nulls_of(array: pa.Array) -> Bools:
    if array.null_count == 0:
        return np.zeros(len(array), np.bool_)
    nulls: Bools = array.is_null().to_numpy(zero_copy_only=False)
    return nulls
