"""min_isr_acks' summaries and accuracy equal plain arithmetic on the same small tables."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import product

import pytest
from constructed import (
    Key,
    Micros,
    Row,
    accuracy,
    assert_same,
    at,
    keyed,
    known_and_unknown,
    latencies,
    micros,
    percentile_ms,
    reader,
    row,
    rule_steps,
    spread,
    verdict,
)
from pyspark.sql import SparkSession

from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.rules import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, MIN_ISR_ACKS
from kip_replay.replay.schema import PRODUCE_ACK_OUTCOMES

STEPS = rule_steps(MIN_ISR_ACKS.name)
VARIANTS = {
    RECORDED: "recorded",
    ACKS_ALL: "acks_all",
    ACKS_MIN_INSYNC_REPLICAS: "min_isr",
}
#: three: waits for fewer than its ISR. two and alone: acks=all waits for just as many. blind: the
#: log tells no ISR. asked: nobody waited for replicas.
ISR = {"three": [11, 12, 13], "two": [11, 12], "alone": [11, 12], "blind": None, "asked": None}
RECORDINGS = tuple(ISR)
NEAR_MS = 2.0
FEW = 30


def produce(recording: str, second: float, partition: int, ms: Row, **values: object) -> Row:
    """A partition of a PRODUCE whose latencies (ms) are recorded, acks_all and min_isr."""
    early, late = (None if ms["acks_all"] is None else ms["acks_all"] + d for d in (-0.5, 0.5))
    usual: Row = {
        "recording": recording,
        "rule": MIN_ISR_ACKS.name,
        "variant": ACKS_MIN_INSYNC_REPLICAS,
        "node_id": 11,
        "topic": "t",
        "partition": partition,
        "acks": -1,
        "received_at": at(second),
        "min_insync_replicas": 2,
        "isr": ISR[recording],
        "recorded_error": 0,
        "acks_all_error": 0,
        "min_isr_error": 0,
        "exposure_ms": None if ms["min_isr"] is None else ms["acks_all"] - ms["min_isr"],
        "request_acks_all_latency_earliest_ms": early,
        "request_acks_all_latency_latest_ms": late,
        **{f"{of}_{name}_latency_ms": ms[name] for of in ("partition", "request") for name in ms},
    }
    return row(PRODUCE_ACK_OUTCOMES, **(usual | values))


def drawn(dice: random.Random, wait_us: int) -> Row:
    """Latencies in ms: acks=all near the recorded one, but not always; acks=-2 sooner."""
    recorded = dice.randint(2_000, wait_us)
    replayed = max(1_500, recorded + dice.choice([0, 0, 300, -1_999, 2_000, 2_001, 9_000]))
    few = dice.randint(1_000, replayed)
    return {"recorded": recorded / 1000, "acks_all": replayed / 1000, "min_isr": few / 1000}


UNKNOWN: Row = {"recorded": 5.0, "acks_all": None, "min_isr": None}
UNTOLD: Row = {
    "verdict": Verdict.UNKNOWN.value,
    "reason": "isr",
    "acks_all_error": None,
    "min_isr_error": None,
}


def history(recording: str, wait_us: int) -> list[Row]:
    """Single PRODUCEs of partitions 0 (many), 1 (30 with those not known) and 2 (29)."""
    dice = random.Random(recording)
    rows = []
    for partition, produces, unknown in ((0, 40, 1), (1, 30, 4), (2, 29, 0)):
        for number in range(produces):
            ms, more = (UNKNOWN, UNTOLD) if number < unknown else (drawn(dice, wait_us), {})
            second = dice.randint(0, 120_000) / 1000
            rows.append(produce(recording, second, partition, ms, **more))
    return rows


def odd_ones(recording: str) -> list[Row]:
    """What is refused, times out, waits for nobody, does not apply, or belongs to a sweep."""
    ms = {"recorded": 7.0, "acks_all": 7.5, "min_isr": 1.25}
    dark = {"recorded": 7.0, "acks_all": 7.5, "min_isr": None}
    refused = {"recorded_error": 19, "acks_all_error": 19, "min_isr_error": 19}
    both = {
        "request_id": f"{recording} of two partitions",
        "partition_recorded_latency_ms": None,
        "request_min_isr_latency_ms": None,
        "exposure_ms": None,
    }
    sweep = {"parameter": "min_insync_replicas"}
    far = {"recorded": 999.0, "acks_all": 999.0, "min_isr": 999.0}
    not_applicable = {"verdict": Verdict.NOT_APPLICABLE.value, "reason": "no log"}
    return [
        produce(recording, 1, 3, ms, exposure_ms=None, **refused),
        # The whole ISR never had it: how long it was exposed is not known.
        produce(recording, 2, 3, ms, exposure_ms=None, acks_all_error=7, recorded_error=7),
        produce(recording, 3, 3, ms, acks_all_error=7),
        produce(recording, 4, 3, far | {"recorded": None}, recorded_error=None, node_id=12),
        # Partition 1 has its early ack in the dark, so nobody knows when the request is answered.
        produce(recording, 5, 0, ms, **both),
        produce(recording, 5, 1, dark, **both, **UNTOLD),
        produce(recording, 6, 0, far, acks=1),
        produce(recording, 7, 0, far, **not_applicable),
        produce(recording, 8, 0, ms | {"min_isr": 0.5}, parameter_value="1", **sweep),
        produce(recording, 9, 0, ms | {"min_isr": 7.5}, parameter_value="3", **sweep),
        produce(recording, 9.5, 0, UNKNOWN, parameter_value="3", **sweep, **UNTOLD),
    ]


ROWS = [
    *history("three", 60_000),
    *odd_ones("three"),
    *history("two", 9_000),
    *odd_ones("two"),
    # One PRODUCE only: no rate follows from it.
    produce("alone", 5, 0, {"recorded": 4.0, "acks_all": 4.5, "min_isr": 4.5}),
    *(produce("blind", second, 0, UNKNOWN, **UNTOLD) for second in range(40)),
    *(produce("asked", second, 0, drawn(random.Random(1), 9_000), acks=1) for second in (1, 3)),
]


# --- plain arithmetic -----------------------------------------------------------------------------


def values() -> dict[Key, list[Micros]]:
    """Microseconds by recording, variant, parameter, its value, metric, group kind and value."""
    found: dict[Key, list[Micros]] = defaultdict(list)
    requests: dict[Key, list[Row]] = defaultdict(list)
    for r in ROWS:
        if r["verdict"] == Verdict.NOT_APPLICABLE.value:
            continue
        of = (r["recording"], r["parameter"], r["parameter_value"])
        groups = [
            ("all", "all"),
            ("node_id", str(r["node_id"])),
            ("topic_partition", f"{r['topic']}-{r['partition']}"),
        ]
        for group in groups:
            if r["acks"] == -1:
                for variant, value in by_variant(r, "partition", told(r)):
                    found[of[0], variant, *of[1:], "produce_latency", *group].append(value)
            if r["min_isr_error"] == 0 or not told(r):
                key = (of[0], r["variant"], *of[1:], "exposure", *group)
                found[key].append(micros(r["exposure_ms"]))
        if r["acks"] == -1:
            requests[*of, r["request_id"]].append(r)
    for (recording, *of_sweep, _), partitions in requests.items():
        of_request = by_variant(partitions[0], "request", all(map(told, partitions)))
        for group in (("all", "all"), ("node_id", str(partitions[0]["node_id"]))):
            for variant, value in of_request:
                key = (recording, variant, *of_sweep, "produce_request_latency", *group)
                found[key].append(value)
    return found


def told(r: Row) -> bool:
    return bool(r["verdict"] == Verdict.REPLAYED.value)


def by_variant(r: Row, of: str, is_told: bool) -> list[tuple[str, Micros]]:
    """Recorded is as the log has it; a sweep varies nothing but the early answer."""
    variants = list(VARIANTS) if r["parameter"] == "none" else [ACKS_MIN_INSYNC_REPLICAS]
    return [
        (v, micros(r[f"{of}_{VARIANTS[v]}_latency_ms"]) if is_told or v == RECORDED else None)
        for v in variants
    ]


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
                return spreads.get(
                    (recording, variant, "none", "none", "produce_latency", *group), []
                )

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
                    STEPS.tolerances,
                    key,
                    variant,
                    percentile_ms(mine, q),
                    percentile_ms(of(target, RECORDED), q),
                    is_judged=source != target or not is_partition,
                ),
            }
    return found


# --- Spark against it -----------------------------------------------------------------------------

SELF_CHECKS = {(name, name): ACKS_ALL for name in RECORDINGS}
CROSSED = {
    ("three", "two"): ACKS_MIN_INSYNC_REPLICAS,
    ("three", "alone"): ACKS_MIN_INSYNC_REPLICAS,
}


@pytest.fixture(scope="module")
def summary(spark: SparkSession) -> dict[Key, Row]:
    rows = latencies(spark, STEPS, reader(spark, {PRODUCE_ACK_OUTCOMES: ROWS}), *RECORDINGS)
    assert {r["rule"] for r in rows} == {MIN_ISR_ACKS.name}
    key = "recording variant parameter parameter_value metric group_kind group_value"
    return keyed(rows, key.split())


@pytest.fixture(scope="module")
def held(spark: SparkSession) -> dict[Key, Row]:
    """prediction_accuracy of every pair that there is."""
    read = reader(spark, {PRODUCE_ACK_OUTCOMES: ROWS})
    return accuracy(spark, STEPS, read, RECORDINGS, product(RECORDINGS, RECORDINGS))


def test_every_figure_of_latency_summary(summary: dict[Key, Row]) -> None:
    expected = {key: spread(of) for key, of in values().items()}
    assert len(expected) > 60
    assert_same(summary, expected)


def test_a_request_is_unknown_as_soon_as_a_partition_of_it_is(summary: dict[Key, Row]) -> None:
    """Also where the row of another partition has all its latencies."""
    of = ("none", "none", "produce_request_latency", "all", "all")
    per_partition = ("none", "none", "produce_latency", "all", "all")
    requests = len({r["request_id"] for r in history("three", 60_000)}) + 5
    found = summary["three", ACKS_ALL, *of]
    # Five PRODUCEs of one partition, and the one of two.
    assert (found["count"], found["unknown_count"]) == (requests - 6, 6)
    assert summary["three", ACKS_ALL, *per_partition]["unknown_count"] == 6
    assert summary["three", RECORDED, *of]["count"] == requests - 1


def test_what_is_refused_exposes_nothing_and_what_never_arrives_is_unknown(
    summary: dict[Key, Row],
) -> None:
    of = ("none", "none", "exposure", "topic_partition", "t-3")
    found = summary["two", ACKS_MIN_INSYNC_REPLICAS, *of]
    # Of four, one is refused and one timed out before the whole ISR had it.
    assert (found["count"], found["unknown_count"]) == (2, 1)


def test_a_sweep_has_the_early_answer_only(summary: dict[Key, Row]) -> None:
    swept = {key for key in summary if key[2] != "none"}
    assert {key[1] for key in swept} == {ACKS_MIN_INSYNC_REPLICAS}
    assert {key[3] for key in swept} == {"1", "3"}
    of = ("min_insync_replicas", "3", "produce_latency", "all", "all")
    found = summary["two", ACKS_MIN_INSYNC_REPLICAS, *of]
    assert (found["p50_ms"], found["p99_ms"], found["unknown_count"]) == (7.5, 7.5, 1)


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
        expected = verdict(STEPS.tolerances, key, ACKS_ALL, share, 1.0)
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
