"""Predictions beside what brokers did: read from prediction_accuracy, told by rule and pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kip_replay.pipelines.report import pictures, words
from kip_replay.pipelines.report.values import Row

#: Shown without being judged: the rates of requests, since a producer that is answered sooner
#: sends sooner; and what clients saw, since logs prove it only later.
SHOWN_BESIDE = (
    "produces_per_second",
    "create_topics_stale_window_p50",
    "create_topics_stale_window_p90",
)
#: Rows of one pair at most: what missed its tolerance first.
MOST_ROWS = 20
_METRICS = {
    "high_watermark_lag_p50": "lag, median",
    "high_watermark_lag_p90": "lag, 90th percentile",
    "high_watermark_lag_p99": "lag, 99th percentile",
    "fetches_per_second": "FETCHes a second",
    "fetch_bytes_per_second": "bytes a second",
    "fetches": "FETCHes",
    "answers_explained": "answers that the rule explains",
    "answers_explained_or_woken": "answers that it or a wake of all explains",
    "request_partitions_mean": "partitions in a FETCH, mean",
    "request_partitions_p50": "partitions in a FETCH, median",
    "request_partitions_p90": "partitions in a FETCH, 90th percentile",
    "response_partitions_mean": "partitions in an answer, mean",
    "response_partitions_p50": "partitions in an answer, median",
    "response_partitions_p90": "partitions in an answer, 90th percentile",
    "fetch_bytes": "bytes of a FETCH and its answer, mean",
    "fetches_as_recorded": "FETCHes that come out as recorded, to the byte",
    "produce_latency_p50": "time to the answer, median",
    "produce_latency_p90": "time to the answer, 90th percentile",
    "answers_within_2_ms": "answers within 2 ms of the recorded time",
    "answers_with_the_recorded_error": "answers with the recorded error code",
    "produces_per_second": "PRODUCEs a second",
    "claims_not_before_clients_saw_it": "claims no earlier than a client saw it",
    "simulated_read_after_write_p50": "read-after-write, simulated heartbeats, median",
    "simulated_read_after_write_p90": "read-after-write, simulated heartbeats, 90th percentile",
    "create_topics_stale_window_p50": "stale window of new topics, as clients saw it, median",
    "create_topics_stale_window_p90": "stale window of new topics, as clients saw it, 90 %",
}
_KINDS = {
    "broker": "brokers",
    "voter": "controllers",
    "follower": "followers",
    "consumer": "consumers",
    "consumer_without_sessions": "consumers without sessions",
}


@dataclass(frozen=True)
class Check:
    """A prediction beside what was recorded; ``tolerance`` is None where it is not judged."""

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

    @property
    def is_self_check(self) -> bool:
        """Predicted from the recording that it is held against."""
        return self.predicted_from == self.recorded_in

    @property
    def baseline_passed(self) -> bool | None:
        """Whether the naive guess is within the tolerance too; None where there is none."""
        if self.baseline is None or self.recorded is None or self.tolerance is None:
            return None
        return abs(self.baseline - self.recorded) <= self.tolerance


#: The rows that the report shows: the judged, and what is shown beside them.
CHECKS = f"""
    SELECT {", ".join(Check.__dataclass_fields__)} FROM prediction_accuracy
    WHERE tolerance IS NOT NULL OR (metric IN {SHOWN_BESIDE} AND recorded IS NOT NULL)"""


def checks(rows: Iterable[Row], rules: Sequence[str], names: Sequence[str]) -> list[Check]:
    """By rule; self-checks first, then pairs in the order of the recordings, each by metric."""

    def order(check: Check) -> tuple[Any, ...]:
        return (
            rules.index(check.rule),
            not check.is_self_check,
            names.index(check.predicted_from),
            names.index(check.recorded_in),
            check.variant,
            check.metric,
            check.group_kind,
            # Ids by number and not as text.
            check.group_value.zfill(12),
        )

    shown = [row for row in rows if row["rule"] in rules and row["recorded_in"] in names]
    return sorted((Check(**row) for row in shown), key=order)


def sentence(found: Sequence[Check]) -> str:
    """How many predictions passed."""
    judged = [check for check in found if check.tolerance is not None]
    if not judged:
        return "No prediction was held against a recording."
    passed = sum(bool(check.passed) for check in judged)
    missed = len(judged) - passed
    rest = f"; {words.number(missed)} {'does' if missed == 1 else 'do'} not." if missed else "."
    return (
        f"{words.number(passed)} of {words.count(len(judged), 'prediction')} "
        f"{'lies' if passed == 1 else 'lie'} within tolerance{rest}"
    )


def baseline_sentence(found: Sequence[Check]) -> str | None:
    """How often a naive guess would have been good enough."""
    guesses = [check for check in found if check.baseline_passed is not None]
    if not guesses:
        return None
    good = sum(bool(check.baseline_passed) for check in guesses)
    replayed = sum(bool(check.passed) for check in guesses)
    return (
        f"Where there is a naive guess to compare with ({words.number(len(guesses))}), the guess "
        f"is within tolerance {words.count(good, 'time')}, the replay "
        f"{words.count(replayed, 'time')}."
    )


def metric_name(check: Check) -> str:
    """What a row measures, in words."""
    name = _METRICS.get(check.metric, check.metric)
    value = check.group_value
    if value == "all":
        return name
    if check.group_kind == "replica_id":
        return f"{name} of replica {value}"
    if check.group_kind == "node_id":
        return f"{name}, broker {value}"
    if check.group_kind == "completion":
        how = " at the timeout" if value == "timeout" else f": {value.replace('_', ' ')}"
        return f"{name} answered{how}"
    return f"{name}, {_KINDS.get(value, value)}"


def metric_rank(check: Check) -> tuple[int, str]:
    """Lags first, then rates, counts and the share explained."""
    places = {name: place for place, name in enumerate(_METRICS)}
    return (places.get(check.metric, len(places)), check.metric)


def view(found: Sequence[Check], questions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """``questions``: the rules to tell of, each with its anchor's id and question."""
    return {
        "sentence": sentence(found),
        "baseline": baseline_sentence(found),
        "any": bool(found),
        "rules": [
            _rule(rule, question, [check for check in found if check.rule == rule])
            for rule, question in questions
        ],
    }


