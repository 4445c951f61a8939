"""Ingest: every line once, whatever the files look like and wherever the last run was killed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from small_logs import BROKER, CONTROLLER, lines_of, plain, stamped, write_recording

import kip_replay.pipelines.ingest.overlaps
import kip_replay.pipelines.ingest.parse_range
import kip_replay.pipelines.ingest.parse_task
import kip_replay.pipelines.ingest.step
from kip_replay.jobs.ingest import main
from kip_replay.pipelines.errors import IngestError, UserError, WriteConflictError
from kip_replay.pipelines.ingest.log_files import LogFile, find_log_files
from kip_replay.pipelines.ingest.parse_range import ParsedRange, parse_range
from kip_replay.pipelines.ingest.parse_task import tasks_of
from kip_replay.pipelines.ingest.recording import RecordingOptions, load_recording
from kip_replay.pipelines.ingest.step import IngestSettings, LinesRead, ingest
from kip_replay.pipelines.ingest.survey import Survey, survey
from kip_replay.pipelines.warehouse import commits as delta_commits
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import (
    CONFIGS,
    FETCHES,
    INGESTED_FILES,
    LOG_TABLES,
    REJECTED_LINES,
    REQUESTS,
    Table,
)

GROWING = IngestSettings(final=False)
LINES = len(lines_of(CONTROLLER)) + len(lines_of(BROKER))
Row = tuple[Any, ...]


def rows_of(
    warehouse: Warehouse, table: Table, recording: str, without: tuple[str, ...] = ()
) -> list[Row]:
    """A recording's rows in a table, sorted, less its name and other columns."""
    rows = _by_delta_rs(warehouse, table).filter(pc.field("recording") == recording)
    left = rows.drop_columns(["recording", *(set(without) & set(rows.column_names))])
    return sorted((tuple(row.values()) for row in left.to_pylist()), key=repr)


def _by_delta_rs(warehouse: Warehouse, table: Table) -> pa.Table:
    """Read without Spark: a tenth of the time, and a second opinion."""
    return deltalake.DeltaTable(warehouse.uri_of(table)).to_pyarrow_table()


def contents(warehouse: Warehouse, recording: str, places: bool = False) -> dict[str, list[Row]]:
    """All log tables of a recording; ``places`` also compares files and line numbers."""
    tables = LOG_TABLES if places else LOG_TABLES[1:]
    without = () if places else ("source_file", "line_number")
    return {table.name: rows_of(warehouse, table, recording, without) for table in tables}


def quiet(_: str) -> None:
    """Says nothing."""


