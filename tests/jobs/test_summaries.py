"""Predictions of two recordings are judged, and hold."""

from constructed import keyed

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.predictions import accuracy_rows
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from tools.accuracy import page

NAMES = ["failover-4.0", "freeze-4.1"]


def test_every_self_check_is_judged_and_holds(finished: Warehouse) -> None:
    rows = accuracy_rows(finished, NAMES)
    pairs = {(row["recording"], row["predicted_from"], row["recorded_in"]) for row in rows}
    assert pairs == {(name, name, name) for name in NAMES}
    judged = [row for row in rows if row["tolerance"] is not None]
    wanted = {
        (steps.name, tolerance.metric)
        for steps in RULES
        for tolerance in steps.judgement.tolerances
        if tolerance.kind != Kind.OTHER_CLUSTER
        # Nobody produced anything, and no broker wrote down what it applied.
        and steps.name != "min_isr_acks"
        and "applied" not in tolerance.metric
    }
    assert {(row["rule"], row["metric"]) for row in judged} == wanted
    keyed(rows, ("rule", "predicted_from", "recorded_in", "metric", "group_kind", "group_value"))
    for row in judged:
        assert row["error"] == row["predicted"] - row["recorded"]
        assert row["passed"]
        assert abs(row["error"]) <= row["tolerance"]


def test_the_page_of_accuracy_has_every_recording(finished: Warehouse) -> None:
    printed = page(accuracy_rows(finished, NAMES))
    for name in NAMES:
        assert f"### hwm_parking: {name}, replayed as it ran" in printed
    assert "| **no**" not in printed
