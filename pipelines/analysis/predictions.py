"""Predictions beside recordings on the terminal."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.outcomes import RECORDED
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
    return sorted((row for row in rows if row["recorded_in"] in judges), key=itemgetter(*_ORDER))


def side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of text: prediction beside recording, with the baseline and the verdict, by rule."""
    lines = []
    for (rule, variant), found in groupby(rows, key=itemgetter("rule", "variant")):
        of_rule = list(found)
        width = max(44, *(len(measure_name(row)) for row in of_rule))
        figures = f"{'baseline':>10}{'predicted':>11}{'recorded':>10}{'error':>11}"
        of = "two recordings of one workload" if variant == RECORDED else f"variant {variant}"
        lines += [f"{rule} ({of})", f"  {'figure':<{width}}{figures}  within"]
        lines += [_side(row, width) for row in of_rule]
    return lines


def _side(row: Mapping[str, Any], width: int) -> str:
    verdict = "not judged"
    if row["tolerance"] is not None:
        verdict = f"{row['tolerance']:.3g} {'yes' if row['passed'] else 'NO'}"
    columns = {"baseline": 10, "predicted": 11, "recorded": 10, "error": 11}
    figures = "".join(f"{figure(row[name]):>{wide}}" for name, wide in columns.items())
    unknown = f"   unknown: {row['unknown_count']}" if row["unknown_count"] else ""
    unknown += "" if row["is_enough"] else "   little data"
    return f"  {measure_name(row):<{width}}{figures}  {verdict}{unknown}"


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
