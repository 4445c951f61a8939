"""Rows that a replay emits, as the tests of every rule compare them."""

from typing import Any

import pyarrow as pa


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with times as integers: exact, and in the unit of the input."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
