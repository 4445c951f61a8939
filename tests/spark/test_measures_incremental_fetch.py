"""incremental_fetch's summaries and accuracy equal plain arithmetic on the same small tables."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import pytest
from constructed import (
    STEADY_S,
    Key,
    Row,
    accuracy,
    assert_same,
    at,
    at_rank,
    keyed,
    known_and_unknown,
    phases,
    reader,
    row,
    rows_of,
    rule_steps,
    verdict,
)
from pyspark.sql import SparkSession

from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.rules import (
    FULL,
    INCREMENTAL,
    INCREMENTAL_DRAFT,
    INCREMENTAL_FETCH,
    SESSION_SLOTS,
)
from kip_replay.replay.schema import FETCH_SESSION_OUTCOMES

STEPS = rule_steps(INCREMENTAL_FETCH.name)
#: What the brokers of each recording ran.
RAN = {"sessions": INCREMENTAL, "sessions again": INCREMENTAL, "none": FULL}
RECORDINGS = tuple(RAN)
COUNTED = ("request_partitions", "response_partitions")


def fetch(recording: str, variant: str, second: float, **values: object) -> Row:
    usual: Row = {
        "recording": recording,
        "rule": INCREMENTAL_FETCH.name,
        "variant": variant,
        "node_id": 11,
        "client_kind": "follower",
        "dequeued_at": at(second),
        "built_at": at(second + 0.25),
        "is_full": variant == FULL or RAN[recording] == FULL,
        "request_partitions": 3,
        "response_partitions": 2,
        "forgotten_partitions": 0,
        "added_partitions": 0,
        "record_bytes": 100,
        "request_bytes": 60,
        "response_bytes": 150,
    }
    return row(FETCH_SESSION_OUTCOMES, **(usual | values))


UNTOLD: Row = {
    "verdict": Verdict.UNKNOWN.value,
    "reason": "the session began before the log",
    "request_partitions": None,
    "response_partitions": None,
    "request_bytes": None,
    "response_bytes": None,
}
NOT_APPLICABLE: Row = {"verdict": Verdict.NOT_APPLICABLE.value, "request_partitions": 999}


def history(recording: str) -> Iterator[Row]:
    """FETCHes of two kinds of client, each recorded and under every variant."""
    dice = random.Random(recording)
    for number in range(45):
        second = dice.randint(11_000, 109_000) / 1000
        same: Row = {
            "request_id": f"{recording} {number}",
            "client_kind": "follower" if number % 3 else "consumer",
            "node_id": dice.choice([11, 12]),
            "forgotten_partitions": dice.choice([0, 0, None, 1]),
            "added_partitions": dice.choice([0, 0, 0, None, 4]),
        }
        size = dice.randint(4, 9)
        for variant in (RECORDED, INCREMENTAL, FULL, INCREMENTAL_DRAFT):
            runs_as = RAN[recording] if variant == RECORDED else variant
            asked = size if runs_as == FULL else dice.randint(0, 2)
            told = (
                # Three of the 15 FETCHes of consumers, and one of a follower, nobody can tell.
                UNTOLD
                if variant != RECORDED and number in (9, 18, 20, 27)
                else {
                    "request_partitions": asked,
                    "response_partitions": asked // 2,
                    "request_bytes": 40 + 6 * asked,
                    "response_bytes": 20 + 120 * asked,
                    "record_bytes": 100 * asked,
                }
            )
            compared = {"equals_recorded": number != 20} if variant == INCREMENTAL else {}
            if told is UNTOLD or (compared and number % 7 == 0):
                compared = {"equals_recorded": None}
            yield fetch(recording, variant, second, **(same | told | compared))


def odd_ones(recording: str) -> Iterator[Row]:
    """At the phase's borders, not applicable, and of sweeps."""
    since, until = STEADY_S
    for variant in (RECORDED, INCREMENTAL, FULL):
        yield fetch(recording, variant, since - 0.001, request_partitions=700, equals_recorded=True)
        yield fetch(recording, variant, since)
        # Asked in the steady phase and answered after it: the answer is no part of it.
        yield fetch(recording, variant, until - 0.001, response_bytes=10_000)
        yield fetch(recording, variant, until, request_partitions=800)
    yield fetch(recording, INCREMENTAL_DRAFT, 50, **NOT_APPLICABLE)
    yield fetch(recording, FULL, 51, **NOT_APPLICABLE)
    # As a retry of what a session error answered, and of a size that nobody knows.
    yield fetch(recording, INCREMENTAL_DRAFT, 52, attempt=1, record_bytes=0)
    yield fetch(recording, INCREMENTAL_DRAFT, 52, response_bytes=None, record_bytes=70)
    for slots, asked in (("2", 40), ("500", 20)):
        sweep = {"parameter": SESSION_SLOTS, "parameter_value": slots}
        yield fetch(recording, INCREMENTAL, 53, request_partitions=asked, **sweep)
        yield fetch(recording, INCREMENTAL, 54, equals_recorded=False, **sweep)
        yield fetch(recording, INCREMENTAL, 55, **UNTOLD, **sweep)


ROWS = [r for name in RECORDINGS for made in (history, odd_ones) for r in made(name)]


# --- plain arithmetic -----------------------------------------------------------------------------


def is_steady(r: Row, column: str) -> bool:
    since, until = STEADY_S
    return at(since) <= r[column] < at(until)


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


