"""Recordings in a warehouse: listed, shown, deleted whole, and then read again. Without Spark."""

import io
import shutil
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from put_rows import put, row, rows_of
from ran import is_killed
from small_logs import BROKER, CONTROLLER, lines_of, plain

from kip_replay.jobs import ingest
from kip_replay.jobs.recordings import main
from kip_replay.pipelines.errors import WriteConflictError
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.recordings import StoredRecording, stored_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.hwm_parking.outcomes import HighWatermarkLag, ParkedFetch
from kip_replay.replay.log_tables import LOG_TABLES, Requests
from kip_replay.replay.tables import TABLES, Lineage, PredictionAccuracy, ReplayState

AT = datetime(2026, 11, 20, tzinfo=UTC)
LINES = len(lines_of(CONTROLLER)) + len(lines_of(BROKER))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A recording of small logs with outcomes and states, another, and each judged by the other."""
    folder = tmp_path_factory.mktemp("recordings")
    made = Warehouse(folder / "warehouse")
    plain(folder / "plain")
    assert ingest.main([str(folder / "plain"), "--warehouse", made.path]) == 0
    for name in ("plain", "other"):
        rows = {t: [row(t, name)] for t in (ParkedFetch, HighWatermarkLag)}
        state = row(ReplayState, name, rule="hwm_parking", as_of=AT)
        put(made, "hwm_parking", rows | {ReplayState: [state]})
        for by in ("plain", "other"):
            judged = row(PredictionAccuracy, name, recorded_in=by)
            put(made, f"accuracy/{by}", {PredictionAccuracy: [judged]})
    return made


@pytest.fixture
def copy(warehouse: Warehouse, tmp_path: Path) -> Warehouse:
    return Warehouse(shutil.copytree(warehouse.path, tmp_path / "copy"))


def all_rows(warehouse: Warehouse, recording: str) -> dict[str, list[str]]:
    """Those that there are, but for when they were written."""
    found = {
        name: rows_of(warehouse, table, recording, ["committed_at", "ingest_epoch"])
        for name, table in TABLES.items()
        if warehouse.exists(table)
    }
    return {name: rows for name, rows in found.items() if rows}


def stored(warehouse: Warehouse) -> dict[str, StoredRecording]:
    return {one.name: one for one in stored_recordings(warehouse, ["hwm_parking"])}


def run(warehouse: Warehouse, *arguments: str) -> int:
    return main([*arguments, "--warehouse", warehouse.path])


def test_the_list_says_what_is_there(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(warehouse) == 0
    head, other, line = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["recording", "kafka"]
    assert (other.split()[0], line.split()[0]) == ("other", "plain")
    assert line.split()[-1] == "hwm_parking"
    one = stored(warehouse)["plain"]
    assert one.logs.lines == one.logs.requests + one.logs.rejected == LINES
    assert one.sizes["requests"].rows == one.logs.requests
    assert one.logs.first_at is not None
    assert one.logs.last_at is not None
    assert one.logs.first_at < one.logs.last_at


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["delete", "nowhere"], "there are: other, plain"),
        (["delete"], "needs the name"),
        (["list", "plain"], "takes no name"),
        (["delete", "plain"], "--yes"),
    ],
)
def test_mistakes_are_one_sentence(
    warehouse: Warehouse,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))  # a pipe is nobody to ask
    assert run(warehouse, *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_asks_before_it_deletes(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("no\n"))
    before = all_rows(warehouse, "plain")
    assert run(warehouse, "delete", "plain") == 0
    assert "nothing was deleted" in capsys.readouterr().out
    assert all_rows(warehouse, "plain") == before


def test_of_a_deleted_recording_nothing_is_left_but_its_name_in_the_log(
    warehouse: Warehouse, copy: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(copy, "delete", "plain", "--yes") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["deleted from prediction_accuracy", "deleted from ingested_files"]
    assert all_rows(copy, "plain") == {}
    # Of the other one, only what was judged by this one is gone.
    left, before = all_rows(copy, "other"), all_rows(warehouse, "other")
    for table in (PredictionAccuracy, Lineage):
        mine, theirs = left.pop(table.name), before.pop(table.name)
        assert mine == [line for line in theirs if "plain" not in line]
        assert len(mine) == len(theirs) - 1
    assert left == before
    assert run(copy, "delete", "plain", "--yes") == 2

    folder = Path(warehouse.path).parent / "plain"
    assert ingest.main([str(folder), "--warehouse", copy.path]) == 0
    before = all_rows(warehouse, "plain")
    logs = {table.name for table in LOG_TABLES} & set(before)
    assert {name: all_rows(copy, "plain")[name] for name in logs} == {n: before[n] for n in logs}


@pytest.mark.parametrize("numbers", [[1, 5, 15], pytest.param(None, marks=pytest.mark.slow)])
def test_a_delete_that_is_killed_at_any_commit_is_completed_by_another(
    warehouse: Warehouse, tmp_path: Path, numbers: list[int] | None
) -> None:
    for number in numbers or count(1):
        copy = Warehouse(shutil.copytree(warehouse.path, tmp_path / str(number)))
        if not is_killed(number, partial(run, copy, "delete", "plain", "--yes")):
            assert number > 15
            return
        assert "plain" in stored(copy), number
        assert run(copy, "delete", "plain", "--yes") == 0
        assert all_rows(copy, "plain") == {}, number
        assert "other" in stored(copy)


def test_a_delete_beside_a_job_that_writes_the_recording_stops(
    copy: Warehouse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def beaten(*_: object) -> None:
        raise WriteConflictError("another job has written ingest of recording 'plain' meanwhile")

    monkeypatch.setattr(commits, "commit", beaten)
    assert run(copy, "delete", "plain", "--yes") == 1
    assert capsys.readouterr().err.startswith("error: another job has written ingest of")
    assert Requests.name in stored(copy)["plain"].sizes
