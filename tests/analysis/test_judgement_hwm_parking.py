"""How hwm_parking is judged equals plain arithmetic on the same small tables."""

from itertools import product

import pytest
from constructed import (
    Key,
    Micros,
    Row,
    accuracy,
    assert_same,
    at,
    latency_rows,
    micros,
    row,
    rule_steps,
)

from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP, Completion
from kip_replay.replay.hwm_parking.registration import RULE as HWM_PARKING
from kip_replay.replay.hwm_parking.tables import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.tables import LATENCY_SUMMARY

#: What the brokers of each recording ran, and FETCHes by completion.
RAN = {"old": WITHOUT_KIP, "new": WITH_KIP, "new again": WITH_KIP}
RECORDINGS = tuple(RAN)
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
            same: Row = {"variant": variant, "completion": completion, **PARKED}
            same["replica_high_watermark"] = None if RAN[recording] == WITHOUT_KIP else 5
            for n in range(times + more):
                completed: Row = {"dequeued_at": at(20 + n), "built_at": at(20.25 + n)}
                rows.append(fetch(recording, 1, len(rows), **same, **completed))
    return rows + odd_responses(recording)


PARKED: Row = {"is_voter": False, "decision": "parked", "parked_ms": 250.0}
PARKED |= {"request_bytes": 100, "response_bytes": 50}


def fetch(recording: str, leader_epoch: int, sequence: int, **values: object) -> Row:
    leader = {"leader_id": 1, "leader_epoch": leader_epoch, "replica_id": 11, "sequence": sequence}
    named = {"recording": recording, "rule": HWM_PARKING.name}
    return row(FETCH_PARKING_OUTCOMES, **named, **leader, **values)


def odd_responses(recording: str) -> list[Row]:
    """One that no rule explains, one unknown, one of no leader."""
    usual: Row = {"variant": RECORDED, "dequeued_at": at(5), "built_at": at(5)}
    odd: list[Row] = [
        {"completion": Completion.UNEXPLAINED.value},
        {"verdict": Verdict.UNKNOWN.value, "reason": "the log began later"},
        {"verdict": Verdict.NOT_APPLICABLE.value, "reason": "no leader"},
    ]
    return [fetch(recording, 2, n, **(usual | more)) for n, more in enumerate(odd)]


#: Lags of a broker in ms; one that was never learned is not known.
LAGS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, None]
LAGS_US: dict[Key, list[Micros]] = {
    (name, variant, "none", -1, "high_watermark_lag", "replica_kind", kind): [*map(micros, LAGS)]
    for name in RAN
    for variant in (RECORDED, WITHOUT_KIP, WITH_KIP)
    for kind in ("voter", "broker")
}


def lags(recording: str) -> list[Row]:
    usual: Row = {"recording": recording, "rule": HWM_PARKING.name, "phase": "steady"}
    usual |= {"leader_id": 1, "leader_epoch": 1}
    rows = []
    for variant, replica in product((RECORDED, WITHOUT_KIP, WITH_KIP), (2, 11)):
        of: Row = {"variant": variant, "replica_id": replica, "is_voter": replica < 10}
        for n, lag in enumerate(LAGS):
            verdict = (Verdict.UNKNOWN if lag is None else Verdict.REPLAYED).value
            lag_of: Row = {"high_watermark": n, "lag_ms": lag, "verdict": verdict}
            rows.append(row(HIGH_WATERMARK_LAG, **usual, **of, **lag_of))
    return rows


TABLES = {
    LATENCY_SUMMARY: latency_rows(HWM_PARKING.name, LAGS_US),
    FETCH_PARKING_OUTCOMES: [r for name in RAN for r in fetches(name)],
    HIGH_WATERMARK_LAG: [r for name in RAN for r in lags(name)],
}


@pytest.fixture(scope="module")
def held() -> dict[Key, Row]:
    return accuracy(STEPS, TABLES, RECORDINGS, product(RAN, RAN))


def test_recordings_of_one_protocol_are_shown_and_not_judged(held: dict[Key, Row]) -> None:
    assert {key[:2] for key in held} == set(product(RAN, RAN))
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


def test_baselines_of_the_lag(held: dict[Key, Row]) -> None:
    """Parked for a random part of 500 ms without the KIP, not at all with it."""
    baselines = {"old": (250.0, 450.0, 495.0), "new": (0.0, 0.0, 0.0)}
    for target, expected in baselines.items():
        for p, baseline in zip(("p50", "p90", "p99"), expected, strict=True):
            key = ("new", target, f"high_watermark_lag_{p}", "replica_kind", "broker")
            assert held[key]["baseline"] == baseline


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
        responses = explained + 2
        of = (recording, recording)
        found = held[*of, "answers_explained", "all", "all"]
        assert found["predicted"] == explained / responses
        assert (found["sample_count"], found["unknown_count"]) == (responses, 1)


def test_fetches_per_second_of_the_steady_phase(held: dict[Key, Row]) -> None:
    """The constant baseline: a FETCH per advance and replica, two with the KIP."""
    found = held["old", "new", "fetches_per_second", "all", "all"]
    assert found["predicted"] == (sum(FETCHED["old"].values()) + 1) / 100
    assert found["recorded"] == sum(FETCHED["new"].values()) / 100
    assert found["baseline"] == 2 * len(LAGS) * 2 / 100
    of_bytes = held["old", "new", "fetch_bytes_per_second", "all", "all"]
    assert of_bytes["recorded"] == sum(FETCHED["new"].values()) * 150 / 100
    assert of_bytes["passed"] is None
