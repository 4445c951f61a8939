"""Gaps, clocks and phases of a log that lines are missing of: on Spark what they are in DuckDB."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from recorded_logs import folder_of

from kip_replay.pipelines.analysis.phases import log_spans, steady_phases
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.spark import Spark
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.clocks import clock_bounds
from kip_replay.pipelines.replaying.log_gaps import gaps_in
from kip_replay.pipelines.warehouse.tables import Warehouse

NAME, VOTERS = "metadata-4.0", (1, 2, 3)


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = shutil.copytree(folder_of(NAME), tmp_path_factory.mktemp("cut") / NAME)
    _cut(folder / "broker-11.log.gz")
    _cut(folder / "controller-2.log.gz")
    warehouse = Warehouse(folder.parent / "warehouse")
    ingest([load_recording(folder)], warehouse, say=str)
    return warehouse


def _cut(log: Path) -> None:
    lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
    log.write_bytes(gzip.compress(b"".join([*lines[:260], *lines[300:]])))


def gaps(engine: Engine) -> list[str]:
    return sorted(map(repr, gaps_in(engine, NAME, VOTERS)))


@pytest.mark.parametrize(
    "find",
    [
        gaps,
        lambda engine: clock_bounds(engine, {NAME: VOTERS}),
        lambda engine: steady_phases(engine, [NAME]),
        lambda engine: log_spans(engine, [NAME]),
    ],
    ids=["gaps", "clocks", "steady phases", "spans"],
)
def test_spark_finds_what_duckdb_finds(
    warehouse: Warehouse, find: Callable[[Engine], object]
) -> None:
    found = find(Local(warehouse))
    assert found
    assert find(Spark(warehouse, duckdb_bytes_max=0)) == found
