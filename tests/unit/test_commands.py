"""What commands say before they work: help, names of recordings, completion. Without Spark."""

import os
import subprocess
from pathlib import Path

import pytest
from small_logs import plain

from kip_replay.jobs import check, compare, completion, ingest, main, report
from kip_replay.jobs._cli import unknown_name
from kip_replay.jobs._parser import WAREHOUSE_VARIABLE, JobParser


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


def test_a_misspelt_option_is_answered_by_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["--warehose", "w"]) == 2
    assert "unrecognized arguments: --warehose: is --warehouse meant?" in capsys.readouterr().err


def test_names_that_are_not_there_list_those_that_are_the_closest_first(
    warehouse: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for job, names in ((check, ["plane"]), (compare, ["plane", "other"]), (report, ["plane"])):
        assert job.main([*names, "--warehouse", warehouse]) == 2
        error = capsys.readouterr().err
        assert "there is no recording 'plane' in the warehouse" in error
        assert "there are: plain, other;" in error
    assert "kip-replay run reads some" in unknown_name("plain", [], "warehouse")


def test_a_folder_stands_for_its_recording_and_nothing_for_all(
    warehouse: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(warehouse).parent / "plain"
    assert check.main([str(folder), "--warehouse", warehouse]) == 2
    one = capsys.readouterr().err
    assert "'plain'" in one  # which is known, and was not replayed
    assert "'other'" not in one
    assert check.main(["--warehouse", warehouse]) == 2
    assert "'other'" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_all_commands_and_options(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completion.main([shell]) == 0
    script = capsys.readouterr().out
    assert all(f"{name}" in script for name in (*main.JOBS, "--late-option") if name[0] != "-")
    assert "--allow-short-retention" in script


def test_bash_completes_names_of_recordings_and_runs_none(tmp_path: Path) -> None:
    names = ["plain", "plan-b", "other", "$(touch pwned)"]
    for name in names:
        (tmp_path / "ingested_files" / f"recording={name}").mkdir(parents=True)
    program = f"""{completion.script("bash")}
        completed() {{
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_kip_replay
            echo "${{COMPREPLY[@]}}"
        }}
        completed kip-replay com
        completed kip-replay check pl
        completed kip-replay compare plain o
        completed kip-replay check '$'"""
    found = subprocess.run(
        ["bash", "-c", program],
        cwd=tmp_path,
        env=os.environ | {"KIP_REPLAY_WAREHOUSE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = found.stdout.splitlines()
    assert lines[:3] == ["compare completion", "plain plan-b", "other"]
    assert "touch" in lines[3]
    assert not (tmp_path / "pwned").exists()
