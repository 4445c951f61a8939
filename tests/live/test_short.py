"""The short form: one version, by `record`; what is exact is asserted, times are shown."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import truth

import kip_replay as kr
from kip_replay.pipelines.api import OpenWarehouse
from kip_replay.pipelines.ingest.recording import load_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse
from live import workload
from live.artifacts import agent_jar
from live.cluster import Cluster
from live.recorded import frames, record, run
from live.versions import NOTES

VERSION = "4.3.1"
pytestmark = pytest.mark.short


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("live") / "nodes"
    with Cluster(folder, VERSION, agent=f"{agent_jar(VERSION)}={NOTES}") as started:
        yield started


@pytest.fixture(scope="module")
def recording(cluster: Cluster) -> Path:
    return record(cluster, cluster.folder.parent / "short", workload.mixed, seed=7, seconds=15)


@pytest.fixture(scope="module")
def warehouse(recording: Path) -> OpenWarehouse:
    path = recording.parent / "warehouse"
    print(run(path, [recording]))
    return kr.open(str(path))


def one(warehouse: OpenWarehouse, query: str) -> int:
    return int(warehouse.sql(query, as_="arrow")[0][0].as_py())


def test_every_line_gets_in(recording: Path, warehouse: OpenWarehouse) -> None:
    logged = sum(
        file.read_bytes().count(b"Completed request:") for file in recording.glob("*/*.log")
    )
    assert logged == one(warehouse, "SELECT count(*) FROM requests") > 3_000
    assert one(warehouse, "SELECT count(*) FROM rejected_lines") == 0


def test_no_line_is_missed_and_no_clock_accused(warehouse: OpenWarehouse) -> None:
    assert one(warehouse, "SELECT count(*) FROM log_gaps WHERE lines_missing > 0") == 0
    assert one(warehouse, "SELECT count(*) FROM clock_bounds WHERE clocks = 'differ'") == 0


def test_bytes_are_those_on_the_wire(cluster: Cluster, warehouse: OpenWarehouse) -> None:
    """Every FETCH between brokers, as the proxy counted it."""
    fetched = warehouse.sql(
        "SELECT node_id, client_id, correlation_id, request_bytes, response_bytes FROM fetches "
        "WHERE NOT is_cluster_metadata AND replica_id >= 0",
        as_="arrow",
    )
    joined = frames(cluster).query(
        "seen",
        "SELECT count(*), count(seen.node_id), count_if(seen.request_bytes = f.request_bytes "
        "AND seen.response_bytes = f.response_bytes) FROM fetched AS f LEFT JOIN seen "
        "USING (node_id, client_id, correlation_id)",
    )
    (found,) = joined.fetchall()
    assert found == (fetched.num_rows,) * 3
    assert fetched.num_rows > 500


def test_each_request_has_its_outcomes(warehouse: OpenWarehouse) -> None:
    """As checks say: those that count outcomes are critical."""
    for outcomes in ("fetch_parking_outcomes", "fetch_session_outcomes"):
        assert one(warehouse, f"SELECT count(*) FROM {outcomes}") > 0
    failed = "SELECT count(*) FROM quality_results WHERE NOT success AND severity = 'critical'"
    assert one(warehouse, failed) == 0


@pytest.mark.usefixtures("warehouse")
def test_predictions_of_itself(recording: Path) -> None:
    warehouse = Warehouse(str(recording.parent / "warehouse"))
    rows = pd.DataFrame(truth.all_judged(warehouse, load_recordings([recording])))
    judged = rows[rows.tolerance.notna()]
    print(judged.to_string())
    # Two FETCHes of a session within a millisecond may be taken in the other order.
    bounds, of = judged[judged.kind == "bound"], judged[judged.metric == "fetches_as_recorded"]
    assert len(bounds) > 0
    assert bounds.passed.all()
    assert len(of) > 0
    assert (of.predicted >= 0.999).all()
