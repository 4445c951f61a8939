"""Defines what outcomes of all rules share: variant, verdict, rows of Arrow batches."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

#: Columns that say which rule, variant and parameter a row is of.
WHAT_IF = ("rule", "variant", "parameter", "parameter_value")
#: Variant of what the log itself shows.
RECORDED = "recorded"
#: Value of the parameter ``none``.
NOT_SWEPT = -1


class Verdict(StrEnum):
    """Tells apart outcomes that were decided or not; ``UNKNOWN`` always has a reason.

    ``BOUNDED``: all but its bytes, which lie between two bounds.
    """

    REPLAYED = "replayed"
    BOUNDED = "bounded"
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"


class Variant(NamedTuple):
    """A protocol to replay under, and the parameter that a sweep varies."""

    name: str
    parameter: str = "none"
    parameter_value: int = NOT_SWEPT


def made_unknown(
    rows: pa.RecordBatch, which: pa.Array, reason: str, clears: Sequence[str] = ()
) -> pa.RecordBatch:
    """Makes some rows unknown, and null in ``clears``; those that were so keep their reason."""
    new = pc.and_(which, pc.not_equal(rows.column("verdict"), Verdict.UNKNOWN.value))
    changes: dict[str, tuple[pa.Array, str | None]] = dict.fromkeys(clears, (which, None))
    changes |= {"verdict": (new, Verdict.UNKNOWN.value), "reason": (new, reason)}
    columns = list(rows.columns)
    for name, (where, value) in changes.items():
        place = rows.schema.get_field_index(name)
        columns[place] = pc.if_else(where, pa.scalar(value, columns[place].type), columns[place])
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def batch_of(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Advice(StrEnum):
    """Names what to do about a rule in a recording."""

    DO = "do it"
    DONT = "don't"
    IN_USE = "already in use"
    NO_RELEASE = "in no release yet"
    NOT_ENOUGH = "not enough data"
    WITHHELD = "withheld"
