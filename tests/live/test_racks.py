"""Consumers read from leaders, and from the replica in their rack: each predicts the other."""

from pathlib import Path

import pytest

from kip_replay.pipelines.analysis.predictions import accuracy_rows
from kip_replay.pipelines.warehouse.tables import Warehouse
from live.cluster import Cluster
from live.recorded import record, run
from live.workload import racks

_VERSION = "4.3.1"
_RACKS = {node: {"broker.rack": f"az{node - 10}"} for node in (11, 12, 13)}
_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.timeout(900)
def test_consumers_read_as_predicted_with_a_selector_and_without(tmp_path: Path) -> None:
    recordings = []
    for name, settings in (("leaders", {}), ("closest", {"replica.selector.class": _SELECTOR})):
        nodes = {"settings": settings, "settings_of": _RACKS}
        with Cluster(tmp_path / f"nodes-{name}", _VERSION, **nodes) as cluster:
            cluster.delay(broker_12=3, broker_13=8)
            recordings.append(record(cluster, tmp_path / name, racks, seed=1, seconds=70))
    warehouse = tmp_path / "warehouse"
    print(run(warehouse, recordings))
    rows = accuracy_rows(Warehouse(str(warehouse)), ["leaders", "closest"])
    judged = [r for r in rows if r["rule"] == "closest_replica" and r["passed"] is not None]
    for row in judged:
        names = ("predicted_from", "metric", "group_value", "predicted", "recorded", "passed")
        print(*(row[name] for name in names))
    exact = [
        r["passed"]
        for r in judged
        if r["metric"]
        in ("reads_as_recorded", "redirects_as_recorded", "record_bytes", "cross_zone_bytes")
    ]
    delays = [
        r["passed"] for r in judged if r["metric"].startswith("added_delay") and r["is_enough"]
    ]
    assert all(exact)
    assert len(exact) > 20
    assert sum(delays) >= 0.8 * len(delays) > 10
