"""Ingest jobs as processes: several at once, killed, short of disk or memory. Without Spark."""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest
from put_rows import assert_same, contents
from ran import ran
from small_logs import BROKER, CONTROLLER, folder_of, lines_of, plain, write_recording

from kip_replay.jobs import ingest

Ended: TypeAlias = subprocess.CompletedProcess[str]
FAILOVER = folder_of("failover-4.0")


def job(recording: Path, warehouse: Path) -> list[str]:
    module = "kip_replay.jobs.ingest"
    return [sys.executable, "-m", module, str(recording), "--warehouse", str(warehouse), "--quiet"]


def processes(*commands: Sequence[object]) -> list[Ended]:
    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(lambda command: ran(*command), commands))


def test_ingests_at_the_same_time_read_every_line_once(tmp_path: Path) -> None:
    """Two of one recording and one of another, all into a warehouse that is not there yet."""
    files = {"controller-2.log": CONTROLLER, "broker-11.log": b"".join(lines_of(BROKER)[:20])}
    write_recording(tmp_path / "two", files, {2: "controller-2.log", 11: "broker-11.log"})
    plain(tmp_path / "one")
    one, two = tmp_path / "one", tmp_path / "two"
    path, in_turn = tmp_path / "warehouse", tmp_path / "in-turn"
    first, other, second = processes(*(job(recording, path) for recording in (one, two, one)))
    assert (other.returncode, other.stderr) == (0, "")
    ends = {(ended.returncode, ended.stderr) for ended in (first, second)}
    stopped = "error: another job has written ingest of recording 'one' meanwhile: this one has "
    stopped += "stopped, run it again when the other is done\n"
    assert (0, "") in ends
    assert ends <= {(0, ""), (1, stopped)}
    for recording in (one, two):
        assert ingest.main([str(recording), "--warehouse", str(in_turn)]) == 0
    assert_same(path, in_turn, ["ingest_epoch"])
    before = contents(path)
    assert ingest.main([str(one), str(two), "--warehouse", str(path)]) == 0
    assert contents(path) == before


#: Runs what follows with a small disk at $1, and again with a large one; what is there then is
#: copied to $2.
SMALL_DISK = """
mount -t tmpfs -o size=$3 small "$1" || exit 9
warehouse=$1 out=$2; shift 3
"$@"; echo "first $?"
mount -o remount,size=64m "$warehouse" && "$@" > /dev/null; echo "second $?"
cp -r "$warehouse" "$out"
"""
UNSHARED = ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.mark.slow
@pytest.mark.parametrize("missing", range(1, 60, 8))
def test_a_disk_may_be_full_at_any_time(tmp_path: Path, missing: int) -> None:
    """So many pages before all is written: in files of rows, of logs, or after it."""
    if subprocess.run([*UNSHARED, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    path, out, other = (tmp_path / name for name in ("warehouse", "out", "other"))
    path.mkdir()
    assert ingest.main([str(FAILOVER), "--warehouse", str(other)]) == 0
    pages = sum(-(-file.stat().st_size // 4096) for file in other.rglob("*") if file.is_file())
    size = f"{(pages - missing) * 4}k"
    command = [*UNSHARED, "sh", "-c", SMALL_DISK, "sh", path, out, size, *job(FAILOVER, path)]
    (ended,) = processes(command)
    assert ended.stdout.splitlines()[-2:] == ["first 1", "second 0"], ended.stderr
    (error,) = ended.stderr.splitlines()
    where = f"the disk of the warehouse {path}, or on that of temporary files"
    assert error.startswith(f"error: there is no space left on {where}")
    assert_same(out, other, ["ingest_epoch"])
