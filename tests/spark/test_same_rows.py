"""Both engines write the same rows, to the last digit, with every text run by Spark."""

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from recorded_logs import PLACES, folder_of

from kip_replay.jobs import run
from kip_replay.pipelines.replaying import basis
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import LOG_GAPS
from kip_replay.replay.tables import TABLES

#: Columns that say when a file was written, and which engine's state they are.
VOLATILE = {"committed_at", "state", "checksum", "fingerprint"}

#: Recordings of what another one has too, of other versions, delays or loads.
ALIKE = {"freeze-4.0", "freeze-4.3", "metadata-3.9", "metadata-4.0", "acks-varying"}
ALIKE |= {"acks-varying-open", "acks-varying-open-minisr", "acks-slow-follower"}


def run_on(engine: str, path: Path, folders: Sequence[Path], checks: bool) -> Warehouse:
    settings = ["--set", "spark.duckdb_bytes_max=0", "--set", f"quality.in_run={checks}".lower()]
    arguments = [*map(str, folders), "--warehouse", str(path), "--engine", engine, "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        if engine == "spark":  # swept values apart
            patch.setattr(basis, "_APART_REQUESTS_MIN", 0)
        assert run.main([*arguments, *settings]) == 0
    return Warehouse(path)


def assert_same(folders: Sequence[Path], path: Path, checks: bool) -> Warehouse:
    """Runs recordings on both engines; one of the warehouses."""
    local, spark = (run_on(name, path / name, folders, checks) for name in ("local", "spark"))
    for table in TABLES.values():
        columns = [name for name in table.arrow_schema.names if name not in VOLATILE]
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            for name, of in (("one", local), ("other", spark)):
                rows = of.rows(table, [folder.name for folder in folders])
                database.register(name, rows.select(columns))
            for left, right in (("one", "other"), ("other", "one")):
                found = database.sql(f"FROM {left} EXCEPT ALL FROM {right} LIMIT 1").fetchall()
                assert not found, (table.name, left, found)
    return local


@pytest.mark.usefixtures("spark")
def test_engines_write_the_same_rows(tmp_path: Path) -> None:
    """Every rule, both protocols of FETCH, a leader that changes, logs that lack lines."""
    cut = shutil.copytree(folder_of("failover-4.0"), tmp_path / "failover-4.0")
    for log in ("broker-11.log.gz", "controller-2.log.gz"):
        lines = gzip.decompress((cut / log).read_bytes()).splitlines(keepends=True)
        (cut / log).write_bytes(gzip.compress(b"".join([*lines[:260], *lines[300:]])))
    for log in ("broker-13.log.gz", "controller-3.log.gz"):
        (cut / log).write_bytes(gzip.compress(b""))
    folders = [folder_of("acks-slow-follower"), folder_of("sessions-on"), cut]
    # Texts of checks are translated in tests/engines, and their rows compared in the slow test.
    warehouse = assert_same(folders, tmp_path, checks=False)
    gaps = warehouse.rows(LOG_GAPS, [cut.name]).to_pylist()
    assert {gap["node_id"] for gap in gaps} == {2, 11, 13}
    assert {gap["node_id"] for gap in gaps if gap["evidence"] == "logger_off"} == {13}


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("part", range(5))
def test_engines_write_the_same_rows_of_every_kind(tmp_path: Path, part: int) -> None:
    """In parts that take minutes; recordings of one seed stay together: they predict each other."""
    manifests = sorted(path for place in PLACES for path in place.glob("*/recording.json"))
    manifests = [path for path in manifests if path.parent.name not in ALIKE]
    seeds = {path.parent: json.loads(path.read_text()).get("seed", 0) for path in manifests}
    assert_same([f for f, seed in seeds.items() if seed % 5 == part], tmp_path, checks=True)
