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
