"""What a run ends with on the terminal: headline figures, and predictions beside recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from duckdb import DuckDBPyRelation

from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay import rules
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.schema import PREDICTION_ACCURACY

_NO_FETCH = "no FETCH of the metadata log was replayed in its steady phase"
Row = Mapping[str, Any]
#: The rules in the order in which they are told of.
_ORDER = tuple(steps.name for steps in RULES)


@dataclass(frozen=True)
class Figures:
    """Summed up of one rule and recording, sweeps left out.

    ``traffic``: rows of bandwidth_summary, summed over nodes. ``latencies``: rows of
    latency_summary. ``unknown``: FETCHes that could not be replayed (incremental_fetch).
    """

    traffic: tuple[Row, ...] = ()
    latencies: tuple[Row, ...] = ()
    unknown: int = 0

    def latency(self, variant: str, metric: str) -> Row | None:
        """The row of a variant and metric; None where there is none."""
        found = (r for r in self.latencies if (r["variant"], r["metric"]) == (variant, metric))
        return next(found, None)

    def traffic_of(self, variant: str) -> list[Row]:
        """The rows of a variant's traffic."""
        return [row for row in self.traffic if row["variant"] == variant]


_TRAFFIC = """
SELECT recording, rule, variant, client_kind, direction, sum(requests)::BIGINT AS requests,
       sum(partitions)::BIGINT AS partitions, sum(bytes)::BIGINT AS bytes, max(span_s) AS span_s
FROM bandwidth_summary WHERE parameter = 'none' GROUP BY ALL ORDER BY ALL
"""
# Of everyone; the lag of the metadata log is that of brokers.
_LATENCIES = """
SELECT * FROM latency_summary
WHERE parameter = 'none' AND CASE WHEN metric = 'high_watermark_lag' THEN group_value = 'broker'
                                  ELSE group_kind = 'all' END
ORDER BY recording, rule, variant, metric
"""
_UNKNOWN = """
SELECT recording, rule, count(*) AS n FROM fetch_session_outcomes
WHERE parameter = 'none' AND variant = $variant AND verdict = $unknown GROUP BY ALL
"""


def headline_figures(
    warehouse: Warehouse, recordings: Sequence[str]
) -> dict[tuple[str, str], Figures]:
    """Figures by (recording, rule); nothing where a rule has nothing to say."""
    with warehouse.database(recordings) as database:
        traffic, latencies = (_by_rule(database.sql(sql)) for sql in (_TRAFFIC, _LATENCIES))
        values = {"variant": rules.INCREMENTAL, "unknown": Verdict.UNKNOWN.value}
        unknown = _by_rule(database.sql(_UNKNOWN, params=values))
    figures = {}
    for key in {*traffic, *latencies}:
        of_rule = tuple(traffic.get(key, ())), tuple(latencies.get(key, ()))
        figures[key] = Figures(*of_rule, sum(row["n"] for row in unknown.get(key, ())))
    return figures


def _by_rule(found: DuckDBPyRelation) -> dict[tuple[str, str], list[Row]]:
    rows: dict[tuple[str, str], list[Row]] = {}
    for row in found.to_arrow_table().to_pylist():
        rows.setdefault((row["recording"], row["rule"]), []).append(row)
    return rows


# --- text ----------------------------------------------------------------------------------------


def headlines(figures: Mapping[tuple[str, str], Figures], recordings: Sequence[str]) -> list[str]:
    """Lines of text: a block for each recording and rule, one line where there is nothing."""
    return [
        line
        for name in recordings
        for rule in _ORDER
        if rule in _BLOCKS
        for line in _BLOCKS[rule](name, figures.get((name, rule), Figures()))
    ]


def _hwm_parking(name: str, figures: Figures) -> Iterator[str]:
    variants = [v for v in (RECORDED, rules.WITHOUT_KIP, rules.WITH_KIP) if figures.traffic_of(v)]
    if not variants:
        yield f"hwm_parking on {name}: {_NO_FETCH}"
        return
    yield f"hwm_parking on {name}: metadata FETCHes, and how late brokers learn"
    yield f"  {'':<18}{'FETCHes/s':>10}{'bytes/s':>10}{'p50 ms':>10}{'p90 ms':>9}{'p99 ms':>9}"
    for variant in variants:
        rows = figures.traffic_of(variant)
        requests = sum(row["requests"] for row in rows if row["direction"] == "request")
        rate = requests / max(row["span_s"] for row in rows)
        lag = figures.latency(variant, "high_watermark_lag")
        lags = f"{_ms(lag, 'p50'):>10}{_ms(lag, 'p90'):>9}{_ms(lag, 'p99'):>9}"
        yield f"  {variant:<18}{rate:>10.2f}{_bytes_per_second(rows):>10,.0f}{lags}{_unknowns(lag)}"