class Ingested:
    """One run over recordings of every kind, shared by the tests below: Spark is slow to start."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.warehouse = Warehouse(folder / "warehouse")
        self.said: list[str] = []
        self.recordings = {r.name: r for r in _recordings(folder)}
        recordings = [*self.recordings.values()]
        read = ingest(recordings, self.warehouse, say=self.said.append)
        self.read: dict[str, LinesRead] = {lines.recording: lines for lines in read}

    def contents(self, recording: str) -> dict[str, list[Row]]:
        return contents(self.warehouse, recording)

    def completed_at(self, recording: str) -> list[str]:
        rows = self.warehouse.read(REQUESTS, {"recording": recording}).orderBy("line_number")
        stamps = rows.select("completed_at").toArrow().column(0).to_pylist()
        return [f"{stamp:%H:%M}" for stamp in stamps]


def _recordings(folder: Path) -> Iterator[Any]:
    controller, broker = {2: "controller-2.log"}, {11: "broker-11.log"}
    both = {"controller-2.log": CONTROLLER, "broker-11.log": BROKER}
    head, tail = lines_of(CONTROLLER)[:15], lines_of(CONTROLLER)[15:]

    yield plain(folder / "plain")
    yield write_recording(
        folder / "gzip",
        {
            "c.log.gz": CONTROLLER,
            "b.log": gzip.compress(BROKER[:999]) + gzip.compress(BROKER[999:]),
        },
        {2: "c.log.gz", 11: "b.log"},  # the name does not tell what is compressed
    )
    yield write_recording(
        folder / "rotated",
        {
            "kafka-request.log.2026-11-20-20.gz": b"".join(head),
            "kafka-request.log": b"".join(tail),
            "kafka-request.log.2026-11-20-21": b"",
            "server.log": b"[2026-11-20 20:36:00,000] INFO hello (kafka.server)\n",
            "broker-11.log": BROKER,
        },
        {2: ".", 11: ["broker-*.log"]},
    )
    crlf = {name: log.replace(b"\n", b"\r\n") for name, log in both.items()}
    yield write_recording(folder / "crlf", crlf, controller | broker)
    yield write_recording(
        folder / "repeated",
        {"controller-2.log": CONTROLLER, "b.log": BROKER + BROKER, "b.log.1": BROKER[:-1]},
        controller | {11: "b.log*"},
    )
    yield write_recording(
        folder / "half-gzip",
        {"c.log.gz": gzip.compress(CONTROLLER)[:4000], "broker-11.log": BROKER},
        {2: "c.log.gz"} | broker,
    )
    garbage = bytes(range(256)) * 40 + b"\n\n\n" + BROKER + b"\0\0\0"
    yield write_recording(
        folder / "garbage", both | {"broker-11.log": garbage}, controller | broker
    )
    autumn = stamped(
        "2026-10-25 01:59:59,000",
        "2026-10-25 02:10:00,000",
        "2026-10-25 02:59:59,000",
        "2026-10-25 02:00:00,100",
        "2026-10-25 02:59:59,900",
        "2026-10-25 03:00:00,000",
    )
    yield write_recording(
        folder / "autumn", {"c.log": autumn}, {2: "c.log"}, timezone="Europe/Berlin"
    )
    spring = stamped(
        "2026-03-29 01:59:59,999", "2026-03-29 02:30:00,000", "2026-03-29 03:00:00,000"
    )
    yield write_recording(
        folder / "spring", {"c.log": spring}, {2: "c.log"}, timezone="Europe/Berlin"
    )
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "c.log").write_bytes(CONTROLLER)
    (elsewhere / "b.log").write_bytes(BROKER)
    nodes = (f"2={elsewhere}/c*", f"11={elsewhere}/b.log")
    options = RecordingOptions(nodes, name="options", timezone="UTC", voters=(2,))
    yield load_recording(None, options)


@pytest.fixture(scope="module")
def ingested(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    return Ingested(spark, tmp_path_factory.mktemp("ingest"))


def test_every_line_of_a_plain_log_becomes_a_request(ingested: Ingested) -> None:
    tables = ingested.contents("plain")
    assert len(tables["requests"]) == LINES
    assert tables["rejected_lines"] == []
    assert [name for name, rows in tables.items() if not rows] == ["rejected_lines"]
    assert f"ingest plain: lines read {LINES} = requests {LINES} + rejected 0 + repeated 0" in (
        ingested.said
    )


@pytest.mark.parametrize("variant", ["gzip", "rotated", "crlf", "repeated", "options"])
def test_the_same_lines_give_the_same_rows_however_they_are_packed(
    ingested: Ingested, variant: str
) -> None:
    assert ingested.contents(variant) == ingested.contents("plain")


def test_lines_read_are_requests_rejected_and_repeated_in_every_file(ingested: Ingested) -> None:
    files = ingested.warehouse.read(INGESTED_FILES).collect()
    assert {row["recording"] for row in files} == set(ingested.recordings)
    for row in files:
        assert row["lines_read"] == row["requests"] + row["rejected"] + row["repeated"], row
    for name, lines in ingested.read.items():
        mine = [row for row in files if row["recording"] == name]
        assert lines.lines_read == sum(row["lines_read"] for row in mine)
        tables = ingested.contents(name)
        assert lines.requests == len(tables["requests"])
        assert lines.rejected == len(tables["rejected_lines"])


def test_source_file_is_the_name_within_the_recording(ingested: Ingested) -> None:
    def files(recording: str) -> set[str]:
        rows = ingested.warehouse.read(INGESTED_FILES, {"recording": recording}).collect()
        return {row["source_file"] for row in rows}

    assert files("rotated") == {
        "broker-11.log",
        "kafka-request.log",
        "kafka-request.log.2026-11-20-20.gz",
        "kafka-request.log.2026-11-20-21",
    }
    assert files("options") == {"b.log", "c.log"}


def test_of_repeated_lines_the_least_file_and_line_number_stay(ingested: Ingested) -> None:
    brokers = len(lines_of(BROKER))
    rows = ingested.warehouse.read(REQUESTS, {"recording": "repeated", "node_id": 11}).collect()
    assert {row["source_file"] for row in rows} == {"b.log"}
    assert sorted(row["line_number"] for row in rows) == [*range(1, brokers + 1)]
    files = ingested.warehouse.read(INGESTED_FILES, {"recording": "repeated"}).collect()
    repeated = {row["source_file"]: row["repeated"] for row in files}
    assert repeated == {"controller-2.log": 0, "b.log": brokers, "b.log.1": brokers}


def test_of_half_a_gzip_stream_what_can_be_read_is(ingested: Ingested) -> None:
    half, whole = ingested.contents("half-gzip"), ingested.contents("plain")
    assert 0 < len(half["requests"]) < LINES
    assert set(half["requests"]) < set(whole["requests"])
    assert [row[2] for row in half["rejected_lines"]] == ["truncated"]
    warnings = [said for said in ingested.said if said.startswith("warning")]
    assert any("c.log.gz" in w and "in the middle of its gzip stream" in w for w in warnings)
    assert warnings == [f"warning: {w}" for w in ingested.read["half-gzip"].warnings]


def test_binary_garbage_is_rejected_and_nothing_else_is(ingested: Ingested) -> None:
    garbage, whole = ingested.contents("garbage"), ingested.contents("plain")
    assert garbage["requests"] == whole["requests"]
    reasons = {row[2] for row in garbage["rejected_lines"]}
    assert {"blank", "not_a_request_line"} <= reasons
    # Of 40 times 256 byte values (LF among them) copies repeat; blank lines too.
    lines = ingested.read["garbage"]
    assert lines.repeated > 0
    assert lines.lines_read == LINES + lines.rejected + lines.repeated


def test_an_hour_that_occurs_twice_is_told_apart(ingested: Ingested) -> None:
    assert ingested.completed_at("autumn") == ["23:59", "00:10", "00:59", "01:00", "01:59", "02:00"]


def test_an_hour_that_never_occurs_is_rejected(ingested: Ingested) -> None:
    assert ingested.completed_at("spring") == ["00:59", "01:00"]
    rejected = ingested.contents("spring")["rejected_lines"]
    assert [row[2] for row in rejected] == ["stamp_not_in_time_zone"]


def test_deltalake_reads_what_spark_reads(ingested: Ingested) -> None:
    for table in (INGESTED_FILES, REQUESTS, FETCHES, CONFIGS):
        spark_rows = ingested.warehouse.read(table).toArrow()
        other = _by_delta_rs(ingested.warehouse, table)
        assert other.schema.names == table.arrow_schema.names
        assert _sorted(other) == _sorted(spark_rows)


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def test_partitions_and_byte_ranges_change_nothing(
    spark: SparkSession, ingested: Ingested, tmp_path: Path
) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    names = ("plain", "repeated", "garbage")
    recordings = [ingested.recordings[name] for name in names]
    settings = IngestSettings(final=True, range_bytes=10_000, tasks=7, survey_on_driver_bytes_max=0)
    read = ingest(recordings, warehouse, settings, quiet)
    assert read == [ingested.read[name] for name in names]
    for name in names:
        assert contents(warehouse, name, places=True) == contents(
            ingested.warehouse, name, places=True
        )


def test_repeated_lines_of_one_task_stay_once(
    spark: SparkSession, ingested: Ingested, tmp_path: Path
) -> None:
    """Too far apart for the task to see: Spark finds them, and the files are written anew."""
    warehouse = Warehouse(tmp_path / "warehouse")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kip_replay.pipelines.ingest.parse_range, "_BATCH_LINES", 10)
        for module in (
            kip_replay.pipelines.ingest.parse_task,
            kip_replay.pipelines.ingest.overlaps,
        ):
            patch.setattr(module, "COMPARED_BATCHES", 0)
        for name in ("repeated", "garbage"):
            (read,) = ingest([ingested.recordings[name]], warehouse, say=quiet)
            assert read == ingested.read[name]
    for name in ("repeated", "garbage"):
        assert contents(warehouse, name, places=True) == contents(
            ingested.warehouse, name, places=True
        )


def test_a_file_says_what_it_can_hold_so_that_spark_need_not_open_it(ingested: Ingested) -> None:
    requests = ingested.warehouse.read(REQUESTS, {"recording": "plain"})
    low, high = requests.selectExpr("min(completed_at)", "max(completed_at)").collect()[0]
    (file,) = [
        file
        for file in delta_commits.spans(ingested.warehouse.uri_of(REQUESTS))
        if file.recording == "plain"
    ]
    first, last = (int(at.replace(tzinfo=UTC).timestamp() * 1e6) for at in (low, high))
    assert file.node_ids == (2, 11)
    assert first - 1000 < file.span_us[0] <= first
    assert last <= file.span_us[1] < last + 1000
    assert requests.filter(f"completed_at >= '{high}'").count() == 1
    assert requests.filter(f"completed_at > '{high}'").count() == 0


@pytest.mark.parametrize("range_bytes", [1, 10_000])
def test_ranges_cover_every_line_once(ingested: Ingested, range_bytes: int) -> None:
    for file in find_log_files(ingested.recordings["garbage"]):
        whole, cut = survey(file), survey(file, range_bytes)
        assert replace(cut, ranges=whole.ranges) == whole
        assert len(cut.ranges) > len(whole.ranges)
        assert _rows(cut) == _rows(whole)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_tasks_parse_every_line_once(ingested: Ingested, count: int) -> None:
    surveys = [survey(file, 10_000) for file in find_log_files(ingested.recordings["garbage"])]
    ranges = [ParsedRange.of(of_file, r) for of_file in surveys for r in of_file.ranges]
    tasks = tasks_of(ranges, count, "part", "warehouse", 1 << 20)
    assert len(tasks) == count
    parts = [part for task in tasks for part in task.ranges]
    # Neighbours in a file are read in one go.
    assert len(parts) <= len(surveys) + count - 1
    parsed = pa.Table.from_batches([b for part in parts for b in parse_range(part)])
    assert _sorted(parsed) == sorted(repr(row) for of_file in surveys for row in _rows(of_file))


def _rows(of_file: Survey) -> list[dict[str, Any]]:
    batches = [b for r in of_file.ranges for b in parse_range(ParsedRange.of(of_file, r))]
    return list(pa.Table.from_batches(batches).to_pylist())


def test_a_file_that_is_in_is_not_read_again(spark: SparkSession, ingested: Ingested) -> None:
    def never(*_: object) -> None:
        raise AssertionError("parsed again")

    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kip_replay.pipelines.ingest.step, "parse_or_error", never)
        recording = ingested.recordings["plain"]
        (read,) = ingest([recording], ingested.warehouse, say=said.append)
    assert (read.files_read, read.files_known, read.lines_read) == (0, 2, 0)
    assert said == [
        "ingest plain: 2 files known already",
        "ingest plain: lines read 0 = requests 0 + rejected 0 + repeated 0",
    ]


def test_the_same_lines_later_are_known_by_content_or_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also where the zone was corrected meanwhile, and where lines stand elsewhere in a file."""
    folder, warehouse = tmp_path / "growing", Warehouse(tmp_path / "warehouse")
    lines, new = (
        stamped(*(f"2026-11-20 20:{m}:00,000" for m in ms)) for ms in (range(10, 50), [59])
    )
    bad, logs = b"not a line of ours\n", {2: "c.log*"}
    first = write_recording(folder, {"c.log": lines + bad}, logs)
    ingest([first], warehouse, say=quiet)
    before = contents(warehouse, "growing")
    (folder / "c.log").rename(folder / "c.log.1")
    second = write_recording(folder, {"c.log.0": bad + lines + new}, logs, timezone="Asia/Tokyo")
    (read,) = ingest([second], warehouse, say=quiet)
    assert (read.files_read, read.files_known) == (1, 1)
    assert (read.requests, read.rejected, read.repeated) == (1, 0, 41)
    after = contents(warehouse, "growing")
    assert after["rejected_lines"] == before["rejected_lines"]
    assert set(before["requests"]) < set(after["requests"])
    assert len(after["requests"]) == 41
    rows = warehouse.read(REQUESTS).filter("source_file = 'c.log'").collect()
    assert sorted(row["line_number"] for row in rows) == [*range(1, 41)]


