"""What the views of events find in constructed rows, and nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

from constructed import Row, at, row, viewed

from kip_replay.replay.log_tables import (
    BROKER_HEARTBEATS,
    CONFIGS,
    FETCHES,
    ISR_CHANGES,
    LOG_GAPS,
    METADATA_OFFSETS,
    REQUESTS,
    TOPICS,
)
from kip_replay.replay.table import Table


def found(tables: Mapping[Table, Sequence[Row]], query: str) -> list[tuple[Any, ...]]:
    with viewed(tables) as session:
        return session.execute(query).fetchall()


def events(tables: Mapping[Table, Sequence[Row]]) -> list[tuple[Any, ...]]:
    """Seconds, kind, node and text of the events, in order."""
    second = f"(epoch_us(event_at) - {at(0).timestamp() * 1e6}) / 1e6"
    return found(tables, f"SELECT {second}, kind, node_id, what FROM cluster_events ORDER BY ALL")


def raft_fetch(second: float, node_id: int, epoch: int, error: int = 0) -> Row:
    sent, returned = [{"current_leader_epoch": epoch}], [{"error_code": error}]
    partitions: Row = {"request_partitions": sent, "response_partitions": returned}
    of: Row = {"node_id": node_id, "built_at": at(second), "error_code": 0}
    return row(FETCHES, is_cluster_metadata=True, **of, **partitions)


def test_who_leads_the_metadata_log() -> None:
    fetches = [
        raft_fetch(1, 1, 7),
        raft_fetch(2, 2, 8, error=6),  # it does not lead yet
        raft_fetch(3, 2, 8),
        raft_fetch(4, 2, 8),
        raft_fetch(5, 1, 7, error=74),
    ]
    expected = "controller 2 leads the metadata log (epoch 8)"
    assert events({FETCHES: fetches}) == [(3, "metadata_leader", 2, expected)]


def partition(second: float, isr: list[int] | None, witness: int | None = None, **more: Any) -> Row:
    line: Row = {"node_id": witness or 1, "built_at": at(second), "error_code": 0}
    line["source"] = "METADATA" if witness else "ALTER_PARTITION"
    of: Row = {"topic": "t", "topic_id": "id of t", "partition": 0}
    state: Row = {"leader_id": 11, "leader_epoch": 5, "isr": isr}
    return row(ISR_CHANGES, **(line | of | state | more))


NAMED = row(TOPICS, node_id=1, topic="t", topic_id="id of t", built_at=at(0), source="METADATA")


def test_replicas_fall_out_of_an_isr_and_come_back() -> None:
    changes = [
        partition(1, [11, 12, 13], witness=12),
        # Brokers that have not heard of it yet, and one that has, change nothing.
        partition(2, [11], topic="id of t"),
        partition(2.1, [11, 12, 13], witness=13),
        partition(2.2, [11], witness=12),
        partition(3, None, error_code=6),
        partition(4, [12, 11], topic="id of t"),
        partition(5, [11, 12, 13], witness=12),
        # What a controller does itself has no line but METADATA, of a broker that knows by now.
        partition(9, [11, 13], witness=14),
    ]
    assert events({ISR_CHANGES: changes, TOPICS: [NAMED]}) == [
        (2, "isr_shrink", 12, "ISR of t-0 shrank: without 12"),
        (2, "isr_shrink", 13, "ISR of t-0 shrank: without 13"),
        (4, "isr_expansion", 12, "ISR of t-0 grew: with 12"),
        (5, "isr_expansion", 13, "ISR of t-0 grew: with 13"),
        (9, "isr_shrink", 12, "ISR of t-0 shrank: without 12"),
    ]


def test_elections_of_partition_leaders() -> None:
    changes = [
        partition(1, [11, 12], witness=12),
        partition(2, [11, 12], leader_epoch=6),  # a new epoch of the same leader
        partition(3, None, witness=12, leader_id=-1, leader_epoch=7, error_code=5),
        partition(4, [11, 12], witness=13),  # stale
        partition(5, [11, 12], leader_id=12, leader_epoch=8),
        # Another topic of this name, before.
        partition(0, [11, 12], topic_id="old id", leader_id=13, leader_epoch=4),
    ]
    assert events({ISR_CHANGES: changes, TOPICS: [NAMED]}) == [
        (3, "partition_leader", None, "t-0 has no leader"),
        (5, "partition_leader", 12, "12 leads t-0"),
    ]


def heartbeat(second: float, is_fenced: bool = False, epoch: int = 9, **more: Any) -> Row:
    usual: Row = {"node_id": 1, "built_at": at(second), "error_code": 0}
    usual |= {"broker_id": 12, "broker_epoch": epoch, "is_fenced": is_fenced}
    usual |= dict.fromkeys(("want_shut_down", "should_shut_down"), False)
    return row(BROKER_HEARTBEATS, **(usual | more))


def test_a_broker_that_starts_falls_silent_and_shuts_down() -> None:
    of = {"subject_id": 12, "kind": "broker_epoch", "metadata_offset": 40}
    registered = row(METADATA_OFFSETS, node_id=1, built_at=at(50), **of)
    beats = [
        heartbeat(1),
        heartbeat(3, error_code=41, is_fenced=True),
        heartbeat(9.5),
        *(heartbeat(second, broker_id=13) for second in range(10, 54, 2)),
        heartbeat(20),  # more than 9 s, and than 1.125 s beyond
        heartbeat(22, want_shut_down=True),
        heartbeat(23, is_fenced=True, want_shut_down=True, should_shut_down=True),
        heartbeat(51, is_fenced=True, epoch=40),
        heartbeat(52, epoch=40),
    ]
    silent = "broker 12 sent no heartbeat for 9 s: fenced, unless its session timeout is longer"
    assert events({BROKER_HEARTBEATS: beats, METADATA_OFFSETS: [registered]}) == [
        (18.5, "broker_fenced", 12, silent),
        (20, "broker_unfenced", 12, "broker 12 is no longer fenced"),
        (22, "controlled_shutdown", 12, "broker 12 shuts down"),
        (23, "broker_fenced", 12, "broker 12 is fenced"),
        (50, "broker_started", 12, "broker 12 started (broker epoch 40)"),
        (52, "broker_unfenced", 12, "broker 12 is no longer fenced"),
    ]


def change(second: float, node_id: int, is_forwarded: bool, **more: Any) -> list[tuple[Table, Row]]:
    line: Row = {"node_id": node_id, "built_at": at(second), "error_code": 0}
    line["source"] = "INCREMENTAL_ALTER_CONFIGS"
    of: Row = {"resource_type": "topic", "resource_name": "t", "name": "retention.ms"}
    config = row(CONFIGS, **(line | of | {"value": "1000", "operation": "set"} | more))
    sender: Row = {"client_id": "admin", "principal": "User:alice", "correlation_id": 3}
    place: Row = {"request_id": config["request_id"], "source_file": "x", "line_number": 1}
    return [
        (CONFIGS, config),
        (REQUESTS, row(REQUESTS, **place, **sender, is_forwarded=is_forwarded)),
    ]


def test_config_changes_count_once_though_brokers_forward_them() -> None:
    made = [
        *change(1.5, 11, False),  # forwarded to the controller
        *change(1, 1, True),
        *change(100, 11, False, operation="delete", value=None),  # the same ids, much later
        *change(101, 1, False, operation="describe"),
        *change(102, 1, False, source="CREATE_TOPICS"),
        *change(103, 1, False, error_code=29),
        *change(104, 1, False, resource_type="broker", resource_name="12", value="2"),
    ]
    tables: dict[Table, list[Row]] = {CONFIGS: [], REQUESTS: []}
    for table, made_row in made:
        tables[table].append(made_row)
    by = "by User:alice (admin)"
    assert events(tables) == [
        (1, "config_change", None, f"topic t: set retention.ms = 1000, {by}"),
        (100, "config_change", None, f"topic t: delete retention.ms, {by}"),
        (104, "config_change", 12, f"broker 12: set retention.ms = 2, {by}"),
    ]


def test_sessions_that_were_gone_and_gaps_in_logs() -> None:
    session = {"client_id": "c", "session_id": 7, "session_epoch": 3}
    gone = row(FETCHES, node_id=11, error_code=70, built_at=at(2), **session)
    around = {"after_at": at(3), "before_at": at(4)}
    gap = row(LOG_GAPS, node_id=12, number=1, evidence="session_epoch", **around)
    missing = row(LOG_GAPS, node_id=13, number=1, evidence="no_log")
    text = "broker 11 had no fetch session of c any more: evicted, or a restart"
    assert events({FETCHES: [gone], LOG_GAPS: [gap, missing]}) == [
        (2, "session_lost", 11, text),
        (3, "log_gap", 12, "the log of 12 has a gap"),
        (None, "log_gap", 13, "the log of 13 is missing"),
    ]


# --- clients: libraries, sessions, versions -------------------------------------------------------


def test_a_connection_is_its_librarys_from_its_first_line() -> None:
    lines, fetches = [], []

    def sent(connection: str, library: str, api: str = "FETCH", **fetch: int) -> None:
        of = {"node_id": 11, "client_id": "app", "connection": connection}
        lines.append(row(REQUESTS, **of, api_name=api, software_name=library, is_forwarded=False))
        if fetch:
            of |= {"request_id": lines[-1]["request_id"], "is_cluster_metadata": False}
            fetches.append(row(FETCHES, **of, error_code=0, **fetch))

    for connection in ("a", "b"):
        sent(connection, "unknown", "API_VERSIONS")
        sent(connection, "rdkafka", replica_id=-1, session_id=0, session_epoch=-1)
    sent("c", "java", replica_id=-1, session_id=0, session_epoch=0, response_session_id=0)
    sent("c", "java", replica_id=-1, session_id=5, session_epoch=1)
    sent("d", "unknown", replica_id=12, session_id=0, session_epoch=0, response_session_id=7)
    sent("e", "rdkafka", "PRODUCE")
    lines.append(lines[-1] | {"request_id": "forwarded", "is_forwarded": True})
    query = (
        "SELECT software_name, client_kind, connections, requests, fetches, produces, "
        "without_session, new_sessions, refused, incremental FROM client_software ORDER BY ALL"
    )
    assert found({REQUESTS: lines, FETCHES: fetches}, query) == [
        ("java", "consumer", 1, 2, 2, 0, 0, 1, 1, 1),
        ("rdkafka", "consumer", 2, 4, 2, 0, 2, 0, 0, 0),
        ("rdkafka", "producer", 1, 1, 0, 1, 0, 0, 0, 0),
        (None, "follower", 1, 1, 1, 0, 0, 1, 0, 0),
    ]


def test_who_uses_versions_that_a_release_no_longer_serves() -> None:
    def sent(host: str, api: str, version: int, **more: bool) -> Row:
        of = {"node_id": 11, "connection": f"a:1-{host}:2-0", "api_name": api} | more
        return row(REQUESTS, api_version=version, **of)

    old = [sent("old", "FETCH", 3, is_deprecated_version=True) for _ in range(2)]
    old += [sent("old", "FETCH", 4), sent("old", "JOIN_GROUP", 1), sent("old", "API_VERSIONS", 0)]
    others = [sent("new", "FETCH", 4), sent("new", "SHARE_FETCH", 0)]
    others += [sent("broker", "CREATE_TOPICS", 1), sent("broker", "ALLOCATE_PRODUCER_IDS", 0)]
    others += [sent("controller", "FETCH", 3, is_forwarded=True), sent("follower", "FETCH", 3)]
    fetches = [row(FETCHES, node_id=11, request_id=others[-1]["request_id"], replica_id=12)]
    query = (
        "SELECT COLUMNS('addr|api|lowest|requests|depr|from') FROM client_api_versions ORDER BY ALL"
    )
    assert found({REQUESTS: old + others, FETCHES: fetches}, query) == [
        ("new", "FETCH", 4, 1, 0, None, None, None),
        ("new", "SHARE_FETCH", 0, 1, 0, "4.1.0", 1, None),
        ("old", "FETCH", 3, 2, 2, "4.0.0", 4, None),
        ("old", "JOIN_GROUP", 1, 1, 0, "4.0.0", 2, "4.0.1"),
    ]
