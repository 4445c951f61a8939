"""What a run leaves in the folder of temporary files: nothing, or what the next one removes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLD = "from kip_replay.pipelines.scratch import run_folder\nprint(run_folder(), flush=True)\n"


def _in_use(folder: Path) -> list[Path]:
    return sorted(folder.glob("kip-replay-run-*"))


def _python(root: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(root), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def _run(root: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run that goes on until its stdin is closed, and its folder."""
    with _python(root, _HOLD + "open(run_folder() / 'spilt', 'w').close()\ninput()") as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_run_removes_its_folder_and_those_of_runs_that_were_killed(tmp_path: Path) -> None:
    with _run(tmp_path) as (alive, its_folder):
        with _run(tmp_path) as (killed, left):
            assert _in_use(tmp_path) == sorted([its_folder, left])
            killed.kill()
            killed.wait()
        assert left.exists()
        with _run(tmp_path) as (ended, folder):
            assert _in_use(tmp_path) == sorted([its_folder, folder])
            ended.communicate("\n")
        assert _in_use(tmp_path) == [its_folder]
        alive.communicate("\n")
    assert _in_use(tmp_path) == []


def test_what_is_anothers_or_no_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kip-replay-run-1-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "kip-replay-run-2-file").write_bytes(b"")
    (tmp_path / "kip-replay-run-3-other").mkdir()
    mine = "import os\nuid = os.geteuid()\nos.geteuid = lambda: uid + 1\n"
    with _python(tmp_path, mine + _HOLD) as process:
        process.communicate()
    assert process.returncode == 0
    assert [path.name[:16] for path in _in_use(tmp_path)] == [f"kip-replay-run-{n}" for n in "123"]


def test_without_a_place_it_is_one_sentence(tmp_path: Path) -> None:
    code = (
        "import tempfile\nfrom kip_replay.pipelines.errors import UserError\n"
        f"tempfile.tempdir = {str(tmp_path / 'gone')!r}\n"
        f"try:\n{''.join(f'  {line}' + chr(10) for line in _HOLD.splitlines())}"
        "except UserError as error:\n  print(error)\n"
    )
    with _python(tmp_path, code) as process:
        printed, _ = process.communicate()
    assert "gone cannot be used (No such file or directory): correct its rights" in printed
