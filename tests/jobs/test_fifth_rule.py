"""A rule is one folder on each side: every step finds a fifth one without being told of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from recorded_logs import REPOSITORY
from small_logs import plain

TOY = Path(__file__).resolve().parents[1] / "toy_rule"
NAME = "one_ms_sooner"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a package of its own, and in it the toy's two folders."""
    root = tmp_path_factory.mktemp("installed")
    for top in ("conf", "jobs", "pipelines"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / top, root / "kip_replay" / top, ignore=ignored)
    shutil.copy(REPOSITORY / "__init__.py", root / "kip_replay")
    (root / "kip_replay" / "replay").mkdir()
    for each in (REPOSITORY / "replay").iterdir():  # linked: what is compiled is kept beside it
        (root / "kip_replay" / "replay" / each.name).symlink_to(each)
    shutil.copytree(TOY, root / "kip_replay", dirs_exist_ok=True)
    return root


def python(installed: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{installed}:{REPOSITORY}"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    # 3: a check failed, which a log of a few seconds leads to
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def test_a_fifth_rule_is_found_by_every_step(installed: Path, tmp_path: Path) -> None:
    recording, warehouse = plain(tmp_path / "small"), tmp_path / "warehouse"
    run = ("-m", "kip_replay.jobs.main", "run", str(recording.path), "--warehouse", str(warehouse))
    printed = python(installed, *run)
    assert f"  {NAME}: not enough data. There is too little data for an interval" in printed

    def count(table: str, where: str = "true") -> int:
        rows = DeltaTable(str(warehouse / table)).to_pyarrow_dataset()  # noqa: F841
        [(rows_found,)] = duckdb.sql(f"SELECT count(*) FROM rows WHERE {where}").fetchall()
        return int(rows_found)

    assert count("sooner_outcomes") == 2 * count("fetches") > 0
    for table in ("latency_summary", "latency_curves", "prediction_accuracy", "headlines"):
        assert count(table, f"rule = '{NAME}'"), table
    assert count("quality_results", f"suite = '{NAME}' AND success") == 1
    report = (warehouse / "report.html").read_text(encoding="utf-8")
    assert all(text in report for text in ("Every response a millisecond sooner", "Small waits"))
    view = python(
        installed, "-m", "kip_replay.jobs.main", "sql", "FROM sooner", "--warehouse", str(warehouse)
    )
    assert "small" in view
    assert "## sooner_outcomes" in python(installed, "-m", "tools.docs")
