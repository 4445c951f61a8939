"""Summaries follow from the outcomes of two recordings, and do not depend on Spark's partitions."""

from collections import Counter, defaultdict

import pytest
from constructed import Key, Micros, Row, assert_same, keyed, micros, spread

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.intervals import BLOCKS
from kip_replay.pipelines.analysis.predictions import accuracy_rows
from kip_replay.pipelines.page.accuracy import sentence_of_rows
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.hwm_parking.tables import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG
from kip_replay.replay.table import Table
from kip_replay.replay.tables import BANDWIDTH_SUMMARY, LATENCY_SUMMARY
from tools.accuracy import page

NAMES = ["failover-4.0", "freeze-4.1"]


def rows_of(warehouse: Warehouse, table: Table) -> list[Row]:
    rows: list[Row] = warehouse.rows(table, NAMES).to_pylist()
    return rows


def test_lag_percentiles_follow_from_the_lags(finished: Warehouse) -> None:
    key = ("recording", "variant", "parameter_value")
    lags: dict[Key, list[Micros]] = defaultdict(list)
    for row in rows_of(finished, HIGH_WATERMARK_LAG):
        if (row["phase"], row["verdict"], row["is_voter"]) == ("steady", "replayed", False):
            lags[tuple(row[name] for name in key)].append(micros(row["lag_ms"]))
    found = [
        row
        for row in rows_of(finished, LATENCY_SUMMARY)
        if (row["metric"], row["group_value"]) == ("high_watermark_lag", "broker")
    ]
    assert_same(keyed(found, key), {of: spread(values) for of, values in lags.items()})


def test_bandwidth_adds_up(finished: Warehouse) -> None:
    sums = rows_of(finished, BANDWIDTH_SUMMARY)
    assert len({(row["recording"], row["span_s"]) for row in sums}) == len(NAMES)
    key = ("recording", "variant", "parameter_value")
    requests: dict[Key, int] = defaultdict(int)
    for row in sums:
        assert row["bytes"] == row["record_bytes"] + row["overhead_bytes"] > row["record_bytes"]
        assert row["bytes_per_second"] * row["span_s"] == pytest.approx(row["bytes"])
        for name in ("requests", "partitions", "bytes"):
            assert sum(of or 0 for of in row[f"{name}_per_block"]) == row[name]
            assert len(row[f"{name}_per_block"]) == BLOCKS
        if (row["rule"], row["direction"]) == ("hwm_parking", "request"):
            requests[tuple(row[name] for name in key)] += row["requests"]
    replayed: dict[Key, int] = defaultdict(int)
    for row in rows_of(finished, FETCH_PARKING_OUTCOMES):
        replayed[tuple(row[name] for name in key)] += row["verdict"] == "replayed"
    # Steady is a part of the whole, and by far the larger one.
    assert requests.keys() == replayed.keys()
    assert all(0.85 < requests[of] / replayed[of] < 1 for of in requests)


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


def test_the_constant_guess_fails_where_a_replica_is_away(finished: Warehouse) -> None:
    """One FETCH per append and replica (two with the KIP) knows nothing of absences."""
    for recording, replica in {"freeze-4.1": "13", "failover-4.0": "2"}.items():
        [row] = [
            row
            for row in accuracy_rows(finished, [recording])
            if (row["group_kind"], row["group_value"]) == ("replica_id", replica)
        ]
        assert abs(row["baseline"] - row["recorded"]) > row["tolerance"]
        assert row["passed"]


def test_predictions_are_counted_by_kind(finished: Warehouse) -> None:
    kinds = Counter(
        row["kind"] for row in accuracy_rows(finished, NAMES) if row["tolerance"] is not None
    )
    own, bounds = kinds[Kind.SELF_CHECK], kinds[Kind.BOUND]
    assert own > 20
    assert kinds.total() == own + bounds
    assert sentence_of_rows(accuracy_rows(finished, NAMES)) == (
        f"{own} of {own} self-checks lie within tolerance;"
        f" {bounds} of {bounds} bounds of every single outcome hold."
    )
