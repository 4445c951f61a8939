"""Which bodies lack a field that their version must have.

Source: ``JsonConverterGenerator``, by which Kafka writes bodies to the log: a field is there in
each of its versions but those where it is tagged, and null only where the version allows it. What
has a default may be absent nevertheless: what is meant by that is not in doubt.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..messages import Api
from ..messages.layout import Struct
from .arrow_rows import Positions, lists_in, nulls_of, one_chunk


def incomplete(table: pa.Table, api: Api, versions: pa.Int32Array) -> dict[int, str]:
    """The lines whose bodies lack a field, with the path of the first: ``request.topics``."""
    found: dict[int, str] = {}
    of_lines = versions.fill_null(-1).to_numpy().astype(np.int64)
    for name, message in (("request", api.request), ("response", api.response)):
        bodies = one_chunk(table.column(name))
        for lines, path in _absent(message.body, bodies, np.arange(len(bodies)), of_lines):
            found |= {line: f"{name}.{path}" for line in lines.tolist() if line not in found}
    return found


def _absent(
    struct: Struct, array: pa.StructArray, rows: Positions, versions: Positions
) -> Iterator[tuple[Positions, str]]:
    """Which of ``rows``, which the structs come from, lack a field, and its path."""
    for field in struct.fields:
        name = field.json_name
        value, parents = array.field(name), rows
        may_be_absent = field.is_tagged or field.is_nullable or field.has_default
        if value.null_count and not may_be_absent:
            of_versions = versions[rows]
            has_field = (of_versions >= field.versions.start) & (of_versions < field.versions.stop)
            yield rows[nulls_of(value) & ~nulls_of(array) & has_field], name
        if field.is_array:
            lengths, value = lists_in(value)
            parents = np.repeat(rows, lengths)
            yield parents[nulls_of(value)], name
        if field.struct is not None:
            for lines, path in _absent(field.struct, value, parents, versions):
                yield lines, f"{name}.{path}"
