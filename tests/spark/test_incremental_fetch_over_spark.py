"""incremental_fetch over Spark equals the pure replay, however the rows are partitioned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from recorded_logs import folder_of

from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.rules.incremental_fetch.events import (
    outcome_rows,
    replayed_incremental_fetch,
    session_fetches,
    topic_names,
)
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.incremental_fetch import INPUT_SCHEMA, IncrementalFetch, replayed
from kip_replay.replay.rules import Settings
from kip_replay.replay.schema import (
    FETCH_SESSION_EVICTIONS,
    FETCH_SESSION_OUTCOMES,
    FETCHES,
    TOPICS,
    Table,
)

SETTINGS = Settings({}, session_slots=(0, 8))
RECORDING, BROKER = "failover-4.0", 11
FOLDER = folder_of(RECORDING)


@pytest.fixture(scope="module")
def log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse that a recording was read into, and nothing else."""
    warehouse = Warehouse(tmp_path_factory.mktemp("incremental_fetch"))
    ingest([load_recording(FOLDER)], warehouse, say=lambda line: None)
    return warehouse


def outcomes_of(log: Warehouse, shuffle: int = 0) -> dict[Table, DataFrame]:
    """Outcomes of a recording; ``shuffle``: over how many partitions its rows come in disorder."""

    def read(table: Table) -> DataFrame:
        frame = log.read(table).where(F.col("recording") == RECORDING)
        if not shuffle:
            return frame.coalesce(1)
        return frame.repartition(shuffle, F.xxhash64("request_id", F.lit(shuffle)))

    replayed_rows = replayed_incremental_fetch(read, SETTINGS)
    return outcome_rows(replayed_rows, replayed_rows)


@pytest.fixture(scope="module")
def outcomes(log: Warehouse) -> Iterator[dict[Table, DataFrame]]:
    """Outcomes of the recording, replayed once."""
    frames = {table: frame.persist() for table, frame in outcomes_of(log).items()}
    yield frames
    for frame in frames.values():
        frame.unpersist()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


@pytest.mark.parametrize("partitions", [2, 7])
def test_rows_do_not_depend_on_partitions(
    log: Warehouse, outcomes: dict[Table, DataFrame], partitions: int
) -> None:
    again = outcomes_of(log, partitions)
    for table in (FETCH_SESSION_OUTCOMES, FETCH_SESSION_EVICTIONS):
        found = rows(again[table])
        assert found == rows(outcomes[table])
        assert found


def test_spark_gives_the_rows_of_the_pure_replay(
    log: Warehouse, outcomes: dict[Table, DataFrame]
) -> None:
    here = F.col("recording") == RECORDING
    events = session_fetches(log.read(FETCHES).where(here), log.read(TOPICS).where(here)).where(
        F.col("node_id") == BROKER
    )
    fed = events.toArrow().sort_by([("dequeued_us", "ascending"), ("request_id", "ascending")])

    def batches() -> Iterator[pa.RecordBatch]:
        # Other batches than Spark's, so that cutting the log is part of the comparison.
        yield from fed.select(INPUT_SCHEMA.names).cast(INPUT_SCHEMA).to_batches(max_chunksize=33)

    handed_out = list(replayed(IncrementalFetch(BROKER, SETTINGS.session_slots), batches()))
    for table, pure in (
        (FETCH_SESSION_OUTCOMES, [out.outcomes for out in handed_out]),
        (FETCH_SESSION_EVICTIONS, [out.evictions for out in handed_out]),
    ):
        expected = pa.Table.from_batches(pure)
        found = outcomes[table].where(F.col("node_id") == BROKER).drop("recording").toArrow()
        order = [(name, "ascending") for name in table.key if name != "recording"]
        assert found.cast(expected.schema).sort_by(order).equals(expected.sort_by(order))
        assert found.num_rows > 2


def test_every_fetch_of_topic_partitions_has_one_recorded_outcome(
    log: Warehouse, outcomes: dict[Table, DataFrame]
) -> None:
    logged = log.read(FETCHES).where("NOT is_cluster_metadata")
    logged = logged.where(F.col("recording") == RECORDING).select("request_id")
    found = outcomes[FETCH_SESSION_OUTCOMES].where("variant = 'recorded'")
    found = found.select("request_id")
    assert logged.exceptAll(found).count() == 0
    assert found.exceptAll(logged).count() == 0


@pytest.mark.parametrize(
    "table", [FETCH_SESSION_OUTCOMES, FETCH_SESSION_EVICTIONS], ids=lambda table: table.name
)
def test_keys_are_unique_and_never_null(outcomes: dict[Table, DataFrame], table: Table) -> None:
    frame = outcomes[table]
    counted = frame.groupBy(*table.key).count()
    assert counted.where(F.col("count") > 1).count() == 0
    for name in table.key:
        assert frame.where(F.col(name).isNull()).count() == 0


def test_draft_knows_the_names_that_the_log_tells(
    log: Warehouse, outcomes: dict[Table, DataFrame]
) -> None:
    draft = outcomes[FETCH_SESSION_OUTCOMES].where("variant = 'incremental_draft'")
    assert draft.where("NOT is_full AND request_bytes > 0").count() > 500
    told = topic_names(log.read(TOPICS)).where(F.col("recording") == RECORDING).first()
    assert told is not None
    names = [(name.topic_id, name.topic) for name in told.topic_names]
    assert len(names) > 30
    assert names == sorted(set(names))
    assert all(len(topic_id) == 22 for topic_id, _ in names)
