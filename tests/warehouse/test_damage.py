"""A damaged table is one sentence: which folder, what is wrong with it, and the way to go on."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from put_rows import assert_same, contents, put, row
from ran import made_once
from small_logs import folder_of

from kip_replay.jobs import run
from kip_replay.jobs._failures import known_cause
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import Requests
from kip_replay.replay.tables import LatencySummary

Damage = Callable[[Path], object]

FAILOVER = str(folder_of("failover-4.0"))
ODD_NAME = "it's 100% \\ `odd`"


def last_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def data_file(table: Path) -> Path:
    return max(table.glob("recording=*/*.parquet"), key=lambda file: file.stat().st_mtime)


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip_a_bit(file: Path) -> None:
    """One of the last byte of a page."""
    column = pq.read_metadata(file).row_group(0).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(file.read_bytes())
    content[begin + column.total_compressed_size - 1] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("name", ["requests", "latency_summary"])
@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (lambda table: cut_in_half(last_commit(table)), "Json error"),
        (
            lambda table: last_commit(table).rename(table / "_delta_log/00000000000000000007.json"),
            "gap",
        ),
        (lambda table: data_file(table).unlink(), "No such file"),
        (lambda table: cut_in_half(data_file(table)), "magic bytes"),
        (lambda table: flip_a_bit(data_file(table)), "CRC"),
    ],
)
def test_the_folder_is_named(happens: Damage, reason: str, name: str, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for table in (Requests, LatencySummary) * 2:
        put(warehouse, table.name, {table: [row(table, ODD_NAME)]})
    folder = Path(warehouse.path, name)
    happens(folder)
    before = contents(warehouse.path)
    said = known_cause(RuntimeError("what a job fails with"), warehouse.path)
    assert said is not None
    assert said.startswith(f"{folder} cannot be read (")
    assert reason in said
    way = f"remove the folder {folder} and run kip-replay run --rebuild on every recording"
    if name == "requests":
        way = "delete the folder of this warehouse"
    assert f"): {way}" in said
    assert contents(warehouse.path) == before


def _run(path: Path) -> None:
    assert run.main([FAILOVER, "--quiet", "--warehouse", str(path)]) == 0


def files_of_what_follows(warehouse: Path) -> None:
    data_file(warehouse / "heartbeat_outcomes").unlink()
    cut_in_half(data_file(warehouse / "fetch_session_outcomes"))
    flip_a_bit(data_file(warehouse / "latency_summary"))


def logs_of_tables(warehouse: Path) -> None:
    for name in ("lineage", "metadata_write_outcomes", "quality_results"):
        cut_in_half(last_commit(warehouse / name))


@pytest.mark.parametrize(
    ("happens", "removed"),
    [
        (files_of_what_follows, []),
        (logs_of_tables, ["lineage", "metadata_write_outcomes", "quality_results"]),
    ],
)
def test_what_was_damaged_is_written_anew(
    happens: Damage,
    removed: list[str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each sentence names a folder; once those are removed, nothing but the logs is needed."""
    whole = made_once(tmp_path_factory, "failover-4.0-run", _run)
    warehouse = Path(shutil.copytree(whole, tmp_path / "warehouse"))
    happens(warehouse)
    named = []
    while (status := run.main([FAILOVER, "--rebuild", "--warehouse", str(warehouse)])) == 1:
        [folder] = re.findall("remove the folder (.*) and run", capsys.readouterr().err)
        shutil.rmtree(folder)
        named.append(Path(folder).name)
    assert (status, sorted(named)) == (0, removed)
    assert_same(whole, warehouse)
