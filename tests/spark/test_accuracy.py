"""prediction_accuracy's own arithmetic: what is joined, what is an error, and what passes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from constructed import Key, Row, accuracy, assert_same, at, keyed, reader, row, rule_steps, verdict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from kip_replay.pipelines.analysis.accuracy import (
    PREDICTED,
    Tolerance,
    held_against,
    judged,
    side_by_side,
    wanted_pairs,
)
from kip_replay.pipelines.rules import RULES
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.rules import EMPTY_WAKE, HWM_PARKING, WITH_KIP, WITHOUT_KIP, Completion
from kip_replay.replay.schema import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG, PREDICTION_ACCURACY

_MEASURES = (
    "recording string, rule string, variant string, parameter string, parameter_value string, "
    "metric string, group_kind string, group_value string, unit string, value double, "
    "baseline double, sample_count bigint, unknown_count bigint"
)
_PREDICTED = (
    "predicted_from string, recorded_in string, rule string, variant string, parameter string, "
    "parameter_value string, metric string, group_kind string, group_value string, unit string, "
    "baseline double, predicted double, recorded double, scale double, is_judged boolean, "
    "sample_count bigint, unknown_count bigint"
)


def measured(spark: SparkSession, *rows: tuple[str, str, str, str, float | None]) -> DataFrame:
    """Measures by recording, variant, metric, unit and value."""
    filled = [
        (name, "rule", variant, "none", "none", metric, "all", "all", unit, value, 0.5, 7, 2)
        for name, variant, metric, unit, value in rows
    ]
    return spark.createDataFrame(filled, _MEASURES)


def wanted(spark: SparkSession, *pairs: tuple[str, str, str]) -> DataFrame:
    return spark.createDataFrame(
        list(pairs), "predicted_from string, recorded_in string, own_variant string"
    )


def figures(frame: DataFrame) -> dict[Key, tuple[Any, ...]]:
    rows = keyed(frame.toArrow().to_pylist(), ("predicted_from", "recorded_in", "metric"))
    names = ("variant", "predicted", "recorded", "baseline", "sample_count", "unknown_count")
    return {key: tuple(r[name] for name in names) for key, r in rows.items()}


def test_a_prediction_stands_beside_what_was_recorded(spark: SparkSession) -> None:
    """Under the variant that the other recording ran; what one side lacks is no count there."""
    measures = measured(
        spark,
        ("a", "new", "wait", "ms", 10.0),
        ("a", "old", "wait", "ms", 20.0),
        ("a", RECORDED, "wait", "ms", 21.0),
        ("b", RECORDED, "wait", "ms", 12.0),
        ("b", "old", "wait", "ms", 99.0),
        ("a", "new", "only predicted", "count", 3.0),
        ("a", "new", "only predicted wait", "ms", 3.0),
        ("b", RECORDED, "only recorded", "count", 4.0),
        ("b", RECORDED, "only recorded wait", "ms", 4.0),
        ("c", RECORDED, "wait", "ms", 99.0),
    )
    both = side_by_side(measures, wanted(spark, ("a", "a", "old"), ("a", "b", "new")))
    assert set(both.columns) == set(PREDICTED)
    assert figures(both) == {
        ("a", "a", "wait"): ("old", 20.0, 21.0, 0.5, 7, 2),
        ("a", "b", "wait"): ("new", 10.0, 12.0, 0.5, 7, 2),
        ("a", "b", "only predicted"): ("new", 3.0, 0.0, 0.5, 7, 2),
        ("a", "b", "only predicted wait"): ("new", 3.0, None, 0.5, 7, 2),
        ("a", "b", "only recorded"): ("new", 0.0, 4.0, None, 0, 0),
        ("a", "b", "only recorded wait"): ("new", None, 4.0, None, 0, 0),
    }


def test_what_is_known_beforehand_is_asked_of_self_checks_only(spark: SparkSession) -> None:
    shares = measured(
        spark, ("a", RECORDED, "share", "share", 0.75), ("b", "any", "share", "share", None)
    )
    rows = held_against(
        shares,
        wanted(spark, ("a", "a", "old"), ("a", "b", "new"), ("b", "b", "new")),
        1.0,
    )
    assert set(rows.columns) == set(PREDICTED)
    assert figures(rows) == {
        ("a", "a", "share"): ("old", 0.75, 1.0, None, 7, 2),
        ("b", "b", "share"): ("new", None, 1.0, None, 7, 2),
    }


TOLERANCES = (
    Tolerance("either", "v", True, 1.0, 0.1),
    Tolerance("either", "v", False, 2.0, 0.5),
    Tolerance("absolute", "v", True, 1.0, None),
    Tolerance("relative", "v", True, None, 0.1),
)


def judgement(
    spark: SparkSession, rows: list[tuple[str, str, str, float | None, float | None]]
) -> list[Row]:
    """Rows by recorded_in, variant, metric, predicted and recorded, as they are judged."""
    filled = [
        ("a", target, "rule", variant, "none", "none", metric, "n", str(n), "ms", *values)
        for n, (target, variant, metric, *told) in enumerate(rows)
        for values in [(None, *told, None, True, 7, 2)]
    ]
    found = judged(spark, spark.createDataFrame(filled, _PREDICTED), TOLERANCES)
    assert set(found.columns) == set(PREDICTION_ACCURACY.arrow_schema.names)
    return sorted(found.toArrow().to_pylist(), key=lambda r: int(r["group_value"]))


#: metric, predicted, recorded; the tolerance and whether it passes.
CASES: list[tuple[str, float | None, float | None, float | None, bool | None]] = [
    # The larger of the two: 1 ms of a small value, a tenth of a large one.
    ("either", 6.0, 5.0, 1.0, True),
    ("either", 6.5, 5.0, 1.0, False),
    ("either", 18.0, 20.0, 2.0, True),
    ("either", 17.5, 20.0, 2.0, False),
    ("either", -22.5, -20.0, 2.0, False),
    ("absolute", 100.5, 100.0, 1.0, True),
    ("absolute", 102.0, 100.0, 1.0, False),
    ("relative", 109.0, 100.0, 10.0, True),
    ("relative", 0.5, 0.0, 0.0, False),
    ("relative", 0.0, 0.0, 0.0, True),
    # Nothing is predicted where something was recorded: a miss.
    ("relative", None, 100.0, 10.0, False),
    ("absolute", None, None, 1.0, False),
    # Relative to what nobody knows: no demand.
    ("relative", 100.0, None, None, None),
    ("no such metric", 1.0, 1.0, None, None),
]


def test_what_passes(spark: SparkSession) -> None:
    found = judgement(spark, [("a", "v", *case[:3]) for case in CASES])
    assert [(r["tolerance"], r["passed"]) for r in found] == [case[3:] for case in CASES]


VALUE = st.one_of(st.none(), st.floats(-1e9, 1e9), st.sampled_from([0.0, 1.0, 10.0]))


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.sampled_from(["v", "w"]),
            st.sampled_from(["either", "absolute", "relative", "none"]),
            VALUE,
            VALUE,
        ),
        min_size=1,
        max_size=40,
    )
)
def test_judged_is_plain_arithmetic_on_each_row(
    spark: SparkSession, rows: list[tuple[str, str, str, float | None, float | None]]
) -> None:
    found = judgement(spark, rows)
    assert len(found) == len(rows)
    for told, (target, variant, metric, predicted, recorded) in zip(found, rows, strict=True):
        expected = verdict(TOLERANCES, ("a", target, metric), variant, predicted, recorded)
        assert {name: told[name] for name in expected} == expected
        assert (told["recording"], told["sample_count"], told["unknown_count"]) == ("a", 7, 2)


def test_a_scale_replaces_recorded_and_what_is_not_judged_has_no_verdict(
    spark: SparkSession,
) -> None:
    row = ("a", "a", "rule", "v", "none", "none", "relative", "n")
    rows = [
        (*row, "scaled", "count", None, 5.0, 1.0, 100.0, True, 7, 0),
        (*row, "too far", "count", None, 15.0, 1.0, 100.0, True, 7, 0),
        (*row, "shown", "count", None, 5.0, 1.0, 100.0, False, 7, 0),
    ]
    found = judged(spark, spark.createDataFrame(rows, _PREDICTED), TOLERANCES).collect()
    verdicts = {r["group_value"]: (r["error"], r["tolerance"], r["passed"]) for r in found}
    assert verdicts == {
        "scaled": (4.0, 10.0, True),
        "too far": (14.0, 10.0, False),
        "shown": (4.0, None, None),
    }


def test_wanted_pairs(spark: SparkSession) -> None:
    pairs = [("a", "b"), ("a", "a")]
    found = wanted_pairs(spark, pairs).collect()
    assert [(r["predicted_from"], r["recorded_in"]) for r in found] == pairs


@pytest.mark.parametrize("steps", RULES, ids=lambda steps: steps.name)
def test_every_demand_is_said_once_and_demands_something(steps: Any) -> None:
    """A metric with two tolerances would be judged twice; one without a limit never."""
    demands = Counter((t.metric, t.variant, t.self_check) for t in steps.tolerances)
    assert set(demands.values()) == {1}
    for tolerance in steps.tolerances:
        limits = [x for x in (tolerance.absolute, tolerance.relative) if x is not None]
        assert limits
        assert all(limit >= 0 for limit in limits)


# --- hwm_parking: pairs of one protocol -----------------------------------------------------------

#: What the brokers of each recording ran, and FETCHes by completion.
RAN = {"old": WITHOUT_KIP, "new": WITH_KIP, "new again": WITH_KIP}
RECORDS, TIMEOUT = Completion.RECORDS.value, Completion.TIMEOUT.value
FETCHED = {
    "old": {RECORDS: 50, TIMEOUT: 6},
    "new": {RECORDS: 80, TIMEOUT: 1},
    "new again": {RECORDS: 82, TIMEOUT: 3},
}
STEPS = rule_steps(HWM_PARKING.name)


def fetches(recording: str) -> list[Row]:
    """Recorded FETCHes of a broker; as predicted, the rule of the KIP needs one timeout more."""
    rows = []
    for variant in (RECORDED, WITHOUT_KIP, WITH_KIP):
        for completion, times in FETCHED[recording].items():
            more = variant != RECORDED and completion == TIMEOUT
            rows += [
                row(
                    FETCH_PARKING_OUTCOMES,
                    recording=recording,
                    rule=HWM_PARKING.name,
                    variant=variant,
                    leader_id=1,
                    leader_epoch=1,
                    replica_id=11,
                    sequence=len(rows) + n,
                    is_voter=False,
                    dequeued_at=at(20 + n),
                    built_at=at(20.25 + n),
                    completion=completion,
                    decision="parked",
                    parked_ms=250.0,
                    request_bytes=100,
                    response_bytes=50,
                    replica_high_watermark=None if RAN[recording] == WITHOUT_KIP else 5,
                )
                for n in range(times + more)
            ]
    return rows + odd_answers(recording)


def odd_answers(recording: str) -> list[Row]:
    """Two that no rule explains, one of them a wake of all; one unknown; one of no leader."""
    usual: Row = {
        "recording": recording,
        "rule": HWM_PARKING.name,
        "variant": RECORDED,
        "leader_id": 1,
        "leader_epoch": 2,
        "replica_id": 11,
        "dequeued_at": at(5),
        "built_at": at(5),
    }
    unexplained: Row = {"completion": Completion.UNEXPLAINED.value}
    told: list[Row] = [
        unexplained,
        unexplained | {"reason": EMPTY_WAKE},
        {"verdict": Verdict.UNKNOWN.value, "reason": "the log began later"},
        {"verdict": Verdict.NOT_APPLICABLE.value, "reason": "no leader"},
    ]
    return [
        row(FETCH_PARKING_OUTCOMES, **(usual | more), sequence=n) for n, more in enumerate(told)
    ]


#: Lags of a broker in ms; one that was never learned is not known.
LAGS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, None]


def lags(recording: str) -> list[Row]:
    usual: Row = {
        "recording": recording,
        "rule": HWM_PARKING.name,
        "leader_id": 1,
        "leader_epoch": 1,
        "phase": "steady",
    }
    return [
        row(
            HIGH_WATERMARK_LAG,
            **usual,
            variant=variant,
            replica_id=replica,
            is_voter=replica < 10,
            high_watermark=n,
            lag_ms=lag,
            verdict=verdict_,
        )
        for variant in (RECORDED, WITHOUT_KIP, WITH_KIP)
        for replica in (2, 11)
        for n, lag in enumerate(LAGS)
        for verdict_ in [(Verdict.UNKNOWN if lag is None else Verdict.REPLAYED).value]
    ]


@pytest.fixture(scope="module")
def held(spark: SparkSession) -> dict[Key, Row]:
    tables = {
        FETCH_PARKING_OUTCOMES: [r for name in RAN for r in fetches(name)],
        HIGH_WATERMARK_LAG: [r for name in RAN for r in lags(name)],
    }
    pairs = [(one, other) for one in RAN for other in RAN]
    return accuracy(spark, STEPS, reader(spark, tables), list(RAN), pairs)


def test_recordings_of_one_protocol_are_shown_and_not_judged(held: dict[Key, Row]) -> None:
    assert {key[:2] for key in held} == {(one, other) for one in RAN for other in RAN}
    of_one_protocol = {("new", "new again"), ("new again", "new")}
    for pair in {key[:2] for key in held}:
        limits = {r["tolerance"] for key, r in held.items() if key[:2] == pair}
        assert (limits == {None}) == (pair in of_one_protocol)
    assert {held[key]["variant"] == RAN[key[1]] for key in held} == {True}


def test_voters_are_shown_and_not_judged(held: dict[Key, Row]) -> None:
    of = ("old", "new", "high_watermark_lag_p50", "replica_kind")
    assert (held[*of, "voter"]["predicted"], held[*of, "voter"]["passed"]) == (5.0, None)
    assert (held[*of, "broker"]["predicted"], held[*of, "broker"]["passed"]) == (5.0, True)
    # The tenth is not known, and ranks last.
    of_p99 = ("old", "new", "high_watermark_lag_p99", "replica_kind", "broker")
    assert held[of_p99]["predicted"] == 9.0
    assert (held[of_p99]["sample_count"], held[of_p99]["unknown_count"]) == (9, 1)


def test_naive_guesses_of_the_lag(held: dict[Key, Row]) -> None:
    """Parked for a random part of 500 ms without the KIP, not at all with it."""
    guesses = {"old": (250.0, 450.0, 495.0), "new": (0.0, 0.0, 0.0)}
    for target, expected in guesses.items():
        found = [
            held["new", target, f"high_watermark_lag_{p}", "replica_kind", "broker"]["baseline"]
            for p in ("p50", "p90", "p99")
        ]
        assert tuple(found) == expected


def test_a_fetch_of_a_rare_completion_is_held_against_all_fetches(held: dict[Key, Row]) -> None:
    """One timeout for two is no error of 100 %: it is one FETCH of 81 and 56."""
    expected: dict[Key, Row] = {}
    for recording, ran in RAN.items():
        every = sum(FETCHED[recording].values())
        for completion, times in FETCHED[recording].items():
            error = float(completion == TIMEOUT)
            expected[recording, recording, "fetches", "completion", completion] = {
                "variant": ran,
                "recorded": float(times),
                "error": error,
                "tolerance": 0.02 * every,
                "passed": error <= 0.02 * every,
            }
    assert_same(
        {key: r for key, r in held.items() if key[0] == key[1]},
        expected,
        lambda key: key[2:4] == ("fetches", "completion"),
    )


def test_what_is_unknown_is_not_explained(held: dict[Key, Row]) -> None:
    for recording in RAN:
        explained = sum(FETCHED[recording].values())
        answers = explained + 3
        of = (recording, recording)
        found = held[*of, "answers_explained", "all", "all"]
        woken = held[*of, "answers_explained_or_woken", "all", "all"]
        assert found["predicted"] == explained / answers
        assert woken["predicted"] == (explained + 1) / answers
        assert (found["sample_count"], found["unknown_count"]) == (answers, 1)


def test_fetches_per_second_of_the_steady_phase(held: dict[Key, Row]) -> None:
    """The constant guess: a FETCH per advance and replica, two with the KIP."""
    found = held["old", "new", "fetches_per_second", "all", "all"]
    assert found["predicted"] == (sum(FETCHED["old"].values()) + 1) / 100
    assert found["recorded"] == sum(FETCHED["new"].values()) / 100
    assert found["baseline"] == 2 * len(LAGS) * 2 / 100
    of_bytes = held["old", "new", "fetch_bytes_per_second", "all", "all"]
    assert of_bytes["recorded"] == sum(FETCHED["new"].values()) * 150 / 100
    assert of_bytes["passed"] is None