def test_a_log_read_while_it_grows_and_rotates_gives_what_it_gives_at_once(
    spark: SparkSession, ingested: Ingested, tmp_path: Path
) -> None:
    warehouse, folder = Warehouse(tmp_path / "warehouse"), tmp_path / "plain"
    nodes = {2: "c.log*", 11: "b.log*"}
    reads = []
    for logs in (
        {"c.log": CONTROLLER[:9000], "b.log": BROKER[:7000]},
        {"c.log": CONTROLLER[:30000], "b.log": BROKER[:20000]},
        # Rotated in between, the older one compressed.
        {"c.log.1.gz": gzip.compress(CONTROLLER), "c.log": b"", "b.log.1": BROKER, "b.log": b""},
    ):
        for old in folder.glob("*log*"):
            old.unlink()
        recording = write_recording(folder, logs, nodes)
        reads += ingest([recording], warehouse, GROWING, quiet)
    assert [read.bytes_read > 0 for read in reads] == [True] * 3
    assert sum(read.bytes_read for read in reads) == len(CONTROLLER) + len(BROKER)
    assert sum(read.lines_read for read in reads) == sum(read.requests for read in reads) == LINES
    assert contents(warehouse, "plain") == ingested.contents("plain")
    numbers = warehouse.read(REQUESTS, {"node_id": 2}).select("line_number").toArrow()
    assert sorted(numbers.column(0).to_pylist()) == [*range(1, len(lines_of(CONTROLLER)) + 1)]
    (again,) = ingest([recording], warehouse, GROWING, quiet)
    assert (again.files_read, again.lines_read) == (0, 0)


