"""prediction_accuracy: each prediction beside what real brokers did, a baseline and a verdict.

A prediction is made from one recording under the protocol that another recording's brokers ran (or
the same recording's: a self-check). It is held against what that other recording shows. What is
measured, and which errors pass, each rule states in a ``Judgement``; the rest is here, once.

All of it is SQL in a DuckDB session with a view of each table of the warehouse, and beside those:

* ``pairs(predicted_from, recorded_in)``: what is held against what;
* ``phases(recording, from_us, until_us)``: steady phases, and ``is_steady(time)`` in rows with one;
* ``percentiles``: p50, p90 and p99 of latency_summary, each in the form of a measure.

What is unknown is a miss: it ranks last in percentiles, is in the denominator of shares, and a
figure that is null because of it does not pass.

Rows are of three kinds, never added up: predictions of another cluster, self-checks, and bounds, of
which nothing may lie outside. Where two recordings of one workload ran the same protocol, a fourth
kind has how far apart two real runs are: the noise, beside which an error is seen.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa
from duckdb import DuckDBPyConnection

from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.phases import SteadyPhase
from kip_replay.replay.table import BOOL, LONG, MS, TEXT
from kip_replay.replay.tables import PREDICTION_ACCURACY

#: Figures of fewer values, or of a shorter steady phase, say little.
FEW, SHORT_S = 30, 10


class Kind(StrEnum):
    """What a row of prediction_accuracy is."""

    OTHER_CLUSTER = "other_cluster"
    SELF_CHECK = "self_check"
    BOUND = "bound"
    TWO_RUNS = "two_runs"


class Tolerance(NamedTuple):
    """The largest |error| that passes: absolute in the metric's unit, relative, or the larger."""

    metric: str
    variant: str
    self_check: bool
    absolute: float | None
    relative: float | None


@dataclass(frozen=True)
class Judgement:
    """How a rule's predictions are judged: what fills ``_TABLES``, and what the project demands.

    ``shown`` is a query for the rows of ``side_by_side`` that are kept. It may replace their
    ``baseline``, ``is_judged`` and ``scale``: what a relative tolerance is relative to, null for
    |recorded|. Metrics without one of ``tolerances`` are shown and not judged. ``bounds``: those of
    ``shares`` that hold only if nothing lies outside. ``spans``: the seconds that figures are of.
    ``of_controllers``: they are, and neither producers nor delays between brokers change them.
    """

    wanted: str
    measures: str
    shares: str
    tolerances: Sequence[Tolerance]
    shown: str = "FROM side_by_side"
    bounds: Sequence[str] = ()
    spans: str = "SELECT recording, (until_us - from_us) / 1e6 AS span_s FROM phases"
    of_controllers: bool = False


# They have as many rows as there are figures, whatever a log's length.
# wanted: own_variant is what to predict, the protocol that recorded_in's brokers ran. Pairs that
# show nothing are left out.
# measures: no sweeps, which no recording shows; what brokers did is the variant "recorded".
# shares: of what must be 1 in a self-check.
_TABLES = """
CREATE OR REPLACE TEMP TABLE wanted (
    predicted_from VARCHAR, recorded_in VARCHAR, own_variant VARCHAR,
    is_judged BOOLEAN DEFAULT TRUE);
CREATE OR REPLACE TEMP TABLE measures (
    recording VARCHAR, variant VARCHAR, metric VARCHAR, group_kind VARCHAR, group_value VARCHAR,
    unit VARCHAR, value DOUBLE, baseline DOUBLE, sample_count BIGINT, unknown_count BIGINT);
CREATE OR REPLACE TEMP TABLE shares (
    recording VARCHAR, metric VARCHAR,
    group_kind VARCHAR DEFAULT 'all', group_value VARCHAR DEFAULT 'all',
    value DOUBLE, sample_count BIGINT, unknown_count BIGINT DEFAULT 0)"""

_SHARED = """
CREATE TEMP MACRO is_steady(time) AS epoch_us(time) >= from_us AND epoch_us(time) < until_us;
CREATE TEMP VIEW percentiles AS
SELECT rule, recording, variant, parameter, parameter_value, metric || '_' || percentile AS metric,
       group_kind, group_value, 'ms' AS unit, value, count AS sample_count, unknown_count
FROM latency_summary UNPIVOT INCLUDE NULLS (
    value FOR percentile IN (p50_ms AS p50, p90_ms AS p90, p99_ms AS p99))"""

# A count that only one side has is 0 on the other. ``unchanged`` is what predicted_from itself
# shows: the guess that another cluster does the same.
_SIDE_BY_SIDE = f"""
CREATE OR REPLACE TEMP TABLE side_by_side AS
SELECT predicted_from, recorded_in, own_variant AS variant, metric, group_kind, group_value, unit,
       max(baseline) FILTER (is_predicted) AS baseline,
       coalesce(max(value) FILTER (is_predicted), max(nothing)) AS predicted,
       coalesce(max(value) FILTER (is_recorded), max(nothing)) AS recorded,
       max(value) FILTER (is_unchanged) AS unchanged, NULL::DOUBLE AS scale, is_judged,
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

# Two recordings of one workload whose brokers ran the same protocol, and that predict nothing of
# each other, are two runs of the same thing.
_TWO_RUNS = f"""
WITH own AS (
    SELECT recorded_in AS recording, own_variant FROM wanted WHERE predicted_from = recorded_in
)
SELECT pairs.predicted_from, pairs.recorded_in, '{RECORDED}' AS variant, measures.metric,
       measures.group_kind, measures.group_value, measures.unit, other.value AS predicted,
       measures.value AS recorded, FALSE AS is_judged, other.sample_count, other.unknown_count
