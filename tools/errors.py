"""errors.toml of each rule: how far predictions have been from brokers that ran the rule."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.rule_steps import RuleSteps

_HEAD = """\
# The largest errors of predictions by variant and metric, in the metric's unit and relative to what
# was predicted, of so many predictions of another cluster; of self-checks where none was predicted.
# Printed by `make docs` from the table prediction_accuracy; do not edit.
"""
#: Of most telling kind first.
_KINDS = (Kind.OTHER_CLUSTER, Kind.SELF_CHECK)

Rows = Iterable[Mapping[str, Any]]
#: By variant and metric: the kind, the largest errors, and of how many.
Errors = Mapping[tuple[str, str], tuple[Kind, float, float, int]]


def largest(rows: Rows, steps: RuleSteps) -> Errors:
    """The errors of a rule's headlines in rows of prediction_accuracy."""
    kinds = {
        f"{metric}_{p}": kind
        for metric, kind in steps.figures.HEADLINES
        for p in ("p50", "p90", "p99")
    }
    traffic = steps.figures.TRAFFIC_ERRORS.values()
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]]
    found = defaultdict(lambda: defaultdict(list))
    for row in rows:
        metric, of = row["metric"], row["group_kind"]
        is_headline = metric in traffic or kinds.get(metric) == of
        if row["rule"] != steps.name or not (is_headline and row["is_enough"]):
            continue
        if row["error"] is not None and row["predicted"]:
            error = abs(row["error"])
            found[row["variant"], metric][row["kind"]].append((error, error / row["predicted"]))
    return {
        key: (kind, *map(max, zip(*by_kind[kind], strict=True)), len(by_kind[kind]))
        for key, by_kind in sorted(found.items())
        for kind in [next((kind for kind in _KINDS if by_kind.get(kind)), None)]
        if kind
    }


def text(errors: Errors) -> str:
    lines = [_HEAD]
    for (variant, metric), (kind, absolute, relative, count) in errors.items():
        lines.append(
            f"[{variant}.{metric}]\n"
            f"absolute = {absolute:.4g}\nrelative = {relative:.3g}\n"
            f'of = "{kind}"\ncount = {count}\n'
        )
    return "\n".join(lines)
