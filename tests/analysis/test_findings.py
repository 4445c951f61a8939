"""Findings of constructed rows: each from its limits on, whatever names are."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from constructed import Row, at, row, viewed

from kip_replay.jobs._config import read_config
from kip_replay.replay.incremental_fetch.outcomes import FETCH_SESSION_OUTCOMES as POLLS
from kip_replay.replay.log_tables import FETCHES, PRODUCES, REQUESTS
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
    return {POLLS: [row(POLLS, **OF, **of, request_bytes=60) for _ in range(number)]}


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


#: Each at its limits: what is found, and with which setting it no longer is.
CASES = [
    (behind(1000), ("consumer_lag", "t", 1000, 10_000), "lag_records_min=1001"),
    (polled(500), ("idle_polling", None, 500, 500), "idle_per_second_min=51"),
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
