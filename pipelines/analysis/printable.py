"""Rows of any query as text: a row of texts each, or a line of JSON each.

Spark does it, so that nested columns and times come out alike everywhere, and rows are handed over
as they come: the driver never has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    MapType,
    StructType,
    TimestampType,
    VariantType,
)

_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"
_JSON_OPTIONS = {"timestampFormat": _TIME, "ignoreNullFields": "false"}


def text_rows(rows: DataFrame) -> Iterator[list[str]]:
    """Each row as texts: empty for null, times in UTC, nested columns as JSON, bytes in hex."""
    places = [f"c{place}" for place in range(len(rows.columns))]  # names may occur twice
    kinds = [field.dataType for field in rows.schema.fields]
    numbered = rows.toDF(*places)
    texts = [_as_text(F.col(place), kind) for place, kind in zip(places, kinds, strict=True)]
    for row in numbered.select(*texts).toLocalIterator(prefetchPartitions=True):
        yield [
            "" if value is None else value if isinstance(value, str) else repr(value)
            for value in row
        ]


def json_lines(rows: DataFrame) -> Iterator[str]:
    """Each row as an object of JSON, nulls included; bytes in base64."""
    places = [f"c{place}" for place in range(len(rows.columns))]
    named = [F.col(place).alias(name) for place, name in zip(places, rows.columns, strict=True)]
    whole = F.to_json(F.struct(*named), _JSON_OPTIONS)
    for row in rows.toDF(*places).select(whole).toLocalIterator(prefetchPartitions=True):
        yield row[0]


def _as_text(column: Column, kind: DataType) -> Column:
    if isinstance(kind, TimestampType):
        return F.date_format(column, _TIME)
    if isinstance(kind, ArrayType | MapType | StructType | VariantType):
        return F.to_json(column, _JSON_OPTIONS)
    if isinstance(kind, BinaryType):
        return F.hex(column)
    if isinstance(kind, BooleanType):
        return column.cast("string")
    return column
