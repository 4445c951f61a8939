"""The view of events on recordings shows what was done."""

import json
from collections import Counter

from recorded_logs import folder_of

from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.warehouse.tables import Warehouse


def done(recording: str) -> dict[str, float]:
    """What was done to the cluster, and when in seconds since 1970."""
    lines = (folder_of(recording) / "events.jsonl").read_text().splitlines()
    return {event["event"]: event["at"] for event in map(json.loads, lines)}


def test_events_are_what_was_done(finished: Warehouse) -> None:
    catalog = Catalog(finished.path, read_views())
    found: dict[tuple[str, str, int], list[float]] = {}
    for recording, kind, node_id, at in catalog.query(
        "SELECT recording, kind, node_id, epoch_us(event_at) / 1e6 FROM cluster_events "
        "ORDER BY event_at"
    ).rows:
        found.setdefault((recording, kind, node_id), []).append(at)
    frozen = done("freeze-4.1")
    fenced, _ = found["freeze-4.1", "broker_fenced", 13]  # and as it shuts down
    # Its last heartbeat was up to 2 s before.
    assert 7 < fenced - frozen["SIGSTOP broker 13"] < 9.1
    _, unfenced = found["freeze-4.1", "broker_unfenced", 13]
    assert 0 < unfenced - frozen["SIGCONT broker 13"] < 1
    # A controller that is stopped resigns first.
    [[elected]] = [at for (_, kind, _), at in found.items() if kind == "metadata_leader"]
    assert abs(elected - done("failover-4.0")["controller 1 stopped"]) < 1
    kinds = Counter(kind for _, kind, _ in found)
    assert kinds["broker_started"] == kinds["controlled_shutdown"] == 6


def test_the_slowest_requests_come_first(finished: Warehouse) -> None:
    catalog = Catalog(finished.path, read_views())
    times = [ms for (ms,) in catalog.query("SELECT slow_ms FROM slowest_requests LIMIT 20").rows]
    [[most]] = catalog.query("SELECT max(total_ms) FROM requests WHERE api_name <> 'FETCH'").rows
    assert times == sorted(times, reverse=True)
    assert times[0] >= most
