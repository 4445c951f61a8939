"""What claims and estimates of lowest_acked_offset are held against, a case at a time."""

from collections.abc import Sequence
from typing import Any

from constructed import Row, accuracy, at, row
from constructed.writes import STEPS, seen

from kip_replay.replay.log_tables import (
    APPLIED_OBSERVATIONS,
    CLIENT_OBSERVATIONS,
    LOWEST_ACKED_OBSERVATIONS,
    METADATA_WRITES,
    REQUESTS,
    TOPICS,
)
from kip_replay.replay.lowest_acked_offset import (
    ESTIMATED,
    HEARTBEAT_INTERVAL,
    LOWEST_ACKED,
)
from kip_replay.replay.lowest_acked_offset.registration import RULE as LOWEST_ACKED_OFFSET
from kip_replay.replay.lowest_acked_offset.tables import (
    APPLIED_OFFSETS,
    HEARTBEAT_OUTCOMES,
    METADATA_WRITE_OUTCOMES,
    METADATA_WRITE_VISIBILITY,
)
from kip_replay.replay.outcomes import Verdict
from kip_replay.replay.table import Table

#: Clients' poll and the answer to it.
SLACK_S = 0.1
#: A request, and what it returned on a topic.
Line = tuple[Row, Row]
HEARTBEAT, FETCHED, API_VERSIONS = "heartbeat", "fetch_high_watermark", "api_versions"


# --- claims: what brokers answered and clients saw ------------------------------------------------


def created(name: str, second: float, *topics: tuple[str, int], api: str = "CREATE_TOPICS") -> Row:
    """A write of topics, each with its error."""
    resources = [
        {"resource_type": "topic", "name": topic, "error_code": error} for topic, error in topics
    ]
    usual: Row = {"request_id": name, "node_id": 1, "api_name": api, "error_code": 0}
    return row(METADATA_WRITES, **usual, received_at=at(second), resources=resources)


def claim(write: str, broker: int, second: float | None, **more: object) -> Row:
    usual: Row = {"rule": LOWEST_ACKED_OFFSET.name, "variant": LOWEST_ACKED}
    usual |= {"request_id": write, "broker_id": broker, "evidence": HEARTBEAT}
    usual["applied_at_latest"] = None if second is None else at(second)
    return row(METADATA_WRITE_VISIBILITY, **(usual | more))


def metadata(broker: int, second: float, topic: str, error: int, api: str = "METADATA") -> Line:
    """A broker's line on a topic."""
    times = {"dequeued_at": at(second), "built_at": at(second)}
    line = row(REQUESTS, node_id=broker, api_name=api, **times)
    of_line = {name: line[name] for name in ("recording", "request_id", "node_id", "built_at")}
    return line, row(TOPICS, topic=topic, source=api, error_code=error, **of_line)


def shares_of(
    metric: str, claims: list[Row], writes: list[Row], lines: Sequence[Line] = (), saw: Any = ()
) -> dict[str, tuple[float, int]]:
    """predicted and sample_count of a metric by evidence."""
    tables: dict[Table, list[Row]] = {
        METADATA_WRITE_VISIBILITY: claims,
        METADATA_WRITES: writes,
        REQUESTS: [line for line, _ in lines],
        TOPICS: [topic for _, topic in lines],
        CLIENT_OBSERVATIONS: [*saw],
    }
    found = accuracy(STEPS, tables, ["r"], [("r", "r")])
    chosen = {key: r for key, r in found.items() if key[2] == metric}
    for key, r in chosen.items():
        assert (r["recorded"], r["tolerance"], r["passed"]) == (1.0, 0.0, r["predicted"] == 1.0)
        assert (key[3], r["unit"], r["unknown_count"]) == ("evidence", "share", 0)
    return {key[4]: (r["predicted"], r["sample_count"]) for key, r in chosen.items()}


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
        claim("denied", 11, 25, evidence=API_VERSIONS),
        claim("kept", 11, 25, evidence=API_VERSIONS),
        # These claim nothing.
        claim("denied", 11, 20, evidence=FETCHED),
        claim("denied", 12, None),
        claim("denied", 13, 20, verdict=Verdict.UNKNOWN.value),
        claim("denied", 14, 20, variant=ESTIMATED),
        claim("denied", 16, 20, evidence=ESTIMATED),
        claim("denied", 15, 20, parameter=HEARTBEAT_INTERVAL, parameter_value=500),
    ]
    lines = [
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
        *(metadata(broker, 99, "denied", 3) for broker in (12, 13, 14, 15, 16)),
    ]
    held = dict.fromkeys(("kept", "deleted", "re-created"), True)
    held |= dict.fromkeys(("denied", "again", "cleared"), False)
    found = shares_of("claims_no_broker_denied", claims, writes, lines)
    assert found == {HEARTBEAT: (sum(held.values()) / len(held), len(held)), API_VERSIONS: (1.0, 2)}


