"""A warehouse that the whole way was run on once, for every test that only looks at it."""

from pathlib import Path

import pytest

from kip_replay.jobs import run
from kip_replay.pipelines.warehouse.tables import Warehouse

REPOSITORY = Path(__file__).resolve().parents[2]
FAILOVER = REPOSITORY / "tests" / "recordings" / "failover-4.0"
FREEZE = REPOSITORY / "tests" / "recordings" / "freeze-4.1"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A leader change without the KIP and a frozen broker with it, from raw logs to report."""
    path = tmp_path_factory.mktemp("finished")
    assert run.main([str(FAILOVER), str(FREEZE), "--warehouse", str(path)]) == 0
    return Warehouse(path)
