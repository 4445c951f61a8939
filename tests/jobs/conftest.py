"""A warehouse that the whole way was run on once, for every test that only looks at it."""

from pathlib import Path

import pytest
from ran import made_once
from small_logs import folder_of

from kip_replay.jobs import run
from kip_replay.pipelines.warehouse.tables import Warehouse


def _run(path: Path) -> None:
    recordings = [str(folder_of(name)) for name in ("failover-4.0", "freeze-4.1")]
    assert run.main([*recordings, "--warehouse", str(path)]) == 0


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A leader change without the KIP and a frozen broker with it, from raw logs to report."""
    return Warehouse(made_once(tmp_path_factory, "finished", _run))
