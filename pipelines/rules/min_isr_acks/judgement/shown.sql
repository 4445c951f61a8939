-- Across recordings producers react; the rest is of each PRODUCE as it arrived. The baseline of another
-- cluster: that producers wait as long there.
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit,
    CASE WHEN predicted_from <> recorded_in AND unit = 'ms' THEN unchanged END AS baseline,
    predicted, recorded, TRUE AS is_judged, NULL AS scale, sample_count, unknown_count
FROM side_by_side
