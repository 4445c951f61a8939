"""What a schedule runs: increments through spark-submit give the tables of one run."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from recorded_logs import REPOSITORY, folder_of

from kip_replay.jobs import run
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import INGESTED_FILES
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LINEAGE, QUALITY_FAILURES, QUALITY_RESULTS, TABLES

NAME = "sessions-on"
#: Bytes of a line's stamp in brackets.
STAMP = 25
#: Longer than the longest request of the recording (3.2 s).
SETTINGS = ("--set", "replay.late_after_s=4", "--set", "quality.data_docs=false")


class ArrivingLog:
    """The beginning of a sample, whose logs grow where they are; one line is no request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = json.loads((folder_of(NAME) / "recording.json").read_text())
        self._logs: dict[str, list[bytes]] = {}
        for node in manifest["nodes"]:
            log = gzip.decompress((folder_of(NAME) / node["log"]).read_bytes())
            node["log"] = node["log"].removesuffix(".gz")
            self._logs[node["log"]] = log.splitlines(keepends=True)
        self._stamps = sorted(line[:STAMP] for lines in self._logs.values() for line in lines)
        self._logs["broker-11.log"][0] += b"no request\n"
        folder.mkdir()
        (folder / "recording.json").write_text(json.dumps(manifest))

    def grow(self, share: float, half_lines: bool = True) -> None:
        """Lines up to a share of the whole, and half of a line that is still being written."""
        until = self._stamps[int(share * len(self._stamps))]
        for name, lines in self._logs.items():
            count = sum(line[:STAMP] <= until for line in lines)
            half = lines[count][:100] if half_lines else b""
            (self.folder / name).write_bytes(b"".join([*lines[:count], half]))


def submitted(*arguments: str) -> str:
    """What ``spark-submit jobs/run.py`` prints."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("spark-submit")), "jobs/run.py", *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"SPARK_CONF_DIR": "conf", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(warehouse: Warehouse, table: Table) -> list[str]:
    """All rows, without what tells in which order they were read."""
    found = warehouse.rows(table, [NAME])
    return sorted(map(repr, found.drop_columns(_read_in(found.column_names)).to_pylist()))


def _read_in(names: list[str]) -> list[str]:
    return [name for name in names if name in ("source_file", "line_number")]


@pytest.mark.slow
def test_two_increments_and_the_end_give_the_tables_of_one_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = ArrivingLog(tmp_path / NAME)
    growing, whole = (Warehouse(tmp_path / name) for name in ("growing", "whole"))
    to_growing = (str(log.folder), "--warehouse", growing.path, *SETTINGS)

    for share in (0.15, 0.2):
        log.grow(share)
        printed = submitted(*to_growing, "--growing")
        assert f"replay {NAME} until 2026-11-20 20:4" in printed
        assert "hwm_parking, incremental_fetch, min_isr_acks, lowest_acked_offset" in printed
    log.grow(0.25, half_lines=False)
    printed = submitted(*to_growing, "--final")
    assert "seconds: start Spark" in printed

    assert run.main([str(log.folder), "--warehouse", whole.path, *SETTINGS]) == 0
    left_out = {INGESTED_FILES, LINEAGE, QUALITY_RESULTS, QUALITY_FAILURES}
    for table in TABLES.values():
        if table not in left_out:
            assert rows(growing, table) == rows(whole, table), table.name
    assert rows(growing, QUALITY_RESULTS)
