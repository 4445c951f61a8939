"""Bandwidth as bars: they add up to the tables' totals, and are few whatever the logs."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from kip_replay.pipelines.page.values import RuleFigures, Traffic
from kip_replay.pipelines.page.view import Bars
from kip_replay.pipelines.report.bandwidth import MOST_BARS, Bandwidth, bandwidths, variants
from kip_replay.replay.log_tables import FETCHES, PRODUCES, REQUESTS

Rows = list[dict[str, Any]]
START, SPAN_S = datetime(2026, 11, 20, tzinfo=UTC), 100.0
TABLES = (REQUESTS, FETCHES, PRODUCES)
#: Of a log: API, replica (-1 a consumer) or None, whether of the metadata log, and its share.
KINDS = (
    ("FETCH", 1, True, 3),
    ("FETCH", 12, False, 6),
    ("FETCH", -1, False, 3),
    ("PRODUCE", None, False, 4),
    ("BROKER_HEARTBEAT", None, False, 2),
    ("METADATA", None, False, 2),
    ("VOTE", None, False, 1),
    ("API_VERSIONS", None, False, 1),
    ("END_QUORUM_EPOCH", None, False, 1),
)
SIZED = ("FETCH", "PRODUCE", "BROKER_HEARTBEAT")


def log_of(recording: str, clients: int = 30, requests: int = 400) -> Mapping[str, Rows]:
    """Requests of many clients over SPAN_S; one FETCH's response is not in the log."""
    dice = random.Random(recording)
    rows: dict[str, Rows] = {table.name: [] for table in TABLES}
    for number in range(requests):
        weights = [weight for *_, weight in KINDS]
        ((api, replica, is_metadata, _),) = dice.choices(KINDS, weights)
        begun = 0 if number == 0 else dice.uniform(0, SPAN_S - 1)
        until = SPAN_S if number == 0 else begun + 0.5
        is_lost = number == 7
        request, response = dice.randint(40, 900), None if is_lost else dice.randint(20, 900)
        client = None if number % 9 == 0 else f"client-{dice.randrange(clients):02}"
        same = {
            "recording": recording,
            "request_id": str(number),
            "client_id": client,
            "received_at": START + timedelta(seconds=begun),
            "completed_at": START + timedelta(seconds=until),
            "request_bytes": request if api in SIZED else None,
            "response_bytes": response if api in SIZED else None,
        }
        rows["requests"].append({**same, "api_name": api, "has_response": True})
        records = [{"record_bytes": of} for of in (request // 3, None, request // 4)]
        if api == "FETCH":
            fetch = {"is_cluster_metadata": is_metadata, "replica_id": replica}
            records = [{"record_bytes": (response or 0) // 2}, {"record_bytes": None}]
            rows["fetches"].append({**same, **fetch, "response_partitions": records})
        elif api == "PRODUCE":
            rows["produces"].append({**same, "partitions": records})
    return rows


def read(*logs: Mapping[str, Rows]) -> dict[str, Bandwidth]:
    with duckdb.connect() as database:
        for table in TABLES:
            rows = [row for log in logs for row in log[table.name]]
            random.Random(len(logs)).shuffle(rows)
            loose = pa.schema([field.with_nullable(True) for field in table.arrow_schema])
            database.register(table.name, pa.Table.from_pylist(rows, schema=loose))
        return bandwidths(database)


def total(bars: Bars, part: str | None = None) -> float:
    """Bytes of the whole log."""
    of = (size for bar in bars.bars for name, size in bar.parts if part in (None, name))
    return sum(of) * SPAN_S


def sizes(rows: Rows, way: str) -> int:
    return sum(row[f"{way}_bytes"] or 0 for row in rows)


@pytest.mark.parametrize("clients", [3, MOST_BARS - 1, MOST_BARS, 30])
def test_bars_add_up_to_what_was_logged(clients: int) -> None:
    log = log_of("one", clients)
    by_client, by_kind = read(log, log_of("two"))["one"].pictures
    requests = log["requests"]
    for way in ("request", "response"):
        assert total(by_client, f"{way}s") == pytest.approx(sizes(requests, way))
    both = sizes(requests, "request") + sizes(requests, "response")
    assert total(by_client) == pytest.approx(total(by_kind)) == pytest.approx(both)

    records = sum(
        part["record_bytes"] or 0
        for row in (*log["fetches"], *log["produces"])
        for part in row.get("response_partitions") or row.get("partitions") or ()
    )
    assert total(by_kind, "records") == pytest.approx(records)
    # The clients, one without an id, and where they are too many a last bar for the others.
    assert len(by_client.bars) == min(clients + 1, MOST_BARS + 1)
    others = clients + 1 - MOST_BARS
    assert (by_client.bars[-1].name == f"{others} other clients") == (others > 1)


def test_the_biggest_come_first_and_the_others_last() -> None:
    by_client, by_kind = read(log_of("one"))["one"].pictures
    for bars in (by_client, by_kind):
        named = [sum(size for _, size in bar.parts) for bar in bars.bars][:MOST_BARS]
        assert named == sorted(named, reverse=True)
    fetches = {f"FETCH of {who}" for who in ("followers", "consumers", "the metadata log")}
    assert {bar.name for bar in by_kind.bars} == {*fetches, "PRODUCE", "BROKER_HEARTBEAT"}
    assert all(bar.name in by_client.described for bar in by_client.bars)


def test_what_has_no_size_is_told_of() -> None:
    log = log_of("one")
    unknown = sum(row["response_bytes"] is None for row in log["requests"])
    found = read(log)["one"]
    assert (found.requests, found.unknown, found.span_s) == (400, unknown, SPAN_S)
    assert {*found.unknown_apis} == {row["api_name"] for row in log["requests"][7:8]} | {
        api for api, *_ in KINDS if api not in SIZED
    }
    _, by_kind = found.pictures
    assert f"sizes of {unknown} of 400 requests are not known" in by_kind.note
    assert "METADATA" in by_kind.note
    assert by_kind.note.endswith("and 2 others)")


def test_names_of_clients_show_what_is_in_them() -> None:
    log = log_of("one", clients=1)
    for row in log["requests"]:
        row["client_id"] = "evil\u202egnp"
    by_client, _ = read(log)["one"].pictures
    assert [bar.name for bar in by_client.bars] == ["evil\\u202egnp"]


def test_a_log_without_sizes_has_no_bars() -> None:
    log = log_of("one")
    bare = [{**row, "request_bytes": None, "response_bytes": None} for row in log["requests"]]
    assert read({**log, "requests": bare, "fetches": [], "produces": []})["one"].pictures == []


class Rule(RuleFigures):
    NAME, SWEEP = "a_rule", "a_parameter"


def figures(traffic: Sequence[tuple[str, str, int | None]], **sizes: int) -> Rule:
    sent = Traffic(10, 10, **({"request_bytes": 400, "response_bytes": 600} | sizes), span_s=10.0)
    return Rule("one", traffic=dict.fromkeys(traffic, sent))


def test_variants_send_what_their_traffic_sums_up_to() -> None:
    keys = [(v, kind, at) for v in ("full", "recorded") for kind in "ab" for at in (None, 8)]
    (bars,) = variants([figures(keys, record_bytes=150), figures([])])
    assert bars.name == "Bytes by variant, a rule"
    # Two kinds of clients, without the sweep; what was recorded comes first.
    assert [(bar.name, bar.parts) for bar in bars.bars] == [
        ("recorded", [("records", 30.0), ("besides records", 170.0)]),
        ("full fetches", [("records", 30.0), ("besides records", 170.0)]),
    ]
