"""Tables made, committed to and set back without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from kip_replay.pipelines.warehouse import commits as delta_commits
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.schema import INGESTED_FILES, REJECTED_LINES, REQUESTS, Column, Table

AT = datetime(2026, 11, 20, 20, 0, 0, 1500, UTC)
ODD_NAME = "a b/ü%41'=?"


def requests(count: int, recording: str = "r", client_id: str = "c") -> pa.RecordBatch:
    rows = [
        {
            "recording": recording,
            "request_id": f"{number:032}",
            "node_id": number,
            "completed_at": AT + timedelta(seconds=number),
            "client_id": client_id,
        }
        for number in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=REQUESTS.arrow_schema)


def written(root: Path, rows: pa.RecordBatch, run: int = 1, table: Table = REQUESTS) -> DataFile:
    files = TableFiles(str(root), f"{delta_commits.file_name_of_run(run)}-00000")
    files.write(table, rows)
    (file,) = files.ended()
    return file


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / REQUESTS.name)
    delta_commits.create_table(path, REQUESTS, {"delta.columnMapping.mode": "none"})
    return path


def count_of(path: str) -> int:
    return int(deltalake.DeltaTable(path).to_pyarrow_table().num_rows)


def test_files_are_seen_once_they_are_committed(tmp_path: Path, path: str) -> None:
    files = [written(tmp_path, requests(3)), written(tmp_path, requests(2, ODD_NAME))]
    assert (count_of(path), delta_commits.run_of(path)) == (0, 0)
    delta_commits.commit(path, files, 7)
    assert (count_of(path), delta_commits.run_of(path)) == (5, 7)
    assert delta_commits.rows(path, [ODD_NAME]).column("request_id").to_pylist() == [
        f"{number:032}" for number in range(2)
    ]
    protocol = deltalake.DeltaTable(path).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


def test_statistics_are_deltas(tmp_path: Path) -> None:
    long = "c" * 33
    stats = json.loads(written(tmp_path, requests(3, client_id=long)).stats)
    assert stats["numRecords"] == 3
    # Times to the millisecond, outwards; a text cut, where that still says something.
    assert stats["minValues"]["completed_at"] == "2026-11-20T20:00:00.001Z"
    assert stats["maxValues"]["completed_at"] == "2026-11-20T20:00:02.002Z"
    assert stats["minValues"]["client_id"] == long[:32]
    assert "client_id" not in stats["maxValues"]
    assert (stats["minValues"]["node_id"], stats["maxValues"]["node_id"]) == (0, 2)
    assert stats["nullCount"]["api_key"] == 3
    assert "api_key" not in stats["minValues"]
    assert "recording" not in stats["nullCount"]


def test_spans_are_told_by_statistics(tmp_path: Path, path: str) -> None:
    assert delta_commits.spans(path) == []
    delta_commits.commit(path, [written(tmp_path, requests(3))], 1)
    (span,) = delta_commits.spans(path)
    first = int((AT - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    assert span == delta_commits.FileSpan("r", (0, 2), (first - 500, first + 2_000_500))


def test_a_run_can_be_undone_and_undone_again(tmp_path: Path, path: str) -> None:
    delta_commits.commit(path, [written(tmp_path, requests(3))], 1)
    delta_commits.commit(path, [written(tmp_path, requests(2, ODD_NAME), run=2)], 2)
    for _ in range(2):
        delta_commits.undo(path, 2)
        assert (count_of(path), delta_commits.run_of(path)) == (3, 2)
    version = deltalake.DeltaTable(path).version()
    delta_commits.undo(path, 3)
    assert deltalake.DeltaTable(path).version() == version


def test_a_large_group_of_rows_becomes_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kip_replay.pipelines.warehouse.data_files.FILE_BYTES_MAX", 1)
    monkeypatch.setattr("kip_replay.pipelines.warehouse.data_files._ROW_GROUP_ROWS", 2)
    files = TableFiles(str(tmp_path), "part")
    for _ in range(2):
        files.write(REQUESTS, requests(3))
    ended = files.ended()
    assert [file.rows for file in ended] == [3, 3]
    assert len({file.path for file in ended}) == 2


def test_a_table_of_an_older_version_gets_the_columns_it_lacks(tmp_path: Path) -> None:
    path, new = str(tmp_path / "t"), ("first_byte", "timezone")
    columns = tuple(column for column in INGESTED_FILES.columns if column.name not in new)
    old = Table("t", "old", columns, INGESTED_FILES.key)
    delta_commits.create_table(path, old, {})
    for _ in range(2):
        delta_commits.add_missing_columns(path, INGESTED_FILES)
    fields = deltalake.DeltaTable(path).schema().fields
    assert [field.name for field in fields] == [c.name for c in INGESTED_FILES.columns]
    assert deltalake.DeltaTable(path).version() == 1
    comments: dict[str, Column] = {column.name: column for column in INGESTED_FILES.columns}
    assert all(field.metadata["comment"] == comments[field.name].comment for field in fields)


def test_a_table_without_times_has_no_spans(tmp_path: Path) -> None:
    path = str(tmp_path / REJECTED_LINES.name)
    delta_commits.create_table(path, REJECTED_LINES, {})
    assert delta_commits.spans(path) == []
