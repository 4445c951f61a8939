"""FETCHes of two kinds of client, with fetch sessions and without."""

import random
from collections.abc import Iterator

from constructed import STEADY_S, Row, at, row, rule_steps
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, INCREMENTAL_DRAFT, SESSION_SLOTS
from kip_replay.replay.incremental_fetch.outcomes import FETCH_SESSION_OUTCOMES
from kip_replay.replay.incremental_fetch.registration import RULE as INCREMENTAL_FETCH
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.table import Table

STEPS = rule_steps(INCREMENTAL_FETCH.name)
#: What the brokers of each recording ran.
RAN = {"sessions": INCREMENTAL, "sessions again": INCREMENTAL, "none": FULL}
RECORDINGS = tuple(RAN)


def fetch(recording: str, variant: str, second: float, **values: object) -> Row:
    usual: Row = {"recording": recording, "rule": INCREMENTAL_FETCH.name, "variant": variant}
    usual |= {"node_id": 11, "client_kind": "follower"}
    usual |= {"dequeued_at": at(second), "built_at": at(second + 0.25)}
    usual["is_full"] = variant == FULL or RAN[recording] == FULL
    usual |= {"request_partitions": 3, "response_partitions": 2}
    usual |= {"forgotten_partitions": 0, "added_partitions": 0}
    usual |= {"record_bytes": 100, "request_bytes": 60, "response_bytes": 150}
    return row(FETCH_SESSION_OUTCOMES, **(usual | values))


NOT_REPLAYED: Row = {
    "verdict": Verdict.UNKNOWN.value,
    "reason": "the session began before the log",
    **dict.fromkeys(("request_partitions", "response_partitions")),
    **dict.fromkeys(("request_bytes", "response_bytes")),
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
            listed = size if runs_as == FULL else dice.randint(0, 2)
            figures: Row = {
                "request_partitions": listed,
                "response_partitions": listed // 2,
                "request_bytes": 40 + 6 * listed,
                "response_bytes": 20 + 120 * listed,
                "record_bytes": 100 * listed,
            }
            # Three of the 15 FETCHes of consumers, and one of a follower, are unknown.
            if variant != RECORDED and number in (9, 18, 20, 27):
                figures = NOT_REPLAYED | ({"reason": "a FETCH is lost"} if number % 3 else {})
            compared = {"equals_recorded": number != 20} if variant == INCREMENTAL else {}
            if "verdict" in figures or (compared and number % 7 == 0):
                compared = {"equals_recorded": None}
            yield fetch(recording, variant, second, **(same | figures | compared))


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
    for slots, listed in ((2, 40), (500, 20)):
        sweep = {"parameter": SESSION_SLOTS, "parameter_value": slots}
        yield fetch(recording, INCREMENTAL, 53, request_partitions=listed, **sweep)
        yield fetch(recording, INCREMENTAL, 54, equals_recorded=False, **sweep)
        yield fetch(recording, INCREMENTAL, 55, **NOT_REPLAYED, **sweep)


ROWS = [r for name in RECORDINGS for made in (history, odd_ones) for r in made(name)]


def tables() -> dict[Table, list[Row]]:
    return {FETCH_SESSION_OUTCOMES: ROWS}