#: Each is a claim at a second, of a topic that a client saw in a poll taken up at another.
IN_TIME = {
    "after it": (40.0, 40.0, True),
    "a poll and its answer sooner": (40.0 - SLACK_S, 40.0, True),
    "sooner than that": (40.0 - SLACK_S - 0.001, 40.0, False),
}


def test_claims_that_are_earlier_than_clients_saw_it() -> None:
    """By one poll at most: of broker 11, which responded to the clients that named broker 12."""
    writes = [created(name, 20, (name, 0)) for name in IN_TIME]
    claims = [claim(name, 11, second) for name, (second, *_) in IN_TIME.items()]
    polls = [(name, second) for name, (_, second, _) in IN_TIME.items()]
    # Created twice: each claim is held against what was seen of its own creation.
    writes += [created(f"twice at {s}", s, ("twice", 0)) for s in (20, 70)]
    claims += [claim("twice at 20", 11, 21), claim("twice at 70", 11, 70.1)]
    polls += [("twice", 21), ("twice", 71)]
    saw = [seen(name, 12, second - 2, second + 0.5, second) for name, second in polls]
    # The client took a while, and its library polled broker 13 before and after.
    lines = [
        metadata(*line)
        for name, second in polls
        for line in ((11, second, name, 0), (13, second - 1, name, 0), (13, second + 0.6, name, 0))
    ]
    # Nobody polled the broker that the client named, or saw the other topic.
    claims += [claim("after it", 12, 20), claim("unseen", 11, 20)]
    writes.append(created("unseen", 20, ("unseen", 0)))
    saw.append(seen("unseen", 11, 20, None, 20.1))
    holds = [*(is_in_time for *_, is_in_time in IN_TIME.values()), True, False]
    found = shares_of("claims_not_before_clients_saw_it", claims, writes, lines, saw)
    assert found == {HEARTBEAT: (sum(holds) / len(holds), len(holds))}


# --- estimates: what brokers noted and clients saw ------------------------------------------------


def noted(broker: int, offset: int, second: float) -> Row:
    of: Row = {"broker_id": broker, "metadata_offset": offset}
    return row(APPLIED_OBSERVATIONS, **of, applied_at=at(second))


def applied(offset: int, second: float | None, broker: int = 11) -> Row:
    of: Row = {"rule": LOWEST_ACKED_OFFSET.name, "variant": LOWEST_ACKED, "broker_id": broker}
    verdict = Verdict.UNKNOWN if second is None else Verdict.REPLAYED
    applied_at = None if second is None else at(second)
    values = {"metadata_offset": offset, "applied_at": applied_at, "verdict": verdict.value}
    return row(APPLIED_OFFSETS, **of, **values)


def estimate(write: str, applied_s: float, shown_s: float, proved_s: float) -> Row:
    times = {"applied_at": at(applied_s), "shown_at": at(shown_s)}
    return claim(write, 11, proved_s, evidence=ESTIMATED, **times)


def of_offset(write: str, offset: int) -> Row:
    of: Row = {"rule": LOWEST_ACKED_OFFSET.name, "variant": LOWEST_ACKED, "request_id": write}
    return row(METADATA_WRITE_OUTCOMES, **of, offset_high=offset)


def judged(tables: dict[Table, list[Row]], metric: str) -> list[tuple[Any, ...]]:
    """(predicted, recorded, baseline, tolerance, passed, samples, unknown) of p50 and p90."""
    found = accuracy(STEPS, tables, ["r"], [("r", "r")])
    names = ("predicted", "recorded", "baseline", "tolerance", "passed")
    names += ("sample_count", "unknown_count")
    rows = [found["r", "r", f"{metric}_{p}", "all", "all"] for p in ("p50", "p90")]
    return [tuple(row[name] for name in names) for row in rows]


#: Offset n is applied at second n, and every third only with the one after it.
NOTED = [noted(11, n, n) for n in range(8, 112) if n % 3]


def test_estimates_are_held_against_what_brokers_noted() -> None:
    """Of 40 offsets, by their number: 30 are 5 ms late, 5 are 70 ms early, 5 are unknown."""
    late = [applied(n, n + (not n % 3) + 0.005) for n in range(20, 50)]
    early = [applied(n, n + (not n % 3) - 0.070) for n in range(50, 55)]
    unknown = [applied(n, None) for n in range(55, 60)]
    # Not in the steady phase, of a broker that noted nothing, and beyond what was noted.
    outside = [applied(8, 99), applied(110, 99), applied(30, 99, broker=12), applied(200, 99)]
    tables = {APPLIED_OFFSETS: [*late, *early, *unknown, *outside], APPLIED_OBSERVATIONS: NOTED}
    assert judged(tables, "applied_error") == [
        (5.0, 0.0, None, 10.0, True, 35, 5),
        (None, 0.0, None, 60.0, False, 35, 5),
    ]
    # Fewer than 30 judge nothing.
    tables[APPLIED_OFFSETS] = late[1:]
    assert judged(tables, "applied_error")[1] == (5.0, 0.0, None, None, None, 29, 0)