FROM pairs
JOIN own AS one ON one.recording = pairs.recorded_in
JOIN own AS two ON two.recording = pairs.predicted_from AND two.own_variant = one.own_variant
ANTI JOIN wanted ON wanted.predicted_from IN (pairs.predicted_from, pairs.recorded_in)
    AND wanted.recorded_in IN (pairs.predicted_from, pairs.recorded_in)
    AND wanted.predicted_from <> wanted.recorded_in
JOIN measures ON measures.recording = pairs.recorded_in AND measures.variant = '{RECORDED}'
JOIN measures AS other
    ON other.recording = pairs.predicted_from AND other.variant = '{RECORDED}'
    AND (other.metric, other.group_kind, other.group_value)
        = (measures.metric, measures.group_kind, measures.group_value)
WHERE pairs.predicted_from <> pairs.recorded_in"""

_JUDGED = f"""
SELECT predicted_from AS recording, $rule AS rule, variant,
       'none' AS parameter, -1 AS parameter_value,
       predicted_from, recorded_in, metric, group_kind, group_value,
       CASE WHEN variant = '{RECORDED}' THEN '{Kind.TWO_RUNS}'
            WHEN list_contains($bounds, metric) THEN '{Kind.BOUND}'
            WHEN self_check THEN '{Kind.SELF_CHECK}' ELSE '{Kind.OTHER_CLUSTER}' END AS kind, unit,
       baseline, predicted, recorded, predicted - recorded AS error,
       CASE WHEN recorded <> 0 THEN error / recorded END AS relative_error,
       CASE WHEN is_judged THEN greatest(absolute, relative * coalesce(scale, abs(recorded))) END
           AS tolerance,
       CASE WHEN tolerance IS NOT NULL THEN coalesce(abs(error) <= tolerance, FALSE) END AS passed,
       sample_count, unknown_count,
       sample_count + unknown_count >= {FEW}
           AND coalesce(least(one.span_s, other.span_s) >= {SHORT_S}, FALSE) AS is_enough
FROM (SELECT *, predicted_from = recorded_in AS self_check FROM rows)
JOIN wanted_pairs USING (predicted_from, recorded_in)
LEFT JOIN tolerances USING (metric, variant, self_check)
LEFT JOIN spans AS one ON one.recording = predicted_from
LEFT JOIN spans AS other ON other.recording = recorded_in
ORDER BY ALL"""

_PAIRS = pa.schema({"predicted_from": TEXT, "recorded_in": TEXT})
_PHASES = pa.schema({"recording": TEXT, "from_us": LONG, "until_us": LONG})
_TOLERANCES = pa.schema(
    {"metric": TEXT, "variant": TEXT, "self_check": BOOL, "absolute": MS, "relative": MS}
)


def prediction_accuracy(
    engine: Any,
    judgements: Mapping[str, Judgement],
    phases: Mapping[str, SteadyPhase],
    pairs: Collection[tuple[str, str]],
) -> pa.Table:
    """Rows of prediction_accuracy for pairs (predicted_from, recorded_in); judgements by rule."""
    database = engine.warehouse.database({name for pair in pairs for name in pair})
    spans = [(name, phase.from_us, phase.until_us) for name, phase in phases.items()]
    database.register("phases", _arrow_table(spans, _PHASES))
    database.register("wanted_pairs", _arrow_table(pairs, _PAIRS))
    # What a recording's brokers ran, its self-check says.
    own = {(name, name) for pair in pairs for name in pair}
    database.register("pairs", _arrow_table(sorted({*pairs, *own}), _PAIRS))
    database.execute(_SHARED)
    schema = PREDICTION_ACCURACY.arrow_schema
    judged = [_judged(database, rule, judgements[rule]).cast(schema) for rule in judgements]
    return pa.concat_tables([schema.empty_table(), *judged])


def _judged(database: DuckDBPyConnection, rule: str, judgement: Judgement) -> pa.Table:
    database.execute(_TABLES)
    for name in ("wanted", "measures", "shares"):
        database.execute(f"INSERT INTO {name} BY NAME FROM ({getattr(judgement, name)})")
    database.execute(_SIDE_BY_SIDE)
    rows = f"FROM ({judgement.shown}) UNION ALL BY NAME ({_HELD_AGAINST_ONE})"
    rows += f" UNION ALL BY NAME ({_TWO_RUNS})"
    database.execute(f"CREATE OR REPLACE TEMP VIEW rows AS {rows}")
    database.execute(f"CREATE OR REPLACE TEMP VIEW spans AS {judgement.spans}")
    database.register("tolerances", _arrow_table(judgement.tolerances, _TOLERANCES))
    return database.sql(
        _JUDGED, params={"rule": rule, "bounds": [*judgement.bounds]}
    ).to_arrow_table()


def _arrow_table(rows: Collection[Sequence[object]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema)


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
           min(value) FILTER (up_to > (n - 1) * 5 // 10)::DOUBLE AS p50,
           min(value) FILTER (up_to > (n - 1) * 9 // 10)::DOUBLE AS p90
    FROM (
        SELECT *, sum(occurs) OVER (PARTITION BY {group}) AS n,
               sum(occurs) OVER (PARTITION BY {group} ORDER BY value NULLS LAST) AS up_to
        FROM {histogram}
    )
    GROUP BY ALL"""
