"""Small tables made by hand, what replays are fed and emit, prediction_accuracy, plain arithmetic.

The arithmetic here shares nothing with that of queries: lists are sorted, ranks counted, sums
added.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from kip_replay.pipelines.analysis.accuracy import prediction_accuracy
from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.engines import NO_INPUTS, Feed, Inputs
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import NO_PARTS, Text
from kip_replay.pipelines.rule_files import Kind
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.data_files import DataFile
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.records import SteadyPhase, Verdict
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES, PredictionAccuracy

Row = dict[str, Any]
Key = tuple[str, ...]
#: A duration in integer microseconds, or None where it is not known.
Micros = int | None
Tables = Mapping[Table, Sequence[Row]]

BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
#: The steady phase of every constructed recording, in seconds from BEGIN.
STEADY_S = (10.0, 110.0)
PERCENTILES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}

#: Tables whose figures plain arithmetic gave once.
REVIEWED = Path(__file__).parent / "data" / "reviewed"

_numbers = count()


def at(second: float) -> datetime:
    return BEGIN + timedelta(microseconds=round(second * 1_000_000))


def row(table: Table, **values: Any) -> Row:
    """A row of a table: replayed, no sweep, a request of its own; the rest is null."""
    unknown_names = values.keys() - set(table.arrow_schema.names)
    assert not unknown_names, unknown_names
    usual = {"recording": "r", "verdict": Verdict.REPLAYED.value, "attempt": 0}
    usual |= {"parameter": "none", "parameter_value": -1}
    usual["request_id"] = f"request {next(_numbers):06d}"
    filled = {name: values.get(name, usual.get(name)) for name in table.arrow_schema.names}
    missing = [name for name in table.key if filled[name] is None]
    assert not missing, missing
    return filled


def arrow_table(table: Table, rows: Sequence[Row]) -> pa.Table:
    """These rows, in an order that nothing may depend on."""
    shuffled = random.Random(len(rows)).sample(rows, len(rows))
    loose = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
    return pa.Table.from_pylist(shuffled, schema=loose)


def database(tables: Tables) -> duckdb.DuckDBPyConnection:
    """A DuckDB session with these tables; the others are there without rows."""
    by_name = {table.name: rows for table, rows in tables.items()}
    assert by_name.keys() <= TABLES.keys()
    connection = duckdb.connect()
    for name, table in TABLES.items():
        connection.register(name, arrow_table(table, by_name.get(name, ())))
    return connection


@contextmanager
def viewed(
    tables: Tables, limits: Mapping[str, float] = NO_PARTS
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB session with these tables, and all views on them."""
    with database(tables) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        create_views(connection, in_order(read_views(limits), TABLES))
        yield connection


@dataclass(frozen=True)
class OnTables(Local):
    """Runs texts on these rows instead of a warehouse's."""

    tables: Inputs = field(default_factory=dict)

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs = NO_INPUTS) -> pa.Table:
        return super().rows(text, recordings, {**self.tables, **inputs})

    def feed(self, feed: Feed[Any]) -> list[Any]:
        return super().feed(replace(feed, inputs={**self.tables, **feed.inputs}))


def engine_on(tables: Tables, more: Inputs = NO_INPUTS) -> OnTables:
    """The engine of these tables; the others are there without rows."""
    named = {table.name: arrow_table(table, rows) for table, rows in tables.items()}
    return OnTables(Warehouse("nowhere"), tables={**named, **more})


def phases(*recordings: str) -> dict[str, SteadyPhase]:
    bounds_us = [round(at(second).timestamp() * 1_000_000) for second in STEADY_S]
    return {name: SteadyPhase(*bounds_us) for name in recordings}


def rule_steps(name: str) -> SummedRule:
    [steps] = [steps for steps in RULES if steps.name == name]
    return steps


def accuracy(
    steps: SummedRule,
    tables: Tables,
    recordings: Sequence[str],
    pairs: Iterable[tuple[str, str]],
) -> dict[Key, Row]:
    """Rows of prediction_accuracy by (predicted_from, recorded_in, metric, kind, value).

    Those of two runs of the same thing are left out: they hold no prediction.
    """
    judgements = {steps.name: steps.judgement}
    rows = prediction_accuracy(engine_on(tables), judgements, phases(*recordings), [*pairs])
    assert rows.schema == PredictionAccuracy.arrow_schema
    found = [r for r in rows.to_pylist() if r["kind"] != Kind.TWO_RUNS]
    assert all(r["recording"] == r["predicted_from"] and r["rule"] == steps.name for r in found)
    assert {(r["parameter"], r["parameter_value"]) for r in found} <= {("none", -1)}
    return keyed(found, ("predicted_from", "recorded_in", "metric", "group_kind", "group_value"))


def written_rows(root: Path, table: Table, files: Iterable[DataFile]) -> list[Row]:
    return [
        {"recording": file.recording, **found}
        for file in files
        if file.table == table.name
        for found in pq.ParquetFile(root / table.name / file.path).read().to_pylist()
    ]


def keyed(rows: Iterable[Row], key: Sequence[str]) -> dict[Key, Row]:
    """Rows by their key; it must be one."""
    rows = list(rows)
    found = {tuple(r[name] for name in key): r for r in rows}
    assert len(found) == len(rows)
    return found


def at_rank(values: Sequence[int | None], thousandths: int) -> int | None:
    """The value at rank floor(q * (n - 1)); those not known come last."""
    ranked = sorted(value for value in values if value is not None)
    rank = thousandths * (len(values) - 1) // 1000
    return ranked[rank] if rank < len(ranked) else None


def spread(values: Sequence[Micros]) -> Row:
    known = [value for value in values if value is not None]
    ranked = {name: at_rank(values, q) if values else None for name, q in PERCENTILES.items()}
    return {
        "count": len(known),
        "unknown_count": len(values) - len(known),
        "mean_ms": sum(known) / len(known) / 1000 if known else None,
        "max_ms": max(known) / 1000 if known else None,
        **{f"{name}_ms": None if us is None else us / 1000 for name, us in ranked.items()},
    }


def assert_same(found: Mapping[Key, Row], expected: Mapping[Key, Row]) -> None:
    """The same keys, and under each every expected figure, to the last digit."""
    assert found.keys() == expected.keys()
    for key, figures in found.items():
        assert {name: figures[name] for name in expected[key]} == expected[key], key


def assert_reviewed(rows: Sequence[Row], of: str, name: str, folder: Path) -> None:
    """The same rows as in the reviewed file; where not, those found stand in the folder."""
    found, reviewed = folder / f"{name}.csv", REVIEWED / of / f"{name}.csv"
    csv.write_csv(pa.Table.from_pylist([*rows]), found)
    assert found.read_text() == reviewed.read_text(), f"review {found}, then copy it to {reviewed}"


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
