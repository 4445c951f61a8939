"""min_isr_acks over Spark equals the pure replay of a naive reader, however partitioned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden.naive_leader_log import events_of, replay
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from recorded_logs import folder_of

from kip_replay.jobs import ingest
from kip_replay.pipelines.rules.min_isr_acks.events import (
    consumer_fetch_events,
    leader_events,
    outcome_rows,
    replayed_min_isr_acks,
)
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.min_isr_acks.events import INPUT_SCHEMA, Kind
from kip_replay.replay.rules import Settings
from kip_replay.replay.schema import FETCHES, PRODUCE_ACK_OUTCOMES, Table

RECORDING = "acks-not-enough"
#: Consumers with fetch sessions.
WITH_CONSUMERS = "sessions-on"
SWEEP = (1, 3)
SETTINGS = Settings(voters={}, min_insync_replicas=SWEEP)
_KEY = [name for name in PRODUCE_ACK_OUTCOMES.key if name != "recording"]


@pytest.fixture(scope="module")
def ingested(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Brokers stop and come back: every kind of event occurs but for consumers' FETCHes."""
    return warehouse_of(spark, tmp_path_factory.mktemp("acks"), RECORDING)


@pytest.fixture(scope="module")
def with_consumers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return warehouse_of(spark, tmp_path_factory.mktemp("consumers"), WITH_CONSUMERS)


def warehouse_of(spark: SparkSession, path: Path, recording: str) -> Warehouse:
    assert ingest.main([str(folder_of(recording)), "--warehouse", str(path)]) == 0
    return Warehouse(path)


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
    assert_same_rows(outcomes, RECORDING)


def test_spark_gives_the_rows_of_the_pure_replay_with_consumers(with_consumers: Warehouse) -> None:
    assert_same_rows(rows_of(with_consumers.read, 3), WITH_CONSUMERS)


def test_consumers_fetches_are_read_alike(with_consumers: Warehouse) -> None:
    """Each with the partitions that it lists, in every leader's log."""
    consumers = leader_events(with_consumers.read).where("kind = 'consumer_fetch'")
    found = sorted(
        (row["node_id"], row["at_us"], row["built_us"], row["session_id"], row["is_full"], listed)
        for row in consumers.collect()
        for listed in [sorted((p["topic_id"], p["partition"]) for p in row["partitions"])]
    )
    pure = sorted(
        (node, event.at_us, event.built_us, event.session_id, event.is_full, listed)
        for node, events in events_of(WITH_CONSUMERS).items()
        for event in events
        if event.kind == Kind.CONSUMER_FETCH
        for listed in [sorted((p.topic_id, p.partition) for p in event.partitions or ())]
    )
    assert len(found) == 833
    assert found == pure


def test_forgotten_partitions_are_told(with_consumers: Warehouse) -> None:
    """No recorded consumer forgets any: followers' FETCHes that do, as if they were consumers'."""
    fetches = with_consumers.read(FETCHES).where("NOT is_cluster_metadata AND error_code = 0")
    forgetting = fetches.where(F.size("forgotten_partitions") > 0).withColumn(
        "replica_id", F.lit(-1)
    )
    leaders = forgetting.select("recording", "node_id").distinct()
    events = {
        row["request_id"]: row["partitions"]
        for row in consumer_fetch_events(forgetting, leaders).collect()
    }
    asked = forgetting.select("request_id", "request_partitions", "forgotten_partitions").collect()
    assert len(asked) == len(events) >= 2
    for request_id, listed, forgotten in asked:
        wanted = [(p["topic_id"], p["partition"], False) for p in listed]
        wanted += [(p["topic_id"], p["partition"], True) for p in forgotten]
        told = [(p["topic_id"], p["partition"], p["is_forgotten"]) for p in events[request_id]]
        assert told == wanted


def assert_same_rows(outcomes: pa.Table, recording: str) -> None:
    # The readers name requests each in its own way, and only Spark's looks at INIT_PRODUCER_ID.
    apart = {"recording", "request_id", "is_idempotent"}
    pure = [
        {name: value for name, value in row.items() if name not in apart}
        for node, events in events_of(recording).items()
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
    assert {kind for _, kind in counts} == {k.value for k in Kind if k != Kind.CONSUMER_FETCH}
    for node in (11, 12):
        assert counts[node, Kind.HEARTBEAT.value] < 40
        assert counts[node, Kind.METADATA.value] < 20


def test_idempotent_producers_are_those_that_asked_for_an_id(outcomes: pa.Table) -> None:
    asked = {(row["client_id"], row["is_idempotent"]) for row in outcomes.to_pylist()}
    assert ("producer-4", True) in asked
    assert {told for client, told in asked if client != "producer-4"} == {None}
