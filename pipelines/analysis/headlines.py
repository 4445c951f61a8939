"""What a run ends with on the terminal: headline figures, and predictions beside recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from kip_replay.pipelines.report.data import figures_of_rules, rule_figures
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.report.values import Percentiles, RuleFigures
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay import rules
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.schema import PREDICTION_ACCURACY

_NO_FETCH = "no FETCH of the metadata log was replayed in its steady phase"
#: The rules in the order of their replays.
_ORDER = tuple(steps.name for steps in RULES)
#: Read besides the summaries: FETCHes that could not be replayed.
_UNKNOWN = f"""
SELECT recording, count(*) AS n FROM fetch_session_outcomes
WHERE parameter = 'none' AND variant = '{rules.INCREMENTAL}'
    AND verdict = '{Verdict.UNKNOWN.value}' GROUP BY ALL"""
_QUERIES = {rules.INCREMENTAL_FETCH.name: {"unknown": _UNKNOWN}}


def headline_figures(
    warehouse: Warehouse, recordings: Sequence[str]
) -> dict[tuple[str, str], RuleFigures]:
    """What the summaries hold by (recording, rule)."""
    logs = [Logs(name) for name in recordings]
    with warehouse.database(recordings) as database:
        found = {
            rule: rule_figures(database, kind, logs, _QUERIES.get(rule, {}))
            for rule, kind in figures_of_rules().items()
        }
    return {(one.recording, rule): one for rule, every in found.items() for one in every}


def headlines(
    figures: Mapping[tuple[str, str], RuleFigures], recordings: Sequence[str]
) -> list[str]:
    """Lines of text: a block for each recording and rule, one line where there is nothing."""
    keys = [(name, rule) for name in recordings for rule in _ORDER if rule in _BLOCKS]
    return [line for name, rule in keys for line in _BLOCKS[rule](figures[name, rule])]


def _hwm_parking(one: RuleFigures) -> Iterator[str]:
    variants = [v for v in (RECORDED, rules.WITHOUT_KIP, rules.WITH_KIP) if one.total(v)]
    if not variants:
        yield f"hwm_parking on {one.recording}: {_NO_FETCH}"
        return
    yield f"hwm_parking on {one.recording}: metadata FETCHes, and how late brokers learn"
    yield f"  {'':<18}{'FETCHes/s':>10}{'bytes/s':>10}{'p50 ms':>10}{'p90 ms':>9}{'p99 ms':>9}"
    for variant in variants:
        rates = one.rates(variant)
        lag = one.spread("high_watermark_lag", variant, "replica_kind", "broker")
        lags = f"{_ms(lag, 'p50'):>10}{_ms(lag, 'p90'):>9}{_ms(lag, 'p99'):>9}{_unknowns(lag)}"
        yield f"  {variant:<18}{rates.fetches:>10.2f}{rates.bytes:>10,.0f}{lags}"


def _incremental_fetch(one: RuleFigures) -> Iterator[str]:
    parts = []
    for variant in (rules.FULL, rules.INCREMENTAL, rules.INCREMENTAL_DRAFT):
        if one.total(variant):
            follower = one.total(variant, rules.ClientKind.FOLLOWER.value)
            mean = follower.request_partitions_mean if follower else None
            listed = "-" if mean is None else f"{mean:.2f}"
            parts.append(f"{variant} {listed}, {one.rates(variant).bytes:,.0f}")
    unknown = sum(row["n"] for row in one.found("unknown"))
    if not parts:
        none = f"all {unknown} FETCHes are unknown (fetch_session_outcomes says why)"
        nothing = none if unknown else "no FETCH of topic partitions in its steady phase"
        yield f"incremental_fetch on {one.recording}: {nothing}"
        return
    what = "partitions in a follower's FETCH, and bytes/s of all FETCHes and answers"
    yield f"incremental_fetch on {one.recording}: {what}"
    yield f"  {'   '.join(parts)}{f'   unknown: {unknown}' if unknown else ''}"


def _min_isr_acks(one: RuleFigures) -> Iterator[str]:
    variants = RECORDED, rules.ACKS_ALL, rules.ACKS_MIN_INSYNC_REPLICAS
    waits = {variant: one.spread("produce_latency", variant) for variant in variants}
    if not any(waits.values()):
        yield f"min_isr_acks on {one.recording}: no PRODUCE with acks=all"
        return
    yield f"min_isr_acks on {one.recording}: producers with acks=all, ms, p50 / p90"
    pairs = "   ".join(f"{variant} {_pair(wait)}" for variant, wait in waits.items())
    yield f"  until the answer: {pairs}{_unknowns(waits[variants[-1]])}"
    exposure = one.spread("exposure", variants[-1])
    yield f"  exposure, p90: {_ms(exposure, 'p90')}{_unknowns(exposure)}"


def _lowest_acked_offset(one: RuleFigures) -> Iterator[str]:
    stale = one.spread("stale_window", rules.LOWEST_ACKED)
    finest = one.spread("stale_window", rules.FINEST_EVIDENCE)
    known = one.spread("read_after_write", rules.LOWEST_ACKED)
    if stale is None and known is None:
        yield f"lowest_acked_offset on {one.recording}: no metadata write in its steady phase"
        return
    yield f"lowest_acked_offset on {one.recording}: ms, p50 / p90"
    by_finest = f" (by the finest evidence {_pair(finest)})" if finest else ""
    read_after_write = f"read-after-write {_pair(known)}{_unknowns(known)}"
    yield f"  stale window {_pair(stale)}{by_finest}{_unknowns(stale)}   {read_after_write}"


_BLOCKS: Mapping[str, Callable[[RuleFigures], Iterator[str]]] = {
    rules.HWM_PARKING.name: _hwm_parking,
    rules.INCREMENTAL_FETCH.name: _incremental_fetch,
    rules.MIN_ISR_ACKS.name: _min_isr_acks,
    rules.LOWEST_ACKED_OFFSET.name: _lowest_acked_offset,
}


def _pair(spread: Percentiles | None) -> str:
    return f"{_ms(spread, 'p50')} / {_ms(spread, 'p90')}"


def _ms(spread: Percentiles | None, percentile: str) -> str:
    value = getattr(spread, percentile) if spread else None
    return "unknown" if value is None else f"{value:,.1f}"


def _unknowns(spread: Percentiles | None) -> str:
    return f"   unknown: {spread.unknown}" if spread and spread.unknown else ""


def accuracy_rows(
    warehouse: Warehouse, recordings: Sequence[str], recorded_in: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of prediction_accuracy of some recordings, judged by each other or by ``recorded_in``.

    In a fixed order: by rule, then pair. Small by nature.
    """
    judges = recordings if recorded_in is None else recorded_in
    rows = warehouse.rows(PREDICTION_ACCURACY, recordings).to_pylist()
    order = ("predicted_from", "recorded_in", "variant", "metric", "group_kind", "group_value")

    def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
        rule = row["rule"]  # one that is no longer replayed comes last
        known = _ORDER.index(rule) if rule in _ORDER else len(_ORDER)
        return known, rule, *(row[name] for name in order)

    return sorted((row for row in rows if row["recorded_in"] in judges), key=place)


