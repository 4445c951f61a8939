"""hwm_parking over Spark equals the pure replay, however the rows are partitioned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.replaying.seam import replayed_by, rows_of
from kip_replay.pipelines.rules.hwm_parking.events import metadata_fetches
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.hwm_parking import HwmParking, replayed, variants
from kip_replay.replay.hwm_parking.metadata_log import INPUT_SCHEMA
from kip_replay.replay.rules import HWM_PARKING, Settings
from kip_replay.replay.schema import (
    BROKER_HEARTBEATS,
    FETCH_PARKING_OUTCOMES,
    FETCHES,
    HIGH_WATERMARK_LAG,
    REQUESTS,
    TABLES,
    Table,
)

SETTINGS = Settings({"failover-4.0": (1, 2, 3), "freeze-4.1": (1, 2, 3)}, (100,))
RECORDING, LEADER = "failover-4.0", 2
_KEY = FETCH_PARKING_OUTCOMES.key


def replayed_fetches(fetches: DataFrame) -> DataFrame:
    return metadata_fetches(fetches).transform(replayed_by(HWM_PARKING, SETTINGS))


def of_failover(finished: Warehouse) -> DataFrame:
    return finished.read(FETCHES).where(F.col("recording") == RECORDING)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_rows_do_not_depend_on_partitions(finished: Warehouse, partitions: int) -> None:
    fetches = of_failover(finished)
    # Shuffled on purpose: the order in which rows arrive must not matter either.
    shuffled = fetches.repartition(partitions, F.xxhash64("request_id", F.lit(partitions)))
    again = replayed_fetches(shuffled)
    once = replayed_fetches(fetches.coalesce(1))
    for table in (FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG):
        assert rows(rows_of(again, table.name)) == rows(rows_of(once, table.name))


def test_spark_gives_the_rows_of_the_pure_replay(finished: Warehouse) -> None:
    events = metadata_fetches(of_failover(finished)).where(F.col("node_id") == LEADER)
    fed = events.toArrow().sort_by([("built_us", "ascending"), ("request_id", "ascending")])

    def batches() -> Iterator[pa.RecordBatch]:
        # Other batches than Spark's, so that cutting the log is part of the comparison.
        yield from fed.select(INPUT_SCHEMA.names).cast(INPUT_SCHEMA).to_batches(max_chunksize=333)

    pure = pa.Table.from_batches(
        [
            outcomes.parking
            for outcomes in replayed(
                HwmParking(LEADER, (1, 2, 3), variants(SETTINGS.max_wait_ms)), batches()
            )
        ]
    )
    by_spark = rows_of(replayed_fetches(of_failover(finished)), _PARKING)
    found = by_spark.where(F.col("leader_id") == LEADER).drop("recording").toArrow()
    order = [(name, "ascending") for name in _KEY if name != "recording"]
    assert found.num_rows > 3000
    assert found.cast(pure.schema).sort_by(order).equals(pure.sort_by(order))


_PARKING = FETCH_PARKING_OUTCOMES.name


def test_a_rule_that_fails_fails_the_job(finished: Warehouse) -> None:
    nobody = Settings({"another recording": (1, 2, 3)})
    with pytest.raises(PythonException, match=r"failover-4\.0"):
        metadata_fetches(of_failover(finished)).transform(
            replayed_by(HWM_PARKING, nobody)
        ).collect()


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_keys_are_unique_and_never_null(finished: Warehouse, table: Table) -> None:
    if not finished.exists(table):
        pytest.skip("only a recording that grows fills it: test_growing_recordings looks at it")
    frame = finished.read(table)
    counted = frame.groupBy(*table.key).count()
    assert counted.where(F.col("count") > 1).count() == 0
    null_in_key = F.lit(False)
    for name in table.key:
        null_in_key = null_in_key | F.col(name).isNull()
    assert frame.where(null_in_key).count() == 0


def test_every_metadata_fetch_has_one_recorded_outcome(finished: Warehouse) -> None:
    logged = finished.read(FETCHES).where("is_cluster_metadata").select("recording", "request_id")
    recorded = finished.read(FETCH_PARKING_OUTCOMES).where("variant = 'recorded'")
    outcomes = recorded.select("recording", F.col("recorded_request_id").alias("request_id"))
    assert logged.exceptAll(outcomes).count() == 0
    assert outcomes.exceptAll(logged).count() == 0


def test_outcomes_join_to_their_requests(finished: Warehouse) -> None:
    recorded = finished.read(FETCH_PARKING_OUTCOMES).where("variant = 'recorded'")
    requests = finished.read(REQUESTS)
    orphans = recorded.join(
        requests,
        (recorded["recording"] == requests["recording"])
        & (recorded["recorded_request_id"] == requests["request_id"]),
        "left_anti",
    )
    assert orphans.count() == 0


def test_the_steady_phase_is_from_the_last_unfencing_to_the_first_shutdown(
    finished: Warehouse,
) -> None:
    lags = finished.read(HIGH_WATERMARK_LAG)
    beats = finished.read(BROKER_HEARTBEATS).where("error_code = 0")
    first = (
        beats.where("NOT is_fenced")
        .groupBy("recording", "broker_id")
        .agg(F.min("built_at").alias("at"))
        .groupBy("recording")
        .agg(F.max("at").alias("since"))
    )
    wrong = lags.join(first, "recording").where("(phase = 'starting') != (leader_at < since)")
    assert lags.select("phase").distinct().count() == 3
    assert wrong.count() == 0


def test_nothing_is_unknown_that_the_log_could_have_decided(finished: Warehouse) -> None:
    outcomes = finished.read(FETCH_PARKING_OUTCOMES)
    assert outcomes.where("verdict = 'unknown'").count() == 0
    late = finished.read(HIGH_WATERMARK_LAG).where("verdict = 'unknown' AND phase != 'stopping'")
    reasons = [row["reason"] for row in late.select("reason").distinct().collect()]
    assert all("ended before the replica learned" in reason for reason in reasons)
