"""FETCHes of the metadata log and lags of the high watermark, with KIP-1166 and without."""

from functools import cache
from itertools import product

from small_tables import latencies

from constructed import Row, at, row, rule_steps
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.hwm_parking.outcomes import (
    FETCH_PARKING_OUTCOMES,
    HIGH_WATERMARK_LAG,
    MIDDLE_OF_EPOCH,
    UNEXPLAINED,
)
from kip_replay.replay.hwm_parking.registration import RULE as HWM_PARKING
from kip_replay.replay.model.raft import Completion
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.table import Table
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
    """One that no rule explains, one unknown, one older than the log, one of no leader."""
    usual: Row = {"variant": RECORDED, "dequeued_at": at(5), "built_at": at(5)}
    odd: list[Row] = [
        {"completion": UNEXPLAINED},
        {"verdict": Verdict.UNKNOWN.value, "reason": "its line is lost"},
        {"verdict": Verdict.UNKNOWN.value, "reason": MIDDLE_OF_EPOCH},
        {"verdict": Verdict.NOT_APPLICABLE.value, "reason": "no leader"},
    ]
    return [fetch(recording, 2, n, **(usual | more)) for n, more in enumerate(odd)]


#: Lags of a broker in ms; one that was never learned is not known.
LAGS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, None]


def lags(recording: str) -> list[Row]:
    usual: Row = {"recording": recording, "rule": HWM_PARKING.name, "phase": "steady"}
    usual |= {"leader_id": 1, "leader_epoch": 1}
    rows = []
    for variant, replica in product((RECORDED, WITHOUT_KIP, WITH_KIP), (2, 11)):
        of: Row = {"variant": variant, "replica_id": replica, "is_voter": replica < 10}
        for n, lag in enumerate(LAGS):
            verdict = (Verdict.UNKNOWN if lag is None else Verdict.REPLAYED).value
            lag_of: Row = {"high_watermark": n, "lag_ms": lag, "verdict": verdict}
            lag_of["leader_at"] = at(20 + n)
            rows.append(row(HIGH_WATERMARK_LAG, **usual, **of, **lag_of))
    return rows


@cache
def tables() -> dict[Table, list[Row]]:
    made = {
        FETCH_PARKING_OUTCOMES: [r for name in RAN for r in fetches(name)],
        HIGH_WATERMARK_LAG: [r for name in RAN for r in lags(name)],
    }
    return made | {LATENCY_SUMMARY: latencies(STEPS, made, RECORDINGS)}
