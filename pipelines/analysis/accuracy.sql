-- name: shown
-- Of a rule that has none of its own: all rows. The baseline of another cluster, where measures have
-- none, is that nothing changes.
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit,
    coalesce(baseline, CASE WHEN predicted_from <> recorded_in THEN unchanged END) AS baseline,
    predicted, recorded, is_judged, NULL AS scale, sample_count, unknown_count
FROM side_by_side
-- name: percentiles
-- p50, p90 and p99 of the rule in latency_summary, each in the form of a measure.
SELECT recording, variant, metric || '_' || figure AS metric, group_kind, group_value, 'ms' AS unit,
    CASE figure WHEN 'p50' THEN p50_ms WHEN 'p90' THEN p90_ms WHEN 'p99' THEN p99_ms END AS value,
    count AS sample_count, unknown_count
FROM latency_summary CROSS JOIN (VALUES ('p50'), ('p90'), ('p99')) AS figures(figure)
WHERE rule = $rule AND parameter = 'none'
-- name: measures
-- Of a rule that has none of its own: the percentiles that a tolerance is of.
SELECT *, NULL AS baseline FROM percentiles WHERE metric IN (SELECT metric FROM tolerances)
-- name: side_by_side
-- What was predicted beside what was recorded. A count that only one side has is 0 on the other.
-- A self-check is of the same requests on both sides, where measures have that.
-- `unchanged` is what predicted_from itself shows: the guess that another cluster does the same.
WITH sides AS (
    SELECT measures.*, wanted.*, CASE unit WHEN 'count' THEN 0 END AS nothing,
        recording = predicted_from AND variant = own_variant AS is_predicted,
        recording = recorded_in AND variant = 'recorded' AS is_recorded,
        predicted_from = recorded_in AND variant = 'recorded/' || own_variant AS is_of_known,
        recording = predicted_from AND variant = 'recorded' AS is_unchanged
    FROM measures JOIN wanted ON recording IN (predicted_from, recorded_in)
)
SELECT predicted_from, recorded_in, metric, group_kind, group_value, unit,
    max(baseline) FILTER (is_predicted) AS baseline,
    coalesce(max(value) FILTER (is_predicted), max(nothing)) AS predicted,
    coalesce(max(value) FILTER (is_of_known), max(value) FILTER (is_recorded), max(nothing))
        AS recorded,
    max(value) FILTER (is_unchanged) AS unchanged,
    is_judged, replace(own_variant, 'known/', '') AS variant,
    coalesce(max(sample_count) FILTER (is_predicted), 0) AS sample_count,
    coalesce(max(unknown_count) FILTER (is_predicted), 0) AS unknown_count
