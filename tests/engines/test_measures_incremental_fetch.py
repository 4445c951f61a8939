"""incremental_fetch's summaries equal plain arithmetic on the same small tables."""

from collections import defaultdict

import pytest
from constructed import STEADY_S, Key, Row, assert_same, keyed, phases
from constructed.sessions import RECORDINGS, ROWS, STEPS, is_steady
from small_tables import bandwidth

from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.replay.incremental_fetch import SESSION_SLOTS
from kip_replay.replay.incremental_fetch.registration import RULE as INCREMENTAL_FETCH
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.outcomes import Verdict


def expected_bandwidth() -> dict[Key, Row]:
    ways: dict[Key, list[Row]] = defaultdict(list)
    what_if = ("recording", "variant", "parameter", "parameter_value", "node_id", "client_kind")
    for r in ROWS:
        if r["verdict"] != Verdict.REPLAYED.value or not is_steady(r, "dequeued_at"):
            continue
        for way in ("request", "response"):
            if way == "response" and not is_steady(r, "built_at"):
                continue
            ways[(*(r[name] for name in what_if), way)].append(
                {
                    "partitions": r[f"{way}_partitions"],
                    "bytes": r[f"{way}_bytes"],
                    "records": r["record_bytes"] if way == "response" else 0,
                }
            )
    span_s = STEADY_S[1] - STEADY_S[0]
    found: dict[Key, Row] = {}
    for key, rows in ways.items():
        known = [r for r in rows if r["bytes"] is not None]
        size, records = (sum(r[name] for r in known) for name in ("bytes", "records"))
        found[key] = {
            "rule": INCREMENTAL_FETCH.name,
            "api_name": "FETCH",
            "requests": len(rows),
            "partitions": sum(r["partitions"] for r in rows),
            "bytes": size,
            "unknown_size_requests": len(rows) - len(known),
            "record_bytes": records,
            "overhead_bytes": size - records,
            "span_s": span_s,
            "requests_per_second": len(rows) / span_s,
            "bytes_per_second": size / span_s,
        }
    return found


TABLES = {FETCH_SESSION_OUTCOMES: ROWS}


def test_every_figure_of_bandwidth_summary() -> None:
    key = "recording variant parameter parameter_value node_id client_kind direction"
    found = keyed(bandwidth(STEPS, TABLES, RECORDINGS), key.split())
    expected = expected_bandwidth()
    assert_same(found, expected)
    assert {key[2] for key in expected} == {"none", SESSION_SLOTS}
    assert {r["unknown_size_requests"] for r in expected.values()} == {0, 1}


def test_rates_are_of_the_time_without_gaps_and_of_requests_outside_of_them() -> None:
    (name, steady), *_ = phases(*RECORDINGS).items()
    mine = [r for r in ROWS if r["recording"] == name and r["verdict"] == Verdict.REPLAYED.value]
    node, half_us = mine[0]["node_id"], (steady.from_us + steady.until_us) // 2
    gaps = {name: [LogGap(node, steady.from_us - 5_000_000, half_us)]}
    found = bandwidth(STEPS, TABLES, RECORDINGS, gaps)
    for row in found:
        is_its = (row["recording"], row["node_id"]) == (name, node)
        span_s = steady.span_s / (2 if is_its else 1)
        assert row["span_s"] == pytest.approx(span_s)
        assert row["requests_per_second"] == pytest.approx(row["requests"] / span_s)
    outside = [
        r
        for r in mine
        if is_steady(r, "dequeued_at")
        and (r["node_id"] != node or microseconds(r["dequeued_at"]) >= half_us)
    ]
    requests = [r for r in found if (r["recording"], r["direction"]) == (name, "request")]
    assert sum(r["requests"] for r in requests) == len(outside) < len(mine)
