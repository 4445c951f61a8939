"""Counts predictions beside what brokers did: rows of prediction_accuracy in a sentence."""

from collections.abc import Iterable

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.marks import Row

#: Kinds of predictions: a title, and one and many of them.
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


def sentence(rows: Iterable[Row]) -> str:
    """Counts those of each kind that pass: kinds are never added up."""
    judged = [row for row in rows if row["tolerance"] is not None]
    counts = []
    for kind, (_, names) in KINDS.items():
        passed = [bool(row["passed"]) for row in judged if row["kind"] == kind]
        if passed:
            text = f"{words.number(sum(passed))} of {words.count(len(passed), *names)}"
            is_one = 1 in (sum(passed), len(passed))
            lies = f"{'lies' if is_one else 'lie'} within tolerance"
            holds = f"hold{'s' if is_one else ''}"
            counts.append(f"{text} {holds if kind is Kind.BOUND else lies}")
    if not counts:
        return "No prediction was checked against a recording."
    return f"{'; '.join(counts)}."
