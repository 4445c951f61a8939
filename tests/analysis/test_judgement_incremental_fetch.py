"""How incremental_fetch is judged equals plain arithmetic on the same small tables."""

from collections import defaultdict
from itertools import product

import pytest
from constructed import Key, Row, accuracy, assert_same, at_rank, known_and_unknown, sides
from constructed.sessions import RAN, RECORDINGS, ROWS, STEPS, is_steady

from kip_replay.replay.incremental_fetch import INCREMENTAL
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.outcomes import RECORDED, Verdict

COUNTED = ("request_partitions", "response_partitions")


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
            mean = sum(known) / len(known)
            figures = {"mean": mean, "p50": at_rank(values, 500), "p90": at_rank(values, 900)}
            for figure, value in figures.items():
                found[recording, variant, f"{of}{name}_{figure}", kind] = {
                    "value": None if value is None else float(value),
                    **known_and_unknown(values),
                }
        replayed = [r for r in rows if r["verdict"] != Verdict.UNKNOWN.value]
        sizes = [r["request_bytes"] + (r["response_bytes"] or 0) for r in replayed]
        found[recording, variant, "fetch_bytes", kind] = {
            "value": sum(sizes) / len(sizes),
            "sample_count": len(sizes),
            "unknown_count": len(rows) - len(sizes),
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
            values = (mine["value"], of[target, RECORDED, metric, kind]["value"])
            found[key] = {
                "unit": "bytes" if metric == "fetch_bytes" else "partitions",
                "baseline": None if source == target else unchanged,
                "sample_count": mine["sample_count"],
                "unknown_count": mine["unknown_count"],
                **sides(variant, *values),
            }
    return found


@pytest.fixture(scope="module")
def held() -> dict[Key, Row]:
    """prediction_accuracy of every pair that there is."""
    pairs = product(RECORDINGS, RECORDINGS)
    return accuracy(STEPS, {FETCH_SESSION_OUTCOMES: ROWS}, RECORDINGS, pairs)


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
    assert {key[2] for key in held if held[key]["tolerance"] is None} == {
        *(f"{of}{name}_p50" for of in ("", "same_set_") for name in COUNTED),
        *("fetch_bytes", "fetches_as_recorded"),
    }
    assert {found["passed"] for found in held.values()} == {True, False, None}


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
        **sides(RAN[recording], share, 1.0),
    }
    assert {name: held[key][name] for name in expected} == expected
    assert 0 < share < 1
    assert [k[0] for k in held if k[2] == "fetches_as_recorded" and k[0] != k[1]] == []
