-- The delay that the closest replica adds. delay_unmoved: how much longer the other records took in one
-- recording than in the other, which is drift between two runs.
SELECT predicted_from, recorded_in, variant, replace(metric, 'delay_p', 'added_delay_p') AS metric,
    group_kind, group_value, unit, 0 AS baseline, predicted - unchanged AS predicted,
    recorded - unchanged AS recorded, metric LIKE 'delay_p%' AS is_judged, NULL AS scale,
    sample_count, unknown_count
FROM side_by_side WHERE predicted_from <> recorded_in
