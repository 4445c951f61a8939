"""Views over time on recordings: they add up to the summaries, and show what was done."""

import json
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from recorded_logs import folder_of

from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.page.view import Timeline
from kip_replay.pipelines.replaying.phases import steady_phases
from kip_replay.pipelines.report.timeline import timelines, traffic_timeline
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

NAMES = ["failover-4.0", "freeze-4.1"]


@pytest.fixture(scope="module")
def session(finished: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    with finished.database(NAMES) as connection:
        create_views(connection, in_order(read_views(), TABLES))
        yield connection


def both(session: duckdb.DuckDBPyConnection, one: str, other: str) -> None:
    """Two queries have the same rows, and some."""
    rows = [sorted(session.execute(query).fetchall()) for query in (one, other)]
    assert rows[0] == rows[1]
    assert rows[0]


def test_lags_add_up_to_latency_summary(session: duckdb.DuckDBPyConnection) -> None:
    both(
        session,
        "SELECT recording, variant, replica_kind, sum(steady) FROM lag_over_time GROUP BY ALL",
        "SELECT recording, variant, group_value, count + unknown_count FROM latency_summary "
        "WHERE metric = 'high_watermark_lag' AND group_kind = 'replica_kind' "
        "AND parameter = 'none'",
    )


def test_bytes_add_up(finished: Warehouse, session: duckdb.DuckDBPyConnection) -> None:
    both(
        session,
        "SELECT recording, node_id, direction, sum(bytes) FROM bytes_per_second GROUP BY ALL",
        "SELECT recording, node_id, 'request', coalesce(sum(request_bytes), 0) FROM requests "
        "GROUP BY ALL UNION ALL "
        "SELECT recording, node_id, 'response', coalesce(sum(response_bytes), 0) FROM requests "
        "GROUP BY ALL",
    )
    outside = " UNION ALL ".join(
        f"SELECT variant, client_kind, request_bytes * (epoch_us(dequeued_at) NOT BETWEEN {of}"
        f")::int + response_bytes * (epoch_us(built_at) NOT BETWEEN {of} OR "
        f"epoch_us(dequeued_at) NOT BETWEEN {of})::int AS bytes "
        f"FROM fetch_session_outcomes WHERE recording = '{name}' AND parameter = 'none'"
        for name, phase in steady_phases(Local(finished), NAMES).items()
        for of in [f"{phase.from_us} AND {phase.until_us - 1}"]
    )
    both(
        session,
        "SELECT variant, client_kind, sum(request_bytes + response_bytes) "
        "FROM fetch_bytes_over_time GROUP BY ALL",
        f"""SELECT variant, client_kind, sum(bytes) FROM (
            SELECT variant, client_kind, bytes FROM bandwidth_summary
            WHERE rule = 'incremental_fetch' AND parameter = 'none' UNION ALL {outside})
        GROUP BY ALL""",
    )


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


def test_charts_of_recordings(session: duckdb.DuckDBPyConnection) -> None:
    for name in NAMES:
        [lag], traffic = (
            timelines(session, Timeline.of("hwm_parking"), name),
            traffic_timeline(session, name),
        )
        assert len(lag.lines) == 6
        assert len(traffic) == 4
        assert all(50 < len(line.x) <= 240 for chart in traffic for line in chart.lines)
        assert 5 < len(lag.marks) <= 100
