"""Prints docs/accuracy.md, every judged prediction beside what brokers did, totals into README.md
and each rule's page, and the errors of all rules."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from kip_replay.pipelines.analysis.accuracy import figure, measure_name
from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.report.pages import KINDS, accuracy_sentence
from kip_replay.pipelines.rule_files import RULES_ERRORS, Kind, rule_pages
from kip_replay.pipelines.rules import RULES
from tools.docs import DOCS, fill

_ERRORS_HEAD = """\
# The largest errors of predictions by variant and metric, in the metric's unit and relative to what
# was predicted, of `count` predictions of another cluster; of self-checks where none was predicted.
# Printed by `make docs` from the table prediction_accuracy; do not edit.
"""
#: The most telling kind last.
_TELLING = (Kind.SELF_CHECK, Kind.OTHER_CLUSTER)

Rows = Iterable[Mapping[str, Any]]
#: By variant and metric: the kind, the largest errors, and of how many.
Errors = Mapping[tuple[str, str], tuple[Kind, float, float, int]]


def largest(rows: Rows, steps: SummedRule) -> Errors:
    """The errors of a rule's headlines in rows of prediction_accuracy.

    Of another cluster's load, those of traffic say something as a share only.
    """
    kinds = {
        f"{metric}_{p}": kind for metric, kind in steps.latencies for p in ("p50", "p90", "p99")
    }
    traffic = steps.traffic_errors.values()
    errors: dict[tuple[str, str, Kind], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        metric, error = row["metric"], abs(row["error"] or 0.0)
        is_headline = metric in traffic or kinds.get(metric) == row["group_kind"]
        is_known = row["is_enough"] and row["error"] is not None and row["predicted"]
        if row["rule"] == steps.name and is_headline and is_known and row["kind"] in _TELLING:
            off = 0.0 if metric in traffic else error, error / abs(row["predicted"])
            errors[row["variant"], metric, Kind(row["kind"])].append(off)
    ordered = sorted(errors.items(), key=lambda item: (*item[0][:2], _TELLING.index(item[0][2])))
    return {
        (variant, metric): (kind, *map(max, zip(*off, strict=True)), len(off))
        for (variant, metric, kind), off in ordered
    }


def text(errors: Mapping[str, Errors]) -> str:
    """The errors of rules, a table each."""
    lines = _ERRORS_HEAD
    for rule, of_rule in errors.items():
        lines += f"\n[{rule}]\n"
        for (variant, metric), (kind, absolute, relative, count) in of_rule.items():
            figures = f'absolute = {absolute:.4g}, relative = {relative:.3g}, of = "{kind}"'
            lines += f"{variant}.{metric} = {{ {figures}, count = {count} }}\n"
    return lines


_FIGURES = ("baseline", "predicted", "recorded", "error")
_MEASURE = itemgetter("rule", "recorded_in", "metric", "group_kind", "group_value")


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page: a part for each kind, in it a section for each rule and pair of recordings."""
    judged = [row for row in rows if row["tolerance"] is not None]
    # How far apart two runs of the same thing are at most, by what was measured.
    noise: dict[tuple[str, ...], float] = defaultdict(float)
    for row in rows:
        if row["kind"] == Kind.TWO_RUNS and row["error"] is not None:
            noise[_MEASURE(row)] = max(noise[_MEASURE(row)], abs(row["error"]))
    about = rule_pages().items()
    rules = "\n".join(f"* {rule}: {texts.get('accuracy', '')}" for rule, texts in about)
    lines = [f"{accuracy_sentence(rows)}\n", f"{rules}\n"]
    for kind, (title, _) in KINDS.items():
        alike = [row for row in judged if row["kind"] == kind]
        lines += [f"## {title}\n", f"{accuracy_sentence(alike)}\n"]
        by = itemgetter("rule", "predicted_from", "recorded_in", "variant")
        for pair, of_pair in groupby(alike, by):
            lines += _section(pair, list(of_pair), noise)
    return "\n".join(lines)


def _section(
    pair: Sequence[str], rows: Sequence[Mapping[str, Any]], noise: Mapping[tuple[str, ...], float]
) -> Iterator[str]:
    rule, before, after, variant = pair
    how = "replayed as it ran" if before == after else f"predicted from {before}"
    yield f"### {rule}: {after}, {how} ({variant})\n"
    yield "| figure | baseline | predicted | recorded | error | two runs | tolerance | within |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|"
    for row in rows:
        cells = [measure_name(row), *(figure(row[name]) for name in _FIGURES)]
        cells.append(figure(noise.get(_MEASURE(row))))
        unknown = f", {row['unknown_count']} unknown" if row["unknown_count"] else ""
        little = "" if row["is_enough"] else ", little data"
        passed = "yes" if row["passed"] else "**no**"
        cells += [f"{row['tolerance']:.3g}", f"{passed}{unknown}{little}"]
        yield f"| {' | '.join(cells)} |"
    yield ""


def totals(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The table in README.md: of each rule and kind how many figures are within tolerance."""
    yield f"| rule | {' | '.join(title.lower() for title, _ in KINDS.values())} |"
    yield f"|---|{'--:|' * len(KINDS)}"
    judged = [row for row in rows if row["tolerance"] is not None]
    passed: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in judged:
        passed[row["rule"], row["kind"]].append(bool(row["passed"]))
    for rule in sorted({rule for rule, _ in passed}):
        of_kinds = (passed[rule, kind] for kind in KINDS)
        cells = (f"{sum(ok)} of {len(ok)}" if ok else "-" for ok in of_kinds)
        yield f"| [`{rule}`](docs/rules/{rule}.md) | {' | '.join(cells)} |"


def print_pages(rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the pages of rows of prediction_accuracy, in order."""
    fill(DOCS / "accuracy.md", page(rows))
    fill(DOCS.parent / "README.md", "\n".join(totals(rows)))
    for steps in RULES:
        mine = [row for row in rows if row["rule"] == steps.name]
        fill(DOCS / "rules" / f"{steps.name}.md", accuracy_sentence(mine))
    errors = {steps.name: own for steps in RULES if (own := largest(rows, steps))}
    RULES_ERRORS.write_text(text(errors), "utf-8")
