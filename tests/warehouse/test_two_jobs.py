"""A warehouse of an older or newer version, several jobs at once, a full disk."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from old_warehouse import contents, first_release
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from small_logs import BROKER, CONTROLLER, lines_of, plain, write_recording

from kip_replay.jobs import ingest, recordings, run
from kip_replay.pipelines.session import spark_session
from kip_replay.pipelines.warehouse import commits as delta_commits
from kip_replay.pipelines.warehouse.damage import require_whole
from kip_replay.pipelines.warehouse.data_files import stats_columns
from kip_replay.pipelines.warehouse.schema_evolution import Difference
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import (
    CLIENT_OBSERVATIONS,
    HEARTBEAT_OUTCOMES,
    INGESTED_FILES,
    LATENCY_SUMMARY,
    LOG_TABLES,
    QUALITY_FAILURES,
    QUALITY_RESULTS,
    TABLES,
    Column,
    Table,
)

Ended: TypeAlias = subprocess.CompletedProcess[str]
REPOSITORY = Path(__file__).resolve().parents[2]
FAILOVER = REPOSITORY / "tests" / "recordings" / "failover-4.0"
#: Where a line was read, and which files told it: a log read in two pieces says it in two rows.
_OF_FILES = ("source_file", "line_number")
#: How often each of two processes writes its own and the shared rows.
WRITES = 2


def rows(warehouse: Path, table: Table, recording: str) -> pa.Table:
    """A recording's rows, sorted by key; of pairs, its own with itself."""
    there = deltalake.DeltaTable(str(warehouse / table.name)).to_pyarrow_table()
    kept = pc.field("recording") == recording
    if "recorded_in" in there.column_names:
        kept &= pc.field("recorded_in") == recording
    names = [column.name for column in table.columns if column.name not in _OF_FILES]
    keys = [(name, "ascending") for name in table.key if name in names]
    return there.filter(kept).select(names).sort_by(keys)


def version(warehouse: Path, table: Table) -> int:
    return deltalake.DeltaTable(str(warehouse / table.name)).version()


# --- other versions of this program ---------------------------------------------------------------


