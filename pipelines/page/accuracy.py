"""Predictions beside what brokers did: read from prediction_accuracy, by rule and pair."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import copysign, inf, isfinite
from typing import Any

from kip_replay.pipelines.analysis.accuracy import FEW, SHORT_S, Kind
from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.values import Row

#: An error of more tolerances is an arrow at the end of its picture.
FAR = 2
#: Rows of one pair at most: what missed its tolerance first.
MOST_ROWS = 6


@dataclass(frozen=True)
class Check:
    """A prediction beside what was recorded; ``tolerance`` is None where it is not judged.

    ``noise``: how far apart two real runs of the same thing are, None where there are no two.
    """

    rule: str
    predicted_from: str
    recorded_in: str
    variant: str
    metric: str
    group_kind: str
    group_value: str
    unit: str
    baseline: float | None
    predicted: float | None
    recorded: float | None
    error: float | None
    tolerance: float | None
    passed: bool | None
    sample_count: int
    unknown_count: int
    kind: str
    is_enough: bool
    noise: float | None

    @property
    def is_self_check(self) -> bool:
        return self.predicted_from == self.recorded_in

    @property
    def baseline_passed(self) -> bool | None:
        """Whether the baseline is within the tolerance too; None where there is none."""
        if self.baseline is None or self.recorded is None or self.tolerance is None:
            return None
        return abs(self.baseline - self.recorded) <= self.tolerance


def query() -> str:
    """SQL for the rows that the report shows: the judged, and what is shown beside them."""
    beside = [f"'{metric}'" for of in words.texts().values() for metric in of.get("beside", ())]
    return f"""
        WITH runs AS (
            SELECT rule, recorded_in, metric, group_kind, group_value, max(abs(error)) AS noise
            FROM prediction_accuracy WHERE kind = '{Kind.TWO_RUNS}' GROUP BY ALL
        )
        SELECT {", ".join(Check.__dataclass_fields__)} FROM prediction_accuracy
        LEFT JOIN runs USING (rule, recorded_in, metric, group_kind, group_value)
        WHERE kind <> '{Kind.TWO_RUNS}' AND (tolerance IS NOT NULL
            OR (metric IN ({", ".join(beside)}) AND recorded IS NOT NULL))"""


@cache
def _metrics() -> dict[str, str]:
    """Metrics in words, in the order of tables."""
    return {metric: name for of in words.texts().values() for metric, name in of["metrics"].items()}


def checks(rows: Iterable[Row], rules: Sequence[str], names: Sequence[str]) -> list[Check]:
    """By rule; self-checks first, then pairs in the order of the recordings, each by metric."""

    def order(check: Check) -> tuple[Any, ...]:
        rule, pair = rules.index(check.rule), (check.predicted_from, check.recorded_in)
        # Ids by number and not as text.
        measure = check.variant, check.metric, check.group_kind, check.group_value.zfill(12)
        return rule, not check.is_self_check, *map(names.index, pair), *measure

    shown = [row for row in rows if row["rule"] in rules and row["recorded_in"] in names]
    return sorted((Check(**row) for row in shown), key=order)


#: Kinds of predictions in words, in the order of the page: a title, one and many of them, and what
#: those that pass do.
KINDS = {
    Kind.OTHER_CLUSTER: ("Predictions of other clusters", "prediction of another cluster", "lie"),
    Kind.SELF_CHECK: ("Self-checks", "self-check", "lie"),
    Kind.BOUND: ("Bounds", "bound of every single outcome", "hold"),
}
_MANY = {
    "prediction of another cluster": "predictions of other clusters",
    "bound of every single outcome": "bounds of every single outcome",
}


def sentence(found: Sequence[Check]) -> str:
    """How many of each kind pass: kinds are never added up."""
    return sentence_of_rows(vars(check) for check in found)


def sentence_of_rows(rows: Iterable[Row]) -> str:
    """The same of rows of prediction_accuracy."""
    judged = [row for row in rows if row["tolerance"] is not None]
    if not judged:
        return "No prediction was held against a recording."
    counts = (_count(kind, [row for row in judged if row["kind"] == kind]) for kind in KINDS)
    return f"{'; '.join(count for count in counts if count)}."


def _count(kind: Kind, judged: Sequence[Row]) -> str | None:
    if not judged:
        return None
    _, one, verb = KINDS[kind]
    passed = sum(bool(row["passed"]) for row in judged)
    counted = words.count(len(judged), one, _MANY.get(one))
    is_one = 1 in (passed, len(judged))
    text = f"{words.number(passed)} of {counted} {verb}{'s' if is_one else ''}"
    return text if kind is Kind.BOUND else f"{text} within tolerance"


def baseline_sentence(found: Sequence[Check]) -> str | None:
    """How often the baseline would have been good enough."""
    guesses = [check for check in found if check.baseline_passed is not None]
    if not guesses:
        return None
    good = words.count(sum(bool(check.baseline_passed) for check in guesses), "time")
    replayed = words.count(sum(bool(check.passed) for check in guesses), "time")
    return (
        f"Where there is a baseline to compare with ({words.number(len(guesses))}), the baseline "
        f"is within tolerance {good}, the replay {replayed}."
    )


def metric_name(check: Check) -> str:
    """What a row measures, in words."""
    name, value = _metrics().get(check.metric, check.metric), check.group_value
    how = " at the timeout" if value == "timeout" else f": {value.replace('_', ' ')}"
    of_kind = {
        "replica_id": f" of replica {value}",
        "node_id": f", broker {value}",
        "completion": f" returned{how}",
    }
    group = of_kind.get(check.group_kind, f", {words.kind_name(value)}")
    return name if value == "all" else f"{name}{group}"


def view(found: Sequence[Check], questions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """``questions``: the rules to report on, each with its question."""
    rules = []
    for rule, question in questions:
        checks = [check for check in found if check.rule == rule]
        parts = []
        for kind, (title, _, _) in KINDS.items():
            of = [check for check in checks if check.kind == kind]
            parts.append({"title": title, "sentence": sentence(of), "pairs": [*_pairs(of)]})
        named = {"id": rule.replace("_", "-"), "question": question}
        rules.append({**named, **_sentences(checks), "parts": parts})
    little = f"fewer than {FEW} values, or less than {SHORT_S} s"
    return {**_sentences(found), "any": bool(found), "little": little, "rules": rules}


def _sentences(found: Sequence[Check]) -> dict[str, str | None]:
    return {"sentence": sentence(found), "baseline": baseline_sentence(found)}


def _pairs(found: Sequence[Check]) -> Iterator[dict[str, Any]]:
    for (before, after), of_pair in groupby(found, lambda c: (c.predicted_from, c.recorded_in)):
        rows = list(of_pair)
        judged = [check for check in rows if check.tolerance is not None]
        missed = sum(not check.passed for check in judged)
        kept = _most_telling(rows)
        yield {
            "predicted_from": before,
            "recorded_in": after,
            "passed": len(judged) - missed,
            "count": len(judged),
            "missed": missed,
            "variant": words.variant_name(rows[0].variant),
            "is_own": rows[0].is_self_check,
            "rows": [_check(check) for check in kept],
            "left_out": len(rows) - len(kept),
        }


def _most_telling(rows: Sequence[Check]) -> list[Check]:
    """At most MOST_ROWS, what missed among them first; in the order of metrics."""
    places = {name: place for place, name in enumerate(_metrics())}

    def rank(check: Check) -> tuple[int, str]:
        return places.get(check.metric, len(places)), check.metric

    missed_first = sorted(rows, key=lambda check: (check.passed is not False, *rank(check)))
    return sorted(missed_first[:MOST_ROWS], key=rank)


def _check(check: Check) -> dict[str, Any]:
    unit, tolerance = check.unit, check.tolerance
    names = ("predicted", "recorded", "tolerance", "baseline", "error", "noise")
    shown = {name: words.in_unit(getattr(check, name), unit) for name in names}
    if (check.error or 0) > 0 and shown["error"].strip("0."):
        shown["error"] = f"+{shown['error']}"
    passed = bool(check.passed)
    verdict = "within" if passed else "outside"
    if check.kind == Kind.BOUND:
        verdict = "holds" if passed else "does not hold"
    if tolerance is None:
        verdict = "not judged"
    return shown | {
        "name": metric_name(check),
        "unit": words.UNITS.get(unit, unit),
        "off": None if tolerance is None else _off(check.error, tolerance),
        "is_passed": passed,
        "verdict": verdict,
        "missed": tolerance is not None and not passed,
        "is_enough": check.is_enough,
        "samples": words.number(check.sample_count),
        "unknown": words.number(check.unknown_count),
    }


def _off(error: float | None, tolerance: float) -> float | None:
    """An error in tolerances, at most a little more than ``FAR``; None where it is not known."""
    if error is None or not isfinite(error):
        return None
    share = error / tolerance if tolerance > 0 else copysign(inf, error) if error else 0.0
    return round(max(-FAR - 0.3, min(FAR + 0.3, share)), 2)
