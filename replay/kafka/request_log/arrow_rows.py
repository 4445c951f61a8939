"""Arrow arrays of structs and lists, built from columns at once."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Bools = NDArray[np.bool_]
Columns = dict[str, pa.Array]
#: What follows from lines: rows by table, and ``lines`` themselves. Each row, in the order of the
#: lines, has the ``position`` of its line among them.
Rows = dict[str, pa.RecordBatch]


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


def nulls_of(array: pa.Array) -> Bools:
    if array.null_count == 0:
        return np.zeros(len(array), np.bool_)
    nulls: Bools = array.is_null().to_numpy(zero_copy_only=False)
    return nulls