def _incremental_fetch(name: str, figures: Figures) -> Iterator[str]:
    parts = [
        f"{variant} {_partitions_per_fetch(rows)}, {_bytes_per_second(rows):,.0f}"
        for variant in (rules.FULL, rules.INCREMENTAL, rules.INCREMENTAL_DRAFT)
        if (rows := figures.traffic_of(variant))
    ]
    if not parts:
        none = f"all {figures.unknown} FETCHes are unknown (fetch_session_outcomes says why)"
        nothing = none if figures.unknown else "no FETCH of topic partitions in its steady phase"
        yield f"incremental_fetch on {name}: {nothing}"
        return
    what = "partitions in a follower's FETCH, and bytes/s of all FETCHes and answers"
    yield f"incremental_fetch on {name}: {what}"
    unknown = f"   unknown: {figures.unknown}" if figures.unknown else ""
    yield f"  {'   '.join(parts)}{unknown}"


def _bytes_per_second(rows: Sequence[Row]) -> float:
    return float(sum(row["bytes"] for row in rows) / max(row["span_s"] for row in rows))


def _partitions_per_fetch(rows: Sequence[Row]) -> str:
    follower = rules.ClientKind.FOLLOWER.value, "request"
    requests = [row for row in rows if (row["client_kind"], row["direction"]) == follower]
    fetches = sum(row["requests"] for row in requests)
    return f"{sum(row['partitions'] or 0 for row in requests) / fetches:.2f}" if fetches else "-"


def _min_isr_acks(name: str, figures: Figures) -> Iterator[str]:
    variants = RECORDED, rules.ACKS_ALL, rules.ACKS_MIN_INSYNC_REPLICAS
    waits = {variant: figures.latency(variant, "produce_latency") for variant in variants}
    if not any(waits.values()):
        yield f"min_isr_acks on {name}: no PRODUCE with acks=all"
        return
    yield f"min_isr_acks on {name}: producers with acks=all, ms, p50 / p90"
    pairs = "   ".join(f"{variant} {_pair(row)}" for variant, row in waits.items())
    yield f"  until the answer: {pairs}{_unknowns(waits[variants[-1]])}"
    exposure = figures.latency(variants[-1], "exposure")
    yield f"  exposure, p90: {_ms(exposure, 'p90')}{_unknowns(exposure)}"


def _lowest_acked_offset(name: str, figures: Figures) -> Iterator[str]:
    stale = figures.latency(rules.LOWEST_ACKED, "stale_window")
    finest = figures.latency(rules.FINEST_EVIDENCE, "stale_window")
    known = figures.latency(rules.LOWEST_ACKED, "read_after_write")
    if stale is None and known is None:
        yield f"lowest_acked_offset on {name}: no metadata write in its steady phase"
        return
    yield f"lowest_acked_offset on {name}: ms, p50 / p90"
    by_finest = f" (by the finest evidence {_pair(finest)})" if finest else ""
    read_after_write = f"read-after-write {_pair(known)}{_unknowns(known)}"
    yield f"  stale window {_pair(stale)}{by_finest}{_unknowns(stale)}   {read_after_write}"


_BLOCKS: Mapping[str, Callable[[str, Figures], Iterator[str]]] = {
    rules.HWM_PARKING.name: _hwm_parking,
    rules.INCREMENTAL_FETCH.name: _incremental_fetch,
    rules.MIN_ISR_ACKS.name: _min_isr_acks,
    rules.LOWEST_ACKED_OFFSET.name: _lowest_acked_offset,
}


def _pair(row: Row | None) -> str:
    return f"{_ms(row, 'p50')} / {_ms(row, 'p90')}"


def _ms(row: Row | None, percentile: str) -> str:
    value = row[f"{percentile}_ms"] if row else None
    return "unknown" if value is None else f"{value:,.1f}"


def _unknowns(row: Row | None) -> str:
    return f"   unknown: {row['unknown_count']}" if row and row["unknown_count"] else ""


# --- accuracy ------------------------------------------------------------------------------------


def accuracy_rows(
    warehouse: Warehouse, recordings: Sequence[str], recorded_in: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of prediction_accuracy of some recordings, judged by each other or by ``recorded_in``.

    In a fixed order: by rule, then pair. Small by nature.
    """
    judges = recordings if recorded_in is None else recorded_in
    rows = warehouse.rows(PREDICTION_ACCURACY, recordings).to_pylist()
    order = ("predicted_from", "recorded_in", "variant", "metric", "group_kind", "group_value")

    def place(row: Row) -> tuple[Any, ...]:
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
    return f"  {measure_name(row):<{width}}{figures}  {verdict}{_unknowns(row)}"


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
