"""hwm_parking against real brokers, beside what prediction_accuracy has (docs/accuracy.md)."""

from collections import Counter

import pytest

from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.states import phases_table
from kip_replay.replay.hwm_parking.outcomes import (
    WITH_KIP,
    WITHOUT_KIP,
    HighWatermarkLag,
    ParkedFetch,
)
from kip_replay.replay.model import STAMP_US
from kip_replay.replay.records import RECORDED

from .recorded import ENGINE, STEPS, Row, events_of, found, outcomes, replayed, steady

pytestmark = pytest.mark.golden

MAX_WAIT_US = 500_000
#: Leaders' epochs by recording, and the variant that its Kafka runs.
EPOCHS = {
    "metadata-4.0": ([(2, 1)], WITHOUT_KIP),
    "metadata-4.1": ([(2, 2)], WITH_KIP),
    "freeze-4.1": ([(2, 1)], WITH_KIP),
    "failover-4.0": ([(1, 1), (2, 2)], WITHOUT_KIP),
}
EVERY_EPOCH = pytest.mark.parametrize(
    ("name", "leader"), [(name, epoch) for name, (epochs, _) in EPOCHS.items() for epoch in epochs]
)


def rows_of(name: str, leader: tuple[int, int], variant: str) -> list[Row]:
    """FETCHes that the leader of an epoch completed or rejected."""
    return [
        row
        for row in outcomes(name, ParkedFetch)
        if (row["leader_id"], row["leader_epoch"], row["variant"]) == (*leader, variant)
        and row["verdict"] == "replayed"
    ]


@EVERY_EPOCH
def test_fetches_are_as_many_and_when_they_were(name: str, leader: tuple[int, int]) -> None:
    """Each replica's within 2 %. By the second up to 1.4 % slip over its end."""
    both = [rows_of(name, leader, variant) for variant in (RECORDED, EPOCHS[name][1])]
    recorded, predicted = (Counter(row["replica_id"] for row in rows) for rows in both)
    assert predicted == pytest.approx(recorded, rel=0.02)
    recorded, predicted = (Counter(row["dequeued_at"] // 10**6 for row in rows) for rows in both)
    misplaced = sum(abs(predicted[s] - recorded[s]) for s in recorded | predicted)
    assert misplaced <= 0.015 * recorded.total()


@EVERY_EPOCH
def test_only_who_fetches_no_more_is_unknown(name: str, leader: tuple[int, int]) -> None:
    """At the shutdown replicas leave one by one; whatever moves after that they never learn.

    A replayed replica may miss its last response: it is still parked when it leaves.
    """
    last_built_us: dict[int, int] = {}
    for row in rows_of(name, leader, RECORDED):
        if row["completion"] != "error":
            last = last_built_us.get(row["replica_id"], 0)
            last_built_us[row["replica_id"]] = max(last, row["built_at"])
    for lag in outcomes(name, HighWatermarkLag):
        of_leader = (lag["leader_id"], lag["leader_epoch"]) == leader
        if of_leader and lag["verdict"] == "unknown":
            parked_us = 0 if lag["variant"] == RECORDED else MAX_WAIT_US
            left_us = last_built_us[lag["replica_id"]] - parked_us - STAMP_US
            assert lag["leader_at"] >= max(left_us, steady(name).until_us)


@pytest.mark.parametrize("name", EPOCHS)
def test_every_recorded_fetch_is_a_row_with_a_known_cause(name: str) -> None:
    """These recordings begin before the first election: nothing is hidden in an earlier log.

    Controllers that never led have no lag.
    """
    rows = outcomes(name, ParkedFetch)
    assert "unknown" not in {row["verdict"] for row in rows}
    recorded = [row["recorded_request_id"] for row in rows if row["variant"] == RECORDED]
    events = events_of(name, "hwm_parking").values()
    assert sorted(recorded) == sorted(i for of in events for i in of["request_id"].to_pylist())
    leaders = "SELECT DISTINCT leader_id, leader_epoch FROM high_watermark_lag ORDER BY ALL"
    assert found(name, "hwm_parking", leaders) == EPOCHS[name][0]


@pytest.mark.parametrize("name", ["metadata-4.0", "metadata-4.1"])
def test_a_change_at_any_moment_waits_as_long_as_metadata_writes_did(name: str) -> None:
    """Not as an advance does, most of which are of a NoOpRecord; so does its stale window."""
    medians, phases = {}, {"phases": phases_table({name: steady(name)})}
    for rule in ("hwm_parking", "lowest_acked_offset"):
        replayed(name, rule)
        query = f"""
            SELECT metric, median(value_us) / 1000 AS ms FROM latencies
            WHERE parameter = 'none' AND variant IN ('{WITHOUT_KIP}', 'estimated')
                AND of_group.value = '{"broker" if rule == "hwm_parking" else "all"}' GROUP BY 1"""
        text = Text(query, {"latencies": STEPS[rule].text("latencies")})
        rows = ENGINE.rows(text, [name], phases).to_pylist()
        medians |= {row["metric"]: row["ms"] for row in rows}
    writes = f"""
        SELECT median(lag_ms) FROM high_watermark_lag WHERE variant = '{WITHOUT_KIP}'
            AND phase = 'steady' AND NOT is_voter AND EXISTS (FROM metadata_writes AS w
                WHERE w.node_id = leader_id AND error_code = 0
                    AND leader_at BETWEEN received_at AND built_at + INTERVAL 2 MILLISECOND)"""
    [(of_writes,)] = found(name, "hwm_parking", writes)
    at_any_moment, of = medians["high_watermark_lag_at_any_moment"], medians["stale_window"]
    assert at_any_moment == pytest.approx(of_writes, abs=3)
    assert medians["high_watermark_lag"] > at_any_moment + 100
    assert medians["stale_window_at_any_moment"] == pytest.approx(of, abs=3)
