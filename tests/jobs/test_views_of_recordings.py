"""Views over time on recordings: they add up to the summaries, and show what was done."""

import json
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from recorded_logs import folder_of

from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

NAMES = ["failover-4.0", "freeze-4.1"]


@pytest.fixture(scope="module")
def session(finished: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    with finished.database(NAMES) as connection:
        create_views(connection, in_order(read_views(), TABLES))
        yield connection


def done(recording: str) -> dict[str, float]:
    """What was done to the cluster, and when in seconds since 1970."""
    lines = (folder_of(recording) / "events.jsonl").read_text().splitlines()
    return {event["event"]: event["at"] for event in map(json.loads, lines)}


def test_events_are_what_was_done(session: duckdb.DuckDBPyConnection) -> None:
    found: dict[tuple[str, str, int], list[float]] = {}
    for recording, kind, node_id, at in session.execute(
        "SELECT recording, kind, node_id, epoch_us(event_at) / 1e6 FROM cluster_events "
        "ORDER BY event_at"
    ).fetchall():
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
