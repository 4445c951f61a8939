"""Usage of constructed lines: who sent them, and what is shared out to the byte."""

from typing import Any

import pyarrow as pa
import pytest
from constructed import Row, at, engine_on, row, viewed

from kip_replay.pipelines.analysis.health import PARTS, USAGE
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.report import marks
from kip_replay.pipelines.report.pages import stated
from kip_replay.replay.log_tables import Brokers, Fetches, GroupRequest, Produces, Requests
from kip_replay.replay.table import Table
from kip_replay.replay.tables import BandwidthSummary, TopicUsage, Usage

HOSTILE = 'it\'s <script>"%s" \\ {{ topic }}'
ZONES = pa.schema({"recording": pa.string(), "request_id": pa.string(), "zone": pa.string()})
ZONES = ZONES.append(pa.field("dollars_per_gb", pa.float64()))


def sent(request_id: str, port: int = 1, **values: Any) -> Row:
    """A request of a client, from a connection of its own port."""
    of: Row = {"node_id": 11, "connection": f"b:9092-10.0.0.1:{port}-0-0", "api_name": "FETCH"}
    times = {"received_at": at(50), "dequeued_at": at(50), "handled_at": at(50.000003)}
    of |= {**times, "built_at": at(50), "is_forwarded": False, "throttle_ms": 0.0, "api_version": 1}
    return row(Requests, **of | {"request_id": request_id, "client_id": HOSTILE} | values)


def listed(topic: str | None, *records: int, **more: Any) -> list[Row]:
    each = {"topic": topic, "error_code": 0} | more
    return [each | {"partition": n, "record_bytes": size} for n, size in enumerate(records)]


def used(tables: dict[Table, list[Row]], *zones: Row) -> tuple[list[Row], list[Row]]:
    """Rows of usage and of topic_usage."""
    engine = engine_on(tables, {"zones": pa.Table.from_pylist([*zones], ZONES)})
    places = [("topic", "ascending"), ("api_name", "ascending")]
    rows = engine.rows(Text.read(USAGE, PARTS), ["r"]).sort_by(places).to_pylist()
    whole = [each for each in rows if each["topic"] is None]
    return whole, [each for each in rows if each["topic"] is not None]


def test_what_is_not_records_is_shared_out_among_topics_with_exact_remainders() -> None:
    """Twelve bytes of seven partitions, and two a topic and two b came back with records."""
    names = {"request_partitions": listed("a", 0, 0) + listed(HOSTILE, 0) + listed("b", 0)}
    back = {"response_partitions": listed("a", 5) + listed(HOSTILE, 0) + listed("b", 70)}
    fetch = row(Fetches, request_id="f", node_id=11, is_cluster_metadata=False, **names, **back)
    requests = [sent("f", request_bytes=12, response_bytes=89), sent("m", api_name="METADATA")]
    [fetched, other], topics = used({Requests: requests, Fetches: [fetch]})
    assert (fetched["requests"], fetched["request_bytes"], fetched["response_bytes"]) == (1, 12, 89)
    assert (fetched["connections"], other["connections"]) == (1, 0)
    assert {(each["principal"], each["client_id"]) for each in topics} == {("-", HOSTILE)}
    shares = {t["topic"]: (t["request_bytes"], t["response_bytes"]) for t in topics}
    assert shares == {"-": (None, None), "a": (5, 11), "b": (3, 74), HOSTILE: (4, 4)}
    assert [each["handler_ms"] for each in topics] == [0.003, 0.001, 0.001, 0.001]
    assert [each["requests"] for each in topics] == [1, 1, 1, 1]


