"""A damaged warehouse is one sentence with the way to go on, and nothing is written to it."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from put_rows import contents, put, row
from recorded_logs import folder_of

from kip_replay.jobs import recordings, run
from kip_replay.pipelines.warehouse import damage
from kip_replay.pipelines.warehouse.damage import DamagedTableError, require_readable, require_whole
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import REQUESTS
from kip_replay.replay.lowest_acked_offset.tables import HEARTBEAT_OUTCOMES
from kip_replay.replay.tables import LATENCY_SUMMARY

Failed = Callable[[Any], str]

FAILOVER = folder_of("failover-4.0")
ODD_NAME = "it's 100% \\ `odd`"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Three tables, of a recording with an odd name."""
    made = Warehouse(tmp_path / "warehouse")
    for table in (REQUESTS, HEARTBEAT_OUTCOMES, LATENCY_SUMMARY):
        put(made, table.name, {table: [row(table, ODD_NAME)]})
    return Path(made.path)


@pytest.fixture
def failed(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Any], str]:
    """Runs a job on the warehouse, which fails with one sentence; returns it."""

    def sentence(job: Any) -> str:
        named = [str(FAILOVER)] if job is run else ["list"]
        assert job.main([*named, "--warehouse", str(warehouse)]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        return str(line)

    return sentence


def commit_of(table: Path, version: int = 1) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def data_file_of(table: Path) -> Path:
    return sorted(table.glob("recording=*/*.parquet"))[0]


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def test_a_warehouse_that_nothing_happened_to_is_whole(warehouse: Path) -> None:
    require_whole(str(warehouse))
    require_whole(str(warehouse / "there-is-none"))
    (warehouse / "replay_state" / "_delta_log").mkdir(parents=True)  # of a table never begun
    require_whole(str(warehouse))


def first_commit_with(table: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    commit = commit_of(table)
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            edit(action["add"])
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))


def in_place_of(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("no folder")


def written_again(table: Path) -> None:
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table()
    deltalake.write_deltalake(str(table), rows, mode="append")


NO_LOG, ROWS = (
    "its log cannot be read (",
    "recording {name!r} has {n} rows in it where 1 were written: ",
)
NO_ROWS = ROWS.format(name=ODD_NAME, n=0)


@pytest.mark.parametrize("job", [run, recordings])
@pytest.mark.parametrize(
    ("name", "happens", "found"),
    [
        ("requests", lambda table: cut_in_half(commit_of(table)), NO_LOG),
        ("requests", lambda table: os.truncate(commit_of(table), 0), NO_ROWS),
        ("requests", lambda table: commit_of(table).write_text('{"commitInfo":{}}\n'), NO_ROWS),
        # A log without its last commit is a table as it was before, and no table is one too.
        ("requests", lambda table: commit_of(table).unlink(), NO_ROWS),
        ("requests", shutil.rmtree, NO_ROWS),
        ("latency_summary", lambda table: commit_of(table).rename(commit_of(table, 2)), NO_LOG),
        ("requests", lambda table: data_file_of(table).unlink(), "its file {file} is not there: "),
        (
            "requests",
            lambda table: cut_in_half(data_file_of(table)),
            "its file {file} has {half:,} bytes where {size:,} were written: ",
        ),
        ("requests", in_place_of, "{table} is no folder: "),
        ("requests", lambda table: in_place_of(table / "_delta_log"), "{table}/_delta_log is no f"),
        ("heartbeat_outcomes", written_again, ROWS.format(name=ODD_NAME, n=2)),
    ],
)
def test_a_table_that_is_damaged_stops_every_job(
    warehouse: Path,
    name: str,
    happens: Callable[[Path], object],
    found: str,
    job: Any,
    failed: Failed,
) -> None:
    table = warehouse / name
    file, way = (
        data_file_of(table),
        f"remove the folder {table} and run kip-replay run --rebuild on",
    )
    if name == "requests":
        way = "restore the warehouse from a copy, or run kip-replay run on the rec"
    size = file.stat().st_size
    happens(table)
    before = contents(warehouse)
    error = failed(job)
    expected = found.format(table=table, file=file, half=size // 2, size=size)
    assert f"the table {name} is damaged, {expected}" in error
    assert way in error
    assert contents(warehouse) == before


def test_a_checkpoint_that_cannot_be_read_is_found(warehouse: Path) -> None:
    deltalake.DeltaTable(str(warehouse / REQUESTS.name)).create_checkpoint()
    require_whole(str(warehouse))
    (checkpoint,) = (warehouse / REQUESTS.name / "_delta_log").glob("*.checkpoint.parquet")
    cut_in_half(checkpoint)
    with pytest.raises(DamagedTableError, match=r"its log cannot be read \(.*: restore the ware"):
        require_whole(str(warehouse))


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda add: add.update(partitionValues={}), "its log cannot be read ("),
        (lambda add: add.update(partitionValues={"recording": "other"}), "has 0 rows in it"),
        (lambda add: add.update(stats="garbage"), "has an unknown number of rows in it"),
        (lambda add: add.update(path="../../../../../../../../etc/passwd"), "its file "),
    ],
)
def test_an_action_that_was_edited_is_found(
    warehouse: Path, edit: Callable[[dict[str, Any]], object], found: str
) -> None:
    first_commit_with(warehouse / "requests", edit)
    with pytest.raises(DamagedTableError, match=f"requests is damaged, .*{re.escape(found)}"):
        require_whole(str(warehouse))


def test_a_step_that_another_job_writes_meanwhile_is_no_damage(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken the step out of lineage before it writes, but after lineage was read."""
    writing = Warehouse(warehouse).writing("requests", [ODD_NAME], [REQUESTS])
    read = damage._live_files

    def beside(path: str, table: Any, listed: Any) -> Any:
        if table is REQUESTS:
            writing.begin()
            writing.replace(REQUESTS, ())
        return read(path, table, listed)

    monkeypatch.setattr(damage, "_live_files", beside)
    require_whole(str(warehouse))


def flip_a_bit(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(bytes(content))


def test_bytes_that_were_changed_are_not_read(warehouse: Path) -> None:
    """One bit of the last byte of a page."""
    file = data_file_of(warehouse / "requests")
    column = pq.read_metadata(file).row_group(0).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    flip_a_bit(file, begin + column.total_compressed_size - 1)
    require_whole(str(warehouse))
    with pytest.raises(OSError, match="CRC"):
        Warehouse(warehouse).rows(REQUESTS, [ODD_NAME])
    with pytest.raises(DamagedTableError, match=r"its file .* cannot be read \(.*CRC.*\): restore"):
        require_readable(str(warehouse))


@pytest.mark.parametrize(
    ("alter", "found"),
    [
        (lambda ids: ids.cast("string"), "have node_id as string, not int32"),
        (lambda ids: pa.nulls(len(ids), ids.type), "have null in node_id, which is never null"),
        (None, '"node_id" does not exist in schema'),
    ],
)
def test_columns_that_are_not_the_tables_are_found_where_a_job_fails(
    warehouse: Path, alter: Callable[[Any], Any] | None, found: str
) -> None:
    file = data_file_of(warehouse / "requests")
    rows = pq.read_table(file, partitioning=None)
    ids, left = rows.column("node_id"), rows.drop_columns("node_id")
    pq.write_table(left.append_column("node_id", alter(ids)) if alter else left, file)
    size = file.stat().st_size
    first_commit_with(warehouse / "requests", lambda add: add.update(size=size))
    require_whole(str(warehouse))
    with pytest.raises(DamagedTableError, match=found):
        require_readable(str(warehouse))
