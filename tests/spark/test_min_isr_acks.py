"""min_isr_acks over Spark equals the pure replay of a naive reader, however partitioned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden.naive_leader_log import events_of, replay
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import ingest
from pipelines.min_isr_acks import leader_events, outcome_rows, replayed_min_isr_acks
from pipelines.warehouse import Warehouse
from replay.produce_events import INPUT_SCHEMA, Kind
from replay.rules import Settings
from replay.schema import PRODUCE_ACK_OUTCOMES, Table

REPOSITORY = Path(__file__).resolve().parents[2]
RECORDING = "acks-not-enough"
SWEEP = (1, 3)
SETTINGS = Settings(voters={}, min_insync_replicas=SWEEP)
_KEY = [name for name in PRODUCE_ACK_OUTCOMES.key if name != "recording"]


@pytest.fixture(scope="module")
def ingested(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Brokers stop and come back: every kind of event occurs."""
    path = tmp_path_factory.mktemp("acks")
    recording = REPOSITORY / "tests" / "recordings" / RECORDING
    assert ingest.main([str(recording), "--warehouse", str(path)]) == 0
    return Warehouse(spark, path)


@pytest.fixture(scope="module")
def outcomes(ingested: Warehouse) -> pa.Table:
    return rows_of(ingested.read, 1)


def rows_of(read: Any, partitions: int) -> pa.Table:
    """The outcomes, the tables shuffled into some partitions first."""

    def shuffled(table: Table) -> DataFrame:
        return read(table).repartition(partitions, F.xxhash64("request_id", F.lit(partitions)))

    replayed = replayed_min_isr_acks(shuffled, SETTINGS)
    return outcome_rows(replayed, replayed)[PRODUCE_ACK_OUTCOMES].toArrow()


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: tuple(str(row[name]) for name in _KEY))


def test_rows_are_those_of_the_table(outcomes: pa.Table) -> None:
    wanted = PRODUCE_ACK_OUTCOMES.arrow_schema
    assert set(outcomes.schema.names) == set(wanted.names)
    keys = [tuple(row[name] for name in PRODUCE_ACK_OUTCOMES.key) for row in outcomes.to_pylist()]
    assert len(set(keys)) == len(keys) == 2748 * (1 + len(SWEEP))


def test_rows_do_not_depend_on_partitions(ingested: Warehouse, outcomes: pa.Table) -> None:
    again = rows_of(ingested.read, 5)
    assert ordered(again.to_pylist()) == ordered(outcomes.to_pylist())


def test_spark_gives_the_rows_of_the_pure_replay(outcomes: pa.Table) -> None:
    """Another reader, all heartbeats and all METADATA instead of changes, other pieces."""
    # The readers name requests each in its own way, and only Spark's looks at INIT_PRODUCER_ID.
    apart = {"recording", "request_id", "is_idempotent"}
    pure = [
        {name: value for name, value in row.items() if name not in apart}
        for node, events in events_of(RECORDING).items()
        for row in replay(node, events, SWEEP)
    ]
    found = [
        {name: value for name, value in row.items() if name not in apart}
        for row in outcomes.to_pylist()
    ]
    assert len(found) == len(pure)
    as_text = [sorted(repr(sorted(row.items())) for row in rows) for rows in (found, pure)]
    assert as_text[0] == as_text[1]


def test_events_are_few_where_nothing_changes(ingested: Warehouse) -> None:
    """Heartbeats and METADATA that say the same again do not go to every leader."""
    events = leader_events(ingested.read)
    assert [field.name for field in events.schema][2:] == INPUT_SCHEMA.names
    counts = {
        (row["node_id"], row["kind"]): row["count"]
        for row in events.groupBy("node_id", "kind").count().collect()
    }
    assert {node for node, _ in counts} == {11, 12}
    assert {kind for _, kind in counts} == {kind.value for kind in Kind}
    for node in (11, 12):
        assert counts[node, Kind.HEARTBEAT.value] < 40
        assert counts[node, Kind.METADATA.value] < 20


def test_idempotent_producers_are_those_that_asked_for_an_id(outcomes: pa.Table) -> None:
    asked = {(row["client_id"], row["is_idempotent"]) for row in outcomes.to_pylist()}
    assert ("producer-4", True) in asked
    assert {told for client, told in asked if client != "producer-4"} == {None}
