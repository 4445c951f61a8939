-- Few recordings have what clients or brokers saw, or were made at an interval of the sweep; a
-- prediction that is there and unknown is a miss, and stays. An error is held against none,
-- shares against all but the unknown. Few samples judge nothing.
WITH held AS (
    SELECT *, metric LIKE 'applied_error%' OR metric LIKE 'clients_saw_it_later%' AS is_error,
        unit = 'share' AS is_share
    FROM side_by_side
)
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit, baseline,
    predicted, CASE WHEN is_error THEN 0 WHEN is_share THEN 1 ELSE recorded END AS recorded,
    CASE WHEN is_share THEN 1 - sample_count / (sample_count + unknown_count) END AS scale,
    sample_count + unknown_count >= $samples_min AS is_judged, sample_count, unknown_count
FROM held WHERE sample_count + unknown_count > 0 AND (is_error OR is_share OR recorded IS NOT NULL)
