"""What commands refuse at once, without Spark: warehouses that cannot be written."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_logs import plain, write_recording

from kip_replay.jobs import compare, ingest, maintain, replay, report, run
from kip_replay.pipelines.engines import session
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse.commits import create
from kip_replay.pipelines.warehouse.place import require_named, require_writable
from kip_replay.replay.log_tables import INGESTED_FILES


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs a job on a warehouse, which ends with status 2 before Spark starts; its sentence."""

    def no_spark(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "_launch_jvm", no_spark)
    recording = str(plain(tmp_path / "recording").path)

    def sentence(job: Any, warehouse: Path) -> str:
        arguments = {compare: ["a", "b"], maintain: []}.get(job, [recording])
        assert job.main([*arguments, "--warehouse", str(warehouse)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        return printed.err

    return sentence


def test_what_is_no_folder_is_no_warehouse(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    for job in (run, ingest, replay, compare):
        for place in (tmp_path / "file", tmp_path / "file" / "below"):
            assert f"warehouse {place} cannot be written to (Not a directory)" in refused(
                job, place
            )


def test_a_folder_that_takes_no_file_is_no_warehouse(
    tmp_path: Path,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create(str(tmp_path / "w" / INGESTED_FILES.name), INGESTED_FILES)

    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system")  # to root, rights are none

    with monkeypatch.context() as patch:
        patch.setattr("kip_replay.pipelines.warehouse.place.TemporaryFile", read_only)
        for job in (run, ingest, maintain):
            assert "cannot be written to (Read-only file system)" in refused(job, tmp_path / "w")
        page = ["--output", str(tmp_path / "page.html"), "--warehouse", str(tmp_path / "w")]
        assert report.main([str(tmp_path / "recording"), *page]) == 2
        assert "there is no recording in the warehouse" in capsys.readouterr().err  # it only reads
    monkeypatch.setattr(os, "access", lambda place, _: "_delta_log" not in str(place))
    assert "ingested_files/_delta_log of the warehouse cannot be written" in refused(
        run, tmp_path / "w"
    )


def test_a_disk_that_is_full_is_found_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kip_replay.pipelines.warehouse.place.TemporaryFile", full)
    recording = str(plain(tmp_path / "recording").path)
    assert run.main([recording, "--warehouse", str(tmp_path / "w")]) == 1
    assert "there is no space left on the disk of the warehouse" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()


def test_a_growing_recording_may_begin_with_empty_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "_launch_jvm", None)
    logs = {2: "c.log", 11: "b.log"}
    recording = str(write_recording(tmp_path / "r", {"c.log": b"", "b.log": b""}, logs).path)
    arguments = [recording, "--warehouse", str(tmp_path / "w")]
    for _ in range(2):
        assert run.main([*arguments, "--growing"]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert "ingest r: lines read 0 = requests 0 + other 0 + rejected 0 + repeated 0" in printed
        assert printed[-1] == "nothing was logged yet: the files are empty"
    assert run.main([*arguments, "--final"]) == 2
    assert "log of node 2 of recording 'r' (c.log) is empty" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a%41", "a\\b", "a[1]", "{a}", "a*", "a?", "a\nb", "\udcff"])
def test_a_path_that_would_be_read_as_another_is_refused(
    tmp_path: Path, refused: Callable[..., str], name: str
) -> None:
    assert "reads as something else: name another folder" in refused(run, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["recording"]
    with pytest.raises(UserError, match="reads as something else"):
        require_named(str(tmp_path / name))


@pytest.mark.parametrize("name", ["a b", "a#b", "100%", "ü", "a;b", "it's", 'a"b', "a=b", "~"])
def test_any_other_path_is_a_warehouse(tmp_path: Path, name: str) -> None:
    require_writable(str(tmp_path / name))
    uri = str(tmp_path / name / INGESTED_FILES.name)
    create(uri, INGESTED_FILES)
    assert (tmp_path / name / INGESTED_FILES.name / "_delta_log").is_dir()