class Killed(Exception):
    """Stands for a process that ends between two transactions."""


def _kill_after(commits: int, patch: pytest.MonkeyPatch) -> None:
    """Lets so many tables be committed, and nothing after them."""
    left = [commits]
    commit = delta_commits.commit

    def guarded(*args: Any) -> None:
        if left[0] <= 0:
            raise Killed
        left[0] -= 1
        commit(*args)

    patch.setattr(delta_commits, "commit", guarded)


def test_what_a_killed_run_left_is_taken_out_before_the_next_reads(
    spark: SparkSession, ingested: Ingested, tmp_path: Path
) -> None:
    """Killed early, killed with only the books missing, then let through with one file more."""
    warehouse = Warehouse(tmp_path / "warehouse")
    recording = ingested.recordings["garbage"]
    ingest([ingested.recordings["spring"]], warehouse, say=quiet)
    for commits in (3, len(LOG_TABLES) - 1):
        with pytest.MonkeyPatch.context() as patch:
            _kill_after(commits, patch)
            with pytest.raises(Killed):
                ingest([recording], warehouse, say=quiet)
        assert rows_of(warehouse, INGESTED_FILES, "garbage") == []
    assert len(rows_of(warehouse, REQUESTS, "garbage")) == LINES
    autumn = ingested.recordings["autumn"]
    assert ingest([autumn], warehouse, say=quiet) == [ingested.read["autumn"]]
    assert rows_of(warehouse, REQUESTS, "garbage") == []
    assert ingest([recording], warehouse, say=quiet) == [ingested.read["garbage"]]
    for name in ("spring", "autumn", "garbage"):
        assert contents(warehouse, name, places=True) == contents(
            ingested.warehouse, name, places=True
        )


