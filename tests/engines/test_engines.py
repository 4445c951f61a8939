"""What engines read of tables: names exactly, checked bytes, only files of work that succeeded."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from put_rows import put, row

from kip_replay.pipelines.engines import Engine, Feed, Feeding, Steps, TableSlice
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.warehouse.data_files import TableFiles
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles, Requests, Topics

EngineOf = Callable[[Warehouse], Engine]

NAMES = ["it's 100% \\ `odd`", "a/b=c?", "ü 水", "007", "2024-01", "%41", "{x}[1]*"]
ALL = Text("SELECT recording, node_id FROM ingested_files")


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine_of(request: pytest.FixtureRequest) -> Callable[[Warehouse], Engine]:
    if request.param == "local":
        return Local
    request.getfixturevalue("spark")
    from pyspark.cloudpickle import register_pickle_by_value

    from kip_replay.pipelines.engines.spark import Spark

    register_pickle_by_value(sys.modules[__name__])  # workers do not find modules of tests
    return lambda warehouse: Spark(warehouse, 0)


@dataclass
class Numbered:
    """Writes a row per number; one that is 13 fails, after a file is on the disk."""

    files: TableFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> list[Any]:
        for number in (each for batch in batches for each in batch.column("id").to_pylist()):
            values = {"recording": NAMES[number % len(NAMES)], "node_id": number}
            values |= {"source_file": "f", "content_hash": "0"}
            rows = pa.RecordBatch.from_pylist([values], schema=IngestedFiles.arrow_schema)
            self.files.write(IngestedFiles, rows)
            if number == 13:
                self.files.closed()
                raise RuntimeError("lost")
        return self.files.closed()


def test_rows_come_back_under_their_names(
    engine_of: EngineOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(tmp_path / "it's a ware-house 1.x")
    engine, text = engine_of(warehouse), Text("SELECT id FROM numbers")

    def written(count: int) -> list[Any]:
        writing = warehouse.writing("ingest", NAMES, [IngestedFiles])
        numbers = {"numbers": pa.table({"id": range(count)})}
        work = Numbered(writing.files())
        found = engine.feed(Feed(work=work, text=text, recordings=[], key=["id"], inputs=numbers))
        files = [file for partition in found for file in partition]
        writing.begin()
        writing.append(IngestedFiles, files, writing.epochs)
        writing.end(dict.fromkeys(NAMES, "x"))
        return files

    files = written(13)
    assert sum(file.rows for file in files) == 13
    with pytest.raises(Exception, match="lost"):  # it commits nothing, but leaves files
        written(20)
    committed = {file["path"] for file in warehouse.files(IngestedFiles)}
    folder = Path(warehouse.uri_of(IngestedFiles))
    on_disk = {str(file.relative_to(folder)) for file in folder.glob("recording=*/*.parquet")}
    assert committed < on_disk
    assert len(committed) == len(NAMES)
    expected = sorted((NAMES[number % len(NAMES)], number) for number in range(13))
    for names, small_bytes in product((NAMES, ["ü 水"], ["%41"]), (1 << 20, 0)):
        # Small files are read once and kept, others scanned.
        monkeypatch.setattr("kip_replay.pipelines.warehouse.tables._SMALL_BYTES", small_bytes)
        mine = TableSlice(IngestedFiles, warehouse.files(IngestedFiles, names))
        for inputs in ({}, {IngestedFiles.name: mine}):
            # As a process that has not opened the table.
            engine = engine_of(Warehouse(warehouse.path))
            rows = [(*each.values(),) for each in engine.rows(ALL, names, inputs).to_pylist()]
            assert sorted(rows) == [each for each in expected if each[0] in names]


def fed(files: TableFiles, count: int) -> Feeding[int]:
    """Steps that write numbers one after another, and return how many rows came back."""
    numbers = {"numbers": pa.table({"id": range(count)})}
    text, how = Text("SELECT id FROM numbers"), {"key": ["id"], "spread": "id"}
    results = yield Feed(work=Numbered(files), text=text, recordings=[], inputs=numbers, **how)
    return sum(file.rows for partition in results for file in partition)


def test_steps_in_processes_beside_each_other(tmp_path: Path) -> None:
    engine, files = Local(Warehouse(tmp_path), cores=2), TableFiles(str(tmp_path), "part")
    steps = {f"{count}": fed(files, count) for count in (3, 5, 12)}
    returned = engine.beside(Steps(steps, 1_000_000, {"3": ["12"]}))
    assert returned == {"3": 3, "5": 5, "12": 12}
    assert [*returned][-1] == "3"
    # One that fails ends the others.
    with pytest.raises(RuntimeError, match="lost"):
        engine.beside(Steps({"7": fed(files, 7), "20": fed(files, 20)}, 1_000_000))
    ends_s = time.monotonic() + 10
    while active_children() and time.monotonic() < ends_s:  # the pool's own thread reaps them too
        time.sleep(0.05)
    assert not active_children()
    assert engine.beside(Steps({"3": fed(files, 3)}, 1_000_000)) == {"3": 3}


@dataclass
class Meets:
    """Makes a file, and waits for another one."""

    made: Path
    awaited: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> None:
        assert [*batches]
        self.made.touch()
        ends_s = time.monotonic() + 60
        while not self.awaited.exists():
            assert time.monotonic() < ends_s, f"nobody made {self.awaited}"
            time.sleep(0.02)


def test_what_follows_a_step_begins_when_that_has_ended(tmp_path: Path) -> None:
    def met(made: str, awaited: str) -> Feeding[None]:
        work = Meets(tmp_path / made, tmp_path / awaited)
        text, numbers = Text("SELECT id FROM numbers"), {"numbers": pa.table({"id": [1]})}
        yield Feed(work=work, text=text, recordings=[], key=["id"], inputs=numbers)

    steps = {"long": met("a", "c"), "first": met("b", "a"), "second": met("c", "b")}
    engine = Local(Warehouse(tmp_path), cores=2)
    assert {*engine.beside(Steps(steps, 1_000_000, {"second": ["first"]}))} == {*steps}


def test_of_what_is_recent_no_old_file_is_read(engine_of: EngineOf, tmp_path: Path) -> None:
    """Requests from a time on, whatever files they are in, what they led to a little later, and
    sums whole."""
    warehouse, begin = Warehouse(tmp_path), datetime(2026, 11, 20, 12, tzinfo=UTC)
    for minutes in ((-20, -10), (-5, 0, 5), (9, 10)):
        at = {f"{n}": begin + timedelta(minutes=n) for n in minutes}
        written = {
            table: [
                row(table, name, request_id=f"{n} {name}", **{str(table.time): at[n]})
                for n in at
                for name in ("it's", "other")
            ]
            for table in (Requests, Topics)
        }
        put(warehouse, "ingest", written)
    for file in tmp_path.glob("*/recording=it%27s/part-000001-*"):
        file.unlink()
    engine = engine_of(warehouse.since({"it's": begin}))
    text = Text(
        "SELECT request_id FROM requests UNION ALL SELECT 'topic ' || request_id FROM topics"
    )
    found = [each["request_id"] for each in engine.rows(text, ["it's"]).to_pylist()]
    recent = {f"{n} it's" for n in (0, 5, 9, 10)} | {f"topic {n} it's" for n in (5, 9, 10)}
    assert sorted(found) == sorted(recent)
    assert engine.rows(text, ["other"]).num_rows == 14
    whole = engine.on(warehouse.since({"other": begin}, [Topics]))
    assert whole.rows(text, ["other"]).num_rows == 4 + 7


def test_no_rows_are_a_table_all_the_same(engine_of: EngineOf, tmp_path: Path) -> None:
    rows = engine_of(Warehouse(tmp_path)).rows(ALL, ["r"])
    assert rows.column_names == ["recording", "node_id"]
    assert rows.num_rows == 0


@pytest.mark.parametrize("is_small", [True, False])
def test_bytes_that_were_changed_become_no_rows(
    engine_of: EngineOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    """``is_small``: files are read once and kept, or scanned."""
    monkeypatch.setattr("kip_replay.pipelines.warehouse.tables._SMALL_BYTES", is_small << 20)
    warehouse = Warehouse(tmp_path)
    put(warehouse, "ingest", {IngestedFiles: [row(IngestedFiles, "r", source_file="a" * 99)]})
    [file] = tmp_path.glob("ingested_files/recording=r/*.parquet")
    column = pq.read_metadata(file).row_group(0).column(2)
    end = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
    content = bytearray(file.read_bytes())
    content[end - 1] ^= 1
    file.write_bytes(content)
    with pytest.raises(Exception, match=r"page CRC|checksum|could not verify"):
        engine_of(warehouse).rows(Text("SELECT * FROM ingested_files"), ["r"])
