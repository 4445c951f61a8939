"""What of a table on disk is today's, older, newer, or another table altogether."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse.schema_evolution import (
    Difference,
    difference,
    require_readable,
    require_writable,
)
from kip_replay.replay.schema import (
    INGESTED_FILES,
    LATENCY_SUMMARY,
    PRODUCES,
    TABLES,
    Column,
    Table,
)


def on_disk(table: Table) -> StructType:
    return from_arrow_schema(table.arrow_schema)


def found(there: Table, today: Table) -> Difference:
    return difference(on_disk(there), there.partitioned_by, today)


def with_column(table: Table, column: Column) -> Table:
    """The table with the column in the place of that of its name, or after all others."""
    if column.name not in {known.name for known in table.columns}:
        return replace(table, columns=(*table.columns, column))
    columns = tuple(column if known.name == column.name else known for known in table.columns)
    return replace(table, columns=columns)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_table_is_like_itself_in_any_order(table: Table) -> None:
    reversed_ = StructType(on_disk(table).fields[::-1])
    assert difference(reversed_, table.partitioned_by, table) == Difference()


def test_columns_that_may_be_null_are_missing_from_an_older_table() -> None:
    older = replace(INGESTED_FILES, columns=INGESTED_FILES.columns[:-2])
    difference = found(older, INGESTED_FILES)
    assert difference == Difference(missing=("first_byte", "timezone"))
    require_writable(difference, INGESTED_FILES, "/w/ingested_files")


def test_columns_that_may_be_null_make_a_newer_table_that_is_only_read() -> None:
    newer = with_column(INGESTED_FILES, Column("colour", pa.string(), "of the file"))
    difference = found(newer, INGESTED_FILES)
    assert difference == Difference(unknown=("colour",))
    require_readable(difference, INGESTED_FILES, "/w/ingested_files")
    with pytest.raises(
        UserError,
        match=r"^a newer version of this program made the table ingested_files \(its column colour "
        r"cannot be written by this one\): use that version, or run jobs\.run on the recordings "
        r"with another --warehouse, which reads the logs anew$",
    ):
        require_writable(difference, INGESTED_FILES, "/w/ingested_files")


NEVER_NULL = Column("shard", pa.int32(), "of the log", nullable=False)
FEWER = pa.list_(pa.struct([("topic", pa.string())]))


@pytest.mark.parametrize(
    ("there", "today", "why"),
    [
        (
            LATENCY_SUMMARY,
            with_column(LATENCY_SUMMARY, NEVER_NULL),
            r"it lacks the column shard, which is never null",
        ),
        (
            with_column(LATENCY_SUMMARY, NEVER_NULL),
            LATENCY_SUMMARY,
            r"its column shard is not known here and never null",
        ),
        (
            with_column(LATENCY_SUMMARY, Column("count", pa.float64(), "")),
            LATENCY_SUMMARY,
            r"its column count is double there and bigint here",
        ),
        (
            with_column(LATENCY_SUMMARY, Column("count", pa.int64(), "", nullable=False)),
            LATENCY_SUMMARY,
            r"its column count is never null there and may be null here",
        ),
        (
            with_column(LATENCY_SUMMARY, Column("metric", pa.string(), "")),
            LATENCY_SUMMARY,
            r"its column metric may be null there and is never null here",
        ),
        (
            with_column(PRODUCES, Column("partitions", FEWER, "")),
            PRODUCES,
            r"its column partitions has other fields there than here",
        ),
        (
            replace(LATENCY_SUMMARY, partitioned_by=()),
            LATENCY_SUMMARY,
            r"it is partitioned by nothing, today by recording",
        ),
    ],
)
def test_another_table_is_neither_read_nor_written(there: Table, today: Table, why: str) -> None:
    difference = found(there, today)
    for require in (require_readable, require_writable):
        with pytest.raises(UserError) as error:
            require(difference, today, f"/w/{today.name}")
        assert f"made the table {today.name} ({why}): " in str(error.value)
    way = "--rebuild" if today.name == LATENCY_SUMMARY.name else "another --warehouse"
    assert way in str(error.value)
