"""How min_isr_acks is judged equals plain arithmetic on the same small tables."""

from __future__ import annotations

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
    verdict,
)
from constructed.produces import RECORDINGS, ROWS, STEPS, told, values

from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.min_isr_acks.tables import PRODUCE_ACK_OUTCOMES
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.tables import LATENCY_SUMMARY

NEAR_MS = 2.0
FEW = 30

SELF_CHECKS = {(name, name): ACKS_ALL for name in RECORDINGS}
CROSSED = {
    ("three", "two"): ACKS_MIN_INSYNC_REPLICAS,
    ("three", "alone"): ACKS_MIN_INSYNC_REPLICAS,
}


def shares(recording: str) -> dict[str, float]:
    """Of the acks=all answers in the log: near the recorded one, in the bounds, same error."""
    answered = [
        r
        for r in ROWS
        if r["recording"] == recording
        and r["parameter"] == "none"
        and r["acks"] == -1
        and r["recorded_error"] is not None
        and r["verdict"] != Verdict.NOT_APPLICABLE.value
    ]
    near = between = same = 0
    for r in filter(told, answered):
        recorded = r["request_recorded_latency_ms"]
        near += abs(r["request_acks_all_latency_ms"] - recorded) <= NEAR_MS
        earliest, latest = (
            r[f"request_acks_all_latency_{bound}_ms"] for bound in ("earliest", "latest")
        )
        between += earliest - NEAR_MS <= recorded <= latest + NEAR_MS
        same += r["acks_all_error"] == r["recorded_error"]
    counted = {
        "answers_within_2_ms": near,
        "answers_within_2_ms_of_bounds": between,
        "answers_with_the_recorded_error": same,
    }
    return {metric: n / len(answered) for metric, n in counted.items()}


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
            if key[4] == "produce_latency" and key[0] in (source, target) and key[2] == "none"
        }
        for group, (p, q) in product(groups, {"p50": 500, "p90": 900}.items()):

            def of(recording: str, variant: str, group: Key = group) -> list[Micros]:
                return spreads.get((recording, variant, "none", -1, "produce_latency", *group), [])

            mine = of(source, variant)
            is_partition = group[0] == "topic_partition"
            if is_partition and len(mine) < FEW:
                continue
            key = (source, target, f"produce_latency_{p}", *group)
            naive = variant == ACKS_MIN_INSYNC_REPLICAS
            found[key] = {
                "unit": "ms",
                "baseline": percentile_ms(of(source, RECORDED), q) if naive else None,
                **known_and_unknown(mine),
                **verdict(
                    STEPS.judgement.tolerances,
                    key,
                    variant,
                    percentile_ms(mine, q),
                    percentile_ms(of(target, RECORDED), q),
                    is_judged=source != target or not is_partition,
                ),
            }
    return found


@pytest.fixture(scope="module")
def held() -> dict[Key, Row]:
    """prediction_accuracy of every pair that there is."""
    tables = {PRODUCE_ACK_OUTCOMES: ROWS, LATENCY_SUMMARY: latency_rows(STEPS.name, values())}
    return accuracy(STEPS, tables, RECORDINGS, product(RECORDINGS, RECORDINGS))


def test_which_pairs_have_rows(held: dict[Key, Row]) -> None:
    """Self-checks, and three replicas against two; never the other way round."""
    assert {key[:2] for key in held} == SELF_CHECKS.keys() | CROSSED.keys()
    for key, found in held.items():
        assert found["variant"] == (SELF_CHECKS | CROSSED)[key[0], key[1]]


def test_every_latency_of_prediction_accuracy(held: dict[Key, Row]) -> None:
    expected = expected_accuracy(SELF_CHECKS | CROSSED)
    assert_same(held, expected, lambda key: key[2].startswith("produce_latency"))
    assert {found["passed"] for found in expected.values()} == {True, False, None}


def test_partitions_with_few_produces_are_left_out(held: dict[Key, Row]) -> None:
    """Those whose outcome is unknown are PRODUCEs too: leaving them out would hide a miss."""
    partitions = {key[4] for key in held if key[:2] == ("three", "two") and key[3] != "all"}
    assert partitions == {"11", "12", "t-0", "t-1"}
    found = held["three", "two", "produce_latency_p90", "topic_partition", "t-1"]
    assert (found["sample_count"], found["unknown_count"]) == (26, 5)
    assert (found["predicted"], found["passed"]) == (None, False)


def test_single_partitions_are_judged_across_recordings_only(held: dict[Key, Row]) -> None:
    of = ("produce_latency_p50", "topic_partition", "t-0")
    assert held["three", "two", *of]["tolerance"] is not None
    assert held["three", "three", *of]["tolerance"] is None
    assert held["three", "three", *of]["passed"] is None


@pytest.mark.parametrize("recording", ["three", "two", "alone", "blind"])
def test_shares_of_answers_as_recorded(held: dict[Key, Row], recording: str) -> None:
    for metric, share in shares(recording).items():
        key = (recording, recording, metric, "all", "all")
        expected = verdict(STEPS.judgement.tolerances, key, ACKS_ALL, share, 1.0)
        assert {name: held[key][name] for name in expected} == expected
        assert held[key]["baseline"] is None
        assert held[key]["unit"] == "share"


def test_what_is_unknown_is_a_miss_of_every_share(held: dict[Key, Row]) -> None:
    """A recording of which nothing is known fails: it is not passed over."""
    for metric in shares("blind"):
        found = held["blind", "blind", metric, "all", "all"]
        assert (found["predicted"], found["passed"]) == (0.0, False)
        assert (found["sample_count"], found["unknown_count"]) == (40, 40)


def test_no_share_where_nobody_waited_for_replicas(held: dict[Key, Row]) -> None:
    assert {key[2] for key in held if key[0] == "asked"} == {"produces_per_second"}


def test_rates_stand_beside_every_comparison(held: dict[Key, Row]) -> None:
    """The open loop's caveat: shown, and judged by nobody."""
    expected: dict[Key, Row] = {}
    for source, target in SELF_CHECKS | CROSSED:
        nodes = {str(r["node_id"]) for r in ROWS if r["recording"] in (source, target)}
        for node in nodes:
            predicted, recorded = rate(source, node), rate(target, node)
            expected[source, target, "produces_per_second", "node_id", node] = {
                "unit": "1/s",
                "baseline": None,
                "predicted": predicted,
                "recorded": recorded,
                "tolerance": None,
                "passed": None,
            }
    assert_same(held, expected, lambda key: key[2] == "produces_per_second")
    assert expected["alone", "alone", "produces_per_second", "node_id", "11"]["predicted"] is None
