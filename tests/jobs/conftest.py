"""A warehouse that the whole way was run on once, for every test that only looks at it."""

import pytest
from recorded_logs import folder_of

from kip_replay.jobs import run
from kip_replay.pipelines.warehouse.tables import Warehouse


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A leader change without the KIP and a frozen broker with it, from raw logs to report."""
    path = tmp_path_factory.mktemp("finished")
    recordings = [str(folder_of(name)) for name in ("failover-4.0", "freeze-4.1")]
    assert run.main([*recordings, "--warehouse", str(path)]) == 0
    return Warehouse(path)
