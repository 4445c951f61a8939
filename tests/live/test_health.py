"""A bad day: a member of a group is killed, and a partition has no leader; both are found."""

import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

import kip_replay as kr
from live import workload
from live.cluster import Cluster
from live.recorded import collected, run

pytestmark = pytest.mark.short


def _wait_for_leader(admin: Any, *, is_there: bool) -> None:
    """Requests METADATA until the partition of broker 13 has a leader, or has none."""
    while (admin.list_topics("single").topics["single"].partitions[2].leader >= 0) != is_there:
        time.sleep(0.5)


def test_a_killed_member_and_an_offline_partition(tmp_path: Path) -> None:
    with Cluster(tmp_path / "nodes", "4.3.1", level="DEBUG") as cluster:
        workload.prepare(cluster)
        admin, stop = workload._admin(cluster), threading.Event()
        single = NewTopic("single", 3, replica_assignment=[[11], [12], [13]])
        admin.create_topics([single])["single"].result()
        of: Any = {"target": workload.consume, "args": (cluster, stop)}
        killed = {"client_id": "killed", "session_timeout_ms": "6000"}
        member = multiprocessing.get_context("fork").Process(**of, kwargs=killed)
        member.start()
        other = threading.Thread(**of, kwargs={"client_id": "stays"})
        other.start()
        time.sleep(15)
        member.kill()
        killed_at = time.time()
        time.sleep(15)
        stop.set()
        other.join()
        stopped_at = time.time()
        cluster.stop(13)
        _wait_for_leader(admin, is_there=False)
        cluster.start(13)
        _wait_for_leader(admin, is_there=True)
        recording = collected(cluster, tmp_path / "logs", "bad-day")
    run(tmp_path / "warehouse", [recording])
    found = kr.open(str(tmp_path / "warehouse")).table("incidents").to_dict("records")
    lost = [row for row in found if row["cause"] == "lost"]
    assert [(row["kind"], row["caused_by"]) for row in lost] == [("rebalance", "killed")]
    assert killed_at < lost[0]["begin_at"].timestamp() < killed_at + 10
    (offline,) = [row for row in found if row["kind"] == "offline_partitions"]
    assert [*offline["subjects"]] == ["single-2"]
    assert stopped_at < offline["begin_at"].timestamp() < offline["end_at"].timestamp()
