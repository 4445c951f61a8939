"""prediction_accuracy: each prediction beside what real brokers did, a baseline and a verdict.

A prediction is made from one recording under the protocol that another recording's brokers ran (or
the same recording's: a self-check). It is held against what that other recording shows. What is
measured, and which errors pass, each rule says in a ``Judgement``; the rest is here, once.

Theory of operation
-------------------
All of it is SQL in a DuckDB session with a view of each table of the warehouse. A rule's queries
also read what is registered beside those:

* ``pairs(predicted_from, recorded_in)``: what is held against what;
* ``phases(recording, from_us, until_us)``: steady phases, in microseconds since 1970;
* ``percentiles``: p50, p90 and p99 of latency_summary, each a row in the form of a measure.

A rule's ``wanted``, ``measures``, ``shares`` and ``shown`` become small tables of these names, one
after the other, each of which the next may read. They have as many rows as there are figures,
whatever a log's length. What is unknown is a miss: it ranks last in percentiles, is in the
denominator of shares, and a figure that is null because of it does not pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from duckdb import DuckDBPyConnection

from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.phases import SteadyPhase
from kip_replay.replay.schema import PREDICTION_ACCURACY


class Tolerance(NamedTuple):
    """The largest |error| that passes: absolute in the metric's unit, relative, or the larger."""

    metric: str
    variant: str
    self_check: bool
    absolute: float | None
    relative: float | None


@dataclass(frozen=True)
class Judgement:
    """How a rule's predictions are judged: queries, and what the project demands.

    ``wanted``: predicted_from, recorded_in, own_variant (what is predicted: the protocol that
    recorded_in's brokers ran), is_judged; pairs that can tell nothing are left out.
    ``measures``: recording, variant (``recorded`` among them), metric, group_kind, group_value,
    unit, value, baseline, sample_count, unknown_count. No sweeps: no recording shows them.
    ``shares``: recording, metric, group_kind, group_value, value, sample_count, unknown_count, of
    what must be 1 in a self-check.
    ``shown``: the rows of ``side_by_side`` that are kept. A rule may replace their ``baseline``,
    ``is_judged`` and ``scale``: what a relative tolerance is relative to, null for |recorded|.
    ``tolerances``: metrics without one are shown and not judged.
    """

    wanted: str
    measures: str
    shares: str
    tolerances: Sequence[Tolerance]
    shown: str = "FROM side_by_side"


def distribution(histogram: str, group: str) -> str:
    """A query for the figures of each group of a histogram (``group``, value, occurs).

    sample_count, unknown_count, mean, p50 and p90, the values at rank floor(q * (n - 1)): exact,
    and in memory that only grows with the distinct values. A null value is one that is unknown.
    """
    return f"""
    SELECT {group},
           coalesce(sum(occurs) FILTER (value IS NOT NULL), 0) AS sample_count,
           coalesce(sum(occurs) FILTER (value IS NULL), 0) AS unknown_count,
           sum(value * occurs) / sum(occurs) FILTER (value IS NOT NULL) AS mean,
           min(value) FILTER (up_to > (total - 1) * 5 // 10)::DOUBLE AS p50,
           min(value) FILTER (up_to > (total - 1) * 9 // 10)::DOUBLE AS p90
    FROM (
        SELECT *,
               sum(occurs) OVER (PARTITION BY {group}) AS total,
               sum(occurs) OVER (PARTITION BY {group} ORDER BY value NULLS LAST) AS up_to
        FROM {histogram}
    )
    GROUP BY ALL"""


_PERCENTILES = """
SELECT rule, recording, variant, parameter, parameter_value, metric || '_' || percentile AS metric,
       group_kind, group_value, 'ms' AS unit, value, NULL::DOUBLE AS baseline,
       count AS sample_count, unknown_count
FROM latency_summary UNPIVOT INCLUDE NULLS (
    value FOR percentile IN (p50_ms AS p50, p90_ms AS p90, p99_ms AS p99))"""

