"""Gaps, clocks and phases of a log that lines are missing of: on Spark what they are in DuckDB."""

import gzip
import shutil
from pathlib import Path

import pytest
from recorded_logs import folder_of

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.spark import Spark
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.clocks import clock_bounds
from kip_replay.pipelines.replaying.log_gaps import gaps_in
from kip_replay.pipelines.replaying.phases import log_spans, steady_phases
from kip_replay.pipelines.warehouse.tables import Warehouse

NAME, VOTERS = "metadata-4.0", (1, 2, 3)


def found(engine: Engine) -> list[object]:
    gaps = sorted(map(repr, gaps_in(engine, NAME, VOTERS)))
    bounds = clock_bounds(engine, {NAME: VOTERS})
    return [gaps, bounds, steady_phases(engine, [NAME]), log_spans(engine, [NAME])]


@pytest.mark.usefixtures("spark")
def test_spark_finds_what_duckdb_finds(tmp_path: Path) -> None:
    folder, warehouse = tmp_path / NAME, Warehouse(tmp_path / "warehouse")
    shutil.copytree(folder_of(NAME), folder)
    for log in ("broker-11.log.gz", "controller-2.log.gz"):
        lines = gzip.decompress((folder / log).read_bytes()).splitlines(keepends=True)
        (folder / log).write_bytes(gzip.compress(b"".join([*lines[:260], *lines[300:]])))
    ingest([load_recording(folder)], Local(warehouse), say=str)
    expected = found(Local(warehouse))
    assert all(expected)
    assert found(Spark(warehouse, duckdb_bytes_max=0)) == expected