def estimates() -> dict[Table, list[Row]]:
    """30 writes: each is a tenth of a second early, proved 1 s late, and seen by a client."""
    seconds = {f"w{n}": n + (not n % 3) for n in range(20, 50)}
    # Among them an earlier creation of a topic, and one that no client saw.
    polls = [(name, at_s - 0.18) for name, at_s in seconds.items()] + [("w20", 12.5)]
    lines = [metadata(11, visible - 0.01, name, 0) for name, visible in polls]
    saw = [seen(name, 11, visible - 0.5, visible, 20.1) for name, visible in polls]
    return {
        METADATA_WRITES: [created(f"w{n}", n, (f"w{n}", 0)) for n in range(20, 50)],
        METADATA_WRITE_OUTCOMES: [of_offset(f"w{n}", n) for n in range(20, 50)],
        METADATA_WRITE_VISIBILITY: [
            estimate(name, at_s - 0.1, at_s - 0.2, at_s + 1) for name, at_s in seconds.items()
        ],
        APPLIED_OBSERVATIONS: NOTED,
        REQUESTS: [line for line, _ in lines],
        TOPICS: [topic for _, topic in lines],
        CLIENT_OBSERVATIONS: [*saw, seen("w21", 12, 21, None, 21.1)],
    }


def test_estimates_of_writes_stand_beside_what_heartbeats_prove() -> None:
    tables = estimates()
    assert judged(tables, "applied_error_of_writes") == [
        (100.0, 0.0, 1000.0, 10.0, False, 30, 0),
        (100.0, 0.0, 1000.0, 60.0, False, 30, 0),
    ]
    assert judged(tables, "clients_saw_it_later") == [
        (20.0, 0.0, None, 50.0, True, 30, 0),
        (20.0, 0.0, None, 100.0, True, 30, 0),
    ]


def test_proofs_are_no_earlier_than_brokers_noted() -> None:
    """By heartbeats; API_VERSIONS returns what is still being applied."""
    claims = [
        claim("a", 11, 20.0),
        claim("b", 11, 21.99),
        claim("a", 11, 19.0, evidence=FETCHED),
        claim("a", 11, 19.0, evidence=API_VERSIONS),
        claim("a", 11, 19.0, evidence=ESTIMATED),
    ]
    tables: dict[Table, list[Row]] = {
        METADATA_WRITE_VISIBILITY: claims,
        METADATA_WRITE_OUTCOMES: [of_offset("a", 20), of_offset("b", 21)],
        APPLIED_OBSERVATIONS: NOTED,
    }
    found = accuracy(STEPS, tables, ["r"], [("r", "r")])
    shares = {key[4]: r["predicted"] for key, r in found.items() if key[2].endswith("applied")}
    assert shares == {HEARTBEAT: 0.5}


# --- what a controller that runs the draft noted --------------------------------------------------


def answered(n: int, raw: int | None) -> Row:
    """A heartbeat with offset n at second n, and what the response carries: None is unknown."""
    of: Row = {"rule": LOWEST_ACKED_OFFSET.name, "variant": LOWEST_ACKED, "broker_id": 11}
    of |= {"request_id": f"{n}", "controller_id": 1, "current_metadata_offset": n}
    verdict = (Verdict.UNKNOWN if raw is None else Verdict.REPLAYED).value
    of |= {"lowest_acknowledged_offset_raw": raw, "verdict": verdict}
    return row(HEARTBEAT_OUTCOMES, **of, built_at=at(n + 0.001))


def test_responses_are_held_against_what_the_controller_computed() -> None:
    """All but the unknown have to be the same; an unknown one tells nobody of a write."""
    numbers, of = range(20, 60), {"controller_id": 1, "broker_id": 11}
    notes = [
        row(LOWEST_ACKED_OBSERVATIONS, **of, noted_at=at(n), metadata_offset=n)
        | {"lowest_active_offset": n - 1}
        for n in numbers
    ]
    tables: dict[Table, list[Row]] = {
        LOWEST_ACKED_OBSERVATIONS: notes,
        METADATA_WRITE_OUTCOMES: [of_offset("w", 29), of_offset("x", 40)],
        METADATA_WRITE_VISIBILITY: [
            claim(name, 11, None, known_at=at(s + 0.001)) for name, s in (("w", 31), ("x", 41))
        ],
    }
    for wrong in (set(), {25}):
        raw = {n: 3 if n in wrong else n - 1 for n in numbers} | {30: None}
        tables[HEARTBEAT_OUTCOMES] = [answered(n, raw[n]) for n in numbers]
        found = accuracy(STEPS, tables, ["r"], [("r", "r")])
        drafts = {key[2]: each for key, each in found.items() if each["kind"] == "draft"}
        responses, told = drafts["responses_as_computed"], drafts["writes_known_as_returned"]
        assert (responses["predicted"], responses["passed"]) == (0.975 - len(wrong) / 40, not wrong)
        assert (told["predicted"], told["unknown_count"]) == (0.5, 1)
