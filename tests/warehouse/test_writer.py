"""The one door to the tables: what is committed, what is refused, and who stops. Without Spark."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from ran import at_commit

from kip_replay.pipelines.errors import UserError, WriteConflictError
from kip_replay.pipelines.warehouse import commits, data_files, tables
from kip_replay.pipelines.warehouse.data_files import SchemaError, TableFiles
from kip_replay.pipelines.warehouse.steps import fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse, Writing
from kip_replay.replay.log_tables import IngestedFiles, Requests
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES, VERSION, LatencySummary, Lineage

AT = datetime(2026, 11, 20, 20, 0, 0, 1500, UTC)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def files_of(recording: str, names: str, lines: int = 1) -> pa.RecordBatch:
    """Rows of ingested_files, one per letter of ``names``."""
    row = {"recording": recording, "node_id": 1, "content_hash": "0", "lines_read": lines}
    rows = [row | {"source_file": name} for name in names]
    return pa.RecordBatch.from_pylist(rows, schema=IngestedFiles.arrow_schema)


def writing(warehouse: Warehouse, *recordings: str, step: str = "ingest") -> Writing:
    return warehouse.writing(step, recordings, [IngestedFiles])


def begun(warehouse: Warehouse, *recordings: str, step: str = "ingest") -> Writing:
    attempt = writing(warehouse, *recordings, step=step)
    attempt.begin()
    return attempt


def write(attempt: Writing, names: str) -> list[Any]:
    """Files with these rows for each recording; nothing is committed."""
    files = attempt.files()
    for recording in attempt.epochs:
        files.write(IngestedFiles, files_of(recording, names))
    return files.closed()


def replaced(warehouse: Warehouse, recording: str, names: str, step: str = "ingest") -> None:
    attempt = begun(warehouse, recording, step=step)
    attempt.replace(IngestedFiles, write(attempt, names))
    attempt.end({recording: names})


def names_in(warehouse: Warehouse, *recordings: str) -> str:
    rows = warehouse.rows(IngestedFiles, recordings).column("source_file")
    return "".join(sorted(rows.to_pylist()))


def log_of(warehouse: Warehouse, table: Table) -> list[list[dict[str, Any]]]:
    log = Path(warehouse.uri_of(table), "_delta_log")
    return [[*map(json.loads, c.read_text().splitlines())] for c in sorted(log.glob("*.json"))]


# --- tables ---------------------------------------------------------------------------------------


def test_tables_on_disk_are_what_the_schema_says(warehouse: Warehouse) -> None:
    for is_first in (True, False):
        for table in TABLES.values():
            assert commits.create(warehouse.uri_of(table), table) == is_first
    for table in TABLES.values():
        on_disk = deltalake.DeltaTable(warehouse.uri_of(table))
        assert on_disk.version() == 0
        assert on_disk.metadata().description == table.comment
        assert on_disk.metadata().partition_columns == list(table.partitioned_by)
        protocol = on_disk.protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
        for field, column in zip(on_disk.schema().fields, table.columns, strict=True):
            assert (field.name, field.nullable) == (column.name, column.nullable)
            assert field.metadata["comment"] == column.comment
        assert warehouse.files(table) == []


def test_a_table_that_was_never_made_is_asked_for_by_name(warehouse: Warehouse) -> None:
    with pytest.raises(UserError, match=r"no table ingested_files .* run kip-replay ingest"):
        warehouse.open(IngestedFiles)
    assert names_in(warehouse, "r") == ""


WHOLE = IngestedFiles.arrow_schema
NULLABLE = pa.schema([field.with_nullable(True) for field in WHOLE])
REQUIRED = "content_hash, node_id, recording, source_file"


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (IngestedFiles.without("node_id"), f"{VERSION} differs in node_id: delete"),
        (WHOLE.append(pa.field("new", pa.string(), nullable=False)), "differs in new: delete"),
        (NULLABLE, f"differs in {', '.join(REQUIRED.split(', ')[:3])}, ...: delete"),
        (WHOLE.set(4, pa.field("bytes_read", pa.string())), "differs in bytes_read: delete"),
        (WHOLE, "is partitioned otherwise: delete"),
    ],
)
def test_a_table_of_another_schema_is_refused_in_one_sentence(
    warehouse: Warehouse, schema: pa.Schema, says: str
) -> None:
    uri = warehouse.uri_of(IngestedFiles)
    by = ["node_id"] if "partitioned" in says else ["recording"]
    deltalake.DeltaTable.create(uri, schema=schema, partition_by=by)
    with pytest.raises(UserError) as refused:
        writing(warehouse, "r")
    assert says in str(refused.value)
    assert f"delete the folder of this warehouse, {warehouse.path}, or" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not warehouse.exists(Lineage) or not warehouse.files(Lineage)


def test_what_rules_wrote_is_made_anew(warehouse: Warehouse) -> None:
    uri = warehouse.uri_of(LatencySummary)
    deltalake.DeltaTable.create(uri, schema=pa.schema([("recording", pa.string())]))
    replaced(warehouse, "r", "a")
    with pytest.raises(UserError, match=r"kip-replay before 0.4.0 made .*: run .* --rebuild"):
        warehouse.open(LatencySummary)
    warehouse.delete_of_other_versions()
    assert (warehouse.exists(LatencySummary), warehouse.exists(IngestedFiles)) == (False, True)


def test_the_version_changes_with_the_tables(warehouse: Warehouse) -> None:
    """If this fails, raise VERSION and that of setup.cfg, and write down what it prints."""
    fields = [
        (name, table.partitioned_by, field.name, str(field.type), field.nullable)
        for name, table in sorted(TABLES.items())
        for field in table.arrow_schema
    ]
    assert (VERSION, fingerprint(fields)) == ("0.4.0", "32f2566f16330f3ab1ca836b2bfa0160")
    commits.create(warehouse.uri_of(Lineage), Lineage)
    name = deltalake.DeltaTable(warehouse.uri_of(Lineage)).metadata().name
    assert name == commits.MADE_BY + VERSION


# --- rows -----------------------------------------------------------------------------------------


def test_rows_that_do_not_fit_are_refused_before_anything_is_committed(
    warehouse: Warehouse,
) -> None:
    rows = files_of("r", "a")
    files = writing(warehouse, "r").files()
    lines = rows.schema.get_field_index("lines_read")
    texts = rows.set_column(lines, "lines_read", rows.column(lines).cast(pa.string()))
    with pytest.raises(SchemaError, match="lines_read as string, not int64"):
        files.write(IngestedFiles, texts)
    hashes = rows.schema.get_field_index("content_hash")
    nulls = rows.set_column(hashes, "content_hash", pa.nulls(1, pa.string()))
    with pytest.raises(SchemaError, match="ingested_files have null in content_hash"):
        files.write(IngestedFiles, nulls)
    assert not warehouse.exists(IngestedFiles)


def requests(count: int, client_id: str = "c") -> pa.RecordBatch:
    rows = [
        {"recording": "r", "request_id": f"{n:032}", "node_id": n, "client_id": client_id}
        | {"completed_at": AT + timedelta(seconds=n)}
        for n in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=Requests.arrow_schema)


def test_statistics_are_deltas(tmp_path: Path) -> None:
    long = "c" * 33
    files = TableFiles(str(tmp_path), "part")
    files.write(Requests, requests(3, client_id=long))
    (file,) = files.closed()
    stats = json.loads(file.stats)
    assert stats["numRecords"] == file.rows == 3
    # Times to the millisecond, outwards; a text cut, where that still says something.
    assert stats["minValues"]["completed_at"] == "2026-11-20T20:00:00.001Z"
    assert stats["maxValues"]["completed_at"] == "2026-11-20T20:00:02.002Z"
    assert stats["minValues"]["client_id"] == long[:32]
    assert stats["maxValues"]["client_id"] == long[:32] + "\U0010ffff"
    assert (stats["minValues"]["node_id"], stats["maxValues"]["node_id"]) == (0, 2)
    assert stats["nullCount"]["api_key"] == 3
    assert "api_key" not in stats["minValues"]
    assert "recording" not in stats["nullCount"]


def test_a_large_group_of_rows_becomes_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kip_replay.pipelines.warehouse.data_files.FILE_BYTES_MAX", 1)
    monkeypatch.setattr("kip_replay.pipelines.warehouse.data_files._ROW_GROUP_ROWS", 2)
    files = TableFiles(str(tmp_path), "part")
    for _ in range(2):
        files.write(Requests, requests(3))
    closed = files.closed()
    assert [file.rows for file in closed] == [3, 3]
    assert len({file.path for file in closed}) == 2


# --- commits --------------------------------------------------------------------------------------


def test_every_commit_carries_the_epoch_of_its_step_and_recordings(warehouse: Warehouse) -> None:
    for epoch in (1, 2):
        attempt = writing(warehouse, "r", "s")
        assert attempt.epochs == {"r": epoch, "s": epoch}
        attempt.begin()
        attempt.append(IngestedFiles, write(attempt, str(epoch)), {"r": epoch, "s": epoch})
        attempt.end({"r": "1", "s": "2"})
    for table in (IngestedFiles, Lineage):
        commits_of = log_of(warehouse, table)
        for number, actions in enumerate(commits_of):
            epoch = 1 + number * 2 // len(commits_of)
            carried = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
            assert carried == {"ingest/r": epoch, "ingest/s": epoch}
            assert all(f"/part-{epoch:06}-" in a["add"]["path"] for a in actions if "add" in a)
    assert names_in(warehouse, "r", "s") == "1122"


def test_one_commit_ends_a_step_and_begins_the_next(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def committed() -> dict[str, str]:
        """By step, as who comes after a kill finds it."""
        lineage = Warehouse(warehouse.path).lineage(["r"])
        return {step: text for (_, step), text in lineage.items()}

    def work(fails: Callable[[], object]) -> None:
        with warehouse.ends_waiting():
            replaced(warehouse, "r", "b", step="one")
            assert "one" not in committed()
            replaced(warehouse, "r", "b", step="two")
            assert committed() == {"one": "b"}
            assert warehouse.lineage_table(["r"]).num_rows == 2
            replaced(warehouse, "r", "c", step="two")
            assert (committed(), len(warehouse.lineage(["r"]))) == ({"one": "b"}, 2)
            fails()

    with warehouse.ends_waiting():
        replaced(warehouse, "r", "a", step="zero")
        replaced(warehouse, "r", "a", step="one")
        assert committed() == {}
        replaced(warehouse, "r", "b", step="zero")
        assert committed() == {}
    assert committed() == {"zero": "b", "one": "a"}
    assert sum("add" in action for commit in log_of(warehouse, Lineage) for action in commit) == 1
    warehouse = Warehouse(f"{warehouse.path}-of-long-steps")
    monkeypatch.setattr(tables, "_ENDS_WAIT_MAX", timedelta(0))
    with pytest.raises(KeyError):
        work({}.popitem)
    assert committed() == {"one": "b", "two": "c"}
    assert len(log_of(warehouse, Lineage)) == 4
    other = Warehouse(warehouse.path)
    with pytest.raises(WriteConflictError, match="has written two of recording 'r'"):
        work(lambda: begun(other, "r", step="two") and begun(warehouse, "r", step="three"))
    assert committed() == {"one": "b"}


def test_small_files_of_tasks_are_one_file(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for small_bytes, count in ((1 << 20, 1), (1 << 10, 2)):
        monkeypatch.setattr(data_files, "SMALL_FILE_BYTES", small_bytes)
        attempt = begun(warehouse, "r", "s")
        attempt.replace(IngestedFiles, [*write(attempt, "ab"), *write(attempt, "c")])
        attempt.end({"r": "", "s": ""})
        assert len(warehouse.files(IngestedFiles, ["r"])) == count
        assert names_in(warehouse, "r", "s") == "aabbcc"
        on_disk = [*Path(warehouse.uri_of(IngestedFiles)).glob(f"*=r/part-{count:06}-*")]
        assert len(on_disk) == count
        [row, _] = warehouse.rows(Lineage, ["r", "s"]).to_pylist()
        assert (row["files_written"], row["rows_written"]) == (count, 3)


def test_rows_that_stay_are_not_written(warehouse: Warehouse) -> None:
    written: list[tuple[int, int]] = []

    def replace(text: str, names: str) -> int:
        rows = pa.Table.from_batches([files_of("r", names)])
        Warehouse(warehouse.path).replace("ingest", {"r": text}, {IngestedFiles: rows})
        assert warehouse.lineage(["r"]) == {("r", "ingest"): text}
        [ended] = warehouse.rows(Lineage, ["r"]).to_pylist()
        written.append((ended["files_written"], ended["rows_written"]))
        assert ended["began_at"] <= ended["committed_at"]
        assert (ended["bytes_written"] > 0) == bool(ended["rows_written"])
        return len(log_of(warehouse, IngestedFiles))

    commits_of = [replace("1", "ab"), replace("2", "ba"), replace("3", "bc")]
    assert commits_of == [1, 1, 2]
    assert written == [(1, 2), (0, 0), (1, 2)]
    begun(warehouse, "r")  # and killed: rows may not be all there
    assert replace("4", "bc") == 3
    stops(lambda: replace("5", "bc"), lambda: begun(warehouse, "r"))
    assert warehouse.lineage(["r"]) == {}


# --- several at once ------------------------------------------------------------------------------


def stops(write_too_late: Callable[[], object], slips_in: Callable[[], object] = str) -> None:
    """``slips_in``: what another job does just before the first commit."""
    is_refused = pytest.raises(WriteConflictError, match="has written ingest of recording 'r'")
    with is_refused, at_commit(0, slips_in):
        write_too_late()


def test_the_attempt_that_was_too_late_stops(warehouse: Warehouse) -> None:
    one, two = writing(warehouse, "r"), writing(warehouse, "r")
    assert one.epochs == two.epochs
    one.begin()
    stops(two.begin)
    one.replace(IngestedFiles, write(one, "a"))
    stops(lambda: one.replace(IngestedFiles, write(one, "b")))  # once an epoch
    three = begun(warehouse, "r")
    stops(lambda: one.append(IngestedFiles, write(one, "b"), one.epochs))
    stops(lambda: one.end({"r": "b"}))
    three.end({"r": "c"})
    assert warehouse.lineage(["r"]) == {("r", "ingest"): "c"}
    assert names_in(warehouse, "r") == "a"


def test_an_attempt_made_of_rows_that_were_replaced_meanwhile_stops(warehouse: Warehouse) -> None:
    replaced(warehouse, "r", "a")
    epochs = warehouse.epochs(IngestedFiles, "ingest", ["r", "new"])
    rows = warehouse.rows(IngestedFiles, ["r", "new"])
    assert (rows.num_rows, epochs) == (1, {"r": 1, "new": 0})
    replaced(warehouse, "r", "b")
    attempt = writing(warehouse, "r", "new")
    stops(lambda: attempt.begin({IngestedFiles: epochs}))
    assert warehouse.lineage(["r"]) == {("r", "ingest"): "b"}
    attempt.begin({IngestedFiles: {"r": 2, "new": 0}})


@pytest.mark.parametrize("way", ["replace", "append", "replace_rows"])
def test_a_commit_that_slips_in_before_another_is_seen(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The fenced attempt had looked whether it was fenced already, and commits all the same."""
    replaced(warehouse, "r", "a")
    late = begun(warehouse, "r")
    files = write(late, "late")
    attempt = begun(warehouse, "r")

    def fenced() -> None:
        with monkeypatch.context() as slow:
            slow.setattr(commits, "require_own", lambda *_: None)
            late.append(IngestedFiles, files, late.epochs)

    change: dict[str, Callable[[], None]] = {
        "replace": lambda: attempt.replace(IngestedFiles, write(attempt, "b")),
        "append": lambda: attempt.append(IngestedFiles, write(attempt, "b"), {"r": 1}),
        "replace_rows": lambda: attempt.replace_rows(
            IngestedFiles, pa.Table.from_batches([files_of("r", "b")]), {"source_file": ["a"]}
        ),
    }
    stops(change[way], fenced)
    assert names_in(warehouse, "r") == "aaelt"


def test_an_optimize_that_slips_in_is_seen(warehouse: Warehouse) -> None:
    replaced(warehouse, "r", "a")
    attempt = begun(warehouse, "r")
    attempt.append(IngestedFiles, write(attempt, "b"), attempt.epochs)
    attempt.end({"r": "b"})
    attempt = begun(warehouse, "r")
    table = deltalake.DeltaTable(warehouse.uri_of(IngestedFiles))
    late = write(attempt, "c")
    stops(lambda: attempt.replace(IngestedFiles, late), table.optimize.compact)
    assert names_in(warehouse, "r") == "ab"
