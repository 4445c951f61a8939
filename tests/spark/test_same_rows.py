"""Both engines write the same rows, to the last digit, with every text run by Spark."""

import gzip
import shutil
from pathlib import Path

import pytest
from same_rows import differing
from small_logs import folder_of

from kip_replay.jobs import run
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import LogGaps


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_engines_write_the_same_rows(tmp_path: Path) -> None:
    """Every rule, acks of all kinds, consumers of other zones, a leader that changes, gaps.

    ``make docs`` compares the samples, of which Spark runs what is large.
    """
    cut = shutil.copytree(folder_of("failover-4.0"), tmp_path / "failover-4.0")
    for log in ("broker-11.log.gz", "controller-2.log.gz"):
        lines = gzip.decompress((cut / log).read_bytes()).splitlines(keepends=True)
        (cut / log).write_bytes(gzip.compress(b"".join([*lines[:260], *lines[300:]])))
    for log in ("broker-13.log.gz", "controller-3.log.gz"):
        (cut / log).write_bytes(gzip.compress(b""))
    folders = [folder_of("acks-not-enough"), folder_of("racks-aware"), cut]
    found = {}
    for engine in ("local", "spark"):
        found[engine] = Warehouse(tmp_path / engine)
        where = ["--warehouse", found[engine].path, "--engine", engine, "--quiet"]
        settings = ["--set", "spark.duckdb_bytes_max=0"]
        # A critical check says that lines are missing.
        assert run.main([*map(str, folders), *where, *settings]) == 3
    names = [folder.name for folder in folders]
    assert [*differing(found["local"], found["spark"], names)] == []
    gaps = found["spark"].rows(LogGaps, [cut.name]).to_pylist()
    assert {gap["node_id"] for gap in gaps} == {2, 11, 13}
    assert {gap["node_id"] for gap in gaps if gap["evidence"] == "logger_off"} == {13}
