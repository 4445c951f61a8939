"""Bandwidth as bars: they add up to what was logged, and are few whatever the logs."""

from collections.abc import Sequence

import pytest
from duckdb_tables import database_of, rows_in
from golden.recorded import WAREHOUSE, ingested, session

from kip_replay.pipelines.page.values import RuleFigures, Traffic
from kip_replay.pipelines.page.view import Bars
from kip_replay.pipelines.report.bandwidth import MOST_BARS, bandwidths, variants
from kip_replay.replay.log_tables import REQUESTS

RECORDS = """
    SELECT sum(part.record_bytes) FROM (
        SELECT unnest(response_partitions) AS part FROM fetches UNION ALL BY NAME
        SELECT unnest(partitions) AS part FROM produces)"""


@pytest.mark.golden
@pytest.mark.parametrize("name", ["acks-slow-follower", "mixed-4.2"])
def test_bars_add_up_to_what_was_logged(name: str) -> None:
    ingested(name)
    database = session(name)
    found = bandwidths(database)[name]
    by_client, by_kind = found.pictures

    def total(bars: Bars, part: str | None = None) -> float:
        """Bytes of the whole log."""
        of = (size for bar in bars.bars for name, size in bar.parts if part in (None, name))
        return sum(of) * found.span_s

    requests = WAREHOUSE.rows(REQUESTS, [name]).to_pylist()
    unknown = [
        row["api_name"]
        for row in requests
        if row["request_bytes"] is None or (row["has_response"] and row["response_bytes"] is None)
    ]
    assert (found.requests, found.unknown) == (len(requests), len(unknown))
    assert {*found.unknown_apis} == {*unknown}
    assert ("sizes of" in by_kind.note) == bool(unknown)
    for way in ("request", "response"):
        logged = sum(row[f"{way}_bytes"] or 0 for row in requests)
        assert total(by_client, f"{way}s") == pytest.approx(logged)
    assert total(by_kind) == pytest.approx(total(by_client))
    ((records,),) = database.execute(RECORDS).fetchall()
    assert total(by_kind, "records") == pytest.approx(records)
    # Where clients are too many, a last bar is of the others.
    clients = len({row["client_id"] for row in requests if row["request_bytes"]})
    assert len(by_client.bars) == min(clients, MOST_BARS + 1)
    others = clients - MOST_BARS
    assert (by_client.bars[-1].name == f"{others} other clients") == (others > 1)


def test_names_of_clients_show_what_is_in_them() -> None:
    row = {"recording": "r", "request_id": "1", "client_id": "evil\u202egnp", "api_name": "VOTE"}
    row |= {"received_at": 0, "completed_at": 1_000_000, "request_bytes": 10, "response_bytes": 10}
    by_client, _ = bandwidths(database_of({REQUESTS: rows_in(REQUESTS, [row])}))["r"].pictures
    assert [bar.name for bar in by_client.bars] == ["evil\\u202egnp"]
    row |= {"request_bytes": None, "response_bytes": None}
    assert bandwidths(database_of({REQUESTS: rows_in(REQUESTS, [row])}))["r"].pictures == []


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