def side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of text: prediction beside recording, with the baseline and the verdict, by rule."""
    lines = []
    for (rule, variant), found in groupby(rows, key=itemgetter("rule", "variant")):
        of_rule = list(found)
        width = max(44, *(len(measure_name(row)) for row in of_rule))
        figures = f"{'baseline':>10}{'predicted':>11}{'recorded':>10}{'error':>9}"
        lines += [f"{rule} (variant {variant})", f"  {'figure':<{width}}{figures}  within"]
        lines += [_side(row, width) for row in of_rule]
    return lines


def _side(row: Mapping[str, Any], width: int) -> str:
    verdict = "not judged"
    if row["tolerance"] is not None:
        verdict = f"{row['tolerance']:.3g} {'yes' if row['passed'] else 'NO'}"
    columns = {"baseline": 10, "predicted": 11, "recorded": 10, "error": 9}
    figures = "".join(f"{figure(row[name]):>{wide}}" for name, wide in columns.items())
    unknown = f"   unknown: {row['unknown_count']}" if row["unknown_count"] else ""
    return f"  {measure_name(row):<{width}}{figures}  {verdict}{unknown}"


def measure_name(row: Mapping[str, Any]) -> str:
    """What a row of prediction_accuracy measures: metric, group, unit."""
    group = "" if row["group_value"] == "all" else f" {row['group_value']}"
    unit = "" if row["unit"] in ("count", "share") else f", {row['unit']}"
    return f"{row['metric']}{group}{unit}"


def figure(value: float | None) -> str:
    """A number in four digits; none as a dash."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) and abs(value) >= 10 else f"{value:.4g}"


def accuracy_line(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many of the judged figures are within their tolerance."""
    judged = [row for row in rows if row["tolerance"] is not None]
    passed = sum(bool(row["passed"]) for row in judged)
    return f"predictions within their tolerance: {passed} of {len(judged)}"
