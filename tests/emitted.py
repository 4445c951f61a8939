"""Rows that a replay is fed and emits, as the tests of every rule have them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa


def batch_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows by hand as the batch that a replay is fed."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with times as integers: exact, and in the unit of the input."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()


def fed(
    start: Callable[..., Any], increments: Iterable[pa.RecordBatch], *, resumed: bool = False
) -> Iterator[Any]:
    """Yields what a replay emits for each increment, and at its end.

    ``resumed``: after each it is saved, and another one resumes; what it does later changes nothing
    of what it saved.
    """
    replay = start()
    for increment in increments:
        yield replay.feed(increment)
        if resumed:
            saved = replay.saved()
            assert replay.saved() == saved
            replay = start(saved=saved)
    yield replay.finish()
