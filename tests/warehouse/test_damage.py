"""A damaged warehouse is one sentence with the way to go on, and nothing is written to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import deltalake
import pytest
from put_rows import contents, put, row, rows_of

from kip_replay.jobs import recordings, run
from kip_replay.pipelines.warehouse.damage import DamagedTableError, require_whole
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import REQUESTS
from kip_replay.replay.lowest_acked_offset.tables import HEARTBEAT_OUTCOMES
from kip_replay.replay.tables import LATENCY_SUMMARY

FAILOVER = Path(__file__).resolve().parents[1] / "recordings" / "failover-4.0"


ODD_NAME = "it's 100% \\ `odd`"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Three tables, of a recording with an odd name."""
    made = Warehouse(tmp_path / "warehouse")
    for table in (REQUESTS, HEARTBEAT_OUTCOMES, LATENCY_SUMMARY):
        put(made, table.name, {table: [row(table, ODD_NAME)]})
    return Path(made.path)


class Sentence(NamedTuple):
    """What a job said on stderr, and how it ended."""

    status: int
    text: str


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[int], Sentence]:
    def of(status: int) -> Sentence:
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("error: ")
        return Sentence(status, lines[0])

    return of


def commit_of(table: Path, version: int = 1) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def data_file_of(table: Path) -> Path:
    return sorted(table.glob("recording=*/*.parquet"))[0]


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def cut_to_its_first_line(file: Path) -> None:
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])


def cut_to_nothing(file: Path) -> None:
    file.write_bytes(b"")


def test_a_warehouse_that_nothing_happened_to_is_whole(warehouse: Path) -> None:
    require_whole(str(warehouse))
    require_whole(str(warehouse / "there-is-none"))
    require_whole("s3a://bucket/warehouse")


@pytest.mark.parametrize("cut", [cut_in_half, cut_to_its_first_line, cut_to_nothing])
@pytest.mark.parametrize("job", [run, recordings])
def test_a_commit_that_is_cut_short_stops_every_job(
    warehouse: Path,
    cut: Callable[[Path], None],
    job: object,
    said: Callable[[int], Sentence],
) -> None:
    commit = commit_of(warehouse / "requests")
    cut(commit)
    before = contents(warehouse)
    named = [str(FAILOVER)] if job is run else ["list"]
    error = said(job.main([*named, "--warehouse", str(warehouse)]))  # type: ignore[attr-defined]
    assert error.status == 1
    assert f"the table requests is damaged, its commit {commit} is cut short: " in error.text
    assert "restore the warehouse from a copy, or run kip-replay run on the rec" in error.text
    assert contents(warehouse) == before


def test_a_log_that_is_gone_is_missed(warehouse: Path, said: Callable[[int], Sentence]) -> None:
    shutil.rmtree(warehouse / "requests" / "_delta_log")
    (warehouse / "requests" / "_delta_log").mkdir()
    error = said(run.main([str(FAILOVER), "--warehouse", str(warehouse)]))
    assert error.status == 1
    assert "the table requests is damaged, its log cannot be read (" in error.text


def test_a_table_that_was_never_begun_is_not_damaged(warehouse: Path) -> None:
    (warehouse / "replay_state" / "_delta_log").mkdir(parents=True)
    require_whole(str(warehouse))


def test_a_commit_that_is_gone_is_missed(warehouse: Path, said: Callable[[int], Sentence]) -> None:
    table = warehouse / "latency_summary"
    commit_of(table).rename(commit_of(table, 2))
    before = contents(warehouse)
    error = said(run.main([str(FAILOVER), "--warehouse", str(warehouse)]))
    assert error.status == 1
    assert "the table latency_summary is damaged, its log cannot be read (" in error.text
    assert f"remove the folder {table} and run kip-replay run --rebuild on every rec" in error.text
    assert contents(warehouse) == before


def test_a_data_file_that_is_gone_is_missed(
    warehouse: Path, said: Callable[[int], Sentence]
) -> None:
    file = data_file_of(warehouse / "heartbeat_outcomes")
    file.unlink()
    error = said(run.main([str(FAILOVER), "--warehouse", str(warehouse)]))
    assert error.status == 1
    assert f"heartbeat_outcomes is damaged, its file {file} is not there: remove" in error.text


def test_a_data_file_that_is_cut_short_is_found(
    warehouse: Path, said: Callable[[int], Sentence]
) -> None:
    file = data_file_of(warehouse / "requests")
    size_bytes = file.stat().st_size
    cut_in_half(file)
    error = said(recordings.main(["list", "--warehouse", str(warehouse)]))
    assert error.status == 1
    assert f"has {size_bytes // 2:,} bytes where {size_bytes:,} were written" in error.text


def test_a_checkpoint_that_cannot_be_read_is_done_without(
    warehouse: Path, said: Callable[[int], Sentence], capsys: pytest.CaptureFixture[str]
) -> None:
    table = deltalake.DeltaTable(str(warehouse / REQUESTS.name))
    rows = rows_of(Warehouse(warehouse), REQUESTS)
    table.create_checkpoint()
    require_whole(str(warehouse))
    (checkpoint,) = (warehouse / REQUESTS.name / "_delta_log").glob("*.checkpoint.parquet")
    cut_in_half(checkpoint)
    last = checkpoint.with_name("_last_checkpoint")
    error = said(recordings.main(["list", "--warehouse", str(warehouse)]))
    assert error.status == 1
    assert f"its checkpoint {checkpoint} cannot be read: remove this file and {last}" in error.text

    checkpoint.unlink()
    last.unlink()
    assert recordings.main(["list", "--warehouse", str(warehouse)]) == 0
    assert ODD_NAME in capsys.readouterr().out
    assert rows_of(Warehouse(warehouse), REQUESTS) == rows


def test_a_checkpoint_that_the_commits_cannot_replace_is_not_removed(warehouse: Path) -> None:
    table = deltalake.DeltaTable(str(warehouse / REQUESTS.name))
    table.create_checkpoint()
    commit_of(warehouse / REQUESTS.name, 0).unlink()
    require_whole(str(warehouse))  # the checkpoint tells what it told
    (checkpoint,) = (warehouse / REQUESTS.name / "_delta_log").glob("*.checkpoint.parquet")
    cut_in_half(checkpoint)
    with pytest.raises(DamagedTableError, match=r"cannot be read: restore the warehouse from a"):
        require_whole(str(warehouse))


def test_a_commit_that_lost_some_of_its_files_is_found(warehouse: Path) -> None:
    commit = commit_of(warehouse / "requests")
    kept = [line for line in commit.read_text().splitlines() if "add" not in json.loads(line)]
    assert len(kept) == 2
    commit.write_text("\n".join(kept) + "\n")
    with pytest.raises(DamagedTableError, match="is cut short"):
        require_whole(str(warehouse))
