"""lowest_acked_offset over Spark equals the pure replay, however the rows are partitioned."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.replaying.seam import replayed_by
from kip_replay.pipelines.rules.lowest_acked_offset.events import cluster_events, outcome_rows
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.lowest_acked_offset import LowestAckedOffset, replayed
from kip_replay.replay.lowest_acked_offset.events import INPUT_SCHEMA, ORDER
from kip_replay.replay.rules import LOWEST_ACKED_OFFSET, Settings
from kip_replay.replay.schema import (
    BROKER_HEARTBEATS,
    HEARTBEAT_OUTCOMES,
    METADATA_WRITE_OUTCOMES,
    METADATA_WRITE_VISIBILITY,
    METADATA_WRITES,
    Table,
)

VOTERS = (1, 2, 3)
RECORDINGS = ("failover-4.0", "freeze-4.1")
SETTINGS = Settings(
    voters=dict.fromkeys(RECORDINGS, VOTERS),
    recorded_heartbeat_interval_ms={"failover-4.0": 2000},
    broker_heartbeat_interval_ms=(500,),
)
TABLES = (HEARTBEAT_OUTCOMES, METADATA_WRITE_OUTCOMES, METADATA_WRITE_VISIBILITY)


@pytest.fixture(scope="module")
def events(finished: Warehouse) -> pa.Table:
    return cluster_events(finished.read).toArrow()


@pytest.fixture(scope="module")
def outcomes(finished: Warehouse) -> dict[Table, pa.Table]:
    """What Spark makes of both recordings, once."""
    found = outcomes_of(cluster_events(finished.read))
    return {table: frame.toArrow() for table, frame in found.items()}


def of_recording(events: pa.Table, name: str) -> pa.Table:
    chosen = events.filter(pc.equal(events["recording"], name))
    return chosen.sort_by([(column, "ascending") for column in ORDER])


def outcomes_of(events: DataFrame) -> dict[Table, DataFrame]:
    replayed_events = events.transform(replayed_by(LOWEST_ACKED_OFFSET, SETTINGS))
    return outcome_rows(replayed_events, replayed_events)


def test_events_leave_nothing_out_and_nothing_null(finished: Warehouse, events: pa.Table) -> None:
    may_be_null = {"connection", "client_id", "response_bytes"}
    for name in INPUT_SCHEMA.names:
        if name not in may_be_null:
            assert events[name].null_count == 0, name
    kinds = events["kind"].value_counts().to_pylist()
    counts = {kind["values"]: kind["counts"] for kind in kinds}
    assert counts["heartbeat"] == finished.read(BROKER_HEARTBEATS).count()
    assert counts["write"] == finished.read(METADATA_WRITES).count()
    assert set(counts) == {"heartbeat", "write", "fetch", "api_versions", "learned"}


@pytest.mark.parametrize("name", RECORDINGS)
def test_spark_gives_the_rows_of_the_pure_replay(
    outcomes: dict[Table, pa.Table], events: pa.Table, name: str
) -> None:
    fed = of_recording(events, name).select(INPUT_SCHEMA.names).cast(INPUT_SCHEMA)

    def batches() -> Iterator[pa.RecordBatch]:
        # Other batches than Spark's, so that cutting the log is part of the comparison.
        yield from fed.to_batches(max_chunksize=333)

    interval = SETTINGS.recorded_heartbeat_interval_ms.get(name)
    replays = list(replayed(LowestAckedOffset(VOTERS, (500,), interval), batches()))
    for position, table in enumerate(TABLES):
        pure = pa.Table.from_batches([batch[position] for batch in replays])
        order = [(column, "ascending") for column in table.key if column != "recording"]
        chosen = outcomes[table].filter(pc.equal(outcomes[table]["recording"], name))
        of_spark = chosen.drop_columns("recording")
        assert pure.num_rows > 50
        assert of_spark.cast(pure.schema).sort_by(order).equals(pure.sort_by(order))


@pytest.mark.parametrize("partitions", [1, 5])
def test_rows_do_not_depend_on_partitions(
    finished: Warehouse, outcomes: dict[Table, pa.Table], partitions: int
) -> None:
    once = cluster_events(finished.read)
    # Shuffled on purpose: the order in which rows arrive must not matter either.
    shuffled = once.repartition(partitions, F.xxhash64("request_id", F.lit(partitions)))
    again = outcomes_of(shuffled)[METADATA_WRITE_OUTCOMES].toArrow()
    order = [(column, "ascending") for column in METADATA_WRITE_OUTCOMES.key]
    assert again.sort_by(order).equals(outcomes[METADATA_WRITE_OUTCOMES].sort_by(order))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_keys_are_unique_and_complete(outcomes: dict[Table, pa.Table], table: Table) -> None:
    keys = outcomes[table].select(table.key)
    assert keys.num_rows == keys.group_by(table.key).aggregate([]).num_rows > 100
    assert [column for column in table.key if keys[column].null_count] == []