def test_an_older_table_is_read_with_the_columns_of_today(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = first_release(tmp_path / "warehouse")
    before = contents(path)
    read = Warehouse(path).read(INGESTED_FILES)
    assert read.columns == [column.name for column in INGESTED_FILES.columns]
    assert [row["timezone"] for row in read.collect()] == [None] * 6
    assert contents(path) == before


@pytest.mark.slow
def test_the_first_release_is_gone_on_with(
    spark: SparkSession, finished: Warehouse, tmp_path: Path
) -> None:
    """Its logs have grown since: what is new is read, and everything replayed by today's rules."""
    path = first_release(tmp_path / "warehouse")
    warehouse = Warehouse(path)
    options = ["--warehouse", str(path), "--set", "quality.in_run=false"]
    assert run.main([str(FAILOVER), *options]) == 0

    sizes = [
        (row["first_byte"], row["bytes_read"]) for row in warehouse.read(INGESTED_FILES).collect()
    ]
    assert len(sizes) == 12  # what the first release has read of each file, and what came after
    assert sum(first_byte is not None and first_byte > 0 for first_byte, _ in sizes) == 6
    there = [table for table in TABLES.values() if (path / table.name).is_dir()]
    assert len(there) >= 24
    for table in there:
        if table not in (INGESTED_FILES, QUALITY_RESULTS, QUALITY_FAILURES):  # they count readings
            fresh = rows(Path(finished.path), table, "failover-4.0")
            assert rows(path, table, "failover-4.0") == fresh, table.name
        on_disk = deltalake.DeltaTable(str(path / table.name))
        comments = {field.name: field.metadata["comment"] for field in on_disk.schema().fields}
        assert set(comments) == {column.name for column in table.columns}
        assert all(comments.values())
        kept = on_disk.metadata().configuration["delta.dataSkippingStatsColumns"].split(",")
        assert sorted(kept) == sorted(stats_columns(table))


def add_column(warehouse: Path, table: Table, column: Column) -> None:
    newer = replace(table, columns=(*table.columns, column))
    delta_commits.add_missing_columns(str(warehouse / table.name), newer)


def test_a_newer_table_is_read_and_not_written(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever table it is of all, nothing is written to any."""
    path = first_release(tmp_path / "warehouse")
    add_column(path, LATENCY_SUMMARY, Column("p9999_ms", pa.float64(), "of a later version"))
    before = contents(path)
    assert run.main([str(FAILOVER), "--warehouse", str(path)]) == 2
    said = capsys.readouterr().err
    assert said == (
        "error: a newer version of this program made the table latency_summary (its column "
        "p9999_ms cannot be written by this one): use that version, or remove the folder "
        f"{path}/latency_summary and run jobs.run --rebuild on every recording in the warehouse, "
        "which writes it anew\n"
    )
    assert contents(path) == before
    assert recordings.main(["list", "--warehouse", str(path)]) == 0
    read = Warehouse(path).read(LATENCY_SUMMARY)
    assert read.columns == [column.name for column in LATENCY_SUMMARY.columns]
    assert not read.isEmpty()


def test_a_table_with_another_type_is_refused_before_anything_is_written(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    path = first_release(tmp_path / "warehouse")
    (path / HEARTBEAT_OUTCOMES.name).rename(tmp_path / "away")
    (column,) = (c for c in HEARTBEAT_OUTCOMES.columns if c.name == "response_bytes")
    columns = tuple(
        replace(c, type=pa.string()) if c is column else c for c in HEARTBEAT_OUTCOMES.columns
    )
    other = replace(HEARTBEAT_OUTCOMES, columns=columns)
    delta_commits.create_table(str(path / other.name), other, {})
    before = contents(path)
    assert run.main([str(FAILOVER), "--warehouse", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "another version of this program made the table heartbeat_outcomes (its column " in said
    assert "response_bytes is string there and bigint here): remove the folder " in said
    assert contents(path) == before


def test_columns_are_added_once_by_however_many(spark: SparkSession, tmp_path: Path) -> None:
    path = first_release(tmp_path / "warehouse")
    warehouses = [Warehouse(path) for _ in range(2)]
    for warehouse in warehouses:
        assert warehouse.read(INGESTED_FILES).count() == 6  # both have seen that it is old
    for warehouse in warehouses:
        warehouse.create_missing_tables([INGESTED_FILES])
    assert version(path, INGESTED_FILES) == 3  # created, written, columns, statistics


def test_fingerprints_outlive_an_added_column(spark: SparkSession, tmp_path: Path) -> None:
    """No row changes, so what the rows follow from does not either."""
    path = first_release(tmp_path / "warehouse")
    fewer = replace(LATENCY_SUMMARY, name="fewer", columns=LATENCY_SUMMARY.columns[:-1])
    (path / LATENCY_SUMMARY.name).rename(tmp_path / "away")
    warehouse, scope = Warehouse(path), {"recording": "failover-4.0"}
    old = replace(fewer, name=LATENCY_SUMMARY.name)
    delta_commits.create_table(str(path / old.name), old, {})
    warehouse._differences[old.name] = Difference()
    rows = spark.createDataFrame([], from_arrow_schema(old.arrow_schema))
    warehouse.replace(old, rows, scope, "mark")
    assert warehouse.fingerprint_of(old, scope) == "mark"
    Warehouse(path).create_missing_tables([LATENCY_SUMMARY])
    assert deltalake.DeltaTable(str(path / old.name)).schema().fields[-1].name == "max_ms"
    assert warehouse.fingerprint_of(LATENCY_SUMMARY, scope) == "mark"


# --- several jobs at once -------------------------------------------------------------------------


def processes(*commands: Sequence[object], file_bytes_max: int | None = None) -> list[Ended]:
    """Python processes at the same time, which may write files of so many bytes at most."""

    def limited() -> None:
        if file_bytes_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

    def ended(command: Sequence[object]) -> Ended:
        return subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=REPOSITORY,
            preexec_fn=limited,
            capture_output=True,
            text=True,
            check=False,
        )

    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(ended, commands))


def ingest_job(recording: Path, warehouse: Path) -> list[str]:
    return ["-m", "jobs.ingest", str(recording), "--warehouse", str(warehouse)]


def assert_same(warehouse: Path, other: Path, recordings: Sequence[Path]) -> None:
    for table in (*LOG_TABLES, CLIENT_OBSERVATIONS):
        for recording in recordings:
            one, two = (rows(w, table, recording.name) for w in (warehouse, other))
            assert one == two, (table.name, recording.name)


def test_ingests_at_the_same_time_read_every_line_once(spark: SparkSession, tmp_path: Path) -> None:
    """Two of one recording and one of another, all into a warehouse that is not there yet."""
    files = {"controller-2.log": CONTROLLER, "broker-11.log": b"".join(lines_of(BROKER)[:20])}
    write_recording(tmp_path / "two", files, {2: "controller-2.log", 11: "broker-11.log"})
    plain(tmp_path / "one")
    one, two = tmp_path / "one", tmp_path / "two"
    path, in_turn = tmp_path / "warehouse", tmp_path / "in-turn"
    waited = f"waiting for another ingest into the warehouse {path}\n"
    for job in processes(*(ingest_job(recording, path) for recording in (one, two, one))):
        assert (job.returncode, job.stderr.replace(waited, "")) == (0, "")
    for recording in (one, two):
        assert ingest.main([str(recording), "--warehouse", str(in_turn)]) == 0
    assert_same(path, in_turn, (one, two))


def write_in_turns(path: str, own: str) -> None:
    """What a process of the next test does: its own rows and shared ones, again and again."""
    spark = spark_session("writer")
    warehouse = Warehouse(path)
    for number in range(WRITES):
        for recording in (own, "shared"):
            row = {field.name: None for field in INGESTED_FILES.arrow_schema}
            row |= {"recording": recording, "node_id": 1, "source_file": "f", "content_hash": own}
            rows = spark.createDataFrame([row], from_arrow_schema(INGESTED_FILES.arrow_schema))
            warehouse.replace(INGESTED_FILES, rows, {"recording": recording}, f"{own} {number}")


@pytest.mark.slow
def test_no_write_of_one_process_undoes_that_of_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "warehouse"
    script = "import sys; sys.path[:0] = sys.argv[1:3]; import test_safe; "
    script += "test_safe.write_in_turns(*sys.argv[3:])"
    folders = (Path(__file__).parent, REPOSITORY / "tests")
    for job in processes(*(["-c", script, *folders, path, own] for own in ("one", "two"))):
        assert (job.returncode, job.stderr) == (0, "")
    warehouse = Warehouse(path)
    said = [commit.user_metadata or "" for commit in warehouse.commits(INGESTED_FILES)]
    assert len(said) == 1 + 2 * 2 * WRITES
    for own in ("one", "two"):
        mine = [text for text in said if f'"{own} ' in text]
        assert len(mine) == 2 * WRITES
        scope = {"recording": own}
        assert warehouse.fingerprint_of(INGESTED_FILES, scope) == f"{own} {WRITES - 1}"
    there = warehouse.read(INGESTED_FILES).select("recording", "content_hash").collect()
    last = "one" if '"one ' in next(text for text in said if '"shared"' in text) else "two"
    assert sorted(map(tuple, there)) == [("one", "one"), ("shared", last), ("two", "two")]


# --- a full disk ----------------------------------------------------------------------------------


def assert_said_no_space(job: Ended, warehouse: Path) -> None:
    assert job.returncode == 1, job.stderr
    where = f"the disk of the warehouse {warehouse}, or on that of temporary files"
    assert job.stderr.splitlines()[-1].startswith(f"error: there is no space left on {where}")


def test_a_disk_that_takes_no_lines_is_one_sentence_and_the_next_run_completes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A limit on the size of files stops a task where a full disk does, without filling one."""
    path, other = tmp_path / "warehouse", tmp_path / "other"
    (job,) = processes(ingest_job(FAILOVER, path), file_bytes_max=20_000)
    assert_said_no_space(job, path)
    require_whole(str(path))
    assert all(rows(path, table, FAILOVER.name).num_rows == 0 for table in LOG_TABLES)
    assert ingest.main([str(FAILOVER), "--warehouse", str(path)]) == 0
    assert ingest.main([str(FAILOVER), "--warehouse", str(other)]) == 0
    assert_same(path, other, [FAILOVER])


#: Runs what follows with a small disk at $1, and again with a large one, and copies what is there
#: to $2. Spark unpacks libraries elsewhere, so a limit for all files would stop it too early.
SMALL_DISK = """
mount -t tmpfs -o size=$3 small "$1" && cp -r "$2/." "$1" || exit 9
warehouse=$1 out=$2; shift 3
"$@"; echo "first $?"; rm -rf "$out"; cp -r "$warehouse" "$out"
mount -o remount,size=64m "$warehouse" && "$@" > /dev/null; echo "second $?"
rm -rf "$out"; cp -r "$warehouse" "$out"
"""
UNSHARED = ["unshare", "--user", "--map-root-user", "--mount"]


def test_a_disk_that_is_full_when_spark_writes_is_said_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    if subprocess.run([*UNSHARED, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    path, out, other = (tmp_path / name for name in ("warehouse", "out", "other"))
    path.mkdir()
    assert ingest.main([str(FAILOVER), "--warehouse", str(other)]) == 0
    shutil.copytree(other, out)
    shutil.rmtree(out / CLIENT_OBSERVATIONS.name)  # Spark writes this one; the logs are in
    pages = sum(-(-file.stat().st_size // 4096) for file in out.rglob("*") if file.is_file())
    job = subprocess.run(
        [
            *(*UNSHARED, "sh", "-c", SMALL_DISK, "sh", path, out, f"{(pages + 3) * 4}k"),
            *(sys.executable, *ingest_job(FAILOVER, path)),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.stdout.splitlines()[-2:] == ["first 1", "second 0"], job.stderr
    assert_said_no_space(subprocess.CompletedProcess(job.args, 1, None, job.stderr), path)
    assert_same(out, other, [FAILOVER])
