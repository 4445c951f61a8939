"""Which bodies lack a field that their version must have.

Source: ``JsonConverterGenerator``, by which Kafka writes bodies to the log: a field is there in
each of its versions but those where it is tagged, and null only where the version allows it. What
has a default may be absent nevertheless: what is meant by that is not in doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrow_rows import Positions, lists_in, nulls_of

if TYPE_CHECKING:
    from ..messages.layout import Field, Struct


def lacking(struct: Struct, bodies: pa.StructArray, versions: Positions) -> dict[int, str]:
    """The rows of bodies that lack a field, with the path of the first: ``topics.partitions``.

    ``bodies`` have some of the fields of ``struct``; null is no body. ``versions`` are of its rows.
    """
    found: dict[int, str] = {}
    _visit(struct, bodies, np.arange(len(bodies)), versions, "", found)
    return found


def _visit(
    struct: Struct,
    array: pa.StructArray,
    rows: Positions,
    versions: Positions,
    path: str,
    found: dict[int, str],
) -> None:
    """``rows`` are those that the structs come from."""
    for field in struct.fields:
        if array.type.get_field_index(field.json_name) < 0:
            continue
        place = path + field.json_name
        value = pc.struct_field(array, field.json_name)
        may_be_absent = field.is_tagged or field.is_nullable or field.has_default
        if value.null_count and not may_be_absent:
            of_versions = versions[rows]
            has_field = (of_versions >= field.versions.start) & (of_versions < field.versions.stop)
            _note(rows[nulls_of(value) & ~nulls_of(array) & has_field], place, found)
        if field.is_array:
            lengths, elements = lists_in(value)
            parents = np.repeat(rows, lengths)
            _note(parents[nulls_of(elements)], place, found)
            _visit_inner(field, elements, parents, versions, place, found)
        else:
            _visit_inner(field, value, rows, versions, place, found)


def _visit_inner(
    field: Field,
    array: pa.Array,
    rows: Positions,
    versions: Positions,
    place: str,
    found: dict[int, str],
) -> None:
    if field.struct is not None:
        _visit(field.struct, array, rows, versions, f"{place}.", found)


def _note(rows: Positions, place: str, found: dict[int, str]) -> None:
    for row in rows.tolist():
        found.setdefault(row, place)
