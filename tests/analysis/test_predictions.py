"""Predictions beside recordings on the terminal."""

from pathlib import Path

from constructed import Row, row
from put_rows import put

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.predictions import accuracy_rows, side_by_side
from kip_replay.pipelines.report.accuracy import sentence
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.hwm_parking import WITH_KIP
from kip_replay.replay.incremental_fetch import INCREMENTAL
from kip_replay.replay.min_isr_acks import ACKS_ALL
from kip_replay.replay.tables import PREDICTION_ACCURACY


def check(rule: str, variant: str, metric: str, passed: bool | None, kind: str) -> Row:
    what = {"rule": rule, "variant": variant, "predicted_from": "r", "recorded_in": "s"}
    what |= {"kind": kind, "is_enough": passed is not False}
    group = {"metric": metric, "group_kind": "all", "group_value": "all", "unit": "ms"}
    figures = {"predicted": 12.5, "recorded": 12.0, "error": 0.5, "unknown_count": 0}
    tolerance = None if passed is None else 1.0
    return row(PREDICTION_ACCURACY, **what, **group, **figures, tolerance=tolerance, passed=passed)


def test_predictions_are_in_a_fixed_order(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    stored = [
        check("min_isr_acks", ACKS_ALL, "closed_loop_latency_p50", False, Kind.OTHER_CLUSTER),
        check("incremental_fetch", INCREMENTAL, "fetch_bytes", None, Kind.SELF_CHECK),
        check("hwm_parking", WITH_KIP, "high_watermark_lag_p50", True, Kind.SELF_CHECK),
    ]
    put(warehouse, "accuracy/s", {PREDICTION_ACCURACY: stored})
    rows = accuracy_rows(warehouse, ["r"], ["s"])

    assert [row["rule"] for row in rows] == ["hwm_parking", "incremental_fetch", "min_isr_acks"]
    assert accuracy_rows(warehouse, ["s"], ["r"]) == []
    judged = "0 of 1 prediction of another cluster lies within tolerance; 1 of 1 self-check lies"
    assert sentence(rows) == f"{judged} within tolerance."
    assert sentence([]) == "No prediction was checked against a recording."
    lines = side_by_side(rows)
    assert [line for line in lines if not line.startswith("  ")] == [
        "hwm_parking (variant with_kip_1166)",
        "incremental_fetch (variant incremental)",
        "min_isr_acks (variant acks_all)",
    ]
    verdicts = [line.split("  ", 1)[1].rsplit("0.5  ", 1)[1] for line in lines if " ms " in line]
    assert verdicts == ["1 yes", "not judged", "1 NO   little data"]
    assert side_by_side([]) == []
