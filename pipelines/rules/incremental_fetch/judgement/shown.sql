-- The baseline of another cluster: that nothing changes. A self-check of no FETCH is none.
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit,
    CASE WHEN predicted_from <> recorded_in THEN unchanged END AS baseline,
    predicted, recorded, is_judged, NULL AS scale, sample_count, unknown_count
FROM side_by_side WHERE predicted_from <> recorded_in OR sample_count + unknown_count > 0
