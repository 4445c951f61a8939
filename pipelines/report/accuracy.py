"""Predictions beside what brokers did, read from prediction_accuracy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.folders import rule_pages
from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.marks import Row, Table

#: Rows that a page shows of one rule and kind at most: what missed its tolerance first.
MOST_ROWS = 12
#: Kinds of predictions: a title, one and many of them, and what those that pass do.
KINDS = {
    Kind.OTHER_CLUSTER: (
        "Predictions from other clusters",
        ("prediction of another cluster", "predictions of other clusters"),
    ),
    Kind.SELF_CHECK: ("Self-checks", ("self-check", "self-checks")),
    Kind.BOUND: ("Hard bounds", ("hard bound", "hard bounds")),
    Kind.DRAFT: (
        "Against nodes that run the draft",
        ("figure of nodes that run the draft", "figures of nodes that run the draft"),
    ),
}
_FIGURES = ("predicted", "recorded", "error", "tolerance", "two runs", "baseline")
_COLUMNS = ("measure", *_FIGURES, "values", "unknown", "result")


def sentence(rows: Iterable[Row]) -> str:
    """Counts those of each kind that pass: kinds are never added up."""
    judged = [row for row in rows if row["tolerance"] is not None]
    if not judged:
        return "No prediction was checked against a recording."
    counts = (_count(kind, [row for row in judged if row["kind"] == kind]) for kind in KINDS)
    return f"{'; '.join(filter(None, counts))}."


def _count(kind: Kind, judged: Sequence[Row]) -> str | None:
    if not judged:
        return None
    passed = sum(bool(row["passed"]) for row in judged)
    text = f"{words.number(passed)} of {words.count(len(judged), *KINDS[kind][1])}"
    is_one = 1 in (passed, len(judged))
    if kind is Kind.BOUND:
        return f"{text} hold{'s' if is_one else ''}"
    return f"{text} {'lies' if is_one else 'lie'} within tolerance"


def baseline_sentence(rows: Iterable[Row]) -> str | None:
    """Counts how often the baseline would have been good enough."""
    judged = [
        row for row in rows if None not in (row["baseline"], row["recorded"], row["tolerance"])
    ]
    if not judged:
        return None
    good = sum(abs(row["baseline"] - row["recorded"]) <= row["tolerance"] for row in judged)
    passed = sum(bool(row["passed"]) for row in judged)
    return (
        f"Of {words.number(len(judged))} that have a baseline, the baseline is within tolerance "
        f"{words.count(good, 'time')}, the replay {words.count(passed, 'time')}."
    )


def tables(rows: Sequence[Row]) -> list[Table]:
    """A table for each kind of prediction of a rule that a recording was checked against."""
    found = []
    noise = {_key(row): abs(row["error"] or 0) for row in rows if row["kind"] == Kind.TWO_RUNS}
    beside = {name for stated in rule_pages().values() for name in stated.get("beside", ())}
    for kind, (title, _) in KINDS.items():
        of = [
            row
            for row in rows
            if row["kind"] == kind and (row["tolerance"] is not None or row["metric"] in beside)
        ]
        if of:
            missed_first = sorted(of, key=lambda row: (row["passed"] is not False, _order(row)))
            cells = [_cells(row, noise.get(_key(row))) for row in missed_first[:MOST_ROWS]]
            left = len(of) - len(cells)
            note = sentence(of) + (f" {left} more in prediction_accuracy." if left else "")
            is_text = [name in ("measure", "result") for name in _COLUMNS]
            found.append(Table(title, note, _COLUMNS, is_text, cells))
    return found


def _key(row: Row) -> tuple[str, str, str]:
    return row["metric"], row["group_kind"], row["group_value"]


def _order(row: Row) -> tuple[Any, ...]:
    return row["predicted_from"], row["metric"], row["group_kind"], row["group_value"].zfill(12)


def _cells(row: Row, noise: float | None) -> list[str]:
    unit = row["unit"]
    figures = {**row, "two runs": noise}
    shown = [words.in_unit(figures[name], unit) for name in _FIGURES]
    result = "not judged" if row["tolerance"] is None else "✓ within"
    if row["passed"] is False:
        result = "✗ outside"
    if not row["is_enough"]:
        result += ", little data"
    counts = [words.number(row[name]) for name in ("sample_count", "unknown_count")]
    return [_measure(row), *shown, *counts, result]


def _measure(row: Row) -> str:
    """Names what a row measures, in words."""
    names: Mapping[str, str] = rule_pages()[row["rule"]]["metrics"]
    unit = words.UNITS.get(row["unit"], row["unit"])
    name = names.get(row["metric"], row["metric"]) + (f" ({unit})" if unit else "")
    if row["group_kind"] != "all":
        kind = row["group_kind"].removesuffix("_id").replace("_", " ")
        name += f", {kind} {row['group_value']}"
    return (
        name
        if row["predicted_from"] == row["recorded_in"]
        else f"{name}, from {row['predicted_from']}"
    )
