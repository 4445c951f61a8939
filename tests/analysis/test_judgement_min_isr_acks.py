"""How min_isr_acks is judged equals plain arithmetic on the same small tables."""

from itertools import product

import pytest
from constructed import (
    Key,
    Micros,
    Row,
    accuracy,
    assert_same,
    known_and_unknown,
    latency_rows,
    percentile_ms,
    sides,
)
from constructed.produces import RECORDINGS, ROWS, STEPS, is_replayed, values

from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.min_isr_acks.tables import PRODUCE_ACK_OUTCOMES
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.tables import LATENCY_SUMMARY

NEAR_MS = 2.0
METRICS = ("produce_latency", "closed_loop_latency")
FEW = 30

#: Of "asked" nothing is predicted: nobody waited.
SELF_CHECKS = {
    (name, name): ACKS_MIN_INSYNC_REPLICAS if name == "early" else ACKS_ALL
    for name in RECORDINGS
    if name != "asked"
}
#: What acks=-2 costs is seen where it ran, and where acks=all waits for no more; back, acks=all.
CROSSED = {
    ("three", "two"): ACKS_MIN_INSYNC_REPLICAS,
    ("three", "alone"): ACKS_MIN_INSYNC_REPLICAS,
    ("three", "early"): ACKS_MIN_INSYNC_REPLICAS,
    ("early", "two"): ACKS_MIN_INSYNC_REPLICAS,
    ("early", "alone"): ACKS_MIN_INSYNC_REPLICAS,
    ("early", "three"): ACKS_ALL,
}


def shares(recording: str) -> dict[str, float | None]:
    """Of the responses in the log: in the bounds of those known, with the same error of all."""
    answered = [
        r
        for r in ROWS
        if r["recording"] == recording
        and r["parameter"] == "none"
        and r["acks"] == -1
        and r["recorded_error"] is not None
        and r["verdict"] != Verdict.NOT_APPLICABLE.value
    ]
    of = "min_isr" if SELF_CHECKS[recording, recording] != ACKS_ALL else "acks_all"
    between = same = 0
    known = [*filter(is_replayed, answered)]
    for r in known:
        recorded = r["request_recorded_latency_ms"]
        earliest = r[f"request_{of}_latency_earliest_ms"]
        latest = r[f"request_{of}_latency_latest_ms"]
        between += earliest - NEAR_MS <= recorded <= latest + NEAR_MS
        same += r[f"{of}_error"] == r["recorded_error"]
    return {
        "answers_within_2_ms_of_bounds": between / len(known) if known else None,
        "answers_with_the_recorded_error": same / len(answered),
    }


def rate(recording: str, node: str) -> float | None:
    """PRODUCEs a second from first to last, whatever they waited for."""
    mine = {
        r["request_id"]: r["received_at"]
        for r in ROWS
        if (r["recording"], str(r["node_id"]), r["parameter"]) == (recording, node, "none")
        and r["verdict"] != Verdict.NOT_APPLICABLE.value
    }
    span = max(mine.values()) - min(mine.values()) if mine else None
    return len(mine) / span.total_seconds() if span else None


def expected_accuracy(pairs: dict[tuple[str, str], str]) -> dict[Key, Row]:
    """``pairs`` and the variant that each is predicted under."""
    spreads = values()
    found: dict[Key, Row] = {}
    for (source, target), variant in pairs.items():
        groups = {
            key[5:]
            for key in spreads
            if key[4] in METRICS
            and key[0] in (source, target)
            and key[2] == "none"
            and key[5] != "arrival"
        }
        for metric, group, (p, q) in product(METRICS, groups, {"p50": 500, "p90": 900}.items()):

            def of(
                recording: str, variant: str, metric: str = metric, group: Key = group
            ) -> list[Micros]:
                return spreads.get((recording, variant, "none", -1, metric, *group), [])

            mine = of(source, variant)
            is_partition = group[0] == "topic_partition"
            if is_partition and len(mine) < FEW:
                continue
            if not mine and not of(target, RECORDED):
                continue
            key = (source, target, f"{metric}_{p}", *group)
            found_ms = (percentile_ms(mine, q), percentile_ms(of(target, RECORDED), q))
            is_crossed = source != target
            found[key] = {
                "unit": "ms",
                "baseline": percentile_ms(of(source, RECORDED), q) if is_crossed else None,
                **known_and_unknown(mine),
                **sides(variant, *found_ms),
            }
    return found


