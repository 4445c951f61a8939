"""How lowest_acked_offset is judged equals plain arithmetic on the same small tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from constructed import (
    STEADY_S,
    Key,
    Row,
    accuracy,
    assert_same,
    at,
    known_and_unknown,
    latency_rows,
    percentile_ms,
    row,
    verdict,
)
from constructed.writes import RECORDINGS, STEPS, WRITES, values

from kip_replay.replay.log_tables import (
    BROKER_HEARTBEATS,
    CLIENT_OBSERVATIONS,
    METADATA_WRITES,
    REQUESTS,
    TOPICS,
)
from kip_replay.replay.lowest_acked_offset import FINEST_EVIDENCE, HEARTBEAT_INTERVAL, LOWEST_ACKED
from kip_replay.replay.lowest_acked_offset.registration import RULE as LOWEST_ACKED_OFFSET
from kip_replay.replay.lowest_acked_offset.tables import METADATA_WRITE_VISIBILITY
from kip_replay.replay.outcomes import Verdict
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LATENCY_SUMMARY

#: Clients' poll and the answer to it, and what is added where a broker stood still.
SLACK_S, FROZEN_S = 0.1, 2.0
#: A request, and what it tells of a topic.
Told = tuple[Row, Row]
HEARTBEAT, FETCHED = "heartbeat", "fetch_high_watermark"


def heartbeats(recording: str, broker: int, built_and_next: list[tuple[float, float]]) -> list[Row]:
    """Heartbeats by (received, built)."""
    return [
        row(
            BROKER_HEARTBEATS,
            recording=recording,
            broker_id=broker,
            node_id=1,
            received_at=at(received),
            built_at=at(built),
        )
        for received, built in built_and_next
    ]


def regular(recording: str, broker: int, every_s: float, times: int) -> list[Row]:
    """A broker that waits ``every_s`` after each answer, which takes half a second."""
    return heartbeats(
        recording,
        broker,
        [(n * (every_s + 0.5), n * (every_s + 0.5) + 0.5) for n in range(times)],
    )


BEATS = [
    *regular("r", 11, 2.0005, 44),
    # Stood still twice, from 20 to 30 and from 60 to 65 s; 3 s apart is none.
    *heartbeats("r", 12, [(s, s + 0.5) for s in [18, 20, *range(30, 61, 3), 65, 67]]),
    *regular("other", 11, 3.0, 5),
    *regular("dark", 11, 2.0, 5),
]


# --- claims: what brokers answered and clients saw ------------------------------------------------


def created(name: str, second: float, *topics: tuple[str, int], api: str = "CREATE_TOPICS") -> Row:
    """A write of topics, each with its error."""
    resources = [
        {"resource_type": "topic", "name": topic, "error_code": error} for topic, error in topics
    ]
    return row(
        METADATA_WRITES,
        request_id=name,
        node_id=1,
        api_name=api,
        received_at=at(second),
        error_code=0,
        resources=resources,
    )


def claim(write: str, broker: int, second: float | None, **more: object) -> Row:
    usual: Row = {
        "rule": LOWEST_ACKED_OFFSET.name,
        "variant": LOWEST_ACKED,
        "request_id": write,
        "broker_id": broker,
        "evidence": HEARTBEAT,
        "applied_at_latest": None if second is None else at(second),
    }
    return row(METADATA_WRITE_VISIBILITY, **(usual | more))


def metadata(broker: int, second: float, topic: str, error: int, api: str = "METADATA") -> Told:
    """A line of a broker that tells of a topic."""
    line = row(REQUESTS, node_id=broker, api_name=api, dequeued_at=at(second))
    of_line = {name: line[name] for name in ("recording", "request_id", "node_id")}
    return line, row(TOPICS, topic=topic, source=api, error_code=error, **of_line)


def seen(topic: str, broker: int, asked: float, visible: float | None, answered: float) -> Row:
    return row(
        CLIENT_OBSERVATIONS,
        operation="create",
        topic=topic,
        broker_id=broker,
        requested_at=at(asked),
        responded_at=at(answered),
        visible_at=None if visible is None else at(visible),
    )


def shares_of(
    metric: str,
    claims: list[Row],
    writes: list[Row],
    told: Sequence[Told] = (),
    saw: Sequence[Row] = (),
) -> dict[str, tuple[float, int]]:
    """predicted and sample_count of a metric by evidence."""
    tables: dict[Table, list[Row]] = {
        METADATA_WRITE_VISIBILITY: claims,
        METADATA_WRITES: writes,
        REQUESTS: [line for line, _ in told],
        TOPICS: [topic for _, topic in told],
        CLIENT_OBSERVATIONS: [*saw],
        BROKER_HEARTBEATS: BEATS,
    }
    found = accuracy(STEPS, tables, ["r"], [("r", "r")])
    chosen = {key: r for key, r in found.items() if key[2] == metric}
    for key, r in chosen.items():
        expected = verdict(STEPS.judgement.tolerances, key, LOWEST_ACKED, r["predicted"], 1.0)
        assert {name: r[name] for name in expected} == expected
        assert (key[3], r["unit"], r["unknown_count"]) == ("evidence", "share", 0)
    return {key[4]: (r["predicted"], r["sample_count"]) for key, r in chosen.items()}


@pytest.fixture(scope="module")
def held() -> dict[Key, Row]:
    """prediction_accuracy of self-checks and of pairs."""
    tables: dict[Table, list[Row]] = {
        LATENCY_SUMMARY: latency_rows(STEPS.name, values(WRITES)),
        BROKER_HEARTBEATS: BEATS,
        CLIENT_OBSERVATIONS: SAW,
    }
    pairs = [(one, other) for one in RECORDINGS for other in RECORDINGS]
    return accuracy(STEPS, tables, RECORDINGS, pairs)


#: Six creations that clients followed; the client of broker 12 never saw the last one.
SAW = [
    *(
        seen(f"t{n}", broker, 20 + n, 20.2 + n + n * 0.125 * (broker - 10), 20.1 + n)
        for n in range(5)
        for broker in (11, 12)
    ),
    seen("t5", 11, 40, 40.2, 40.1),
    seen("t5", 12, 40, None, 40.1),
    seen("early", 11, STEADY_S[0] - 0.001, 99, 11),
    seen("late", 11, STEADY_S[1], 199, 120),
]


def test_only_self_checks_have_rows(held: dict[Key, Row]) -> None:
    """The draft is in no release: no other recording can tell."""
    assert {key[:2] for key in held} == {("r", "r"), ("dark", "dark")}
    assert {r["variant"] for r in held.values()} == {LOWEST_ACKED}


def test_simulated_heartbeats_are_held_against_recorded_ones(held: dict[Key, Row]) -> None:
    """At the interval that was recorded: the nearest within 5 %, and none that is farther.

    The other recording has none so near, and no row.
    """
    expected: dict[Key, Row] = {}
    of = values(WRITES)
    metric = "read_after_write"
    for recording in ("r", "dark"):
        recorded = of[recording, LOWEST_ACKED, "none", -1, metric, "all", "all"]
        simulated = of[recording, LOWEST_ACKED, HEARTBEAT_INTERVAL, 2000, metric, "all", "all"]
        for p, q in (("p50", 500), ("p90", 900)):
            key = (recording, recording, f"simulated_{metric}_{p}", "all", "all")
            told = (percentile_ms(simulated, q), percentile_ms(recorded, q))
            expected[key] = {
                "unit": "ms",
                "baseline": None,
                **known_and_unknown(simulated),
                **verdict(STEPS.judgement.tolerances, key, LOWEST_ACKED, *told),
            }
    assert_same(held, expected, lambda key: key[2].startswith("simulated"))
    assert held["r", "r", "simulated_read_after_write_p50", "all", "all"]["passed"] is True
    # What was simulated and is unknown is a miss.
    unknown = held["dark", "dark", "simulated_read_after_write_p50", "all", "all"]
    assert (unknown["predicted"], unknown["passed"]) == (None, False)
    assert (unknown["sample_count"], unknown["unknown_count"]) == (13, 28)


def test_stale_windows_stand_beside_what_clients_saw(held: dict[Key, Row]) -> None:
    """From the answer until the last client saw it; by heartbeats, so shown and not judged."""
    of = ("none", -1, "stale_window", "api_name", "CREATE_TOPICS")
    predicted = values(WRITES)["r", LOWEST_ACKED, *of]
    last = [100_000 + n * 250_000 for n in range(5)]
    expected: dict[Key, Row] = {}
    for p, q in (("p50", 500), ("p90", 900)):
        key = ("r", "r", f"create_topics_stale_window_{p}", "all", "all")
        told = (percentile_ms(predicted, q), percentile_ms([*last, None], q))
        expected[key] = {
            "unit": "ms",
            **known_and_unknown(predicted),
            **verdict(STEPS.judgement.tolerances, key, LOWEST_ACKED, *told),
        }
        assert expected[key]["tolerance"] is None
    # No client of the others was asked.
    assert_same(held, expected, lambda key: key[2].startswith("create_topics"))
    assert expected["r", "r", "create_topics_stale_window_p50", "all", "all"]["recorded"] == 600.0


def test_claims_that_brokers_deny() -> None:
    """A later METADATA error 3 denies a claim; one before it, or after the deletion, does not."""
    names = ("denied", "kept", "deleted", "re-created", "cleared", "refused")
    writes = [
        *(created(name, 20, (name, 0)) for name in names[:-1]),
        created("refused", 20, ("refused", 36), ("beside", 0)),
        created("gone", 40, ("deleted", 0), ("re-created", 0), api="DELETE_TOPICS"),
        created("again", 50, ("re-created", 0)),
        # Asked before it was there, as scripts do.
        created("clear", 19, ("cleared", 3), api="DELETE_TOPICS"),
    ]
    claims = [
        *(claim(name, 11, 22) for name in names),
        claim("again", 11, 51),
        # Later evidence, which nobody denied: a share of its own.
        claim("denied", 11, 25, evidence=FETCHED),
        claim("kept", 11, 25, evidence=FETCHED),
        # These claim nothing.
        claim("denied", 12, None),
        claim("denied", 13, 20, verdict=Verdict.UNKNOWN.value),
        claim("denied", 14, 20, variant=FINEST_EVIDENCE),
        claim("denied", 15, 20, parameter=HEARTBEAT_INTERVAL, parameter_value=500),
    ]
    told = [
        metadata(11, 21, "denied", 3),
        metadata(11, 24, "denied", 3),
        metadata(11, 22, "kept", 3),
        metadata(11, 24, "kept", 0),
        metadata(11, 24, "kept", 5),
        metadata(12, 24, "kept", 3),
        metadata(11, 26, "kept", 3, api="DESCRIBE_CONFIGS"),
        metadata(11, 21, "deleted", 3),
        metadata(11, 41, "deleted", 3),
        # Denied after its second creation: that is no word about the first.
        metadata(11, 21, "re-created", 3),
        metadata(11, 45, "re-created", 3),
        metadata(11, 52, "re-created", 3),
        metadata(11, 23, "cleared", 3),
        metadata(11, 99, "refused", 3),
        *(metadata(broker, 99, "denied", 3) for broker in (12, 13, 14, 15)),
    ]
    held = {"denied": False, "kept": True, "deleted": True, "re-created": True} | {
        "again": False,
        "cleared": False,
    }
    found = shares_of("claims_no_broker_denied", claims, writes, told)
    assert found == {HEARTBEAT: (sum(held.values()) / len(held), len(held)), FETCHED: (1.0, 2)}


#: Each is a claim of broker 11 or 12 at a second, of a topic that a client saw at another.
IN_TIME = {
    "after it": (11, 40.0, 40.0, True),
    "a poll and its answer sooner": (11, 40.0 - SLACK_S, 40.0, True),
    "sooner than that": (11, 40.0 - SLACK_S - 0.001, 40.0, False),
    "while it stood still": (12, 29.0 - SLACK_S - FROZEN_S, 29.0, True),
    "long before that": (12, 29.0 - SLACK_S - FROZEN_S - 0.001, 29.0, False),
    "until three seconds after": (12, 33.0 - FROZEN_S, 33.0, True),
    "later than three seconds": (12, 33.001 - FROZEN_S, 33.001, False),
    "in its second standstill": (12, 62.0 - FROZEN_S, 62.0, True),
    "between its standstills": (12, 50.0 - FROZEN_S, 50.0, False),
    "of a topic that it never saw": (11, 40.0, None, False),
}


def test_claims_that_are_earlier_than_clients_saw_it() -> None:
    """By one poll at most, which takes two seconds more where the broker stood still."""
    writes = [created(name, 20, (name, 0)) for name in IN_TIME]
    claims = [claim(name, broker, second) for name, (broker, second, *_) in IN_TIME.items()]
    saw = [
        seen(name, broker, 20, visible, 20.1) for name, (broker, _, visible, _) in IN_TIME.items()
    ]
    # Nobody asked broker 13, and nobody claims anything of this topic.
    claims.append(claim("after it", 13, 20))
    saw.append(seen("unclaimed", 11, 20, 99, 20.1))
    # Created twice: each claim is held against what was seen of its own creation.
    writes += [created(f"twice at {s}", s, ("twice", 0)) for s in (20, 70)]
    claims += [claim("twice at 20", 11, 21), claim("twice at 70", 11, 70.1)]
    saw += [seen("twice", 11, 19.9, 21, 20.1), seen("twice", 11, 69.9, 71, 70.1)]
    holds = [*(is_in_time for *_, is_in_time in IN_TIME.values()), True, False]
    found = shares_of("claims_not_before_clients_saw_it", claims, writes, saw=saw)
    assert found == {HEARTBEAT: (sum(holds) / len(holds), len(holds))}
