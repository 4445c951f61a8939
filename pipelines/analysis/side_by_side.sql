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