@pytest.fixture(scope="module")
def held() -> dict[Key, Row]:
    """prediction_accuracy of every pair that there is."""
    tables = {PRODUCE_ACK_OUTCOMES: ROWS, LATENCY_SUMMARY: latency_rows(STEPS.name, values())}
    return accuracy(STEPS, tables, RECORDINGS, product(RECORDINGS, RECORDINGS))


def test_which_pairs_have_rows(held: dict[Key, Row]) -> None:
    """Self-checks, three replicas against two and never back, and the KIP both ways."""
    assert {key[:2] for key in held} == SELF_CHECKS.keys() | CROSSED.keys()
    for key, found in held.items():
        assert found["variant"] == (SELF_CHECKS | CROSSED)[key[0], key[1]]


def test_every_latency_of_prediction_accuracy(held: dict[Key, Row]) -> None:
    expected = expected_accuracy(SELF_CHECKS | CROSSED)
    assert_same(held, expected, lambda key: "_latency_" in key[2])
    judged = {(k[0] == k[1], *k[2:4]) for k, r in held.items() if r["tolerance"] is not None}
    names = [f"{metric}_{p}" for metric in METRICS for p in ("p50", "p90")]
    closed_loop = [name for name in names if name.startswith("closed")]
    assert judged == {
        *product([True], names, ["all", "node_id"]),
        *product([False], closed_loop, ["all", "node_id"]),
        *product([True], shares("two"), ["all"]),
    }
    assert {found["passed"] for found in held.values()} == {True, False, None}


def test_partitions_with_few_produces_are_left_out(held: dict[Key, Row]) -> None:
    """Those whose outcome is unknown are PRODUCEs too: leaving them out would hide a miss."""
    partitions = {key[4] for key in held if key[:2] == ("three", "two") and key[3] != "all"}
    assert partitions == {"11", "12", "t-0", "t-1"}
    found = held["three", "two", "produce_latency_p90", "topic_partition", "t-1"]
    assert (found["sample_count"], found["unknown_count"]) == (26, 5)
    assert (found["predicted"], found["passed"]) == (None, None)


@pytest.mark.parametrize("recording", ["three", "two", "alone", "early", "blind"])
def test_shares_of_answers_as_recorded(held: dict[Key, Row], recording: str) -> None:
    for metric, share in shares(recording).items():
        key = (recording, recording, metric, "all", "all")
        variant = SELF_CHECKS[recording, recording]
        expected = sides(variant, share, 1.0)
        assert {name: held[key][name] for name in expected} == expected
        assert held[key]["baseline"] is None
        assert held[key]["unit"] == "share"


def test_what_is_unknown_is_no_pass(held: dict[Key, Row]) -> None:
    """A recording of which nothing is known fails: it is not passed over."""
    for metric, share in {"bounds": None, "recorded_error": 0.0}.items():
        (key,) = (key for key in held if key[:2] == ("blind", "blind") and metric in key[2])
        assert (held[key]["predicted"], held[key]["passed"]) == (share, False)
        assert (held[key]["sample_count"], held[key]["unknown_count"]) == (40, 40)


def test_rates_stand_beside_every_comparison(held: dict[Key, Row]) -> None:
    """Shown, and judged by nobody: they are not promised."""
    expected: dict[Key, Row] = {}
    for source, target in SELF_CHECKS | CROSSED:
        nodes = {str(r["node_id"]) for r in ROWS if r["recording"] in (source, target)}
        for node in nodes:
            predicted, recorded = rate(source, node), rate(target, node)
            expected[source, target, "produces_per_second", "node_id", node] = {
                "unit": "1/s",
                "predicted": predicted,
                "recorded": recorded,
                **dict.fromkeys(("baseline", "tolerance", "passed")),
            }
    assert_same(held, expected, lambda key: key[2] == "produces_per_second")
    assert expected["alone", "alone", "produces_per_second", "node_id", "11"]["predicted"] is None
