"""A server of Spark Connect, to which ``kip-replay run`` is a client without Java."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from put_rows import assert_same
from ran import ran
from small_logs import folder_of

from tools.cluster import connect_server

pytestmark = pytest.mark.slow
pytest.importorskip("grpc", reason="needs pip install 'kip-replay[connect]'")
FOLDER = folder_of("failover-4.0")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


def run(warehouse: Path, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "kip_replay.jobs.main", "run", FOLDER, *arguments]
    # No Java: what would start it fails.
    done = ran(*command, "--warehouse", warehouse, JAVA_HOME="/nonexistent", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_run_over_connect_gives_the_tables_of_the_local_engine(
    remote: str, tmp_path: Path
) -> None:
    """Surveys, parsing and rules by the server; tests/spark/test_same_rows.py has every text."""
    settings = ["--set", "ingest.survey_on_driver_bytes_max=0", "--set", "spark.replay_bytes_min=0"]
    said = run(tmp_path / "connect", *settings, SPARK_REMOTE=remote)
    assert "engine: spark (SPARK_REMOTE names a server" in said
    run(tmp_path / "local", "--engine", "local")
    assert_same(tmp_path / "local", tmp_path / "connect")


def test_results_of_any_size_come_back_in_order(remote: str) -> None:
    """Above what a message of Spark Connect holds; a task's refusal is the driver's."""
    program = (
        "from functools import partial\n"
        "from operator import mul\n"
        "from kip_replay.pipelines.engines.spark import Spark\n"
        "from kip_replay.pipelines.errors import UserError\n"
        "from kip_replay.pipelines.storage import normal\n"
        "from kip_replay.pipelines.warehouse.tables import Warehouse\n"
        "spark = Spark(Warehouse('nothing'))\n"
        "assert spark.cores == 2\n"
        "sizes = [150_000_000, 0, *range(9)]\n"
        "assert [*map(len, spark.run(partial(mul, b'x'), sizes))] == sizes\n"
        "try:\n"
        "    spark.run(normal, ['/ok', 'file:///no'])\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    done = ran(sys.executable, "-c", program, SPARK_REMOTE=remote)
    assert done.stdout == "file:///no is a local file: write its path, /no\n", done.stderr


def test_without_a_client_the_reason_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError('none')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    program = "from kip_replay.pipelines.engines.session import spark_session as s; s('none')"
    done = ran(sys.executable, "-c", program, SPARK_REMOTE="sc://127.0.0.1:1", PYTHONPATH=path)
    assert "pip install 'kip-replay[connect]'" in done.stderr.splitlines()[-1]