def test_lines_that_get_lost_stop_the_run_before_anything_is_written(
    spark: SparkSession, ingested: Ingested, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_more(file: LogFile, **_: Any) -> Survey:
        of_file = survey(file)
        return replace(of_file, lines=of_file.lines + 1)

    warehouse = Warehouse(tmp_path / "warehouse")
    monkeypatch.setattr(kip_replay.pipelines.ingest.step, "survey_or_error", one_more)
    with pytest.raises(IngestError, match=r"controller-2\.log .* had 41 lines .* 40 requests"):
        ingest([ingested.recordings["plain"]], warehouse, say=quiet)
    assert all(warehouse.read(table).isEmpty() for table in (REQUESTS, REJECTED_LINES))


def test_a_second_ingest_at_the_same_time_is_kept_out(
    spark: SparkSession, ingested: Ingested
) -> None:
    with (
        ingested.warehouse.exclusively("ingest"),
        pytest.raises(WriteConflictError, match="another ingest"),
    ):
        ingest([ingested.recordings["plain"]], ingested.warehouse, say=quiet)


def test_a_recording_that_cannot_be_read_leaves_no_trace(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    recording = write_recording(
        tmp_path / "empty", {"c.log": b"", "b.log": BROKER}, {2: "c.log", 11: "b.log"}
    )
    with pytest.raises(UserError, match=r"log of node 2 .* \(c\.log\) is empty"):
        ingest([recording], warehouse, say=quiet)
    assert not Path(warehouse.path).exists()


def test_the_job_says_what_it_read_and_ends_with_a_status(
    spark: SparkSession, ingested: Ingested, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, warehouse = str(ingested.recordings["spring"].path), str(tmp_path / "warehouse")
    assert main([folder, "--warehouse", warehouse]) == 3
    out = capsys.readouterr().out
    assert "lines read 3 = requests 2 + rejected 1 + repeated 0" in out
    assert "33.3% of the lines of spring could not be read, more than 1.0%" in out
    manifest = Path(folder) / "recording.json"
    wrong = json.loads(manifest.read_text()) | {"timezone": "Europe/Atlantis"}
    (tmp_path / "recording.json").write_text(json.dumps(wrong))
    assert main([str(tmp_path), "--warehouse", warehouse]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: node 2 of recording 'spring' has an unknown time zone")
    assert error.count("\n") == 1
