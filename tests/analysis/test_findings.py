"""Findings of constructed rows: each from its limits on, whatever names are."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from constructed import Row, at, row, viewed

from kip_replay.jobs._config import read_config
from kip_replay.replay.incremental_fetch.outcomes import FETCH_SESSION_OUTCOMES as POLLS
from kip_replay.replay.log_tables import (
    BROKER_HEARTBEATS,
    FETCHES,
    ISR_CHANGES,
    LOG_GAPS,
    METADATA_OFFSETS,
    PRODUCES,
    REQUESTS,
)
from kip_replay.replay.min_isr_acks.outcomes import PRODUCE_ACK_OUTCOMES as ACKS
from kip_replay.replay.table import Table

Tables = Mapping[Table, Sequence[Row]]
CLIENT = "it's {subject} \\ %s"
MOVED = "PRODUCE: NOT_LEADER_OR_FOLLOWER"
OF: Row = {"recording": "o'clock", "node_id": 11, "client_id": CLIENT}
SPAN = row(REQUESTS, **OF, received_at=at(0), completed_at=at(10))


def fetched(second: float, offset: int, high_watermark: int) -> Row:
    of: Row = {"topic": "t", "partition": 0, "error_code": 0, "high_watermark": high_watermark}
    lists = {"request_partitions": [of | {"fetch_offset": offset}], "response_partitions": [of]}
    return row(FETCHES, **OF, **lists, replica_id=-1, connection="c", built_at=at(second))


def behind(most: int) -> Tables:
    return {FETCHES: [fetched(1, 0, 10), fetched(9, 10_000 - most, 10_010), fetched(5, 4, 9)]}


def polled(number: int) -> Tables:
    of: Row = {"rule": "a", "variant": "recorded", "session_key": "1", "client_kind": "consumer"}
    return {POLLS: [row(POLLS, **OF, **of, record_bytes=0) for _ in range(number)]}


def produced(number: int, size: int) -> Tables:
    partitions = [{"topic": "t", "partition": 0, "record_bytes": size}]
    return {PRODUCES: [row(PRODUCES, **OF, partitions=partitions) for _ in range(number)]}


def failed(number: int, every: int) -> Tables:
    """Of so many requests, each of which names two topics."""
    sent: Row = {"api_name": "PRODUCE", "api_version": 9, "connection": "a:1-b:2-0-0"}
    requests = [row(REQUESTS, **OF, **sent, is_forwarded=False) for _ in range(every)]
    partitions = [{"topic": topic, "partition": 0, "error_code": 6} for topic in "tu"]
    lines = [
        row(PRODUCES, **OF, partitions=partitions) | {"request_id": request["request_id"]}
        for request in requests[:number]
    ]
    return {REQUESTS: [SPAN, *requests], PRODUCES: lines}


def opened(number: int, fetches: int) -> Tables:
    """A client that opens a fetch session with some of its FETCHes."""
    of: Row = {**OF, "is_cluster_metadata": False, "error_code": 0, "response_session_id": 7}
    return {FETCHES: [row(FETCHES, **of, session_epoch=int(n >= number)) for n in range(fetches)]}


#: Each at its limits: what is found, and with which setting it no longer is.
CASES = [
    (behind(1000), ("consumer_lag", "t", 1000, 10_000), "lag_records_min=1001"),
    (polled(500), ("idle_polling", None, 500, 500), "idle_per_second_min=51"),
    (opened(15, 30), ("new_sessions", None, 15, 30), "new_session_share_min=0.6"),
    (produced(1000, 1000), ("tiny_batches", None, 1000, 1000), "tiny_bytes_max=999"),
    (failed(10, 1000), ("failing_client", MOVED, 10, 1000), "count_min=11"),
]


@pytest.mark.parametrize(("tables", "expected", "setting"), CASES)
def test_a_finding_from_its_limits_on(tables: Tables, expected: Any, setting: str) -> None:
    query = "SELECT subject, code, detail, count, population, statement FROM findings"
    with viewed({REQUESTS: [SPAN], **tables}) as session:
        [(*finding, statement)] = session.execute(query).fetchall()
        assert finding == [CLIENT, *expected]
        assert session.execute(f"SELECT 1 FROM ({statement})").fetchall()
    limits = read_config(None, [f"findings.{setting}"])["findings"]
    with viewed({REQUESTS: [SPAN], **tables}, limits) as session:
        assert session.execute(query).fetchall() == []


@pytest.mark.parametrize("tables", [polled(29), opened(29, 29), produced(29, 10)])
def test_a_rate_of_few_is_no_finding(tables: Tables) -> None:
    limits = read_config(None, ["findings.idle_per_second_min=1", "findings.tiny_per_second_min=1"])
    with viewed({REQUESTS: [SPAN], **tables}, limits["findings"]) as session:
        assert session.execute("FROM findings").fetchall() == []


def frozen(*more: Row, own_lines: Sequence[float] = (29, 44)) -> dict[Table, list[Row]]:
    """Broker 13 is silent for 14 s, while another sends heartbeats; then it leads no more."""
    seconds = {13: [*range(0, 30, 2), *range(44, 60, 2)], 12: range(60)}
    of: Row = {"node_id": 1, "error_code": 0, "is_fenced": False, "should_shut_down": False}
    beats = [
        row(BROKER_HEARTBEATS, **of, broker_id=broker, broker_epoch=5, built_at=at(second))
        for broker, when in seconds.items()
        for second in when
    ]
    lines = [
        row(REQUESTS, node_id=node, received_at=at(second), completed_at=at(second))
        for node, when in {13: own_lines, 1: (0, 60)}.items()
        for second in when
    ]
    leader: Row = {"node_id": 12, "topic": "t", "partition": 0, "source": "METADATA"}
    leaders = [
        row(ISR_CHANGES, **leader, built_at=at(s), leader_id=who, leader_epoch=epoch, error_code=0)
        for s, who, epoch in ((20, 13, 1), (38, 12, 2))
    ]
    tables = {BROKER_HEARTBEATS: beats, REQUESTS: lines, ISR_CHANGES: leaders}
    for of_table in (LOG_GAPS, METADATA_OFFSETS):
        tables[of_table] = [r for r in more if r.keys() == {*of_table.arrow_schema.names}]
    return tables


def gap(evidence: str, node_id: int, after: float, before: float) -> Row:
    of: Row = {"evidence": evidence, "after_at": at(after), "before_at": at(before)}
    return row(LOG_GAPS, node_id=node_id, number=1, **of)


RESTARTED = row(
    METADATA_OFFSETS,
    node_id=1,
    subject_id=13,
    kind="broker_epoch",
    metadata_offset=9,
    built_at=at(43),
)


FENCED = {
    "broker_froze": [frozen()],
    "broker_died": [frozen(RESTARTED), frozen(own_lines=[29])],
    "broker_fenced": [
        frozen(own_lines=[29, 36, 38]),
        frozen(gap("correlation_id", 13, 29, 44)),
    ],
    # Its heartbeats may be among what is missing, and so may a shutdown.
    None: [
        frozen(gap("correlation_id", 1, 31, 43)),
        frozen(gap("correlation_id", 1, 5, 9)),
        frozen(gap("sampled", 1, 0, 60)),
    ],
}


def test_a_fenced_broker() -> None:
    """Leaders that move from it are no finding of their own."""
    cases = [(code, tables) for code, of_code in FENCED.items() for tables in of_code]
    tables = {
        table: [r | {"recording": str(n)} for n, (_, of) in enumerate(cases) for r in of[table]]
        for table in cases[0][1]
    }
    seconds = f"(epoch_us(event_at) - {at(0).timestamp() * 1e6}) / 1e6"
    with viewed(tables) as session:
        rows = session.execute(f"SELECT recording, code, {seconds} FROM findings ORDER BY ALL")
        assert rows.fetchall() == [(str(n), code, 37) for n, (code, _) in enumerate(cases) if code]


@pytest.mark.parametrize(("built", "found"), [(1.03, 1), (1.02, 0)], ids=["acks=all", "KIP-926"])
def test_a_follower_that_nobody_waited_for_is_no_finding(built: float, found: int) -> None:
    """Whose FETCH came 30 ms after the append, where responses were built then, or sooner."""
    times = {"appended_at": at(1), "all_isr_acked_at": at(1.03), "built_at": at(built)}
    of: Row = {"rule": "a", "variant": "acks", "topic": "t", "partition": 0, "acks": -1}
    of |= {"isr": [11, 12, 13], "acks_all_follower_id": 13, **times}
    rows = [row(ACKS, **OF, **of) for _ in range(10)]
    with viewed({REQUESTS: [SPAN], ACKS: rows}) as session:
        findings = session.execute("SELECT subject, count, amount FROM findings").fetchall()
    assert findings == [("13", 10, 30.0)] * found
