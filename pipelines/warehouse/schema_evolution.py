"""What may be done with a table that another version of this program made.

* An older version's table may lack columns. They are null in its rows; the first write adds them.
  That is a commit of metadata alone: rows and fingerprints stay.
* A newer version's table has columns that this version does not know. It is read without them, and
  not written to: rows that lack them would look to that version as if it had written them.
* A column of another type, one that may be null here and not there, another partitioning: that is
  another table. It is neither read nor written, because no guess is safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kip_replay.pipelines.errors import UserError
from kip_replay.replay.schema import CLIENT_OBSERVATIONS, LOG_TABLES, Table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

#: A table's property: columns whose least and greatest value Delta keeps for each file.
STATS_COLUMNS = "delta.dataSkippingStatsColumns"


class Difference(NamedTuple):
    """How a table on disk differs from today's schema.

    ``missing``: columns that it lacks and that may be null. ``unknown``: its columns that today's
    code does not know. ``unfit``: why it cannot be read as today's table, in words.
    """

    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unfit: str | None = None


def difference(there: StructType, partitioned_by: Sequence[str], table: Table) -> Difference:
    """Compares names, types, which columns may be null, and the partitioning; not the order."""
    wanted = from_arrow_schema(table.arrow_schema)
    on_disk = {field.name: field for field in there.fields}
    lacked = [field for field in wanted.fields if field.name not in on_disk]
    unknown = [field for field in there.fields if field.name not in wanted.names]
    unfit = [
        *(f"it lacks the column {f.name}, which is never null" for f in lacked if not f.nullable),
        *(
            f"its column {f.name} is not known here and never null"
            for f in unknown
            if not f.nullable
        ),
        *(
            _unlike(on_disk[field.name], field)
            for field in wanted.fields
            if field.name in on_disk and _is_unlike(on_disk[field.name], field)
        ),
    ]
    if tuple(partitioned_by) != table.partitioned_by:
        unfit.append(
            f"it is partitioned by {', '.join(partitioned_by) or 'nothing'}, today by "
            f"{', '.join(table.partitioned_by) or 'nothing'}"
        )
    return Difference(
        tuple(field.name for field in lacked if field.nullable),
        tuple(field.name for field in unknown),
        unfit[0] if unfit else None,
    )


def require_readable(found: Difference, table: Table, path: str) -> None:
    """Raises UserError, with the way to go on, for a table that is not today's."""
    if found.unfit:
        raise UserError(
            f"another version of this program made the table {table.name} ({found.unfit}): "
            f"{made_anew(table, path)}"
        )


def require_writable(found: Difference, table: Table, path: str) -> None:
    """Raises UserError for a table that this version cannot write all columns of."""
    require_readable(found, table, path)
    if found.unknown:
        raise UserError(
            f"a newer version of this program made the table {table.name} (its "
            f"{'column' if len(found.unknown) == 1 else 'columns'} {', '.join(found.unknown)} "
            f"cannot be written by this one): use that version, or {made_anew(table, path)}"
        )


def as_today(rows: DataFrame, found: Difference, table: Table) -> DataFrame:
    """Rows with today's columns: those that the table lacks are null, unknown ones left out."""
    if not (found.missing or found.unknown):
        return rows
    fields = from_arrow_schema(table.arrow_schema).fields
    return rows.select(
        *(
            F.lit(None).cast(field.dataType).alias(field.name)
            if field.name in found.missing
            else F.col(field.name)
            for field in fields
        )
    )


def made_anew(table: Table, path: str) -> str:
    """How a table whose rows cannot be used is made again, as the end of a sentence.

    What rules and summaries wrote follows from the typed tables. What was read from logs does not.
    """
    if table in LOG_TABLES or table is CLIENT_OBSERVATIONS:
        return "run jobs.run on the recordings with another --warehouse, which reads the logs anew"
    return (
        f"remove the folder {path} and run jobs.run --rebuild on every recording in the "
        "warehouse, which writes it anew"
    )


def shape(data_type: DataType) -> Any:
    """A type without nullability and comments, which differ by how a DataFrame came about."""
    if isinstance(data_type, StructType):
        return tuple((field.name, shape(field.dataType)) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return ("array", shape(data_type.elementType))
    if isinstance(data_type, MapType):
        return ("map", shape(data_type.keyType), shape(data_type.valueType))
    return data_type.simpleString()


def _is_unlike(there: StructField, wanted: StructField) -> bool:
    return shape(there.dataType) != shape(wanted.dataType) or there.nullable != wanted.nullable


def _unlike(there: StructField, wanted: StructField) -> str:
    if shape(there.dataType) == shape(wanted.dataType):
        ends = ("may be null", "is never null")
        return (
            f"its column {there.name} {ends[not there.nullable]} there and "
            f"{ends[not wanted.nullable]} here"
        )
    types = (there.dataType, wanted.dataType)
    if all(isinstance(one, ArrayType | MapType | StructType) for one in types):
        # All their fields would make the sentence a page.
        return f"its column {there.name} has other fields there than here"
    one, other = (data_type.simpleString() for data_type in types)
    return f"its column {there.name} is {one} there and {other} here"