# A count that only one side has is 0 on the other. ``unchanged`` is what predicted_from itself
# shows: the guess that another cluster does the same.
_SIDE_BY_SIDE = f"""
SELECT predicted_from, recorded_in, own_variant AS variant, metric, group_kind, group_value, unit,
       max(baseline) FILTER (is_predicted) AS baseline,
       coalesce(max(value) FILTER (is_predicted), max(nothing)) AS predicted,
       coalesce(max(value) FILTER (is_recorded), max(nothing)) AS recorded,
       max(value) FILTER (is_unchanged) AS unchanged,
       NULL::DOUBLE AS scale,
       is_judged,
       coalesce(max(sample_count) FILTER (is_predicted), 0) AS sample_count,
       coalesce(max(unknown_count) FILTER (is_predicted), 0) AS unknown_count
FROM (
    SELECT *, CASE unit WHEN 'count' THEN 0 END AS nothing,
           recording = predicted_from AND variant = own_variant AS is_predicted,
           recording = recorded_in AND variant = '{RECORDED}' AS is_recorded,
           recording = predicted_from AND variant = '{RECORDED}' AS is_unchanged
    FROM measures JOIN wanted ON recording IN (predicted_from, recorded_in)
)
GROUP BY ALL
HAVING bool_or(is_predicted OR is_recorded)"""

_HELD_AGAINST_ONE = """
SELECT predicted_from, recorded_in, own_variant AS variant, metric, group_kind, group_value,
       'share' AS unit, value AS predicted, 1 AS recorded, TRUE AS is_judged,
       sample_count, unknown_count
FROM shares JOIN wanted ON recording = predicted_from AND recording = recorded_in"""

_JUDGED = f"""
SELECT predicted_from AS recording, $rule AS rule, variant,
       'none' AS parameter, 'none' AS parameter_value,
       predicted_from, recorded_in, metric, group_kind, group_value, unit,
       baseline, predicted, recorded,
       predicted - recorded AS error,
       CASE WHEN recorded <> 0 THEN error / recorded END AS relative_error,
       CASE WHEN is_judged THEN greatest(absolute, relative * coalesce(scale, abs(recorded))) END
           AS tolerance,
       CASE WHEN tolerance IS NOT NULL THEN coalesce(abs(error) <= tolerance, FALSE) END AS passed,
       sample_count, unknown_count
FROM (
    SELECT *, predicted_from = recorded_in AS self_check
    FROM (FROM shown UNION ALL BY NAME {_HELD_AGAINST_ONE})
)
LEFT JOIN tolerances USING (metric, variant, self_check)
ORDER BY ALL"""

_PAIRS = pa.schema({"predicted_from": pa.string(), "recorded_in": pa.string()})
_PHASES = pa.schema({"recording": pa.string(), "from_us": pa.int64(), "until_us": pa.int64()})
_TOLERANCES = pa.schema(
    {
        "metric": pa.string(),
        "variant": pa.string(),
        "self_check": pa.bool_(),
        "absolute": pa.float64(),
        "relative": pa.float64(),
    }
)


def prediction_accuracy(
    database: DuckDBPyConnection,
    judgements: Mapping[str, Judgement],
    phases: Mapping[str, SteadyPhase],
    pairs: Collection[tuple[str, str]],
) -> pa.Table:
    """Rows of prediction_accuracy for pairs (predicted_from, recorded_in); judgements by rule."""
    phase_rows = [(name, phase.from_us, phase.until_us) for name, phase in phases.items()]
    database.register("pairs", _arrow_table(pairs, _PAIRS))
    database.register("phases", _arrow_table(phase_rows, _PHASES))
    database.execute(f"CREATE TEMP VIEW percentiles AS {_PERCENTILES}")
    schema = PREDICTION_ACCURACY.arrow_schema
    judged = [_judged(database, rule, judgements[rule]).cast(schema) for rule in judgements]
    return pa.concat_tables([schema.empty_table(), *judged])


def _judged(database: DuckDBPyConnection, rule: str, judgement: Judgement) -> pa.Table:
    database.register("tolerances", _arrow_table(judgement.tolerances, _TOLERANCES))
    for name, query in (
        ("wanted", judgement.wanted),
        ("measures", judgement.measures),
        ("side_by_side", _SIDE_BY_SIDE),
        ("shown", judgement.shown),
        ("shares", judgement.shares),
    ):
        database.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")
    return database.sql(_JUDGED, params={"rule": rule}).to_arrow_table()


def _arrow_table(rows: Collection[Sequence[object]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema)
