"""A log that begins in the middle of a cluster's life, recorded under three works at once."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import kip_replay as kr
from live import recorded, workload
from live.cluster import Cluster
from live.recorded import run
from live.test_short import VERSION, one


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("live") / "nodes", VERSION) as started:
        yield started


def test_a_minute_in_the_middle_of_a_clusters_life(cluster: Cluster) -> None:
    """Every fetch session, ISR and config that it begins with is older than the log."""
    folder, stop = cluster.folder.parent / "midlife", threading.Event()
    (notes := cluster.folder.parent / "notes").mkdir()
    new = {"group_id": "new", "client_id": "new", "group_protocol": "consumer"}
    with ThreadPoolExecutor() as pool:
        begun = (workload.metadata, workload.sessions)
        works = [pool.submit(work, cluster, notes, 8, 110) for work in begun]
        works += [pool.submit(workload.consume, cluster, stop, **new)]
        time.sleep(30)
        with recorded.recording(cluster, folder, "--minutes", "1") as process:
            assert process.wait(120) == 0
        stop.set()
    assert not any(work.exception() for work in works)
    print(run(path := folder.parent / "midlife-warehouse", [folder]))
    warehouse = kr.open(str(path))
    for table in ("fetch_session_outcomes", "produce_ack_outcomes"):
        share = "SELECT avg(CAST(verdict = 'unknown' AS INT)) AS unknown"
        shares = warehouse.sql(f"{share} FROM {table} WHERE parameter = 'none' GROUP BY variant")
        assert 0 <= shares.unknown.max() <= 0.02, table
    sure = "WHERE metric = 'fetch_bytes' OR kind = 'bound'"
    assert warehouse.sql(f"SELECT passed FROM prediction_accuracy {sure}").passed.all()
    described = "group_assignments WHERE source LIKE '%DESCRIBE%'"
    assert one(warehouse, f"SELECT count(DISTINCT source) FROM {described}") == 2
    assert one(warehouse, "SELECT count(*) FROM held_sessions WHERE replica_id < 0") > 0
    assert one(warehouse, "SELECT count(*) FROM metadata_write_outcomes") > 0
    # A minute is short for lowest_acked_offset, and the cluster has no racks.
    others = "WHERE rule NOT IN ('closest_replica', 'lowest_acked_offset')"
    advice = warehouse.sql(f"SELECT advice, reason FROM decisions {others}")
    assert len(advice) == 3
    assert not {"withheld", "unknown", "too_little_data"} & {*advice.advice, *advice.reason}
