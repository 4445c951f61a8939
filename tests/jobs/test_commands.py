"""What commands say before they work: help, names of recordings. Without Spark."""

import errno
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from ran import ran
from small_logs import plain, write_recording

from kip_replay.jobs import (
    check,
    compare,
    ingest,
    main,
    maintain,
    plan,
    report,
    run,
)
from kip_replay.jobs._cli import unknown_name
from kip_replay.jobs._failures import is_disk_full, is_memory_full
from kip_replay.jobs._parser import WAREHOUSE_VARIABLE, JobParser
from kip_replay.pipelines.engines import session
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse.commits import create
from kip_replay.pipelines.warehouse.tables import require_writable
from kip_replay.replay.log_tables import IngestedFiles

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two recordings, read and not replayed."""
    folder = tmp_path_factory.mktemp("commands")
    path = str(folder / "warehouse")
    for name in ("plain", "other"):
        plain(folder / name)
        assert ingest.main([str(folder / name), "--warehouse", path]) == 0
    return path


def test_the_warehouse_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, path in (("", "warehouse"), ("/data/warehouse", "/data/warehouse")):
        monkeypatch.setenv(WAREHOUSE_VARIABLE, name)
        assert JobParser("sql", "what", "how").parse_args([]).warehouse == path
        assert JobParser("sql", "", "").parse_args(["--warehouse", "w"]).warehouse == "w"


def test_a_misspelt_option_is_answered_by_the_closest(capsys: Capsys) -> None:
    assert check.main(["--warehose", "w"]) == 2
    assert "unrecognized arguments: --warehose: is --warehouse meant?" in capsys.readouterr().err


def test_names_that_are_not_there_list_those_that_are_the_closest_first(
    warehouse: str, capsys: Capsys
) -> None:
    for job, names in ((check, ["plane"]), (compare, ["plane", "other"]), (report, ["plane"])):
        assert job.main([*names, "--warehouse", warehouse]) == 2
        error = capsys.readouterr().err
        assert "there is no recording 'plane' in the warehouse" in error
        assert "there are: plain, other;" in error
    assert "kip-replay run reads some" in unknown_name("plain", [], "warehouse")


def test_a_folder_stands_for_its_recording_and_nothing_for_all(
    warehouse: str, capsys: Capsys
) -> None:
    folder = Path(warehouse).parent / "plain"
    assert check.main([str(folder), "--warehouse", warehouse]) == 2
    one = capsys.readouterr().err
    assert "'plain'" in one  # which is known, and was not replayed
    assert "'other'" not in one
    assert check.main(["--warehouse", warehouse]) == 2
    assert "'other'" in capsys.readouterr().err


def test_help_that_nobody_reads_to_its_end_says_nothing() -> None:
    job = f'"{sys.executable}" -m kip_replay.jobs.main'
    assert ran("bash", "-c", f"{job} help | true; {job} run -h | true", check=True).stderr == ""


def test_help_of_a_command_is_that_commands(capsys: Capsys) -> None:
    with pytest.raises(SystemExit):
        main.main(["help", "plan"])
    assert capsys.readouterr().out.startswith("usage: kip-replay plan ")


# --- warehouses that cannot be written ------------------------------------------------------------


READ_ONLY, FULL = OSError(30, "Read-only file system"), OSError(28, "No space left on device")
MISREAD = ("a%41", "a\\b", "a[1]", "{a}", "a*", "a?", "a\nb", "\udcff")


@pytest.mark.parametrize(
    ("job", "name", "failure", "sentence"),
    [
        *(
            (job, name, None, "cannot be written to (Not a directory)")
            for job in (run, ingest, compare)
            for name in ("file", "file/below")
        ),
        # To root, rights are none.
        *((job, "w", READ_ONLY, f"({READ_ONLY.strerror})") for job in (run, ingest, maintain)),
        (report, "w", READ_ONLY, "there is no recording in the warehouse"),  # it only reads
        (run, "w", FULL, "there is no space left on the disk of the warehouse"),
        *((run, name, None, "reads as something else: name another folder") for name in MISREAD),
        (report, MISREAD[0], None, "reads as something else: name another folder"),
    ],
    ids=repr,
)
def test_a_warehouse_that_cannot_be_written_is_refused_before_spark_starts(
    job: Any,
    name: str,
    failure: OSError | None,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capsys,
) -> None:
    recording = str(plain(tmp_path / "recording").path)
    (tmp_path / "file").write_bytes(b"")
    create(str(tmp_path / "w" / IngestedFiles.name), IngestedFiles)
    before = sorted(tmp_path.rglob("*"))
    arguments = {
        compare: ["--predictions", "a", "b"],
        maintain: [],
        report: [recording, "--output", "page"],
    }
    monkeypatch.setattr(session, "_launch_jvm", None)
    if failure:
        temporary = Mock(side_effect=failure)
        monkeypatch.setattr("kip_replay.pipelines.warehouse.tables.TemporaryFile", temporary)
    status = job.main([*arguments.get(job, [recording]), "--warehouse", str(tmp_path / name)])
    assert status == (1 if failure is FULL else 2)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert sentence in printed.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_log_of_commits_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(str(tmp_path / IngestedFiles.name), IngestedFiles)
    monkeypatch.setattr(os, "access", lambda place, _: "_delta_log" not in str(place))
    with pytest.raises(UserError, match="ingested_files/_delta_log of the warehouse cannot be"):
        require_writable(str(tmp_path))


def test_a_growing_recording_may_begin_with_empty_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
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


def test_a_recording_that_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, capsys: Capsys
) -> None:
    plain(tmp_path / "good")
    for name, files in {"empty": {"b.log": b""}, "other": {"b.log": b"hello\n"}, "no": {}}.items():
        write_recording(tmp_path / name, files, {11: "b.log"})
    folders = [str(tmp_path / name) for name in ("empty", "other", "no", "nowhere", "good")]
    for command, done, errors in ((run, "report: ", 4), (plan, "good: 2 nodes, 2 files", 1)):
        assert command.main([*folders, "--warehouse", str(tmp_path / "w")]) == 2
        printed = capsys.readouterr()
        assert done in printed.out
        assert printed.err.count("error: ") == errors


@pytest.mark.parametrize("name", ["a b", "a#b", "100%", "ü", "a;b", "it's", 'a"b', "a=b", "~"])
def test_any_other_path_is_a_warehouse(tmp_path: Path, name: str) -> None:
    require_writable(str(tmp_path / name))
    uri = str(tmp_path / name / IngestedFiles.name)
    create(uri, IngestedFiles)
    assert (tmp_path / name / IngestedFiles.name / "_delta_log").is_dir()


DISK = [
    OSError(errno.ENOSPC, "written"),
    OSError(errno.EFBIG, "written"),
    RuntimeError("java.io.IOException: No space left on device"),
]
MEMORY = [
    MemoryError(),
    pa.ArrowMemoryError("malloc of size 64 failed"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    OSError("ZSTD_DCtx create failed"),
    RuntimeError("java.lang.OutOfMemoryError: Java heap space"),
    ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
    Py4JNetworkError("Answer from Java side is empty"),
    Py4JError("An error occurred while calling o49.sc"),
    RuntimeError("SparkException: Python worker exited unexpectedly (crashed)"),
]


@pytest.mark.parametrize("error", [*DISK, *MEMORY], ids=str)
def test_what_led_to_an_error_is_found(error: Exception) -> None:
    with pytest.raises(ValueError, match="the replay failed") as raised:
        raise ValueError("the replay failed") from error
    assert is_disk_full(raised.value) == (error in DISK)
    assert is_memory_full(raised.value) == (error in MEMORY)
