"""Which bodies lack a field that their version must have, or have a number that none can be.

Source: ``JsonConverterGenerator``, by which Kafka writes bodies to the log: a field is there in
each of its versions but those where it is tagged, and null only where the version allows it. What
has a default may be absent nevertheless: what is meant by that is not in doubt. What a number may
be is declared with its field (``schemas``), or follows from its type (``layout``).
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..messages import Api
from ..messages.layout import Struct
from .arrow_rows import Positions, lists_in, nulls_of, one_chunk


def misfits(table: pa.Table, api: Api, versions: pa.Int32Array) -> dict[int, str]:
    """The lines whose bodies do not fit, and what of them: ``request.topics is missing``."""
    found: dict[int, str] = {}
    of_lines = versions.fill_null(-1).to_numpy().astype(np.int64)
    for name, message in (("request", api.request), ("response", api.response)):
        bodies = one_chunk(table.column(name))
        for lines, path in _misfits(message.body, bodies, np.arange(len(bodies)), of_lines):
            found |= {line: f"{name}.{path}" for line in lines.tolist() if line not in found}
    return found


def _misfits(
    struct: Struct, array: pa.StructArray, rows: Positions, versions: Positions
) -> Iterator[tuple[Positions, str]]:
    """Which of ``rows``, which the structs come from, have a field that does not fit."""
    for field in struct.fields:
        name = field.json_name
        value, parents = array.field(name), rows
        may_be_absent = field.is_tagged or field.is_nullable or field.has_default
        if value.null_count and not may_be_absent:
            of_versions = versions[rows]
            has_field = (of_versions >= field.versions.start) & (of_versions < field.versions.stop)
            yield rows[nulls_of(value) & ~nulls_of(array) & has_field], f"{name} is missing"
        if field.is_array:
            lengths, value = lists_in(value)
            parents = np.repeat(rows, lengths)
            yield parents[nulls_of(value)], f"{name} is missing"
        if field.struct is not None:
            for lines, path in _misfits(field.struct, value, parents, versions):
                yield lines, f"{name}.{path}"
        if field.limits is not None:
            least, largest = field.limits
            found = pc.min_max(value).as_py()
            if found["min"] is not None and (found["min"] < least or found["max"] > largest):
                values = value.fill_null(least).to_numpy(zero_copy_only=False)
                outside = ((values < least) | (values > largest)) & (values != field.default)
                yield parents[outside], f"{name} is out of range"
