"""Incidents of clients and of load in constructed rows, each at its limit; unused topics."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from constructed import Row, at, engine_on, row, viewed

from kip_replay.jobs._cli import read_config
from kip_replay.pipelines.analysis.health import FILES, PARTS
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.engines.translation import spark_sql
from kip_replay.replay import log_tables as log
from kip_replay.replay.table import Table

Tables = Mapping[Table, Sequence[Row]]
CLIENT, NAME = "it's {client} \\ %s", "a' b"
LIMITS, TO, LOAD = read_config(None, [])["incidents"], "of_clients", "of_load"
GIVEN = {part: text for part, text in PARTS.items() if part != "health_spans"}
TEXTS = {name: Text.read(FILES[name], GIVEN, **LIMITS) for name in (TO, LOAD)}
ROWS = "kind", "subjects", "count", "population", "cause", "caused_by", "node_id", "clients"


def found(name: str, tables: Tables) -> list[Row]:
    us = [round(at(second).timestamp() * 1e6) for second in (0, 1000)]
    spans = pa.table({"recording": ["r"], "from_us": us[:1], "until_us": us[1:]})
    engine = engine_on(tables, {"health_spans": spans})
    return list(engine.rows(TEXTS[name], ["r"]).to_pylist())


def sent(second: float, api: str = "PRODUCE", number: int = 0, host: int = 0, **more: Any) -> Row:
    of: Row = {"node_id": 11, "client_id": CLIENT, "connection": f"b:9092-h{host}:{number}-0-1"}
    of |= {"api_name": api, "is_forwarded": False, "principal": "User:o'clock", **more}
    return row(log.Requests, **of, received_at=at(second), completed_at=at(second + 0.001))


def storm(number: int, seconds: float, hosts: int = 1, lives: float = 1, more: int = 0) -> Tables:
    """Connections of two METADATA each, over some seconds, and a few that stay."""
    opened = [(n * seconds / (number - 1), n, lives) for n in range(number)]
    opened += [(1, number + n, 60) for n in range(more)]
    moments = [(s + later, n) for s, n, life in opened for later in (0, life - 0.002)]
    return {log.Requests: [sent(second, "METADATA", n, n % hosts) for second, n in moments]}


def failing(
    code: int, number: int, every: float = 0.1, api: str = "PRODUCE", more: int = 0
) -> Tables:
    """Requests that fail, one after the other, and some that do not."""
    requests = [sent(n * every, api) for n in range(number)]
    partition: Row = {"topic": NAME, "partition": 0, "error_code": code}
    asked: Row = {"request_partitions": [partition | {"fetch_offset": 7}], "replica_id": -1}
    bodies: dict[str, tuple[Table, Row]] = {
        "PRODUCE": (log.Produces, {"partitions": [partition]}),
        "FETCH": (log.Fetches, {**asked, "response_partitions": [partition]}),
        "METADATA": (log.Topics, {"topic": NAME, "error_code": code, "source": api}),
        "HEARTBEAT": (log.GroupRequest, {"group_id": "g", "member_id": "m", "error_code": code}),
    }
    table, body = bodies[api]
    rows = [row(table, node_id=11, **body) | {"request_id": r["request_id"]} for r in requests]
    return {log.Requests: [*requests, *[sent(0.05, api)] * more], table: rows}


def throttled(number: int, ms: float) -> Tables:
    return {log.Requests: [sent(n, throttle_ms=ms) for n in range(number)]}


def busy(requests: int, seconds: int, ms: float) -> Tables:
    moments = [second + n / requests for second in range(0, seconds, 10) for n in range(requests)]
    return {log.Requests: [sent(second, local_ms=ms, request_queue_ms=0) for second in moments]}


def missing(error_code: int) -> Tables:
    tables = failing(3, 3, api="METADATA")
    later = row(log.Topics, node_id=12, topic=NAME, error_code=error_code)
    return {**tables, log.Topics: [*tables[log.Topics], later]}


BY, FAILED, AT = "User:o'clock", "failing_requests", (11, [CLIENT])
STORM = ("connection_storm", [CLIENT], 30, 60, None, CLIENT, 11, [])
MISSING = ("missing_topic", [NAME], 3, 3, "UNKNOWN_TOPIC_OR_PARTITION", None, *AT)
AGAIN = (FAILED, ["FETCH"], 10, 10, "OFFSET_OUT_OF_RANGE, the same offset again", None, *AT)
INVALID = (FAILED, ["PRODUCE"], 10, 10, "INVALID_RECORD", None, *AT)
MOVED = (FAILED, ["PRODUCE"], 51, 51, "NOT_LEADER_OR_FOLLOWER", None, *AT)
REFUSED = (FAILED, [NAME], 1, 1, "TOPIC_AUTHORIZATION_FAILED", BY, *AT)
UNSAFE = ("not_enough_replicas", [NAME], 1, 1, "NOT_ENOUGH_REPLICAS", None, *AT)
SLOWED = ("throttled", [CLIENT])
BUSY = ("saturated", ["11"], 200, None, "local", None, *AT)
GAP = row(log.LogGaps, node_id=11, number=1, evidence="filtered")
CASES: list[tuple[str, Tables, Tables, tuple[Any, ...]]] = [
    (TO, storm(30, 30), storm(30, 30.1), STORM),
    (TO, storm(30, 10), storm(30, 9.9), STORM),
    (TO, storm(30, 29), storm(29, 28), STORM),
    (TO, storm(30, 29, hosts=3), storm(30, 29, hosts=4), STORM),
    (TO, storm(30, 29, lives=10), storm(30, 29, lives=10.01), STORM),
    (TO, storm(30, 29, more=3), storm(30, 29, more=4), STORM),
    (TO, storm(30, 29), {**storm(30, 29), log.LogGaps: [GAP]}, STORM),
    (TO, missing(3), missing(0), MISSING),
    (TO, failing(1, 10, 10, api="FETCH"), failing(1, 10, 10.1, api="FETCH"), AGAIN),
    (TO, failing(87, 10), failing(87, 9), INVALID),
    (TO, failing(87, 10), failing(87, 10, more=991), INVALID),
    (TO, failing(6, 51, 0.1), failing(6, 51, 0.099), MOVED),
    (TO, failing(29, 1), failing(27, 99, api="HEARTBEAT"), REFUSED),
    (TO, failing(19, 1), failing(74, 49), UNSAFE),
    (TO, throttled(10, 1), throttled(9, 1), (*SLOWED, 10, 10, None, None, *AT)),
    (TO, throttled(1, 1000), throttled(1, 999), (*SLOWED, 1, 1, None, None, *AT)),
    (LOAD, busy(100, 20, 100), busy(100, 20, 99.9), BUSY),
    (LOAD, busy(100, 20, 100), busy(99, 20, 100), BUSY),
    (LOAD, busy(100, 20, 100), busy(100, 10, 100), BUSY),
]


@pytest.mark.parametrize(("name", "tables", "under", "expected"), CASES)
def test_an_incident_from_its_limit_on(
    name: str, tables: Tables, under: Tables, expected: tuple[Any, ...]
) -> None:
    [incident] = found(name, tables)
    assert tuple(incident[column] for column in ROWS) == expected
    assert found(name, under) == []


def test_texts_are_translated_for_spark() -> None:
    assert all(map(spark_sql, TEXTS.values()))


def test_topics_that_nobody_uses() -> None:
    """An old fetch session may have any topic; a gap may hide all that is not in other lines."""
    of: Row = {"node_id": 11, "recording": "r"}
    topics = [row(log.Topics, **of, topic=name, partitions=2, error_code=0) for name in ("t", NAME)]
    topics.append(row(log.Topics, **of, topic="i", is_internal=True, error_code=0))
    sent_ = row(log.Produces, **of, partitions=[{"topic": NAME, "partition": 0}])
    tables = {log.Topics: topics, log.Produces: [sent_]}
    old = row(log.Fetches, **of, replica_id=-1, session_id=7, session_epoch=3)
    for more, expected in (
        ({}, [(NAME, 2, True, False), ("t", 2, False, False)]),
        ({log.Fetches: [old]}, [("t", 2, False, None)]),
        ({log.LogGaps: [GAP]}, []),
    ):
        with viewed({**tables, **more}) as session:
            rows = session.execute("SELECT * EXCLUDE recording FROM unused_topics ORDER BY topic")
            assert rows.fetchall() == expected