def _rule(rule: str, question: str, found: Sequence[Check]) -> dict[str, Any]:
    own = [check for check in found if check.is_self_check]
    crossed = [check for check in found if not check.is_self_check]
    return {
        "id": rule.replace("_", "-"),
        "question": question,
        "sentence": sentence(found),
        "baseline": baseline_sentence(found),
        "own": {"sentence": sentence(own), "pairs": list(_pairs(own))},
        "crossed": {"sentence": sentence(crossed), "pairs": list(_pairs(crossed))},
    }


def _pairs(found: Sequence[Check]) -> Iterator[dict[str, Any]]:
    for (before, after), of_pair in groupby(found, lambda c: (c.predicted_from, c.recorded_in)):
        rows = list(of_pair)
        judged = [check for check in rows if check.tolerance is not None]
        missed = [check for check in judged if not check.passed]
        kept = _most_telling(rows)
        yield {
            "predicted_from": before,
            "recorded_in": after,
            "passed": words.number(len(judged) - len(missed)),
            "count": words.number(len(judged)),
            "missed": words.number(len(missed)) if missed else None,
            "variant": words.variant_name(rows[0].variant),
            "rows": [_check(check) for check in kept],
            "left_out": words.number(len(rows) - len(kept)) if len(kept) < len(rows) else None,
        }


def _most_telling(rows: Sequence[Check]) -> list[Check]:
    """At most MOST_ROWS, what missed among them first; in the order of ``metric_rank``."""
    ranked = sorted(rows, key=metric_rank)
    missed_first = sorted(ranked, key=lambda check: check.passed is not False)[:MOST_ROWS]
    return sorted(missed_first, key=metric_rank)


def _check(check: Check) -> dict[str, Any]:
    unit = check.unit
    shown_as = {
        name: words.in_unit(getattr(check, name), unit)
        for name in ("predicted", "recorded", "tolerance", "baseline")
    }
    error = words.in_unit(check.error, unit)
    judged = check.tolerance is not None
    return {
        "name": metric_name(check),
        "unit": words.unit_name(unit),
        **shown_as,
        "error": f"+{error}" if (check.error or 0) > 0 and error.strip("0.") else error,
        "band": pictures.band(check.error, check.tolerance, bool(check.passed))
        if check.tolerance is not None
        else "",
        "verdict": ("within" if check.passed else "outside") if judged else "not judged",
        "samples": words.number(check.sample_count),
        "unknown": words.number(check.unknown_count),
    }
