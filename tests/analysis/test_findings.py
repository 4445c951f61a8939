"""Findings of constructed rows: each from its limits on, whatever names are."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from constructed import Row, at, row, viewed

from kip_replay.jobs._cli import read_config
from kip_replay.replay.incremental_fetch.outcomes import Sent as POLLS
from kip_replay.replay.log_tables import Fetches, Produces, Requests
from kip_replay.replay.min_isr_acks.outcomes import ProduceAckOutcome as ACKS
from kip_replay.replay.table import Table
from kip_replay.replay.tables import Incidents, Usage

Tables = Mapping[Table, Sequence[Row]]
CLIENT = "it's {subject} \\ %s"
OF: Row = {"recording": "o'clock", "node_id": 11, "client_id": CLIENT}
SPAN = row(Requests, **OF, received_at=at(0), completed_at=at(10))
WHO = dict.fromkeys(("principal", "software", "group_id", "zone"), "-")
USED: Tables = {Usage: [row(Usage, **OF, **WHO, is_client=True, api_name="FETCH", requests=1)]}


def fetched(second: float, offset: int, high_watermark: int) -> Row:
    of: Row = {"topic": "t", "partition": 0, "error_code": 0, "high_watermark": high_watermark}
    lists = {"request_partitions": [of | {"fetch_offset": offset}], "response_partitions": [of]}
    return row(Fetches, **OF, **lists, replica_id=-1, connection="c", built_at=at(second))


def behind(most: int) -> Tables:
    return {Fetches: [fetched(1, 0, 10), fetched(9, 10_000 - most, 10_010), fetched(5, 4, 9)]}


def polled(number: int) -> Tables:
    of: Row = {"rule": "a", "variant": "recorded", "session_key": "1", "client_kind": "consumer"}
    return {POLLS: [row(POLLS, **OF, **of, record_bytes=0) for _ in range(number)], **USED}


def produced(number: int, size: int) -> Tables:
    partitions = [{"topic": "t", "partition": 0, "record_bytes": size}]
    return {Produces: [row(Produces, **OF, partitions=partitions) for _ in range(number)], **USED}


def opened(number: int, fetches: int) -> Tables:
    """A client that opens a fetch session with some of its FETCHes."""
    of: Row = {**OF, "is_cluster_metadata": False, "error_code": 0, "response_session_id": 7}
    return {Fetches: [row(Fetches, **of, session_epoch=int(n >= number)) for n in range(fetches)]}


#: Each at its limits: what is found, and with which setting it no longer is.
CASES = [
    (behind(1000), ("consumer_lag", "t", 1000, 10_000), "lag_records_min=1001"),
    (polled(500), ("idle_polling", None, 500, 500), "idle_per_second_min=51"),
    (opened(15, 30), ("new_sessions", None, 15, 30), "new_session_share_min=0.6"),
    (produced(1000, 1000), ("tiny_batches", None, 1000, 1000), "tiny_bytes_max=999"),
]


@pytest.mark.parametrize(("tables", "expected", "setting"), CASES)
def test_a_finding_from_its_limits_on(tables: Tables, expected: Any, setting: str) -> None:
    query = "SELECT subject, code, detail, count, population, statement FROM findings"
    with viewed({Requests: [SPAN], **tables}) as session:
        [(*finding, statement)] = session.execute(query).fetchall()
        assert finding == [CLIENT, *expected]
        assert session.execute(f"SELECT 1 FROM ({statement})").fetchall()
    limits = read_config(None, [f"findings.{setting}"])["findings"]
    with viewed({Requests: [SPAN], **tables}, limits) as session:
        assert session.execute(query).fetchall() == []


@pytest.mark.parametrize("tables", [polled(29), opened(29, 29), produced(29, 10)])
def test_a_rate_of_few_is_no_finding(tables: Tables) -> None:
    limits = read_config(None, ["findings.idle_per_second_min=1", "findings.tiny_per_second_min=1"])
    with viewed({Requests: [SPAN], **tables}, limits["findings"]) as session:
        assert session.execute("FROM findings").fetchall() == []


def happened(number: int, kind: str, *subjects: str, **more: Any) -> Row:
    of: Row = {"recording": "o'clock", "subjects": [*subjects], "begin_at": at(number)}
    return row(Incidents, **{**of, "number": number, "kind": kind, "count": len(subjects), **more})


def test_incidents_are_found_once_with_what_followed_and_the_worst_first() -> None:
    rows = [
        happened(1, "rolling_restart", "broker 1", "broker 2", is_planned=True),
        *(happened(n, "rebalance", CLIENT, is_planned=False, cause="lost") for n in (2, 3)),
        happened(4, "node_froze", "broker 13", is_planned=False),
        happened(5, "under_replicated", "t-0", is_planned=False, cause_number=4),
        happened(6, "node_restarted", "broker 11", is_planned=True),
        happened(7, "offline_partitions", "u-0", is_planned=True, cause_number=6),
    ]
    with viewed({Requests: [SPAN], Incidents: rows}) as session:
        found = session.execute("SELECT code, subject, count, incident FROM findings ORDER BY rank")
        assert found.fetchall() == [
            ("node_restarted", "broker 11", 1, 6),
            ("node_froze", "broker 13", 1, 4),
            ("rebalance", CLIENT, 2, 2),
            ("rolling_restart", "broker 1 and 1 more", 2, 1),
        ]


@pytest.mark.parametrize(("built", "found"), [(1.03, 1), (1.02, 0)], ids=["acks=all", "KIP-926"])
def test_a_follower_that_nobody_waited_for_is_no_finding(built: float, found: int) -> None:
    """Whose FETCH came 30 ms after the append, where responses were built then, or sooner."""
    times = {"appended_at": at(1), "all_isr_acked_at": at(1.03), "built_at": at(built)}
    of: Row = {"rule": "a", "variant": "acks", "topic": "t", "partition": 0, "acks": -1}
    of |= {"isr": [11, 12, 13], "acks_all_follower_id": 13, **times}
    rows = [row(ACKS, **OF, **of) for _ in range(10)]
    with viewed({Requests: [SPAN], ACKS: rows}) as session:
        findings = session.execute("SELECT subject, count, amount FROM findings").fetchall()
    assert findings == [("13", 10, 30.0)] * found
