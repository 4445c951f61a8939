"""Metadata writes, as the evidence and simulated heartbeats have them."""

import random

from constructed import STEADY_S, Row, at, row, rule_steps
from kip_replay.replay.lowest_acked_offset import (
    ESTIMATED,
    HEARTBEAT_INTERVAL,
    LOWEST_ACKED,
)
from kip_replay.replay.lowest_acked_offset.registration import RULE as LOWEST_ACKED_OFFSET
from kip_replay.replay.lowest_acked_offset.tables import METADATA_WRITE_OUTCOMES
from kip_replay.replay.outcomes import Verdict

STEPS = rule_steps(LOWEST_ACKED_OFFSET.name)
RECORDINGS = ("r", "other", "dark")


def written(second: float, stale_ms: float | None, known_ms: float | None, **more: object) -> Row:
    usual: Row = {"rule": LOWEST_ACKED_OFFSET.name, "variant": LOWEST_ACKED}
    usual |= {"api_name": "CREATE_TOPICS", "received_at": at(second)}
    usual |= {"stale_window_ms": stale_ms, "read_after_write_ms": known_ms}
    usual["verdict"] = (Verdict.UNKNOWN if stale_ms is None else Verdict.REPLAYED).value
    return row(METADATA_WRITE_OUTCOMES, **(usual | more))


def swept(interval_ms: int, times: float, **more: object) -> list[Row]:
    """The plain writes as a simulated heartbeat interval has them: later by a factor."""
    sweep = {"parameter": HEARTBEAT_INTERVAL, "parameter_value": interval_ms}
    rows = []
    for w in PLAIN:
        known = w["read_after_write_ms"]
        later = None if known is None else int(known * 1000 * times) / 1000
        rows.append(w | sweep | {"read_after_write_ms": later} | more)
    return rows


def estimated(write: Row) -> Row:
    """A write as estimated: applied in a quarter of the time that heartbeats take to prove it."""
    stale = write["stale_window_ms"]
    sooner = None if stale is None else int(stale * 250) / 1000
    return write | {"variant": ESTIMATED, "stale_window_ms": sooner, "read_after_write_ms": sooner}


_DICE = random.Random(926)
PLAIN = [
    *(
        written(
            _DICE.randint(10_000, 109_999) / 1000,
            _DICE.randint(0, 2_500_000) / 1000,
            _DICE.randint(1_000_000, 4_500_000) / 1000,
            api_name=_DICE.choice(["CREATE_TOPICS", "CREATE_TOPICS", "DELETE_TOPICS"]),
        )
        for _ in range(38)
    ),
    *(written(second, None, None) for second in (30, 40, 50)),
]
WRITES = [
    *PLAIN,
    # In no steady phase, or in no replay.
    written(STEADY_S[0] - 0.001, 9e6, 9e6),
    written(STEADY_S[1], 9e6, 9e6),
    written(60, 9e6, 9e6, verdict=Verdict.NOT_APPLICABLE.value),
    *(estimated(write) for write in PLAIN),
    # 2000 and 2080 are within 5 % of the recorded 2000.5; the nearer one is meant.
    *swept(500, 0.4),
    *swept(2000, 1.03125),
    *swept(2080, 1.5),
    *swept(2101, 3.0),
    *swept(2000, 7.0, variant="with_kip_1166"),
    # The other recording's interval is 3000 ms: no sweep is near enough.
    *(w | {"recording": "other"} for w in (*PLAIN, *swept(2000, 1.5))),
    # Of most simulated writes of the third, nobody can tell.
    *(w | {"recording": "dark"} for w in PLAIN),
    *swept(2000, 1.0, recording="dark")[:13],
    *swept(2000, 1.0, recording="dark", read_after_write_ms=None)[13:],
]


OUTCOMES = {METADATA_WRITE_OUTCOMES: WRITES}