def test_errors_are_of_the_topic_else_of_each_and_once_in_all() -> None:
    produce = row(Produces, request_id="p", node_id=11, partitions=[])
    produce["partitions"] = listed("a", 1, 1, error_code=6) + listed("b", 1, error_code=19)
    refused = row(Fetches, request_id="f", node_id=11, is_cluster_metadata=False, error_code=71)
    refused["request_partitions"] = listed("a", 0) + listed("b", 0)
    requests = [sent("p", api_name="PRODUCE"), sent("f")]
    whole, topics = used({Requests: requests, Produces: [produce], Fetches: [refused]})
    by_api = {each["api_name"]: each["errors_by_name"] for each in whole}
    assert by_api["PRODUCE"] == [
        {"error": "NOT_ENOUGH_REPLICAS", "requests": 1},
        {"error": "NOT_LEADER_OR_FOLLOWER", "requests": 1},
    ]
    assert by_api["FETCH"] == [{"error": "INVALID_FETCH_SESSION_EPOCH", "requests": 1}]
    assert sorted((t["api_name"], t["topic"], t["errors"]) for t in topics) == [
        *(("FETCH", topic, 1) for topic in "ab"),
        *(("PRODUCE", topic, 1) for topic in "ab"),
    ]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [({1: "g"}, {1: "g", 2: "g"}), ({1: "g", 2: "h"}, {1: "g", 2: "h"}), ({}, {1: "-", 2: "-"})],
)
def test_a_group_is_that_of_the_connection_else_the_only_one_of_the_client(
    groups: dict[int, str], expected: dict[int, str]
) -> None:
    requests = [sent(f"{port}", port, request_bytes=port) for port in (1, 2)]
    joins = [
        row(GroupRequest, request_id=f"{port}", node_id=11, group_id=group, member_id="m")
        for port, group in groups.items()
    ]
    named = {"client_id": "other", "api_name": "HEARTBEAT", "request_bytes": 4}
    joins.append(row(GroupRequest, request_id="o", node_id=11, group_id="x", member_id="o"))
    whole, _ = used({Requests: [*requests, sent("o", 3, **named)], GroupRequest: joins})
    sums: dict[str, int] = {}
    for port, group in expected.items():
        sums[group] = sums.get(group, 0) + port
    own = {e["group_id"]: e["request_bytes"] for e in whole if e["client_id"] == HOSTILE}
    assert own == sums


def test_what_crosses_zones_costs_dollars_where_both_zones_are_known() -> None:
    fetches = [row(Fetches, request_id=f, node_id=11, is_cluster_metadata=False) for f in "fgh"]
    for fetch in fetches:
        fetch["response_partitions"] = listed("a", 1_000_000)
    requests = [sent(f, port, client_id=f, response_bytes=10**6) for port, f in enumerate("fgh")]
    rack = row(Brokers, node_id=11, broker_id=11, rack="z1")
    sums: Row = {"rule": "a", "variant": "recorded", "api_name": "FETCH", "client_kind": "consumer"}
    span = row(BandwidthSummary, **sums, node_id=11, direction="request", span_s=2592.0)
    zones = [
        {"recording": "r", "request_id": f, "zone": zone, "dollars_per_gb": 0.02}
        for f, zone in (("f", "z1"), ("g", "z2"))
    ]
    tables = {Requests: requests, Fetches: fetches, Brokers: [rack], BandwidthSummary: [span]}
    engine = engine_on(tables, {"zones": pa.Table.from_pylist(zones, ZONES)})
    phase = Text("SELECT 'r' AS recording, 0 AS from_us, 4000000000000000 AS until_us")
    rows = engine.rows(Text.read(USAGE, {**PARTS, "steady_phases": phase}), ["r"]).to_pylist()
    found = {r["client_id"]: (r["cross_zone_bytes"], r["cross_zone_dollars"]) for r in rows}
    assert found["h"] == (None, None)
    assert found["f"] == (0, 0)
    assert found["g"] == (1_000_000, pytest.approx(0.02))


def test_the_page_has_names_as_they_are() -> None:
    who = dict.fromkeys(("principal", "software", "group_id", "zone"), HOSTILE) | {"node_id": 11}
    who |= {"client_id": HOSTILE, "is_client": True, "api_name": "PRODUCE", "requests": 2}
    tables = {Usage: [row(Usage, **who)], TopicUsage: [row(TopicUsage, **who, topic=HOSTILE)]}
    [section] = (each for each in stated()["section"] if each["id"] == "usage")
    with viewed(tables) as session:
        blocks = [marks.block(session, spec, recording="r") for spec in section["show"]]
    cells = [[text for _, text in line] for block in blocks if block for line in block["cells"]]
    assert [line.count(HOSTILE) for line in cells] == [1, 1, 1, 1, 2, 2]
    assert cells[-1][-1] == "not known"
