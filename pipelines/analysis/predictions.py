"""Reads predictions beside recordings, and names what they measure."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import PREDICTION_ACCURACY

_ORDER = ("rule", "predicted_from", "recorded_in", "variant", "metric", "group_kind", "group_value")


def accuracy_rows(
    warehouse: Warehouse, recordings: Sequence[str], recorded_in: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of prediction_accuracy of some recordings, judged by each other or by ``recorded_in``.

    By rule, then pair. Small by nature.
    """
    judges = recordings if recorded_in is None else recorded_in
    rows = warehouse.rows(PREDICTION_ACCURACY, recordings).to_pylist()
    return in_order(row for row in rows if row["recorded_in"] in judges)


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts rows by rule, then pair."""
    return sorted(rows, key=itemgetter(*_ORDER))


def measure_name(row: Mapping[str, Any]) -> str:
    """Names what a row of prediction_accuracy measures: metric, group, unit."""
    group = "" if row["group_value"] == "all" else f" {row['group_value']}"
    unit = "" if row["unit"] in ("count", "share") else f", {row['unit']}"
    return f"{row['metric']}{group}{unit}"


def figure(value: float | None) -> str:
    """A number in four digits; none as a dash."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) and abs(value) >= 10 else f"{value:.4g}"