FROM sides GROUP BY ALL
HAVING bool_or(is_predicted OR is_recorded)
-- name: distributions
-- Mean, p50 and p90 of integers: of each group of a rule's `observed`. A null value is unknown.
-- Percentiles are the values at rank floor(q * (n - 1)), the unknown ranked last: exact, and in
-- memory that only grows with the distinct values.
WITH histogram AS (
    SELECT recording, variant, metric, group_value, value, count(*) AS occurs
    FROM observed GROUP BY ALL
),
ranked AS (
    SELECT *,
        sum(occurs) OVER (PARTITION BY recording, variant, metric, group_value) AS n,
        sum(occurs) OVER (
            PARTITION BY recording, variant, metric, group_value ORDER BY value NULLS LAST
        ) AS up_to
    FROM histogram
)
SELECT recording, variant, metric, group_value, figure,
    CASE figure
        WHEN 'mean' THEN sum(value * occurs) / sum(occurs) FILTER (value IS NOT NULL)
        WHEN 'p50' THEN min(value) FILTER (up_to > (n - 1) * 5 // 10)
        WHEN 'p90' THEN min(value) FILTER (up_to > (n - 1) * 9 // 10)
    END AS value,
    coalesce(sum(occurs) FILTER (value IS NOT NULL), 0) AS sample_count,
    coalesce(sum(occurs) FILTER (value IS NULL), 0) AS unknown_count
FROM ranked CROSS JOIN (VALUES ('mean'), ('p50'), ('p90')) AS figures(figure)
GROUP BY recording, variant, metric, group_value, figure
-- name: prediction_accuracy
-- Rows of prediction_accuracy: of predictions `shown`, of shares that must be 1 in a self-check,
-- and how far two recordings differ: two recordings of one workload whose brokers ran the same
-- protocol, and that predict nothing of each other.
WITH own AS (
    SELECT recorded_in AS recording, own_variant FROM wanted WHERE predicted_from = recorded_in
),
two_runs AS (
    SELECT predicted_from, recorded_in
    FROM pairs
    JOIN own AS one ON one.recording = predicted_from
    JOIN own AS other ON other.recording = recorded_in AND other.own_variant = one.own_variant
    ANTI JOIN wanted
        ON wanted.predicted_from <> wanted.recorded_in
        AND wanted.predicted_from IN (pairs.predicted_from, pairs.recorded_in)
        AND wanted.recorded_in IN (pairs.predicted_from, pairs.recorded_in)
    WHERE predicted_from <> recorded_in
),
sides AS (
    SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit, baseline,
        predicted, recorded, scale, is_judged, sample_count, unknown_count
    FROM shown
    UNION ALL BY NAME
    SELECT predicted_from, recorded_in, replace(own_variant, 'known/', '') AS variant, metric,
        group_kind, group_value, 'share' AS unit, value AS predicted, 1 AS recorded,
        TRUE AS is_judged, sample_count, unknown_count
    FROM shares JOIN wanted ON recording = predicted_from AND recording = recorded_in
    UNION ALL BY NAME
    SELECT predicted_from, recorded_in, 'recorded' AS variant, one.metric, one.group_kind,
        one.group_value, one.unit, one.value AS predicted, other.value AS recorded,
        FALSE AS is_judged, one.sample_count, one.unknown_count
    FROM two_runs
    JOIN measures AS one ON one.recording = predicted_from AND one.variant = 'recorded'
    JOIN measures AS other ON other.recording = recorded_in AND other.variant = 'recorded'
        AND other.metric = one.metric AND other.group_kind = one.group_kind
        AND other.group_value = one.group_value
),
compared AS (
    SELECT sides.*,
        CASE WHEN sides.variant = 'recorded' THEN 'two_runs'
            WHEN kind IS NOT NULL THEN kind
            WHEN predicted_from = recorded_in THEN 'self_check' ELSE 'other_cluster' END AS kind,
        predicted - recorded AS error,
        CASE WHEN is_judged
            THEN greatest(absolute, relative * coalesce(scale, abs(recorded))) END AS tolerance
    FROM sides
    LEFT JOIN tolerances ON tolerances.metric = sides.metric
        AND coalesce(tolerances.variant, sides.variant) = sides.variant
        AND (kind = 'other_cluster') = (predicted_from <> recorded_in)
)
SELECT predicted_from AS recording, $rule AS rule, variant, 'none' AS parameter,
    -1 AS parameter_value, predicted_from, recorded_in, metric, group_kind, group_value, kind,
    unit, baseline, predicted, recorded, error,
    CASE WHEN recorded <> 0 THEN error / recorded END AS relative_error, tolerance,
    CASE WHEN tolerance IS NOT NULL THEN coalesce(abs(error) <= tolerance, FALSE) END AS passed,
    sample_count, unknown_count,
    sample_count + unknown_count >= $samples_min
        AND coalesce(least(one.span_s, other.span_s) >= $short_s, FALSE) AS is_enough
FROM compared
SEMI JOIN pairs USING (predicted_from, recorded_in)
LEFT JOIN spans AS one ON one.recording = predicted_from
LEFT JOIN spans AS other ON other.recording = recorded_in
