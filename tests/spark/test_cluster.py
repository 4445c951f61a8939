"""A real cluster: a master, two workers and two executors, each a process of its own.

What runs there must not find the clone by accident: the workers' Python has the packages of this
one and nothing else, so that only what the job sends makes ``kip_replay`` importable.
"""

import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES
from tools import cluster

RECORDING = "failover-4.0"
FOLDER = Path(__file__).resolve().parents[1] / "recordings" / RECORDING


@pytest.fixture(scope="module")
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with this one's packages, but not with what is installed from the clone."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    # Folders named in a .pth file are searched, the .pth files in them are not read.
    own = [place for place in sys.path if place.endswith("site-packages")]
    (packages / "packages.pth").write_text("".join(f"{place}\n" for place in own))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory, worker_python: Path) -> Iterator[str]:
    with cluster.standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url


def submit(master: str, worker_python: Path, folder: Path, *job: str) -> str:
    """Runs a job from ``folder``; returns what it prints."""
    environment = cluster.submit_environment() | {"PYSPARK_PYTHON": str(worker_python)}
    done = subprocess.run(
        cluster.submit_command(master, job, "--conf", "spark.sql.shuffle.partitions=3"),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(warehouse: str, table: str) -> list[dict[str, object]]:
    """Rows of the recording, those of pairs with others left out, in an order of their own."""
    found = DeltaTable(f"{warehouse}/{table}").to_pyarrow_table().to_pylist()
    mine = [
        row for row in found if {row["recording"], row.get("recorded_in", RECORDING)} == {RECORDING}
    ]
    return sorted(mine, key=repr)


def test_workers_do_not_find_the_code_by_themselves(worker_python: Path) -> None:
    """The test below proves something only if this holds."""
    tried = subprocess.run(
        [str(worker_python), "-c", "import pyarrow, msgspec, kip_replay.replay"],
        env={},
        cwd=worker_python.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'kip_replay'" in tried.stderr


@pytest.mark.slow
def test_tables_of_a_cluster_are_those_of_one_process(
    master: str, worker_python: Path, finished: Warehouse, tmp_path: Path
) -> None:
    warehouse = tmp_path / "warehouse"
    job = ("run", str(FOLDER), "--warehouse", str(warehouse))

    said = submit(master, worker_python, tmp_path, *job)

    assert f"report: {warehouse}/report.html" in said
    for name in TABLES:
        there = (Path(finished.path) / name).is_dir()
        assert (warehouse / name).is_dir() == there, name
        if there:
            assert rows(str(warehouse), name) == rows(finished.path, name), name
    assert rows(str(warehouse), "fetch_parking_outcomes")