def measures() -> dict[Key, Row]:
    """value, sample_count, unknown_count by recording, variant, metric and kind of client."""
    fetches: dict[Key, list[Row]] = defaultdict(list)
    for r in ROWS:
        if r["parameter"] != "none" or r["verdict"] == Verdict.NOT_APPLICABLE.value:
            continue
        if is_steady(r, "dequeued_at"):
            fetches[r["recording"], r["variant"], r["client_kind"]].append(r)
    found: dict[Key, Row] = {}
    for (recording, variant, kind), rows in fetches.items():
        unchanged = [
            r for r in rows if r["added_partitions"] == 0 and not r["forgotten_partitions"]
        ]
        for (of, chosen), name in product({"": rows, "same_set_": unchanged}.items(), COUNTED):
            values = [r[name] for r in chosen]
            known = [value for value in values if value is not None]
            figures = {
                "mean": sum(known) / len(known),
                "p50": at_rank(values, 500),
                "p90": at_rank(values, 900),
            }
            for figure, value in figures.items():
                found[recording, variant, f"{of}{name}_{figure}", kind] = {
                    "value": None if value is None else float(value),
                    **known_and_unknown(values),
                }
        sizes = [
            None
            if r["verdict"] == Verdict.UNKNOWN.value
            else r["request_bytes"] + (r["response_bytes"] or 0)
            for r in rows
        ]
        told = [size for size in sizes if size is not None]
        found[recording, variant, "fetch_bytes", kind] = {
            "value": sum(told) / len(told),
            **known_and_unknown(sizes),
        }
    return found


def expected_accuracy() -> dict[Key, Row]:
    """Self-checks, and pairs that differ in protocol: under what ``recorded_in`` ran."""
    of = measures()
    found: dict[Key, Row] = {}
    for source, target in product(RECORDINGS, RECORDINGS):
        if source != target and RAN[source] == RAN[target]:
            continue
        variant = RAN[target]
        for recording, its_variant, metric, kind in of:
            if (recording, its_variant) != (source, variant):
                continue
            mine = of[source, variant, metric, kind]
            key = (source, target, metric, "client_kind", kind)
            unchanged = of[source, RECORDED, metric, kind]["value"]
            found[key] = {
                "unit": "bytes" if metric == "fetch_bytes" else "partitions",
                "baseline": None if source == target else unchanged,
                "sample_count": mine["sample_count"],
                "unknown_count": mine["unknown_count"],
                **verdict(
                    STEPS.tolerances,
                    key,
                    variant,
                    mine["value"],
                    of[target, RECORDED, metric, kind]["value"],
                ),
            }
    return found


# --- Spark against it -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def held(spark: SparkSession) -> dict[Key, Row]:
    """prediction_accuracy of every pair that there is."""
    read = reader(spark, {FETCH_SESSION_OUTCOMES: ROWS})
    return accuracy(spark, STEPS, read, RECORDINGS, product(RECORDINGS, RECORDINGS))


def test_every_figure_of_bandwidth_summary(spark: SparkSession) -> None:
    assert STEPS.bandwidth
    read = reader(spark, {FETCH_SESSION_OUTCOMES: ROWS})
    key = "recording variant parameter parameter_value node_id client_kind direction"
    found = keyed(rows_of(STEPS.bandwidth(read, phases(spark, *RECORDINGS))), key.split())
    expected = expected_bandwidth()
    assert_same(found, expected)
    assert {key[2] for key in expected} == {"none", SESSION_SLOTS}
    assert {r["unknown_size_requests"] for r in expected.values()} == {0, 1}


def test_which_pairs_have_rows(held: dict[Key, Row]) -> None:
    """Two recordings of one protocol show how much two runs differ, and predict nothing."""
    assert {key[:2] for key in held} == {
        *((name, name) for name in RECORDINGS),
        *product(("sessions", "sessions again"), ["none"]),
        *product(["none"], ("sessions", "sessions again")),
    }
    for key, found in held.items():
        assert found["variant"] == RAN[key[1]]


def test_every_count_of_prediction_accuracy(held: dict[Key, Row]) -> None:
    expected = expected_accuracy()
    # The sweeps' rows would show in every one of them.
    assert_same(held, expected, lambda key: key[3] == "client_kind")
    assert {found["passed"] for found in expected.values()} == {True, False, None}


def test_unknown_fetches_rank_last(held: dict[Key, Row]) -> None:
    """Three of 15 FETCHes of consumers are more than the tenth that p90 may pass over."""
    found = held["sessions", "none", "request_partitions_p90", "client_kind", "consumer"]
    assert (found["sample_count"], found["unknown_count"]) == (12, 3)
    assert found["predicted"] is None
    assert found["passed"] is False


@pytest.mark.parametrize("recording", RECORDINGS)
def test_share_of_fetches_as_recorded(held: dict[Key, Row], recording: str) -> None:
    """Of those that can be compared, and of the unknown ones, which are misses; also those of
    other phases."""
    compared = [
        r
        for r in ROWS
        if (r["recording"], r["variant"], r["parameter"]) == (recording, INCREMENTAL, "none")
        and (r["equals_recorded"] is not None or r["verdict"] == Verdict.UNKNOWN.value)
    ]
    share = sum(r["equals_recorded"] is True for r in compared) / len(compared)
    key = (recording, recording, "fetches_as_recorded", "all", "all")
    expected = {
        "unit": "share",
        "sample_count": len(compared),
        "unknown_count": 4,
        **verdict(STEPS.tolerances, key, RAN[recording], share, 1.0),
    }
    assert {name: held[key][name] for name in expected} == expected
    assert 0 < share < 1
    assert [k[0] for k in held if k[2] == "fetches_as_recorded" and k[0] != k[1]] == []


def test_the_naive_guess_is_that_nothing_changes(held: dict[Key, Row]) -> None:
    of = ("response_partitions_mean", "client_kind", "follower")
    assert held["none", "sessions", *of]["baseline"] == held["none", "none", *of]["recorded"]
    assert held["none", "none", *of]["baseline"] is None
